"""Noise that is none, or that drowns everything, in place of the real one."""

from __future__ import annotations

import pytest

from sudare.privacy import release as door


class NoNoise:
    """What would come out without noise, or with the same offset everywhere."""

    valid = False
    offset = 0.0

    def laplace(self, values, scale):
        return values + round(self.offset)

    gaussian = infinity_norm = laplace

    def gamma_norm(self, values, rate, grid):
        return values + self.offset


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(door, "noise_source", lambda random_state: NoNoise())


@pytest.fixture
def far_off(monkeypatch):
    """Noise that drowns everything, upwards."""
    monkeypatch.setattr(door, "noise_source", lambda random_state: NoNoise())
    monkeypatch.setattr(NoNoise, "offset", 2.0**61)


@pytest.fixture
def far_below(monkeypatch):
    monkeypatch.setattr(door, "noise_source", lambda random_state: NoNoise())
    monkeypatch.setattr(NoNoise, "offset", -(2.0**61))

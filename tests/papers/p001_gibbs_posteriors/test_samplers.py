"""Steps of samplers meet their bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sudare.gibbs.proximal_sampler import ProximalPlan
from sudare.papers.p001_gibbs_posteriors import samplers
from tests.papers.made_up_tables import made_up_adult


def test_steps_of_langevin_meet_the_bound():
    """The two terms of Dalalyan's bound are half of the distance each."""
    width, smallest, largest, distance = 10, 1.8, 47.0, 1e-7
    steps = samplers.langevin_steps(width, smallest, largest, distance)
    duration = 2 / smallest * (width / 4 * math.log(largest / smallest) + math.log(1 / distance))
    step = duration / steps
    first = 0.5 * math.exp(width / 4 * math.log(largest / smallest) - duration * smallest / 2)
    second = math.sqrt(width * largest**2 * duration * step / 8)
    assert_allclose([first, second], distance / 2)
    assert 1e20 < steps < 1e21


@pytest.mark.parametrize("distance", [1e-7, 1e-12])
def test_steps_of_the_proximal_sampler_are_nearly_those_of_its_plan(distance):
    plan = ProximalPlan(1000, 10, 1.0, 0.18, 10.0, 1e-9, 2 * distance)
    steps = samplers.proximal_steps(10, plan.prior_precision, plan.largest_precision, distance)
    assert abs(steps - plan.steps) <= 1


def test_census_rows_are_those_of_the_public_schema(monkeypatch):
    table = made_up_adult(50, np.random.default_rng(1))
    monkeypatch.setattr(samplers, "data", {"adult-train": table}.get)
    rows, norm_bound = samplers.census_rows()
    assert (rows.count, rows.width) == (50, 92)
    matrix, targets = rows.together()
    assert np.linalg.norm(matrix, axis=1).max() <= norm_bound
    assert set(targets.ravel()) == {-1.0, 1.0}

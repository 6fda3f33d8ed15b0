"""Noisy proportions shrunk by a prior that is learned from all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.reconstruction.proportion_shrinkage import PRIORS, SizePrior, posterior_mean


@given(st.lists(st.floats(-0.2, 1.0), min_size=2, max_size=12), st.floats(1e-4, 0.1))
def test_shrunken_proportions_are_proportions(estimates: list[float], error: float) -> None:
    found = posterior_mean(np.array(estimates), np.full(len(estimates), error))
    assert np.all(np.isfinite(found))
    assert np.all(found >= 0)
    assert found.sum() == pytest.approx(1.0)


def test_shrinkage_leaves_alone_what_is_sure() -> None:
    sure = np.array([0.55, 0.3, 0.15])
    assert posterior_mean(sure, np.full(3, 1e-5)) == pytest.approx(sure, abs=1e-4)


def test_shrinkage_keeps_the_order() -> None:
    estimates = np.array([0.5, 0.3, 0.1, 0.06, 0.03, 0.01])
    assert np.all(np.diff(posterior_mean(estimates, np.full(6, 0.05))) < 0)


def test_priors_have_mean_one() -> None:
    edges = np.concatenate([[0.0], np.geomspace(1e-9, 4e3, 4000)])
    middles = (edges[1:] + edges[:-1]) / 2
    for prior in PRIORS:
        assert prior.masses(edges) @ middles == pytest.approx(1.0, rel=2e-3)
    assert SizePrior.alike(2.0).log_density_of_sum(1) == pytest.approx(math.log(4 * math.exp(-2)))

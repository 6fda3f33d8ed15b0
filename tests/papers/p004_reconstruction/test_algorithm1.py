"""The paper's methods for one column."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p004_reconstruction import (
    figure2,
)
from sudare.papers.p004_reconstruction import (
    table2 as columns,
)
from sudare.papers.p004_reconstruction.algorithm1 import (
    binned,
    iterative_technique,
    l1_accuracy,
    mixture_histogram,
)


def test_the_technique_compared_with_recovers_what_has_little_noise():
    perturbation = columns.LaplacePerturbation((0, 10), epsilon=16.0)
    column = np.random.default_rng(0).choice([1.5, 4.5, 8.5], 3000, p=[0.2, 0.5, 0.3])
    edges = np.arange(0.0, 11)
    shares = iterative_technique(perturbation, perturbation.perturb(column, random_state=0), edges)
    assert shares.sum() == pytest.approx(1)
    assert l1_accuracy(shares, np.histogram(column, edges)[0] / 3000) > 85


def test_binning_for_algorithm_1_keeps_count_and_mean():
    y = np.random.default_rng(0).normal(size=10_000)
    places, counts = binned(y)
    assert counts.sum() == 10_000
    assert places @ counts / 10_000 == pytest.approx(y.mean())
    assert len(places) <= 600


def test_masses_outside_of_the_bins_count_into_the_last_ones():
    shares = mixture_histogram(figure2.FIGURE_1, np.array([0.0, 4.0, 6.0]))
    assert shares.sum() == pytest.approx(1)
    assert len(shares) == 2

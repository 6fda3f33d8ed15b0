"""The technique that paper 004 compares with."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p004_reconstruction import iterative_bayesian_technique
from sudare.papers.p004_reconstruction.printed_values import l1_accuracy
from sudare.perturbation import LaplacePerturbation


def test_it_recovers_what_has_little_noise():
    perturbation = LaplacePerturbation((0, 10), epsilon=16.0)
    column = np.random.default_rng(0).choice([1.5, 4.5, 8.5], 3000, p=[0.2, 0.5, 0.3])
    edges = np.arange(0.0, 11)
    y = perturbation.perturb(column, random_state=0)
    truth = np.histogram(column, edges)[0] / 3000
    shares = iterative_bayesian_technique(perturbation, y, edges)
    assert shares.sum() == pytest.approx(1)
    assert l1_accuracy(shares, truth) > 85
    stopped = iterative_bayesian_technique(perturbation, y, edges, max_iter=1)
    assert stopped.sum() == pytest.approx(1)
    assert l1_accuracy(stopped, truth) < l1_accuracy(shares, truth)

"""Minimisers of many tables at once are those of each alone."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.frames.rows import Rows
from sudare.linear.batched_newton import batched_minimisers
from sudare.linear.losses import CappedSquares, Logistic, SmoothedHinge
from sudare.linear.solvers import Objective, minimised


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5), CappedSquares(1.0)])
def test_batched_minimisers_agree_with_one_by_one(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(6, 30, 4))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    y = np.where(X[:, :, 0] + 0.3 * random.normal(size=(6, 30)) > 0, 1.0, -1.0)
    linear = random.normal(size=(6, 4))
    batched = batched_minimisers(X, y, loss, 0.5, linear)
    for found, rows, targets, term in zip(batched, X, y, linear, strict=True):
        one = Objective(Rows.held(rows, targets[:, np.newaxis]), loss, 0.5, term, 1.0)
        np.testing.assert_allclose(found, minimised(one, 1e-8).parameters, atol=1e-6)

"""Penalised fits on own data: the minimisers, and the choice of a penalty by cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from sudare.experts.batched_ridge_cross_validation import batch_fitted, fold_numbers, solved


@pytest.fixture
def task():
    generator = np.random.default_rng(7)
    designs = generator.normal(size=(4, 30, 3))
    return designs, np.where(designs[:, :, 0] + 0.5 * generator.normal(size=(4, 30)) > 0, 1.0, -1.0)


def test_solved_is_the_minimiser(task):
    designs, targets = task
    strengths = np.array([0.5, 2.0, 0.1])
    found = solved(designs, targets, strengths, "classification")
    for design, target, theta in zip(designs, targets, found, strict=True):

        def objective(w, design=design, target=target):
            return np.logaddexp(0, -target * (design @ w)).sum() + 0.5 * (strengths * w**2).sum()

        np.testing.assert_allclose(theta, minimize(objective, np.zeros(3), tol=1e-12).x, atol=1e-4)


def test_regression_is_solved_exactly(task):
    designs, targets = task
    found = solved(designs, targets, np.full(3, 4.0), "regression")
    for design, target, theta in zip(designs, targets, found, strict=True):
        np.testing.assert_allclose(2 * design.T @ (design @ theta - target) + 4 * theta, 0, atol=1e-9)


def test_folds_are_dealt_evenly_within_each_class(task):
    _, targets = task
    folds = fold_numbers(targets)
    for row, target in zip(folds, targets, strict=True):
        for label in (-1, 1):
            counts = np.bincount(row[target == label], minlength=5)
            assert counts.max() - counts.min() <= 1


def test_each_problem_of_a_batch_is_solved_as_if_alone(task):
    designs, targets = task
    together = batch_fitted(designs, targets, (10.0, 1.0, 0.1), np.ones(3), "classification")
    for number in range(4):
        alone = batch_fitted(
            designs[number : number + 1], targets[number : number + 1], (10.0, 1.0, 0.1), np.ones(3), "classification"
        )
        assert alone.penalties[0] == together.penalties[number]
        np.testing.assert_allclose(alone.coefficients[0], together.coefficients[number], atol=1e-7)


def test_held_out_rows_do_not_choose_their_own_prediction():
    """Labels are noise: whoever looked at held-out rows would choose a small penalty."""
    generator = np.random.default_rng(8)
    designs = generator.normal(size=(40, 30, 8))
    targets = np.sign(generator.normal(size=(40, 30)))
    chosen = batch_fitted(designs, targets, (1000.0, 0.01), np.ones(8), "classification").penalties
    # A fair coin per problem would give 20 ± 3; 35 or more of 40 large ones has chance 1e-6 for a fair coin.
    assert (chosen == 1000.0).sum() >= 35

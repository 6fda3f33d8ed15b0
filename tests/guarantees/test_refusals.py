"""Extreme public parameters, neighbours as different as they can be: both are refused before the charge, or neither is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from sudare.gibbs import GibbsLogisticRegression, GibbsRidge
from sudare.linear import PrivateLinearSVC
from sudare.privacy import Ledger
from tests.guarantees.fit_outcomes import flipped, outcome


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=1e6, delta=0.1)


def neighbours():
    """Tables of eight rows that differ in one: separable or not, one class or two, rows of nothing, all alike, far out."""
    random = np.random.default_rng(0)
    spread = random.normal(size=(8, 2))
    alike, nothing, far = np.ones((8, 2)), np.zeros((8, 2)), 1e300 * spread
    for X in (spread, alike, nothing, far):
        changed = X.copy()
        changed[3] = [-1e300, 5.0]
        y = (X[:, 0] > 0).astype(int)
        yield (X, y), (changed, flipped(y, 3))


def extreme(**values):
    """All combinations of these parameters."""
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


LINEAR = extreme(smoothing=(1e-6, 0.01), regularization=(1e-30, 1e-3), norm_bound=(1e-30, 1.0), epsilon=(1e-6, 50.0))
ALL_LINEAR = extreme(
    smoothing=(1e-6, 0.01, 1e6),
    regularization=(1e-30, 1e-3, 1e30),
    norm_bound=(1e-30, 1.0, 1e30),
    epsilon=(1e-6, 50.0),
)
GIBBS = extreme(regularization=(1e-6, 1e-2), epsilon=(0.01, 20.0), norm_bound=(1e-6, 1.0), fixed_work=(False,))
PURE_GIBBS = extreme(regularization=(1e-6, 1e-2), epsilon=(0.01, 20.0), norm_bound=(1e-6, 1.0), delta=(0.0,))
ALL_GIBBS = extreme(
    regularization=(1e-6, 1e-2, 1e6), epsilon=(0.01, 20.0), norm_bound=(1e-6, 1.0, 1e6), fixed_work=(False, True)
)


def check_alike(model, account, tables):
    """The same outcome for both neighbours, and an error only where nothing was charged. Whether they were fitted."""
    first, second = (outcome(clone(model), account, X, y) for X, y in tables)
    assert first == second, model
    assert first[2] == (first[0] == "fitted"), model
    return first[0] == "fitted"


@pytest.mark.parametrize("method", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("grid", "pairs"), [(LINEAR, 1), pytest.param(ALL_LINEAR, 4, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_refusals_of_linear_models_depend_on_public_facts_alone(grid, pairs, method, delta, account):
    models = [PrivateLinearSVC(method=method, delta=delta, classes=[0, 1], **options) for options in grid]
    fitted = [
        check_alike(model, account, tables) for model in models for tables in itertools.islice(neighbours(), pairs)
    ]
    assert np.mean(fitted) > 0.1


@pytest.mark.parametrize("learner", [GibbsLogisticRegression, GibbsRidge])
@pytest.mark.parametrize(
    ("grid", "pairs"),
    [(GIBBS, 1), (PURE_GIBBS, 1), pytest.param(ALL_GIBBS, 4, marks=pytest.mark.long)],
    ids=["some", "pure", "all"],
)
def test_refusals_of_gibbs_posteriors_depend_on_public_facts_alone(grid, pairs, learner, account):
    declared = {"classes": [0, 1]} if learner is GibbsLogisticRegression else {"target_bounds": (0, 1)}
    for options in grid:
        for tables in itertools.islice(neighbours(), pairs):
            check_alike(learner(**declared, **options), account, tables)

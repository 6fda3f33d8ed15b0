"""Ridge regression by descent on targets about where they lie: how good it is, which arrays `auto` takes it for, and that targets far from their bounds cost little."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.linear import PrivateRidge
from sudare.linear.descent_on_centred_targets import CentredDescent, LocatedSquares, budget_parts
from sudare.linear.losses import CappedSquares
from sudare.linear.mechanism_with_score_line import CalibratedMechanism
from sudare.linear.sufficient_statistics import SufficientStatistics
from sudare.schema import Number, Schema


def arrays(rows: int = 1_500, columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose norms are about half of the largest, and a target of about ±2 around 3."""
    random = np.random.default_rng(5)
    matrix = random.normal(size=(rows, columns))
    targets = 3 + matrix @ (1 / np.arange(1, columns + 1)) + random.normal(0, 0.5, rows)
    return matrix / np.linalg.norm(matrix, axis=1).max(), targets


def fitted(epsilon: float, delta: float = 1e-6, rows: int = 1_500, **options: object) -> PrivateRidge:
    X, y = arrays(rows)
    told = {"norm_bound": 1.0, "target_bounds": (-10.0, 10.0), "random_state": 0, **options}
    return PrivateRidge(epsilon, delta, **told).fit(X, y)


def mechanism_of(model: PrivateRidge) -> object:
    return model.plan(model.n_rows_, model.declared_).mechanism


def test_rows_far_below_their_norm_bound_are_learned_from():
    X, y = arrays()
    assert isinstance(mechanism_of(fitted(1.0)), CentredDescent)
    scores = {method: fitted(1.0, method=method).score(X, y) for method in ("auto", "statistics")}
    assert scores["auto"] > 0.7 > scores["statistics"] + 0.1


def test_wide_bounds_of_the_target_cost_less_than_in_descent_as_it_is():
    X, y = arrays()
    wide = {"norm_bound": 1.0, "target_bounds": (-40.0, 40.0), "method": "descent", "random_state": 0}
    plain = type("Plain", (PrivateRidge,), {"_calibration": None})(1.0, 1e-6, **wide).fit(X, y)
    assert fitted(1.0, target_bounds=(-40.0, 40.0)).score(X, y) > plain.score(X, y) + 0.2


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "method"),
    [
        (0.1, 1e-6, 300, "statistics"),
        (1.0, 1e-6, 300, "descent"),
        (0.5, 0.0, 300, "statistics"),
        (1.0, 0.0, 1_500, "mean"),
        (5.0, 0.0, 1_500, "objective"),
    ],
)
def test_auto_is_a_public_rule_of_arrays(epsilon, delta, rows, method):
    assert fitted(epsilon, delta, rows).method_ == method
    # Not without a constant column, which a level needs, nor with a schema, which tells the bounds of columns.
    assert fitted(epsilon, delta, rows, fit_intercept=False).method_ == "statistics"
    X, y = arrays(rows)
    schema = Schema({f"x{place}": Number(-1, 1) for place in range(X.shape[1])})
    told = PrivateRidge(epsilon, delta, schema=schema, target_bounds=(-10, 10), random_state=0)
    assert told.fit(pd.DataFrame(X, columns=list(schema.columns)), y).method_ == "statistics"


def test_a_quiet_objective_of_an_array_has_its_own_level():
    assert not isinstance(mechanism_of(fitted(5.0, 0.0)), CalibratedMechanism)
    assert isinstance(mechanism_of(fitted(1.0, 0.0, method="objective")), CalibratedMechanism)
    assert isinstance(mechanism_of(fitted(0.05, 0.0)), SufficientStatistics)


def test_sampled_steps_are_centred_too():
    model = fitted(2.0, sampling_rate=0.2)
    mechanism = mechanism_of(model)
    assert isinstance(mechanism, CentredDescent)
    assert mechanism.descent.recipe.sampling_rate == 0.2
    assert model.score(*arrays()) > 0.6


def test_losses_of_targets_about_a_level_are_those_of_located_targets():
    scores, targets = np.linspace(-2, 2, 9), np.linspace(-1, 1, 9)
    about, plain = LocatedSquares(0.7, 0.2, 0.5), CappedSquares(0.7)
    moved = np.clip((targets - 0.2) / 0.5, -1, 1)
    for name in ("value", "slope", "curvature"):
        np.testing.assert_array_equal(getattr(about, name)(scores, targets), getattr(plain, name)(scores, moved))


def test_more_rows_leave_more_of_the_budget_to_descent():
    assert budget_parts(1.0, 10)[0] == pytest.approx(0.3)
    assert budget_parts(1.0, 4_000)[0] == pytest.approx(0.01)

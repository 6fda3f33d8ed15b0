"""Audits of linear models: the pairs are neighbours and hard, and a model that claims too little is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from sudare.audit.linear_audits import CASES, LinearCase
from sudare.audit.linear_output_laws import (
    law_epsilon,
)
from sudare.audit.registry import EPSILONS, run_audit
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.privacy.fit_plan import Plan
from sudare.schema import Schema

LAW_IS_NOT_KNOWN = "PrivateLogisticRegression-descent"


def planned(case: LinearCase, epsilon: float) -> Any:
    model = clone(case.model(epsilon)).fit(*case.pair[0])
    return model.plan(model.n_rows_, model.declared_).mechanism


@pytest.mark.parametrize("name", CASES)
def test_pairs_are_neighbours_in_two_dimensions_within_the_norm(name: str) -> None:
    (rows, targets), (others, other_targets) = CASES[name].pair
    changed = np.any(rows != others, axis=1) | (targets != other_targets)
    assert changed.sum() == 1
    assert rows.shape == others.shape
    assert rows.shape[1] >= 2
    assert max(np.linalg.norm(table, axis=1).max() for table in (rows, others)) <= 1 + 1e-15
    # The held rows are those of the model: no intercept, bound one, targets as they are.
    assert planned(CASES[name], 1.0).facts.width == rows.shape[1]
    assert planned(CASES[name], 1.0).facts.norm_bound == 1.0


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", CASES)
def test_four_fifths_of_the_claim_are_really_spent(name: str, epsilon: float) -> None:
    measured = law_epsilon(planned(CASES[name], epsilon), CASES[name].held())
    if name == LAW_IS_NOT_KNOWN:
        assert measured is None
    else:
        assert measured is not None
        assert 0.8 * epsilon < measured <= epsilon


@pytest.mark.parametrize("name", CASES)
def test_audits_hold_and_see_something(name: str) -> None:
    report = run_audit(name, samples=100, epsilons=[5.0])
    (comparison,) = report.comparisons
    assert report.holds, str(report.to_dict())
    assert (comparison.claimed.epsilon, comparison.claimed.neighbours) == (5.0, "replace-one")
    assert comparison.claimed.delta == (1e-6 if "descent" in name else 0.0)
    assert comparison.lowest_bits.epsilon_lower_bound == 0
    if name != LAW_IS_NOT_KNOWN:
        assert comparison.measured >= 0.8 * 5.0


@pytest.mark.parametrize(
    "name", ["PrivateLogisticRegression-mean", "PrivateLinearSVC-output", "PrivateLinearSVC-objective"]
)
def test_fits_are_told_apart_where_the_noise_allows(name: str) -> None:
    """A few hundred fits are too few for a tight bound, and enough to see that the data matter.

    At claimed 5 the bound was between 1.4 and 2.5 in twelve runs of each, with a deviation of at most 0.3: six below is 0.1.
    """
    (comparison,) = run_audit(name, samples=400, epsilons=[5.0]).comparisons
    assert comparison.sampled.epsilon_lower_bound > 0.1


class Loud:
    """A linear model that plans for ten times the ε it claims."""

    def plan(self, rows: int, declared: Schema) -> Plan:
        claimed = self.epsilon
        self.epsilon = 10 * claimed
        try:
            plan = super().plan(rows, declared)  # type: ignore[misc]
        finally:
            self.epsilon = claimed
        return replace(plan, guarantee=self._guarantee(declared))  # type: ignore[attr-defined]


class LoudLogistic(Loud, PrivateLogisticRegression):
    pass


class LoudHinge(Loud, PrivateLinearSVC):
    pass


class LoudRidge(Loud, PrivateRidge):
    pass


LOUD: dict[str, type] = {
    name: next(loud for loud in (LoudLogistic, LoudHinge, LoudRidge) if name.startswith(loud.__bases__[1].__name__))
    for name in CASES
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name.endswith("-descent") else name for name in LOUD]
)
def test_a_model_with_a_tenth_of_the_noise_is_refuted(name: str) -> None:
    """By its law where that is known; descent of the logistic loss by its outputs.

    Those showed 3.9 on average in twelve runs, with a deviation of 0.5: six deviations above the claim of 1.
    """
    case = CASES[name]
    twin = replace(case, model=lambda epsilon: LOUD[name](**case.model(epsilon).get_params(deep=False)))
    comparison = twin.at(1.0).compared(600 if name == LAW_IS_NOT_KNOWN else 60)
    assert not comparison.holds
    if name != LAW_IS_NOT_KNOWN:
        assert comparison.computed is not None
        assert comparison.computed > 5

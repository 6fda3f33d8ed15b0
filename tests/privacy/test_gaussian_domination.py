"""proofs/gaussian_domination.md: the μ that a sampled run is charged by lies above its true curve, and ten runs cost what they should."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.audit.density_ratios import gaussian_cells
from sudare.errors import BudgetExceeded, InvalidCost
from sudare.linear.descent import sampled_cost, sampled_mu, sampled_multiplier
from sudare.privacy import Guarantee, Ledger
from sudare.privacy.accounting import (
    Budget,
    Cost,
    Spent,
    approximate_cost,
    exact,
    gaussian_delta,
    gaussian_mu_within,
    mu_of_pure,
)
from sudare.privacy.gaussian_domination import MOST_PLACES, PrivacyCurve, _is_above, dominating_mu, privacy_curve

REST = 2.0**-34


def curve_of_gaussian(mu: float) -> Any:
    return lambda places: np.array([gaussian_delta(mu, float(place)) for place in np.atleast_1d(places)])


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_a_gaussian_is_dominated_by_itself(mu: float) -> None:
    curve = privacy_curve(curve_of_gaussian(mu), 1e-3 * min(1.0, mu), REST)
    assert curve is not None
    found = dominating_mu(curve)
    assert found is not None
    assert mu * (1 - 1e-6) <= found <= 1.02 * mu
    assert _is_above(curve, found)
    # The planted bug: a μ that is too small, as one that is read off a single (ε, δ) is.
    assert not _is_above(curve, 0.98 * found)


def hockey_stick(likelier: Any, rarer: Any, epsilon: float) -> float:
    return float(np.sum(np.maximum(likelier - math.exp(epsilon) * rarer, 0.0)))


def one_step(sampling_rate: float, multiplier: float, neighbours: str) -> tuple[Any, Any]:
    """Probabilities of small cells for one sampled step on two neighbours, in units of the clip."""
    edges = np.linspace(-12 * multiplier, 12 * multiplier, 100_001)

    def cells(shift: float) -> Any:
        return gaussian_cells(shift, multiplier, edges)

    sampled = (1 - sampling_rate) * cells(0.0) + sampling_rate * cells(1.0)
    if neighbours == "add-remove":
        return sampled, cells(0.0)
    return sampled, (1 - sampling_rate) * cells(0.0) + sampling_rate * cells(-1.0)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("sampling_rate", "multiplier"),
    [(0.1, 1.0), pytest.param(0.5, 2.0, marks=pytest.mark.long), pytest.param(0.01, 0.8, marks=pytest.mark.long)],
)
def test_the_true_curve_of_one_step_lies_below(sampling_rate: float, multiplier: float, neighbours: Any) -> None:
    """By cells of a line, in both orders: sums over cells are lower bounds of the true δ, and so fine that they are near it."""
    found = sampled_mu(sampling_rate, multiplier, 1, 1.0, neighbours)
    assert found is not None
    first, second = one_step(sampling_rate, multiplier, neighbours)
    rest = 2.0**-39
    margins = [
        ((1 - rest) * gaussian_delta(found, epsilon) + rest) - hockey_stick(one, other, epsilon)
        for epsilon in np.linspace(0.0, 6.0, 61).tolist()
        for one, other in ((first, second), (second, first))
    ]
    assert min(margins) >= -1e-14
    # It is no larger than it has to be: somewhere a hundredth less would be too little.
    less = [
        gaussian_delta(0.97 * found, epsilon) + rest - hockey_stick(first, second, epsilon)
        for epsilon in np.linspace(0.0, 6.0, 601).tolist()
    ]
    assert min(less) < 0


def test_two_steps_by_every_cell_of_a_plane() -> None:
    q, z = 0.2, 1.5
    found = sampled_mu(q, z, 2, 1.0, "add-remove")
    assert found is not None
    edges = np.linspace(-9 * z, 9 * z + 1, 1201)
    base = gaussian_cells(0.0, z, edges)
    mixed = (1 - q) * base + q * gaussian_cells(1.0, z, edges)
    first, second = np.outer(mixed, mixed), np.outer(base, base)
    for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0, 2.0):
        for one, other in ((first, second), (second, first)):
            assert hockey_stick(one, other, epsilon) <= gaussian_delta(found, epsilon) + 2.0**-38


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_mu_of_a_usual_run_is_little_more_than_that_of_its_promise(neighbours: Any) -> None:
    multiplier = sampled_multiplier(0.125, 30, 0.5, 1e-6, neighbours)
    found = sampled_mu(0.125, multiplier, 30, 0.5, neighbours)
    assert found is not None
    assert 1.0 < found / gaussian_mu_within(0.5, 1e-6) < 1.03


def test_ten_runs_cost_what_they_should(tmp_path: Path) -> None:
    """Ten runs of (0.5, 1e-6) under δ = 1e-5: 5 as sums, 14 as pure charges in the Gaussian filter, about 1.5 by their μ."""
    multiplier = sampled_multiplier(0.125, 30, 0.5, 1e-6)
    cost = sampled_cost(0.125, multiplier, 30, 0.5, 1e-6, Fraction(0))
    account = Ledger(tmp_path / "ledger.db").account("runs", 1.6, 1.1e-5, composition="gaussian", reserved_delta=1e-6)
    for _ in range(10):
        account.charge(Guarantee(0.5, 1e-6), cost, "PrivateLogisticRegression")
    assert 1.4 < account.spent().epsilon < 1.6
    budget = Budget.of(20.0, 2.1e-5, "gaussian", 1.1e-5)
    assert budget.shown(Spent.of([approximate_cost(0.5, 1e-6)] * 10))[0] == 5.0
    assert budget.shown(Spent.of([cost] * 10))[0] < 1.6
    with pytest.raises(BudgetExceeded, match=r"Use epsilon <= 0\.\d+ at delta = 1e-06"):
        account.charge(Guarantee(0.5, 1e-6), cost, "PrivateLogisticRegression")
    account.ledger.verify()


def test_an_account_that_reserves_too_little_says_so(tmp_path: Path) -> None:
    multiplier = sampled_multiplier(0.125, 30, 0.5, 1e-6)
    cost = sampled_cost(0.125, multiplier, 30, 0.5, 1e-6, Fraction(0))
    account = Ledger(tmp_path / "ledger.db").account("runs", 2.0, 1e-5, composition="gaussian")
    with pytest.raises(BudgetExceeded, match="reserved_delta"):
        account.charge(Guarantee(0.5, 1e-6), cost, "PrivateLogisticRegression")


def test_curves_without_a_gaussian_above_them() -> None:
    assert privacy_curve(lambda places: np.full(len(places), 0.5), 0.1, REST) is None
    places = np.linspace(0.0, 1.0, 5)
    assert dominating_mu(PrivacyCurve(places, np.array([0.5, 0.4, 0.3, 0.2, 0.1]), REST)) is None
    assert dominating_mu(PrivacyCurve(places, np.array([1.0, 1.0, 1.0, 1.0, 0.0]), REST)) is None


def test_places_reach_as_far_as_the_rest_and_hardly_farther() -> None:
    delta_at = curve_of_gaussian(1.0)
    curve = privacy_curve(delta_at, 1e-3, REST)
    assert curve is not None
    assert len(curve.places) == MOST_PLACES + 1
    assert curve.deltas[-1] <= REST < delta_at(0.7 * curve.places[-1])[0]
    near = privacy_curve(delta_at, 1.0, REST)
    assert near is not None
    assert near.places[-1] == MOST_PLACES


# The cost


def test_costs_of_two_statements_are_written_and_read() -> None:
    cost = Cost(exact(0.5), exact(1e-6), 0.125, Fraction(1, 2**40), apart=True)
    assert Cost.from_dict(cost.to_dict()) == cost
    older = {name: value for name, value in approximate_cost(0.5, 1e-6).to_dict().items() if name != "apart"}
    assert Cost.from_dict(older) == approximate_cost(0.5, 1e-6)
    assert "apart" not in older
    with pytest.raises(InvalidCost):
        Cost(exact(0.5), exact(1e-6), 0.125, Fraction(1, 2**40))
    with pytest.raises(InvalidCost):
        Cost(exact(0.5), exact(1e-6), apart=True)
    with pytest.raises(InvalidCost):
        Cost(exact(0.5), exact(1e-6), 0.125, apart=1)  # type: ignore[arg-type]


def test_groups_and_moving_rows_know_the_promise_only() -> None:
    """The Gaussian nearby is another one for every pair of neighbours: two of them in a row are not one of twice the μ."""
    cost = Cost(exact(0.5), exact(1e-6), 0.125, Fraction(1, 2**40), apart=True)
    plain = approximate_cost(0.5, 1e-6)
    assert cost.for_group(1) == cost
    assert cost.for_group(3) == plain.for_group(3)
    assert cost.of_moving_row() == plain.of_moving_row()
    assert Spent().plus(plain).mu_squared == Fraction(mu_of_pure(exact(0.5))) ** 2

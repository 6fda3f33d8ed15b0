"""The mean: what it computes, to the last bit where there is no noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ReleaseMalformed
from sudare.privacy import Guarantee, Ledger
from sudare.privacy.accounting import exact
from sudare.privacy.column_sums import l2_sensitivity, mean_mechanism, mean_noise, public_grid
from sudare.privacy.fit_plan import Plan
from sudare.privacy.mechanisms import Gaussian, InfinityNorm
from sudare.schema import Number, Person, Schema
from sudare.statistics import PrivateMean

STEP = 2.0**-30


def declared(columns: int, most_rows: int | None = None) -> Schema:
    person = None if most_rows is None else Person("p", most_rows)
    return Schema({f"x{i}": Number(0, 1, bins=(0.5,)) for i in range(columns)}, person)


@pytest.mark.parametrize("most_rows", [None, 3])
def test_plans_of_the_mean(most_rows):
    rows = most_rows or 1
    guarantee = Guarantee(0.5, unit="record" if most_rows is None else "person")
    one, two = declared(1, most_rows), declared(2, most_rows)
    mean = PrivateMean(0.5)
    assert mean.plan(10, one) == Plan(InfinityNorm(float(rows), 0.5, 1, integer_grid=STEP), guarantee)
    assert mean.plan(10, two) == Plan(InfinityNorm(float(rows), 0.5, 2, integer_grid=STEP), guarantee)
    few, many = (PrivateMean(0.5, 1e-6).plan(2**23, declared(columns, most_rows)) for columns in (2, 100))
    assert few.mechanism == InfinityNorm(float(rows), 0.5, 2, integer_grid=2.0**-28, delta=1e-6)
    assert many.mechanism == Gaussian(l2_sensitivity(Fraction(1), 100, rows), 0.5, 1e-6, 100, integer_grid=2.0**-28)
    for plan in (few, many):
        assert plan.guarantee == Guarantee(0.5, 1e-6, unit=guarantee.unit)
        assert (plan.mechanism.cost.epsilon, plan.mechanism.cost.delta) == (exact(0.5), exact(1e-6))


def test_an_account_that_composes_by_mu_gets_gaussian_noise(tmp_path):
    """Pure noise is quieter for two columns, and would cost (1.23/.24)² times as much there."""
    ledger = Ledger(tmp_path / "ledger.db")
    by_mu = ledger.account("by mu", epsilon=3.0, delta=1e-6, composition="gaussian")
    plainly = ledger.account("plainly", epsilon=1.0, delta=1e-6)
    found = [PrivateMean(0.2, 1e-7, bounds=(0, 1), account=account).fit(np.eye(2)) for account in (by_mu, plainly)]
    assert [model.noise_ for model in found] == ["gaussian", "infinity-norm"]
    assert PrivateMean(0.2, bounds=(0, 1), account=by_mu).fit(np.eye(2)).noise_ == "infinity-norm"


def test_the_noise_that_is_told_is_that_for_the_epsilon_of_the_values():
    """Fifty columns get Gaussian noise at ε = .93, and infinity-norm noise at 1: the ε that the choice of a bound took is not theirs."""
    columns = declared(50).columns
    table = {"p": np.repeat(np.arange(20), 2), **dict.fromkeys(columns, np.full(40, 0.5))}
    model = PrivateMean(1.0, 1e-6, schema=Schema(columns, Person("p", "auto", largest=4)), random_state=0).fit(table)
    assert model.declared_.person.spent == 0.07
    noise = mean_noise(50, 0.93, 1e-6)
    assert noise != mean_noise(50, 1.0, 1e-6)
    assert model.noise_ == noise
    assert model.noise_scale_ == model.plan(model.n_rows_, model.declared_).mechanism.noise_scale / model.n_rows_


@pytest.mark.parametrize(
    ("columns", "delta", "noise", "found"),
    [
        (1, 0.0, None, "laplace"),
        (2, 0.0, None, "gamma-norm"),
        (2, 1e-6, None, "gaussian"),
        (2, 0.0, "infinity-norm", "infinity-norm"),
        (2, 1e-6, "infinity-norm", "infinity-norm"),
    ],
)
def test_releases_say_which_noise_they_have_and_older_ones_are_known_by_their_promise(columns, delta, noise, found):
    model = PrivateMean(1.0, delta, bounds=(0, 1), random_state=0).fit(np.full((5, columns), 0.5))
    content = model.release_content()
    said = {name: value for name, value in content.parameters.items() if name != "noise"}
    content = replace(content, parameters=said if noise is None else {**said, "noise": noise})
    assert PrivateMean.check_content(content, None) == Guarantee(1.0, delta)
    loaded = PrivateMean.from_release(content, None)
    assert loaded.noise_ == found
    assert loaded.noise_scale_ == mean_mechanism(found, columns, 1, 1.0, delta, STEP).noise_scale / 5


@pytest.mark.parametrize(("delta", "noise"), [(0.0, "gaussian"), (1e-6, "gamma-norm"), (0.0, "laplace"), (0.0, 3)])
def test_a_release_with_noise_that_its_promise_does_not_have(delta, noise):
    content = PrivateMean(1.0, delta, bounds=(0, 1), random_state=0).fit(np.eye(2)).release_content()
    with pytest.raises(ReleaseMalformed, match="noise"):
        PrivateMean.check_content(replace(content, parameters={**content.parameters, "noise": noise}), None)


@pytest.mark.parametrize(("columns", "delta"), [(3, 0.0), (80, 1e-6)])
def test_intervals_of_means_hold_as_often_as_they_say(columns, delta):
    """1,000 fits and more: within four deviations (6e-5 a test, seeded, so never by chance)."""
    table = np.full((400, columns), 0.5)
    fits = 3000 // columns
    held = [
        low <= 0.5 <= high
        for seed in range(fits)
        for shown in [PrivateMean(0.5, delta, bounds=(0, 1), random_state=seed).fit(table).table()]
        for low, high in zip(shown["mean_low"], shown["mean_high"], strict=True)
    ]
    # Coordinates of one draw are not independent: counted as if a fit were one observation.
    assert abs(np.mean(held) - 0.95) < 4 * (0.95 * 0.05 / fits) ** 0.5


def test_mean_without_noise(no_noise):
    rows = np.array([[0.0, 10.0], [1.0, 20.0], [0.5, 90.0], [2.0, -50.0]])
    model = PrivateMean(bounds=([0, 10], [1, 60])).fit(rows)
    assert model.mean_.tolist() == [0.625, 25.0]
    assert model.n_rows_ == 4
    assert model.clipped_ == {"x0": 1, "x1": 2}
    assert model.noise_scale_ == InfinityNorm(1.0, 1.0, 2, integer_grid=STEP).noise_scale / 4
    assert model.grid_ == public_grid(model.noise_scale_, np.array([1.0, 50.0]))


def test_score_of_the_mean(no_noise):
    model = PrivateMean(bounds=([0, 10], [1, 60])).fit([[0.5, 35.0]])
    assert model.mean_.tolist() == [0.5, 35.0]
    assert model.score([[0.5, 35.0]]) == 0.0
    assert model.score([[1.0, 35.0], [0.5, 60.0]]) == -(0.25 + 0.25) / 4
    assert model.score([[99.0, -99.0]]) == -0.25


def test_means_stay_within_the_bounds_whatever_the_noise(far_off):
    model = PrivateMean(1e-6, bounds=(0.1, [0.7, 110])).fit([[0.3, 5.0]])
    assert (model.mean_ <= [0.7, 110]).all()
    assert model.mean_ == pytest.approx([0.7, 110.0], rel=1e-4)


def test_means_stay_within_the_bounds_below(far_below):
    model = PrivateMean(1e-6, bounds=(0.1, [0.7, 110])).fit([[0.3, 5.0]])
    assert (model.mean_ >= 0.1).all()
    assert model.mean_ == pytest.approx([0.1, 0.1], abs=1e-4)

"""Bounds of persons' rows that are chosen within the ε of a fit. Proof: proofs/persons.md."""

from __future__ import annotations

import copy
import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import BudgetExceeded, InvalidParameter, MissingValue, SourceMismatch, SudareError
from sudare.frames import PersonJoin
from sudare.frames.person_buckets import RowLimits
from sudare.gibbs import GibbsLogisticRegression
from sudare.linear import PrivateLogisticRegression
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Ledger, Release, select_privately
from sudare.privacy.accounting import exact
from sudare.privacy.contribution_bound_selection import (
    BOUND_SHARE,
    FULL_EXCESS,
    NOISE_GROWTH,
    BoundChoice,
    bound_epsilon,
    candidate_bounds,
)
from sudare.privacy.discrete_exponential_mechanism import geometric
from sudare.privacy.noise import SeededNoise
from sudare.schema import Category, Label, Number, Person, Schema
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateQuantiles, PrivateStandardScaler
from sudare.synthesis import PrivateSynthesizer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
AUTO = Person("who", "auto", largest=30)
COLUMNS = {"age": Number(0, 100), "sex": Category(("f", "m"))}
SCHEMA = Schema(COLUMNS, AUTO)
LABELLED = Schema({**COLUMNS, "ill": Label(("no", "yes"))}, AUTO)


def visits(persons=300):
    generator = np.random.default_rng(0)
    who = np.repeat(np.arange(persons), np.minimum(generator.zipf(1.8, persons), 200))
    return pd.DataFrame(
        {
            "who": who,
            "age": generator.uniform(0, 100, len(who)),
            "sex": generator.choice(["f", "m"], len(who)),
            "ill": generator.choice(["no", "yes"], len(who)),
        }
    )


LEARNERS = {
    "mean": lambda **more: PrivateMean(schema=SCHEMA, **more),
    "histogram": lambda **more: PrivateHistogram(schema=SCHEMA, **more),
    "scaler": lambda **more: PrivateStandardScaler(schema=SCHEMA, **more),
    "table": lambda **more: GroupedTable(schema=SCHEMA, by=["sex"], mean_of=["age"], **more),
    "hidden count": lambda **more: GroupedTable(schema=SCHEMA, by=["sex"], neighbours="add-remove", **more),
    "logistic": lambda **more: PrivateLogisticRegression(schema=LABELLED, **more),
    "synthesis": lambda **more: PrivateSynthesizer(SCHEMA, **more),
}


def limits_of(model, table, asked):
    """The limits of which the fitted model declares the most rows, and what the choice took."""
    person, choice = model.declared_.person, model._bound_plan(table, None, asked)[1]
    every = [choice.limits(bound, model.epsilon) for bound in candidate_bounds(asked.largest)]
    return next(limits for limits, spent in every if (limits.many, spent) == (person.most_rows, person.spent))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_choice_is_paid_within_the_epsilon_of_a_fit(learner, delta, tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=10.0, delta=1e-5, unit="person")
    model = LEARNERS[learner](epsilon=1.0, delta=delta, account=account).fit(visits())
    person = model.declared_.person
    limits = limits_of(model, visits(), AUTO)
    assert 1 <= person.most_rows <= person.largest == 30
    assert (model.guarantee_.unit, model.guarantee_.epsilon) == ("person", account.spent().epsilon)
    stated = model.guarantee_.to("replace-one").epsilon
    assert stated == (2.0 if learner == "hidden count" else 1.0)
    inner = copy.copy(model).plan(100, model.declared_).mechanism.cost
    assert inner.epsilon + exact(person.spent) <= 1
    sizes = visits().groupby("who").size()
    assert model.cut_rows_ == sum(size - limits.kept(size) for size in sizes)
    path = tmp_path / "visits.sudare"
    Release.of(model).save(path, key=KEY)
    loaded = Release.load(path, [KEY.public_key()]).model()
    assert loaded.declared_.person == person
    assert getattr(loaded, "noise_scale_", model.noise_scale_) == model.noise_scale_
    assert not hasattr(loaded, "cut_rows_")


def test_a_price_is_what_a_fit_pays_and_nothing_is_charged_for_bad_rows(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=1.5, unit="person")
    model = PrivateMean(1.0, schema=SCHEMA, account=account)
    assert model.price(visits()).asked.epsilon == 1
    assert model.declared_promise(lambda: 1).epsilon == 1.0
    with pytest.raises(MissingValue):
        model.fit(visits().assign(who=None))
    with pytest.raises(MissingValue):
        model.fit(visits().assign(age=np.nan))
    assert account.spent().epsilon == 0
    model.fit(visits())
    with pytest.raises(BudgetExceeded):
        model.fit(visits())
    assert account.spent().epsilon == 1.0


@pytest.mark.parametrize("wrong", ["targets", "column"])
def test_what_rows_are_chosen_by_is_read_before_the_charge(wrong, tmp_path):
    """Nobody has more rows than the largest number, so that only a bound that was drawn cuts somebody; the column is declared, and not one of the table's."""
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=1.5, unit="person")
    schema = Schema({**COLUMNS, "day": Number(0, 9)}, Person("who", "auto", largest=200))
    table = visits().assign(day=pd.Timestamp("2026-01-01") if wrong == "column" else 1.0)
    model = GroupedTable(1.0, schema=schema, by=["sex"], account=account)
    targets = np.zeros(3) if wrong == "targets" else None
    for refused in (model.price, model.fit):
        with pytest.raises(SudareError):
            refused(table, targets)
    assert account.spent().epsilon == 0


def test_quantiles_pay_for_the_choice_as_well(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=1.0, unit="person")
    model = PrivateQuantiles(1.0, schema=SCHEMA, account=account).fit(visits())
    assert model.declared_.person.spent == bound_epsilon(1.0)
    assert model.plan(100, model.declared_).mechanism.cost.epsilon + exact(model.declared_.person.spent) <= 1
    assert account.spent().epsilon == model.guarantee_.epsilon == 1.0


def test_learners_that_cannot_choose_say_so_before_anything_is_charged(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=10.0, delta=1e-3, unit="person")
    with pytest.raises(InvalidParameter, match="does not choose the number of rows"):
        GibbsLogisticRegression(1.0, 1e-6, schema=LABELLED, account=account).fit(visits())
    assert account.spent().epsilon == 0


def test_perturbed_records_keep_the_largest_number():
    found = RecordPerturbation(SCHEMA, epsilon=30.0, random_state=0).fit(visits().drop(columns="ill"))
    assert found.n_rows_ == int(visits().groupby("who").size().clip(upper=30).sum())
    assert found.declared_.person == AUTO


def test_the_same_seed_chooses_the_same_from_every_source(tmp_path):
    table = visits()
    table.to_parquet(tmp_path / "visits.parquet", row_group_size=100)
    table.to_csv(tmp_path / "visits.csv", index=False)
    sources = (
        table,
        tmp_path / "visits.parquet",
        tmp_path / "visits.csv",
        (table[start : start + 77] for start in range(0, len(table), 77)),
    )
    models = [
        GroupedTable(schema=SCHEMA, by=["sex"], mean_of=["age"], random_state=0).fit(source) for source in sources
    ]
    assert len({str(model.table()) for model in models}) == 1
    assert not models[0].guarantee_.valid


def test_a_selection_sees_no_more_rows_of_a_person_than_are_kept():
    schema = Schema(LABELLED.columns, Person("who", 2))
    seen = []

    def scores(model, X, y):
        seen.append(X)
        return np.full(len(X), 0.5)

    chosen = select_privately([PrivateLogisticRegression(schema=schema)], visits(), epsilon=5.0, row_scores=scores)
    assert all(each.groupby("who").size().max() == 2 for each in seen)
    assert chosen.model.n_rows_ == len(seen[0])


def test_candidates_and_shares():
    assert candidate_bounds(1) == (1,)
    assert candidate_bounds(7) == (1, 2, 3, 4, 5, 6, 7)
    found = candidate_bounds(1000)
    assert found[-1] == 1000
    assert all(b - a == 1 or b <= 1.03 * a for a, b in itertools.pairwise(found))
    assert exact(bound_epsilon(0.7)) <= exact(0.7) * exact(BOUND_SHARE)
    one, two = (BoundChoice.of(0.1, 0.9, 10, 5, each).persons_above for each in ("add-remove", "replace-one"))
    assert two == 2 * one


def test_the_bound_follows_the_persons_where_the_noise_is_small():
    # Forty persons have nine rows, all others one or two. At eight those forty count for less than half each.
    histogram = np.zeros(32, np.int64)
    histogram[[1, 2, 9]] = 500, 300, 40
    for persons_above, least, most in ((10, 9, 9), (30, 8, 8), (50, 2, 2), (350, 1, 1)):
        choice = BoundChoice(50.0, Fraction(persons_above), 30)
        drawn = {choice.drawn(histogram, SeededNoise(seed)) for seed in range(20)}
        assert least <= min(drawn) <= max(drawn) <= most


def test_a_bound_that_all_persons_but_none_exceed_is_the_one_where_numbers_of_rows_jump():
    # All others cut everybody, or no one and are noisier.
    histogram = np.zeros(1002, np.int64)
    histogram[[1, 12]] = 20_000, 4_000
    choice = BoundChoice(0.06, Fraction(150), 1000)
    drawn = [choice.drawn(histogram, SeededNoise(seed)) for seed in range(200)]
    assert min(drawn) == 12
    assert drawn.count(12) > 190


def test_persons_count_by_how_far_they_are_above_a_bound_and_fully_beyond_the_largest():
    histogram = np.zeros(102, np.int64)
    histogram[[50, 51, 60, 90, 101]] = 1000, 8, 4, 2, 1
    found = dict(zip(candidate_bounds(100), BoundChoice(1.0, Fraction(0), 100).excess(histogram), strict=True))
    full = exact(FULL_EXCESS) * 50
    assert found[50] == 8 / full + 4 * min(10 / full, Fraction(1)) + 2 + 1
    assert found[100] == 1
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_more_rows_are_kept_of_persons_far_above_the_bound_where_a_fit_tells_of_them_in_proportion():
    spent = bound_epsilon(1.0)
    for bound in candidate_bounds(1000):
        limits, taken = BoundChoice(spent, Fraction(100), 1000, is_proportional=True).limits(bound, 1.0)
        assert BoundChoice(spent, Fraction(100), 1000).limits(bound, 1.0) == (RowLimits.equal(bound), spent)
        loss_of_a_row = (1 - exact(taken)) / limits.many
        assert limits.few * loss_of_a_row + exact(spent) <= 1
        assert limits.many * loss_of_a_row + exact(spent) / 2 <= 1
        # No quieter than with one bound for all, and hardly louder.
        assert 1 <= (1 - exact(spent)) / bound / loss_of_a_row <= 1 + exact(NOISE_GROWTH)
        if limits.many > bound:
            assert limits.many_from >= (1 + exact(FULL_EXCESS)) * bound
            assert limits.many_from <= 1000
    assert limits == RowLimits.equal(1000)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_only_noise_on_sums_is_proportional_to_the_rows(learner, delta):
    model = LEARNERS[learner](epsilon=1.0, delta=delta)
    choice = model._bound_plan(visits(), None, AUTO)[1]
    noise_of_a_norm = {0.0: ("mean", "histogram", "table", "hidden count"), 1e-6: ("mean",)}
    assert choice.is_proportional == (learner in noise_of_a_norm[delta])


def test_a_fit_keeps_more_rows_of_persons_far_above_the_bound_and_declares_the_most_of_all():
    schema = Schema({"age": Number(0, 100)}, Person("who", "auto", largest=400))
    sizes = np.arange(1, 401)
    who = np.repeat(sizes, sizes)
    table = {"who": who, "age": np.full(len(who), 50.0)}
    found = []
    for epsilon, seed in itertools.product((0.3, 1.0), range(12)):
        model = PrivateMean(epsilon, schema=schema, random_state=seed).fit(table)
        person, limits = model.declared_.person, limits_of(model, table, schema.person)
        assert model.n_rows_ == sum(map(limits.kept, sizes.tolist()))
        assert model.plan(1, model.declared_).mechanism.cost.epsilon + exact(person.spent) <= exact(epsilon)
        found.append(limits.many > limits.few)
    assert any(found)
    assert not all(found)


def test_nobody_is_cut_where_every_candidate_is_refused():
    histogram = np.zeros(7, np.int64)
    histogram[6] = 10_000
    assert {BoundChoice(1.0, Fraction(3), 5).drawn(histogram, SeededNoise(seed)) for seed in range(5)} == {5}


@pytest.mark.parametrize("rate", [Fraction(2), Fraction(3, 10), Fraction(1, 10**9)])
def test_geometric_numbers(rate):
    noise = SeededNoise(1)
    drawn = np.array([geometric(rate, noise) for _ in range(2000)])
    spread = float(rate) / (1 - np.exp(-float(rate)))
    expected = np.exp(-float(rate)) * spread
    # Six standard errors.
    assert abs(drawn.mean() * float(rate) - expected) < 6 * np.sqrt(expected * spread / 2000)


def test_an_account_pays_for_a_join_only_where_both_tables_are_its_own(tmp_path):
    folder, elsewhere = tmp_path / "clinic", tmp_path / "elsewhere.parquet"
    folder.mkdir()
    visits()[["who", "age"]].to_parquet(folder / "visits.parquet")
    for path in (folder / "drugs.parquet", elsewhere):
        visits()[["who", "sex"]].to_parquet(path)
    schema = Schema(COLUMNS, Person("who", 4))
    account = Ledger(tmp_path / "ledger.db").account("clinic", epsilon=3.0, unit="person", source=folder)
    model = GroupedTable(1.0, schema=schema, by=["sex"], mean_of=["age"], account=account)
    with pytest.raises(SourceMismatch):
        model.fit(PersonJoin(folder / "visits.parquet", elsewhere, schema, (2, 2)))
    assert account.spent().epsilon == 0
    model.fit(PersonJoin(folder / "visits.parquet", folder / "drugs.parquet", schema, (2, 2)))
    assert account.spent().epsilon == 1.0

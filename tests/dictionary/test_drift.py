"""Changes of records: alarms with a stated rate, refits from an earlier dictionary, patterns that go and come."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sudare.dictionary import ChangeDetector, MemberModel, PatternDictionary, pattern_changes
from sudare.dictionary.drift import kl_divergences
from sudare.dictionary.exponential_families import Frame, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian
from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth, dictionary_scores
from sudare.privacy import Ledger
from sudare.privacy.release_content import sealed
from tests.dictionary.kit import FAMILIES, random_patterns

BOUNDS = (-15.0, 20.0)


def standard_model(calibration):
    """N(0, 1) in one column; scores rise with the distance from zero."""
    patterns = Patterns({"means": np.zeros((1, 1)), "precisions": np.ones((1, 1))})
    return MemberModel(DiagonalGaussian(), patterns, np.ones(1), ("x0",)).calibrated(calibration)


@pytest.mark.parametrize("given", [PatternDictionary(), standard_model(np.linspace(-2, 2, 200)[:, np.newaxis]), None])
def test_only_fitted_dictionaries_can_be_compared(given):
    with pytest.raises(InvalidParameter, match="two fitted dictionaries"):
        pattern_changes(given, given)


# The alarm


def test_the_statistic_is_at_most_the_number_of_records_on_average_over_all_orders():
    """Exactly, by enumeration: five records in any order, the first two calibrate."""
    values = np.array([[0.1], [0.4], [0.9], [1.6], [2.5]])
    for count in (1, 2, 3):
        statistics = [
            ChangeDetector.begun(standard_model(values[list(order[:2])])).after(values[list(order[2 : 2 + count])])
            for order in itertools.permutations(range(5))
        ]
        assert np.mean([each.statistic for each in statistics]) <= count


def test_ties_do_not_help_an_alarm():
    same = np.ones((5, 1))
    watch = ChangeDetector.begun(standard_model(same), 0.5).after(same)
    assert watch.statistic < watch.n_records
    assert not watch.has_changed


def test_usual_records_raise_no_more_alarms_than_stated_whatever_the_model():
    """Within n records with probability n·rate at most; the model is wrong by a factor of three."""
    random = np.random.default_rng(0)
    runs, count, rate = 300, 50, 2e-3
    alarms = sum(
        ChangeDetector.begun(standard_model(3 * random.normal(size=(60, 1))), rate)
        .after(3 * random.normal(size=(count, 1)))
        .has_changed
        for _ in range(runs)
    )
    assert alarms / runs <= count * rate


def test_an_alarm_that_is_raised_without_calibration_records_would_be_false_too_often():
    """The planted bug: ranks among training scores that are too low. The same count refuses it."""
    random = np.random.default_rng(0)
    runs, count, rate = 100, 50, 2e-3
    alarms = sum(
        ChangeDetector.begun(standard_model(random.normal(size=(60, 1))), rate)
        .after(2 * random.normal(size=(count, 1)))
        .has_changed
        for _ in range(runs)
    )
    assert alarms / runs > count * rate


def test_a_change_is_noticed_and_dated():
    random = np.random.default_rng(1)
    watch = ChangeDetector.begun(standard_model(random.normal(size=(400, 1))), 1e-4)
    quiet = watch.after(random.normal(size=(150, 1)))
    assert not quiet.has_changed
    changed = quiet.after(2 + random.normal(size=(60, 1)))
    assert changed.has_changed
    assert 150 <= changed.alarm_at < 200
    assert abs(changed.suspected_from - 150) < 15
    assert changed.n_records == 210
    assert changed.after(random.normal(size=(5, 1))).alarm_at == changed.alarm_at
    assert "210 records" in repr(changed)


def test_records_may_come_in_any_portions():
    random = np.random.default_rng(2)
    records = random.normal(size=(40, 1))
    watch = ChangeDetector.begun(standard_model(random.normal(size=(50, 1))))
    parts = watch.after(records[:7]).after(records[7:])
    np.testing.assert_array_equal(parts.statistics, watch.after(records).statistics)


def test_a_model_that_is_not_calibrated_is_refused():
    model = replace(standard_model(np.zeros((3, 1))), calibration=None)
    with pytest.raises(DataError, match="seen none"):
        ChangeDetector.begun(model)
    with pytest.raises(InvalidParameter, match="false_alarm_rate"):
        ChangeDetector.begun(standard_model(np.zeros((3, 1))), 0.0)


# Refits


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_framed_patterns_are_natural_ones_again(family):
    random = np.random.default_rng(0)
    patterns, frame = random_patterns(family, random), Frame(np.array([1.0, -2, 3]), np.array([0.5, 2, 7]))
    if family.name in ("poisson", "categorical"):
        frame = Frame(np.zeros(3), np.ones(3))
    again = family.natural(family.framed(patterns, frame), frame)
    for name, array in patterns.arrays.items():
        np.testing.assert_allclose(again[name], array, rtol=1e-12)


@pytest.fixture(scope="module")
def changed_truths():
    """The chapter's patterns; later the first has moved by one, and the third is gone and another is there."""
    truth = chapter_truth(10)
    moved = truth.means + np.array([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 6, 0, -6]])
    return truth, replace(truth, means=moved)


@pytest.mark.parametrize("family", ["sparse_gaussian", "diagonal_gaussian"])
def test_a_private_refit_has_fewer_sums_and_finds_what_moved_went_and_came(request, changed_truths, family):
    if family == "diagonal_gaussian":  # What is learnt at home is scored for the other family only.
        request.getfixturevalue("nothing_learnt_at_home")
    truth, later_truth = changed_truths
    random = np.random.default_rng(0)
    model = PatternDictionary(6, family=family, bounds=BOUNDS, epsilon=3.0, random_state=0, hide="nothing")
    earlier = model.fit(truth.records(random, 500))
    records, tests = later_truth.records(random, 500), later_truth.records(random, 300)
    later = earlier.refitted(records)
    assert later.n_sums_ == 5 < earlier.n_sums_
    if family == "sparse_gaussian":
        changes = pattern_changes(earlier, later)
        assert (len(changes.kept), len(changes.retired), len(changes.new)) == (2, 1, 1)
        assert later_truth.gap(dictionary_scores(later, tests), tests) < 0.03


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_an_exact_refit_begins_where_the_earlier_one_ended(changed_truths):
    truth, _ = changed_truths
    random = np.random.default_rng(0)
    earlier = PatternDictionary(4, bounds=BOUNDS, hide="nothing").fit(truth.records(random, 120)[:3])
    later = earlier.refitted(truth.records(random, 120)[:3], new_patterns=0)
    assert later.n_sums_ < earlier.n_sums_ / 2
    changes = pattern_changes(earlier, later)
    assert not changes.retired
    assert not changes.new
    assert max(nats for _, _, nats in changes.kept) < 0.5


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_counts_amounts_and_codes_are_refitted_too():
    random = np.random.default_rng(0)
    tables = [random.poisson(np.where(random.random((300, 1)) < 0.5, [2.0, 9.0], [9.0, 2.0])) for _ in range(4)]
    model = PatternDictionary(4, family="poisson", bounds=(0, 40), epsilon=5.0, random_state=0, hide="nothing")
    earlier = model.fit(tables)
    changes = pattern_changes(earlier, earlier.refitted([table + [1, 0] for table in tables]))
    assert len(changes.kept) == 2
    assert not changes.retired


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_dictionaries_of_other_columns_are_not_compared():
    random = np.random.default_rng(0)
    made = [
        PatternDictionary(2, bounds=BOUNDS, hide="nothing").fit([random.normal(size=(40, width)) for _ in range(3)])
        for width in (2, 3)
    ]
    with pytest.raises(InvalidParameter, match="same columns"):
        pattern_changes(*made)


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_a_refit_is_charged_again_and_rests_on_nothing_that_is_not_private(tmp_path, changed_truths):
    truth, _ = changed_truths
    tables = truth.records(np.random.default_rng(0), 60)
    account = Ledger(tmp_path / "ledger.db").account("plants", epsilon=5.0, delta=1e-5)
    model = PatternDictionary(3, bounds=BOUNDS, epsilon=2.0, account=account, private_iterations=2, hide="nothing")
    later = model.fit(tables).refitted(tables)
    assert later.guarantee_.valid
    assert [entry.kind for entry in account.entries()] == ["open", "charge", "result", "charge", "result"]
    with pytest.raises(DataError, match="columns"):
        later.refitted([table[:, :3] for table in tables])

    exact = PatternDictionary(3, bounds=BOUNDS, hide="nothing", max_iter=5, search=False).fit(tables)
    with pytest.raises(InvalidParameter, match="without a valid guarantee"):
        exact.set_params(epsilon=1.0, account=account).refitted(tables)
    seeded = PatternDictionary(3, bounds=BOUNDS, epsilon=1.0, random_state=0, private_iterations=1, hide="nothing")
    with pytest.raises(InvalidParameter, match="without a valid guarantee"):
        seeded.fit(tables).set_params(random_state=None, account=account).refitted(tables)
    assert len(list(account.entries())) == 5


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_a_refit_is_paid_for_only_where_the_earlier_dictionary_was(tmp_path, changed_truths):
    truth, _ = changed_truths
    tables = truth.records(np.random.default_rng(0), 60)
    account, other = (Ledger(tmp_path / name).account("plants", epsilon=5.0, delta=1e-5) for name in ("a.db", "b.db"))
    terms = {"bounds": BOUNDS, "private_iterations": 1, "hide": "nothing"}
    free = PatternDictionary(3, epsilon=4.0, **terms).fit(tables)
    assert free.guarantee_.valid
    paid = PatternDictionary(3, epsilon=2.0, account=account, **terms).fit(tables)
    for earlier, payer in ((free, account), (paid, other)):
        with pytest.raises(InvalidParameter, match="has no charge for this dictionary"):
            earlier.set_params(epsilon=0.5, account=payer).refitted(tables)
    assert [entry.kind for entry in account.entries()] == ["open", "charge", "result"]
    assert [entry.kind for entry in other.entries()] == ["open"]

    void = free.set_params(account=None).refitted(tables)
    assert not void.guarantee_.valid
    assert not void.refitted(tables).guarantee_.valid
    assert paid.set_params(account=None).refitted(tables).guarantee_.valid


@pytest.mark.usefixtures("nothing_learnt_at_home")
def test_a_private_refit_begins_from_what_was_charged_and_from_nothing_put_in_its_place(tmp_path, changed_truths):
    """Exact patterns in a charged dictionary; its guarantee, receipt and seal in an exact one, and what it says of its content."""
    truth, _ = changed_truths
    tables = truth.records(np.random.default_rng(0), 60)
    account = Ledger(tmp_path / "ledger.db").account("plants", epsilon=9.0, delta=1e-5)
    terms = {"bounds": BOUNDS, "hide": "nothing"}
    exact = PatternDictionary(3, max_iter=5, search=False, **terms).fit(tables)

    def paid():
        return PatternDictionary(3, epsilon=1.0, account=account, private_iterations=1, **terms).fit(tables)

    swapped, counted, moved = paid(), paid(), paid()
    swapped.patterns_ = exact.patterns_
    counted.dictionary_ = replace(counted.dictionary_, overall=exact.dictionary_.overall)
    moved.patterns_["means"][0, 0] += 1e-9
    for earlier in (swapped, counted, moved):
        with pytest.raises(InvalidParameter, match="not as its training left it"):
            earlier.refitted(tables)
        with pytest.raises(InvalidParameter, match="not as its training left it"):
            earlier.set_params(account=None).refitted(tables)
    model = paid()
    exact.set_params(epsilon=1.0, account=account)
    exact.guarantee_, exact.receipt_ = model.guarantee_, model.receipt_
    exact.seal_ = sealed(exact._content(), exact.guarantee_, exact.receipt_, None)
    with pytest.raises(InvalidParameter, match="has no charge for this dictionary"):
        exact.refitted(tables)
    exact.seal_, exact._content = model.seal_, model._content
    unfitted = PatternDictionary(3, epsilon=1.0, account=account, private_iterations=1, **terms)
    unfitted._content = exact._content
    for earlier in (lambda: exact.refitted(tables), lambda: unfitted.fit(tables)):
        with pytest.raises(InvalidParameter, match="_content was replaced"):
            earlier()
    assert [entry.kind for entry in account.entries()] == ["open", *["charge", "result"] * 4]
    assert model.refitted(tables).guarantee_.valid


def test_divergences_are_those_of_normal_patterns():
    """Equal variances: half the squared distance in deviations."""
    family = DiagonalGaussian()
    first = Patterns({"means": np.zeros((1, 2)), "precisions": np.ones((1, 2))})
    second = Patterns({"means": np.array([[0.0, 0.0], [2.0, 0.0]]), "precisions": np.ones((2, 2))})
    np.testing.assert_allclose(kl_divergences(family, first, second, 2), [[0.0, 2.0]], atol=0.02)

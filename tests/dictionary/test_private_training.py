"""The private dictionary as people use it, and the arithmetic between its noisy sums. Its promise is tested in tests/guarantees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from sudare.dictionary import PatternDictionary
from sudare.dictionary.column_families import Categorical, Gamma, Poisson
from sudare.dictionary.component_merging import merged
from sudare.dictionary.exponential_families import Patterns
from sudare.dictionary.in_process_secure_sums import ADDENDS, adder
from sudare.dictionary.private_column_patterns import own_intervals
from sudare.dictionary.private_gaussian_patterns import NoisyGaussians, ball_radius, shrunk, variance_left_by_clipping
from sudare.dictionary.private_training import PrivateTerms, public_iterations
from sudare.dictionary.training import simulated, trained
from sudare.errors import (
    BudgetExceeded,
    ImplausibleTotal,
    InvalidCost,
    InvalidParameter,
    SeededNoiseRefused,
    SourceMismatch,
)
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth, dictionary_scores
from sudare.privacy import Ledger
from sudare.privacy.noise import SeededNoise
from sudare.schema import Number, Person, Schema
from tests.dictionary.kit import chapter_records, chapter_terms, held, random_patterns, random_precision

BOUNDS = (-15.0, 20.0)


@pytest.fixture(scope="module")
def ten_members():
    truth = chapter_truth(10)
    random = np.random.default_rng(0)
    return truth, truth.records(random, 1000), truth.records(random, 200)


@pytest.mark.parametrize(("epsilon", "largest_gap"), [(1.0, 0.06), (5.0, 0.02)])
def test_ten_members_learn_patterns_with_epsilon(ten_members, epsilon, largest_gap):
    """Members alone, without any privacy, have a gap of about .019 here; the study has the curve."""
    truth, records, tests = ten_members
    fitted = PatternDictionary(8, bounds=BOUNDS, epsilon=epsilon, random_state=0, hide="nothing").fit(records)
    assert fitted.n_patterns_ == 3
    assert truth.gap(dictionary_scores(fitted, tests), tests) < largest_gap
    assert fitted.n_sums_ == 2 + public_iterations(epsilon, 1e-6, 10_000, 4, 8)
    assert not fitted.guarantee_.valid


def test_diagonal_patterns_with_epsilon(ten_members):
    _, records, _ = ten_members
    model = PatternDictionary(6, family="diagonal_gaussian", bounds=BOUNDS, epsilon=5.0, random_state=0, hide="nothing")
    fitted = model.fit([table[:, :2] for table in records])
    assert fitted.precisions_.shape == (fitted.n_patterns_, 2)
    assert np.all(fitted.precisions_ > 0)


def three_patterns(family, random, rows):
    """Records of three patterns of a family that overlap a little, ten members with two patterns each, and −ln p of the truth."""
    patterns = {
        "poisson": {"rates": np.array([[2.0, 8, 1], [8.0, 2, 1], [3.0, 3, 9]])},
        "gamma": {"shapes": np.array([[4.0, 8, 3], [8.0, 2, 3], [3.0, 3, 6]]), "rates": np.array([[2.0, 2, 1], [2, 2, 3], [0.5, 0.5, 9]])},
        "categorical": {"probabilities": np.array([[0.9, 0.1] * 3 + [0.2, 0.8] * 3, [0.1, 0.9] * 3 + [0.2, 0.8] * 3, [0.5, 0.5] + [0.1, 0.9, 0.9, 0.1] * 2 + [0.9, 0.1]])},
    }  # fmt: skip
    law = {"poisson": Poisson(), "gamma": Gamma(), "categorical": Categorical(levels=(2,) * 6)}[family]
    truth, columns = Patterns(patterns[family]), 6 if family == "categorical" else 3
    weights = np.array([[2, 1, 0], [0, 2, 1], [1, 0, 2]])[np.arange(10) % 3] / 3
    tables = [
        np.concatenate([
            law.draws(truth, k, random.random((int(count), columns)))
            for k, count in enumerate(random.multinomial(rows, own))
        ])
        for own in weights
    ]  # fmt: skip
    return tables, [
        -logsumexp(law.log_joint(table, own, truth), axis=1) for table, own in zip(tables, weights, strict=True)
    ]


@pytest.mark.parametrize(("family", "bounds"), [("poisson", (0, 60)), ("gamma", (0.01, 40)), ("categorical", (0, 1))])
def test_counts_amounts_and_codes_are_learned_with_epsilon(family, bounds):
    random = np.random.default_rng(0)
    records, _ = three_patterns(family, random, 600)
    tests, best = three_patterns(family, random, 200)
    model = PatternDictionary(6, family=family, bounds=bounds, epsilon=4.0, random_state=0, hide="nothing")
    fitted = model.fit(records)
    assert fitted.n_patterns_ == 3
    gap = np.mean(np.concatenate(dictionary_scores(fitted, tests)) - np.concatenate(best))
    assert gap < 0.03


@pytest.mark.parametrize(("family", "low"), [("poisson", 0.0), ("gamma", 0.5), ("categorical", 0.0)])
@pytest.mark.parametrize("epsilon", [0.05, 5.0])
def test_any_records_of_a_family_get_an_answer(family, low, epsilon):
    """Constant columns, two values, all at one bound: patterns have densities all the same."""
    for table in (np.full((20, 2), low), np.full((20, 2), 3.0), np.repeat([[low, 3.0]], 20, axis=0)):
        model = PatternDictionary(
            3, family=family, bounds=(low, 3), epsilon=epsilon, random_state=0, private_iterations=3, hide="nothing"
        )
        fitted = model.fit([table, table])
        assert all(np.all((array > 0) & np.isfinite(array)) for array in fitted.patterns_.arrays.values())
        assert np.isfinite(fitted.member(0).score_samples(table)).all()


@pytest.mark.parametrize("family", [Poisson(), Gamma(), Categorical(levels=(2, 3, 4))], ids=lambda family: family.name)
def test_what_clipping_takes_from_a_pattern_is_what_is_added(family):
    """Means of clipped statistics and what was cut off are, together, the means of a pattern's own statistics."""
    random = np.random.default_rng(1)
    patterns = random_patterns(family, random, 1)
    intervals, lost = own_intervals(family, patterns, 3)
    records = family.draws(patterns, 0, random.random((20_000, 3)))
    relative = family.relative_statistics(records, patterns)
    low, high = intervals.centres[0] - intervals.halves[0], intervals.centres[0] + intervals.halves[0]
    found = np.clip(relative, low, high).mean(axis=0) + lost[0]
    np.testing.assert_allclose(found, relative.mean(axis=0), atol=0.03 * (1 + relative.std()))
    means = family.mean_statistics(relative.mean(axis=0), patterns, np.full(len(found), 1e-9))
    np.testing.assert_allclose(means, family.statistics(records).mean(axis=0), rtol=1e-6, atol=1e-9)


def test_the_whole_training_is_charged_once_and_before_any_noise(tmp_path, monkeypatch):
    account = Ledger(tmp_path / "ledger.db").account("plants", epsilon=3.0, delta=1e-5)
    tables = chapter_records(rows=60)
    model = PatternDictionary(3, bounds=BOUNDS, epsilon=2.0, account=account, private_iterations=2)
    fitted = model.fit(tables)
    assert fitted.guarantee_.valid
    assert (fitted.guarantee_.epsilon, fitted.guarantee_.delta) == (2.0, 1e-6)
    assert [entry.kind for entry in account.entries()] == ["open", "charge", "result"]
    with pytest.raises(BudgetExceeded):
        model.fit(tables)
    assert not hasattr(model, "means_")

    from sudare.privacy import release

    monkeypatch.setattr(release, "SystemNoise", lambda: pytest.fail("noise before the charge"))
    with pytest.raises(BudgetExceeded):
        model.fit(tables)


def test_persons_with_several_rows_need_more_noise(tmp_path):
    columns = {"a": Number(*BOUNDS), "b": Number(*BOUNDS)}
    schema = Schema(columns, Person("patient", 4))
    random = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"a": random.normal(size=40), "b": random.normal(size=40), "patient": np.arange(40) // 4})
        for _ in range(3)
    ]
    model = PatternDictionary(2, schema=schema, epsilon=1.0, random_state=0, private_iterations=1)
    assert model.fit(frames).guarantee_.unit == "person"
    frames[0].to_parquet(tmp_path / "first.parquet")
    assert model.fit([tmp_path / "first.parquet", *frames[1:]]).guarantee_.unit == "person"
    single, several = (PrivateTerms(chapter_terms(), 1.0, 1e-6, rows_per_unit=rows).plan(1000) for rows in (1, 4))
    assert several.total_deviation(several.releases[1]) == pytest.approx(4 * single.total_deviation(single.releases[1]))
    frames[1]["patient"] = 7
    assert model.fit(frames).guarantee_.unit == "person"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bounds": None}, InvalidParameter, "public bounds"),
        ({"family": "poisson", "bounds": (0, 50.5)}, InvalidParameter, "need whole numbers from 0"),
        ({"family": "gamma", "bounds": (0, 50)}, InvalidParameter, "need numbers above 0"),
        ({"colluders": 3}, InvalidParameter, "below the number of members"),
        ({"colluders": 0}, InvalidParameter, "colluders"),
        ({"private_iterations": 0}, InvalidParameter, "private_iterations"),
        ({"delta": 0.0}, InvalidCost, "delta"),
        ({"epsilon": -1.0}, InvalidCost, "epsilon"),
        ({"epsilon": float("nan")}, InvalidCost, "epsilon"),
    ],
)
def test_bad_private_parameters_are_refused(changes, error, message):
    tables = [np.round(np.abs(table)) for table in chapter_records(rows=30)]
    settings = {"n_patterns": 2, "bounds": BOUNDS, "epsilon": 1.0, "random_state": 0, **changes}
    with pytest.raises(error, match=message):
        PatternDictionary(**settings).fit(tables)


def test_noise_too_large_to_be_added_exactly_is_refused_before_the_charge(tmp_path):
    """Proof, step 5: a total is a function of the noisy sum only if no member rounds its noisy addend."""
    account = Ledger(tmp_path / "ledger.db").account("plants", epsilon=3.0, delta=1e-5)
    loud = PatternDictionary(2, bounds=BOUNDS, epsilon=1e-5, delta=1e-6, account=account)
    with pytest.raises(InvalidParameter, match="too large to be added exactly"):
        loud.fit(chapter_records(rows=200))
    assert account.spent().epsilon == 0


@pytest.mark.parametrize("rows", [120, 10**6, 2**22, 2**26])
def test_noisy_addends_are_whole_steps_of_the_words_that_are_added(rows):
    plan = PrivateTerms(chapter_terms(), 1.0, 1e-6).plan(rows)
    limit = max(2.0 ** np.ceil(np.log2(plan.limit(release))) for release in plan.releases)
    addend = np.array([plan.grid, -7 * plan.grid, limit / 2 + plan.grid, limit - plan.grid])
    np.testing.assert_array_equal(ADDENDS.decode(ADDENDS.encode(addend / limit).words) * limit, addend)


def test_an_account_and_a_seed_exclude_each_other_and_an_account_needs_epsilon(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("plants", epsilon=3.0, delta=1e-5)
    tables = chapter_records(rows=30)
    with pytest.raises(SeededNoiseRefused):
        PatternDictionary(2, bounds=BOUNDS, epsilon=1.0, account=account, random_state=0).fit(tables)
    with pytest.raises(InvalidParameter, match="no epsilon"):
        PatternDictionary(2, bounds=BOUNDS, account=account).fit(tables)


def test_any_records_within_the_bounds_get_an_answer():
    """Constant columns, two values, all at one bound: what an exact training would refuse tells nothing here."""
    for table in (np.zeros((20, 2)), np.full((20, 2), 20.0), np.repeat([[-15.0, 20.0]], 20, axis=0)):
        model = PatternDictionary(3, bounds=BOUNDS, epsilon=0.1, random_state=0, private_iterations=3)
        fitted = model.fit([table, table])
        assert np.isfinite(fitted.means_).all()
        assert np.all(np.linalg.eigvalsh(fitted.precisions_) > 0)


def test_totals_that_cannot_be_stop_a_private_training_too():
    def hostile(addends):
        return [np.sum([*addends[:-1], np.ones_like(addends[-1])], axis=0)] * len(addends)

    private = PrivateTerms(chapter_terms(most_rows=64), 1.0, 1e-6)
    with pytest.raises(ImplausibleTotal):
        simulated(trained(private), held(chapter_records(rows=20)), hostile, SeededNoise(0))


def test_questions_do_not_depend_on_who_holds_the_records():
    """Weights come from noisy totals: moving records between members changes nothing but whose noise is added."""
    tables = chapter_records(rows=60)
    private = PrivateTerms(chapter_terms(), 2.0, 1e-6, iterations=3)
    everything = np.concatenate(tables)
    dealt = np.split(everything[np.random.default_rng(0).permutation(len(everything))], 3)
    first, second = (
        simulated(trained(private), held(each), adder(3, "nothing"), SeededNoise(1)).dictionary
        for each in (tables, dealt)
    )
    np.testing.assert_allclose(first.patterns["means"], second.patterns["means"], rtol=1e-9)


@given(st.floats(0.01, 20), st.integers(1, 10**9), st.integers(1, 200), st.integers(1, 50))
def test_the_public_rule_gives_a_usable_number_of_iterations(epsilon, rows, columns, patterns):
    assert 8 <= public_iterations(epsilon, 1e-6, rows, columns, patterns) <= 24
    assert public_iterations(0.1, 1e-6, 100, 4, 8) == 8
    assert public_iterations(10.0, 1e-6, 10**6, 4, 8) == 24


# Between the sums


@pytest.mark.parametrize("columns", [1, 2, 5, 12])
def test_clipping_leaves_a_known_share_of_a_normal_pattern(columns):
    """E min(q, a)/M by numerical integration of the chi-square law."""
    radius = ball_radius(columns)
    most = radius**2 * 1.1
    mean = stats.chi2(columns).expect(lambda q: min(q, most)) / columns
    assert variance_left_by_clipping(columns, radius) == pytest.approx(mean, abs=2e-3)


@given(st.integers(0, 10**6), st.floats(0, 10))
def test_shrunken_covariances_are_positive_and_without_noise_unchanged(seed, noise):
    random = np.random.default_rng(seed)
    rough = random.normal(size=(4, 4))
    regular = shrunk((rough + rough.T) / 2, noise)
    assert np.linalg.eigvalsh(regular)[0] > 0.04
    fine = random_precision(random, 4) + np.eye(4)
    np.testing.assert_allclose(shrunk(fine, 0.0), fine, atol=1e-9)


def pair(distance, count=500.0):
    means = np.array([[0.0, 0.0], [distance, 0.0]])
    return NoisyGaussians(np.full(2, count), means, np.stack([np.eye(2)] * 2), np.zeros(2))


def test_patterns_merge_when_they_are_one_and_stay_when_they_are_two():
    assert len(merged(pair(1.0), 1000).counts) == 1
    assert len(merged(pair(6.0), 1000).counts) == 2
    united = merged(pair(1.0), 1000)
    np.testing.assert_allclose(united.means, [[0.5, 0.0]])
    np.testing.assert_allclose(united.covariances, [[[1.25, 0.0], [0.0, 1.0]]])
    assert united.counts == 1000


@pytest.mark.parametrize("most_rows", [1, 2, 9])
def test_every_sum_of_a_plan_scales_with_the_rows_of_a_person(most_rows):
    """As many rows, as many times what a total may move by, rounding included: exactly, in steps."""
    one, many = (
        PrivateTerms(chapter_terms(), 1.0, 1e-6, 1, 8, rows_per_unit=rows).plan(1000) for rows in (1, most_rows)
    )
    for single, several in zip(one.releases, many.releases, strict=True):
        assert several.steps_moved(many.grid) == most_rows * single.steps_moved(one.grid)


def test_an_account_with_a_name_alone_does_not_pay_for_several_files(tmp_path):
    places = [tmp_path / f"{name}.parquet" for name in "ab"]
    for place in places:
        pd.DataFrame({"x": [-1.0, 0.5, 1.0]}).to_parquet(place)
    account = Ledger(tmp_path / "ledger.db").account("quince", epsilon=1.0, delta=1e-5)
    dictionary = PatternDictionary(
        n_patterns=2,
        schema=Schema({"x": Number(-4, 4)}),
        epsilon=1.0,
        delta=1e-6,
        account=account,
        hide="nothing",
        family="diagonal_gaussian",
    )
    with pytest.raises(SourceMismatch, match="several sources"):
        dictionary.fit(places)
    assert account.spent().epsilon == 0

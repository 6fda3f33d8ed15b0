"""Counts to bounds: the intervals cover, the four statements share the error, and the choice sees nothing it should not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.array_types import Floats
from sudare.audit.epsilon_lower_bounds import (
    Audit,
    Counts,
    checked_sampling,
    epsilon_bound,
    lower_limit,
    mu_bound,
    split,
    strongest_evidence,
    upper_limit,
)
from sudare.errors import InvalidParameter
from sudare.privacy.guarantee import Guarantee


@given(st.integers(1, 500).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_limits_are_clopper_and_pearsons(counted: tuple[int, int]) -> None:
    hits, trials = counted
    interval = stats.binomtest(hits, trials).proportion_ci(confidence_level=1 - 2e-4, method="exact")
    assert lower_limit(np.array(float(hits)), trials, 1e-4) == pytest.approx(interval.low, abs=1e-9)
    assert upper_limit(np.array(float(hits)), trials, 1e-4) == pytest.approx(interval.high, abs=1e-9)


@pytest.mark.parametrize("error", [0.05, 1e-3, 2.5e-7])
@pytest.mark.parametrize("trials", [1, 7, 60])
def test_limits_are_wrong_no_more_often_than_stated(trials: int, error: float) -> None:
    """Summed over all outcomes, for probabilities in between and at the limits themselves, where it is closest."""
    hits = np.arange(trials + 1.0)
    low, high = lower_limit(hits, trials, error), upper_limit(hits, trials, error)
    for probability in np.concatenate([np.linspace(0, 1, 101), low * (1 - 1e-9), high * (1 + 1e-9)]).clip(0, 1):
        mass = stats.binom.pmf(hits, trials, probability)
        assert mass[low > probability].sum() <= error * (1 + 1e-6)
        assert mass[high < probability].sum() <= error * (1 + 1e-6)


def test_limits_at_the_ends() -> None:
    assert lower_limit(np.array([0.0, 10.0]), 10, 1e-3).tolist() == [0.0, pytest.approx(1e-3 ** (1 / 10))]
    assert upper_limit(np.array([0.0, 10.0]), 10, 1e-3).tolist() == [pytest.approx(1 - 1e-3 ** (1 / 10)), 1.0]


def test_epsilon_bound() -> None:
    low, high = np.array([0.5, 0.5, 0.1, 0.0]), np.array([0.1, 0.6, 0.01, 0.2])
    assert epsilon_bound(0.0)(low, high) == pytest.approx([math.log(5), 0.0, math.log(10), 0.0])
    assert epsilon_bound(0.2)(low, high) == pytest.approx([math.log(3), 0.0, 0.0, 0.0])


def test_mu_bound() -> None:
    low, high = stats.norm.cdf([0.5, -1.0, 0.0]), stats.norm.cdf([-0.5, 1.0, 0.0])
    assert mu_bound(low, high) == pytest.approx([1.0, 0.0, 0.0])
    assert mu_bound(np.array([0.0]), np.array([1.0])).tolist() == [0.0]


def test_split_keeps_order_and_loses_nothing() -> None:
    outputs = np.arange(20.0)[:, np.newaxis]
    parts = split(outputs, 0.5)
    assert [len(parts.learning), len(parts.choosing), len(parts.measuring)] == [5, 5, 10]
    np.testing.assert_array_equal(np.concatenate([parts.learning, parts.choosing, parts.measuring]), outputs)
    parts = split(outputs, 0.75)
    assert [len(parts.learning), len(parts.choosing), len(parts.measuring)] == [2, 3, 15]


def first_coordinate(outputs: Floats) -> Floats:
    return outputs[:, 0]


def test_the_four_statements_share_the_error_and_only_the_measured_part_counts() -> None:
    """Learning and choosing parts that would show more than the measured part have no say in the bound."""
    zero, one = np.zeros((100, 1)), np.ones((100, 1))
    measured_first = np.concatenate([np.zeros((90, 1)), np.ones((10, 1))])
    measured_second = np.concatenate([np.zeros((40, 1)), np.ones((60, 1))])
    first, second = np.concatenate([zero, measured_first]), np.concatenate([one, measured_second])
    confidence = 0.99
    bound, event, counts = strongest_evidence(
        [("value", first_coordinate)], split(first, 0.5), split(second, 0.5), epsilon_bound(0.0), confidence
    )
    error = 0.01 / 4
    upwards = math.log(stats.beta.ppf(error, 60, 41) / stats.beta.ppf(1 - error, 11, 90))
    downwards = math.log(stats.beta.ppf(error, 90, 11) / stats.beta.ppf(1 - error, 41, 60))
    assert upwards > downwards
    assert bound == pytest.approx(upwards, rel=1e-9)
    assert counts == Counts(60, 100, 10, 100)
    assert event == "value ≥ 1, likelier under the second data set"
    swapped, event, counts = strongest_evidence(
        [("value", first_coordinate)], split(second, 0.5), split(first, 0.5), epsilon_bound(0.0), confidence
    )
    assert swapped == pytest.approx(upwards, rel=1e-9)
    assert event == "value ≥ 1, likelier under the first data set"
    assert counts == Counts(60, 100, 10, 100)


def test_scores_are_used_with_both_signs() -> None:
    """Only {value ≤ 0} tells these apart, and it is rare under one and common under the other."""
    random = np.random.default_rng(1)
    first = random.choice([0.0, 1.0, 2.0], p=[0.5, 0.25, 0.25], size=(4000, 1))
    second = random.choice([0.0, 1.0, 2.0], p=[0.01, 0.495, 0.495], size=(4000, 1))
    bound, event, _ = strongest_evidence(
        [("value", first_coordinate)], split(first, 0.5), split(second, 0.5), epsilon_bound(0.0), 0.999
    )
    assert bound > math.log(10)
    assert event.startswith("−value ≥ ")
    assert event.endswith("likelier under the first data set")


def test_nothing_to_see() -> None:
    same = split(np.ones((100, 1)), 0.5)
    bound, event, _ = strongest_evidence([("value", first_coordinate)], same, same, epsilon_bound(0.0), 0.999)
    assert bound == 0
    assert event == "no event was seen to tell them apart"


@pytest.mark.parametrize(
    ("samples", "confidence", "share", "name"),
    [
        (39, 0.9, 0.5, "samples"),
        (100, 0.0, 0.5, "confidence"),
        (100, 1.0, 0.5, "confidence"),
        (100, 0.9, 0.05, "measured_share"),
    ],
)
def test_unusable_sampling_is_refused(samples: int, confidence: float, share: float, name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        checked_sampling(samples, confidence, share)


def test_an_audit_speaks_for_itself() -> None:
    held = Audit(Guarantee(2.0, 1e-6), 1.5, "value ≥ 1", 0.999, Counts(60, 100, 10, 100))
    assert held.holds
    assert held.tightness == 0.75
    assert str(held) == ("claimed ε = 2, δ = 1e-06; measured ε ≥ 1.5: holds (value ≥ 1; 60 of 100 against 10 of 100)")
    assert Audit(Guarantee(2.0), 2.0, "e", 0.9, Counts(1, 1, 1, 1)).holds
    refuted = Audit(Guarantee(2.0), 2.0001, "e", 0.9, Counts(1, 1, 1, 1))
    assert not refuted.holds
    assert "REFUTED" in str(refuted)

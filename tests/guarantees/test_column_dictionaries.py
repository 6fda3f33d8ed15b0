"""Private dictionaries of counts, amounts and codes: sensitivities by brute force, and audits from the seat of a curious member.

Each audit has a twin with a planted bug, which the same gate refuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.audit import distinguish_gaussian
from sudare.dictionary.column_families import Categorical, Gamma, Poisson
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.dictionary.exponential_families import Frame, Patterns
from sudare.dictionary.private_column_patterns import own_intervals
from sudare.dictionary.private_sum_questions import Intervals, NoisyStatistics
from sudare.dictionary.private_training import PrivateTerms
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from tests.dictionary.kit import chapter_terms, random_patterns

EPSILON = 5.0
FAMILIES = [Poisson(), Gamma(), Categorical(levels=(2, 3, 4))]
EXTREMES = [0.0, 1.0, -3.0, 1e-200, 1e20, 1e300, math.inf, -math.inf, math.nan]


def records(family, random, rows):
    """Valid records, most of them far from any pattern."""
    if isinstance(family, Categorical):
        return np.stack([random.integers(levels, size=rows) for levels in family.levels], axis=1).astype(float)
    amounts = random.choice([1e-3, 1.0, 1e3], (rows, 3)) * random.exponential(size=(rows, 3))
    return np.floor(amounts) if isinstance(family, Poisson) else amounts + 1e-9


def question_about(family, patterns, intervals, plan=None, columns=3):
    size = len(patterns) * (1 + family.statistic_count(columns))
    plan = plan or NoisePlan(1.0, 1e-3, 3, 1, (NoisyTotal(size, 2.0, Fraction(1)),), 100)
    frame = Frame(np.zeros(columns), np.ones(columns))
    weights = np.full(len(patterns), 1 / len(patterns))
    return NoisyStatistics(np.ones(size), plan, plan.releases[0], family, frame, patterns, weights, intervals)


# By how much one record can move a sum


@given(st.integers(0, 10**6), st.sampled_from(FAMILIES), st.integers(1, 4))
@settings(max_examples=90, deadline=None)
def test_two_records_differ_by_two_at_most(seed, family, count):
    random = np.random.default_rng(seed)
    patterns = random_patterns(family, random, count)
    intervals, _ = own_intervals(family, patterns, 3)
    rows = question_about(family, patterns, intervals).contributions(records(family, random, 8))
    assert np.all(np.linalg.norm(rows, axis=1) <= math.sqrt(2))
    assert np.linalg.norm(rows[:, np.newaxis] - rows, axis=2).max() <= 2


@given(st.integers(0, 10**6), st.sampled_from(FAMILIES), st.sampled_from(EXTREMES), st.sampled_from(EXTREMES))
@settings(max_examples=90, deadline=None)
def test_records_are_clipped_whatever_the_patterns_and_intervals(seed, family, first, second):
    """Parameters and intervals that no total explains."""
    random = np.random.default_rng(seed)
    wild = {name: np.full_like(array, first) for name, array in random_patterns(family, random).arrays.items()}
    shape = 2, family.statistic_count(3)
    intervals = Intervals(Patterns(wild), np.full(shape, second), random.choice(EXTREMES, shape), family.longest(3))
    rows = question_about(family, Patterns(wild), intervals).contributions(records(family, random, 8))
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows[:, np.newaxis] - rows, axis=2).max() <= 2


def far_pair(family):
    """Two records that belong to different patterns, each at the end of its intervals: they differ by two."""
    if isinstance(family, Categorical):
        probabilities = np.array([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])
        family, patterns = Categorical(levels=(2,)), Patterns({"probabilities": probabilities})
        pair = np.array([[0.0]]), np.array([[1.0]])
    elif isinstance(family, Poisson):
        patterns, pair = Patterns({"rates": np.array([[1.0], [900.0]])}), (np.array([[9.0]]), np.array([[1500.0]]))
    else:
        patterns = Patterns({"shapes": np.full((2, 1), 100.0), "rates": np.array([[100.0], [0.1]])})
        pair = np.array([[1e-3]]), np.array([[1e6]])
    intervals, _ = own_intervals(family, patterns, 1)
    size = 2 * (1 + family.statistic_count(1))
    plan = NoisePlan(EPSILON, 1e-3, 2, 1, (NoisyTotal(size, 2.0, Fraction(1)),), 2)
    return question_about(family, patterns, intervals, plan, columns=1), pair


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_two_is_reached(family):
    question, (first, second) = far_pair(family)
    distance = np.linalg.norm(question.contributions(first) - question.contributions(second))
    assert distance == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_noise_of_all_sums_is_that_of_one_gaussian(family):
    low = np.full(3, 0.5 if isinstance(family, Gamma) else 0.0)
    terms = chapter_terms(columns=("a", "b", "c"), low=low, high=np.array([1.0, 2.0, 3.0]), family=family)
    plan = PrivateTerms(terms, 1.0, 1e-6, iterations=8).plan(10_000)
    squares = [(release.sensitivity / (plan.deviation_in_steps(release) * plan.grid)) ** 2 for release in plan.releases]
    mu = math.sqrt(sum(squares))
    assert mu <= plan.cost.mu
    assert mu == pytest.approx(plan.cost.mu, rel=1e-6)
    assert gaussian_epsilon(mu, 1e-6) <= 1.0
    assert len(plan.releases) == (8 if isinstance(family, Categorical) else 9)
    assert {release.sensitivity for release in plan.releases[1:]} == {2.0}


# Audits: what a curious member sees when it has subtracted its own share and its own records


def gate(question, pair, samples=2500):
    source = SystemNoise()

    def draws(table, count):
        sums = np.tile(question.exact_sums(table), count)
        return question.plan.noisy(sums, question.release, source).reshape(count, -1)

    claimed = Guarantee(question.plan.epsilon, question.plan.delta)
    return distinguish_gaussian(draws, pair, claimed, question.plan.cost.mu, samples, batched=True, measured_share=0.7)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_curious_member_of_two_learns_no_more_than_was_promised(family):
    question, pair = far_pair(family)
    audit = gate(question, pair)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.3, str(audit)


@dataclass(frozen=True, eq=False)
class Unclipped(NoisyStatistics):
    """Bug: sufficient statistics as they are, as in an exact training."""

    def _within_intervals(self, Z, k):
        return self.family.statistics(Z)


@pytest.mark.parametrize("family", [Poisson(), Gamma()], ids=lambda family: family.name)
def test_statistics_that_are_not_clipped_are_refused(family):
    question, pair = far_pair(family)
    audit = gate(Unclipped(**vars(question)), pair)
    assert not audit.holds, str(audit)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_half_of_the_sensitivity_is_refused(family):
    """Bug: noise for half of what a replaced record moves."""
    question, pair = far_pair(family)
    small = NoisyTotal(question.release.size, 1.0, Fraction(1))
    plan = replace(question.plan, releases=(small,))
    audit = gate(replace(question, plan=plan, release=small), pair)
    assert not audit.holds, str(audit)


def test_codes_of_many_columns_that_are_not_made_shorter_are_refused():
    """Bug: a one for every column, without the division by √M."""

    @dataclass(frozen=True, eq=False)
    class Long(NoisyStatistics):
        def _within_intervals(self, Z, k):
            return self.family.statistics(Z)

    columns = 6
    family = Categorical(levels=(2,) * columns)
    patterns = Patterns({"probabilities": np.full((1, 2 * columns), 0.5)})
    intervals, _ = own_intervals(family, patterns, columns)
    release = NoisyTotal(1 + 2 * columns, 2.0, Fraction(1))
    plan = NoisePlan(EPSILON, 1e-3, 2, 1, (release,), 2)
    question = question_about(family, patterns, intervals, plan, columns)
    pair = np.zeros((1, columns)), np.ones((1, columns))
    assert not gate(Long(**vars(question)), pair, samples=800).holds

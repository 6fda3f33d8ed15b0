"""Unbiased shares of pairs, their errors, and the test of independence."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy.stats import binom, chi2, chi2_contingency

from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection, UnaryEncoding
from sudare.reconstruction.binning import bin_edges
from sudare.reconstruction.category_frequencies import answers_of
from sudare.reconstruction.pair_proportions import (
    ScoredAnswers,
    independence,
    scored_categories,
    scored_numbers,
    scored_pairs,
    variance_over_pairings,
    whitened,
)
from sudare.reconstruction.reconstructed_distribution import Distribution, Layout

EDGES = np.array([0.0, 3.0, 7.0, 10.0])
NUMBER = SquareWave((0, 10), epsilon=2)
CELLS = 50


def independence_of(first, second):
    return independence(first, second, np.random.default_rng(0))


def uniform_margin() -> Distribution:
    return Distribution(Layout(np.linspace(0, 10, CELLS + 1), np.empty(0)), np.full(CELLS, 1 / CELLS), 1, {})


def scored_wave(values, seed):
    y = NUMBER.perturb(values, shuffle=False, random_state=seed)
    return scored_numbers(NUMBER, uniform_margin(), bin_edges(NUMBER, CELLS), EDGES, y)


def scored(perturbation, values, seed):
    answers = perturbation.perturb(values, shuffle=False, random_state=seed)
    return scored_categories(perturbation, answers_of(perturbation, answers))


def test_scores_of_numbers_are_unbiased_given_their_spread():
    edges_y = bin_edges(NUMBER, CELLS)
    scores = scored_numbers(NUMBER, uniform_margin(), edges_y, EDGES, np.array([1.0] * 10)).scores
    for place, (low, high) in enumerate(pairwise(EDGES)):
        spread = NUMBER.transition(edges_y, np.array([low, high]))[:, 0]
        np.testing.assert_allclose(spread @ scores, np.eye(3)[place], atol=1e-6)


@pytest.mark.parametrize("kind", [RetainReplace, UnaryEncoding, SubsetSelection])
def test_errors_of_pairs_are_those_of_repetitions(kind):
    rng = np.random.default_rng(0)
    number, category = rng.uniform(0, 10, 2000), rng.choice(4, 2000, p=[0.4, 0.3, 0.2, 0.1])
    other = kind([0, 1, 2, 3], epsilon=1.5)
    true = np.array([np.histogram(number[category == level], EDGES)[0] for level in range(4)]).T / 2000
    found = [scored_pairs(scored_wave(number, seed), scored(other, category, seed + 500)) for seed in range(60)]
    standard = np.array([(mean - true) / error for mean, error in found])
    # 720 numbers, dependent in groups of 12: the mean square is within 0.25 of one for an honest error.
    assert np.mean(standard**2) == pytest.approx(1, abs=0.25)
    assert np.abs(standard.mean(axis=0)).max() < 5 / np.sqrt(60)


def test_for_single_categories_the_statistic_is_pearsons():
    rng = np.random.default_rng(1)
    first, second = rng.choice(3, 500), rng.choice(4, 500)
    scored_ones = [ScoredAnswers(values, np.eye(count)) for values, count in ((first, 3), (second, 4))]
    table = np.histogram2d(first, second, [np.arange(4), np.arange(5)])[0]
    expected = chi2_contingency(table, correction=False)
    found = independence_of(*scored_ones)
    # Over all pairings the mean of Pearson's statistic is a little above its degrees of freedom.
    mean = expected.dof * 500 / 499
    assert found.statistic / found.degrees_of_freedom == pytest.approx(expected.statistic / mean)
    assert found.degrees_of_freedom == pytest.approx(expected.dof, rel=0.02)
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.01)


def test_the_law_has_the_mean_and_variance_over_all_pairings():
    rng = np.random.default_rng(2)
    first = ScoredAnswers(np.array([0, 0, 0, 1, 2, 3]), rng.normal(size=(4, 2)))
    second = ScoredAnswers(np.array([0, 1, 1, 2, 2, 2]), rng.normal(size=(3, 2)))
    shares = [np.bincount(scored.answers) / 6 for scored in (first, second)]
    left, right = (whitened(scored.scores, own) for scored, own in zip((first, second), shares, strict=True))
    every = [
        ((left[first.answers].T @ right[second.answers[list(order)]]) ** 2).sum() / 6
        for order in permutations(range(6))
    ]
    assert np.mean(every) == pytest.approx(6 * left.shape[1] * right.shape[1] / 5)
    variance = variance_over_pairings([(left, shares[0]), (right, shares[1])], 6)
    assert variance == pytest.approx(np.var(every))
    found = independence_of(first, second)
    assert found.degrees_of_freedom == pytest.approx(2 * np.mean(every) ** 2 / variance)
    assert found.statistic == pytest.approx(every[0] * 2 * np.mean(every) / variance)
    assert found.p_value == pytest.approx(chi2.sf(found.statistic, found.degrees_of_freedom))


def too_liberal(first: ScoredAnswers, second: ScoredAnswers) -> float:
    """The plain chi-square law of Pearson's statistic."""
    table = np.zeros((20, 20))
    np.add.at(table, (first.answers, second.answers), 1)
    return float(chi2_contingency(table[table.any(axis=1)][:, table.any(axis=0)], correction=False).pvalue)


def test_the_level_is_held_where_answers_are_rare_and_the_plain_chi_square_law_does_not():
    """Of 400 tables no more are rejected than binomial bounds with an error of 5e-7 each, at two levels, allow: a false alarm in a million."""
    values = []
    for seed in range(400):
        columns = np.minimum(np.random.default_rng(seed).zipf(1.5, (2, 100)) - 1, 19)
        pair = [ScoredAnswers(column, np.eye(20)) for column in columns]
        values.append((independence_of(pair[0], pair[1]).p_value, too_liberal(*pair)))
    for level in (0.05, 0.01):
        ours, planted = (np.array(values) < level).sum(axis=0)
        assert ours <= binom.ppf(1 - 5e-7, 400, level) < planted, level


def test_too_few_records_or_only_one_pairing_reject_nothing():
    distinct = ScoredAnswers(np.arange(30), np.eye(30))
    assert independence_of(distinct, distinct).p_value == 1.0
    three = ScoredAnswers(np.array([0, 1, 0]), np.eye(2))
    assert independence_of(three, three).p_value == 1.0


@pytest.mark.parametrize("pair", ["number and set", "categories"])
def test_the_test_holds_its_level_and_sees_dependence(pair):
    """Of 200 independent pairs at most so many are rejected at 5 % (a binomial bound with error 1e-6), and at least a few."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        category = rng.choice(4, 400, p=[0.5, 0.3, 0.1, 0.1])
        second = scored(SubsetSelection([0, 1, 2, 3], epsilon=1.0), category, seed)
        if pair == "categories":
            first = scored(RetainReplace(["a", "b"], epsilon=1.0), rng.choice(["a", "b"], 400), seed + 1000)
        else:
            first = scored_wave(rng.beta(2, 5, 400) * 10, seed + 1000)
        rejected += independence_of(first, second).p_value < 0.05
    assert binom.ppf(1e-3, 200, 0.05) <= rejected <= binom.ppf(1 - 1e-6, 200, 0.05)
    category = np.random.default_rng(0).choice(4, 4000)
    together = scored_wave(category * 2.5 + 1, 0), scored(RetainReplace([0, 1, 2, 3], epsilon=1.0), category, 1)
    assert independence_of(*together).p_value < 1e-6


def test_scores_that_say_nothing_take_no_degrees_of_freedom():
    assert whitened(np.ones((3, 2)), np.array([0.2, 0.3, 0.5])).shape == (3, 0)
    nothing = ScoredAnswers(np.zeros(50, dtype=np.intp), np.ones((1, 2)))
    assert independence_of(nothing, nothing).p_value == 1.0
    laplace = LaplacePerturbation((0, 10), epsilon=0.01)
    edges_y = bin_edges(laplace, CELLS)
    hidden = scored_numbers(laplace, uniform_margin(), edges_y, EDGES, np.full(20, 5.0))
    assert np.isfinite(hidden.scores).all()

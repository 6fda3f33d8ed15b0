"""Unbiased shares of pairs, their errors, and the test of independence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency

from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection, UnaryEncoding
from sudare.reconstruction.binning import bin_edges
from sudare.reconstruction.category_frequencies import answers_of
from sudare.reconstruction.pair_proportions import (
    ScoredAnswers,
    independence,
    scored_categories,
    scored_numbers,
    scored_pairs,
    whitened,
)
from sudare.reconstruction.reconstructed_distribution import Distribution, Layout

EDGES = np.array([0.0, 3.0, 7.0, 10.0])
NUMBER = SquareWave((0, 10), epsilon=2)
CELLS = 50


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
    found = independence(*scored_ones)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.degrees_of_freedom == expected.dof
    assert found.p_value == pytest.approx(expected.pvalue)


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
        rejected += independence(first, second).p_value < 0.05
    assert binom.ppf(1e-3, 200, 0.05) <= rejected <= binom.ppf(1 - 1e-6, 200, 0.05)
    category = np.random.default_rng(0).choice(4, 4000)
    together = scored_wave(category * 2.5 + 1, 0), scored(RetainReplace([0, 1, 2, 3], epsilon=1.0), category, 1)
    assert independence(*together).p_value < 1e-6


def test_scores_that_say_nothing_take_no_degrees_of_freedom():
    assert whitened(np.ones((3, 2)), np.array([0.2, 0.3, 0.5])).shape == (3, 0)
    nothing = ScoredAnswers(np.zeros(50, dtype=np.intp), np.ones((1, 2)))
    assert independence(nothing, nothing).p_value == 1.0
    laplace = LaplacePerturbation((0, 10), epsilon=0.01)
    edges_y = bin_edges(laplace, CELLS)
    hidden = scored_numbers(laplace, uniform_margin(), edges_y, EDGES, np.full(20, 5.0))
    assert np.isfinite(hidden.scores).all()

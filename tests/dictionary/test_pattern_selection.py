"""Which patterns and which dependencies: decided from sums, and rightly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.dictionary.dependency_selection import edge_price
from sudare.dictionary.em import Fit, Opening
from sudare.dictionary.exponential_families import Frame, Overall
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.pattern_selection import (
    deletion,
    merges,
    normal_points,
    refined,
    splits,
)
from sudare.dictionary.sum_questions import Branch
from tests.dictionary.kit import chapter_terms, random_patterns


def some_fit(patterns=4, seed=0):
    random = np.random.default_rng(seed)
    family = SparseGaussian()
    found = random_patterns(family, random, patterns, 4)
    counts = random.uniform(50, 100, patterns)
    covariances = np.linalg.inv(found["precisions"])
    squares = counts[:, None, None] * (covariances + found["means"][:, :, None] * found["means"][:, None])
    rows, columns = np.triu_indices(4)
    statistics = np.hstack([counts[:, None] * found["means"], squares[:, rows, columns]])
    opening = Opening(
        chapter_terms(family=family), Overall(300, np.zeros(4), np.eye(4)), Frame(np.zeros(4), np.ones(4)), np.ones(14)
    )
    return opening, Fit(found, Branch(0), counts, statistics, 0.0, 0.0, 0.0, ())


def test_points_are_public_spread_like_a_normal_cloud_and_never_the_same():
    points = normal_points(500, 3)
    np.testing.assert_array_equal(points, normal_points(500, 3))
    assert len(np.unique(points, axis=0)) == 500
    for column in points.T:
        assert stats.kstest(column, "norm").statistic < 0.02
    for size in (3, 12, 13, 40):
        np.testing.assert_array_equal(normal_points(2, size, skip=5), normal_points(7, size)[5:])


@pytest.mark.parametrize("size", [2, 10, 40, 200])
@pytest.mark.parametrize("count", [4, 8, 12])
def test_few_points_surround_the_centre_in_any_number_of_columns(size, count):
    """No column has all its points on one side, which would begin every pattern in the same corner."""
    points = normal_points(count, size)
    assert np.isfinite(points).all()
    if size > 12:
        assert np.all(points.min(axis=0) < 0)
        assert np.all(points.max(axis=0) > 0)
        assert np.abs(points.mean(axis=0)).max() < 0.7


@given(st.integers(2, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_candidates_keep_every_record_and_every_weight(patterns, seed):
    """Transfers map weights to weights: merged ones add up, split ones are halved, the rest stays; deletions lose one."""
    opening, fit = some_fit(patterns, seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(patterns))
    overlap = np.eye(patterns) + 0.1
    for candidate in [*merges(opening, fit, overlap), *splits(opening, fit)]:
        assert len(candidate.patterns) == len(candidate.transfer)
        assert (candidate.transfer @ weights).sum() == pytest.approx(1.0)
    fewer = deletion(fit)
    assert len(fewer.patterns) == patterns - 1
    assert (fewer.transfer @ weights).sum() == pytest.approx(1 - weights[np.argmin(fit.counts)])


def test_merged_patterns_have_the_moments_of_both():
    """From totals alone, the union's mean is the mean of both patterns' records."""
    opening, fit = some_fit(3)
    overlap = np.eye(3)
    overlap[0, 2] = overlap[2, 0] = 0.9
    united = next(iter(merges(opening, fit, overlap))).patterns
    both = fit.statistics[[0, 2], :4].sum(axis=0) / (fit.counts[[0, 2]].sum() + opening.family.shrinkage)
    np.testing.assert_allclose(united["means"][-1], both, rtol=1e-9)
    np.testing.assert_array_equal(united["means"][0], fit.patterns["means"][1])


def test_bic_pays_for_sparse_patterns_what_they_would_keep():
    """Never more than for all entries, never less than for means and variances; other families pay for every number."""
    opening, fit = some_fit()
    least = 2 * 16 * np.log(300)
    pairs = 4 * 6 * edge_price(300, 4)
    assert least < fit.bic(opening, opening.family) < least + pairs + 1e-6
    diagonal = DiagonalGaussian()
    patterns = random_patterns(diagonal, np.random.default_rng(0), 4, 4)
    assert diagonal.description_length(fit.counts, fit.statistics, patterns, 300) == pytest.approx(least)


def test_only_sparse_patterns_are_refined():
    opening, fit = some_fit()
    opening = Opening(chapter_terms(family=DiagonalGaussian()), opening.overall, opening.frame, opening.limits)
    with pytest.raises(TypeError, match="supports"):
        next(refined(opening, fit))

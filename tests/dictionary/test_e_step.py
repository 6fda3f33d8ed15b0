"""The E step: the sums that the formulas give, in both precisions, and the same bits however rows are parted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from sudare.dictionary import e_step as kernels
from sudare.dictionary.e_step import (
    CHUNK_ROWS,
    Statistics,
    diagonal_gaussian_statistics,
    gaussian_statistics,
)
from sudare.errors import DataError, InvalidParameter
from sudare.frames.fixed_order_summation import pairwise_total


def mixture(patterns, width, rows, seed=0):
    """Rows, and the parameters of a mixture that is not the one they come from."""
    random = np.random.default_rng(seed)
    factors = np.tril(random.normal(size=(patterns, width, width)), -1)
    factors[:, range(width), range(width)] = random.uniform(0.5, 2, size=(patterns, width))
    means = random.normal(scale=2, size=(patterns, width))
    weights = random.dirichlet(np.ones(patterns))
    X = random.normal(scale=2, size=(rows, width))
    log_dets = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return X, np.log(weights), means, factors, log_dets


def by_formulas(X, log_weights, means, precisions):
    """(1.13) and (1.57) with the densities of scipy."""
    logs = np.stack(
        [
            log_weight + np.atleast_1d(multivariate_normal(mean, np.linalg.inv(precision)).logpdf(X))
            for log_weight, mean, precision in zip(log_weights, means, precisions, strict=True)
        ],
        axis=1,
    )
    likelihoods = logsumexp(logs, axis=1)
    r = np.exp(logs - likelihoods[:, np.newaxis])
    return Statistics(r.sum(axis=0), r.T @ X, np.einsum("nk,ni,nj->kij", r, X, X), float(likelihoods.sum()))


def assert_close(got, expected, relative):
    for ours, theirs in zip(got, expected, strict=True):
        size = max(1.0, np.max(np.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, rtol=relative, atol=relative * size)


@pytest.mark.parametrize(
    ("patterns", "width", "rows"), [(1, 1, 1), (1, 3, 255), (3, 2, 256), (4, 5, 257), (6, 7, 9000)]
)
def test_sums_are_those_of_the_formulas(patterns, width, rows):
    X, log_weights, means, factors, log_dets = mixture(patterns, width, rows)
    expected = by_formulas(X, log_weights, means, factors @ np.swapaxes(factors, 1, 2))
    assert_close(gaussian_statistics(X, log_weights, means, factors, log_dets), expected, 1e-10)
    single = gaussian_statistics(X, log_weights, means, factors, log_dets, np.float32)
    assert_close(single, expected, 2e-4)
    assert single.counts.dtype == single.moments.dtype == np.float64


@pytest.mark.parametrize(("patterns", "width", "rows"), [(1, 1, 1), (3, 4, 300), (5, 6, 5000)])
def test_sums_of_independent_columns(patterns, width, rows):
    X, log_weights, means, factors, _ = mixture(patterns, width, rows)
    precisions = np.diagonal(factors, axis1=1, axis2=2) ** 2
    expected = by_formulas(X, log_weights, means, [np.diag(row) for row in precisions])
    expected = Statistics(
        expected.counts, expected.sums, np.einsum("kii->ki", expected.moments), expected.log_likelihood
    )
    assert_close(diagonal_gaussian_statistics(X, log_weights, means, precisions), expected, 1e-10)
    assert_close(diagonal_gaussian_statistics(X, log_weights, means, precisions, np.float32), expected, 2e-4)


def test_moments_are_symmetric_and_counts_add_up():
    X, *parameters = mixture(4, 6, 10000)
    found = gaussian_statistics(X, *parameters)
    np.testing.assert_array_equal(found.moments, np.swapaxes(found.moments, 1, 2))
    assert found.counts.sum() == pytest.approx(len(X), rel=1e-12)
    np.testing.assert_allclose(found.sums.sum(axis=0), X.sum(axis=0), rtol=1e-10)


@settings(max_examples=20)
@given(st.integers(1, 7), st.integers(0, 2**20))
def test_the_same_bits_from_aligned_parts(log_chunks, seed):
    """Parts that begin at multiples of a power of two of chunks are branches of the same tree."""
    rows = int(np.random.default_rng(seed).integers(1, 6 * CHUNK_ROWS))
    X, *parameters = mixture(2, 2, rows, seed=3)
    whole = gaussian_statistics(X, *parameters)
    step = 2**log_chunks * CHUNK_ROWS
    parts = pairwise_total(gaussian_statistics(X[start : start + step], *parameters) for start in range(0, rows, step))
    assert parts is not None
    for left, right in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_same_bits_again_and_from_other_layouts():
    X, *parameters = mixture(3, 4, 5000)
    first = gaussian_statistics(X, *parameters)
    for again in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        for left, right in zip(first, gaussian_statistics(again, *parameters), strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("dtype", "relative"), [(np.float64, 1e-13), (np.float32, 2e-5)])
def test_exponentials(dtype, relative):
    from sudare.dictionary.e_step_kernels import set_exponentials

    exponential = kernels._exponential(dtype)
    size = exponential[1].shape[1]
    smallest = float(exponential[0][1])
    for values in (np.linspace(smallest, 0, size), np.linspace(-1, 0, size), -(2.0 ** -np.arange(size))):
        found = values.astype(dtype)
        exact = np.exp(found.astype(np.longdouble))
        set_exponentials(found, exponential)
        np.testing.assert_allclose(found, exact.astype(np.float64), rtol=relative)
    far = np.full(size, -math.inf, dtype=dtype)
    set_exponentials(far, exponential)
    assert np.all((far > 0) & (far < 1e-37))


def test_a_row_far_from_all_patterns():
    X, log_weights, means, factors, log_dets = mixture(3, 4, 10)
    X[4] = 1e6
    expected = by_formulas(X, log_weights, means, factors @ np.swapaxes(factors, 1, 2))
    assert_close(gaussian_statistics(X, log_weights, means, factors, log_dets), expected, 1e-9)


def test_a_pattern_without_weight_gets_nothing():
    X, log_weights, means, factors, log_dets = mixture(3, 4, 1000)
    log_weights[1] = -math.inf
    found = gaussian_statistics(X, log_weights, means, factors, log_dets)
    others = gaussian_statistics(X, log_weights[[0, 2]], means[[0, 2]], factors[[0, 2]], log_dets[[0, 2]])
    assert found.counts[1] < 1e-290
    np.testing.assert_allclose(found.counts[[0, 2]], others.counts, rtol=1e-12)


def test_no_rows():
    X, *parameters = mixture(3, 4, 0)
    found = gaussian_statistics(X, *parameters)
    assert found.log_likelihood == 0.0
    assert not found.counts.any()
    assert found.moments.shape == (3, 4, 4)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("patterns", [1, 3])
def test_gaps_are_refused_and_not_shown(value, patterns):
    X, *parameters = mixture(patterns, 4, 700)
    X[600, 2] = value
    with pytest.raises(DataError, match="not a finite number"):
        gaussian_statistics(X, *parameters)
    with pytest.raises(DataError, match="not a finite number"):
        gaussian_statistics(X, *parameters, np.float32)


def test_what_does_not_fit_is_said():
    X, log_weights, means, factors, log_dets = mixture(3, 4, 10)
    with pytest.raises(DataError, match="do not fit together"):
        gaussian_statistics(X[:, :3], log_weights, means, factors, log_dets)
    with pytest.raises(DataError, match="do not fit together"):
        gaussian_statistics(X, log_weights[:2], means, factors, log_dets)
    with pytest.raises(DataError, match="do not fit 3 patterns"):
        gaussian_statistics(X, log_weights, means, factors[:2], log_dets)
    with pytest.raises(DataError, match="do not fit 3 patterns"):
        diagonal_gaussian_statistics(X, log_weights, means, np.zeros((3, 4)))
    with pytest.raises(DataError, match="no pattern"):
        gaussian_statistics(X, log_weights[:0], means[:0], factors[:0], log_dets[:0])
    with pytest.raises(InvalidParameter, match="float64 nor float32"):
        gaussian_statistics(X, log_weights, means, factors, log_dets, np.float16)

"""From noisy sums to a line: without noise it is that of least squares, with much noise there is none; and what is asked for beside."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.linear.noisy_moment_regression import NoisyMoments, coefficients, combined, prior_covariances
from sudare.linear.rows import array_layout, table_layout
from sudare.schema import Category, Number, Schema

NO_PENALTY = np.zeros(3)


def moments_of(matrix, targets, deviation=1e-6, pairs=True, noise=0.0, blocks=(), is_centred=True) -> NoisyMoments:
    """Sums of a table; noise of one size on all that concerns the target."""
    width = matrix.shape[1]
    random = np.random.default_rng(1)
    return NoisyMoments(
        rows=len(matrix),
        sums=matrix.sum(axis=0),
        gram=matrix.T @ matrix,
        target_sum=float(targets.sum()),
        cross=matrix.T @ targets + noise * random.normal(size=width),
        cross_noise=max(noise, deviation) ** 2 * np.eye(width),
        one_hot_blocks=blocks,
        pairs=np.triu_indices(width, 1) if pairs else (np.zeros(0, int), np.zeros(0, int)),
        product_deviation=deviation,
        square_deviation=deviation,
        is_centred=is_centred,
    )


def correlated(rows=5000):
    random = np.random.default_rng(0)
    first = random.uniform(-1, 1, (rows, 3)) * 0.5
    first[:, 1] += first[:, 0]
    return first + 0.2, 0.1 + 0.4 * first[:, 0] - 0.2 * first[:, 1] + random.normal(0, 0.02, rows)


def test_without_noise_it_is_least_squares():
    matrix, targets = correlated()
    found = coefficients(moments_of(matrix, targets), float(targets.var()), [np.eye(3)], 0.8, NO_PENALTY)
    centred = matrix - matrix.mean(axis=0)
    expected = np.linalg.lstsq(centred, targets - targets.mean(), rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_with_much_noise_there_is_no_line():
    matrix, targets = correlated()
    moments = moments_of(matrix, targets, noise=2000.0)
    assert not coefficients(moments, float(targets.var()), [np.eye(3)], 0.8, NO_PENALTY).any()


def test_noise_in_between_shrinks_the_line():
    matrix, targets = correlated()
    exact, noisy = (
        coefficients(moments_of(matrix, targets, noise=noise), float(targets.var()), [np.eye(3)], 0.5, NO_PENALTY)
        for noise in (0.0, 60.0)
    )
    assert 0 < np.linalg.norm(noisy) < np.linalg.norm(exact)


def test_a_penalty_that_was_asked_for_is_that_of_ridge_regression():
    matrix, targets = correlated()
    centred = matrix - matrix.mean(axis=0)
    expected = np.linalg.solve(centred.T @ centred + 50 * np.eye(3), centred.T @ (targets - targets.mean()))
    found = coefficients(moments_of(matrix, targets), 1.0, [np.eye(3)], 0.8, np.full(3, 50.0))
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    through_zero = moments_of(matrix, targets, is_centred=False)
    expected = np.linalg.solve(matrix.T @ matrix + 50 * np.eye(3), matrix.T @ targets)
    np.testing.assert_allclose(coefficients(through_zero, 1.0, [np.eye(3)], 0.8, np.full(3, 50.0)), expected, rtol=1e-3)


def test_products_under_noise_are_those_of_independent_columns():
    matrix, targets = correlated(200)
    known, _ = moments_of(matrix, targets).covariance()
    np.testing.assert_allclose(known, 200 * np.cov(matrix.T, ddof=0), rtol=1e-3, atol=1e-2)
    hidden, unknown = moments_of(matrix, targets, deviation=1e4).covariance()
    assert np.count_nonzero(hidden - np.diag(np.diag(hidden))) == 0
    assert unknown > 0
    assert np.linalg.eigvalsh(known).min() >= -1e-9


def test_columns_of_a_one_hot_group_exclude_each_other():
    random = np.random.default_rng(0)
    matrix = np.eye(3)[random.integers(0, 3, 3000)]
    moments = moments_of(matrix, np.zeros(3000), pairs=False, blocks=((0, 3),))
    np.testing.assert_allclose(moments.covariance()[0], 3000 * np.cov(matrix.T, ddof=0), atol=0.1)
    # Where noise hides their counts they are taken to be equal.
    np.testing.assert_allclose(moments_of(matrix, np.zeros(3000), 1e9, blocks=((0, 3),)).column_means, 1 / 3, atol=1e-3)


def test_values_and_their_trend_are_weighed_by_their_noise():
    truth, trend = np.array([1.0, 2.0, 6.0]), np.array([[-1.0], [0.0], [1.0]])
    exact, _ = combined(truth, np.full(3, 1e-6), trend, np.array([99.0]), 1e3)
    np.testing.assert_allclose(exact, truth, rtol=1e-6)
    found, noise = combined(truth + [1, 0, 0], np.full(3, 1.0), trend, trend.T @ truth, 1e-3)
    assert found @ trend[:, 0] == pytest.approx(5.0, rel=1e-4)
    assert trend[:, 0] @ noise @ trend[:, 0] == pytest.approx(1e-6, rel=1e-3)


def test_priors_know_the_order_of_bins():
    schema = Schema({"age": Number(0, 100, bins=(20, 40, 60, 80)), "sex": Category(("f", "m"))})
    layout = table_layout(schema, "binned", True)
    assert layout.bin_centres == ((0, pytest.approx((-0.8, -0.4, 0.0, 0.4, 0.8))),)
    assert layout.one_hot_blocks == ((0, 5), (5, 7))
    plain, smooth, line = prior_covariances(layout)
    np.testing.assert_array_equal(plain, np.eye(7))
    assert smooth[0, 1] > smooth[0, 4] > 0 == smooth[0, 5]
    assert line[0, 4] == pytest.approx(-0.64)
    for prior in (smooth, line):
        assert np.linalg.eigvalsh(prior).min() > 0
    assert len(prior_covariances(array_layout(3, 1.0, True))) == 1

"""Loops over the pairs of a sparse symmetric matrix: products against numpy, and the linear system."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.dictionary.graphical_lasso_newton_kernels import STRONG, move_to_zero_at_most
from sudare.dictionary.graphical_lasso_pair_kernels import (
    Model,
    conjugate_step,
    pairs_and_rows,
    set_preconditioned,
    set_product,
    set_sandwich,
    squares_beyond_zero,
    strong_entries,
)


def sparse_symmetric(random, size, share):
    matrix = np.where(random.random((size, size)) < share, random.normal(size=(size, size)), 0.0)
    return np.triu(matrix, 1) + np.triu(matrix, 1).T + np.diag(random.uniform(1, 2, size))


def pairs_not_zero(matrix):
    rows, columns = np.nonzero(np.triu(matrix))
    return pairs_and_rows(np.searchsorted(rows, np.arange(len(matrix) + 1)), columns)


def at_pairs(pairs, matrix):
    rows = np.repeat(np.arange(len(matrix)), np.diff(pairs.starts))
    return matrix[rows, pairs.columns]


def model_at(pairs, values, penalties, precision):
    return Model(values, np.zeros_like(values), penalties, at_pairs(pairs, precision), values != 0)


def strong_at(pairs, precision):
    return strong_entries(pairs, precision, STRONG, np.empty(0, np.float32))


def step_at(pairs, precision, model, residual, inverse):
    single = inverse.astype(np.float32)
    return conjugate_step(
        pairs, strong_at(pairs, precision), model, residual, single, np.empty_like(single), 1e-12, 1e-3
    )


def positive_definite(random, size):
    factor = random.normal(size=(size, 2 * size)) / np.sqrt(2 * size)
    return factor @ factor.T + 0.5 * np.eye(size)


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_products_at_pairs(size, seed, share):
    random = np.random.default_rng(seed)
    sparse, dense = sparse_symmetric(random, size, share), positive_definite(random, size)
    pairs, single = pairs_not_zero(sparse), dense.astype(np.float32)
    values, product = at_pairs(pairs, sparse).astype(np.float32), np.empty((size, size), np.float32)
    set_product(pairs, values, single, product, False)
    np.testing.assert_allclose(product, sparse @ dense, atol=1e-4)
    more = product.copy()
    set_product(pairs, values, single, more, True)
    np.testing.assert_allclose(more, 2 * sparse @ dense, atol=2e-4)
    bent = np.empty_like(values)
    set_sandwich(pairs, product, single, bent)
    np.testing.assert_allclose(bent, at_pairs(pairs, dense @ sparse @ dense), atol=1e-3)
    # Without a weak entry the preconditioner is the whole product.
    precision = np.where(np.abs(sparse) > 0.1, sparse, 0.0)
    on_face = random.random(len(values)) < 0.8
    set_preconditioned(pairs, strong_at(pairs, precision), on_face, values, bent)
    whole = at_pairs(pairs, precision @ sparse @ precision)
    np.testing.assert_allclose(bent, np.where(on_face, whole, 0), atol=1e-3)


@pytest.mark.parametrize("share_on_face", [1.0, 0.7])
def test_the_linear_system_is_solved(share_on_face):
    """WDW = R on the face, for a D that is zero elsewhere."""
    random = np.random.default_rng(0)
    inverse = positive_definite(random, 30)
    pairs, precision = pairs_not_zero(sparse_symmetric(random, 30, 0.2)), np.linalg.inv(inverse)
    on_face = random.random(len(pairs.columns)) < share_on_face
    residual = np.where(on_face, random.normal(size=len(on_face)), 0).astype(np.float32)
    wanted = residual.copy()
    model = model_at(pairs, np.where(on_face, 1.0, 0.0), np.zeros(len(on_face)), precision)
    step, without, left = step_at(pairs, precision, model, residual, inverse)
    rows, D = np.repeat(np.arange(30), np.diff(pairs.starts)), np.zeros((30, 30))
    D[rows, pairs.columns] = D[pairs.columns, rows] = step
    # A thousandth of the gap is left, so that its root is left of R.
    assert 0 <= left <= 1.01e-3 * without
    assert not step[~on_face].any()
    np.testing.assert_allclose(np.where(on_face, at_pairs(pairs, inverse @ D @ inverse), 0), wanted, atol=0.2)


def test_steps_end_where_signs_would_change():
    """What is solved for more exactly than entries go beyond zero is solved for in vain."""
    random = np.random.default_rng(0)
    inverse = positive_definite(random, 30)
    pairs, precision = pairs_not_zero(sparse_symmetric(random, 30, 0.2)), np.linalg.inv(inverse)
    count = len(pairs.columns)
    residual, left = random.normal(size=count).astype(np.float32), {}
    for penalty in (0.0, 0.1):
        model = model_at(pairs, np.full(count, 1e-6), np.full(count, penalty), precision)
        step, _, left[penalty] = step_at(pairs, precision, model, residual.copy(), inverse)
        beyond = (1e-6 + step < 0) & (penalty > 0)
        np.testing.assert_allclose(squares_beyond_zero(model, step), 2 * ((1e-6 + step)[beyond] ** 2).sum(), rtol=1e-6)
        moved = step.copy()
        move_to_zero_at_most(model, moved)
        np.testing.assert_allclose(model.values - 1e-6, moved, atol=1e-9)
        np.testing.assert_allclose(model.values, np.where(beyond, 0, 1e-6 + step), rtol=1e-6)
    assert left[0.1] > 10 * left[0.0]

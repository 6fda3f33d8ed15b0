"""The loops for settled signs: products against numpy, the linear system, and the duality gap they announce."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.dictionary.newton_steps import lower_bound, point_at
from sudare.dictionary.settled_kernels import (
    conjugate_step,
    pairs_and_rows,
    set_preconditioned,
    set_product,
    set_sandwich,
    settled_target,
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
    set_product(pairs, values, single, product)
    np.testing.assert_allclose(product, sparse @ dense, atol=1e-4)
    bent = np.empty_like(values)
    set_sandwich(pairs, product, single, bent)
    np.testing.assert_allclose(bent, at_pairs(pairs, dense @ sparse @ dense), atol=1e-3)
    # Without a weak entry the preconditioner is the whole product.
    precision = np.where(np.abs(sparse) > 0.1, sparse, 0.0)
    set_preconditioned(pairs, strong_entries(pairs, precision), values, product, bent)
    np.testing.assert_allclose(bent, at_pairs(pairs, precision @ sparse @ precision), atol=1e-3)


def test_the_linear_system_is_solved():
    """WDW = R at the pairs, for a D that is zero elsewhere."""
    random = np.random.default_rng(0)
    inverse = positive_definite(random, 30)
    pairs, precision = pairs_not_zero(sparse_symmetric(random, 30, 0.2)), np.linalg.inv(inverse)
    residual = random.normal(size=len(pairs.columns)).astype(np.float32)
    wanted, single = residual.copy(), inverse.astype(np.float32)
    step, without, left = conjugate_step(
        pairs, strong_entries(pairs, precision), residual, single, np.empty_like(single), 0.0, 1e-12
    )
    rows, D = np.repeat(np.arange(30), np.diff(pairs.starts)), np.zeros((30, 30))
    D[rows, pairs.columns] = D[pairs.columns, rows] = step
    # A thousandth of the gap is left, so that its root is left of R.
    assert 0 <= left <= 1.01e-3 * without
    np.testing.assert_allclose(at_pairs(pairs, inverse @ D @ inverse), wanted, atol=0.2)


@pytest.mark.parametrize("change", [1e-3, 1e-2])
def test_the_gap_that_is_announced_is_the_gap(change):
    """Half of ⟨R, ΛRΛ⟩ is the duality gap up to terms of third order, here and where the step leads."""
    random = np.random.default_rng(1)
    S, other = (np.corrcoef(random.normal(size=(40, 150))) for _ in range(2))
    penalties = 0.1 * (1 - np.eye(40))
    start = graphical_lasso(S, penalties)
    S = (1 - change) * S + change * other
    room = (np.empty(S.shape, np.float32), np.empty(S.shape, np.float32))
    target, here, there = settled_target(S, penalties, start.precision, start.covariance, *room, 1e-12)
    for precision, announced in ((start.precision, here), (target, there)):
        point = point_at(S, penalties, precision)
        gap = point.objective - lower_bound(S, penalties, point)
        assert announced / 3 <= gap <= 3 * announced
    assert there <= here / 100
    np.testing.assert_array_equal(target, target.T)

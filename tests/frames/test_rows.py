"""Rows as arrays: the same blocks and the same bits of sums in whatever parts they come."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.dictionary.e_step import gaussian_statistics
from sudare.errors import DataError
from sudare.frames.fixed_order_summation import BLOCK_ROWS as TREE_BLOCK_ROWS
from sudare.frames.rows import Rows, fixed_blocks


@pytest.mark.parametrize("rows_now", [299, 301, 0])
def test_another_number_of_rows_is_noticed(rows_now):
    parts = [(np.zeros((300, 1)),)]
    rows = Rows(lambda: parts, 300, 1)
    assert len(rows.together()[0]) == 300
    parts[:] = [(np.zeros((rows_now, 1)),)]
    with pytest.raises(DataError, match="another number of rows"):
        rows.together()
    with pytest.raises(DataError, match="another number of rows"):
        list(rows.blocks(100))


@given(st.lists(st.integers(0, 700), min_size=1, max_size=8).filter(sum))
def test_blocks_do_not_depend_on_batches(sizes):
    total = sum(sizes)
    matrix, targets = np.arange(2.0 * total).reshape(total, 2), np.arange(float(total))
    edges = np.cumsum(sizes)[:-1]
    parts = list(zip(np.split(matrix, edges), np.split(targets, edges), strict=True))
    blocks = list(fixed_blocks(parts, 100))
    for ours, theirs in zip(blocks, Rows.held(matrix, targets).blocks(100), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    assert all(len(block) == 100 for block, _ in blocks[:-1])
    assert 1 <= len(blocks[-1][0]) <= 100


def e_step():
    """One of two patterns, whose sums have other last bits in another order."""
    return functools.partial(
        gaussian_statistics,
        log_weights=np.log([0.3, 0.7]),
        means=np.array([[0.0, 0.5, 1.0], [1.0, 0.0, -1.0]]),
        precision_choleskys=np.stack([np.eye(3), 1.5 * np.eye(3)]),
        log_dets=np.array([0.0, 6 * np.log(1.5)]),
    )


@pytest.mark.parametrize("batch_rows", [5000, TREE_BLOCK_ROWS, 100_000])
def test_totals_have_the_same_bits_in_any_batches(batch_rows):
    matrix = np.random.default_rng(0).normal(size=(2 * TREE_BLOCK_ROWS + 12345, 3))
    parts = [(matrix[start : start + batch_rows],) for start in range(0, len(matrix), batch_rows)]
    total = Rows(lambda: parts, len(matrix), 3).total(e_step())
    for ours, theirs in zip(total, e_step()(matrix), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_total_holds_one_block():
    """Parts are asked for one by one: a source without end is not read ahead of its use."""
    asked, seen = [], []

    def parts():
        for index in range(20):
            asked.append(index)
            yield (np.zeros((TREE_BLOCK_ROWS // 2, 3)),)

    def function(block):
        seen.append(len(asked))
        return len(block)

    assert Rows(parts, 10 * TREE_BLOCK_ROWS, 3).total(function) == 10 * TREE_BLOCK_ROWS
    assert seen == list(range(2, 21, 2))


def test_parts_must_have_the_same_columns():
    with pytest.raises(DataError, match="has 2 columns, those before it 3"):
        Rows(lambda: [(np.ones((2, 3)),), (np.ones((2, 2)),)], 4, 3).total(len)
    with pytest.raises(DataError, match="no rows"):
        Rows.held(np.empty((0, 3))).total(len)

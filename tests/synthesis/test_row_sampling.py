"""Rows drawn from released numbers."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.synthesis.row_sampling import drawn_cells, drawn_rows, evenly_drawn_cells


@given(arrays(np.float64, (3, 5), elements=st.floats(0, 10)), st.integers(0, 2**32))
@settings(max_examples=30)
def test_cells_that_cannot_be_are_not_drawn(shares, seed):
    shares[shares.sum(axis=1) == 0, 2] = 1.0
    groups = np.repeat(np.arange(3), 50)
    drawn = drawn_cells(shares, groups, np.random.default_rng(seed))
    assert (shares[groups, drawn] > 0).all()


def test_cells_are_drawn_by_their_shares():
    drawn = drawn_cells(np.array([[1.0, 3.0], [1.0, 0.0]]), np.repeat([0, 1], 40_000), np.random.default_rng(0))
    # Six deviations of a share of 0.75 among 40,000.
    assert abs(drawn[:40_000].mean() - 0.75) < 6 * math.sqrt(0.75 * 0.25 / 40_000)
    assert (drawn[40_000:] == 0).all()


def test_rows_are_drawn_as_often_as_their_weights_say():
    drawn = np.bincount(drawn_rows(np.array([1.0, 0.0, 2.5, 4.5]), 80, np.random.default_rng(0)), minlength=4)
    assert np.abs(drawn - [10, 0, 25, 45]).max() <= 1


def test_evenly_drawn_cells_have_their_shares_up_to_one_row_of_a_group():
    generator = np.random.default_rng(0)
    shares = np.array([[0.5, 0.0, 0.25, 0.25], [0.0, 0.1, 0.9, 0.0], [0.0, 0.0, 0.0, 0.0]])
    groups = generator.integers(0, 2, 1000)
    cells = evenly_drawn_cells(shares, groups, generator)
    for group in (0, 1):
        counts = np.bincount(cells[groups == group], minlength=4)
        assert np.all(np.abs(counts - shares[group] * (groups == group).sum()) <= 1)
        assert np.all(counts[shares[group] == 0] == 0)
    # Rows of a group are in random order, and a group without weights takes those of all groups.
    assert len({*np.flatnonzero(np.diff(cells[groups == 0]))}) > 100
    assert {*evenly_drawn_cells(shares, np.full(50, 2), generator)} <= {0, 1, 2, 3}

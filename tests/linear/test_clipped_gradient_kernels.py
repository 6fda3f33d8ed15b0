"""Compiled sums of clipped gradients: what is whole is exact, what is rounded has the same bits however rows are kept, and no row gets past its clip."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from sudare.frames.lossless_array_packing import OfPacked, Packed, UnpackingMemory, packed
from sudare.linear.clipped_gradient_kernels import (
    add_clipped,
    columns_of,
    logistic_slopes,
    scores_and_squares,
    shortening,
)

GRID = 2.0**-5


def rows_of(count: int, width: int, largest: int = 2**20) -> np.ndarray:
    return np.random.default_rng(width).integers(-largest, largest + 1, (count, width)) * 2.0**-20


@pytest.mark.parametrize("width", [1, 3, 4, 9])
def test_scores_are_added_column_after_column_and_squares_are_exact(width: int) -> None:
    rows, parameters = rows_of(131, width), np.random.default_rng(1).normal(size=(2, width))
    scores, squares = scores_and_squares(columns_of(rows), 0, 131, 1.0, parameters, GRID)
    expected = np.zeros((2, 131))
    for column in range(width):
        expected = expected + parameters[:, column : column + 1] * rows[:, column]
    assert scores.tobytes() == expected.tobytes()
    assert squares.tolist() == [sum(math.trunc(entry / GRID) ** 2 for entry in row) for row in rows.tolist()]


def test_columns_of_rows_are_the_rows() -> None:
    rows = rows_of(131, 5)
    assert columns_of(rows).tobytes() == np.ascontiguousarray(rows.T).tobytes()


@pytest.mark.parametrize(("largest", "kind"), [(100, np.int8), (2**20, np.int32)])
def test_packed_rows_give_the_bits_of_floats_wherever_they_begin(largest: int, kind: type) -> None:
    rows, parameters = rows_of(300, 6, largest), np.random.default_rng(1).normal(size=(1, 6))
    kept = packed(rows)
    assert kept.columns.dtype == kind
    there = scores_and_squares(kept.columns, 37, 263, kept.unit, parameters, 2.0**-20)
    here = scores_and_squares(columns_of(rows[37:263]), 0, 226, 1.0, parameters, 2.0**-20)
    assert [array.tobytes() for array in there] == [array.tobytes() for array in here]
    totals = np.zeros((2, 1, 6))
    grids_and_clip = 2.0**-20, 2.0**-30, largest * 2.0**-20
    add_clipped(totals[0], kept.columns, 37, kept.unit, np.tanh(there[0]), there[1], *grids_and_clip)
    add_clipped(totals[1], columns_of(rows[37:263]), 0, 1.0, np.tanh(here[0]), here[1], *grids_and_clip)
    assert np.any(totals[0])
    assert totals[0].tobytes() == totals[1].tobytes()


@pytest.mark.parametrize("remembers_lengths", [True, False])
def test_a_row_is_added_within_its_clip_in_whole_steps(remembers_lengths: bool) -> None:
    """Compared as integers; a twin that takes rows to have no length adds most of them beyond it."""
    random = np.random.default_rng(0)
    clip, slope_grid = 0.25, 2.0**-12
    limit, beyond = int(clip / (GRID * slope_grid)) ** 2, 0
    for row, slopes in zip(random.normal(size=(200, 5)), random.normal(size=(200, 3)), strict=True):
        columns, total = row[:, np.newaxis].copy(), np.zeros((3, 5))
        _, squares = scores_and_squares(columns, 0, 1, 1.0, np.zeros((3, 5)), GRID)
        lengths = squares if remembers_lengths else 0 * squares
        add_clipped(total, columns, 0, 1.0, slopes[:, np.newaxis].copy(), lengths, GRID, slope_grid, clip)
        beyond += sum(int(steps) ** 2 for steps in total.ravel().tolist()) > limit
    assert beyond == 0 if remembers_lengths else beyond > 150


@pytest.mark.parametrize("size", [1e-200, 1e-3, 1.0, 1e6])
def test_slopes_are_shortened_to_the_clip_and_no_further(size: float) -> None:
    factor = shortening(size**2, 25.0, 2.0**-3, 0.5)
    assert factor == pytest.approx(min(1.0, 0.5 / (size * 5 / 8)), rel=1e-11)
    assert factor * size * 5 / 8 < max(0.5, size * 5 / 8)


def test_logistic_slopes_are_those_of_scipy_and_never_beyond_one() -> None:
    random = np.random.default_rng(0)
    scores = np.concatenate([random.normal(scale=20, size=5000), [0.0, -0.0, 1e-300, 800.0, -800.0, 1e300, -1e300]])
    targets = random.choice([-1.0, 1.0], size=len(scores))
    found = logistic_slopes(scores, targets)
    np.testing.assert_allclose(found, -targets * expit(-targets * scores), rtol=4e-15, atol=1e-300)
    assert np.abs(found).max() == 1.0


def test_what_takes_packed_arrays_gets_them() -> None:
    block = (packed(rows_of(4, 2)), Packed(np.arange(4)))
    function = OfPacked(lambda *arrays: [type(array) for array in arrays])
    assert UnpackingMemory().result(function, block, np.ones(4)) == [Packed, Packed, np.ndarray]

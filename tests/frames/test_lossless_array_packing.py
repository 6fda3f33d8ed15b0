"""Arrays in fewer bytes: every number comes out as it went in."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sudare.frames.lossless_array_packing import UnpackingMemory, packed


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(0, 9), st.integers(1, 3)), elements=st.floats(allow_nan=False))
    | arrays.arrays(np.float64, 5, elements=st.integers(-(2**40), 2**40).map(lambda whole: whole * 2.0**-26))
    | arrays.arrays(np.float64, 5, elements=st.sampled_from([0.0, -0.0, 1.0, -128.0, 2.0**-1074, 2.0**1023]))
    | arrays.arrays(np.int64, 4)
)
def test_packing_changes_no_number(array):
    found = packed(array).unpacked()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_grids_are_packed_small():
    rows = np.round(np.random.default_rng(0).uniform(-1, 1, (1000, 3)) * 2**26) / 2**26
    assert packed(rows).nbytes == rows.nbytes // 2
    assert packed((rows > 0).astype(np.float64)).nbytes == rows.nbytes // 8
    assert packed(np.zeros((4, 2))).nbytes == 8
    assert packed(functools.reduce(np.multiply, [rows] * 3)).nbytes == rows.nbytes


def test_blocks_are_unpacked_into_the_same_memory():
    blocks = [np.arange(8.0).reshape(4, 2) + number for number in range(3)] + [np.ones((2, 2)), np.ones((5, 2))]
    memory, places = UnpackingMemory(), []

    def total(array, more):
        places.append(array.__array_interface__["data"][0])
        return float(array.sum()) + more

    sums = [memory.result(total, (packed(block),), 0.5) for block in blocks]
    assert sums == [float(block.sum()) + 0.5 for block in blocks]
    assert len(set(places[:4])) == 1


def test_what_a_function_keeps_of_a_block_stays_as_it_is():
    blocks = [np.arange(8.0).reshape(4, 2) + number for number in range(5)]
    memory = UnpackingMemory()
    rows = [memory.result(lambda array: array[1:3], (packed(block),)) for block in blocks]
    whole = [memory.result(lambda array: array, (packed(block),)) for block in blocks]
    for kept, all_rows, block in zip(rows, whole, blocks, strict=True):
        np.testing.assert_array_equal(kept, block[1:3])
        np.testing.assert_array_equal(all_rows, block)

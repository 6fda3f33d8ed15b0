"""Arrays in fewer bytes: every number comes out as it went in."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sudare.frames.lossless_array_packing import packed


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

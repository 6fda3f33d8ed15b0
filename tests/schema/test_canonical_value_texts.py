"""Values as text: exactly, and each by itself."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.schema import as_table
from sudare.schema.canonical_value_texts import canonical_texts

LONG = 2**53 + 2
DAY = datetime.datetime(2026, 1, 2, 3, 4, 5)


def texts(values: list[object], kind: pa.DataType | None = None) -> list[bytes | None]:
    found: list[bytes | None] = canonical_texts(pa.chunked_array([pa.array(values, kind)])).to_pylist()
    return found


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([pa.array([LONG]), pa.array([float(LONG)]), pa.array([Decimal(LONG)]), pa.array([str(LONG)])], str(LONG)),
        ([pa.array([1e22]), pa.array([Decimal(10**22)]), pa.array([Decimal(10**22)], pa.decimal256(60, 3))], str(10**22)),
        ([pa.array([-(2.0**63)]), pa.array([-(2**63)])], str(-(2**63))),
        ([pa.array([7], pa.uint8()), pa.array([7.0], pa.float32()), pa.array([Decimal("7.00")])], "7"),
        ([pa.array([700.0]), pa.array([Decimal(700)], pa.decimal128(5, -2))], "700"),
        ([pa.array([1e-8]), pa.array([Decimal("1e-8")]), pa.array([Decimal("1e-8")], pa.decimal128(20, 12))], "0.00000001"),
        ([pa.array([12345678901.5]), pa.array([Decimal("12345678901.50")])], "12345678901.5"),
        ([pa.array([0.0]), pa.array([-0.0]), pa.array([Decimal("0E-9")])], "0"),
        ([pa.array([DAY], pa.timestamp(unit)) for unit in ("s", "ms", "ns")], "2026-01-02 03:04:05"),
        ([pa.array(["7.0"])], "7.0"),
    ],
)  # fmt: skip
def test_the_type_of_a_column_does_not_change_a_spelling(values: list[pa.Array], written: str) -> None:
    for each in values:
        assert canonical_texts(pa.chunked_array([each])).to_pylist() == [written.encode()]


@given(st.lists(st.floats() | st.integers(-(2**70), 2**70).map(float), max_size=5))
def test_floats_are_spelled_exactly_and_each_by_itself(values: list[float]) -> None:
    together = texts(list(values), pa.float64())
    assert together == [texts([value], pa.float64())[0] for value in values]
    for value, text in zip(values, together, strict=True):
        assert (text is None) == math.isnan(value)
        assert text is None or float(text) == value
        assert text is None or abs(value) == float("inf") or b"e" not in text


@given(st.lists(st.none() | st.decimals(-(10**9), 10**9, places=9), max_size=5))
def test_decimals_are_spelled_exactly_and_each_by_itself(values: list[Decimal | None]) -> None:
    together = texts(list(values), pa.decimal128(38, 9))
    assert together == [texts([value], pa.decimal256(60, 12))[0] for value in values]
    for value, text in zip(values, together, strict=True):
        assert text is None if value is None or text is None else Decimal(text.decode()) == value


def test_long_whole_numbers_stay_apart() -> None:
    found = as_table({"p": [2**64 + 1, None, 2**64 + 2, 7]}).column("p")
    assert canonical_texts(found).to_pylist() == [b"18446744073709551617", None, b"18446744073709551618", b"7"]

"""Values as bytes: there and back, one form only, garbage refused, and memory bounded by what came."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import MessageMalformed
from sudare.sums.canonical_encoding import packed, packed_size, unpacked
from tests.sums.parties import random_words


@dataclass(frozen=True)
class Leaf:
    number: int
    name: str | None


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.binary(max_size=20)
    | st.text(max_size=20)
    | st.frozensets(st.integers(0, 50))
    | st.builds(Leaf, st.integers(), st.none() | st.text(max_size=5)),
    lambda inner: st.tuples(inner, inner) | st.dictionaries(st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_values_come_back_from_their_only_form(value):
    content = packed(value)
    assert unpacked(content, Leaf) == value
    assert packed_size(value) == len(content)


@given(st.integers(0, 4), st.integers(0, 5))
def test_arrays_come_back(rows, columns):
    words = random_words(rows, columns)
    for each in (words, words.ravel()):
        found = unpacked(packed(each))
        assert found.shape == each.shape
        np.testing.assert_array_equal(found, each)
        assert packed_size(each) == len(packed(each))


@given(PLAIN, st.data())
def test_changed_bytes_are_refused_or_another_value(value, data):
    content = bytearray(packed(value))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        found = unpacked(bytes(content), Leaf)
    except MessageMalformed:
        return
    assert packed(found) == bytes(content)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_canonical(content):
    try:
        found = unpacked(content, Leaf)
    except MessageMalformed:
        return
    assert packed(found) == content


def _with_fields(count: int, *fields: object) -> bytes:
    return b"O" + (4).to_bytes(8, "little") + b"Leaf" + count.to_bytes(8, "little") + b"".join(map(packed, fields))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "too early"),
        (packed(5) + b"x", "left over"),
        (b"?", "tag is unknown"),
        (b"B" + (10**9).to_bytes(8, "little"), "too early"),
        (b"L" + (10**18).to_bytes(8, "little"), "too early"),
        (b"I" + (2).to_bytes(8, "little") + b"\x01\x00", "shortest"),
        (b"S" + (1).to_bytes(8, "little") + b"\xff", "UTF-8"),
        (b"E" + (2).to_bytes(8, "little") + packed(2) + packed(1), "ascending"),
        (b"M" + (1).to_bytes(8, "little") + packed("a") + packed(1), "ascending"),
        (b"W" + (3).to_bytes(8, "little"), "dimensions"),
        (b"W" + (1).to_bytes(8, "little") + (2).to_bytes(8, "little") + (8).to_bytes(8, "little") + bytes(8), "shape"),
        (b"L\x01\0\0\0\0\0\0\0" * 30 + b"N", "too deep"),
        (packed(Leaf(1, "a")).replace(b"Leaf", b"leaf"), "does not belong"),
        (_with_fields(1, 1), "number of fields"),
        (_with_fields(2, 1, 2), "another type"),
        (_with_fields(2, True, "a"), "another type"),
    ],
)
def test_why_bytes_are_refused(content, reason):
    with pytest.raises(MessageMalformed, match=reason):
        unpacked(content, Leaf)


def test_what_has_no_form_is_refused():
    for value in (1.5, {1, 2}, np.zeros(2), object()):
        with pytest.raises(TypeError, match="packed form"):
            packed(value)


@pytest.mark.parametrize(
    "content",
    [
        b"W" + (2).to_bytes(8, "little") + (2**63).to_bytes(8, "little") + (0).to_bytes(8, "little") + bytes(8),
        b"W" + (2).to_bytes(8, "little") + (2**32).to_bytes(8, "little") + (0).to_bytes(8, "little") + bytes(8),
        b"W" + (1).to_bytes(8, "little") + (2**61).to_bytes(8, "little") + bytes(8),
        b"I" + (2**40).to_bytes(8, "little") + bytes(100),
        b"L" + (50_000).to_bytes(8, "little") + b"N" * 50_000,
        b"E" + (2**50).to_bytes(8, "little") + bytes(1000),
        b"M" + (2**64 - 1).to_bytes(8, "little") + bytes(1000),
        b"O" + (2**64 - 1).to_bytes(8, "little"),
    ],
    ids=["2^63 by 0", "2^32 by 0", "2^61 words", "long integer", "50,000 values", "set", "map", "class"],
)
def test_what_promises_much_takes_little_memory(content):
    tracemalloc.start()
    try:
        unpacked(content, Leaf, most_values=1000)
    except MessageMalformed:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 100_000 + 50 * len(content)


def test_the_number_of_values_is_limited_for_what_others_sent():
    value = tuple(range(10))
    assert unpacked(packed(value), most_values=11) == value
    with pytest.raises(MessageMalformed, match="too many"):
        unpacked(packed(value), most_values=10)
    with pytest.raises(MessageMalformed, match="too many"):
        unpacked(packed((value, value)), most_values=22)

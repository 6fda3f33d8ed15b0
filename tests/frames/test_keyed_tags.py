"""Words under a secret key for persons and rows: the same however a source stores them, and those of CBC-MAC."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import WrongType
from sudare.frames.keyed_tags import (
    TagKeys,
    content_words,
    encrypted,
    person_texts,
    row_tags,
    tags_in_place,
    tags_of_texts,
    with_tags,
)
from sudare.schema import Number

KEY = bytes(range(32))


def test_a_person_is_one_person_however_it_is_written():
    spellings = [
        pa.chunked_array([[7, 12]]),
        pa.chunked_array([[7.0, 12.0]]),
        pa.chunked_array([["7", "12"]]),
        pa.chunked_array([pa.array(["7", "12"]).dictionary_encode()]),
        pa.chunked_array([pa.array([Decimal("7.00"), Decimal("12.00")])]),
        pa.chunked_array([pa.array([b"7", b"12"])]),
        pa.chunked_array([pa.array(["7"]), pa.array(["12"])]),
    ]
    assert all(person_texts(each, "who").to_pylist() == [b"7", b"12"] for each in spellings)
    assert person_texts(pa.chunked_array([[0.5]]), "who").to_pylist() == [b"0.5"]
    assert person_texts(pa.chunked_array([pa.array([Decimal("1.25")])]), "who").to_pylist() == [b"1.25"]
    assert len(person_texts(pa.chunked_array([], pa.string()), "who")) == 0


def test_lists_and_records_are_no_persons():
    for values in ([["a"], ["b"]], [{"id": "a"}, {"id": "b"}]):
        with pytest.raises(WrongType, match="'who' holds values of several types, or of a type that is not supported"):
            person_texts(pa.chunked_array([pa.array(values)]), "who")
    calendar = pa.array([(0, 1, 0)], pa.month_day_nano_interval())
    with pytest.raises(WrongType, match="'who' holds values of several types"):
        person_texts(pa.chunked_array([calendar]), "who")


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_tags_are_those_of_cbc_mac(texts):
    key = TagKeys.of(KEY).persons
    found = tags_of_texts(pa.array(texts, pa.large_binary()), key)
    for text, tag in zip(texts, found, strict=True):
        state = np.array([[len(text), 0]], np.uint64)
        state = encrypted(state, key)
        for start in range(0, len(text), 16):
            block = np.frombuffer(text[start : start + 16].ljust(16, b"\0"), np.uint64)
            state = encrypted(state ^ block, key)
        assert tag.tolist() == state[0].tolist()


def test_keys_differ_by_use_and_secret():
    keys, others = TagKeys.of(KEY), TagKeys.of(KEY[::-1])
    assert len({keys.persons, keys.rows, keys.copies, others.persons, others.rows, others.copies}) == 6
    assert "persons" not in repr(keys)


def test_contents_do_not_depend_on_how_numbers_are_stored():
    def words(values, column):
        return [each.tolist() for each in content_words(pa.chunked_array([values]), column, "x", KEY[:16])]

    number = Number(0, 5)
    assert words(pa.array([1, 0]), number) == words(pa.array([1.0, -0.0]), number)
    assert words(pa.array([None, 1.0]), number) == words(pa.array([float("nan"), 1.0]), number)
    assert words(pa.array([1, 2]), None) == words(pa.array([1.0, 2.0]), None)
    persons = np.zeros((2, 2), np.uint64)
    odd, even = (row_tags(persons, [np.arange(2, dtype=np.uint64)] * count, KEY[:16]) for count in (1, 2))
    assert len(set(odd.tolist())) == len(set(even.tolist())) == 2


def test_tags_are_found_again_where_persons_stood():
    tags = np.arange(20, dtype=np.uint64).reshape(-1, 2)
    table = with_tags(pa.table({"dose": range(10), "who": list("abcdefghij")}), "who", tags)
    assert table.column_names == ["dose", "who"]
    np.testing.assert_array_equal(tags_in_place(table, "who"), tags)
    parts = pa.concat_tables([table.slice(7), table.slice(2, 3)])
    np.testing.assert_array_equal(tags_in_place(parts, "who"), tags[[7, 8, 9, 2, 3, 4]])

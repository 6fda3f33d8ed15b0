"""Pseudo-random words for values, rows and copies of rows under a secret key: CBC-MAC with AES-128, whole columns at a time.

Every message has its length in its first block, so none begins another, and CBC-MAC is a pseudo-random function of them (Bellare, Kilian and Rogaway 2000). Without
the key nobody can tell which rows will be kept, and so nobody can write rows that are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sudare.array_types import Words
from sudare.schema import Column, Number
from sudare.schema.canonical_value_texts import canonical_texts
from sudare.schema.column_values import column_codes, declared_numbers, nobody_named
from sudare.schema.columns import Category, Label
from sudare.schema.table_from_any_frame import attempt, mixed_types

BLOCK_BYTES = 16
_NO_BYTES = np.zeros(BLOCK_BYTES, np.uint8)
# Row n keeps the first n bytes of a block.
_OWN_BYTES = np.tril(np.full((BLOCK_BYTES + 1, BLOCK_BYTES), 255, np.uint8), -1)


@dataclass(frozen=True, repr=False)
class TagKeys:
    """Three keys, each for one use, from one secret."""

    persons: bytes
    rows: bytes
    copies: bytes

    @classmethod
    def of(cls, secret: bytes) -> TagKeys:
        """The keys that follow from a secret of at least 16 bytes."""
        uses = (b"persons", b"rows", b"copies")
        return cls(*(hashlib.blake2b(secret[:64], digest_size=BLOCK_BYTES, person=use).digest() for use in uses))


def person_texts(column: pa.ChunkedArray, name: str) -> pa.Array:
    """Who rows belong to, as bytes that do not depend on how a source stores them: the numbers 7 and 7.0 and the text "7" are one person, the text "7.0" is another.

    Raise MissingValue where nobody is named: null, NaN, or a text that is empty or of blanks only. Such rows cannot be told to be one person's or many.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        raise mixed_types(repr(name))
    texts = attempt(lambda: canonical_texts(column))
    if texts is None:
        raise mixed_types(repr(name))
    if texts.null_count or pc.any(pc.equal(pc.binary_length(texts), 0)).as_py():
        raise nobody_named(name)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if is_text and pc.any(pc.utf8_is_space(texts.cast(pa.large_string()))).as_py():
        raise nobody_named(name)
    return texts


def tags_of_texts(texts: pa.Array, key: bytes) -> Words:
    """Two words for each text; different texts have the same ones with probability 2⁻¹²⁸ · (blocks) · (texts)²."""
    if len(texts) == 0:
        return np.empty((0, 2), np.uint64)
    _, offset_buffer, data_buffer = texts.cast(pa.large_binary()).buffers()
    ends = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)[ends[0] : ends[-1]]
    windows = np.lib.stride_tricks.sliding_window_view(np.append(data, _NO_BYTES), BLOCK_BYTES)
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    state = encrypted(np.column_stack([lengths.astype(np.uint64), np.zeros(len(texts), np.uint64)]), key)
    for done in range(0, int(lengths.max()), BLOCK_BYTES):
        longer = np.flatnonzero(lengths > done)
        block = windows[starts[longer] + done] & _OWN_BYTES[np.minimum(lengths[longer] - done, BLOCK_BYTES)]
        state[longer] = encrypted(state[longer] ^ block.view(np.uint64), key)
    return state


def with_tags(table: pa.Table, name: str, tags: Words) -> pa.Table:
    """The table with tags in place of the persons in a column."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(tags))]
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(BLOCK_BYTES), len(tags), buffers)
    return table.set_column(table.column_names.index(name), name, column)


def tags_in_place(table: pa.Table, name: str) -> Words:
    """The tags that `with_tags` put into a column."""
    values = pa.concat_arrays(table.column(name).chunks)
    words = np.frombuffer(values.buffers()[1], np.uint8)[BLOCK_BYTES * values.offset :]
    return words[: BLOCK_BYTES * len(values)].view(np.uint64).reshape(-1, 2)


def content_words(values: pa.ChunkedArray, column: Column | None, name: str, key: bytes) -> list[Words]:
    """A column as words, the same whatever its source: numbers as floats, declared values as their places, all else as tags."""
    if isinstance(column, Number):
        found = declared_numbers(values, column, name) + 0.0
        return [np.where(np.isnan(found), np.nan, found).view(np.uint64)]
    if isinstance(column, Category | Label):
        return [column_codes(values, column, name).view(np.uint64)]
    tags = tags_of_texts(canonical_texts(values).fill_null(b""), key)
    return [tags[:, 0], tags[:, 1]]


def row_tags(persons: Words, words: Sequence[Words], key: bytes) -> Words:
    """One word for each row, of its person and its values; their number is the same for all rows."""
    state = encrypted(persons, key)
    padded = [*words, np.zeros(len(persons), np.uint64)][: len(words) + len(words) % 2]
    for place in range(0, len(padded), 2):
        state = encrypted(state ^ np.column_stack(padded[place : place + 2]), key)
    return state[:, 0]


def copy_priorities(rows: Words, copies: NDArray[Any], key: bytes) -> Words:
    """Two words for the copies of rows, different for all pairs (row, number of the copy): AES is a permutation."""
    return encrypted(np.column_stack([rows, copies.astype(np.uint64)]), key)


def encrypted(blocks: Words, key: bytes) -> Words:
    """Blocks of two words, each under AES."""
    # One block alone goes in and none follows from another: this is AES as a permutation, not a mode for secrets.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return np.frombuffer(encryptor.update(blocks.tobytes()), np.uint64).reshape(-1, 2).copy()

"""Arrays of numbers, encoded a few rows at a time: the operations of the general way, on blocks that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeGuard

import numpy as np

from sudare.array_types import Floats
from sudare.schema.column_values import missing_value
from sudare.schema.columns import Column, Number
from sudare.schema.encodings import Encoding, encoded_bounds, shift_and_scale

BLOCK_VALUES = 2**15


def block_rows(columns: int) -> int:
    """How many rows make a block that stays in the processor's cache."""
    return max(1, BLOCK_VALUES // max(1, columns))


def row_slices(rows: int, columns: int) -> Iterator[slice]:
    """All rows, a block at a time."""
    size = block_rows(columns)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def is_plain(table: object, features: Mapping[str, Column]) -> TypeGuard[Floats]:
    """Whether a table is an array of floats, and all features are numbers."""
    return (
        type(table) is np.ndarray
        and table.dtype == np.float64
        and table.ndim == 2
        and table.shape[1] == len(features)
        and all(isinstance(column, Number) for column in features.values())
    )


class EncodedArray:
    """An array of numbers in its scaled or centred encoding, made when it is asked for; counts what it clips, by column."""

    def __init__(self, table: Floats, features: Mapping[str, Number], encoding: Encoding) -> None:
        self._table, self._features = table, features
        facts = [encoding_facts(number, encoding) for number in features.values()]
        self._may_leave = any(leaves_bounds(*fact) for fact in facts)
        self._block_shape = min(len(table), block_rows(len(features))), len(features)
        self._facts = [spread(fact, self._block_shape[0]) for fact in zip(*facts, strict=True)]
        self._clipped = np.zeros(len(features), dtype=np.int64)

    @classmethod
    def of(cls, table: object, features: Mapping[str, Column], encoding: Encoding) -> EncodedArray | None:
        """None if this is no array of floats with rows, an encoded column is not a number of its own, or its values must be whole."""
        numbers = {
            name: column
            for name, column in features.items()
            if isinstance(column, Number) and not column.has_indicator and not column.whole
        }
        if encoding == "binned" or len(numbers) < len(features) or not is_plain(table, features) or table.size == 0:
            return None
        return cls(table, numbers, encoding)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and encoded columns."""
        rows, columns = self._table.shape
        return rows, columns

    @property
    def clipped(self) -> dict[str, int]:
        """How many of the values encoded so far lay outside; for the owner only."""
        return dict(zip(self._features, self._clipped.tolist(), strict=True))

    def matrix(self) -> Floats:
        """All of it."""
        matrix = np.empty(self.shape)
        for rows in row_slices(*self.shape):
            self._write(self._table[rows], matrix[rows])
        return matrix

    def blocks(self) -> Iterator[Floats]:
        """A few rows at a time, the reader's to change; each block is overwritten by the next."""
        written = np.empty(self._block_shape)
        for rows in row_slices(*self.shape):
            block = written[: rows.stop - rows.start]
            self._write(self._table[rows], block)
            yield block

    def _write(self, block: Floats, part: Floats) -> None:
        """Write an encoded block into an array of its shape."""
        low, high, shift, scale, least, most = (fact[: len(block)] for fact in self._facts)
        # Where something is missing neither holds.
        if (block >= low).all() and (block <= high).all():
            np.subtract(block, shift, out=part)
        else:
            filled = self._filled(block)
            np.minimum(np.maximum(filled, low, out=part), high, out=part)
            self._clipped += np.count_nonzero(part != filled, axis=0)
            np.subtract(part, shift, out=part)
        np.divide(part, scale, out=part)
        if self._may_leave:
            np.minimum(np.maximum(part, least, out=part), most, out=part)

    def _filled(self, block: Floats) -> Floats:
        """The block with what stands in for missing numbers."""
        gaps = np.isnan(block)
        if not gaps.any():
            return block
        filled = block.copy()
        for index, (name, number) in enumerate(self._features.items()):
            lacking = gaps[:, index]
            if lacking.any():
                if number.stand_in is None:
                    raise missing_value(name)
                filled[lacking, index] = number.stand_in
        return filled


class EncodedColumn:
    """The scaled or centred encoding of one column of numbers, for as many pieces of it as come: the numbers of `EncodedArray`, over a `unit`.

    The unit is a power of two, by which division is exact.
    """

    def __init__(self, name: str, number: Number, encoding: Encoding, unit: float = 1.0) -> None:
        self._name, self._stand_in = name, number.stand_in
        low, high, shift, scale, least, most = facts = encoding_facts(number, encoding)
        self._facts = low, high, shift, scale * unit, least / unit, most / unit
        self._may_leave = leaves_bounds(*facts)

    def blocks(self, values: Floats) -> Iterator[tuple[Floats, int]]:
        """A few encoded values at a time, the reader's to change and overwritten by the next; and how many of them were clipped."""
        low, high, shift, scale, least, most = self._facts
        written = np.empty(min(len(values), BLOCK_VALUES))
        for rows in row_slices(len(values), 1):
            block = values[rows]
            part = written[: len(block)]
            np.clip(block, low, high, out=part)
            outside = int(np.count_nonzero(part != block))
            # Among those that differ are the missing ones: NaN differs from itself.
            if outside and math.isnan(part.sum()):
                block = self._filled(block)
                np.clip(block, low, high, out=part)
                outside = int(np.count_nonzero(part != block))
            if shift != 0:
                np.subtract(part, shift, out=part)
            np.divide(part, scale, out=part)
            if self._may_leave:
                np.clip(part, least, most, out=part)
            yield part, outside

    def _filled(self, block: Floats) -> Floats:
        """The block with what stands in for missing numbers."""
        if self._stand_in is None:
            raise missing_value(self._name)
        return np.where(np.isnan(block), self._stand_in, block)


def spread(facts: tuple[float, ...], rows: int) -> Floats:
    """A row of facts for each of so many rows: operations on arrays of one shape, or with one number, are the quickest."""
    if len(set(facts)) == 1:
        return np.broadcast_to(facts[0], (rows, len(facts)))
    return np.tile(facts, (rows, 1))


def encoding_facts(number: Number, encoding: Encoding) -> tuple[float, float, float, float, float, float]:
    """Bounds of the values, what is subtracted, what is divided by, and bounds of the result."""
    return number.low, number.high, *shift_and_scale(number, encoding), *encoded_bounds(number, encoding)


def leaves_bounds(low: float, high: float, shift: float, scale: float, least: float, most: float) -> bool:
    """Whether rounding may carry an encoded value out of its bounds: if it carries none of the ends, then no value."""
    return (low - shift) / scale < least or (high - shift) / scale > most

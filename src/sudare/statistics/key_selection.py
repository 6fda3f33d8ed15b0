"""Groups that nobody declared: values that enough rows have, by a threshold on noisy counts. Proof: proofs/key_selection.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sudare.array_types import Integers
from sudare.errors import DataError, WrongType
from sudare.privacy.accounting import Cost, approximate_cost
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import unfit
from sudare.schema.column_values import holds

Key = tuple[str | int | bool, ...]

# Values that are longer are among the others.
LONGEST_KEY: Final = 128
MOST_KEYS: Final = 4096
MOST_VALUES: Final = 2**22


class KeyCodes:
    """Codes of the combinations of values that some columns have, numbered as they come; those that may not leave have the code 0."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.found: dict[Any, int] = {}
        self._kinds: dict[str, str] = {}

    def of(self, table: Any) -> Integers:
        """The code of each row of a table. Raise WrongType where a column holds neither text nor whole numbers nor booleans, or other ones than in an earlier table."""
        if not self.columns:
            return np.zeros(len(table), dtype=np.int64)
        encoded = [_encoded(table.column(name), name) for name in self.columns]
        for name in self.columns:
            self._check_kind(name, holds(table.column(name).type))
        if not len(table):
            return np.empty(0, dtype=np.int64)
        self.found.setdefault(None, 0)
        places = np.stack([codes for codes, _ in encoded], axis=1)
        distinct, of_rows = np.unique(places, axis=0, return_inverse=True)
        codes = np.zeros(len(distinct), dtype=np.int64)
        for place, combination in enumerate(distinct.tolist()):
            values = tuple(values[code] for code, (_, values) in zip(combination, encoded, strict=True))
            key = values if all(map(_may_leave, values)) else None
            codes[place] = self.found.setdefault(key, len(self.found))
        if len(self.found) > MOST_VALUES:
            raise DataError(
                f"`keys` has more than {MOST_VALUES:,} values: it looks as if it said whose row it is. Nothing was charged.",
                "Name columns with fewer values.",
            )
        return codes[of_rows.reshape(-1)]

    def _check_kind(self, name: str, kind: str) -> None:
        """Raise WrongType where a column held values of another kind before: to Python True is 1, and the first of them would name the group of both."""
        if kind != "nothing" and self._kinds.setdefault(name, kind) != kind:
            raise WrongType(
                f"Column {name!r} is grouped by, and holds {self._kinds[name]} in one part of the source and {kind} in another.",
                "Give it one type throughout.",
            )

    def counts(self, parts: Iterable[Integers]) -> Integers:
        """How many rows of all parts have each code that was given; exact."""
        counts = np.zeros(len(self.found), dtype=np.int64)
        for codes in parts if self.columns else ():
            counts += np.bincount(codes, minlength=len(counts))[: len(counts)]
        return counts


def _encoded(column: Any, name: str) -> tuple[Integers, list[Any]]:
    """The place of each row's value among the distinct values of a column; a missing one is None."""
    kind = holds(column.type)
    if kind not in ("text", "whole numbers", "booleans") and not pa.types.is_null(column.type):
        raise WrongType(
            f"Column {name!r} is grouped by, and holds neither text nor whole numbers nor booleans.",
            "Declare it in the schema with bins, or leave it out. Whole numbers with gaps are fractions to pandas: give them as Int64, or as text.",
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    parts = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    parts = parts if isinstance(parts, pa.DictionaryArray) else parts.chunk(0)
    return parts.indices.to_numpy(zero_copy_only=False).astype(np.int64), parts.dictionary.to_pylist()


def _may_leave(value: Any) -> bool:
    """Whether a value can be written into a release and be told from others there."""
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST_KEY and value.isprintable()
    return isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**53)


@dataclass(frozen=True)
class Keys:
    """Values that were found, in the order of their text; the last group, without values, is that of all other rows."""

    columns: tuple[str, ...]
    found: tuple[Key, ...]

    @property
    def levels(self) -> tuple[tuple[Any, ...], ...]:
        """The values of each group."""
        return (*self.found, (None,) * len(self.columns))

    def places(self, codes: KeyCodes) -> Integers:
        """The group of each code; a code beyond the last belongs to the others."""
        kept = {key: place for place, key in enumerate(self.found)}
        return np.array([kept.get(key, len(self.found)) for key in codes.found] + [len(self.found)], dtype=np.int64)

    def to_list(self) -> list[list[Any]]:
        """Returns the keys as a release writes them."""
        return [list(key) for key in self.found]

    @classmethod
    def from_list(cls, columns: tuple[str, ...], written: object) -> Keys | None:
        """What `to_list` wrote; None where there are no columns. Raise ReleaseMalformed where nothing could have written it."""
        if not columns and written is None:
            return None
        if not columns or type(written) is not list or len(written) > MOST_KEYS:
            raise unfit("its groups are not those of its learner")
        if any(type(key) is not list or len(key) != len(columns) or not all(map(_may_leave, key)) for key in written):
            raise unfit("its groups are not those of its learner")
        found = tuple(map(tuple, written))
        if list(found) != in_order(found) or len(set(map(repr, found))) != len(found):
            raise unfit("its groups are not in their order")
        return cls(columns, found)


def in_order(keys: Sequence[Key]) -> list[Key]:
    """Keys in an order that does not depend on the records."""
    return sorted(keys, key=_place_in_order)


def _place_in_order(key: Key) -> list[tuple[str, str | int | bool]]:
    return [(type(value).__name__, value) for value in key]


@dataclass(frozen=True)
class KeySelection:
    """(ε, δ)-DP set of keys whose noisy count of rows is at least a threshold. Proof: proofs/key_selection.md."""

    epsilon: float
    delta: float
    neighbours: Neighbours
    unit_rows: int

    @cached_property
    def noise(self) -> Laplace:
        """On a count: a row is in one group, a replaced one may leave one for another."""
        moved = self.unit_rows * (2 if self.neighbours == "replace-one" else 1)
        return Laplace(float(moved), self.epsilon, integer_grid=1.0)

    @property
    def cost(self) -> Cost:
        """(ε, δ)."""
        return approximate_cost(self.epsilon, self.delta)

    @cached_property
    def threshold(self) -> int:
        """So large that a unit brings forth a key that nobody else has with probability δ at most.

        The likeliest is either one key for all its rows or one for each. That keys which a unit takes away are silent must not be too unlikely, either.
        """
        scale, rows = self.noise.scale_in_steps, self.unit_rows
        likeliest = max(rows / scale, math.log(rows) + 1 / scale)
        delta = min(self.delta, -math.expm1(-1 / scale))
        needed = scale * (likeliest - math.log(delta) - math.log1p(math.exp(-1 / scale)))
        # One more than needed, so that the rounding of these logarithms does not matter; above all rows of a unit the formula holds.
        return max(math.ceil(needed) + 1, rows + 1)

    def selected(self, codes: KeyCodes, counts: Integers, source: NoiseSource, most: int = MOST_KEYS) -> Keys:
        """Keys with a noisy count of at least the threshold; if there are more than `most`, those with the largest noisy counts."""
        named = [(key, code) for key, code in codes.found.items() if key is not None]
        noisy = source.laplace(counts[[code for _, code in named]], self.noise.scale_in_steps)
        passed = [(named[place][0], -int(noisy[place])) for place in np.flatnonzero(noisy >= self.threshold)]
        if len(passed) > most:
            # Of equal counts the order of the keys decides: that of the records would tell which came first.
            passed = sorted(passed, key=lambda one: (one[1], _place_in_order(one[0])))[:most]
        return Keys(codes.columns, tuple(in_order([key for key, _ in passed])))

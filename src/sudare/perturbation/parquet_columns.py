"""How perturbed columns are written in a Parquet file: positions in a list of all possible values, plain numbers, or ticks.

A list of values (a dictionary, in the format's word) holds every value that is possible, not those that occurred: it is public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Bytes
from sudare.perturbation.categorical import CategoryPerturbation, SetPerturbation
from sudare.perturbation.column_perturbation import Perturbation, unsigned_type
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.perturbation.thrift_compact_writer import varint
from sudare.schema import Level
from sudare.schema.columns import level_text

BOOLEAN: Final = 0
INT64: Final = 2
DOUBLE: Final = 5
TEXT: Final = 6

_TICKS_IN_BYTE: Final = 8
# Plain numbers are turned back into steps: that is certain where a step is many times the rounding of the largest value.
_LEAST_STEP: Final = 2.0**-48


class ColumnCode(ABC):
    """How one perturbed column is written: as one column of the file, or as one for each category.

    `listed_values` and `listed_bytes` are the length of the list of possible values, if there is one.
    """

    names: tuple[str, ...]
    physical_type: int
    listed_values: int = 0
    listed_bytes: int = 0

    def possible_values(self) -> bytes:
        """The list of possible values."""
        return b""

    def before_values(self, rows: int) -> bytes:
        """What the page has before the values."""
        return b""

    @abstractmethod
    def bytes_of(self, rows: int) -> int:
        """How many bytes so many values take."""

    def page_bytes(self, rows: int) -> int:
        """How many bytes the page takes: those of the values, and the zeros after them."""
        return self.bytes_of(rows)

    @abstractmethod
    def written(self, stored: NDArray[Any], number: int) -> bytes:
        """Stored outputs as the values of one of the columns."""

    @abstractmethod
    def read(self, values: Sequence[Bytes], rows: int) -> NDArray[Any] | None:
        """Stored outputs from the values of all the columns; None if they cannot be."""


class Positions(ColumnCode):
    """Positions in the list of possible values, one to four bytes each."""

    def __init__(self, name: str, perturbation: Perturbation, physical_type: int, listed_bytes: int) -> None:
        self.names, self.physical_type = (name,), physical_type
        self.listed_values, self.listed_bytes = perturbation.output_count, listed_bytes
        self._perturbation = perturbation
        self._type = unsigned_type(perturbation.output_count)

    def possible_values(self) -> bytes:
        """Numbers and whole numbers as they are; texts with their lengths."""
        values = self._perturbation.decoded(np.arange(self.listed_values, dtype=self._type))
        if self.physical_type == DOUBLE:
            return values.astype("<f8").tobytes()
        return listed_levels(values.tolist(), self.physical_type)

    def before_values(self, rows: int) -> bytes:
        """The width in bits, then: one run of positions, so many times eight."""
        return bytes([8 * self._type.itemsize]) + varint(((rows + 7) // 8) << 1 | 1)

    def bytes_of(self, rows: int) -> int:
        """One to four bytes a row."""
        return rows * self._type.itemsize

    def page_bytes(self, rows: int) -> int:
        """A run has a multiple of eight positions."""
        return self.bytes_of((rows + 7) // 8 * 8)

    def written(self, stored: NDArray[Any], number: int) -> bytes:
        """The stored positions, little-endian."""
        return stored.astype(self._type, copy=False).tobytes()

    def read(self, values: Sequence[Bytes], rows: int) -> NDArray[Any] | None:
        """Returns the values as they are stored, if all are below the number of possible values."""
        stored = values[0].view(self._type)
        return stored if stored.max() < self.listed_values else None


class PlainNumbers(ColumnCode):
    """Numbers on the public grid, eight bytes each: for few rows, which a list of all possible numbers would outgrow."""

    physical_type = DOUBLE

    def __init__(self, name: str, perturbation: NumberPerturbation) -> None:
        self.names, self._perturbation = (name,), perturbation

    def bytes_of(self, rows: int) -> int:
        """Eight bytes a row."""
        return 8 * rows

    def written(self, stored: NDArray[Any], number: int) -> bytes:
        """The numbers themselves, little-endian doubles."""
        return self._perturbation.decoded(stored).astype("<f8").tobytes()

    def read(self, values: Sequence[Bytes], rows: int) -> NDArray[Any] | None:
        """The step of each number, if that is one and gives the number again to the last bit."""
        numbers, law = values[0].view("<f8"), self._perturbation
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.rint(law.output_steps(numbers)) + law.overshoot
            if not np.all((steps >= 0) & (steps < law.output_count)):
                return None
        stored = steps.astype(unsigned_type(law.output_count))
        return stored if self.written(stored, 0) == numbers.tobytes() else None


class Ticks(ColumnCode):
    """Eight rows a byte, the first in the lowest bit: sets of categories, one column each, or a category of two truth values."""

    physical_type = BOOLEAN

    def __init__(self, names: tuple[str, ...], truths: NDArray[np.bool_] | None) -> None:
        self.names, self._truths = names, truths

    def bytes_of(self, rows: int) -> int:
        """One bit a row."""
        return (rows + 7) // _TICKS_IN_BYTE

    def written(self, stored: NDArray[Any], number: int) -> bytes:
        """The ticks of one category."""
        if self._truths is not None:
            ticks = self._truths[stored]
        else:
            ticks = stored[:, number // _TICKS_IN_BYTE] >> np.uint8(number % _TICKS_IN_BYTE) & np.uint8(1)
        return np.packbits(ticks, bitorder="little").tobytes()

    def read(self, values: Sequence[Bytes], rows: int) -> NDArray[Any] | None:
        """Rows of ticks packed again, or positions; None where a bit is set that belongs to no row."""
        spare = 8 * self.bytes_of(rows) - rows
        if spare and any(page[-1] >> (8 - spare) for page in values):
            return None
        if self._truths is not None:
            ticks = np.unpackbits(values[0], count=rows, bitorder="little")
            return ticks if not self._truths[0] else 1 - ticks
        stored = np.zeros((rows, (len(values) + 7) // _TICKS_IN_BYTE), dtype=np.uint8)
        for number, page in enumerate(values):
            ticks = np.unpackbits(page, count=rows, bitorder="little")
            stored[:, number // _TICKS_IN_BYTE] |= ticks << np.uint8(number % _TICKS_IN_BYTE)
        return stored


def column_code(name: str, perturbation: Perturbation, rows: int) -> ColumnCode:
    """The code of a column; of numbers the shorter one that is exact."""
    if isinstance(perturbation, SetPerturbation):
        return Ticks(tuple(f"{name}={level_text(level)}" for level in perturbation.values), None)
    if isinstance(perturbation, CategoryPerturbation):
        return category_code(name, perturbation)
    if not isinstance(perturbation, NumberPerturbation):
        raise TypeError(f"no code for a {type(perturbation).__name__}")
    listed = Positions(name, perturbation, DOUBLE, 8 * perturbation.output_count)
    plain = PlainNumbers(name, perturbation)
    largest = max(map(abs, perturbation.output_bounds))
    if (
        plain.bytes_of(rows) <= listed.listed_bytes + listed.page_bytes(rows)
        and perturbation.grid > _LEAST_STEP * largest
    ):
        return plain
    return listed


def category_code(name: str, perturbation: CategoryPerturbation) -> ColumnCode:
    """Truth values as ticks; whole numbers and texts by their positions. Of mixed kinds (a text for missing) all are texts."""
    values = perturbation.values
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return Ticks((name,), np.array(values, dtype=np.bool_))
    physical_type = INT64 if kinds == {int} else TEXT
    return Positions(name, perturbation, physical_type, len(listed_levels(values, physical_type)))


def listed_levels(values: Sequence[Level], physical_type: int) -> bytes:
    """Categories one after the other: whole numbers of eight bytes, or texts after their lengths of four."""
    if physical_type == INT64:
        return np.array(values, dtype="<i8").tobytes()
    texts = [level_text(value).encode() for value in values]
    return b"".join(len(one).to_bytes(4, "little") + one for one in texts)

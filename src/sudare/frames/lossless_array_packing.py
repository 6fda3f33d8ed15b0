"""Arrays in fewer bytes, without changing a number: numbers on a grid as small whole numbers and the exponent of the grid, column after column."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

_INTEGERS: Final = (np.int8, np.int16, np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """An array, or whole numbers that become the array of floats when they are multiplied by 2^exponent: column after column."""

    numbers: NDArray[Any]
    exponent: int | None = None

    def __len__(self) -> int:
        """How many rows the array has."""
        return len(self.numbers)

    @property
    def unit(self) -> float:
        """What whole numbers are multiplied by."""
        return 1.0 if self.exponent is None else 2.0**self.exponent

    @property
    def columns(self) -> NDArray[Any]:
        """Whole numbers, a row for each column of the array, in one piece."""
        return np.ascontiguousarray(self.numbers.T)

    @property
    def nbytes(self) -> int:
        """How much is held."""
        return int(self.numbers.nbytes)

    def first(self, rows: int) -> Packed:
        """The first rows."""
        return Packed(self.numbers[:rows], self.exponent)

    def unpacked(self, memory: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """The array, every number as it was; a zero has no sign. It is written into `memory` of its shape, where that is given."""
        if self.exponent is None:
            return self.numbers
        found = np.empty(self.numbers.shape) if memory is None else memory
        np.multiply(self.numbers, self.unit, out=found, dtype=np.float64)
        return found


@dataclass(frozen=True)
class OfPacked(Generic[Result]):
    """A function of arrays that takes each of them packed as well."""

    function: Callable[..., Result]

    def __call__(self, *arrays: Any) -> Result:
        """What the function gives."""
        return self.function(*arrays)


@dataclass(eq=False)
class UnpackingMemory:
    """Memory that blocks are unpacked into one after the other: the system takes longer to give new pages than arithmetic on them takes."""

    _arrays: dict[int, NDArray[np.float64]] = field(default_factory=dict)

    def result(self, function: Callable[..., Result], block: Sequence[Packed], *more: object) -> Result:
        """What the function gives for the arrays of a block, and for what else is given. What it keeps of them stays as it is."""
        if isinstance(function, OfPacked):
            made: Result = function(*block, *more)
            return made
        value = function(*(self._unpacked(place, array) for place, array in enumerate(block)), *more)
        # An array that somebody else still refers to, or to a part of it, is left to them; one that nobody does has two references: the dictionary's and that of the question.
        for place in list(self._arrays):
            if sys.getrefcount(self._arrays[place]) > 2:
                del self._arrays[place]
        return value

    def _unpacked(self, place: int, array: Packed) -> NDArray[Any]:
        if array.exponent is None:
            return array.numbers
        memory, shape = self._arrays.get(place), array.numbers.shape
        if memory is None or memory.shape[1:] != shape[1:] or len(memory) < shape[0]:
            memory = self._arrays[place] = np.empty(shape)
        return array.unpacked(memory[: shape[0]])


def packed(array: NDArray[Any]) -> Packed:
    """An array in as few bytes as hold it exactly: floats on a grid as whole numbers of 8, 16 or 32 bits, others as they are.

    Rows of linear models are within 2²⁷ steps of a grid, and binned columns are zeros and ones.
    """
    if array.dtype != np.float64 or array.size == 0:
        return Packed(np.ascontiguousarray(array))
    largest = float(np.max(np.abs(array)))
    if largest == 0:
        return Packed(np.zeros(array.shape, np.int8, order="F"), 0)
    # NaN and infinities have no exponent, and the scale below stays a normal float.
    if not 2.0**-900 < largest < 2.0**900:
        return Packed(np.ascontiguousarray(array))
    exponent = int(np.frexp(largest)[1]) - 31
    scaled = array * 2.0**-exponent
    whole = scaled.astype(np.int32)
    if not np.array_equal(whole, scaled):
        return Packed(np.ascontiguousarray(array))
    # The lowest bit that any number has: all can be divided by it.
    lowest = int(np.bitwise_or.reduce(whole, axis=None))
    shift = (lowest & -lowest).bit_length() - 1
    whole >>= shift
    most = int(np.max(np.abs(whole)))
    kind = next(kind for kind in _INTEGERS if most <= np.iinfo(kind).max)
    return Packed(whole.astype(kind, order="F"), exponent + shift)

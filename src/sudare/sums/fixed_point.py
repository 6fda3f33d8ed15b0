"""Numbers on a declared grid, as whole words modulo 2^64: the arithmetic in which sums over members are exact and can be hidden.

Range and precision are public and never come from data. A value outside the range becomes its nearest end, and only its
owner learns how many did: stopping because of one would tell the others about it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats, Integers, Words
from sudare.errors import DataError, ImplausibleTotal, InvalidParameter

WORD_BITS: Final = 64
_MOST_STEPS: Final = 2**62
# Between 2^52 and 2^53 the floats are the whole numbers: adding this to at most 2^51 steps rounds them to the nearest, ties to even as `np.rint` does,
# and leaves them in the low bits. It takes half the time of rounding and converting.
_ROUNDING: Final = 3.0 * 2**51
_ROUNDING_BITS: Final = np.float64(_ROUNDING).view(np.uint64)


def vector_of_numbers(values: ArrayLike) -> Floats:
    """A member's vector as floats. Numpy's own refusal would quote what it could not read, so it is not shown."""
    try:
        vector = None if np.iscomplexobj(values) else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        vector = None
    if vector is None:
        raise DataError("This member's vector holds something other than numbers.", "Nothing was sent. Use numbers.")
    return vector


@dataclass(frozen=True)
class EncodedVector:
    """Words of one vector, and how many of its values were outside the declared range: for the owner only."""

    words: Words
    saturated: int


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Values in [low, high], rounded to multiples of `precision`; each a number, or one number for every entry of the vector.

    The precision is rounded down to a power of two, so that scaling is exact and rounding is the only error: at most half a
    step for each member. The default, ±2^20 in steps of 2^−32, takes up to 2,047 members.
    """

    low: ArrayLike = -(2.0**20)
    high: ArrayLike = 2.0**20
    precision: ArrayLike = 2.0**-32

    def __post_init__(self) -> None:
        low, high, precision = self._declared
        if not all(np.isfinite(part).all() for part in (low, high, precision)) or (precision <= 0).any():
            raise InvalidParameter(
                "A range or precision is not a finite number.", "Declare low, high and precision > 0."
            )
        try:
            np.broadcast_shapes(low.shape, high.shape, precision.shape)
        except ValueError:
            raise InvalidParameter(
                "low, high and precision have different lengths.", "Give numbers, or one for every entry."
            ) from None
        if (low > high).any():
            raise InvalidParameter("A range has its low end above its high end.", "Exchange low and high.")
        if self.most_steps > _MOST_STEPS:
            raise InvalidParameter(
                "Even one member's range holds more steps than 62 bits can count.",
                "Use a coarser precision or a narrower range.",
            )
        if (self.lowest > self.highest).any():
            raise InvalidParameter("A range holds no multiple of its precision.", "Use a finer precision.")

    @cached_property
    def _declared(self) -> tuple[Floats, Floats, Floats]:
        low, high, precision = (np.asarray(part, dtype=np.float64) for part in (self.low, self.high, self.precision))
        return low, high, precision

    @cached_property
    def step(self) -> Floats:
        """The precision, rounded down to a power of two."""
        exponent = np.frexp(self._declared[2])[1]
        return np.asarray(np.ldexp(1.0, exponent - 1), dtype=np.float64)

    @cached_property
    def _steps_per_unit(self) -> Floats:
        return np.asarray(1.0 / self.step)

    @cached_property
    def _lowest_and_highest(self) -> tuple[Floats, Floats]:
        """The ends in steps, whole numbers. Dividing by a power of two is exact, and so is rounding."""
        low, high, _ = self._declared
        with np.errstate(over="ignore"):
            return np.ceil(low * self._steps_per_unit), np.floor(high * self._steps_per_unit)

    @cached_property
    def _inside(self) -> tuple[float, float]:
        """Values between these are within the range of every entry."""
        lowest, highest = self._lowest_and_highest
        return float((lowest * self.step).max(initial=-np.inf)), float((highest * self.step).min(initial=np.inf))

    @cached_property
    def _most_rounded_by_adding(self) -> float:
        """Values up to this are at most 2^51 steps, of every entry."""
        return float(2.0**51 * self.step.min(initial=np.inf))

    @cached_property
    def lowest(self) -> Integers:
        """The low end in steps."""
        return np.asarray(self._lowest_and_highest[0].astype(np.int64))

    @cached_property
    def highest(self) -> Integers:
        """The high end in steps."""
        return np.asarray(self._lowest_and_highest[1].astype(np.int64))

    @cached_property
    def most_steps(self) -> float:
        """The largest absolute value of a member's entry, in steps."""
        return float(max(np.abs(end).max(initial=0.0) for end in self._lowest_and_highest))

    def check_members(self, members: int, modulus: int = 2**WORD_BITS) -> None:
        """Refuse a sum of so many members that could wrap around, before anybody sends anything."""
        most = (modulus - 1) // 2
        if members * int(self.most_steps) > most:
            raise InvalidParameter(
                f"With these ranges a sum over {members} members could wrap around; {most // int(self.most_steps)} can be summed.",
                f"Use a precision {2 ** math.ceil(math.log2(members * self.most_steps / most))} times as coarse, or narrower ranges.",
            )

    def encode(self, values: ArrayLike) -> EncodedVector:
        """Words of the values. NaN is refused here, before the protocol starts; everything else has a nearest step."""
        vector = vector_of_numbers(values)
        self._check_shape(vector)
        saturated = 0
        lowest_value, highest_value = vector.min(initial=np.inf), vector.max(initial=-np.inf)
        # Mostly everything is inside, and nothing needs to be moved or counted; a NaN is not inside.
        is_inside = self._inside[0] <= lowest_value and highest_value <= self._inside[1]
        if not is_inside:
            if np.isnan(vector).any():
                raise DataError(
                    "This member's vector holds values that are not numbers (NaN).",
                    "Nothing was sent. Say what a missing value counts as, then add again.",
                )
            (lowest, highest), (low, high, _) = self._lowest_and_highest, self._declared
            saturated = int(np.count_nonzero((vector < low) | (vector > high)))
            vector = np.clip(vector, lowest * self.step, highest * self.step)
        steps = vector * self._steps_per_unit
        if (
            is_inside
            and -self._most_rounded_by_adding <= lowest_value
            and highest_value <= self._most_rounded_by_adding
        ):
            steps += _ROUNDING
            words = steps.view(np.uint64)
            words -= _ROUNDING_BITS
            return EncodedVector(words, saturated)
        return EncodedVector(np.rint(steps, out=steps).astype(np.int64).view(np.uint64), saturated)

    def decode(self, words: Words) -> Floats:
        """The numbers that words stand for, as signed multiples of the step."""
        return np.asarray(words.view(np.int64) * self.step)

    def check_total(self, words: Words, members: int) -> None:
        """Refuse a total that no values within the declared ranges give. It is all that masks leave to check."""
        total = words.view(np.int64)
        lowest, highest = members * self.lowest, members * self.highest
        if lowest.size == highest.size == 1:
            outside = total.min(initial=lowest.item()) < lowest or total.max(initial=highest.item()) > highest
        else:
            outside = (total < lowest).any() or (total > highest).any()
        if outside:
            raise ImplausibleTotal(
                f"A total over {members} members lies outside the declared ranges.",
                "Some member did not keep to its range, and masks hide which. Nothing of this total was used; ask the members.",
            )

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.step.shape, self.lowest.shape, self.highest.shape)

    def _check_shape(self, vector: Floats) -> None:
        if vector.ndim != 1 or self._shape not in ((), (1,), vector.shape):
            raise DataError(
                f"A vector of shape {vector.shape} does not fit ranges declared for shape {self._shape}.",
                "Add one-dimensional vectors of the declared length.",
            )

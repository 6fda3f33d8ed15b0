"""Which numbers an argument takes, as data: checked where it comes in, so that a word or a gap is told as such and not met on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

from sudare.errors import InvalidParameter


@dataclass(frozen=True)
class Numbers:
    """Numbers between two ends; `open_low` and `open_high` leave an end out, `optional` takes None as well. True and False are none."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    open_low: bool = False
    open_high: bool = False
    optional: bool = False

    def holds(self, value: object) -> bool:
        """Whether a value is one of these numbers."""
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        try:
            number = int(value) if self.whole and isinstance(value, Integral) else float(value)
        except OverflowError:
            return False
        if isinstance(number, float) and not math.isfinite(number):
            return False
        return (self.low < number if self.open_low else self.low <= number) and (
            number < self.high if self.open_high else number <= self.high
        )

    def check(self, name: str, value: object) -> None:
        """Raise InvalidParameter, naming the argument, unless the value is one of these numbers."""
        if not self.holds(value):
            raise InvalidParameter(f"{name} must be {self}, got {_shown(value)}.", f"Give {name} such a number.")

    def __str__(self) -> str:
        text = f"a whole number{self._range()}" if self.whole else f"a number{self._range()}"
        return f"{text}, or None" if self.optional else text

    def _range(self) -> str:
        low, high = f"{self.low:g}", f"{self.high:g}"
        if math.inf not in (-self.low, self.high) and self.open_low == self.open_high:
            return f" between {low} and {high}" if self.open_low else f" from {low} to {high}"
        if math.inf not in (-self.low, self.high):
            return f" above {low} and up to {high}" if self.open_low else f" from {low} and below {high}"
        if self.low != -math.inf:
            return f" above {low}" if self.open_low else f" from {low}"
        if self.high != math.inf:
            return f" below {high}" if self.open_high else f" up to {high}"
        return ""


SEEDS = Numbers(0, whole=True, optional=True)


def _shown(value: object) -> str:
    """A number as it is, and of anything else only what it is: it may be data that slipped in."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, Integral) and abs(int(value)) > 10**18:
        return "a number beyond all measure"
    return f"{value}" if isinstance(value, Real) else f"something of type {type(value).__name__}"

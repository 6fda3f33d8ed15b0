"""What a release promises, to whom and between which neighbours.

A guarantee is a statement for people: it is printed on cards and written into manifests. The costs that compose in a
ledger are in `accounting`.
"""

from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from sudare.errors import InvalidCost, RelationMismatch

Neighbours = Literal["replace-one", "add-remove"]
Unit = Literal["record", "person"]
Notion = Literal["central", "local", "parameter", "none"]

NEIGHBOURS: Final = get_args(Neighbours)
UNITS: Final = get_args(Unit)
NOTIONS: Final = get_args(Notion)

SMALLEST_NORMAL: Final = 2.0**-1022
# The δ of learners that need one, where none is given.
DEFAULT_DELTA: Final = 1e-6


def checked_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """`epsilon` if it is a positive normal number; subnormal, zero, negative, infinite and NaN are refused."""
    number = _as_float(epsilon)
    if number is None or not SMALLEST_NORMAL <= number < math.inf:
        raise InvalidCost(f"{name} must be a positive, finite, normal number, got {epsilon!r}.", "Use for example 1.0.")
    return number


def checked_delta(delta: float, name: str = "delta") -> float:
    """`delta` if it is zero or a normal number below one."""
    number = _as_float(delta)
    if number is None or not (number == 0 or SMALLEST_NORMAL <= number < 1):
        raise InvalidCost(f"{name} must be 0 or a normal number below 1, got {delta!r}.", "Use for example 1e-6.")
    # Minus zero becomes zero: one number, one text.
    return number + 0.0


def _as_float(number: object) -> float | None:
    """A real number as a float; None for text, truth values and whatever else is not a number a person would type."""
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        return None
    try:
        return float(number)
    except OverflowError:
        return math.inf


def readable_up(number: float) -> str:
    """Six digits, rounded up: what is asked for, claimed or spent."""
    return _readable(number, decimal.ROUND_CEILING)


def readable_down(number: float) -> str:
    """Six digits, rounded down: what is left."""
    return _readable(number, decimal.ROUND_FLOOR)


def _readable(number: float, rounding: str) -> str:
    # The shortest decimal text of a float is what a person typed: 0.1 must not be rounded up to 0.100001.
    return f"{float(decimal.Context(prec=6, rounding=rounding).create_decimal(repr(float(number)))):g}"


def check_follows(given: Neighbours, wanted: Neighbours) -> None:
    """Raise RelationMismatch unless a guarantee in the one relation says something about the other: add/remove gives replace-one, not the reverse."""
    if wanted not in (given, "replace-one"):
        raise RelationMismatch(
            "A replace-one guarantee says nothing about add/remove neighbours.",
            "Calibrate the mechanism for add/remove, or use a replace-one account.",
        )


@dataclass(frozen=True)
class Guarantee:
    """An immutable promise. `valid` is False where something voids it: a seed, bounds or classes read from data."""

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = "replace-one"
    unit: Unit = "record"
    notion: Notion = "central"
    towards: str = "everyone"
    valid: bool = True

    def __post_init__(self) -> None:
        for name, word, known in (
            ("neighbours", self.neighbours, NEIGHBOURS),
            ("unit", self.unit, UNITS),
            ("notion", self.notion, NOTIONS),
        ):
            if word not in known:
                raise InvalidCost(f"{name} must be one of {', '.join(known)}, got {word!r}.", "Use one of these words.")
        if not isinstance(self.towards, str) or not self.towards or not isinstance(self.valid, bool):
            raise InvalidCost("A guarantee names towards whom it holds, and is valid or not.", "Use text and a bool.")
        if self.notion != "none":
            epsilon, delta = checked_epsilon(self.epsilon), checked_delta(self.delta)
        elif self.epsilon == math.inf and self.delta == 0:
            epsilon, delta = math.inf, 0.0
        else:
            raise InvalidCost(
                "A disclosure without a guarantee has epsilon = inf and delta = 0.", "Use Guarantee.none()."
            )
        # Stored as plain floats, so that what is written into a manifest can be read back.
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @classmethod
    def none(cls, towards: str) -> Guarantee:
        """What is promised when exact values are shown: nothing."""
        return cls(epsilon=math.inf, notion="none", towards=towards)

    def to(self, neighbours: Neighbours) -> Guarantee:
        """Returns the promise for another relation. Add/remove gives replace-one by two steps; the reverse is refused."""
        if neighbours == self.neighbours:
            return self
        check_follows(self.neighbours, neighbours)
        return replace(self.for_group(2), neighbours="replace-one")

    def for_group(self, size: int) -> Guarantee:
        """The promise when `size` units change at once: (kε, δ(e^{kε}−1)/(e^ε−1)); for k = 2 this is (2ε, (1+e^ε)δ)."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidCost(f"A group has a whole number of members, at least 1; got {size!r}.", "Use for example 3.")
        if self.notion == "none" or size == 1:
            return self
        delta = group_delta(self.epsilon, self.delta, size)
        if delta >= 1:
            raise InvalidCost(
                f"A group of {size} at epsilon = {readable_up(self.epsilon)}, delta = {readable_up(self.delta)} "
                "has no guarantee left.",
                "Use a smaller epsilon or delta, or fewer rows per person.",
            )
        return replace(self, epsilon=group_epsilon(self.epsilon, size), delta=delta)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a manifest; infinity is written as text because JSON has none."""
        values = dict(vars(self))
        values["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` wrote; anything else is refused."""
        if not isinstance(values, Mapping) or set(values) != {field.name for field in fields(cls)}:
            raise InvalidCost("A guarantee lacks a field or has one too many.", "Ask for the file again.")
        epsilon, delta = values["epsilon"], values["delta"]
        texts = [values[name] for name in ("neighbours", "unit", "notion", "towards")]
        if (
            not (epsilon == "inf" or (type(epsilon) is float and math.isfinite(epsilon)))
            or type(delta) is not float
            or not all(type(text) is str for text in texts)
            or type(values["valid"]) is not bool
        ):
            raise InvalidCost("A guarantee has a field of the wrong type.", "Ask for the file again.")
        return cls(
            epsilon=math.inf if epsilon == "inf" else epsilon,
            delta=delta,
            neighbours=values["neighbours"],
            unit=values["unit"],
            notion=values["notion"],
            towards=values["towards"],
            valid=values["valid"],
        )

    def __str__(self) -> str:
        if self.notion == "none":
            return f"no guarantee: exact values shown to {self.towards}"
        epsilon, delta = readable_up(self.epsilon), readable_up(self.delta)
        text = f"ε = {epsilon}, δ = {delta}, {self.neighbours} {self.unit}, towards {self.towards}"
        if self.notion != "central":
            text = f"local {text}" if self.notion == "local" else f"parameter {text}"
        return text if self.valid else f"{text} — NOT VALID"


def group_epsilon(epsilon: float, size: int) -> float:
    """kε rounded up, by the decimal text of the float: three times 0.1 is 0.3. Infinite beyond all floats."""
    product = Fraction(repr(epsilon)) * size
    try:
        nearest = float(product)
    except OverflowError:
        return math.inf
    return nearest if Fraction(repr(nearest)) >= product else math.nextafter(nearest, math.inf)


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """δ·(1 + e^ε + … + e^{(k−1)ε}) rounded up: the δ for groups of k (Vadhan 2017, Lemma 2.2)."""
    if delta == 0:
        return 0.0
    if size * epsilon > 700:
        return 1.0
    # expm1 is right to an ulp and its argument to half of one, which an exponent of 700 makes 1.6e-13: 1e-12 covers both.
    growth = math.expm1(size * epsilon) / math.expm1(epsilon)
    return math.nextafter(delta * growth * (1 + 1e-12), math.inf)

"""What a release promises, to whom and between which neighbours.

A guarantee is a statement for people: it is printed on cards and written into manifests. The costs that compose in a
ledger are in `accounting`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal, get_args

from sudare.errors import InvalidCost, RelationMismatch

Neighbours = Literal["replace-one", "add-remove"]
Unit = Literal["record", "person"]
Notion = Literal["central", "local", "parameter", "none"]

NEIGHBOURS: Final = get_args(Neighbours)
UNITS: Final = get_args(Unit)
NOTIONS: Final = get_args(Notion)

SMALLEST_NORMAL: Final = 2.0**-1022


def checked_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """`epsilon` if it is a positive normal number; subnormal, zero, negative, infinite and NaN are refused."""
    if isinstance(epsilon, bool) or not math.isfinite(epsilon) or not epsilon >= SMALLEST_NORMAL:
        raise InvalidCost(f"{name} must be a positive, finite, normal number, got {epsilon!r}.", "Use for example 1.0.")
    return float(epsilon)


def checked_delta(delta: float, name: str = "delta") -> float:
    """`delta` if it is zero or a normal number below one."""
    if isinstance(delta, bool) or not (delta == 0 or SMALLEST_NORMAL <= delta < 1):
        raise InvalidCost(f"{name} must be 0 or a normal number below 1, got {delta!r}.", "Use for example 1e-6.")
    return float(delta)


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
        for name, value, known in (
            ("neighbours", self.neighbours, NEIGHBOURS),
            ("unit", self.unit, UNITS),
            ("notion", self.notion, NOTIONS),
        ):
            if value not in known:
                raise InvalidCost(
                    f"{name} must be one of {', '.join(known)}, got {value!r}.", "Use one of these words."
                )
        if self.notion == "none":
            if not (self.epsilon == math.inf and self.delta == 0):
                raise InvalidCost(
                    "A disclosure without a guarantee has epsilon = inf and delta = 0.", "Use Guarantee.none()."
                )
            return
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)

    @classmethod
    def none(cls, towards: str) -> Guarantee:
        """What is promised when exact values are shown: nothing."""
        return cls(epsilon=math.inf, notion="none", towards=towards)

    def to(self, neighbours: Neighbours) -> Guarantee:
        """The same promise for another relation. Add/remove gives replace-one by two steps; the reverse is refused."""
        if neighbours == self.neighbours:
            return self
        if neighbours != "replace-one":
            raise RelationMismatch(
                "A replace-one guarantee says nothing about add/remove neighbours.",
                "Calibrate the mechanism for add/remove, or use a replace-one account.",
            )
        return replace(self.for_group(2), neighbours="replace-one")

    def for_person(self, most_rows: int) -> Guarantee:
        """The promise to a person with at most `most_rows` records, from the promise to a record."""
        if self.unit == "person":
            return self
        return replace(self.for_group(most_rows), unit="person")

    def for_group(self, size: int) -> Guarantee:
        """The promise when `size` units change at once: (kε, δ(e^{kε}−1)/(e^ε−1)); for k = 2 this is (2ε, (1+e^ε)δ)."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidCost(f"A group has a whole number of members, at least 1; got {size!r}.", "Use for example 3.")
        if self.notion == "none" or size == 1:
            return self
        delta = group_delta(self.epsilon, self.delta, size)
        if delta >= 1:
            raise InvalidCost(
                f"A group of {size} at epsilon = {self.epsilon:g}, delta = {self.delta:g} has no guarantee left.",
                "Use a smaller epsilon or delta, or fewer rows per person.",
            )
        return replace(self, epsilon=math.nextafter(self.epsilon * size, math.inf), delta=delta)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a manifest; infinity is written as text because JSON has none."""
        values = asdict(self)
        values["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` wrote; anything else is refused."""
        if set(values) != {field.name for field in fields(cls)}:
            raise InvalidCost("A guarantee lacks a field or has one too many.", "Ask for the file again.")
        numbers = [values["epsilon"], values["delta"]]
        if numbers[0] == "inf":
            numbers[0] = math.inf
        texts = [values[name] for name in ("neighbours", "unit", "notion", "towards")]
        if (
            not all(type(number) is float for number in numbers)
            or not all(type(text) is str for text in texts)
            or type(values["valid"]) is not bool
        ):
            raise InvalidCost("A guarantee has a field of the wrong type.", "Ask for the file again.")
        return cls(
            epsilon=numbers[0],
            delta=numbers[1],
            neighbours=values["neighbours"],
            unit=values["unit"],
            notion=values["notion"],
            towards=values["towards"],
            valid=values["valid"],
        )

    def __str__(self) -> str:
        if self.notion == "none":
            return f"no guarantee: exact values shown to {self.towards}"
        kind = "" if self.notion == "central" else f"{self.notion} "
        text = f"{kind}ε = {self.epsilon:g}, δ = {self.delta:g}, {self.neighbours} {self.unit}, towards {self.towards}"
        return text if self.valid else f"{text} — NOT VALID"


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """δ·(1 + e^ε + … + e^{(k−1)ε}) rounded up: the δ for groups of k (Vadhan 2017, Lemma 2.2)."""
    if delta == 0:
        return 0.0
    exponents = [step * epsilon for step in range(size)]
    if exponents[-1] > 700:
        return 1.0
    return math.nextafter(delta * math.fsum(map(math.exp, exponents)) * (1 + 1e-12), math.inf)

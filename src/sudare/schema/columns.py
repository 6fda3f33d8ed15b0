"""What everybody may know about one column: bounds, categories, classes; and about the persons behind the rows.

Each declaration checks itself when it is made. Its values are public, so messages may print them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sudare.errors import SchemaError
from sudare.safe_text import composed, name_fault, normal_name, text_fault

Level = str | int | bool
LevelKind = Literal["text", "integer", "boolean"]

DEFAULT_BIN_COUNT = 10
MOST_ATOMS = 100
LARGEST_CENTRED_VALUE = 1e150
# From here on floats lie more than one apart.
LARGEST_WHOLE = 2.0**53
INTEGER_LEVELS = range(-(2**63), 2**63)
MISSING_AT_CENTRE = "centre"
MISSING_INDICATOR = "indicator"
# A number of rows that is chosen privately.
AUTO: Literal["auto"] = "auto"
# So many rows of one person may be kept at most where the number is chosen.
LARGEST_BOUND = 2**20


@dataclass(frozen=True)
class Number:
    """A column of numbers between `low` and `high`; values outside, infinities too, are clipped to the nearer bound.

    `centre` and `scale` serve the centred encoding (default: the midpoint and half the range). `bins` are the inner
    edges of the binned encoding (default: ten bins of equal width). Every bin contains its left edge and not its
    right one, except the last, which also contains `high`: [low, e1), [e1, e2), …, [ek, high].
    `missing` is a number that stands in for missing values, or "centre", or "indicator" (the centre, and a further
    0/1 column that says so; in the binned encoding missing is a bin of its own). None: missing values are an error.
    `whole` says that all values are whole numbers: others are an error, bins begin at whole numbers, and what is synthesized or perturbed is whole.
    `atoms` are single values that many rows have (0, or 40 hours a week): each is a cell of its own in a synthetic table.
    `determined_by` names a column whose value leaves one value for this one; synthetic rows never have two. Which one can be declared in a Schema's `maps`.
    """

    low: float
    high: float
    centre: float | None = None
    scale: float | None = None
    bins: tuple[float, ...] | None = None
    unit: str | None = None
    missing: float | str | None = None
    whole: bool = False
    atoms: tuple[float, ...] | None = None
    determined_by: str | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        for fact in ("low", "high"):
            set_field(self, fact, finite_number(getattr(self, fact), fact))
        for fact in ("centre", "scale"):
            if getattr(self, fact) is not None:
                set_field(self, fact, finite_number(getattr(self, fact), fact))
        if self.bins is not None:
            set_field(self, "bins", tuple(finite_number(edge, "bins") for edge in listed(self.bins, "bins")))
        if self.atoms is not None:
            set_field(self, "atoms", tuple(finite_number(atom, "atoms") for atom in listed(self.atoms, "atoms")))
        if self.determined_by is not None:
            set_field(self, "determined_by", column_name(self.determined_by))
        if self.missing is not None and not isinstance(self.missing, str):
            set_field(self, "missing", finite_number(self.missing, "missing"))
        if self.unit is not None:
            set_field(self, "unit", printable_text(self.unit, "unit"))
        self._check_range()
        self._check_bins()
        self._check_atoms()
        self._check_missing()
        self._check_whole()

    def _check_range(self) -> None:
        if not self.low < self.high:
            raise SchemaError(f"`low` = {self.low:g} is not below `high` = {self.high:g}.", "Give low < high.")
        if not math.isfinite(self.high - self.low):
            raise SchemaError(f"The range from {self.low:g} to {self.high:g} overflows.", "Give narrower bounds.")
        if self.centre is not None and not self.low <= self.centre <= self.high:
            raise SchemaError(
                f"`centre` = {self.centre:g} is outside [{self.low:g}, {self.high:g}].",
                "Give a centre within the bounds.",
            )
        if self.scale is not None and not self.scale > 0:
            raise SchemaError(f"`scale` = {self.scale:g} is not above 0.", "Give a positive scale.")
        centre, scale = self.public_centre, self.public_scale
        if not max(centre - self.low, self.high - centre) / scale <= LARGEST_CENTRED_VALUE:
            raise SchemaError(
                f"`scale` = {self.public_scale:g} is too small for the range from {self.low:g} to {self.high:g}.",
                "Give a scale of the order of the range.",
            )

    def _check_bins(self) -> None:
        if self.bins is None:
            return
        # The greatest whole number can be a bin of its own.
        edges = (self.low, *self.bins, self.high + 1 if self.whole is True else self.high)
        if not self.bins or any(left >= right for left, right in itertools.pairwise(edges)):
            raise SchemaError(
                f"`bins` = {list(self.bins)} does not rise strictly between low = {self.low:g} and high = {self.high:g}.",
                "Give at least one inner edge, each above the one before; `low` and `high` are not among them.",
            )

    def _check_atoms(self) -> None:
        if self.atoms is None:
            return
        within = all(self.low <= atom <= self.high for atom in self.atoms)
        if not within or not 1 <= len(self.atoms) <= MOST_ATOMS or len({*self.atoms}) < len(self.atoms):
            raise SchemaError(
                f"`atoms` are not 1 to {MOST_ATOMS} different numbers from {self.low:g} to {self.high:g}.",
                "Give the values that many rows have, such as atoms = [0].",
            )

    def _check_missing(self) -> None:
        if isinstance(self.missing, str):
            holds = self.missing in (MISSING_AT_CENTRE, MISSING_INDICATOR)
        else:
            holds = self.missing is None or self.low <= self.missing <= self.high
        if not holds:
            raise SchemaError(
                f"`missing` = {self.missing!r} is not a value that can stand in for a missing number.",
                f'Give "centre", "indicator", or a number from {self.low:g} to {self.high:g}; or leave it out.',
            )

    def _check_whole(self) -> None:
        if not isinstance(self.whole, bool):
            raise SchemaError("`whole` is neither true nor false.", "Give whole = true for a column of whole numbers.")
        facts = (
            self.low,
            self.high,
            *(self.bins or ()),
            *(self.atoms or ()),
            *([] if isinstance(self.missing, str | None) else [self.missing]),
        )
        if self.whole and not all(fact.is_integer() and abs(fact) < LARGEST_WHOLE for fact in facts):
            raise SchemaError(
                "`whole` = true is declared with bounds, bins, atoms or a stand-in for missing values that are not whole numbers below 2⁵³.",
                "Give them as whole numbers, or leave `whole` out.",
            )

    @property
    def public_centre(self) -> float:
        """The declared centre, or the midpoint of the bounds."""
        if self.centre is not None:
            return self.centre
        return min(max(self.low + (self.high - self.low) / 2, self.low), self.high)

    @property
    def public_scale(self) -> float:
        """The declared scale, or half the range."""
        if self.scale is not None:
            return self.scale
        # Half of the smallest subnormal range would round to zero.
        return (self.high - self.low) / 2 or self.high - self.low

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The inner bin edges: those declared, or those of ten bins of equal width (fewer if floats lie too far apart).

        Whole numbers have ten bins with equally many of them, up to one, or one bin each if they are fewer.
        """
        if self.bins is not None:
            return self.bins
        if self.whole:
            values = int(self.high - self.low) + 1
            count = min(DEFAULT_BIN_COUNT, values)
            return tuple(self.low + float(-(-place * values // count)) for place in range(1, count))
        equal = np.unique(np.linspace(self.low, self.high, DEFAULT_BIN_COUNT + 1))
        return tuple(float(edge) for edge in equal if self.low < edge < self.high)

    @property
    def stand_in(self) -> float | None:
        """The number that stands in for a missing one; None if a missing value is an error."""
        if isinstance(self.missing, str):
            return float(round(self.public_centre)) if self.whole else self.public_centre
        return self.missing

    def value_text(self, value: float) -> str:
        """A value in words: a number, or the moment that it counts to."""
        return str(int(value)) if self.whole else f"{value:g}"

    def values_array(self, found: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Numbers as a table holds them: whole ones as integers, unless some may be missing (NaN)."""
        return found.astype(np.int64) if self.whole and not self.has_indicator else found

    def with_plain_stand_in(self) -> Number:
        """Returns the column with the value that stands in for missing ones in place of the word for it."""
        return self if self.missing == self.stand_in else replace(self, missing=self.stand_in)

    @property
    def has_indicator(self) -> bool:
        """Whether missing values are marked in a column of their own."""
        return self.missing == MISSING_INDICATOR


class Levels:
    """What a Category and a Label share: a declared list of values of one kind, in the field that `listed_in` names."""

    listed_in: ClassVar[str]
    missing: Level | None
    value_kind: LevelKind
    # Only a Category may have these.
    other: Level | None = None
    determined_by: str | None = None

    def __post_init__(self) -> None:
        values, kind = checked_levels(getattr(self, self.listed_in), self.listed_in)
        # The kind takes part in comparisons: (0, 1) and (False, True) are equal to Python.
        for name, fact in ((self.listed_in, values), ("value_kind", kind)):
            object.__setattr__(self, name, fact)
        if self.other is not None:
            object.__setattr__(self, "other", checked_other_level(self.other, kind))
        if self.determined_by is not None:
            object.__setattr__(self, "determined_by", column_name(self.determined_by))
        object.__setattr__(self, "missing", checked_missing_level(self.missing, self.listed_levels, kind))

    @property
    def listed_levels(self) -> tuple[Level, ...]:
        """The values declared, then the one for values that are not listed if it is a further one."""
        values: tuple[Level, ...] = getattr(self, self.listed_in)
        return values if self.other is None or self.other in values else (*values, self.other)

    @property
    def levels(self) -> tuple[Level, ...]:
        """All values in the order of their codes: `listed_levels`, then the one for missing values if it is a further one."""
        values = self.listed_levels
        return values if self.missing is None or self.missing in values else (*values, self.missing)

    @property
    def other_code(self) -> int | None:
        """The code of values that are not listed; None if such a value is an error."""
        return None if self.other is None else self.listed_levels.index(self.other)

    @property
    def missing_code(self) -> int | None:
        """The code of missing values; None if a missing value is an error."""
        return None if self.missing is None else self.levels.index(self.missing)


@dataclass(frozen=True)
class Category(Levels):
    """A column that holds one of `values`: all text, all whole numbers, or all booleans.

    `missing` names the category that missing values belong to, and `other` the one that values which are not listed belong to:
    one of `values`, or a further one. None: such values are an error. `determined_by` is as in a Number.
    """

    listed_in: ClassVar[str] = "values"

    values: tuple[Level, ...]
    missing: Level | None = None
    other: Level | None = None
    value_kind: LevelKind = field(init=False, repr=False)
    determined_by: str | None = None


@dataclass(frozen=True)
class Label(Levels):
    """The column to predict: one of `classes`. Classes and `missing` follow the rules of a Category."""

    listed_in: ClassVar[str] = "classes"

    classes: tuple[Level, ...]
    missing: Level | None = None
    value_kind: LevelKind = field(init=False, repr=False)


Column = Number | Category | Label


@dataclass(frozen=True)
class Person:
    """Which column says whose row it is, and how many rows of one person are kept.

    `most_rows` is that number, or "auto": then it is chosen privately in a fit, from 1 to `largest`, and `spent` is the ε that the choice took from the noise.
    """

    column: str
    most_rows: int | Literal["auto"]
    largest: int | None = None
    spent: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", column_name(self.column))
        if self.most_rows == AUTO:
            if self.largest is None:
                raise SchemaError(
                    '`most_rows` is "auto", and `largest` is missing.',
                    "Give the most rows that may be kept of a person.",
                )
        else:
            object.__setattr__(
                self,
                "most_rows",
                _whole(self.most_rows, "most_rows", 'Give the most rows that are kept of a person, or "auto".'),
            )
        if self.largest is not None:
            largest = _whole(self.largest, "largest", "Give the most rows that may be kept of a person.")
            if largest > LARGEST_BOUND or (self.most_rows != AUTO and largest < self.bound):
                raise SchemaError(
                    f"`largest` is below `most_rows` or above {LARGEST_BOUND:,}.",
                    "Give the most rows that may be kept of a person.",
                )
            object.__setattr__(self, "largest", largest)
        object.__setattr__(self, "spent", finite_number(self.spent, "spent"))
        if self.spent < 0 or (self.spent > 0 and (self.is_auto or self.largest is None)):
            raise SchemaError("`spent` is for a bound that was chosen.", "Leave it out.")

    @property
    def is_auto(self) -> bool:
        """Whether the number of rows is still to be chosen."""
        return self.most_rows == AUTO

    @property
    def bound(self) -> int:
        """How many rows of one person are kept at most: the largest number where none was chosen."""
        return (self.largest or 1) if self.most_rows == AUTO else int(self.most_rows)


def _whole(value: object, fact: str, remedy: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise SchemaError(f"`{fact}` is not a whole number from 1.", remedy)
    return int(value)


def finite_number(value: object, fact: str) -> float:
    """`value` as a float, -0 as 0; booleans, text and what is not finite are refused."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number + 0.0
    raise SchemaError(
        f"`{fact}` has a value that is not a finite number.", f"Give `{fact}` as a number such as 0 or 12.5."
    )


def listed(values: object, fact: str) -> tuple[object, ...]:
    """`values` as a tuple; a single value is refused, and so is text, which Python would take apart into letters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise SchemaError(f"`{fact}` is not a list.", f"Give `{fact}` as a list in square brackets.")
    return tuple(values)


def printable_text(value: object, fact: str) -> str:
    """`value` as text in its one spelling (NFC). Raise SchemaError unless it can be shown in one line without changing anything else there."""
    text = composed(value) if isinstance(value, str) else value
    fault = text_fault(text)
    if fault is not None:
        raise SchemaError(f"`{fact}` has a value that {fault}.", f"Give `{fact}` as plain text in quotes.")
    return str(text)


def column_name(name: object) -> str:
    """`name` as the name of a column, in its one spelling. Raise SchemaError unless it can be shown on a card."""
    text = normal_name(name) if isinstance(name, str) else name
    fault = name_fault(text)
    if fault is not None:
        raise SchemaError(f"The name of a column {fault}.", "Name every column in plain text.")
    return str(text)


def level_and_kind(value: object, fact: str) -> tuple[Level, LevelKind]:
    """A category in plain Python types and which kind it is; True and 1 are of different kinds, 1.0 is of none."""
    if isinstance(value, str):
        return printable_text(value, fact), "text"
    if isinstance(value, bool | np.bool_):
        return bool(value), "boolean"
    if isinstance(value, Integral) and int(value) in INTEGER_LEVELS:
        return int(value), "integer"
    raise SchemaError(
        f"`{fact}` lists something other than text, 64-bit whole numbers and booleans.",
        "Write categories as text or whole numbers (1, not 1.0); declare measured quantities as numbers.",
    )


def checked_levels(values: object, fact: str) -> tuple[tuple[Level, ...], LevelKind]:
    """The listed categories and their common kind: at least two, distinct, all of one kind."""
    pairs = [level_and_kind(value, fact) for value in listed(values, fact)]
    kinds = sorted({kind for _, kind in pairs})
    if len(kinds) > 1:
        raise SchemaError(
            f"`{fact}` mixes {' and '.join(kinds)} values.",
            "Write all of them as text, or all as whole numbers, or all as booleans.",
        )
    levels = tuple(level for level, _ in pairs)
    if len(set(levels)) < len(levels):
        raise SchemaError(f"`{fact}` lists a value twice.", "List every value once.")
    if len(levels) < 2:
        raise SchemaError(
            f"`{fact}` lists fewer than two values.", "List every value the column can have; there must be two or more."
        )
    return levels, pairs[0][1]


def checked_missing_level(missing: object, values: tuple[Level, ...], kind: LevelKind) -> Level | None:
    """The category of missing values: one of the listed, or a further one that cannot be mistaken for one of them."""
    if missing is None:
        return None
    level, missing_kind = level_and_kind(missing, "missing")
    lookalike = level not in values and level_text(level) in map(level_text, values)
    if missing_kind not in ("text", kind) or lookalike:
        raise SchemaError(
            f"`missing` is the {missing_kind} {level_text(level)!r} while the listed values are {kind}.",
            "Name one of the listed values, or a further category as text.",
        )
    return level


def checked_other_level(other: object, kind: LevelKind) -> Level:
    """The category of values that are not listed. Raise SchemaError unless it is of their kind."""
    level, other_kind = level_and_kind(other, "other")
    if other_kind != kind:
        raise SchemaError(f"`other` is {other_kind} while the listed values are {kind}.", "Give a value of their kind.")
    return level


def level_text(level: Level) -> str:
    """A category as it appears in column names; booleans as TOML writes them."""
    return str(level).lower() if isinstance(level, bool) else str(level)

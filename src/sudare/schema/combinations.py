"""What everybody may know about several columns together: maps from one to another, and combinations of values that cannot be.

Both are declared and never taken from data; synthetic tables keep them in every row. Cells of a column are those in which such tables count it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Positions
from sudare.errors import SchemaError
from sudare.safe_text import composed
from sudare.schema.columns import (
    Column,
    Label,
    Level,
    Number,
    column_name,
    finite_number,
    level_and_kind,
    level_text,
)
from sudare.schema.dates import Date
from sudare.schema.encodings import bin_texts, plain_number

# What stands for the missing values of a number that has a cell for them.
MISSING: Final = "missing"
# Columns that combinations connect are looked at together, to find values that none of them leaves.
MOST_TOGETHER: Final = 2**22
MOST_NAMED: Final = 2**26


@dataclass(frozen=True)
class Span:
    """Numbers from `low` on that are below `below`; without one of them, up to the bound of the column, which belongs to it."""

    low: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        for fact in ("low", "below"):
            if getattr(self, fact) is not None:
                object.__setattr__(self, fact, finite_number(getattr(self, fact), fact))
        if self.low is None and self.below is None:
            raise SchemaError("A span of numbers has no end.", "Give {low = …}, {below = …} or both.")


# The value of the determined column for the text of each value of the one that determines it.
Map = Mapping[str, Level | float]
# Values of every column that together cannot be.
Combination = Mapping[str, tuple[Level | float | Span, ...]]


def cell_count(column: Column) -> int:
    """In how many cells a column is counted: bins, one for every atom, one for missing numbers where they have one, or categories."""
    if isinstance(column, Number):
        return len(column.edges) + 1 + len(column.atoms or ()) + column.has_indicator
    return len(column.levels)


@dataclass(frozen=True, eq=False)
class KnownCells:
    """What is declared about several columns, in their cells.

    `maps` has for a column which one determines it, and its cell for every cell of that one; `impossible` the cells of each
    combination, of columns that no map determines: in place of another one stands the one that determines it.
    """

    columns: Mapping[str, Column]
    maps: Mapping[str, tuple[str, Positions]]
    impossible: tuple[Mapping[str, frozenset[int]], ...]

    @classmethod
    def of(
        cls, columns: Mapping[str, Column], maps: Mapping[str, Map], impossible: Iterable[Combination]
    ) -> KnownCells:
        """The cells of checked declarations."""
        found = {}
        for name, values in maps.items():
            by = str(determining(columns[name]))
            cells = np.zeros(cell_count(columns[by]), dtype=np.intp)
            for text, places in cells_by_text(by, columns[by]).items():
                cells[places] = _value_cell(columns[name], values[text])
            found[name] = by, cells
        return cls(columns, found, tuple(_free_cells(columns, maps, each) for each in impossible))

    @classmethod
    def none(cls) -> KnownCells:
        """Nothing declared."""
        return cls({}, {}, ())

    @cached_property
    def excluded(self) -> tuple[Mapping[str, frozenset[int]], ...]:
        """Combinations of cells that cannot be, without those that maps exclude by themselves."""
        return tuple(each for each in self.impossible if all(each.values()))

    def values(self, name: str, texts: Map) -> list[Level | float]:
        """The declared value of a determined column for every cell of the one that determines it."""
        by = self.maps[name][0]
        found = {cell: texts[text] for text, cells in cells_by_text(by, self.columns[by]).items() for cell in cells}
        return [found[cell] for cell in range(len(found))]

    def check(self) -> None:
        """Raise SchemaError where combinations leave a value of a column no row."""
        for names in self._connected():
            shape = [cell_count(self.columns[name]) for name in names]
            told = [each for each in self.excluded if {*each} <= {*names}]
            # How many of them each combination names.
            parts = sum(
                math.prod(len(each.get(name, range(size))) for name, size in zip(names, shape, strict=True))
                for each in told
            )
            if math.prod(shape) > MOST_TOGETHER or parts > MOST_NAMED:
                raise SchemaError(
                    f"`impossible` connects columns with {math.prod(shape):,} combinations of bins and categories; at most {MOST_TOGETHER:,} are looked at.",
                    "Declare fewer bins for these columns, or fewer combinations.",
                )
            possible = np.ones(shape, dtype=bool)
            for combination in told:
                exclude(possible, names, combination)
            for axis, name in enumerate(names):
                others = tuple(other for other in range(len(names)) if other != axis)
                never = np.flatnonzero(~possible.any(axis=others))
                if len(never):
                    raise SchemaError(
                        f"`impossible` leaves no row that has {cell_text(self.columns[name], int(never[0]))} in column {name!r}.",
                        "Take that value out of the column, or a combination out of `impossible`.",
                    )

    def _connected(self) -> list[tuple[str, ...]]:
        """Groups of columns that combinations connect."""
        groups: list[set[str]] = []
        for combination in self.excluded:
            near = [group for group in groups if group & {*combination}]
            groups = [group for group in groups if group not in near] + [{*combination}.union(*near)]
        return [tuple(name for name in self.columns if name in group) for group in groups]


def exclude(possible: NDArray[Any], names: Iterable[str], combination: Mapping[str, frozenset[int]]) -> None:
    """Set the cells of a combination to zero in a table with an axis for each of these columns."""
    axes = enumerate(names)
    possible[
        np.ix_(
            *(sorted(combination[name]) if name in combination else range(possible.shape[axis]) for axis, name in axes)
        )
    ] = 0


def _free_cells(
    columns: Mapping[str, Column], maps: Mapping[str, Map], combination: Combination
) -> dict[str, frozenset[int]]:
    """The cells of a combination in columns that no map determines."""
    found: dict[str, frozenset[int]] = {}
    for name, values in combination.items():
        by = str(determining(columns[name])) if name in maps else name
        if name in maps:
            known = cells_by_text(by, columns[by])
            told = [text for text, value in maps[name].items() if any(_is_in(value, each) for each in values)]
            cells = frozenset(cell for text in told for cell in known[text])
        else:
            cells = cells_of(name, columns[name], values)
        found[by] = cells & found.get(by, cells)
    return found


def _is_in(value: Level | float, told: Level | float | Span) -> bool:
    """Whether a value of a map is one that a combination names."""
    if not isinstance(told, Span):
        return value == told
    low, below = (-math.inf if told.low is None else told.low), (math.inf if told.below is None else told.below)
    return not isinstance(value, str) and low <= value < below


def determining(column: Column) -> str | None:
    """The name of the column that determines this one, if there is one."""
    return None if isinstance(column, Label) else column.determined_by


def cells_by_text(name: str, column: Column) -> dict[str, list[int]]:
    """The cells of every value of a column, by the text of the value. Raise SchemaError where a bin holds several values."""
    if not isinstance(column, Number):
        return {level_text(level): [code] for code, level in enumerate(column.levels)}
    edges = (column.low, *column.edges)
    if isinstance(column, Date) or not all(_is_one_value(column, place) for place in range(len(edges))):
        raise SchemaError(
            f"Column {name!r} determines another by a map, and has bins of several values.",
            "Declare it as a category, or with whole = true and bins of one value each.",
        )
    found = {column.value_text(edge): [place] for place, edge in enumerate(edges)}
    for place, atom in enumerate(column.atoms or ()):
        found[column.value_text(atom)].append(len(edges) + place)
    return {**found, MISSING: [cell_count(column) - 1]} if column.has_indicator else found


def cells_of(name: str, column: Column, values: Iterable[Level | float | Span]) -> frozenset[int]:
    """The cells of values of a column. Raise SchemaError for one that has no cells of its own."""
    return frozenset(cell for value in values for cell in _cells_of_one(name, column, value))


def _cells_of_one(name: str, column: Column, value: Level | float | Span) -> list[int]:
    if not isinstance(column, Number):
        return [_level_code(name, column, value)]
    if value == MISSING and column.has_indicator:
        return [cell_count(column) - 1]
    lefts = (column.low, *column.edges)
    if isinstance(value, Span):
        low = column.low if value.low is None else value.low
        below = math.inf if value.below is None else value.below
        first = lefts.index(low) if low in lefts else None
        last = len(lefts) if below == math.inf else lefts.index(below) if below in lefts else None
        if first is not None and last is not None and first < last:
            atoms = [len(lefts) + place for place, atom in enumerate(column.atoms or ()) if low <= atom < below]
            return [*range(first, last), *atoms]
    elif isinstance(value, Real) and not isinstance(value, bool) and value in lefts:
        place = lefts.index(float(value))
        if _is_one_value(column, place):
            atoms = [len(lefts) + each for each, atom in enumerate(column.atoms or ()) if atom == value]
            return [place, *atoms]
    raise SchemaError(
        f"`impossible` names numbers in column {name!r} that are no whole bins of it.",
        'Give {low = …, below = …} with edges of its bins, a number that is a bin of its own, or "missing" where missing = "indicator".',
    )


def _is_one_value(column: Number, place: int) -> bool:
    """Whether a bin holds a single whole number."""
    edges = (column.low, *column.edges, column.high + 1)
    return column.whole and edges[place + 1] - edges[place] == 1


def _level_code(name: str, column: Any, value: object) -> int:
    for code, level in enumerate(column.levels):
        if type(level) is type(value) and level == value:
            return code
    raise SchemaError(
        f"A map or combination names a value of column {name!r} that it cannot have.",
        "Name values that the column declares, spelled as there.",
    )


def _value_cell(column: Column, value: Level | float) -> int:
    """The cell of a declared value of a determined column."""
    if not isinstance(column, Number):
        return _level_code("", column, value)
    if value == MISSING:
        return cell_count(column) - 1
    if column.atoms and value in column.atoms:
        return len(column.edges) + 1 + column.atoms.index(float(value))
    return int(np.searchsorted(column.edges, value, side="right"))


def cell_text(column: Column, cell: int) -> str:
    """A cell of a column as the schema writes it: public."""
    if not isinstance(column, Number):
        return repr(column.levels[cell])
    texts = [*bin_texts(column), *map(column.value_text, column.atoms or ())]
    return texts[cell] if cell < len(texts) else repr(MISSING)


# From documents


def checked_maps(columns: Mapping[str, Column], maps: object) -> Mapping[str, Map]:
    """The maps of determined columns in plain types. Raise SchemaError unless each has one possible value for every value of the column that determines it."""
    if not isinstance(maps, Mapping):
        raise SchemaError("`maps` is not a table of columns.", "Write a section [maps.NAME] for a determined column.")
    return MappingProxyType({column_name(name): _checked_map(columns, column_name(name), maps[name]) for name in maps})


def _checked_map(columns: Mapping[str, Column], name: str, values: object) -> Map:
    column = columns.get(name)
    by = None if column is None else determining(column)
    if column is None or by is None or by not in columns or determining(columns[by]) is not None:
        raise SchemaError(
            f"`maps` has values of {name!r}, which no free column determines.",
            "Declare the column with `determined_by` = a declared column that has none itself.",
        )
    if not isinstance(values, Mapping):
        raise SchemaError(
            f"The map of {name!r} is not a table.", f"Write [maps.{name}] with a value for each of {by!r}."
        )
    given = {_key(key): value for key, value in values.items()}
    if len(given) < len(values):
        raise SchemaError(f"The map of {name!r} names a value twice.", "List every value once.")
    known = cells_by_text(by, columns[by])
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        raise SchemaError(
            f"The map of {name!r} names {unknown[:64]!r}, which {by!r} cannot be.",
            "Name values that the column declares, spelled as there.",
        )
    lacking = [key for key in known if key not in given]
    if lacking:
        raise SchemaError(
            f"The map of {name!r} has no value for {by!r} = {lacking[0]!r}.",
            "Give one for every value of the column, also for the one that gaps count as.",
        )
    return MappingProxyType({key: _checked_value(name, column, given[key]) for key in known})


def _key(key: object) -> str:
    if isinstance(key, str):
        return composed(key)
    if isinstance(key, Real) and not isinstance(key, Integral | bool) and float(key).is_integer():
        return str(int(float(key)))
    return level_text(level_and_kind(key, "maps")[0])


def _checked_value(name: str, column: Column, value: object) -> Level | float:
    if not isinstance(column, Number):
        level = level_and_kind(value, "maps")[0]
        _level_code(name, column, level)
        return level
    if value == MISSING and column.has_indicator:
        return MISSING
    number = finite_number(value, "maps")
    if not column.low <= number <= column.high or (column.whole and not number.is_integer()):
        raise SchemaError(
            f"The map of {name!r} has a number that the column cannot be.",
            "Give numbers within its bounds, whole ones where it is whole.",
        )
    return number


def checked_combinations(
    columns: Mapping[str, Column], maps: Mapping[str, Map], impossible: object
) -> tuple[Combination, ...]:
    """Combinations in plain types. Raise SchemaError where one is not of values of two or more declared columns."""
    if isinstance(impossible, str | Mapping) or not isinstance(impossible, Iterable):
        raise SchemaError("`impossible` is not a list.", "Write sections [[impossible]], each with values of columns.")
    return tuple(_checked_combination(columns, maps, each) for each in impossible)


def _checked_combination(columns: Mapping[str, Column], maps: Mapping[str, Map], combination: object) -> Combination:
    if not isinstance(combination, Mapping) or len(combination) < 2:
        raise SchemaError(
            "`impossible` has an entry that is not of two columns or more.",
            'Give a value for each, such as {sex = "male", relationship = "wife"}; what one column cannot be is not declared in it.',
        )
    named = {column_name(name): values for name, values in combination.items()}
    for name in named:
        if name not in columns or isinstance(columns[name], Date):
            raise SchemaError(
                f"`impossible` names {name!r}, which is not a declared number or category.",
                "Name declared columns that are not dates.",
            )
    # In the order of the columns, which every way of writing keeps.
    ordered = [name for name in columns if name in named]
    for name in ordered:
        by = determining(columns[name])
        if by is not None and name not in maps:
            raise SchemaError(
                f"`impossible` names {name!r}, which {by!r} determines in a way that is not declared.",
                f"Declare it in [maps.{name}], or name {by!r} instead.",
            )
    return MappingProxyType(
        {name: _checked_values(name, columns[name], named[name], maps.get(name)) for name in ordered}
    )


def _checked_values(
    name: str, column: Column, values: object, declared: Map | None
) -> tuple[Level | float | Span, ...]:
    single = isinstance(values, str | Mapping | Span) or not isinstance(values, Iterable)
    each: Any = [values] if single else values
    found = tuple(_checked_entry(column, value) for value in each)
    if not found:
        raise SchemaError(f"`impossible` has an empty list for {name!r}.", "Give values, or leave the column out.")
    if declared is None or not isinstance(column, Number):
        cells_of(name, column, found)
    elif not all(isinstance(value, Span) or value in declared.values() for value in found):
        raise SchemaError(
            f"`impossible` names a number in column {name!r} that its map does not have.",
            "Name numbers of the map, or {low = …, below = …}.",
        )
    return found


def _checked_entry(column: Column, value: object) -> Level | float | Span:
    if not isinstance(column, Number):
        return level_and_kind(value, "impossible")[0]
    if isinstance(value, Span) or value == MISSING:
        return value
    if isinstance(value, Mapping):
        known = [field.name for field in fields(Span)]
        if not {*value} <= {*known}:
            raise SchemaError("A span of numbers has other keys than low and below.", "Give {low = …, below = …}.")
        return Span(**value)
    return finite_number(value, "impossible")


def plain_combination(combination: Combination) -> dict[str, list[Any]]:
    """A combination as files hold it."""
    return {name: [_plain(value) for value in values] for name, values in combination.items()}


def plain_map(values: Map) -> dict[str, Any]:
    """A map as files hold it."""
    return {text: _plain(value) for text, value in values.items()}


def _plain(value: Level | float | Span) -> Any:
    if isinstance(value, Span):
        found = {field.name: getattr(value, field.name) for field in fields(Span)}
        return {fact: plain_number(number) for fact, number in found.items() if number is not None}
    return plain_number(value) if isinstance(value, float) else value

"""The groups of a table, and exact counts, sums and sums of squares of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.database_sums import SummedColumn, database_sums
from sudare.schema import Column, Number, Schema
from sudare.schema.blockwise_encoding import EncodedColumn
from sudare.schema.column_values import declared_numbers
from sudare.schema.encoder import level_positions
from sudare.schema.table_from_any_frame import as_table
from sudare.schema.toml_document import suggestion
from sudare.statistics.histogram import group_levels
from sudare.statistics.key_selection import Keys

# Values are rounded to this share of half their range. It is the same for every table: under add/remove nothing may depend on the number of rows.
STEP: Final = 2.0**-20


@dataclass(frozen=True)
class Groups:
    """The groups: for each axis the names of its columns, and their values in the order of their codes.

    An axis is a declared column, or the first one all columns that nobody declared: of these there are no combinations that were not selected.
    """

    axes: tuple[tuple[str, ...], ...]
    levels: tuple[tuple[tuple[Any, ...], ...], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Column], keys: Keys | None = None) -> Groups:
        """The groups that declared columns make: every combination of their values, whether it occurs or not."""
        axes = tuple((name,) for name in columns)
        levels = tuple(tuple((value,) for value in group_levels(column)) for column in columns.values())
        return cls(axes, levels) if keys is None else cls((keys.columns, *axes), (keys.levels, *levels))

    @property
    def columns(self) -> tuple[str, ...]:
        """All their columns."""
        return tuple(name for names in self.axes for name in names)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups there are along each axis."""
        return tuple(map(len, self.levels))

    def along(self, names: Sequence[str]) -> Groups:
        """The groups by these columns only. Raise InvalidParameter unless they are all columns of some axes."""
        kept = [place for place, axis in enumerate(self.axes) if set(axis) <= set(names)]
        axes = tuple(self.axes[place] for place in kept)
        if sorted(name for axis in axes for name in axis) != sorted(names):
            unknown = next((name for name in names if name not in self.columns), "")
            raise InvalidParameter(
                f"`by` is not some of the columns that the table is grouped by.{suggestion(unknown, self.columns)}",
                f"These are: {', '.join(map(repr, self.columns))}. Leave it out for all.",
            )
        return Groups(axes, tuple(self.levels[place] for place in kept))

    def labels(self) -> dict[str, list[Any]]:
        """The values of every cell, by column, in the order of the cells."""
        places = np.indices(self.shape).reshape(len(self.shape), -1)
        return {
            name: [values[place][position] for place in column]
            for names, values, column in zip(self.axes, self.levels, places, strict=True)
            for position, name in enumerate(names)
        }


@dataclass(frozen=True, eq=False, repr=False)
class GroupSums:
    """Counts of all groups and, below them, sums and sums of squares as whole numbers of steps; how many values were clipped is for the owner only."""

    steps: Floats
    rows: int
    clipped: Mapping[str, int]

    def __add__(self, other: GroupSums) -> GroupSums:
        """Those of both tables together."""
        clipped = {name: count + other.clipped[name] for name, count in self.clipped.items()}
        return GroupSums(self.steps + other.steps, self.rows + other.rows, clipped)


def group_sums(
    declared: Schema, groups: Groups, summed: Sequence[str], squared: Sequence[str], table: Any
) -> GroupSums:
    """What a table adds to counts, sums and sums of squares of declared groups, without arrays of all its values; all of them are checked."""
    named = as_table(table, list(declared.columns))
    cells, places = math.prod(groups.shape), np.zeros(len(named), dtype=np.int64)
    for name, size in zip(groups.columns, groups.shape, strict=True):
        places *= size
        places += level_positions(named.column(name), declared.columns[name], name)
    steps, clipped = np.zeros((1 + len(summed) + len(squared), cells)), dict.fromkeys(summed, 0)
    steps[0] = np.bincount(places, minlength=cells)
    for place, (name, number) in enumerate(numbers_among(declared, summed).items(), start=1):
        # Twice (value − low)/(high − low), in steps; less one it lies in [−1, 1].
        column = EncodedColumn(name, number, "scaled", unit=STEP / 2)
        start = 0
        for block, outside in column.blocks(declared_numbers(named.column(name), number, name)):
            group = places[start : start + len(block)]
            start, clipped[name] = start + len(block), clipped[name] + outside
            np.subtract(block, 1 / STEP, out=block)
            if name in squared:
                squares = np.rint((2 * (block * STEP) ** 2 - 1) / STEP)
                row = 1 + len(summed) + squared.index(name)
                steps[row] += np.bincount(group, weights=squares, minlength=cells)
            steps[place] += np.bincount(group, weights=np.rint(block, out=block), minlength=cells)
    return GroupSums(steps, len(named), clipped)


def database_group_sums(
    data: object, declared: Schema, groups: Groups, summed: Sequence[str], squared: Sequence[str]
) -> GroupSums | None:
    """Returns the group sums, added up by the database that the data are in; None where its rows have to be read."""
    numbers = numbers_among(declared, summed)
    columns = [SummedColumn(name, number, STEP / 2, 1 / STEP) for name, number in numbers.items()]
    columns += [SummedColumn(name, numbers[name], STEP / 2, 1 / STEP, STEP) for name in squared]
    found = database_sums(data, declared, groups.columns, columns)
    if found is None:
        return None
    return GroupSums(np.vstack([found.counts, found.sums]).astype(np.float64), found.rows, found.outside)


def group_sums_of_codes(
    groups: int,
    declared: int,
    summed: int,
    squared: Sequence[int],
    sizes: Sequence[int],
    places: NDArray[np.int64] | None,
    codes_: NDArray[np.int64],
    values: Floats,
    cells: NDArray[np.int64],
    keys: NDArray[np.int64],
) -> Floats:
    """Counts of all groups, then sums and sums of squares as whole numbers of steps, then counts of the cells of quantiles, one after the other."""
    group = codes_ if places is None else places[np.minimum(keys, len(places) - 1)] * declared + codes_
    numbers = [values[:, place] for place in range(summed)] + [2 * values[:, place] ** 2 - 1 for place in squared]
    found: list[NDArray[Any]] = [np.bincount(group, minlength=groups).astype(np.float64)]
    found += [np.bincount(group, weights=np.rint(column / STEP), minlength=groups) for column in numbers]
    found += [
        np.bincount(group * size + column, minlength=groups * size).astype(np.float64)
        for column, size in zip(cells.T, sizes, strict=True)
    ]
    return np.asarray(np.concatenate(found), dtype=np.float64)


def centred(within: Floats, number: Number) -> Floats:
    """Numbers within their bounds as (value − centre)/(half the range), within [−1, 1]."""
    return np.clip(2 * ((within - number.low) / (number.high - number.low)) - 1, -1.0, 1.0)


def numbers_among(schema: Schema, names: Sequence[str]) -> dict[str, Number]:
    """The number columns of these names. Raise InvalidParameter where one is no number."""
    found = {name: column for name in names if isinstance(column := schema.columns[name], Number)}
    if len(found) != len(names):
        raise InvalidParameter(
            "`mean_of`, `variance_of` or `quantile_of` names a column that is no number.", "Put it into `by`."
        )
    return found

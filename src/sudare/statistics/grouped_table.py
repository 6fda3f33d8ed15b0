"""Private counts, sums and means by declared groups, with intervals for every cell. Proof: proofs/statistics.md."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows, checked_rows
from sudare.privacy.column_sums import l1_sensitivity, l2_sensitivity
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours, checked_delta, checked_epsilon
from sudare.privacy.ledger import Account
from sudare.privacy.mechanisms import Gaussian, Laplace
from sudare.privacy.private_estimator import Plan, PrivateEstimator, TensorRule, check_shapes, check_within
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Category, Column, Label, Number, Schema
from sudare.schema.column_values import clipped_numbers, codes
from sudare.schema.encoder import bin_positions
from sudare.schema.frame_conversion import as_table
from sudare.statistics.histogram import LARGEST_COUNT, group_levels
from sudare.statistics.noise_intervals import (
    DEFAULT_LEVEL,
    checked_level,
    gaussian_quantile,
    laplace_quantile,
    ratio_interval,
)

Floats = NDArray[np.float64]

MOST_CELLS: Final = 2**20
# Values are rounded to this share of half their range. It is the same for every table: under add/remove nothing may depend on the number of rows.
STEP: Final = 2.0**-20
# So many values of at most one are added exactly.
MOST_ROWS: Final = 2**32


@functools.lru_cache(maxsize=64)
def grouped_mechanism(
    means: int, neighbours: Neighbours, unit_rows: int, dimension: int, epsilon: float, delta: float
) -> Laplace | Gaussian:
    """Noise for counts of cells and for sums of so many columns in [−1, 1] in each cell.

    A replaced row takes (1, z) from one cell and gives (1, w) to another, or changes z to w in its own; an added one gives (1, z) to one.
    """
    if neighbours == "replace-one":
        l1, squared = Fraction(2 + 2 * means), Fraction(max(2 + 2 * means, 4 * means))
    else:
        l1 = squared = Fraction(1 + means)
    if delta > 0:
        return Gaussian(l2_sensitivity(squared, 1, unit_rows), epsilon, delta, dimension, integer_grid=STEP)
    return Laplace(l1_sensitivity(l1, 1, unit_rows), epsilon, dimension, integer_grid=STEP)


@dataclass(frozen=True)
class Groups:
    """The declared groups: columns, and the values of each in the order of their codes."""

    columns: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> Groups:
        """The groups that declared columns make: every combination of their values, whether it occurs or not."""
        return cls(tuple(columns), tuple(map(group_levels, columns.values())))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(map(len, self.levels))

    def labels(self) -> dict[str, list[Any]]:
        """The values of every cell, by column, in the order of the cells."""
        places = np.indices(self.shape).reshape(len(self.shape), -1)
        return {
            name: [values[place] for place in column]
            for name, values, column in zip(self.columns, self.levels, places, strict=True)
        }


def group_codes(values: Any, column: Column, name: str) -> NDArray[np.int64]:
    """The position of each row's value among `group_levels`."""
    if isinstance(column, Number):
        within, missing, _ = clipped_numbers(values, column, name)
        return bin_positions(within, missing, column)
    return codes(values, column, name)


@dataclass(eq=False, repr=False)
class GroupedTable(PrivateEstimator):
    """ε-DP or (ε, δ)-DP counts, sums and means by group, replace-one or add/remove rows. Proof: proofs/statistics.md.

    All cells come from one charge. Groups are all combinations of declared values: none is lost, and none shows by being there. Totals over groups are
    sums of cells, so that tables agree with each other.

    Parameters
    ----------
    epsilon, delta, account, random_state, cluster : as in PrivateMean.
    schema : the declared columns.
    by : names of the columns to group by: categories, labels, or numbers by their public bins.
    mean_of : names of number columns whose sums and means are wanted; none by default.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).

    Attributes
    ----------
    counts_ : noisy whole counts, an array with one axis for each column of `by`.
    sums_ : by column of `mean_of`, noisy sums of (value − centre)/(half the range), with the same axes.
    noise_scale_ : scale of the noise on a count; it survives `Release.load`.
    """

    encoding = "binned"
    numbers_only: ClassVar[bool] = False
    relations: ClassVar[tuple[Neighbours, ...]] = NEIGHBOURS
    extra_parameters: ClassVar[tuple[str, ...]] = ("by", "mean_of")
    bounds: ClassVar[None] = None  # type: ignore[misc]

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    schema: Schema | None = None
    by: Sequence[str] = ()
    mean_of: Sequence[str] = ()
    neighbours: Neighbours = "replace-one"
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    # Checks and declared columns

    def _declare(self, X: object, table: Any) -> None:
        self._keep(self._grouped(self.schema), self.schema.digest if self.schema is not None else None)
        self.declared_.check_person(X)

    def _grouped(self, schema: Schema | None) -> Schema:
        """The columns to group by, then those whose means are wanted."""
        if schema is None:
            raise InvalidParameter(
                "GroupedTable needs a schema that declares the groups.", "Give schema=Schema.load(…)."
            )
        by, mean_of = _names(self.by, "by"), _names(self.mean_of, "mean_of")
        if not by:
            raise InvalidParameter("`by` names no column to group by.", 'Give for example by=["sex"].')
        if len({*by, *mean_of}) != len(by) + len(mean_of):
            raise InvalidParameter("A column is named twice in `by` and `mean_of`.", "Name each once.")
        unknown = next((name for name in (*by, *mean_of) if name not in schema.columns), None)
        if unknown is not None:
            raise InvalidParameter(
                f"`{'by' if unknown in by else 'mean_of'}` names {unknown[:64]!r}, which the schema lacks.",
                f"It has: {', '.join(schema.columns)}.",
            )
        made = {"count", *(f"mean_{name}" for name in mean_of)}
        clashing = next((name for name in by if name.removesuffix("_low").removesuffix("_high") in made), None)
        if clashing is not None:
            raise InvalidParameter(
                f"Column {clashing!r} is grouped by, and a column of the table is called so.", "Rename the column."
            )
        numbers = numbers_among(schema, mean_of)
        if math.prod(Groups.of({name: schema.columns[name] for name in by}).shape) * (1 + len(mean_of)) > MOST_CELLS:
            raise InvalidParameter(f"The table has more than {MOST_CELLS:,} cells.", "Group by fewer columns.")
        columns = {name: as_feature(schema.columns[name]) for name in by}
        return Schema({**columns, **{name: with_centre(number) for name, number in numbers.items()}}, schema.person)

    @property
    def groups_(self) -> Groups:
        """The groups, in the order of the axes of `counts_`."""
        return Groups.of({name: self.declared_.columns[name] for name in _names(self.by, "by")})

    # Plan

    def plan(self, rows: int, declared: Schema) -> Plan[Laplace | Gaussian]:
        """A unit's rows move counts and sums by what `grouped_mechanism` says; the number of rows does not matter."""
        return Plan(self._mechanism(declared), self._guarantee(declared))

    def _mechanism(self, declared: Schema) -> Laplace | Gaussian:
        means = len(_names(self.mean_of, "mean_of"))
        cells = math.prod(Groups.of({name: declared.columns[name] for name in _names(self.by, "by")}).shape)
        epsilon, delta = checked_epsilon(self.epsilon), checked_delta(self.delta)
        return grouped_mechanism(means, self.neighbours, rows_per_unit(declared), cells * (1 + means), epsilon, delta)

    def _plan_for(self, X: Any, y: Any) -> Plan[Laplace | Gaussian]:
        return self.plan(self._rows(X).count, self.declared_)

    def declared_promise(self, rows: Callable[[], int]) -> Any:
        """What a fit promises and is charged for: from declared facts, without records."""
        self._check_parameters()
        return self._guarantee(self._grouped(self.schema))

    # Charge, noise, release

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy table. Rows may come from any source that `sudare.frames.batches` takes; they are never held together."""
        rows = self._rows(X)
        plan = self.plan(rows.count, self.declared_)
        exact = self._exact(rows)
        passage = self._enter(plan)
        noisy = plan.mechanism.apply(exact.ravel(), passage.noise).reshape(exact.shape)
        self.n_rows_ = rows.count if self.neighbours == "replace-one" else None
        counts = np.clip(np.rint(noisy[0]), -LARGEST_COUNT, LARGEST_COUNT).astype(np.int64)
        self._set(counts, np.clip(noisy[1:], -MOST_ROWS, MOST_ROWS))
        self._seal()
        return self

    def _rows(self, X: object) -> Rows:
        """Codes of cells and values in [−1, 1], all checked."""
        self._forget()
        self._check_parameters()
        self._keep_source(X)
        self._declare(X, None)
        declared, groups = self.declared_, self.groups_
        means = numbers_among(declared, _names(self.mean_of, "mean_of"))

        clipped, is_checked = dict.fromkeys(means, 0), False

        def arrays_of(table: Any) -> tuple[NDArray[Any], ...]:
            named = as_table(table, list(declared.columns))
            places = [group_codes(named.column(name), declared.columns[name], name) for name in groups.columns]
            values = []
            for name, number in means.items():
                within, outside = centred(named.column(name), number, name)
                values.append(within)
                if not is_checked:
                    clipped[name] += outside
            cells = np.ravel_multi_index(tuple(places), groups.shape) if len(places[0]) else np.empty(0, np.int64)
            return cells, np.stack(values, axis=1) if values else np.empty((len(cells), 0))

        rows = checked_rows(X, arrays_of, declared)
        # Sources that are read again at a later pass are not counted again.
        self.clipped_, is_checked = clipped, True
        if rows.count > MOST_ROWS:
            raise InvalidParameter(f"The table has more than {MOST_ROWS:,} rows.", "Fit it in parts.")
        return rows

    def _exact(self, rows: Rows) -> Floats:
        """Counts of all cells, and below them the sums of every column, as whole numbers of steps."""
        cells = math.prod(self.groups_.shape)
        exact = np.zeros((1 + len(_names(self.mean_of, "mean_of")), cells))
        for codes_, values in rows.counted_parts():
            exact[0] += np.bincount(codes_, minlength=cells)
            for place, column in enumerate(values.T, start=1):
                exact[place] += np.bincount(codes_, weights=np.rint(column / STEP), minlength=cells)
        exact[1:] *= STEP
        return exact

    def _set(self, counts: NDArray[np.int64], sums: Floats) -> None:
        shape = self.groups_.shape
        self.counts_ = counts.reshape(shape)
        self.sums_ = {name: sums[place].reshape(shape) for place, name in enumerate(_names(self.mean_of, "mean_of"))}
        self.noise_scale_ = self._mechanism(self.declared_).noise_scale

    # What is read off the noisy table: post-processing

    def table(self, by: Sequence[str] | None = None, level: float = DEFAULT_LEVEL) -> dict[str, list[Any]]:
        """Counts and means with intervals, as columns that pandas, polars and pyarrow take; over some columns of `by` if given.

        `count_low` to `count_high` holds the exact count with the given probability, and likewise each mean of the table's records; a mean of whose
        group too little is known has its declared bounds as interval. Counts of fewer columns are sums of those of more.
        """
        level = checked_level(level)
        kept = _names(self.by if by is None else by, "by")
        if not set(kept) <= set(self.groups_.columns) or len(set(kept)) != len(kept):
            raise InvalidParameter(
                "`by` is not some of the columns that the table is grouped by.", "Leave it out for all."
            )
        added = tuple(axis for axis, name in enumerate(self.groups_.columns) if name not in kept)
        cells = math.prod(self.groups_.shape[axis] for axis in added)
        quantile = gaussian_quantile if self.delta > 0 else laplace_quantile
        scale, widths = self.noise_scale_, functools.partial(quantile, cells=cells, level=level)
        counts = self.counts_.sum(axis=added, dtype=np.int64).astype(np.float64).ravel()
        margin = scale * float(widths(np.zeros(1))[0])
        groups = Groups.of({name: self.declared_.columns[name] for name in self.groups_.columns if name in kept})
        found: dict[str, list[Any]] = {**(groups.labels() if kept else {}), "count": counts.astype(np.int64).tolist()}
        found["count_low"] = np.maximum(np.floor(counts - margin), 0).astype(np.int64).tolist()
        found["count_high"] = np.maximum(np.ceil(counts + margin), 0).astype(np.int64).tolist()
        for name, number in numbers_among(self.declared_, list(self.sums_)).items():
            centre, half = (number.low + number.high) / 2, (number.high - number.low) / 2
            total = self.sums_[name].sum(axis=added).ravel()
            mean = np.clip(total / np.maximum(counts, 1.0), -1.0, 1.0)
            low, high = ratio_interval(total, counts, widths, scale)
            found[f"mean_{name}"] = (centre + half * mean).tolist()
            found[f"mean_{name}_low"] = (centre + half * low).tolist()
            found[f"mean_{name}_high"] = (centre + half * high).tolist()
        return found

    # What is released, and how it is read back

    def release_content(self) -> Content:
        """What is released: counts and sums."""
        tensors: dict[str, NDArray[Any]] = {"counts": self.counts_.ravel()}
        grids: dict[str, float | None] = {"counts": None}
        if self.sums_:
            tensors["sums"] = np.concatenate([sums.ravel() for sums in self.sums_.values()])
            grids["sums"] = STEP
        extra = {"by": list(_names(self.by, "by")), "mean_of": list(_names(self.mean_of, "mean_of"))}
        return self._content(tensors, grids, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one count and one sum for each cell, no larger than noise can make them."""
        cells, means = math.prod(self.groups_.shape), len(_names(self.mean_of, "mean_of"))
        rules = {"counts": TensorRule(cells, np.int64)}
        if means:
            rules["sums"] = TensorRule(cells * means, np.float64)
        check_shapes(content, rules)
        check_within(content.tensors["counts"], -LARGEST_COUNT, LARGEST_COUNT)
        if means:
            check_within(content.tensors["sums"], -float(MOST_ROWS), float(MOST_ROWS))
            if content.grid("sums") != STEP:
                raise unfit("its sums are on another grid")

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        by, mean_of, declared = parameters["by"], parameters["mean_of"], self.schema
        if (
            type(by) is not list
            or type(mean_of) is not list
            or declared is None
            or [*by, *mean_of] != list(declared.columns)
        ):
            raise unfit("its columns are not those of its learner")
        self.by, self.mean_of, self.neighbours = by, mean_of, parameters["neighbours"]
        if self._grouped(declared) != declared:
            raise unfit("its columns are not those of its learner")

    def _take(self, content: Content) -> None:
        means = len(_names(self.mean_of, "mean_of"))
        sums = content.tensors["sums"].reshape(means, -1) if means else np.empty((0, content.tensors["counts"].size))
        self._set(content.tensors["counts"], sums)


def as_feature(column: Column) -> Column:
    """A column to group by; a label is counted like any category."""
    return Category(column.classes, column.missing) if isinstance(column, Label) else column


def numbers_among(schema: Schema, names: Sequence[str]) -> dict[str, Number]:
    """The number columns of these names. Raise InvalidParameter where one is no number."""
    found = {name: column for name in names if isinstance(column := schema.columns[name], Number)}
    if len(found) != len(names):
        raise InvalidParameter("`mean_of` names a column that is no number.", "Put it into `by`.")
    return found


def with_centre(column: Number) -> Number:
    """A number column in which a missing value stands at its centre, where one may be missing."""
    return column.with_plain_stand_in()


def centred(values: Any, number: Number, name: str) -> tuple[Floats, int]:
    """Numbers as (value − centre)/(half the range), within [−1, 1], and how many lay outside of the bounds (for the owner only)."""
    within, _, outside = clipped_numbers(values, number, name)
    scaled = np.clip(2 * ((within - number.low) / (number.high - number.low)) - 1, -1.0, 1.0)
    return scaled, outside


def _names(given: object, what: str) -> tuple[str, ...]:
    """Names of columns. Raise InvalidParameter unless they are a list of texts."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InvalidParameter(f"`{what}` is not a list of names.", f'Give for example {what}=["age"].')
    return tuple(given)

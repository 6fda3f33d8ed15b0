"""Private counts, sums, means, variances and quantiles by group, with intervals for every cell. Proofs: proofs/statistics.md, proofs/quantiles.md."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.errors import InvalidParameter, SchemaError
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Rows, Tallied
from sudare.frames.table_sums import total_over_tables
from sudare.privacy.accounting import decimal_down, exact
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours, checked_delta
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import SMALLEST_RANGE, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, check_within, on_grid, unfit
from sudare.schema import Category, Column, Date, Label, Number, Schema
from sudare.schema.column_values import clipped_numbers
from sudare.schema.encoder import level_positions
from sudare.schema.table_from_any_frame import as_table, no_rows
from sudare.schema.toml_document import suggestion
from sudare.statistics.exact_group_sums import (
    STEP,
    Groups,
    GroupSums,
    centred,
    database_group_sums,
    group_sums,
    group_sums_of_codes,
    numbers_among,
)
from sudare.statistics.grouped_noise import Moments, TableNoise, grouped_mechanism
from sudare.statistics.histogram import LARGEST_COUNT, values_shown
from sudare.statistics.joint_quantiles import Cells, JointQuantiles, checked_quantiles
from sudare.statistics.key_selection import MOST_KEYS, KeyCodes, Keys, KeySelection
from sudare.statistics.noise_intervals import (
    DEFAULT_LEVEL,
    checked_level,
    count_interval,
    cube_quantile,
    gaussian_quantile,
    laplace_quantile,
    ratio_interval,
    variance_interval,
)
from sudare.statistics.quantiles import LEVEL, MEDIAN, check_cells

MOST_CELLS: Final = 2**20
# So many values of at most one are added exactly.
MOST_ROWS: Final = 2**32
# Sums over so many rows, and squares of the range, are floats within these bounds.
LARGEST_REACH: Final = 2.0**500
# Of ε, where groups are not declared.
KEY_SHARE: Final = Fraction(1, 4)
_OF_NUMBERS: Final = ("mean_of", "variance_of", "quantile_of")


@dataclass(eq=False, repr=False)
class GroupedTable(PrivateEstimator):
    """ε-DP or (ε, δ)-DP counts, sums, means, variances and quantiles by group, replace-one or add/remove rows.

    Proofs: proofs/statistics.md, proofs/quantiles.md, proofs/key_selection.md. All cells come from one charge. Groups are all combinations of declared
    values: none is lost, and none shows by being there. Totals over groups are sums of cells, so that tables agree with each other.

    Parameters
    ----------
    epsilon, delta, account, random_state, cluster : as in PrivateMean.
    schema : the declared columns.
    by : names of the columns to group by: categories, labels, or numbers by their public bins.
    keys : names of columns to group by whose values nobody declared; they must not be in the schema. Values that enough rows have are found with δ > 0, which is
        needed; all other rows are in a group whose key is None.
    mean_of : names of number columns whose sums and means are wanted; none by default.
    variance_of : names of number columns whose variances are wanted, and means with them.
    quantile_of, quantiles : names of number columns, and which quantiles of each are wanted: the median unless told otherwise.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).

    Attributes
    ----------
    counts_ : noisy whole counts, an array with one axis for each column of `by`; before them one for all `keys`.
    sums_ : by column of `mean_of` and `variance_of`, noisy sums of z = (value − centre)/(half the range), with the same axes.
    squares_ : by column of `variance_of`, noisy sums of 2z² − 1.
    keys_ : the values of `keys` that were found, None where there are no `keys`.
    noise_scale_ : scale of the noise on a count; it survives `Release.load`.
    """

    encoding = "binned"
    numbers_only: ClassVar[bool] = False
    relations: ClassVar[tuple[Neighbours, ...]] = NEIGHBOURS
    releases_sums: ClassVar[bool] = True
    extra_parameters: ClassVar[tuple[str, ...]] = (
        "by", "keys", "mean_of", "variance_of", "quantile_of", "quantiles", "found",
    )  # fmt: skip
    bounds: ClassVar[None] = None  # type: ignore[misc]

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    schema: Schema | None = None
    by: Sequence[str] = ()
    keys: Sequence[str] = ()
    mean_of: Sequence[str] = ()
    variance_of: Sequence[str] = ()
    quantile_of: Sequence[str] = ()
    quantiles: Sequence[float] = MEDIAN
    neighbours: Neighbours = "replace-one"
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    keys_ = None

    # Checks and declared columns

    def _check_parameters(self) -> None:
        """Also which columns are named, before the rows of persons are counted: what is refused must not depend on whether somebody has more than are kept."""
        super()._check_parameters()
        if self.schema is not None:
            self._columns_of(self.schema)

    def _declare(self, X: object, table: Any) -> None:
        self._keep(self._columns_of(self.schema), self.schema.digest if self.schema is not None else None)

    def _summed(self) -> tuple[str, ...]:
        """Columns that are added up: those whose means are wanted, then those of variances alone."""
        return tuple(dict.fromkeys((*_names(self.mean_of, "mean_of"), *_names(self.variance_of, "variance_of"))))

    def _numbers_wanted(self) -> tuple[str, ...]:
        """Columns of which numbers are wanted."""
        return tuple(dict.fromkeys((*self._summed(), *_names(self.quantile_of, "quantile_of"))))

    def _sums_in_a_cell(self) -> int:
        return len(self._summed()) + len(_names(self.variance_of, "variance_of"))

    def _columns_of(self, schema: Schema | None) -> Schema:
        """The columns to group by, then those of which numbers are wanted."""
        if schema is None:
            raise InvalidParameter(
                "GroupedTable needs a schema that declares the groups.", "Give schema=Schema.load(…)."
            )
        by, keys, wanted = _names(self.by, "by"), _names(self.keys, "keys"), self._numbers_wanted()
        checked_quantiles(self.quantiles)
        if not by and not keys:
            raise InvalidParameter("`by` names no column to group by.", 'Give for example by=["sex"].')
        for what in ("by", "keys", "mean_of", "variance_of", "quantile_of"):
            if len(set(getattr(self, what))) != len(getattr(self, what)):
                raise InvalidParameter(f"A column is named twice in `{what}`.", "Name each once.")
        for one, other in (("by", "keys"), *((how, of) for how in ("by", "keys") for of in _OF_NUMBERS)):
            column = next((name for name in getattr(self, one) if name in getattr(self, other)), None)
            if column is not None:
                raise InvalidParameter(
                    f"Column {column!r} is named in `{one}` and in `{other}`.", "Name it in one of them."
                )
        unknown = next((name for name in (*by, *wanted) if name not in schema.columns), None)
        if unknown is not None:
            raise self._not_declared(unknown, schema)
        self._check_keys(keys, schema)
        made = {column.removesuffix("_low").removesuffix("_high") for column in self._made_columns()}
        clashing = next(
            (name for name in (*by, *keys) if name.removesuffix("_low").removesuffix("_high") in made), None
        )
        if clashing is not None:
            raise InvalidParameter(
                f"Column {clashing!r} is grouped by, and a column of the table is called so.", "Rename the column."
            )
        numbers = numbers_among(schema, wanted)
        self._check_widths(numbers)
        if self._declared_cells(schema) * (2 if keys else 1) > MOST_CELLS:
            raise InvalidParameter(f"The table has more than {MOST_CELLS:,} cells.", "Group by fewer columns.")
        columns = {name: as_feature(schema.columns[name]) for name in by}
        return Schema(
            {**columns, **{name: number.with_plain_stand_in() for name, number in numbers.items()}}, schema.person
        )

    def _check_widths(self, numbers: Mapping[str, Number]) -> None:
        """Raise before anything is charged where no float holds the sums of a column, or half of its range."""
        for name in self._summed():
            if _reach(numbers[name]) > LARGEST_REACH:
                raise InvalidParameter(
                    f"The bounds of column {name[:64]!r} are beyond 2⁵⁰⁰: no float holds its sums and variances.",
                    "Use another unit.",
                )
            if numbers[name].high - numbers[name].low < SMALLEST_RANGE:
                raise SchemaError(f"The range of column {name[:64]!r} is below 2⁻⁹⁰⁰.", "Use another unit.")

    def _columns_beside(self) -> tuple[str, ...]:
        return tuple(self.keys)

    def _not_declared(self, unknown: str, schema: Schema) -> InvalidParameter:
        """Why a column that somebody named cannot be used."""
        place = next(what for what in ("by", "mean_of", "variance_of", "quantile_of") if unknown in getattr(self, what))
        if schema.person is not None and unknown == schema.person.column:
            return InvalidParameter(
                f"`{place}` names {unknown[:64]!r}, which says whose row it is.", "Name columns about persons."
            )
        return InvalidParameter(
            f"`{place}` names {unknown[:64]!r}, which the schema lacks.{suggestion(unknown, schema.columns)}",
            f"It has: {', '.join(map(repr, schema.columns))}.",
        )

    def _check_keys(self, keys: tuple[str, ...], schema: Schema) -> None:
        if not keys:
            return
        if self.delta == 0:
            raise InvalidParameter("Groups that nobody declared need delta > 0.", "Give for example delta=1e-6.")
        declared = next((name for name in keys if name in schema.columns), None)
        if declared is not None:
            raise InvalidParameter(f"`keys` names {declared[:64]!r}, which the schema declares.", "Put it into `by`.")
        dropped = next((name for name in keys if name in schema.drop), None)
        if dropped is not None:
            raise InvalidParameter(
                f"`keys` names {dropped[:64]!r}, which the schema leaves out (drop). Nothing was charged.",
                "Values of such a column never leave: take it out of `drop` if they may, or group by another one.",
            )
        if not self.by and not self._numbers_wanted():
            raise InvalidParameter(
                "A table by `keys` alone needs a declared column beside them.", "Name one in `by` or `mean_of`."
            )
        if schema.person is not None and schema.person.column in keys:
            raise InvalidParameter("`keys` names the column that says whose row it is.", "Leave it out.")

    def _made_columns(self) -> list[str]:
        """Names of the columns of numbers that a table has, without the ends of intervals."""
        return [
            "count",
            *(f"mean_{name}" for name in self._summed()),
            *(f"sum_{name}" for name in self.mean_of),
            *(f"variance_{name}" for name in self.variance_of),
            *(
                quantile_name(quantile, name)
                for name in self.quantile_of
                for quantile in checked_quantiles(self.quantiles)
            ),
        ]

    @property
    def groups_(self) -> Groups:
        """The groups, in the order of the axes of `counts_`."""
        return self._declared_groups(self.declared_, getattr(self, "keys_", None))

    def _declared_groups(self, declared: Schema, keys: Keys | None = None) -> Groups:
        return Groups.of({name: declared.columns[name] for name in _names(self.by, "by")}, keys)

    # Plan

    def plan(self, rows: int, declared: Schema) -> Plan[Moments | TableNoise]:
        """A unit's rows move counts and sums by what `grouped_mechanism` says; the number of rows does not matter."""
        return Plan(self._mechanism(declared), self._guarantee(declared))

    def _mechanism(self, declared: Schema) -> Moments | TableNoise:
        sums, unit_rows = self._sums_in_a_cell(), rows_per_unit(declared)
        cells = math.prod(self._declared_groups(declared).shape)
        epsilon, delta = self._values_epsilon(declared), checked_delta(self.delta)
        has_quantiles, has_keys = len(self.quantile_of) > 0, len(self.keys) > 0
        of_keys = decimal_down(exact(epsilon) * KEY_SHARE) if has_keys else 0.0
        # Every number of a cell has the same share of what is left.
        numbers, left = len(self.quantile_of) * len(checked_quantiles(self.quantiles)), exact(epsilon) - exact(of_keys)
        of_quantiles = decimal_down(left * Fraction(numbers, numbers + 1 + sums)) if has_quantiles else 0.0
        of_moments = decimal_down(left - exact(of_quantiles))
        moments = grouped_mechanism(
            sums, self.neighbours, unit_rows, cells * (1 + sums), of_moments, 0.0 if has_keys else delta
        )
        if not has_quantiles and not has_keys:
            return moments
        quantiles = JointQuantiles(
            checked_quantiles(self.quantiles), len(self.quantile_of), of_quantiles, self.neighbours, unit_rows, True, LEVEL
        )  # fmt: skip
        keys = KeySelection(of_keys, delta, self.neighbours, unit_rows) if has_keys else None
        return TableNoise(moments, quantiles if has_quantiles else None, keys, epsilon, delta)

    def _released_sums(self, declared: Schema) -> int:
        return self._declared_cells(declared)

    def _declared_cells(self, declared: Schema) -> int:
        """Counts and sums of all declared groups; with `keys` so many for each of them, and for all other rows."""
        return math.prod(self._declared_groups(declared).shape) * (1 + self._sums_in_a_cell())

    def _plan_for(self, X: Any, y: Any) -> Plan[Moments | TableNoise]:
        rows = self._scanned(X).rows if self._has_plain_sums() else self._rows(X)[0].count
        return self.plan(rows, self.declared_)

    # Charge, noise, release

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy table. Rows may come from any source that `sudare.frames.batches` takes; they are never held together."""
        if self._has_plain_sums():
            return self._fit_plain(X)
        rows, codes_of_keys = self._rows(X)
        plan = self.plan(rows.count, self.declared_)
        noise = plan.mechanism
        parts = noise if isinstance(noise, TableNoise) else TableNoise(noise, None, None, self.epsilon, self.delta)
        moments, selection = parts.moments, parts.keys
        exact_sums = self._exact(rows, codes_of_keys) if selection is None else None
        counts_of_keys = codes_of_keys.counts(keys for *_, keys in rows.counted_parts())
        passage = self._enter(plan)
        if selection is not None:
            # How many leave the table small enough is public: after the charge it must not fail for want of memory.
            most = min(MOST_KEYS, MOST_CELLS // self._declared_cells(self.declared_) - 1)
            self.keys_ = selection.selected(codes_of_keys, counts_of_keys, passage.noise, most)
        sums, by_value = self._exact(rows, codes_of_keys) if exact_sums is None else exact_sums
        if selection is not None:
            moments = replace(moments, dimension=sums.size)
        noisy = moments.apply(sums.ravel(), passage.noise).reshape(sums.shape)
        cells = np.empty((sums.shape[1], 0), dtype=np.int64)
        if parts.quantiles is not None:
            # Its noisy count, which leaves, decides which ends of intervals a group has.
            by_group = zip(np.maximum(np.rint(noisy[0]), 0).tolist(), zip(*by_value, strict=True), strict=True)
            drawn = [parts.quantiles.chosen(counts, passage.noise, about).ravel() for about, counts in by_group]
            cells = np.stack(drawn)
        self._finish(rows.count, noisy, cells)
        return self

    def _has_plain_sums(self) -> bool:
        """Whether counts, sums and sums of squares of declared groups are all that is wanted, and here: one pass adds them up."""
        return self.cluster is None and len(self.keys) == 0 and len(self.quantile_of) == 0

    def _fit_plain(self, X: object) -> Self:
        """The fit of a table without quantiles and undeclared groups."""
        found = self._scanned(X)
        self.clipped_ = found.clipped
        plan = self.plan(found.rows, self.declared_)
        sums = found.steps
        sums[1:] *= STEP
        passage = self._enter(plan)
        noise = plan.mechanism
        moments = noise.moments if isinstance(noise, TableNoise) else noise
        noisy = moments.apply(sums.ravel(), passage.noise).reshape(sums.shape)
        self._finish(found.rows, noisy, np.empty((sums.shape[1], 0), dtype=np.int64))
        return self

    def _finish(self, rows: int, noisy: Floats, cells: NDArray[np.int64]) -> None:
        """Keep what leaves, and seal it."""
        self.n_rows_ = rows if self.neighbours == "replace-one" else None
        counts = np.clip(np.rint(noisy[0]), -LARGEST_COUNT, LARGEST_COUNT).astype(np.int64)
        # Gaussian noise may be on a finer grid.
        self._set(counts, on_grid(np.clip(noisy[1:], -MOST_ROWS, MOST_ROWS), STEP), cells)
        self._seal()

    def _begin(self, X: object) -> None:
        """Check the parameters, and keep what is declared."""
        self._forget()
        self._check_parameters()
        self._keep_source(X)
        self._declare(X, None)
        self.keys_ = None

    def _scanned(self, X: object) -> GroupSums:
        """Exact counts, sums and sums of squares over all rows, each read once and checked."""
        self._begin(X)
        squared = _names(self.variance_of, "variance_of")
        part_of = functools.partial(group_sums, self.declared_, self.groups_, self._summed(), squared)
        found = database_group_sums(X, self.declared_, self.groups_, self._summed(), squared)
        if found is None:
            found = total_over_tables(X, part_of, self.declared_)
        if found.rows == 0 and not self._slice:
            raise no_rows()
        if found.rows > MOST_ROWS:
            raise InvalidParameter(f"The table has more than {MOST_ROWS:,} rows.", "Fit it in parts.")
        return found

    def _rows(self, X: object) -> tuple[Rows, KeyCodes]:
        """Codes of groups, values in [−1, 1], cells of quantiles and codes of keys, all checked; and what the last ones stand for.

        With `keys` there are values within their bounds in place of cells, whose number depends on that of the groups that are found.
        """
        self._begin(X)
        declared, groups = self.declared_, self.groups_
        summed, wanted = self._summed(), self._numbers_wanted()
        numbers, cells_of = numbers_among(declared, wanted), self._quantile_cells()
        keys = KeyCodes(tuple(self.keys))
        kind: type = np.float64 if keys.columns else np.int64

        def arrays_of(table: Any) -> Tallied:
            named = as_table(table, [*declared.columns, *keys.columns])
            places = [level_positions(named.column(name), declared.columns[name], name) for name in groups.columns]
            values, cells, clipped = [], {}, []
            for name, number in numbers.items():
                within, _, outside = clipped_numbers(named.column(name), number, name)
                if name in summed:
                    values.append(centred(within, number))
                if name in cells_of:
                    cells[name] = within if keys.columns else cells_of[name].of(within)
                clipped.append(outside)
            rows = len(named)
            group = np.ravel_multi_index(tuple(places), groups.shape) if places and rows else np.zeros(rows, np.int64)
            arrays = (
                group,
                np.stack(values, axis=1) if values else np.empty((rows, 0)),
                np.stack([cells[name] for name in cells_of], axis=1) if cells else np.empty((rows, 0), dtype=kind),
                keys.of(named),
            )
            return Tallied(arrays, np.array(clipped, dtype=np.int64))

        columns = [*self._columns_read(), *keys.columns] if keys.columns else None
        # Undeclared groups are numbered as they come, which one process has to do.
        cluster = None if keys.columns else self.cluster
        # How many rows a slice has is secret, also whether it has any.
        rows = checked_rows(X, arrays_of, declared, columns, cluster=cluster, may_be_empty=bool(self._slice))
        self.clipped_ = dict(zip(numbers, [] if rows.tally is None else rows.tally.tolist(), strict=True))
        if rows.count > MOST_ROWS:
            raise InvalidParameter(f"The table has more than {MOST_ROWS:,} rows.", "Fit it in parts.")
        return rows, keys

    def _columns_read(self) -> list[str]:
        person = self.declared_.person
        return [*self.declared_.columns, *([] if person is None else [person.column])]

    def _quantile_cells(self) -> dict[str, Cells]:
        """The cells of the columns whose quantiles are wanted; fewer where there are many groups."""
        groups = math.prod(self.groups_.shape) * max(len(self.quantile_of), 1)
        numbers = numbers_among(self.declared_, _names(self.quantile_of, "quantile_of"))
        return {name: Cells(number, groups) for name, number in numbers.items()}

    def _exact(self, rows: Rows, codes_of_keys: KeyCodes) -> tuple[Floats, list[NDArray[np.int64]]]:
        """Counts of all groups, and below them sums and sums of squares as whole numbers of steps; counts of the cells of quantiles, by column."""
        groups = math.prod(self.groups_.shape)
        declared = math.prod(self._declared_groups(self.declared_).shape)
        summed, cells_of = self._summed(), list(self._quantile_cells().values())
        sizes = [cells.count for cells in cells_of]
        squared = [summed.index(name) for name in self.variance_of]
        places = None if self.keys_ is None else self.keys_.places(codes_of_keys)
        sums_of = functools.partial(group_sums_of_codes, groups, declared, len(summed), squared, sizes, places)
        found = rows.total(sums_of if places is None else functools.partial(_in_cells, sums_of, cells_of))
        exact_sums = found[: groups * (1 + self._sums_in_a_cell())].reshape(-1, groups)
        exact_sums[1:] *= STEP
        parts = np.split(found[exact_sums.size :].astype(np.int64), np.cumsum([groups * size for size in sizes])[:-1])
        by_value = [part.reshape(groups, size) for part, size in zip(parts, sizes, strict=False)]
        return exact_sums, by_value

    def _set(self, counts: NDArray[np.int64], sums: Floats, cells: NDArray[np.int64]) -> None:
        shape, summed = self.groups_.shape, self._summed()
        self.counts_ = counts.reshape(shape)
        self.sums_ = {name: sums[place].reshape(shape) for place, name in enumerate(summed)}
        self.squares_ = {
            name: sums[place].reshape(shape) for place, name in enumerate(self.variance_of, start=len(summed))
        }
        self._cells = cells
        self.noise_scale_ = self._mechanism(self.declared_).noise_scale

    # What is read off the noisy table: post-processing

    def table(self, by: Sequence[str] | None = None, level: float = DEFAULT_LEVEL) -> dict[str, list[Any]]:
        """Counts, means, sums, variances and quantiles with intervals, as columns that pandas, polars and pyarrow take; over some columns of `by` if given.

        `count_low` to `count_high` holds the exact count with the given probability, and likewise each mean, sum and variance of the table's records; a
        mean or variance of whose group too little is known has what the declared bounds allow as interval, and such a variance is None. Counts and sums of fewer columns are sums of those of more. Quantiles are in
        the table over all columns only, and their intervals always have the level .95.
        """
        level, groups = checked_level(level), self.groups_
        kept = groups.columns if by is None else _names(by, "by")
        if len(set(kept)) != len(kept):
            raise InvalidParameter("`by` names a column twice.", "Name each once.")
        shown = groups.along(kept)
        added = tuple(place for place, axis in enumerate(groups.axes) if axis not in shown.axes)
        cells = math.prod(groups.shape[axis] for axis in added)
        is_gaussian = self.delta > 0 and not self.keys
        numbers = 1 + self._sums_in_a_cell()
        pure = laplace_quantile if numbers == 1 else functools.partial(cube_quantile, dimension=numbers)
        quantile: Callable[..., Floats] = gaussian_quantile if is_gaussian else pure
        scale, widths = self.noise_scale_, functools.partial(quantile, cells=cells, level=level)
        counts = self.counts_.sum(axis=added, dtype=np.int64).astype(np.float64).ravel()
        margin = scale * float(widths(np.zeros(1))[0])
        found: dict[str, list[Any]] = {**(shown.labels() if kept else {}), "count": counts.astype(np.int64).tolist()}
        # A rounded count is so many whole numbers away at most as often as its noise is half a one more.
        fewest, most = count_interval(counts, math.ceil(margin - 0.5))
        found |= {"count_low": fewest.tolist(), "count_high": most.tolist()}
        totals = {name: sums.sum(axis=added).ravel() for name, sums in self.sums_.items()}
        for name, number in numbers_among(self.declared_, list(totals)).items():
            centre, half = (number.low + number.high) / 2, (number.high - number.low) / 2
            mean = np.clip(totals[name] / np.maximum(counts, 1.0), -1.0, 1.0)
            low, high = ratio_interval(totals[name], counts, widths, scale)
            _put(found, f"mean_{name}", number, *(centre + half * end for end in (mean, low, high)))
            if name in self.mean_of and not isinstance(number, Date):
                value = centre * counts + half * totals[name]
                width = half * scale * sum_width(centre / half, widths)
                # As a count is: numbers that are never negative have no negative sum.
                least, largest = 0.0 if number.low >= 0 else -np.inf, 0.0 if number.high <= 0 else np.inf
                ends = (np.clip(end, least, largest) for end in (value - width, value + width))
                _put(found, f"sum_{name}", None, value, *ends)
        for name, number in numbers_among(self.declared_, list(self.squares_)).items():
            squares = self.squares_[name].sum(axis=added).ravel()
            estimate = variance_interval(
                counts, totals[name], squares, scale, cells, level, None if is_gaussian else numbers
            )
            _put(found, f"variance_{name}", None, *((number.high - number.low) ** 2 / 4 * end for end in estimate))
            found[f"variance_{name}"] = [None if math.isnan(value) else value for value in found[f"variance_{name}"]]
        if not added:
            self._put_quantiles(found)
        return found

    def _put_quantiles(self, found: dict[str, list[Any]]) -> None:
        wanted = checked_quantiles(self.quantiles)
        drawn = self._cells.reshape(len(self._cells), len(self.quantile_of), len(wanted), 3)
        for column, (name, cells) in enumerate(self._quantile_cells().items()):
            for place, quantile in enumerate(wanted):
                _put(found, quantile_name(quantile, name), cells.number, *cells.intervals(drawn[:, column, place]))

    # What is released, and how it is read back

    def release_content(self) -> Content:
        """What is released: counts and sums, cells of quantiles, keys that were found."""
        tensors: dict[str, NDArray[Any]] = {"counts": self.counts_.ravel()}
        grids: dict[str, float | None] = {"counts": None}
        sums = [*self.sums_.values(), *self.squares_.values()]
        if sums:
            tensors["sums"], grids["sums"] = np.concatenate([each.ravel() for each in sums]), STEP
        if self.quantile_of:
            tensors["cells"], grids["cells"] = self._cells.ravel(), None
        lists = {what: list(getattr(self, what)) for what in ("by", "keys", "mean_of", "variance_of", "quantile_of")}
        keys = None if self.keys_ is None else self.keys_.to_list()
        return self._content(
            tensors, grids, {**lists, "quantiles": list(checked_quantiles(self.quantiles)), "found": keys}
        )

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one count, sum and cell for each group, no larger than noise can make them."""
        groups, sums = math.prod(self.groups_.shape), self._sums_in_a_cell()
        rules = {"counts": TensorRule(groups, np.int64)}
        if sums:
            rules["sums"] = TensorRule(groups * sums, np.float64)
        wanted = len(self.quantile_of) * len(checked_quantiles(self.quantiles))
        if wanted:
            rules["cells"] = TensorRule(groups * wanted * 3, np.int64)
        check_shapes(content, rules)
        check_within(content.tensors["counts"], -LARGEST_COUNT, LARGEST_COUNT)
        if sums:
            check_within(content.tensors["sums"], -float(MOST_ROWS), float(MOST_ROWS))
            if content.grid("sums") != STEP:
                raise unfit("its sums are on another grid")
        if wanted:
            drawn = content.tensors["cells"].reshape(groups, len(self.quantile_of), -1, 3)
            check_cells(np.moveaxis(drawn, 1, 0), list(self._quantile_cells().values()), True)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        declared = self.schema
        for what in ("by", "keys", "mean_of", "variance_of", "quantile_of", "quantiles"):
            if type(parameters[what]) is not list:
                raise unfit("its columns are not those of its learner")
            setattr(self, what, parameters[what])
        self.neighbours = parameters["neighbours"]
        if declared is None or self._columns_of(declared) != declared:
            raise unfit("its columns are not those of its learner")
        self.keys_ = Keys.from_list(tuple(self.keys), parameters["found"])

    def _take(self, content: Content) -> None:
        sums, groups = self._sums_in_a_cell(), content.tensors["counts"].size
        cells = content.tensors["cells"].reshape(groups, -1) if self.quantile_of else np.empty((groups, 0), np.int64)
        self._set(
            content.tensors["counts"],
            content.tensors["sums"].reshape(sums, -1) if sums else np.empty((0, groups)),
            cells,
        )


def _in_cells(
    function: Callable[..., Floats],
    cells_of: Sequence[Cells],
    codes: NDArray[np.int64],
    values: Floats,
    within: Floats,
    keys: NDArray[np.int64],
) -> Floats:
    """What the function gives with the cells of values within their bounds in place of these."""
    cells = np.empty(within.shape, dtype=np.int64)
    for place, column in enumerate(cells_of):
        cells[:, place] = column.of(within[:, place])
    return function(codes, values, cells, keys)


def as_feature(column: Column) -> Column:
    """A column to group by; a label is counted like any category."""
    return Category(column.classes, column.missing) if isinstance(column, Label) else column


def sum_width(ratio: float, widths: Callable[[Floats], Floats]) -> float:
    """The quantile of |e₁ + ratio·e₂| for any ratio, from `widths` for those in [−1, 1]: noise of a sum and of a count have the same symmetric law."""
    larger = max(abs(ratio), 1.0)
    within = ratio if larger == 1.0 else 1 / ratio
    return larger * float(widths(np.array([within]))[0])


def quantile_name(quantile: float, column: str) -> str:
    """What a table calls a quantile of a column."""
    return f"median_{column}" if quantile == 0.5 else f"quantile_{quantile:g}_{column}"


def _put(
    found: dict[str, list[Any]], name: str, number: Number | None, value: Floats, low: Floats, high: Floats
) -> None:
    """Numbers and their intervals as columns; they are values of `number`, or of no declared column."""
    for column, values in ((name, value), (f"{name}_low", low), (f"{name}_high", high)):
        found[column] = values.tolist() if number is None else values_shown(number, values)


def _reach(number: Number) -> float:
    """The bound that is farther from zero."""
    return max(abs(number.low), abs(number.high))


def _names(given: object, what: str) -> tuple[str, ...]:
    """Names of columns. Raise InvalidParameter unless they are a list of texts."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InvalidParameter(f"`{what}` is not a list of names.", f'Give for example {what}=["age"].')
    return tuple(given)

"""Private quantiles of number columns, with intervals. Proof: proofs/quantiles.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Integers
from sudare.errors import InvalidParameter
from sudare.frames.row_reader import checked_rows, placed
from sudare.frames.rows import Rows, Tallied
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, unfit
from sudare.schema import Number, Schema
from sudare.schema.column_values import clipped_numbers
from sudare.schema.table_from_any_frame import as_table
from sudare.statistics.histogram import values_shown
from sudare.statistics.joint_quantiles import Cells, JointQuantiles, checked_quantiles

MEDIAN: Final = (0.5,)
# How often an interval of a quantile holds. It is fixed when a table is fitted, because interval and quantile are drawn together.
LEVEL: Final = 0.95


def _cells(declared: Schema, of_columns: Sequence[Cells], is_matrix: bool, part: Any) -> Tallied:
    """The cell of every value, and how many values of each column were clipped."""
    if is_matrix:
        columns: Iterable[Any] = part.T
    else:
        columns = map(as_table(part, list(declared.columns)).column, declared.columns)
    cells, clipped = [], []
    for name, cells_of, values in zip(declared.columns, of_columns, columns, strict=True):
        within, _, outside = clipped_numbers(values, cells_of.number, name)
        cells.append(cells_of.of(within))
        clipped.append(outside)
    return Tallied((np.stack(cells, axis=1),), np.array(clipped, dtype=np.int64))


def _counts(sizes: Sequence[int], cells: Integers) -> Integers:
    """How many values are in each cell, one column's cells after the other's."""
    return np.concatenate([np.bincount(column, minlength=size) for column, size in zip(cells.T, sizes, strict=True)])


@dataclass(eq=False, repr=False)
class PrivateQuantiles(PrivateEstimator):
    """ε-DP quantiles of number columns, replace-one or add/remove rows. Proof: proofs/quantiles.md.

    Values are counted in public cells, and one draw takes a cell for every quantile of every column. Of a column with declared bins these are the cells,
    else 131,072 of one width. Rows may come from any source; what is held in memory are the counts.

    Parameters
    ----------
    epsilon : the promise. It is pure: `delta` must be 0.
    quantiles : which, between 0 and 1 and rising.
    intervals : whether every quantile comes with an interval that holds the exact one for .95. They take an eleventh of ε for one quantile, up to a sixth for many.
    quantile_of : names of number columns; all that the schema declares if it is left out.
    bounds, schema, account, random_state : as in PrivateMean.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).

    Attributes
    ----------
    quantiles_ : by column, an array with a value for every quantile.
    noise_scale_ : scale of the noise on ranks, in records; it survives `Release.load`.
    """

    relations: ClassVar[tuple[Neighbours, ...]] = NEIGHBOURS
    extra_parameters: ClassVar[tuple[str, ...]] = ("quantiles", "intervals")

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    quantiles: Sequence[float] = MEDIAN
    intervals: bool = True
    quantile_of: Sequence[str] | None = None
    bounds: Bounds | None = None
    schema: Schema | None = None
    neighbours: Neighbours = "replace-one"
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    # Checks and declared columns

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checked_quantiles(self.quantiles)
        if self.delta != 0:
            raise InvalidParameter("PrivateQuantiles promises pure ε: delta must be 0.", "Leave delta out.")
        if not isinstance(self.intervals, bool):
            raise InvalidParameter("intervals must be True or False.", "Leave it out for True.")

    def _declare(self, X: object, table: Any) -> None:
        if self.quantile_of is None or self.schema is None:
            super()._declare(X, table)
        else:
            self._keep(self._columns_of(self.schema), self.schema.digest)
            self._check_persons_in_memory(X, self.declared_)

    def _columns_of(self, schema: Schema) -> Schema:
        """The columns whose quantiles are wanted."""
        declared = self._suited(schema)
        if self.quantile_of is None:
            return declared
        names = list(self.quantile_of) if not isinstance(self.quantile_of, str) else [self.quantile_of]
        missing = next((name for name in names if name not in declared.columns), None)
        if missing is not None or not names or len(set(names)) != len(names):
            raise InvalidParameter(
                "`quantile_of` does not name number columns of the schema, each once.",
                f"It has: {', '.join(map(repr, declared.columns))}.",
            )
        return Schema({name: declared.columns[name] for name in names}, schema.person)

    # Plan

    def plan(self, rows: int, declared: Schema) -> Plan[JointQuantiles]:
        """A unit's rows move the error of every cell by what `JointQuantiles` says; the number of rows does not matter."""
        return Plan(self._mechanism(declared), self._guarantee(declared))

    def _mechanism(self, declared: Schema) -> JointQuantiles:
        level = LEVEL if self.intervals else None
        wanted, columns, unit = checked_quantiles(self.quantiles), len(declared.columns), rows_per_unit(declared)
        return JointQuantiles(wanted, columns, self._values_epsilon(declared), self.neighbours, unit, level=level)

    def _plan_for(self, X: Any, y: Any) -> Plan[JointQuantiles]:
        return self.plan(self._counted_rows(X).count, self.declared_)

    # Charge, then draw

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then draw the quantiles. With a schema rows may come from any source; they are never held together."""
        rows = self._counted_rows(X)
        plan = self.plan(rows.count, self.declared_)
        sizes = [cells.count for cells in self._cells_of_columns()]
        counts = np.split(rows.total(partial(_counts, sizes)), np.cumsum(sizes)[:-1])
        passage = self._enter(plan)
        self.n_rows_ = rows.count if self.neighbours == "replace-one" else None
        # Where the number of rows is secret, it is taken to be large.
        self._set(plan.mechanism.chosen(counts, passage.noise, self.n_rows_ or math.inf))
        self._seal()
        return self

    def _cells_of_columns(self) -> list[Cells]:
        return [Cells(column) for column in self.declared_.columns.values() if isinstance(column, Number)]

    def _counted_rows(self, X: object) -> Rows:
        """The cells of all rows, checked."""
        self._forget()
        self._check_parameters()
        self._keep_source(X)
        table = None if self.schema is not None else checked_matrix(self, X, reset=True)
        self._declare(X, table)
        declared = self.declared_
        arrays_of = partial(_cells, declared, self._cells_of_columns(), table is not None)
        if table is None:
            # How many rows a slice has is secret, also whether it has any.
            rows = checked_rows(X, arrays_of, declared, cluster=self.cluster, may_be_empty=bool(self._slice))
        else:
            made = arrays_of(table)
            rows = placed(Rows.held(*made.arrays, tally=made.tally), self.cluster)
        self.clipped_ = dict(zip(declared.columns, ([] if rows.tally is None else rows.tally.tolist()), strict=True))
        return rows

    def _set(self, cells: Integers) -> None:
        self._cells = cells
        middles = cells[..., 0] if self.intervals else cells
        self.quantiles_ = {
            name: cells_of.middles(column)
            for name, cells_of, column in zip(self.declared_.columns, self._cells_of_columns(), middles, strict=True)
        }
        self.noise_scale_ = self._mechanism(self.declared_).noise_scale

    def table(self) -> dict[str, list[Any]]:
        """Quantiles, with intervals if they were asked for, as columns for pandas, polars or pyarrow."""
        check_is_fitted(self)
        wanted = checked_quantiles(self.quantiles)
        found: dict[str, list[Any]] = {
            "column": [name for name in self.declared_.columns for _ in wanted],
            "quantile": [quantile for _ in self.declared_.columns for quantile in wanted],
        }
        of_columns = self._cells_of_columns()
        shown = {"value": list(self.quantiles_.values())}
        if self.intervals:
            ends = [of.intervals(cells)[1:] for of, cells in zip(of_columns, self._cells, strict=True)]
            shown |= {"value_low": [low for low, _ in ends], "value_high": [high for _, high in ends]}
        for name, columns in shown.items():
            by_column = (values_shown(of.number, values) for of, values in zip(of_columns, columns, strict=True))
            found[name] = list(itertools.chain.from_iterable(by_column))
        return found

    # What is released, and how it is read back

    def release_content(self) -> Content:
        """What is released: the cells that were drawn."""
        extra = {"quantiles": list(checked_quantiles(self.quantiles)), "intervals": self.intervals}
        return self._content({"cells": self._cells.ravel()}, {"cells": None}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one cell for each quantile, and two for its interval, among those of its column."""
        each = len(checked_quantiles(self.quantiles)) * (3 if self.intervals else 1)
        check_shapes(content, {"cells": TensorRule(each * len(self.declared_.columns), np.int64)})
        check_cells(self._shaped(content.tensors["cells"]), self._cells_of_columns(), self.intervals)

    def _shaped(self, cells: Integers) -> Integers:
        shape = (len(self.declared_.columns), len(checked_quantiles(self.quantiles)))
        return cells.reshape((*shape, 3) if self.intervals else shape)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        quantiles, intervals = parameters["quantiles"], parameters["intervals"]
        if (
            type(quantiles) is not list
            or type(intervals) is not bool
            or not all(type(one) is float for one in quantiles)
        ):
            raise unfit("its quantiles are not those of its learner")
        self.quantiles, self.intervals, self.neighbours = quantiles, intervals, parameters["neighbours"]
        self._check_parameters()

    def _take(self, content: Content) -> None:
        self._set(self._shaped(content.tensors["cells"]))


def check_cells(drawn: Integers, of_columns: Sequence[Cells], intervals: bool) -> None:
    """Raise ReleaseMalformed unless cells, by column in the first axis, are such as `JointQuantiles.chosen` gives."""
    for cells, of_column in zip(drawn, of_columns, strict=True):
        middles, last = cells[..., 0] if intervals else cells, of_column.count - 1
        if (middles < 0).any() or (middles > last).any() or (cells < -1).any() or (cells > last + 1).any():
            raise unfit("its cells are not those of its columns")

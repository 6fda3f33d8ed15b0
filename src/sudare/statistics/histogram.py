"""Private counts of values in bins and categories. Proof: proofs/statistics.md."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.database_sums import database_counts
from sudare.frames.spark_sums import is_spark
from sudare.frames.table_sums import totals_by_columns
from sudare.privacy.column_sums import count_mechanism
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.fit_plan import Mechanism, Plan
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, check_within
from sudare.schema import Column, Date, Number, Schema, counted
from sudare.schema.encoder import Counted
from sudare.schema.table_from_any_frame import no_rows
from sudare.statistics.noise_intervals import DEFAULT_LEVEL, checked_level, count_interval, noise_quantile

MOST_BINS: Final = 10_000
# Counts beyond this are noise; floats hold every whole number up to here.
LARGEST_COUNT: Final = 2**53


@functools.lru_cache(maxsize=64)
def equally_binned(low: float, high: float, bins: int) -> Number:
    """A column of numbers within these bounds, in so many bins of one width."""
    return Number(low, high, bins=tuple(np.linspace(low, high, bins + 1)[1:-1].tolist()))


def _cell_counts(cells: Floats) -> NDArray[np.int64]:
    return np.asarray(cells.sum(axis=0).astype(np.int64))


@dataclass(eq=False, repr=False)
class PrivateHistogram(PrivateEstimator):
    """ε-DP or (ε, δ)-DP counts, replace-one or add/remove rows. Proof: proofs/statistics.md.

    Numbers are counted in public bins, categories by their declared values; all columns at once, from one budget.

    Parameters
    ----------
    epsilon, delta, bounds, schema, account, random_state, cluster : as in PrivateMean; with a schema, all features are counted.
    bins : number of equal bins, or the inner edges, for columns declared by `bounds`.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).

    Attributes
    ----------
    counts_ : noisy whole counts, one array a column, by name.
    probabilities_ : counts made non-negative and to sum to one, by name.
    """

    encoding = "binned"
    numbers_only: ClassVar[bool] = False
    relations: ClassVar[tuple[Neighbours, ...]] = NEIGHBOURS
    releases_sums: ClassVar[bool] = True

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    bounds: Bounds | None = None
    bins: int | Sequence[float] = 10
    schema: Schema | None = None
    neighbours: Neighbours = "replace-one"
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    def plan(self, rows: int, declared: Schema) -> Plan[Mechanism]:
        """A replaced row leaves one cell of each column and enters another; an added one only enters."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        cells = 2 if self.neighbours == "replace-one" else 1
        guarantee, dimension = self._guarantee(declared), len(declared.names(self.encoding))
        epsilon = self._values_epsilon(declared)
        mechanism = count_mechanism(cells, columns, unit, dimension, epsilon, guarantee.delta)
        return Plan(mechanism, guarantee)

    def _plan_for(self, X: Any, y: Any) -> Plan[Mechanism]:
        return self.plan(self._counted(self._open(X, reset=True)).rows, self.declared_)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy counts."""
        found = self._counted(self._open(X, reset=True))
        self.clipped_ = found.clipped
        plan = self.plan(found.rows, self.declared_)
        passage = self._enter(plan)
        noisy = plan.mechanism.apply(found.cells.astype(np.float64), passage.noise)
        self.n_rows_ = found.rows if self.neighbours == "replace-one" else None
        self.noise_scale_ = plan.mechanism.noise_scale
        self._set_counts(np.clip(np.rint(noisy), -LARGEST_COUNT, LARGEST_COUNT).astype(np.int64))
        self._seal()
        return self

    def _counted(self, table: Any) -> Counted:
        """How many rows there are in each cell, all checked."""
        # Slices are read here.
        if (self.cluster is not None and not self._slice) or is_spark(table):
            rows = self._encoded_rows(table)
            return Counted(rows.total(_cell_counts), rows.count, self.clipped_)
        computed = database_counts(table, self.declared_)
        if computed is not None:
            parts = [Counted(each.counts, each.rows, each.outside) for each in computed]
        else:
            parts = totals_by_columns(table, counted, self.declared_)
        found = functools.reduce(Counted.beside, parts)
        if found.rows == 0 and not self._slice:
            raise no_rows()
        return found

    def _set_counts(self, counts: NDArray[np.int64]) -> None:
        ends = np.cumsum([block.width for block in self.declared_.blocks(self.encoding)])
        parts = np.split(counts, ends[:-1])
        self.counts_ = dict(zip(self.declared_.features, parts, strict=True))
        self.probabilities_ = {name: proportions(part) for name, part in self.counts_.items()}

    def table(self, level: float = DEFAULT_LEVEL) -> dict[str, list[Any]]:
        """Counts with intervals that hold the exact counts of the kept records with this probability, as columns for pandas, polars or pyarrow."""
        check_is_fitted(self)
        counts = np.concatenate(list(self.counts_.values()))
        margin = noise_quantile(self.plan(self.n_rows_ or 1, self.declared_).mechanism, checked_level(level))
        low, high = count_interval(counts, margin)
        levels = {name: group_levels(column) for name, column in self.declared_.features.items()}
        return {
            "column": [name for name, values in levels.items() for _ in values],
            "value": [value for values in levels.values() for value in values],
            "count": counts.tolist(),
            "count_low": low.tolist(),
            "count_high": high.tolist(),
        }

    def score(self, X: object, y: object = None) -> float:
        """Mean log-likelihood of the rows, columns taken as independent. Exact: for the owner only."""
        cells = self._read(X, reset=False)
        probabilities = np.concatenate(list(self.probabilities_.values()))
        # A cell that noise pushed to zero counts as half a record, so that one row cannot make the score infinite.
        rows = max(1.0, float(np.mean([part.clip(0).sum(dtype=np.float64) for part in self.counts_.values()])))
        return float(np.mean(cells @ np.log(np.maximum(probabilities, 0.5 / rows))))

    def release_content(self) -> Content:
        """What is released: the counts."""
        counts = np.concatenate(list(self.counts_.values()))
        return self._content({"counts": counts}, {"counts": None})

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one count for each cell, no larger than noise can make it."""
        check_shapes(content, {"counts": TensorRule(len(self.declared_.names(self.encoding)), np.int64)})
        check_within(content.tensors["counts"], -LARGEST_COUNT, LARGEST_COUNT)

    def _take(self, content: Content) -> None:
        self.neighbours = content.parameters["neighbours"]
        if self.schema is None:
            edges = [column.edges for column in self.declared_.columns.values() if isinstance(column, Number)]
            # Columns that share no edges were cut into a number of equal bins.
            self.bins = edges[0] if len(set(edges)) == 1 else len(edges[0]) + 1
        self._set_counts(content.tensors["counts"])
        self.noise_scale_ = self.plan(self.n_rows_ or 1, self.declared_).mechanism.noise_scale

    def _bounded_column(self, low: float, high: float) -> Number:
        if isinstance(self.bins, int | np.integer):
            if isinstance(self.bins, bool) or not 2 <= self.bins <= MOST_BINS:
                raise InvalidParameter(f"bins must be from 2 to {MOST_BINS}, got {self.bins!r}.", "Use for example 10.")
            return equally_binned(low, high, int(self.bins))
        if not isinstance(self.bins, Sequence | np.ndarray) or isinstance(self.bins, str):
            raise InvalidParameter("bins must be a number of bins or a list of inner edges.", "Use for example 10.")
        return Number(low, high, bins=tuple(self.bins))


def group_levels(column: Column) -> tuple[Any, ...]:
    """The values by which a declared column groups rows: its categories, or intervals of numbers, with None for missing ones."""
    if isinstance(column, Number):
        intervals = interval_texts(column)
        return (*intervals, None) if column.has_indicator else intervals
    return tuple(column.levels)


def values_shown(number: Number, values: Floats) -> list[Any]:
    """Values of a number column as tables show them: moments of a column of dates as text."""
    return list(map(number.value_text, values.tolist())) if isinstance(number, Date) else values.tolist()


def interval_texts(number: Number) -> tuple[str, ...]:
    """The bins of a number in words; those of whole numbers and dates name their first and last value."""
    edges = (number.low, *number.edges, number.high)
    if not number.whole:
        return tuple(f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges))
    firsts, lasts = edges[:-1], (*(edge - 1 for edge in edges[1:-1]), number.high)
    texts = [(number.value_text(first), number.value_text(last)) for first, last in zip(firsts, lasts, strict=True)]
    return tuple(first if first == last else f"{first} to {last}" for first, last in texts)


def proportions(counts: NDArray[np.int64]) -> Floats:
    """Counts without their negative part, divided by their sum; equal shares when nothing is left."""
    kept = np.maximum(counts, 0).astype(np.float64)
    total = kept.sum()
    return kept / total if total > 0 else np.full(len(kept), 1 / len(kept))

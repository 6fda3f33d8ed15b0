"""The first private learners: mean, histogram and standard scaler. Proof: proofs/statistics.md."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from sudare.errors import InvalidParameter
from sudare.privacy.column_sums import (
    count_mechanism,
    exact_moments,
    exact_sums_of_blocks,
    fixed_point_step,
    l1_sensitivity,
    l2_sensitivity,
    mean_mechanism,
    on_grid_within,
    public_grid,
    sum_mechanism,
)
from sudare.privacy.declared_columns import natural_bounds, rows_per_unit
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import (
    Bounds,
    Mechanism,
    Plan,
    PrivateEstimator,
    TensorRule,
    check_shapes,
)
from sudare.privacy.release_content import Content, unfit
from sudare.schema import Encoding, Number, Schema, counted, encoded_by_blocks
from sudare.schema.table import no_rows

Floats = NDArray[np.float64]

MOST_BINS: Final = 10_000
# Counts beyond this are noise; floats hold every whole number up to here.
LARGEST_COUNT: Final = 2**53


class PrivateMean(PrivateEstimator):
    """ε-DP or (ε, δ)-DP means, replace-one rows. Proof: proofs/statistics.md.

    Parameters
    ----------
    epsilon, delta : the promise. With delta = 0 it is pure.
    bounds : public (low, high), numbers or one per column; or give a `schema`, whose number columns are used.
    account : who pays. Without one the result may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    mean_ : means in the columns' own units, within the bounds.
    noise_scale_ : scale of the noise on a mean of a column whose range is one (public).
    grid_ : the power of two of which all released numbers are multiples (public).
    clipped_ : how many values lay outside, per column; for the owner only.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Bounds | None = None,
        schema: Schema | None = None,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.schema = schema
        self.account = account
        self.random_state = random_state

    def plan(self, rows: int, declared: Schema) -> Plan[Mechanism]:
        """One row moves every column's scaled sum by at most one."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        guarantee, step = self._guarantee(declared), fixed_point_step(rows)
        return Plan(mean_mechanism(columns, unit, guarantee.epsilon, guarantee.delta, step), guarantee)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy means."""
        table = self._open(X, reset=True)
        scaled = encoded_by_blocks(self.declared_, table, self.encoding)
        rows, columns = scaled.shape
        if rows == 0:
            raise no_rows()
        exact = exact_sums_of_blocks(scaled.blocks(), columns, fixed_point_step(rows))
        self.clipped_ = scaled.clipped
        plan = self.plan(rows, self.declared_)
        passage = self._enter(plan)
        sums = plan.mechanism.apply(exact, passage.noise)
        low, high = natural_bounds(self.declared_)
        self.n_rows_ = rows
        self.noise_scale_ = plan.mechanism.noise_scale / rows
        self.grid_ = public_grid(self.noise_scale_, high - low)
        self.mean_ = on_grid_within(low + (high - low) * np.clip(sums / rows, 0.0, 1.0), low, high, self.grid_)
        self._seal()
        return self

    def score(self, X: object, y: object = None) -> float:
        """Minus the mean squared distance to the means, in units of the ranges. Exact: for the owner only."""
        scaled = self._read(X, reset=False)
        low, high = natural_bounds(self.declared_)
        return -float(np.mean((scaled - (self.mean_ - low) / (high - low)) ** 2))

    def release_content(self) -> Content:
        """The means."""
        return self._content({"mean": self.mean_}, {"mean": self.grid_})

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one mean for each column, within its bounds."""
        check_shapes(content, {"mean": TensorRule(len(self.declared_.features), np.float64)})
        check_within(content.tensors["mean"], *natural_bounds(self.declared_))

    def _take(self, content: Content) -> None:
        self.mean_, self.grid_ = content.tensors["mean"], content.grid("mean")


@functools.lru_cache(maxsize=64)
def equally_binned(low: float, high: float, bins: int) -> Number:
    """A column of numbers within these bounds, in so many bins of one width."""
    return Number(low, high, bins=tuple(np.linspace(low, high, bins + 1)[1:-1].tolist()))


class PrivateHistogram(PrivateEstimator):
    """ε-DP or (ε, δ)-DP counts, replace-one or add/remove rows. Proof: proofs/statistics.md.

    Numbers are counted in public bins, categories by their declared values; all columns at once, from one budget.

    Parameters
    ----------
    epsilon, delta, bounds, schema, account, random_state : as in PrivateMean; with a schema, all features are counted.
    bins : number of equal bins, or the inner edges, for columns declared by `bounds`.
    neighbours : "replace-one" (the number of rows is public) or "add-remove" (it is not).

    Attributes
    ----------
    counts_ : noisy whole counts, one array a column, by name.
    probabilities_ : counts made non-negative and to sum to one, by name.
    """

    encoding: ClassVar[Encoding] = "binned"
    numbers_only: ClassVar[bool] = False
    relations: ClassVar[tuple[Neighbours, ...]] = NEIGHBOURS

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Bounds | None = None,
        bins: int | Sequence[float] = 10,
        schema: Schema | None = None,
        neighbours: Neighbours = "replace-one",
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bins = bins
        self.schema = schema
        self.neighbours = neighbours
        self.account = account
        self.random_state = random_state

    def plan(self, rows: int, declared: Schema) -> Plan[Mechanism]:
        """A replaced row leaves one cell of each column and enters another; an added one only enters."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        cells = 2 if self.neighbours == "replace-one" else 1
        guarantee, dimension = self._guarantee(declared), len(declared.names(self.encoding))
        mechanism = count_mechanism(cells, columns, unit, dimension, guarantee.epsilon, guarantee.delta)
        return Plan(mechanism, guarantee)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy counts."""
        table = self._open(X, reset=True)
        found = counted(self.declared_, table)
        if found.rows == 0:
            raise no_rows()
        self.clipped_ = found.clipped
        plan = self.plan(found.rows, self.declared_)
        passage = self._enter(plan)
        noisy = plan.mechanism.apply(found.cells.astype(np.float64), passage.noise)
        self.n_rows_ = found.rows if self.neighbours == "replace-one" else None
        self.noise_scale_ = plan.mechanism.noise_scale
        self._set_counts(np.clip(np.rint(noisy), -LARGEST_COUNT, LARGEST_COUNT).astype(np.int64))
        self._seal()
        return self

    def _set_counts(self, counts: NDArray[np.int64]) -> None:
        ends = np.cumsum([block.width for block in self.declared_.blocks(self.encoding)])
        parts = np.split(counts, ends[:-1])
        self.counts_ = dict(zip(self.declared_.features, parts, strict=True))
        self.probabilities_ = {name: proportions(part) for name, part in self.counts_.items()}

    def score(self, X: object, y: object = None) -> float:
        """Mean log-likelihood of the rows, columns taken as independent. Exact: for the owner only."""
        cells = self._read(X, reset=False)
        probabilities = np.concatenate(list(self.probabilities_.values()))
        # A cell that noise pushed to zero counts as half a record, so that one row cannot make the score infinite.
        rows = max(1.0, float(np.mean([part.clip(0).sum(dtype=np.float64) for part in self.counts_.values()])))
        return float(np.mean(cells @ np.log(np.maximum(probabilities, 0.5 / rows))))

    def release_content(self) -> Content:
        """The counts."""
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

    def _bounded_column(self, low: float, high: float) -> Number:
        if isinstance(self.bins, int | np.integer):
            if isinstance(self.bins, bool) or not 2 <= self.bins <= MOST_BINS:
                raise InvalidParameter(f"bins must be from 2 to {MOST_BINS}, got {self.bins!r}.", "Use for example 10.")
            return equally_binned(low, high, int(self.bins))
        if not isinstance(self.bins, Sequence | np.ndarray) or isinstance(self.bins, str):
            raise InvalidParameter("bins must be a number of bins or a list of inner edges.", "Use for example 10.")
        return Number(low, high, bins=tuple(self.bins))


class PrivateStandardScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """ε-DP or (ε, δ)-DP centring and scaling, replace-one rows. Proof: proofs/statistics.md.

    Use this where scikit-learn's StandardScaler would put exact means and deviations in front of a private learner.

    Attributes
    ----------
    mean_, scale_ : what `transform` subtracts and divides by.
    bounds_ : public (low, high) of every transformed column, for the learner that comes next.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Bounds | None = None,
        schema: Schema | None = None,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.schema = schema
        self.account = account
        self.random_state = random_state

    def plan(self, rows: int, declared: Schema) -> Plan[Mechanism]:
        """With z in [−1, 1] a row moves (z, z²) by at most 9/4 in L1 and 2 in L2, and rounding adds a step to z²."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        guarantee, step = self._guarantee(declared), fixed_point_step(rows)
        l1 = l1_sensitivity(Fraction(9, 4) + Fraction(step), columns, unit)
        l2 = l2_sensitivity((2 + Fraction(step)) ** 2, columns, unit)
        return Plan(sum_mechanism(columns, 2 * columns, l1, l2, guarantee.epsilon, guarantee.delta, step), guarantee)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute noisy means and deviations."""
        scaled = self._read(X, reset=True)
        rows = len(scaled)
        plan = self.plan(rows, self.declared_)
        passage = self._enter(plan)
        sums = plan.mechanism.apply(exact_moments(scaled, fixed_point_step(rows)), passage.noise)
        first, second = np.split(sums / rows, 2)
        low, high = natural_bounds(self.declared_)
        self.n_rows_ = rows
        self.noise_scale_ = plan.mechanism.noise_scale / rows
        half = (high - low) / 2
        self.grid_ = public_grid(self.noise_scale_, half)
        mean = np.clip(first, -1.0, 1.0)
        # A deviation that is lost in the noise is set to the noise itself, which is public; none is above half the range.
        deviation = np.clip(np.sqrt(np.maximum(second - mean**2, 0.0)), self.noise_scale_, 1.0)
        self.mean_ = on_grid_within(low + half * (1 + mean), low, high, self.grid_)
        self.scale_ = on_grid_within(half * deviation, self.grid_, half, self.grid_)
        self._set_bounds()
        self._seal()
        return self

    def transform(self, X: object) -> Floats:
        """(x − mean_)/scale_ of the number columns, clipped to the declared bounds first."""
        scaled = self._read(X, reset=False)
        low, high = natural_bounds(self.declared_)
        transformed: Floats = (low + (high - low) * scaled - self.mean_) / self.scale_
        return transformed

    def score(self, X: object, y: object = None) -> float:
        """Mean normal log-likelihood of the transformed columns. Exact: for the owner only."""
        transformed = self.transform(X)
        return float(np.mean(-0.5 * transformed**2 - np.log(self.scale_) - 0.5 * math.log(2 * math.pi)))

    def _set_bounds(self) -> None:
        low, high = natural_bounds(self.declared_)
        self.bounds_ = (low - self.mean_) / self.scale_, (high - self.mean_) / self.scale_

    def release_content(self) -> Content:
        """Means and deviations."""
        tensors = {"mean": self.mean_, "scale": self.scale_}
        return self._content(tensors, dict.fromkeys(tensors, self.grid_))

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless means lie within the bounds and deviations from one grid step to half the range, on one grid."""
        low, high = natural_bounds(self.declared_)
        check_shapes(content, dict.fromkeys(("mean", "scale"), TensorRule(len(low), np.float64)))
        if content.grid("mean") != content.grid("scale"):
            raise unfit("its means and its deviations are on different grids")
        check_within(content.tensors["mean"], low, high)
        check_within(content.tensors["scale"], content.grid("scale"), (high - low) / 2)

    def _take(self, content: Content) -> None:
        self.mean_, self.scale_, self.grid_ = content.tensors["mean"], content.tensors["scale"], content.grid("mean")
        self._set_bounds()


def check_within(values: NDArray[Any], low: Floats | float, high: Floats | float) -> None:
    """Raise ReleaseMalformed unless all released values lie from low to high; NaN does not."""
    if not np.all((values >= low) & (values <= high)):
        raise unfit("its numbers lie outside of what was declared")


def proportions(counts: NDArray[np.int64]) -> Floats:
    """Counts without their negative part, divided by their sum; equal shares when nothing is left."""
    kept = np.maximum(counts, 0).astype(np.float64)
    total = kept.sum()
    return kept / total if total > 0 else np.full(len(kept), 1 / len(kept))

"""The first private learners: mean, histogram and standard scaler. Proof: proofs/statistics.md.

Sums are exact: values are scaled to declared bounds and rounded to a public fixed-point grid before they are added, so
that no floating-point rounding makes a sum more sensitive than the proof says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from sudare.errors import InvalidParameter
from sudare.privacy.accounting import rounded_up
from sudare.privacy.base import Bounds, Mechanism, Plan, PrivateEstimator, TensorRule, natural_bounds, no_rows
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.privacy.ledger import Account
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.release import Content, on_grid
from sudare.schema import Encoding, Number, Schema, counted
from sudare.schema.layout import square_root_rounded_up

Floats = NDArray[np.float64]

MOST_BINS: Final = 10_000
# Counts beyond this are noise; floats hold every whole number up to here.
LARGEST_COUNT: Final = 2**53

_FIXED_POINT_BITS: Final = 30
# Rows treated at once, so that they stay in the processor's cache.
_SUMMED_ROWS: Final = 1024
_GRID_BITS: Final = 16


def fixed_point_step(rows: int) -> float:
    """The fixed-point grid on which sums of `rows` numbers of at most one are exact in float64."""
    return 2.0 ** -min(_FIXED_POINT_BITS, 52 - rows.bit_length())


def exact_sums(matrix: Floats, step: float) -> Floats:
    """Column sums of a matrix with entries in [−1, 1], each rounded to a multiple of `step`; no rounding in the sum.

    With a step from `fixed_point_step` all sums are whole numbers of steps below 2⁵³, which floats add exactly in any order.
    """
    ones, sums = np.ones(_SUMMED_ROWS), np.zeros(matrix.shape[1])
    for start in range(0, len(matrix), _SUMMED_ROWS):
        steps = matrix[start : start + _SUMMED_ROWS] / step
        sums += ones[: len(steps)] @ np.rint(steps, out=steps)
    return sums * step


def l1_sensitivity(of_a_column: Fraction, columns: int, unit_rows: int) -> float:
    """L1 distance by which one unit moves sums over its rows: its columns add up, and so do its rows."""
    return rounded_up(of_a_column * columns * unit_rows)


def l2_sensitivity(squared_of_a_column: Fraction, columns: int, unit_rows: int) -> float:
    """L2 distance by which one unit moves sums over its rows: squares of columns add up, its rows may all point one way."""
    return square_root_rounded_up(squared_of_a_column * columns * unit_rows**2)


def sum_mechanism(
    columns: int, dimension: int, l1: float, l2: float, epsilon: float, delta: float, step: float
) -> Mechanism:
    """Noise for a vector of sums with these sensitivities: Gaussian when δ > 0, gamma-norm or Laplace when δ = 0.

    With two columns or more gamma-norm noise is smaller than Laplace noise of the same ε (proofs/statistics.md).
    """
    if delta > 0:
        return Gaussian(l2, epsilon, delta, dimension, integer_grid=step)
    if columns > 1:
        return GammaNorm(l2, epsilon, dimension)
    return Laplace(l1, epsilon, dimension, integer_grid=step)


def rows_per_unit(declared: Schema) -> int:
    """How many rows one protected unit can have."""
    return 1 if declared.person is None else declared.person.most_rows


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

    def plan(self, rows: int, declared: Schema) -> Plan:
        """One row moves every column's scaled sum by at most one."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        l1, l2 = l1_sensitivity(Fraction(1), columns, unit), l2_sensitivity(Fraction(1), columns, unit)
        guarantee, step = self._guarantee(declared), fixed_point_step(rows)
        return Plan(sum_mechanism(columns, columns, l1, l2, guarantee.epsilon, guarantee.delta, step), guarantee)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy means."""
        scaled = self._read(X, reset=True)
        rows = len(scaled)
        plan = self.plan(rows, self.declared_)
        passage = self._enter(plan)
        sums = plan.mechanism.apply(exact_sums(scaled, fixed_point_step(rows)), passage.noise)
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

    @classmethod
    def tensor_rules(cls, declared: Schema) -> Mapping[str, TensorRule]:
        """One mean a column."""
        return {"mean": TensorRule(len(declared.features), np.float64)}

    @classmethod
    def values_fit(cls, content: Content, declared: Schema) -> bool:
        """Means lie within the bounds."""
        return lie_within(content.tensors["mean"], *natural_bounds(declared))

    def _take(self, content: Content) -> None:
        self.mean_, self.grid_ = content.tensors["mean"], content.grid("mean")


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

    def plan(self, rows: int, declared: Schema) -> Plan:
        """A replaced row leaves one cell of each column and enters another; an added one only enters."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        cells = Fraction(2 if self.neighbours == "replace-one" else 1)
        guarantee, dimension = self._guarantee(declared), len(declared.names(self.encoding))
        mechanism: Mechanism
        if guarantee.delta > 0:
            l2 = l2_sensitivity(cells, columns, unit)
            mechanism = Gaussian(l2, guarantee.epsilon, guarantee.delta, dimension, integer_grid=1.0)
        else:
            mechanism = Laplace(l1_sensitivity(cells, columns, unit), guarantee.epsilon, dimension, integer_grid=1.0)
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.neighbours not in NEIGHBOURS:
            raise InvalidParameter(f"neighbours must be one of {', '.join(NEIGHBOURS)}.", "Use one of these words.")

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

    @classmethod
    def tensor_rules(cls, declared: Schema) -> Mapping[str, TensorRule]:
        """One count a cell."""
        return {"counts": TensorRule(len(declared.names(cls.encoding)), np.int64)}

    @classmethod
    def values_fit(cls, content: Content, declared: Schema) -> bool:
        """Counts are no larger than noise can make them."""
        return lie_within(content.tensors["counts"], -LARGEST_COUNT, LARGEST_COUNT)

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
            return Number(
                float(low), float(high), bins=tuple(np.linspace(low, high, int(self.bins) + 1)[1:-1].tolist())
            )
        if not isinstance(self.bins, Sequence | np.ndarray) or isinstance(self.bins, str):
            raise InvalidParameter("bins must be a number of bins or a list of inner edges.", "Use for example 10.")
        return Number(float(low), float(high), bins=tuple(self.bins))


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

    def plan(self, rows: int, declared: Schema) -> Plan:
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

    @classmethod
    def tensor_rules(cls, declared: Schema) -> Mapping[str, TensorRule]:
        """One mean and one deviation a column."""
        return dict.fromkeys(("mean", "scale"), TensorRule(len(declared.features), np.float64))

    @classmethod
    def values_fit(cls, content: Content, declared: Schema) -> bool:
        """Means lie within the bounds, deviations between a step of the grid and half of the range; both on one grid."""
        low, high = natural_bounds(declared)
        grid, mean, scale = content.grid("mean"), content.tensors["mean"], content.tensors["scale"]
        return (
            content.grid("scale") == grid and lie_within(mean, low, high) and lie_within(scale, grid, (high - low) / 2)
        )

    def _take(self, content: Content) -> None:
        self.mean_, self.scale_, self.grid_ = content.tensors["mean"], content.tensors["scale"], content.grid("mean")
        self._set_bounds()


def exact_moments(scaled: Floats, step: float) -> Floats:
    """Exact sums of z and of z² rounded, where z in [−1, 1] is twice the scaled value less one, on the fixed-point grid."""
    z = np.rint((2 * scaled - 1) / step) * step
    return exact_sums(np.hstack([z, z * z]), step)


def public_grid(noise_scale: float, ranges: Floats) -> float:
    """A power of two far below the noise on the narrowest column, and far below its range: where released numbers lie."""
    exponents = math.frexp(min(1.0, noise_scale))[1] + math.frexp(float(ranges.min()))[1] - 2
    return math.ldexp(1.0, max(exponents - _GRID_BITS, -1074))


def on_grid_within(values: Floats, low: Floats | float, high: Floats, grid: float) -> Floats:
    """Values rounded to the multiples of the grid that lie from low to high."""
    rounded = on_grid(np.clip(values, low, high), grid)
    rounded = np.where(rounded < low, rounded + grid, rounded)
    return np.where(rounded > high, rounded - grid, rounded)


def lie_within(values: NDArray[Any], low: Floats | float, high: Floats | float) -> bool:
    """Whether all values lie from low to high; what is not a number does not."""
    return bool(np.all((values >= low) & (values <= high)))


def proportions(counts: NDArray[np.int64]) -> Floats:
    """Counts without their negative part, divided by their sum; equal shares when nothing is left."""
    kept = np.maximum(counts, 0).astype(np.float64)
    total = kept.sum()
    return kept / total if total > 0 else np.full(len(kept), 1 / len(kept))

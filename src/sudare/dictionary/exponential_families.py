"""Exponential families behind one interface: sufficient statistics, log density, MAP update (Ide 2021, section 1.2.3).

A pattern is one distribution of a family. Members need nothing of each other's records but N_k = Σ r and
T_k = Σ r·T(x) (1.16); from these two sums every member computes the same next patterns (1.17).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sudare.array_types import Booleans, Floats
from sudare.errors import InvalidParameter

# Below this a weight counts as zero; its logarithm is still a number.
SMALLEST_WEIGHT: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Patterns:
    """The parameters of K patterns: named arrays whose first axis is the pattern."""

    arrays: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, name: str) -> Floats:
        return self.arrays[name]

    def kept(self, chosen: NDArray[np.intp] | Booleans) -> Patterns:
        """Those that an index array or a mask chooses, in its order."""
        return Patterns({name: array[chosen] for name, array in self.arrays.items()})

    def joined(self, others: Patterns) -> Patterns:
        """These and then the others."""
        return Patterns({name: np.concatenate([array, others[name]]) for name, array in self.arrays.items()})


@dataclass(frozen=True, eq=False)
class Overall:
    """What the opening sums say about all records together, in the units of the columns.

    `covariance` has zeros off the diagonal where the family did not ask for more.
    """

    rows: int
    mean: Floats
    covariance: Floats

    @property
    def deviation(self) -> Floats:
        """Standard deviations of the columns."""
        return np.sqrt(np.diag(self.covariance))


@dataclass(frozen=True, eq=False)
class Frame:
    """The common coordinates z = (x − centre)/scale in which a training computes."""

    centre: Floats
    scale: Floats

    def applied(self, X: Floats) -> Floats:
        """Records in these coordinates."""
        return np.asarray((X - self.centre) / self.scale, dtype=np.float64)

    def undone(self, Z: Floats) -> Floats:
        """Records in the units of the columns."""
        return np.asarray(Z * self.scale + self.centre, dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Expected:
    """What one pass over records gives (1.13, 1.57): N_k, T_k for every pattern, and the log-likelihood."""

    counts: Floats
    statistics: Floats
    log_likelihood: float

    def __add__(self, other: Expected) -> Expected:
        return Expected(
            self.counts + other.counts,
            self.statistics + other.statistics,
            self.log_likelihood + other.log_likelihood,
        )


@dataclass(frozen=True)
class Family(ABC):
    """One family, with the constants of its prior. Methods are pure; patterns and records are in a frame's coordinates."""

    name: ClassVar[str]
    # Whether the opening sums include the products of all pairs of columns.
    opens_with_pairs: ClassVar[bool] = False

    def fault(self, X: Floats) -> str | None:
        """Why records cannot be of this family, without a value of theirs; None if they can, as any finite numbers by default."""
        return None

    def opening(self, X: Floats) -> Floats:
        """The columns whose sums open a training; for most families, all as they are."""
        return X

    def opening_bounds(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Declared bounds of those columns."""
        return low, high

    @abstractmethod
    def frame(self, overall: Overall) -> Frame:
        """Coordinates in which columns are of order one."""

    @abstractmethod
    def statistics(self, Z: Floats) -> Floats:
        """T(x) of every record, one a row."""

    @abstractmethod
    def statistic_limits(self, overall: Overall) -> Floats:
        """Returns for each entry of T a bound on |Σ r·T(x)| over all records."""

    @abstractmethod
    def whole(self, overall: Overall) -> Floats:
        """Σ T(x) over all records as the opening sums tell it, NaN where they do not: all patterns' T_k must add up to it."""

    def log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """ln f(x | θ_k), records × patterns; by default the sum over columns, which are independent."""
        return np.asarray(self.conditional_log_densities(Z, patterns).sum(axis=2))

    @abstractmethod
    def conditional_log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """ln f(x_i | all other columns, θ_k), records × patterns × columns."""

    @abstractmethod
    def updated(self, counts: Floats, statistics: Floats, previous: Patterns | None = None) -> Patterns:
        """The patterns that maximise (1.17); `previous` may only make it faster."""

    @abstractmethod
    def log_prior(self, patterns: Patterns) -> float:
        """Σ ln p(θ_k) up to a constant per pattern."""

    def free_parameters(self, patterns: Patterns) -> int:
        """How many numbers describe them, for BIC; by default all."""
        return sum(array.size for array in patterns.arrays.values())

    def description_length(self, counts: Floats, statistics: Floats, patterns: Patterns, rows: int) -> float:
        """What BIC pays for the patterns, in units of −2 ln L; `counts` and `statistics` are the totals they came from."""
        return math.log(rows) * self.free_parameters(patterns)

    @abstractmethod
    def start(self, points: Floats, overall: Overall) -> Patterns:
        """One pattern around each point of a standard normal cloud, from the opening sums alone."""

    @abstractmethod
    def halves(self, pattern: Patterns, direction: Floats | None) -> Patterns:
        """Two patterns in the place of one, apart along a direction in standard units; None is the family's own choice."""

    def natural(self, patterns: Patterns, frame: Frame) -> Patterns:
        """Returns the patterns in the units of the columns; by default the frame's coordinates have these."""
        return patterns

    def framed(self, patterns: Patterns, frame: Frame) -> Patterns:
        """Patterns in the units of the columns, in a frame's coordinates: the inverse of `natural`."""
        return self.natural(patterns, Frame(-frame.centre / frame.scale, 1 / frame.scale))

    @abstractmethod
    def draws(self, patterns: Patterns, index: int, uniforms: Floats) -> Floats:
        """Records of one pattern from uniform numbers, one row a record, one column a column."""

    def log_joint(self, Z: Floats, weights: Floats, patterns: Patterns) -> Floats:
        """ln π_k f(x | θ_k), records × patterns."""
        return self.log_densities(Z, patterns) + log_weights(weights)

    def responsibilities(self, Z: Floats, weights: Floats, patterns: Patterns) -> Floats:
        """r (1.11), records × patterns; rows add up to one."""
        log_joint = self.log_joint(Z, weights, patterns)
        return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))

    def expected(self, Z: Floats, weights: Floats, patterns: Patterns) -> Expected:
        """One pass over records: responsibilities (1.11), summed."""
        log_joint = self.log_joint(Z, weights, patterns)
        log_total = logsumexp(log_joint, axis=1, keepdims=True)
        shares = np.exp(log_joint - log_total)
        return Expected(shares.sum(axis=0), shares.T @ self.statistics(Z), float(np.sum(log_total)))

    def moderated(self, patterns: Patterns, counts: Floats) -> Patterns:
        """Final patterns, improved by what they have in common; matters where a family knows how."""
        return patterns

    @property
    def rounding(self) -> float:
        """How far the objective may fall by rounding alone, relative to its size or to the number of records."""
        return 1e-7

    def for_patterns(self, chosen: NDArray[np.intp]) -> Self:
        """The family when only some of the patterns stay; matters where it knows something of each."""
        return self


def log_weights(weights: Floats) -> Floats:
    """ln π, very negative where π is zero."""
    return np.asarray(np.log(np.maximum(weights, SMALLEST_WEIGHT)))


def positive(name: str, value: float) -> None:
    """Raise InvalidParameter unless a prior's constant is a positive finite number."""
    if not 0 < value < math.inf:
        raise InvalidParameter(f"{name} must be above 0, got {value!r}.", "Leave it out for the default.")


@lru_cache(maxsize=8)
def upper_triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the entries i ≤ j of a matrix, read-only; kept, since every iteration asks for them."""
    rows, columns = np.triu_indices(size)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


def symmetric(triangle: Floats, size: int) -> Floats:
    """Symmetric matrices from upper triangles in the last axis."""
    matrices = np.zeros((*triangle.shape[:-1], size, size))
    rows, columns = upper_triangle(size)
    matrices[..., rows, columns] = triangle
    matrices[..., columns, rows] = triangle
    return matrices

"""Patterns of independent columns that are not normal: counts (Poisson), positive amounts (Gamma), codes (categorical)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from scipy.special import digamma, gammaincinv, gammaln, ndtri, polygamma
from scipy.stats import poisson

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import Family, Frame, Overall, Patterns, positive
from sudare.errors import InvalidParameter

_EULER: Final = float(np.euler_gamma)
_LARGEST_LOG: Final = 745.0
_NEWTON_STEPS: Final = 60
# Halves of a split pattern differ by e^±½ in their parameters; a start may be as far from the overall mean as e^±2.
_SPLIT_LOG: Final = 0.5
_START_LOG: Final = 2.0
_CLIPPED_QUANTILES: Final = (0.025, 0.975)
_LARGE_RATE: Final = 1e6
_LEAST_UNIFORM: Final = 2.0**-53


@dataclass(frozen=True)
class ColumnFamily(Family):
    """Independent columns, with one constant of the prior.

    A private training clips the *relative* statistics of a record: affine functions of T(x), none negative, in coordinates in which a
    reference pattern makes them of order one.
    """

    # The least width of the interval that a relative statistic is clipped to.
    least_width: ClassVar[float] = 1e-6
    # Whether a private training asks for centre and spread of the columns first.
    opens_privately: ClassVar[bool] = True

    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        positive("shrinkage", self.shrinkage)

    def fault_of_bounds(self, low: Floats, high: Floats) -> str | None:
        """Why records within declared bounds may not be of this family, so that clipping could make faults; None if they are."""
        return None

    @abstractmethod
    def relative_statistics(self, Z: Floats, reference: Patterns) -> Floats:
        """Relative statistics of every record for one reference pattern, one record a row."""

    @abstractmethod
    def mean_statistics(self, relative: Floats, reference: Patterns, least: Floats) -> Floats:
        """The mean of T(x) from that of the relative statistics; what cannot be zero or less is at least `least`."""

    @abstractmethod
    def reference(self, overall: Overall) -> Patterns:
        """One pattern whose coordinates suit all records together."""

    def within(self, means: Floats, low: Floats, high: Floats) -> Floats:
        """Means of T(x) that records within bounds can have, patterns × statistics, bounds in the same coordinates."""
        return np.clip(means, np.maximum(low, 1e-9), high)

    def statistic_count(self, columns: int) -> int:
        """How many numbers T(x) has."""
        return columns

    def longest(self, columns: int) -> float:
        """A bound on the length of relative statistics that are each within ±1."""
        return math.sqrt(self.statistic_count(columns))

    def intervals(self, relative: Floats) -> tuple[Floats, Floats]:
        """Centres and half widths of the intervals that relative statistics like these are clipped to: their middle 95 of 100."""
        low, high = np.quantile(relative, _CLIPPED_QUANTILES, axis=0)
        half = np.maximum(high - low, self.least_width) / 2
        return low + half, half


@dataclass(frozen=True)
class Poisson(ColumnFamily):
    """Counts with rate λ in each column. The prior is λ₀ records of count one: λ = (Σ r x + λ₀)/(N + λ₀)."""

    name: ClassVar[str] = "poisson"
    least_width: ClassVar[float] = 1.0

    def fault(self, X: Floats) -> str | None:
        """Whole numbers from zero."""
        return None if np.all((X >= 0) & (np.floor(X) == X)) else "Poisson patterns need whole numbers from 0"

    def fault_of_bounds(self, low: Floats, high: Floats) -> str | None:
        """Whole numbers from zero, so that a clipped count is a count."""
        return self.fault(np.stack([low, high]))

    def frame(self, overall: Overall) -> Frame:
        """Counts as they are."""
        return Frame(np.zeros_like(overall.mean), np.ones_like(overall.mean))

    def statistics(self, Z: Floats) -> Floats:
        """The counts."""
        return Z

    def statistic_limits(self, overall: Overall) -> Floats:
        """No count is negative, so parts of a sum are at most the whole, which the opening sums tell."""
        return overall.rows * np.maximum(overall.mean, 1 / overall.rows)

    def whole(self, overall: Overall) -> Floats:
        """All counts."""
        return overall.rows * overall.mean

    def conditional_log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """x ln λ − λ − ln x!"""
        rates = patterns["rates"]
        counts = Z[:, np.newaxis]
        return np.asarray(counts * np.log(rates) - rates - gammaln(counts + 1))

    def updated(self, counts: Floats, statistics: Floats, previous: Patterns | None = None) -> Patterns:
        """The mean count, drawn a little towards one."""
        return Patterns({"rates": (statistics + self.shrinkage) / (counts + self.shrinkage)[:, np.newaxis]})

    def log_prior(self, patterns: Patterns) -> float:
        """λ₀ Σ (ln λ − λ)."""
        return float(self.shrinkage * (np.log(patterns["rates"]) - patterns["rates"]).sum())

    def relative_statistics(self, Z: Floats, reference: Patterns) -> Floats:
        """The counts."""
        return Z

    def mean_statistics(self, relative: Floats, reference: Patterns, least: Floats) -> Floats:
        """The mean counts."""
        return np.maximum(relative, least)

    def reference(self, overall: Overall) -> Patterns:
        """The overall mean."""
        return Patterns({"rates": np.maximum(overall.mean, 1 / overall.rows)[np.newaxis]})

    def start(self, points: Floats, overall: Overall) -> Patterns:
        """Rates around the overall mean, as far as the records as a whole are spread."""
        mean = np.maximum(overall.mean, 1 / overall.rows)
        logs = np.clip(points * overall.deviation / mean, -_START_LOG, _START_LOG)
        return Patterns({"rates": mean * np.exp(logs)})

    def halves(self, pattern: Patterns, direction: Floats | None) -> Patterns:
        """Rates times e^±½ along the direction."""
        return Patterns({"rates": pattern["rates"][0] * apart(direction, pattern["rates"].shape[1])})

    def draws(self, patterns: Patterns, index: int, uniforms: Floats) -> Floats:
        """Quantiles; of large rates by the first terms of Cornish and Fisher's expansion, which SciPy takes a minute for."""
        rates = patterns["rates"][index]
        exact = poisson.ppf(uniforms, np.minimum(rates, _LARGE_RATE))
        normal = ndtri(np.clip(uniforms, _LEAST_UNIFORM, 1 - _LEAST_UNIFORM))
        near = np.ceil(rates + np.sqrt(rates) * normal + (normal**2 - 1) / 6 - 0.5)
        return np.asarray(np.where(rates > _LARGE_RATE, near, exact), dtype=np.float64)


@dataclass(frozen=True)
class Gamma(ColumnFamily):
    """Positive amounts with shape a and rate b. The prior is λ₀ records like exponential ones of overall mean."""

    name: ClassVar[str] = "gamma"

    def fault(self, X: Floats) -> str | None:
        """Above zero."""
        return None if np.all(X > 0) else "Gamma patterns need numbers above 0"

    def fault_of_bounds(self, low: Floats, high: Floats) -> str | None:
        """Above zero, so that a clipped amount has a logarithm."""
        return self.fault(low)

    def frame(self, overall: Overall) -> Frame:
        """Overall mean 1."""
        return Frame(np.zeros_like(overall.mean), overall.mean)

    def statistics(self, Z: Floats) -> Floats:
        """x and ln x."""
        return np.hstack([Z, np.log(Z)])

    def statistic_limits(self, overall: Overall) -> Floats:
        """Amounts add up to N; logarithms of positive floats are within ±745."""
        return overall.rows * np.repeat([1.0, _LARGEST_LOG], len(overall.mean))

    def whole(self, overall: Overall) -> Floats:
        """Mean one; nothing was asked about logarithms."""
        return overall.rows * np.repeat([1.0, np.nan], len(overall.mean))

    def conditional_log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """a ln b − ln Γ(a) + (a−1) ln x − bx."""
        shapes, rates = patterns["shapes"], patterns["rates"]
        amounts = Z[:, np.newaxis]
        return np.asarray(shapes * np.log(rates) - gammaln(shapes) + (shapes - 1) * np.log(amounts) - rates * amounts)

    def updated(self, counts: Floats, statistics: Floats, previous: Patterns | None = None) -> Patterns:
        """ln a − ψ(a) = ln mean − mean of ln, by Newton; b = a/mean."""
        totals = (counts + self.shrinkage)[:, np.newaxis]
        sums, logs = np.hsplit(statistics, 2)
        means = (sums + self.shrinkage) / totals
        shapes = gamma_shapes(np.log(means) - (logs - self.shrinkage * _EULER) / totals)
        return Patterns({"shapes": shapes, "rates": shapes / means})

    def log_prior(self, patterns: Patterns) -> float:
        """λ₀ times the log density at x = 1, ln x = −γ: the mean of both for exponential records of mean 1."""
        shapes, rates = patterns["shapes"], patterns["rates"]
        expected = shapes * np.log(rates) - gammaln(shapes) - (shapes - 1) * _EULER - rates
        return float(self.shrinkage * expected.sum())

    def relative_statistics(self, Z: Floats, reference: Patterns) -> Floats:
        """y = x/m and y − 1 − ln y, where m is the reference's mean: how large, and how far from m.

        x and ln x nearly say the same where a pattern is narrow, and noise on both would drown the difference, which the shape is about.
        """
        amounts = Z * (reference["rates"][0] / reference["shapes"][0])
        return np.hstack([amounts, amounts - 1 - np.log(amounts)])

    def mean_statistics(self, relative: Floats, reference: Patterns, least: Floats) -> Floats:
        """Mean amounts, and logarithms below theirs (Jensen)."""
        amounts, distances = np.split(np.maximum(relative, least), 2)
        below = np.maximum(np.log(amounts) - amounts + 1 + distances, np.split(least, 2)[1])
        means = amounts * (reference["shapes"][0] / reference["rates"][0])
        return np.concatenate([means, np.log(means) - below])

    def reference(self, overall: Overall) -> Patterns:
        """Overall mean, and variance: one in the frame's coordinates, and its square relative to the mean."""
        shapes = (overall.mean / overall.deviation) ** 2
        return Patterns({"shapes": shapes[np.newaxis], "rates": shapes[np.newaxis]})

    def within(self, means: Floats, low: Floats, high: Floats) -> Floats:
        """Amounts within bounds; logarithms stay as far below as they are."""
        amounts, logs = np.hsplit(means, 2)
        inside = np.clip(amounts, low, high)
        return np.hstack([inside, logs + np.log(inside / amounts)])

    def statistic_count(self, columns: int) -> int:
        """Two a column."""
        return 2 * columns

    def start(self, points: Floats, overall: Overall) -> Patterns:
        """Means around one, as far as the records as a whole are spread; twice as narrow as those."""
        variation = overall.deviation / overall.mean
        shapes = np.broadcast_to(2 / variation**2, points.shape)
        means = np.exp(np.clip(points * variation, -_START_LOG, _START_LOG))
        return Patterns({"shapes": shapes.copy(), "rates": shapes / means})

    def halves(self, pattern: Patterns, direction: Floats | None) -> Patterns:
        """Means times e^±½ along the direction."""
        shapes = np.repeat(pattern["shapes"], 2, axis=0)
        return Patterns({"shapes": shapes, "rates": pattern["rates"][0] * apart(direction, shapes.shape[1])})

    def natural(self, patterns: Patterns, frame: Frame) -> Patterns:
        """The rate has the inverse of the column's unit."""
        return Patterns({"shapes": patterns["shapes"], "rates": patterns["rates"] / frame.scale})

    def draws(self, patterns: Patterns, index: int, uniforms: Floats) -> Floats:
        """Quantiles."""
        amounts = gammaincinv(patterns["shapes"][index], uniforms) / patterns["rates"][index]
        return np.maximum(np.asarray(amounts, dtype=np.float64), np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Categorical(ColumnFamily):
    """Codes 0 … V−1 in each column, with λ₀ added to every level's count. `levels` is V, column by column."""

    name: ClassVar[str] = "categorical"
    opens_privately: ClassVar[bool] = False

    levels: tuple[int, ...] = ()

    def fault(self, X: Floats) -> str | None:
        """Whole numbers below the number of levels."""
        inside = (X >= 0) & (np.array(self.levels) > X) & (np.floor(X) == X)
        return None if np.all(inside) else "categorical patterns need the codes 0 … V−1 of declared levels"

    def opening(self, X: Floats) -> Floats:
        """A one for the level of each column."""
        return self.statistics(X)

    def opening_bounds(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Zero or one."""
        return np.zeros(sum(self.levels)), np.ones(sum(self.levels))

    def frame(self, overall: Overall) -> Frame:
        """Codes as they are."""
        return Frame(np.zeros(len(self.levels)), np.ones(len(self.levels)))

    def statistics(self, Z: Floats) -> Floats:
        """A one for the level of each column."""
        if len(self.levels) != Z.shape[1]:
            raise InvalidParameter("Categorical patterns need the number of levels of every column.", "Give a schema.")
        hot = np.zeros((len(Z), sum(self.levels)))
        rows = np.arange(len(Z))
        for column, start in enumerate(self._starts()):
            hot[rows, start + Z[:, column].astype(np.intp)] = 1.0
        return hot

    def statistic_limits(self, overall: Overall) -> Floats:
        """Counts."""
        return np.full(sum(self.levels), float(overall.rows))

    def whole(self, overall: Overall) -> Floats:
        """How often each level occurs."""
        return overall.rows * overall.mean

    def conditional_log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """ln of the probability of each column's level."""
        logs = np.log(patterns["probabilities"])
        codes = Z.astype(np.intp) + self._starts()
        return np.asarray(np.moveaxis(logs[:, codes], 0, 1))

    def updated(self, counts: Floats, statistics: Floats, previous: Patterns | None = None) -> Patterns:
        """Shares of the levels."""
        return Patterns({"probabilities": self._normal(statistics + self.shrinkage)})

    def relative_statistics(self, Z: Floats, reference: Patterns) -> Floats:
        """A one for the level of each column."""
        return self.statistics(Z)

    def mean_statistics(self, relative: Floats, reference: Patterns, least: Floats) -> Floats:
        """The levels' shares, which add up to one in every column."""
        return np.asarray(self._normal(np.maximum(relative, least)[np.newaxis])[0])

    def reference(self, overall: Overall) -> Patterns:
        """Levels that are equally frequent."""
        return Patterns({"probabilities": self._normal(np.ones((1, sum(self.levels))))})

    def within(self, means: Floats, low: Floats, high: Floats) -> Floats:
        """Shares are within bounds as they are."""
        return means

    def statistic_count(self, columns: int) -> int:
        """One a level."""
        return sum(self.levels)

    def longest(self, columns: int) -> float:
        """One level of a column has a one, the others zeros."""
        return math.sqrt(columns)

    def intervals(self, relative: Floats) -> tuple[Floats, Floats]:
        """Zeros and ones need no clipping."""
        return np.zeros(sum(self.levels)), np.ones(sum(self.levels))

    def log_prior(self, patterns: Patterns) -> float:
        """λ₀ Σ ln p."""
        return float(self.shrinkage * np.log(patterns["probabilities"]).sum())

    def free_parameters(self, patterns: Patterns) -> int:
        """V − 1 for each column."""
        return len(patterns) * sum(count - 1 for count in self.levels)

    def start(self, points: Floats, overall: Overall) -> Patterns:
        """Overall shares, tilted."""
        shares = np.maximum(overall.mean, 1 / overall.rows)
        return Patterns({"probabilities": self._normal(shares * np.exp(np.clip(points, -_START_LOG, _START_LOG)))})

    def halves(self, pattern: Patterns, direction: Floats | None) -> Patterns:
        """Shares tilted both ways; without a direction, levels alternately up and down."""
        size = pattern["probabilities"].shape[1]
        along = np.where(np.arange(size) % 2, 1.0, -1.0) if direction is None else direction
        return Patterns({"probabilities": self._normal(pattern["probabilities"][0] * apart(along, size))})

    def draws(self, patterns: Patterns, index: int, uniforms: Floats) -> Floats:
        """Quantiles of the codes."""
        parts = np.split(patterns["probabilities"][index], self._starts()[1:])
        codes = [np.searchsorted(np.cumsum(part)[:-1], uniforms[:, i], side="right") for i, part in enumerate(parts)]
        return np.stack(codes, axis=1).astype(np.float64)

    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.levels)[:-1]]).astype(np.intp)

    def _normal(self, weights: Floats) -> Floats:
        """Divided by the sum over each column's levels."""
        totals = np.add.reduceat(weights, self._starts(), axis=1)
        return np.asarray(weights / np.repeat(totals, self.levels, axis=1))


def gamma_shapes(distances: Floats) -> Floats:
    """The a with ln a − ψ(a) = s, by Newton on 1/a from Minka's (2002) start; s is kept above zero."""
    s = np.maximum(distances, 1e-12)
    shapes = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    for _ in range(_NEWTON_STEPS):
        excess = np.log(shapes) - digamma(shapes) - s
        following = 1 / (1 / shapes + excess / (shapes**2 * (1 / shapes - polygamma(1, shapes))))
        moved = np.max(np.abs(following / shapes - 1), initial=0.0)
        shapes = following
        if moved < 1e-14:
            break
    return np.asarray(shapes)


def apart(direction: Floats | None, size: int) -> Floats:
    """Two rows of factors e^±½ along a direction; without one, all columns alike."""
    along = np.ones(size) if direction is None else direction * np.sqrt(size) / np.linalg.norm(direction)
    return np.exp(_SPLIT_LOG * np.stack([along, -along]))

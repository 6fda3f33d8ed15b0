"""(ε, δ)-DP additive models by boosting on noisy histograms, replace-one rows. Proof: proofs/additive_boosting.md.

A row has one bin in every column. First the rows in each bin are counted, with noise. Then every step adds up, in each bin, what its rows would correct, with
noise that is the larger the more rows a bin has: the noise of a step is as large beside a bin's rows in a rare bin as in a common one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.rows import BLOCK_ROWS, Rows
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts, LinearMechanism, public_grid
from sudare.privacy.accounting import Cost, gaussian_cost, gaussian_mu_within, rounded_up, rounded_up_root
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

_SUM_BITS: Final = 52
_NOISE_BITS: Final = 30
# Weights of bins are whole multiples of 2⁻¹⁰, from ¼ to 2¹⁰; the average one is about 1.
WEIGHT_STEPS: Final = 2.0**10
_LEAST_WEIGHT: Final = 2.0**8
_LARGEST_WEIGHT: Final = 2.0**20
# From so many rows times μ on slopes are clipped at the recipe's clip, and below at half of it at least.
LARGE_SIGNAL: Final = 4000.0
# How large the log-odds of all rows together are thought to be.
CONSTANT_SCALE: Final = 1.5
# A bin with less signal than this beside its noise keeps a shape of nearly zero.
_LEAST_RATIO: Final = 1e-3
# From so many rows over the noise of a column's sum on penalties follow the shapes that were found: with fewer, what is found is mostly noise.
_ADAPTIVE_SIGNAL: Final = 2000.0
# The variance, beforehand, of the squared size of a column's shapes over that of the usual one, and between what it is taken to be.
_USUAL_SPREAD: Final = 0.1
_SMALLEST_SQUARE: Final = 0.1
_LARGEST_SQUARE: Final = 16.0
# Noise of 61 bits is the most that a sum of whole numbers takes.
_MOST_STEPS: Final = 2.0**61


@dataclass(frozen=True)
class BoostingRecipe:
    """Public numbers of a boosting run, found on held-out training rows of Adult; `benchmarks.additive_boosting` has others beside them.

    `rate` is that of one column: the more columns move at once, the less each. `clip` is in units of a slope, `count_share` the part of μ² for counts,
    `shape_scale` how large the log-odds of a bin are thought to be at first, `curvature` that of a typical row. Steps after `settled` tell how large
    the shapes of each column are, and penalties follow that from step `adapted` on, where there are enough rows.
    """

    steps: int = 40
    rate: float = 0.55
    momentum: float = 0.8
    averaged: int = 20
    clip: float = 0.5
    count_share: Fraction = Fraction(1, 16)
    shape_scale: float = 0.5
    curvature: float = 0.125
    settled: int = 6
    adapted: int = 12


@dataclass(frozen=True)
class BoostingFacts:
    """What everybody may know of a run before its first sum; the noise of sums comes from one source or, among members, from many.

    `sizes` are the bins of each column, `directions` how its shape must go: 1 up, −1 down, 0 either way. The first `ordered` bins of a column are in
    order; a bin of missing values comes after them. `count_deviation` is σ of the noise on counts, `averaged_deviation` that on weighted sums, averaged
    over all steps.
    """

    rows: int
    outputs: int
    sizes: tuple[int, ...]
    directions: tuple[int, ...]
    ordered: tuple[int, ...]
    recipe: BoostingRecipe
    count_deviation: float
    averaged_deviation: float

    @property
    def columns(self) -> int:
        """d: a row has so many bins."""
        return len(self.sizes)

    @property
    def width(self) -> int:
        """All bins of all columns."""
        return sum(self.sizes)

    @property
    def noise_scale(self) -> float:
        """Standard deviation that the noise alone gives a parameter of a bin of average size and weight, without a penalty."""
        return self.averaged_deviation * self.width / (self.rows * self.columns * self.recipe.curvature)


def row_clip(recipe: BoostingRecipe, columns: int, signal: float) -> float:
    """C: the largest norm of what a row adds to a weighted sum; the more noise, the smaller, as in plain descent. `signal` is μ times rows a unit."""
    share = recipe.clip * min(1.0, max(0.5, math.sqrt(math.sqrt(signal / LARGE_SIGNAL))))
    return float(share * math.sqrt(columns))


@dataclass(frozen=True)
class AdditiveBoosting(LinearMechanism):
    """(ε, δ)-DP shapes of an additive model by boosting on noisy histograms, replace-one rows. Proof: proofs/additive_boosting.md.

    `sizes`, `directions` and `ordered` are those of `BoostingFacts`.
    """

    facts: Facts
    epsilon: float
    delta: float
    sizes: tuple[int, ...]
    directions: tuple[int, ...] = ()
    ordered: tuple[int, ...] = ()
    recipe: BoostingRecipe = BoostingRecipe()

    def __post_init__(self) -> None:
        counts, sums = self.facts.rows / self._count_grid, 2.0**_SUM_BITS * self._finer
        if max(counts, sums) > _MOST_STEPS or not 2.0**-300 < self._deviation < 2.0**300:
            raise InvalidParameter(
                "So many rows with so little noise do not fit into 64 bits.", "Use a smaller epsilon or delta."
            )

    @property
    def columns(self) -> int:
        """d: a row has so many bins."""
        return len(self.sizes)

    @cached_property
    def _clip(self) -> float:
        """C: the largest norm of what a row adds to a weighted sum."""
        signal = gaussian_mu_within(self.epsilon, self.delta) * self.facts.rows / self.facts.rows_per_unit
        return row_clip(self.recipe, self.columns, signal)

    @cached_property
    def count_deviation(self) -> float:
        """σ of the noise on counts: a replaced row leaves a bin of every column and enters another."""
        moved = Fraction(rounded_up_root(2 * self.columns / self.recipe.count_share)) * self.facts.rows_per_unit
        return rounded_up(moved / Fraction(gaussian_mu_within(self.epsilon, self.delta)))

    @cached_property
    def _deviation(self) -> float:
        """σ of the noise on weighted sums: all steps together have what the counts leave of μ²."""
        root = rounded_up_root(self.recipe.steps / (1 - self.recipe.count_share))
        moved = Fraction(2 * self._clip) * self.facts.rows_per_unit * Fraction(root)
        return rounded_up(moved / Fraction(gaussian_mu_within(self.epsilon, self.delta)))

    @cached_property
    def _slope_grid(self) -> float:
        """A power of two such that sums of all rows stay within 52 bits."""
        return 2 * power_of_two_below(self.facts.rows * self._clip * WEIGHT_STEPS * 2.0**-_SUM_BITS)

    @cached_property
    def _noise_grid(self) -> float:
        """Grid of the noisy sums: that of the sums, or finer where the noise needs it."""
        return min(self._slope_grid / WEIGHT_STEPS, power_of_two_below(self._deviation) * 2.0**-_NOISE_BITS)

    @property
    def _finer(self) -> float:
        return self._slope_grid / WEIGHT_STEPS / self._noise_grid

    @cached_property
    def _count_grid(self) -> float:
        return min(1.0, power_of_two_below(self.count_deviation) * 2.0**-_NOISE_BITS)

    @cached_property
    def _scales_in_steps(self) -> tuple[float, float]:
        """σ of counts and of sums in steps of their grids."""
        pairs = (self.count_deviation, self._count_grid), (self._deviation, self._noise_grid)
        counts, sums = (rounded_up(Fraction(deviation) / Fraction(grid)) for deviation, grid in pairs)
        return counts, sums

    @cached_property
    def cost(self) -> Cost:
        """Gaussian: counts and steps compose as one."""
        counts, sums = map(Fraction, self._scales_in_steps)
        numbers = self.recipe.steps * self.facts.outputs * self.facts.width
        return gaussian_cost(self.epsilon, self.delta, self.facts.width / (24 * counts**2) + numbers / (24 * sums**2))

    @cached_property
    def boosting_facts(self) -> BoostingFacts:
        """What is public of this run."""
        none = (0,) * self.columns
        shape = self.sizes, self.directions or none, self.ordered or none
        averaged = self._deviation / math.sqrt(self.recipe.steps)
        return BoostingFacts(self.facts.rows, self.facts.outputs, *shape, self.recipe, self.count_deviation, averaged)

    @property
    def noise_scale(self) -> float:
        """Standard deviation that the noise alone gives a parameter of a bin of average size and weight, without a penalty."""
        return self.boosting_facts.noise_scale

    @property
    def grid(self) -> float:
        """A power of two far below the noise."""
        return public_grid(self.noise_scale)

    def noisy_counts(self, rows: Rows, source: NoiseSource) -> Floats:
        """How many rows each bin has, with noise."""
        whole = rows.total(partial(_counted, self.facts.width))
        steps = whole * round(1 / self._count_grid)
        return source.gaussian(steps, self._scales_in_steps[0]).astype(np.float64) * self._count_grid

    def weighted_sum(self, rows: Rows, parameters: Floats, weights: Floats) -> Floats:
        """Σ slope·weight over the rows of each bin, a row's vector no longer than C; whole multiples of the slopes' grid, exact."""
        return rows.total(partial(self._of_block, parameters, weights))

    def _of_block(self, parameters: Floats, weights: Floats, positions: NDArray[Any], targets: Floats) -> Floats:
        return weighted_slopes(positions, targets, parameters, weights, self._slope_grid, self._clip)

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """Parameters after all steps from zero, averaged over the last ones, on the grid. Rows are positions of ones with targets."""
        counts = self.noisy_counts(rows, source)
        walk = BoostingState(self.boosting_facts, counts)
        for _ in range(self.recipe.steps):
            whole = self.weighted_sum(rows, walk.ahead, walk.weights).astype(np.int64) * round(self._finer)
            noisy = source.gaussian(whole.ravel(), self._scales_in_steps[1]).astype(np.float64) * self._noise_grid
            walk.take(noisy.reshape(walk.average.shape))
        return on_grid(walk.average, self.grid)

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """The parameters as one vector, from a matrix of positions with the targets as last columns."""
        outputs = self.facts.outputs
        positions = values[:, :-outputs].astype(np.uint32)
        return self.fitted(Rows.held(positions, values[:, -outputs:]), source).ravel()


def weighted_slopes(
    positions: NDArray[Any], targets: Floats, parameters: Floats, weights: Floats, slope_grid: float, clip: float
) -> Floats:
    """Σ slope·weight over the rows of each bin, in whole steps of `slope_grid` and of weights, exact; of no row longer than the clip.

    A row whose score is no number counts as zero: it would otherwise take the sum of all others with it.
    """
    from sudare.linear.clipped_gradient_kernels import add_weighted_at, scores_at

    loss, total = Logistic(), np.zeros(parameters.shape)
    for start in range(0, len(positions), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        bins = np.ascontiguousarray(positions[part])
        slopes = np.nan_to_num(loss.slope(scores_at(bins, parameters), targets[part]), nan=0.0)
        add_weighted_at(total, bins, slopes, weights, slope_grid, clip * WEIGHT_STEPS)
    return total


class BoostingState:
    """From noisy counts and sums to shapes: post-processing, with public numbers only. Every step moves all columns at once, and a constant."""

    def __init__(self, facts: BoostingFacts, counts: Floats) -> None:
        self._facts, self._recipe = facts, facts.recipe
        self._bin_rows = likely_bin_rows(facts, counts)
        ratios = signal_ratios(facts, self._bin_rows)
        self.weights = whole_weights(facts, self._bin_rows, ratios)
        self._curvatures = self._recipe.curvature * self._bin_rows
        self._penalties = self._curvatures / np.maximum(ratios, _LEAST_RATIO)
        # The sums of every column add up to the sum over all rows: the less noise they have together, the more a column counts.
        starts, sizes = np.cumsum((0, *facts.sizes[:-1])), np.array(facts.sizes)
        precisions = 1 / np.add.reduceat(self.weights**-2, starts)
        self._of_total = np.repeat(precisions / precisions.sum(), sizes)[:, np.newaxis]
        curvature = self._recipe.curvature * facts.rows
        total_variance = facts.averaged_deviation**2 / (precisions.sum() * WEIGHT_STEPS**-2)
        self._constant_curvature, self._constant_penalty = curvature, total_variance / (curvature * CONSTANT_SCALE**2)
        # What the sums so far say of each bin without a penalty, added up over the steps that have settled.
        shape = facts.outputs, facts.width
        self._unpenalised = np.zeros(shape)
        self._adapts = facts.rows * math.sqrt(facts.columns) >= _ADAPTIVE_SIGNAL * facts.averaged_deviation
        self._shapes, self._shape_velocity = np.zeros(shape), np.zeros(shape)
        self._constant, self._constant_velocity = np.zeros((shape[0], 1)), np.zeros((shape[0], 1))
        self.average, self._taken = np.zeros(shape), 0

    @property
    def ahead(self) -> Floats:
        """Returns the point at which the next sum is wanted (Nesterov)."""
        momentum = self._recipe.momentum
        shapes = self._shapes + momentum * self._shape_velocity
        return shapes + (self._constant + momentum * self._constant_velocity) / self._facts.columns

    def take(self, noisy: Floats) -> None:
        """Go a step, from a noisy weighted sum at `ahead`."""
        recipe, facts = self._recipe, self._facts
        rate, momentum = recipe.rate / facts.columns, recipe.momentum
        sums = noisy / (self.weights / WEIGHT_STEPS)
        ahead = self._shapes + momentum * self._shape_velocity
        if self._taken >= recipe.settled:
            self._unpenalised += ahead - sums / self._curvatures
        slopes = sums + self._penalties * ahead
        self._shape_velocity = momentum * self._shape_velocity - rate * slopes / (self._curvatures + self._penalties)
        total = sums @ self._of_total
        total = total + self._constant_penalty * (self._constant + momentum * self._constant_velocity)
        step = rate * total / (self._constant_curvature + self._constant_penalty)
        self._constant_velocity = momentum * self._constant_velocity - step
        self._shapes = monotone(self._shapes + self._shape_velocity, facts, self._bin_rows)
        self._constant = self._constant + self._constant_velocity
        self._taken += 1
        if self._adapts and self._taken >= recipe.adapted:
            self._adapt(self._taken - recipe.settled)
        if self._taken > recipe.steps - recipe.averaged:
            place = self._shapes + self._constant / facts.columns
            self.average = self.average + place / recipe.averaged

    def _adapt(self, looked: int) -> None:
        """Penalties that fit the size of the shapes of each column, as so many sums tell it: post-processing of them."""
        facts, recipe = self._facts, self._recipe
        found = self._unpenalised / looked
        # σ of a bin's found shape, from the noise of sums averaged over all steps.
        deviations = facts.averaged_deviation / (self.weights / WEIGHT_STEPS * self._curvatures)
        variances = deviations**2 * recipe.steps / looked
        squares = squared_scales(facts, found, variances, self._bin_rows)
        self._penalties = self._curvatures / np.maximum(squares / deviations**2, _LEAST_RATIO)


def squared_scales(facts: BoostingFacts, found: Floats, variances: Floats, bin_rows: Floats) -> Floats:
    """The likely squared size of the shapes of a bin's column, from noisy shapes and their variances; from a tenth of the usual one to sixteen times it.

    Shapes are taken about the mean over a column's rows, and each bin counts by the inverse of its variance and the usual squared size. What they tell
    is averaged with the usual size by precision: a column of few bins, or of much noise, keeps the usual one.
    """
    starts, sizes = np.cumsum((0, *facts.sizes[:-1])), np.array(facts.sizes)
    means = np.add.reduceat(bin_rows * found, starts, axis=1) / np.add.reduceat(bin_rows, starts)
    usual = facts.recipe.shape_scale**2
    excess = np.mean((found - np.repeat(means, sizes, axis=1)) ** 2, axis=0) - variances
    trusted = 1 / (variances + usual)
    total = np.add.reduceat(trusted, starts)
    precisions, prior = total**2 / (2 * sizes), 1 / (_USUAL_SPREAD * usual**2)
    squares = (precisions * np.add.reduceat(trusted * excess, starts) / total + prior * usual) / (precisions + prior)
    return np.repeat(np.clip(squares, _SMALLEST_SQUARE * usual, _LARGEST_SQUARE * usual), sizes)


def likely_bin_rows(facts: BoostingFacts, counts: Floats) -> Floats:
    """How many rows each bin has, likely: noisy counts drawn towards equal ones by as much as they are noise."""
    sizes = np.array(facts.sizes)
    equal = np.repeat(facts.rows / sizes, sizes)
    kept = equal**2 / (equal**2 + facts.count_deviation**2)
    return np.maximum(kept * counts + (1 - kept) * equal, kept * facts.count_deviation)


def signal_ratios(facts: BoostingFacts, bin_rows: Floats) -> Floats:
    """Squared size of a usual shape over that of the noise, for each bin, as weights will make it: K·rows − 1, or 0 where that is negative.

    Of all weights with which a typical row has a norm of √d these make the most of the shapes known. K is found by sorting.
    """
    recipe = facts.recipe
    usual = recipe.curvature * recipe.shape_scale
    variance = facts.averaged_deviation**2
    spent = facts.columns * facts.rows * usual**2 / variance
    needs = np.sort(1 / bin_rows)
    levels = (spent + np.cumsum(needs)) / np.arange(1, len(needs) + 1)
    level = levels[np.flatnonzero(levels > needs)[-1]]
    return np.asarray(np.maximum(level * bin_rows - 1, 0.0))


def whole_weights(facts: BoostingFacts, bin_rows: Floats, ratios: Floats) -> Floats:
    """A whole number for every bin, in steps of 2⁻¹⁰: the weight with which its sum has that ratio of signal to noise."""
    usual = facts.recipe.curvature * facts.recipe.shape_scale
    weights = np.sqrt(ratios) * facts.averaged_deviation / (usual * bin_rows)
    return np.clip(np.floor(weights * WEIGHT_STEPS), _LEAST_WEIGHT, _LARGEST_WEIGHT)


def monotone(parameters: Floats, facts: BoostingFacts, sizes: Floats) -> Floats:
    """The nearest parameters, bins weighted by their sizes, that go where `directions` say."""
    if not any(facts.directions):
        return parameters
    found, start = parameters.copy(), 0
    for size, ordered, direction in zip(facts.sizes, facts.ordered, facts.directions, strict=True):
        if direction:
            part = slice(start, start + ordered)
            for line in found:
                line[part] = isotonic_regression(line[part], sample_weight=sizes[part], increasing=direction > 0)
        start += size
    return found


def _counted(width: int, positions: NDArray[Any], targets: Floats) -> NDArray[np.int64]:
    return np.bincount(positions.ravel(), minlength=width).astype(np.int64)

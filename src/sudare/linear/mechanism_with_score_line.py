"""A linear mechanism whose scores are given their level and slope by noisy sums, within one charge. Proof: proofs/score_calibration.md."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.rows import BLOCK_ROWS, Rows
from sudare.linear.mechanism import Facts, LinearMechanism
from sudare.linear.noise_calibration import MOST_CUBE_COLUMNS
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.rows import RowLayout
from sudare.linear.score_calibration import (
    Recipe,
    Spread,
    association_values,
    expected_shares,
    level_values,
    log_odds_line,
    narrower,
    score_likeness,
    spread_values,
    target_line,
    with_line,
    with_means,
)
from sudare.linear.sufficient_statistics import SufficientStatistics
from sudare.linear.targets import one_vs_rest_probabilities
from sudare.privacy.accounting import (
    TOTAL_VARIATION_SHARE,
    Cost,
    approximate_cost,
    decimal_down,
    exact,
    gaussian_epsilon,
    gaussian_mu_within,
    mu_of_pure,
    pure_cost,
    rounded_down,
    rounded_up,
    rounded_up_root,
    total_variation_delta,
)
from sudare.privacy.column_sums import fixed_point_step
from sudare.privacy.mechanisms import Gaussian, InfinityNorm, Laplace, power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

_GRID_BITS: Final = 24
SumNoise = Laplace | InfinityNorm | Gaussian


class Split(NamedTuple):
    """A budget in parts: ε of the level; ε and δ of the learning; ε and δ of the other sums, and the share of each of them therein: spread, association, and mean probabilities where they are asked for.

    Shares are of ε where δ = 0, else of μ². `others` is what of ε the level leaves, in which a Gaussian learning and Gaussian sums share μ²; 0 where they do not.
    """

    level: float
    epsilon: float
    delta: float
    sums_epsilon: float
    sums_delta: float
    shares: tuple[float, ...]
    others: float = 0.0


@functools.lru_cache(maxsize=1024)
def split(epsilon: float, delta: float, rows: float, recipe: Recipe, is_gaussian: bool) -> Split:
    """How (ε, δ) is shared out for so many rows (divided by those of a person), by public facts. `is_gaussian`: the learning is a Gaussian mechanism, where δ > 0."""
    strength = rows * epsilon
    level = decimal_down(exact(epsilon) * exact(min(recipe.shares[0], recipe.enough[0] / strength)))
    others = decimal_down(exact(epsilon) - exact(level))
    if delta == 0:
        shares = _shares(recipe, strength, 1)
        spent = sum(exact(decimal_down(exact(epsilon) * exact(share))) for share in shares)
        return Split(level, decimal_down(exact(others) - spent), 0.0, epsilon, 0.0, shares)
    if not is_gaussian:
        shares = _shares(recipe, strength, 1)
        sums_epsilon, half = decimal_down(exact(others) * exact(sum(shares))), decimal_down(exact(delta) / 2)
        parts = tuple(share / sum(shares) * (1 - 2.0**-20) for share in shares)
        learning = decimal_down(exact(others) - exact(sums_epsilon))
        return Split(level, learning, half, sums_epsilon, half, parts)
    mu = gaussian_mu_within(others, delta)
    shares = _shares(recipe, rows * mu, 2)
    left = (1 - sum(map(exact, shares))) * Fraction(mu) ** 2
    learning = gaussian_epsilon(math.sqrt(left), rounded_down(exact(delta) * (1 - TOTAL_VARIATION_SHARE)))
    if learning <= 0:
        raise InvalidParameter(
            "delta is so large beside epsilon that a part of epsilon could not be named.",
            "Use a smaller delta, such as 1e-6.",
        )
    while Fraction(gaussian_mu_within(learning, delta)) ** 2 > left:
        learning *= 1 - 2.0**-40
    return Split(level, learning, delta, others, delta, shares, others)


def _shares(recipe: Recipe, strength: float, power: int) -> tuple[float, ...]:
    """The shares of spread and association, and of mean probabilities where they are asked for."""
    pairs = zip(recipe.shares[1:], recipe.enough[1:], strict=True)
    return tuple(min(share, (enough / strength) ** power) for share, enough in pairs)


@dataclass(frozen=True)
class CalibratedMechanism(LinearMechanism):
    """(ε, δ)-DP or ε-DP: a linear mechanism, then noisy sums that give its scores their level and slope, replace-one rows. Proof: proofs/score_calibration.md.

    The sums are those of the target, of the scores and their squares, and of scores times targets; of several classes also of their probabilities. Parameters are the mechanism's, times a slope, with an offset
    in the constant column or in one that is one-hot.
    """

    learning: LinearMechanism
    layout: RowLayout
    parts: Split
    epsilon: float
    delta: float
    calibration: Recipe

    def __post_init__(self) -> None:
        _ = self.cost, self._level_noise, self._sum_noise, self.grid

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """Those of the learning."""
        return self.learning.facts

    @cached_property
    def _step(self) -> float:
        return fixed_point_step(self.facts.rows)

    def _noise(self, place: int, dimension: int) -> InfinityNorm | Gaussian:
        """Noise on sums that a replaced row moves by at most 2 in each coordinate, and by 2√(k + 1) in norm for k outputs."""
        if self.delta == 0:
            largest = rounded_up(Fraction(2 * self.facts.rows_per_unit))
            return InfinityNorm(largest, self._part(place), dimension, integer_grid=self._step)
        # Each of two rows' k + 2 entries at most is rounded by half a step.
        outputs = self.facts.outputs
        moved = (
            Fraction(rounded_up_root(Fraction(4 * (outputs + 1))))
            + Fraction(self._step) * outputs
            + 2 * Fraction(self._step)
        )
        return self._gaussian(place, moved**2, dimension)

    def _part(self, place: int) -> float:
        """ε of a sum, where noise is pure."""
        return decimal_down(exact(self.epsilon) * exact(self.parts.shares[place]))

    def _gaussian(self, place: int, moved_squared: Fraction, dimension: int) -> Gaussian:
        """Noise on sums that a replaced row moves by so much in norm."""
        # As noise of all of μ for a sensitivity larger by 1/√share: a part √share of μ for the true one.
        share = exact(self.parts.shares[place])
        sensitivity = rounded_up_root(moved_squared * self.facts.rows_per_unit**2 / share)
        promise = self.parts.sums_epsilon, self.parts.sums_delta
        return Gaussian(sensitivity, *promise, dimension, integer_grid=self._step, stages=len(self.parts.shares))

    @cached_property
    def _level_noise(self) -> Laplace:
        """A replaced row moves the sum of targets by at most 2, and the counts of classes by 1 each in two of them."""
        largest = rounded_up(Fraction(2 * self.facts.rows_per_unit))
        return Laplace(largest, self.parts.level, self.facts.outputs, integer_grid=self._step)

    @cached_property
    def _spread_noise(self) -> InfinityNorm | Gaussian:
        return self._noise(0, self.facts.outputs + 1)

    @cached_property
    def _association_noise(self) -> InfinityNorm | Gaussian:
        return self._noise(1, self.facts.outputs + 2)

    @cached_property
    def _probability_noise(self) -> Laplace | InfinityNorm | Gaussian:
        """Noise on sums of probabilities of several classes: a replaced row moves them by at most 2 in the sum of absolute values, √2 in norm and 1 in each."""
        unit, outputs = self.facts.rows_per_unit, self.facts.outputs
        if self.delta > 0:
            return self._gaussian(2, Fraction(2), outputs)
        epsilon = self._part(2)
        found: list[Laplace | InfinityNorm] = [
            Laplace(rounded_up(Fraction(2 * unit)), epsilon, outputs, integer_grid=self._step)
        ]
        if outputs <= MOST_CUBE_COLUMNS:
            found.append(InfinityNorm(rounded_up(Fraction(unit)), epsilon, outputs, integer_grid=self._step))
        return min(found, key=lambda noise: noise.variance)

    @property
    def _sum_noise(self) -> tuple[SumNoise, ...]:
        """The noise of all sums but the level's."""
        both = self._spread_noise, self._association_noise
        return (*both, self._probability_noise) if self.calibration.looks_at_means else both

    @cached_property
    def cost(self) -> Cost:
        """ε or (ε, δ) of all; with a μ beside, where the learning has one."""
        if self.delta == 0:
            return pure_cost(self.epsilon)
        learning = self.learning.cost
        if learning.mu is None:
            return approximate_cost(self.epsilon, self.delta)
        distance = learning.total_variation + sum(noise.cost.total_variation for noise in self._sum_noise)
        squared = Fraction(mu_of_pure(exact(self.parts.level))) ** 2
        if self.parts.others:
            squared += Fraction(gaussian_mu_within(self.parts.others, self.delta)) ** 2
        else:
            sums_mu = gaussian_mu_within(self.parts.sums_epsilon, self.parts.sums_delta)
            squared += Fraction(learning.mu) ** 2 + Fraction(sums_mu) ** 2
        # Parts that have a δ of their own have what their distance to ideal noise adds in it.
        added = total_variation_delta(exact(self.epsilon), distance) if self.parts.others else 0
        if added > exact(self.delta) * TOTAL_VARIATION_SHARE:
            raise InvalidParameter("Gaussian noise cannot be exact enough for this delta.", "Use a larger delta.")
        return Cost(exact(self.epsilon), exact(self.delta), rounded_up_root(squared), Fraction(rounded_up(distance)), apart=True)  # fmt: skip

    @property
    def penalty(self) -> float:
        """ρ of the learning."""
        return self.learning.penalty

    @property
    def noise_scale(self) -> float:
        """That of the learning, before the slope."""
        return self.learning.noise_scale

    @cached_property
    def grid(self) -> float:
        """Far below parameters whose scores are of the order of the least slope."""
        return power_of_two_below(1 / (self.facts.width * self.facts.norm_bound)) * 2.0**-_GRID_BITS

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """Parameters of log-odds, or of targets in [−1, 1]."""
        return self.fitted_with_shares(rows, source)[0]

    def fitted_with_shares(self, rows: Rows, source: NoiseSource) -> tuple[Floats, Floats | None]:
        """The parameters, and the released shares of classes."""
        level, level_deviation = self._means(_level_block, self._level_noise, rows, source)
        shares: Floats | None = None
        if self.facts.loss.one_sided:
            outputs = self.facts.outputs
            noisy, deviation = (level, level_deviation) if outputs > 1 else ((level + 1) / 2, level_deviation / 2)
            shares = expected_shares(noisy, deviation)
            level = shares if outputs > 1 else 2 * shares - 1
        if isinstance(self.learning, MeanMessage):
            parameters = self.learning.fitted(rows, source, level)
        elif isinstance(self.learning, SufficientStatistics):
            parameters = self.learning.direction(rows, source, level, level_deviation)
        else:
            parameters = self.learning.fitted(rows, source)
        whole = score_range(parameters, self.layout)
        means, deviation = self._means(partial(_spread_block, parameters, whole), self._spread_noise, rows, source)
        spread = narrower(whole, means, deviation, self.calibration)
        block = partial(_association_block, parameters, spread)
        means, deviation = self._means(block, self._association_noise, rows, source)
        told = means, deviation, self.facts.rows, spread, self.calibration
        if shares is not None:
            line = log_odds_line(shares, *told, score_likeness(parameters, self.layout))
        else:
            line = target_line(float(level[0]), *told)
        if shares is not None and self.calibration.looks_at_means:
            first = on_grid(with_line(parameters, line, self.layout), self.grid)
            block = partial(_probability_block, first, self._step)
            means, deviation = self._means(block, self._probability_noise, rows, source)
            line = with_means(line, shares, means, deviation)
        return on_grid(with_line(parameters, line, self.layout), self.grid), shares

    def _means(
        self, values: Callable[..., Floats], noise: SumNoise, rows: Rows, source: NoiseSource
    ) -> tuple[Floats, float]:
        """Noisy sums over the rows of values in [−1, 1], divided by the number of rows; and the standard deviation of their noise."""
        sums = rows.total(partial(_whole_sums, values, self._step)) * self._step
        return noise.apply(sums, source) / self.facts.rows, math.sqrt(noise.variance) / self.facts.rows


def score_range(parameters: Floats, layout: RowLayout) -> Spread:
    """Between which numbers scores lie, by what is declared of rows: the middle and half of the way, one of each an output."""
    features = parameters[:, : layout.features]
    constant = parameters[:, -1] * layout.bias if layout.bias else np.zeros(len(parameters))
    if not layout.block_starts:
        half, middle = np.linalg.norm(features, axis=1) * layout.norm_bound, np.zeros(len(parameters))
    else:
        ends = features * np.array(layout.low), features * np.array(layout.high)
        low = np.minimum.reduceat(np.minimum(*ends), layout.block_starts, axis=1).sum(axis=1)
        high = np.maximum.reduceat(np.maximum(*ends), layout.block_starts, axis=1).sum(axis=1)
        half, middle = (high - low) / 2, (high + low) / 2
    # Parameters that are all zero have one score: any scale will do.
    return Spread(constant + middle, np.where(half > 0, half, 1.0))


def _scores(matrix: NDArray[Any], parameters: Floats) -> Floats:
    """Scores of rows, or of positions of ones."""
    # Numba takes a moment to import, and other methods do without.
    from sudare.linear.clipped_gradient_kernels import scores_at, scores_of

    # Products of matrices may differ in the last bit with where a row stands among others; these do not.
    return np.asarray(
        (scores_of if matrix.dtype == np.float64 else scores_at)(np.ascontiguousarray(matrix), parameters)
    )


def _whole_sums(values: Callable[..., Floats], step: float, matrix: NDArray[Any], targets: Floats) -> Floats:
    """Sums over a block of values in [−1, 1], each rounded to whole steps: exact."""
    total: Floats | float = 0.0
    for start in range(0, len(matrix), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        total = total + np.rint(np.clip(values(matrix[part], targets[part]), -1.0, 1.0) / step).sum(axis=0)
    return np.asarray(total)


def _level_block(matrix: NDArray[Any], targets: Floats) -> Floats:
    return level_values(targets)


def _spread_block(parameters: Floats, spread: Spread, matrix: NDArray[Any], targets: Floats) -> Floats:
    return spread_values(spread.of(_scores(matrix, parameters)))


def _probability_block(parameters: Floats, step: float, matrix: NDArray[Any], targets: Floats) -> Floats:
    # One in sum at most, whatever division rounds: a little less, and rounded down to whole steps.
    chances = one_vs_rest_probabilities(_scores(matrix, parameters)) * (1 - 2.0**-40)
    return np.asarray(np.floor(chances / step) * step)


def _association_block(parameters: Floats, spread: Spread, matrix: NDArray[Any], targets: Floats) -> Floats:
    return association_values(spread.of(_scores(matrix, parameters)), targets)

"""Linear models from noisy sufficient statistics: moments of the target, then sums, squares and products of columns. Proof: proofs/sufficient_statistics.md.

Sufficient statistics perturbation (Vu and Slavković 2009; AdaSSP of Wang 2018). What is made of the noisy numbers: `noisy_moment_regression`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
from sudare.linear.noisy_moment_regression import (
    NoisyMoments,
    coefficients,
    combined,
    one_hot_columns,
    prior_covariances,
)
from sudare.linear.rows import RowLayout
from sudare.linear.score_calibration import CalibrationLine, with_line
from sudare.linear.target_moments import TargetMoments
from sudare.privacy.accounting import (
    Cost,
    approximate_cost,
    decimal_down,
    exact,
    mu_of_pure,
    rounded_up,
    rounded_up_root,
)
from sudare.privacy.mechanisms import GammaNorm, Gaussian, InfinityNorm, Laplace, power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

_SUM_BITS: Final = 51
_MOST_BITS: Final = 20
_GRID_BITS: Final = 24
_ALONE_SHARE: Final = 0.1
# Division by the units rounds; norms grow by less than this.
_SLACK: Final = 1 + Fraction(1, 2**40)
# More products than this take too long, and noise hides them.
_MOST_PRODUCTS: Final = 2**14
# Of more columns a matrix takes too long.
MOST_COLUMNS: Final = 1024

PureNoise = Laplace | GammaNorm | InfinityNorm


@dataclass(frozen=True)
class StatisticsRecipe:
    """Public constants, found on the panel's tuning half (`benchmarks/panel/linear_choices.py statistics`).

    The moments of the target get `target_share` of ε at most, and no more than gives n·ε of `enough` or is `least_target_share`. Of the rest, where noise is pure, the columns' own sums get `column_share`, and of what is left then those of
    numbers and trends with the target `number_share`, those of one-hot columns what remains. `target_weight` is the weight of the target beside a row's norm under Gaussian noise. Targets are
    clipped at `widths` standard deviations from their mean, from n·ε a column of `quiet` on at more. Products of columns are asked for, where noise is pure, if it is at most `product_noise` times the sums of
    squares they stand beside. `no_line` is the prior probability that nothing depends on the columns.
    """

    target_share: float = 0.8
    least_target_share: float = 0.1
    enough: float = 300.0
    column_share: float = 0.2
    number_share: float = 0.7
    target_weight: float = 1.0
    widths: float = 1.5
    quiet: float = 300.0
    product_noise: float = 0.3
    no_line: float = 0.8


RECIPE: Final = StatisticsRecipe()


class Reach(NamedTuple):
    """By how much a replaced row moves a vector of sums, in each norm, and how many numbers it has."""

    size: int
    absolute: Fraction
    euclidean: Fraction
    largest: Fraction


class Scaled(NamedTuple):
    """What is public about rows divided by their units: no entry is above 1; bounds on the norm and on the sum of absolute values."""

    norm: Fraction
    sum: Fraction


class Weights(NamedTuple):
    """What the columns' sums are multiplied by, and their squares beside that; powers of two."""

    columns: float
    squares: float


@dataclass(frozen=True)
class SufficientStatistics(LinearMechanism):
    """ε-DP or (ε, δ)-DP least squares, replace-one rows, one output with targets in [−1, 1], or classes. Proof: proofs/sufficient_statistics.md.

    Laplace noise on Σy and Σy²; then, for z a row divided by public units and t the target about its released mean and clipped, noise on the sums of z, z² and products of columns, and of t, z·t and u·t, u the
    centre of a number's bin: Gaussian on all as one vector, or pure on the columns' sums, those of numbers with the target, and those of one-hot columns with it.
    Of classes the level is known already, and parameters are a direction: `mechanism_with_score_line` gives it a level and a slope. Of several classes t is one for that of a row and zero for the others.
    """

    facts: Facts
    layout: RowLayout
    epsilon: float
    delta: float = 0.0
    recipe: StatisticsRecipe = RECIPE

    def __post_init__(self) -> None:
        if self.layout.features > MOST_COLUMNS:
            raise InvalidParameter(
                f'method="statistics" takes {MOST_COLUMNS} encoded columns at most, got {self.layout.features}.',
                'Use method="auto".',
            )
        _ = self.cost, self.grid, self._deviations

    # Budget

    @cached_property
    def level_epsilon(self) -> float:
        """ε of the moments of the target; none of classes, whose level is known already."""
        if self.is_classes:
            return 0.0
        strength = self.facts.rows / self.facts.rows_per_unit * self.epsilon
        share = max(self.recipe.least_target_share, min(self.recipe.target_share, self.recipe.enough / strength))
        return decimal_down(exact(self.epsilon) * exact(share))

    @cached_property
    def sums_epsilon(self) -> float:
        """ε of everything else."""
        return decimal_down(exact(self.epsilon) - exact(self.level_epsilon))

    @cached_property
    def cost(self) -> Cost:
        """ε; or (ε, δ), with the μ of all parts where noise is Gaussian."""
        if self.is_pure:
            return approximate_cost(self.epsilon, self.delta)
        sums = self._gaussian.cost
        if self.is_classes:
            return sums
        squared = Fraction(mu_of_pure(exact(self.level_epsilon))) ** 2 + Fraction(sums.mu or 0.0) ** 2
        # The sums' δ has the distance to ideal noise at their own ε: an ε₀-DP release before them adds nothing to it.
        return Cost(exact(self.epsilon), exact(self.delta), rounded_up_root(squared), sums.total_variation, apart=True)

    @cached_property
    def is_pure(self) -> bool:
        """Whether noise is pure: where δ = 0, and of few columns and small ε, where it is quieter than Gaussian noise; not of classes, whose level and slope share a μ with it."""
        if self.delta == 0 or self.is_classes:
            return self.delta == 0
        return max(noise.variance for noise in self._pure_target_noise) < self._gaussian.variance

    @property
    def _widths(self) -> float:
        """At how many standard deviations from their mean targets are clipped: more the less noise there is, because clipping bends the line."""
        strength = self.facts.rows / self.facts.rows_per_unit * self.epsilon / self.layout.features
        return self.recipe.widths * math.sqrt(math.sqrt(max(1.0, strength / self.recipe.quiet)))

    # What is added up

    @cached_property
    def units(self) -> Floats:
        """What each column is divided by: its declared bound; that of the norm where nobody declared one."""
        bounds = np.array(self.facts.entry_bounds[: self.layout.features])
        return (
            np.where(bounds > 0, bounds, 1.0) if len(bounds) else np.full(self.layout.features, self.layout.norm_bound)
        )

    @cached_property
    def _scaled(self) -> Scaled:
        layout, least = self.layout, Fraction(float(self.units.min()))
        columns = Fraction(layout.features)
        norm = min(Fraction(layout.norm_bound) / least, Fraction(rounded_up_root(columns)))
        absolute = min(Fraction(rounded_up_root(columns)) * norm, columns)
        if math.isfinite(layout.joint_sum):
            absolute = min(absolute, (Fraction(layout.joint_sum) - Fraction(layout.bias)) / least)
        return Scaled(norm * _SLACK, absolute * _SLACK)

    @cached_property
    def squared_columns(self) -> NDArray[np.intp]:
        """The columns that are numbers: not 0 and 1 of a one-hot group, which are their own squares."""
        return np.flatnonzero(~one_hot_columns(self.layout.one_hot_blocks, self.layout.features))

    @cached_property
    def _indicators(self) -> NDArray[np.intp]:
        return np.flatnonzero(one_hot_columns(self.layout.one_hot_blocks, self.layout.features))

    @cached_property
    def _trend(self) -> Floats:
        """The centre of each bin, one column a number that is cut into bins."""
        found = np.zeros((self.layout.features, len(self.layout.bin_centres)))
        for place, (start, centres) in enumerate(self.layout.bin_centres):
            found[start : start + len(centres), place] = centres
        return found

    @cached_property
    def _all_pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pairs of columns that are not in one one-hot group; none where they are too many."""
        group = np.arange(self.layout.features)
        for start, stop in self.layout.one_hot_blocks:
            group[start:stop] = start
        first, second = np.triu_indices(self.layout.features, 1)
        apart = group[first] != group[second]
        first, second = first[apart], second[apart]
        return (first, second) if len(first) <= _MOST_PRODUCTS else (first[:0], second[:0])

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The pairs whose products are asked for: all of them, or none where pure noise hides them."""
        first, second = self._all_pairs
        return (first, second) if not self.is_pure or self._is_heard(len(first)) else (first[:0], second[:0])

    def _is_heard(self, products: int) -> bool:
        """Whether pure noise on so many products, as a symmetric matrix, is small beside rows spread evenly over the columns."""
        features = self.layout.features
        noise = math.sqrt(self._pure(self._column_reach(products), self.pure_epsilons[0]).variance)
        squares = self.facts.rows * float(self._scaled.norm) ** 2 / features
        return products > 0 and 2 * math.sqrt(features) * noise <= self.recipe.product_noise * squares

    @cached_property
    def _bits(self) -> int:
        """Bits of z, t and y, so that sums of products over all rows stay whole numbers of steps below 2⁵³."""
        return min(_MOST_BITS, (_SUM_BITS - self.facts.rows.bit_length() - math.frexp(self._target_weight)[1]) // 2)

    # Noise

    @property
    def is_classes(self) -> bool:
        """Whether targets are −1 and +1."""
        return self.facts.loss.one_sided

    @cached_property
    def moments(self) -> TargetMoments:
        """The release that tells where targets lie."""
        return TargetMoments(self.facts.rows, self.facts.rows_per_unit, self.level_epsilon, self._bits)

    @cached_property
    def _target_weight(self) -> float:
        """s: what t is multiplied by beside z under Gaussian noise; a power of two, at least 1."""
        norm = math.sqrt(1 + float(self._scaled.norm) ** 2)
        return max(1.0, power_of_two_below(self.recipe.target_weight * norm * math.sqrt(2)))

    def _column_reach(self, products: int) -> Reach:
        """Σz, Σz² weighted by a half (twice, in the largest change) and Σ of so many products."""
        norm, absolute = self._scaled
        squares = len(self.squared_columns)
        size = self.layout.features + squares + products
        sums = 2 * absolute + (absolute if squares else 0) + (absolute**2 if products else 0)
        return Reach(size, sums, 1 + norm**2 if products else 2 * norm, Fraction(2))

    @property
    def _pure_blocks(self) -> int:
        """Into how many vectors a row's products with the target may go, of which it has one: one a class where there are several."""
        return self.facts.outputs

    @property
    def _gaussian_blocks(self) -> int:
        """The same under Gaussian noise, where one vector for each of two classes has no more noise than one of both about their level, if all columns are one-hot."""
        return (
            2 if self.is_classes and self.facts.outputs == 1 and not len(self.squared_columns) else self.facts.outputs
        )

    @property
    def _blocks(self) -> int:
        return self._pure_blocks if self.is_pure else self._gaussian_blocks

    def _number_reach(self, blocks: int) -> Reach:
        """Σt, Σz·t of columns that are numbers, and Σu·t of trends over bins."""
        numbers, trends = len(self.squared_columns), len(self.layout.bin_centres)
        squared = min(self._scaled.norm**2, Fraction(numbers)) + trends
        absolute = min(self._scaled.sum, Fraction(numbers)) + trends + 1
        moved = 4 * (squared + 1) if blocks == 1 else max(2 * (squared + 1), 4 * squared)
        size = blocks * (1 + numbers + trends)
        return Reach(size, 2 * absolute, Fraction(rounded_up_root(moved)), Fraction(2))

    def _indicator_reach(self, blocks: int) -> Reach:
        """Σz·t of one-hot columns, of which each group has one that is not zero."""
        groups = Fraction(len(self.layout.one_hot_blocks))
        size = blocks * (self.layout.features - len(self.squared_columns))
        euclidean = Fraction(rounded_up_root((4 if blocks == 1 else 2) * groups))
        return Reach(size, 2 * groups, euclidean, Fraction(2 if blocks == 1 else 1))

    @cached_property
    def _joint_reach(self) -> Fraction:
        """By how much a replaced row moves all sums in Euclidean norm, the columns' divided by s."""
        norm, weight = self._scaled.norm, Fraction(self._target_weight)
        columns = self._column_reach(len(self._all_pairs[0])).euclidean / weight
        blocks = self._gaussian_blocks
        target = self._number_reach(blocks).euclidean ** 2 + self._indicator_reach(blocks).euclidean ** 2
        apart = Fraction(rounded_up_root(columns**2 + target))
        if self.layout.bin_centres or not len(self._all_pairs[0]):
            return apart
        return min(apart, (1 + norm**2 + weight**2) / weight)

    @cached_property
    def _gaussian(self) -> Gaussian:
        blocks = self._gaussian_blocks
        target = self._number_reach(blocks), self._indicator_reach(blocks)
        reaches = self._column_reach(len(self._all_pairs[0])), *target
        sensitivity = rounded_up(self._joint_reach * self.facts.rows_per_unit)
        step = 4.0**-self._bits / 2 / self._target_weight
        size = sum(reach.size for reach in reaches)
        return Gaussian(sensitivity, self.sums_epsilon, self.delta, size, integer_grid=step)

    @cached_property
    def pure_epsilons(self) -> tuple[float, float, float]:
        """ε of the columns' sums, of those of numbers with the target, and of those of one-hot columns with the target, where noise is pure."""
        whole = exact(self.sums_epsilon)
        columns = decimal_down(whole * exact(self.recipe.column_share))
        if not self._indicator_reach(1).size:
            return columns, decimal_down(whole - exact(columns)), 0.0
        # Where there are neither numbers nor trends it is the sum of t alone, which matters little.
        share = self.recipe.number_share if self._number_reach(1).size > 1 else _ALONE_SHARE
        numbers = decimal_down((whole - exact(columns)) * exact(share))
        return columns, numbers, decimal_down(whole - exact(columns) - exact(numbers))

    @cached_property
    def _pure_target_noise(self) -> tuple[PureNoise, ...]:
        _, numbers, indicators = self.pure_epsilons
        blocks = self._pure_blocks
        found = (self._pure(self._number_reach(blocks), numbers),)
        return (*found, self._pure(self._indicator_reach(blocks), indicators)) if indicators else found

    @cached_property
    def _pure_noise(self) -> tuple[PureNoise, ...]:
        """Pure noise on the columns' sums and on the target's."""
        columns = self._pure(self._column_reach(len(self._pairs[0])), self.pure_epsilons[0])
        return columns, *self._pure_target_noise

    def _pure(self, reach: Reach, epsilon: float) -> PureNoise:
        """The noise of least variance among those of the three norms."""
        unit, step = self.facts.rows_per_unit, 4.0**-self._bits / 2
        found: list[PureNoise] = [
            Laplace(rounded_up(reach.absolute * unit), epsilon, reach.size, integer_grid=step),
            GammaNorm(rounded_up(reach.euclidean * unit), epsilon, reach.size),
        ]
        if reach.size <= MOST_CUBE_COLUMNS:
            found.append(InfinityNorm(rounded_up(reach.largest * unit), epsilon, reach.size, integer_grid=step))
        return min(found, key=lambda noise: noise.variance)

    @cached_property
    def _weights(self) -> Weights:
        if not self.is_pure:
            return Weights(1 / self._target_weight, 0.5)
        return Weights(1.0, 2.0 if isinstance(self._pure_noise[0], InfinityNorm) else 0.5)

    @cached_property
    def _deviations(self) -> tuple[float, float, float]:
        """Standard deviations of the noise on weighted sums of columns, of numbers with the target, and of one-hot columns with it."""
        if not self.is_pure:
            return (math.sqrt(self._gaussian.variance),) * 3
        columns, numbers, *indicators = (math.sqrt(noise.variance) for noise in self._pure_noise)
        return columns, numbers, indicators[0] if indicators else numbers

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise on the mean of z·t."""
        return self._deviations[1] / self.facts.rows

    @cached_property
    def grid(self) -> float:
        """Far below parameters whose scores are of the order of one."""
        return power_of_two_below(1 / (self.facts.width * self.facts.norm_bound)) * 2.0**-_GRID_BITS

    # Sums

    def sums(
        self, rows: Rows, level: float, half_width: float, as_they_are: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Weighted sums of z, z² and products; of t, z·t and u·t of numbers and trends; of z·t of one-hot columns. Exact: everything is whole multiples of a step.

        With `as_they_are` one-hot columns are multiplied with targets that are neither centred nor scaled.
        """
        total: Floats = rows.total(partial(self._block, level, half_width, as_they_are))
        places = np.cumsum([self._column_reach(len(self._pairs[0])).size, self._number_reach(self._blocks).size])
        first, second, third = np.split(total, places)
        return first, second, third

    def _block(
        self, level: float, half_width: float, as_they_are: bool, matrix: NDArray[Any], targets: Floats
    ) -> Floats:
        features, blocks, step = self.layout.features, self._blocks, 2.0**-self._bits
        products, sums = np.zeros((features, features)), np.zeros(features)
        cross, trends = np.zeros((blocks, features + 1)), np.zeros((blocks, self._trend.shape[1]))
        hot = np.zeros((blocks, len(self._indicators)))
        for start in range(0, len(matrix), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            scaled = self._dense(matrix[part]) / self.units
            whole = np.trunc(scaled / step)
            target = np.trunc(self._scaled_targets(targets[part], level, half_width) / step)
            # Whole numbers whose sums stay below 2⁵³: a product of matrices is exact in any order.
            products += whole.T @ whole if len(self._pairs[0]) else np.diag(np.einsum("ij,ij->j", whole, whole))
            sums += whole.sum(axis=0)
            cross += np.column_stack([target.sum(axis=0) / step, target.T @ whole])
            trends += target.T @ np.trunc(scaled @ self._trend / step)
            if as_they_are:
                plain = np.trunc(self._scaled_targets(targets[part], 0.0, 1.0) / step)
                hot += plain.T @ whole[:, self._indicators]
        numbers, weights = self.squared_columns, self._weights
        squares = products.diagonal()[numbers] * (step * step * weights.squares)
        columns = np.concatenate([sums * step, squares, products[self._pairs] * (step * step)]) * weights.columns
        of_numbers = np.column_stack([cross[:, :1], cross[:, 1 + numbers], trends])
        of_indicators = hot if as_they_are else cross[:, 1 + self._indicators]
        target_sums = np.concatenate([of_numbers.ravel(), of_indicators.ravel()])
        return np.concatenate([columns, target_sums * (step * step)])

    def _scaled_targets(self, targets: Floats, level: float, half_width: float) -> Floats:
        """t: the target about its level, within [−1, 1]; in blocks one for the class of the row, and zero for the others."""
        if self._blocks > 1:
            of_class = targets if self.facts.outputs > 1 else np.column_stack([-targets, targets])
            return (of_class > 0).astype(np.float64)
        return np.clip((targets - level) / half_width, -1.0, 1.0)

    def _dense(self, rows: NDArray[Any]) -> Floats:
        """Rows without the constant column, from themselves or from the positions of their ones."""
        if rows.dtype == np.float64:
            return rows[:, : self.layout.features]
        dense = np.zeros((len(rows), self.layout.features))
        np.put_along_axis(dense, rows.astype(np.intp), 1.0, axis=1)
        return dense

    # Fit

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """Parameters of targets in [−1, 1]."""
        has_level = self.layout.has_constant
        located = self.moments.located(rows, source, has_level)
        level, half_width = located.level, located.half_width(self._widths)
        (moments,) = self.noisy_moments(rows, source, level, half_width)
        found = half_width * self._coefficients(moments, min(1.0, located.variance / half_width**2))
        parameters = np.zeros((1, self.facts.width))
        parameters[0, : self.layout.features] = found / self.units
        if has_level:
            offset = level - float(found @ moments.column_means)
            parameters = with_line(parameters, CalibrationLine(np.array([offset]), np.ones(1)), self.layout)
        return on_grid(parameters, self.grid)

    def direction(self, rows: Rows, source: NoiseSource, level: Floats, doubt: float) -> Floats:
        """Parameters of classes, without level and slope, given the released mean of ±1 of two classes or the share of each of several, and its standard deviation."""
        shares = level if self.facts.outputs > 1 else (1 + level) / 2
        parts, unit = self._class_moments(rows, source, level, doubt)
        parameters = np.zeros((len(parts), self.facts.width))
        for line, share, moments in zip(parameters, shares.tolist(), parts, strict=True):
            # However likely it is that nothing depends on the columns, rows are to have an order.
            found = unit * self._coefficients(moments, share * (1 - share) / unit**2, flat=1.0)
            line[: self.layout.features] = found / self.units
        return on_grid(parameters, self.grid)

    def _class_moments(
        self, rows: Rows, source: NoiseSource, level: Floats, doubt: float
    ) -> tuple[list[NoisyMoments], float]:
        """Noisy moments for each output, and what a unit of its t is of the indicator of a class."""
        if self._blocks == 1:
            middle = float(level[0])
            return self.noisy_moments(rows, source, middle, 1 + abs(middle), doubt), (1 + abs(middle)) / 2
        shares, doubt = (level, doubt) if self.facts.outputs > 1 else ((1 + level) / 2, doubt / 2)
        # What a class has of a column, less its share of what all have.
        blocks = self.noisy_moments(rows, source, 0.0, 1.0)
        together = np.sum([block.cross for block in blocks], axis=0)
        by_share = doubt**2 * np.outer(together, together)
        return [
            replace(
                block,
                target_sum=0.0,
                cross=block.cross - share * together,
                cross_noise=block.cross_noise * ((1 - share) ** 2 + (len(blocks) - 1) * share**2) + by_share,
            )
            for block, share in zip(blocks[-self.facts.outputs :], shares.tolist(), strict=True)
        ], 1.0

    def _coefficients(self, moments: NoisyMoments, target_variance: float, **options: float) -> Floats:
        priors, penalty = prior_covariances(self.layout), self.facts.penalty / self.units**2
        return coefficients(moments, target_variance, priors, self.recipe.no_line, penalty, **options)

    def noisy_moments(
        self, rows: Rows, source: NoiseSource, level: float, half_width: float, doubt: float = 0.0
    ) -> list[NoisyMoments]:
        """Noisy sums about a released level, without their weights; one for each block of products with the target. `doubt` is the level's deviation, where targets may be used as they are."""
        features, numbers, weights, blocks = self.layout.features, self.squared_columns, self._weights, self._blocks
        column_deviation = self._deviations[0] / weights.columns
        # Targets as they are make more of the noise, but the sums of columns have to be taken off after it.
        later = math.hypot(self._deviations[2], level * column_deviation)
        as_they_are = blocks == 1 and self.is_classes and later < half_width * self._deviations[2]
        noisy = self._noisy(self.sums(rows, level, half_width, as_they_are), source)
        columns, of_numbers, of_indicators = noisy
        sums, squares, products = np.split(columns / weights.columns, [features, features + len(numbers)])
        gram = np.diag(sums)
        gram[numbers, numbers] = squares / weights.squares
        gram[self._pairs] = products
        gram.T[self._pairs] = products
        deviations, moved = np.full(features, self._deviations[1]), np.zeros(features)
        deviations[self._indicators] = later / half_width if as_they_are else self._deviations[2]
        if as_they_are:
            of_indicators = (of_indicators - level * sums[self._indicators]) / half_width
            moved[self._indicators] = doubt / half_width * sums[self._indicators]
        found = []
        for with_target, indicators in zip(
            of_numbers.reshape(blocks, -1), of_indicators.reshape(blocks, -1), strict=True
        ):
            cross = np.empty(features)
            cross[numbers], cross[self._indicators] = with_target[1 : 1 + len(numbers)], indicators
            trends = with_target[1 + len(numbers) :]
            estimated, noise = combined(cross, deviations, self._trend, trends, self._deviations[1])
            by_level = noise @ (moved / deviations**2)
            found.append(
                NoisyMoments(
                    rows=self.facts.rows,
                    sums=sums,
                    gram=gram,
                    target_sum=float(with_target[0]),
                    cross=estimated,
                    cross_noise=noise + np.outer(by_level, by_level),
                    one_hot_blocks=self.layout.one_hot_blocks,
                    pairs=self._pairs,
                    product_deviation=column_deviation,
                    square_deviation=column_deviation / (weights.squares if len(numbers) else 1.0),
                    is_centred=self.layout.has_constant,
                )
            )
        return found

    def _noisy(self, sums: tuple[Floats, ...], source: NoiseSource) -> list[Floats]:
        """The three vectors of sums with noise."""
        if self.is_pure:
            noisy = [noise.apply(vector, source) for noise, vector in zip(self._pure_noise, sums, strict=False)]
            # Without one-hot columns the last vector is empty, and there is no noise for it.
            return noisy if len(noisy) == len(sums) else [*noisy, np.zeros(0)]
        places = np.cumsum([len(vector) for vector in sums[:-1]])
        return np.split(self._gaussian.apply(np.concatenate(sums), source), places)

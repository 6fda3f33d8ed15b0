"""(ε, δ)-DP gradient descent on clipped gradients, replace-one rows. Proof: proofs/descent.md.

Every step adds Gaussian noise to an exact sum of clipped gradients. Rows and slopes are truncated to whole multiples of
public steps, and their products are added without rounding, so floating point adds nothing to the sensitivity.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.lossless_array_packing import OfPacked, Packed
from sudare.frames.rows import Rows
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts, LinearMechanism, public_grid
from sudare.linear.rows import row_step
from sudare.privacy.accounting import (
    FOURIER_ERROR,
    TOTAL_VARIATION_SHARE,
    Cost,
    approximate_cost,
    exact,
    gaussian_cost,
    gaussian_mu_within,
    rounded_down,
    rounded_up,
    total_variation_delta,
)
from sudare.privacy.gaussian_domination import dominating_mu, privacy_curve
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource, WordSource
from sudare.privacy.release_content import on_grid

_SUM_BITS: Final = 52
# So many that calling functions costs little, so few that what is worked on stays in the processor's cache.
_ROWS_AT_ONCE: Final = 4096
_NOISE_BITS: Final = 30
_SAMPLING_BITS: Final = 32
_TIME: Final = 0.5
_MOMENTUM: Final = 0.8
_LARGEST_RATE: Final = 6.0
_LARGEST_STABLE_RATE: Final = 1.2
_SMALLEST_CLIP, _LARGEST_CLIP = 0.25, 0.5
# Losses are rounded up to multiples of this times ε, or this: it costs less than a thousandth of ε.
_LOSS_STEP: Final = 5e-4
_MULTIPLIER_STEP: Final = 1.125
_LEAST_MULTIPLIER: Final = 0.25
_MULTIPLIER_ACCURACY: Final = 2.0**-10
_FEWEST_STEPS: Final = 10
_MOST_STEPS: Final = 200
# Within this a parameter is finite after as many steps as there may be, and so is every score.
_LARGEST_STEP: Final = 2.0**300


@dataclass(frozen=True)
class Recipe:
    """How to descend: public numbers.

    `clip` bounds a row's gradient; `learning_rate` multiplies the mean gradient; momentum is Nesterov's; the result is the average of the
    last `averaged` iterates. With a `sampling_rate` below one every step sees each row with that probability.
    """

    steps: int
    clip: float
    learning_rate: float
    momentum: float = 0.0
    averaged: int = 1
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        whole = isinstance(self.steps, int) and isinstance(self.averaged, int)
        if not whole or not 1 <= self.averaged <= self.steps <= 100_000:
            raise InvalidParameter("steps must be a whole number from 1, and averaged at most that.", "Use 50 and 10.")
        if not (0 < self.clip < math.inf and 0 < self.learning_rate < math.inf and 0 <= self.momentum < 1):
            raise InvalidParameter(
                "clip and learning_rate must be positive and momentum in [0, 1).", "Use for example 1, 1, 0."
            )
        if not 2.0**-_SAMPLING_BITS <= self.sampling_rate <= 1:
            raise InvalidParameter("sampling_rate must be above 0 and at most 1.", "Use 1 for full batches.")

    @property
    def exact_sampling_rate(self) -> float:
        """The sampling rate as a multiple of 2⁻³², rounded down, so that sampling is exact."""
        return math.floor(self.sampling_rate * 2.0**_SAMPLING_BITS) / 2.0**_SAMPLING_BITS


def public_recipe(facts: Facts, epsilon: float, delta: float, sampling_rate: float = 1.0) -> Recipe:
    """Steps, clip and learning rate from (n, ε, δ), the row norm and the loss alone; docs/linear.md says how they were found.

    How long to descend is set by the noise that piles up meanwhile: so long that the noise in a score is of order one, which
    is a time proportional to μ·n. Steps are as few as stay stable. The more noise, the smaller the clip. Sampled descent has
    more noise for the same steps, so it descends for a shorter time: μ is then that of full batches with as much noise.
    """
    mu = gaussian_mu_within(epsilon, delta)
    # Slopes that level off keep long steps from running away; a residual's does not.
    largest_rate = _LARGEST_RATE if facts.loss.one_sided else _LARGEST_STABLE_RATE
    steps = _FEWEST_STEPS
    while steps < _MOST_STEPS and _TIME * mu * facts.rows / facts.rows_per_unit > largest_rate * travelled(steps):
        steps += 1
    if sampling_rate < 1:
        sampled = Recipe(steps, 1.0, 1.0, sampling_rate=sampling_rate).exact_sampling_rate
        mu = 2 * math.sqrt(steps) * sampled / sampled_multiplier(sampled, steps, epsilon, delta)
    signal = mu * facts.rows / facts.rows_per_unit
    unit = 1 / (facts.loss.largest_curvature * facts.norm_bound**2)
    rate = min(largest_rate, _TIME * signal / travelled(steps)) * unit
    # The penalty's slope never levels off: a longer step would go farther beyond zero each time.
    ridge = facts.penalty / facts.rows
    if rate * ridge > _LARGEST_STABLE_RATE:
        rate = _LARGEST_STABLE_RATE / ridge
    share = min(_LARGEST_CLIP, max(_SMALLEST_CLIP, _SMALLEST_CLIP * (signal / 200) ** 0.25))
    clip = share * facts.norm_bound * facts.loss.largest_slope
    return Recipe(steps, clip, rate, _MOMENTUM, steps // 2, sampling_rate)


def travelled(steps: int, momentum: float = _MOMENTUM) -> float:
    """How far the average of the last half of the iterates gets on a constant slope, in units of rate times slope."""
    last = np.arange(steps - steps // 2 + 1, steps + 1)
    gone = last / (1 - momentum) - momentum * (1 - momentum**last) / (1 - momentum) ** 2
    return float(np.mean(gone))


@dataclass(frozen=True)
class GradientDescent(LinearMechanism):
    """(ε, δ)-DP parameters by noisy gradient descent, replace-one rows. Proof: proofs/descent.md."""

    facts: Facts
    epsilon: float
    delta: float
    recipe: Recipe

    def __post_init__(self) -> None:
        if self.recipe.sampling_rate < 1 and self.facts.rows_per_unit > 1:
            raise InvalidParameter(
                "Sampled descent protects records, and the schema declares persons with several rows.",
                "Use full batches.",
            )
        _ = self.cost
        if not 1 / _LARGEST_STEP <= self._step_noise <= _LARGEST_STEP:
            raise InvalidParameter(
                "The noise of a step is beyond what floats can add up with these bounds, epsilon and delta.",
                "Use a larger epsilon, or another unit for the columns.",
            )

    @cached_property
    def _deviation(self) -> float:
        """σ of the noise on a sum of clipped gradients: full batches compose as one Gaussian of √steps times the μ."""
        recipe = self.recipe
        sensitivity = Fraction(2 * recipe.clip) * self.facts.rows_per_unit
        if recipe.sampling_rate < 1:
            multiplier = sampled_multiplier(recipe.exact_sampling_rate, recipe.steps, self.epsilon, self.delta)
            return rounded_up(sensitivity / 2 * Fraction(multiplier))
        root = math.nextafter(math.sqrt(recipe.steps), math.inf)
        return rounded_up(sensitivity * Fraction(root) / Fraction(gaussian_mu_within(self.epsilon, self.delta)))

    @cached_property
    def _steps_of(self) -> tuple[float, float]:
        """The grids of rows and of slopes: sums over all rows must stay within 52 bits."""
        total = _SUM_BITS - self.facts.rows.bit_length()
        row_bits = min(20, total // 2)
        largest_slope = max(self.facts.loss.largest_slope, 1.0)
        return row_step(self.facts.norm_bound, row_bits), power_of_two_below(largest_slope) * 2.0 ** (
            row_bits + 1 - total
        )

    @cached_property
    def _noise_grid(self) -> float:
        """Grid of the noisy sums: that of the sums, or finer where the noise needs it."""
        row, slope = self._steps_of
        return min(row * slope, power_of_two_below(self._deviation) * 2.0**-_NOISE_BITS)

    @cached_property
    def _scale_in_steps(self) -> float:
        return rounded_up(Fraction(self._deviation) / Fraction(self._noise_grid))

    @cached_property
    def cost(self) -> Cost:
        """Gaussian for full batches; for sampled ones (ε, δ), and a Gaussian that dominates the run."""
        size = self.facts.outputs * self.facts.width
        distance = self.recipe.steps * Fraction(size) / (24 * Fraction(self._scale_in_steps) ** 2)
        if self.recipe.sampling_rate == 1:
            return gaussian_cost(self.epsilon, self.delta, distance)
        if total_variation_delta(exact(self.epsilon), distance) > exact(self.delta) * TOTAL_VARIATION_SHARE:
            raise InvalidParameter("Gaussian noise cannot be exact enough for this delta.", "Use a larger delta.")
        recipe = self.recipe
        multiplier = sampled_multiplier(recipe.exact_sampling_rate, recipe.steps, self.epsilon, self.delta)
        return sampled_cost(recipe.exact_sampling_rate, multiplier, recipe.steps, self.epsilon, self.delta, distance)

    @property
    def noise_scale(self) -> float:
        """Standard deviation that the noise alone would give a parameter over all steps, without a penalty."""
        return self._step_noise * math.sqrt(self.recipe.steps)

    @property
    def grid(self) -> float:
        """A power of two far below the noise of a step: the grid of the parameters."""
        return public_grid(self._step_noise)

    @property
    def _expected_rows(self) -> float:
        return self.facts.rows * self.recipe.exact_sampling_rate

    @property
    def _step_noise(self) -> float:
        """Standard deviation that the noise of one step gives a parameter."""
        return self._deviation / self._expected_rows * self.recipe.learning_rate

    def clipped_sum(self, rows: Rows, parameters: Floats, kept: NDArray[np.bool_] | None = None) -> Floats:
        """The sum of clipped gradients as whole multiples of both grids' product; [outputs, width], exact.

        Rows are matrices, or positions of ones (`sudare.schema.encoder.one_positions`), with targets.
        """
        return rows.total(OfPacked(partial(self._of_block, parameters)), kept)

    def _of_block(
        self,
        parameters: Floats,
        matrix: NDArray[Any] | Packed,
        targets: Floats | Packed,
        kept: NDArray[np.bool_] | None = None,
    ) -> Floats:
        """The sum over a block, some thousand rows at a time; over those that are kept, where that is said."""
        if isinstance(targets, Packed):
            targets = targets.unpacked()
        if isinstance(matrix, Packed) and matrix.exponent is None:
            matrix = matrix.numbers
        # Numba takes a moment to import, and other methods do without.
        from sudare.linear.clipped_gradient_kernels import columns_of

        total = np.zeros(parameters.shape)
        columns = matrix.columns if isinstance(matrix, Packed) else np.empty((0, 0))
        for start in range(0, len(matrix), _ROWS_AT_ONCE):
            part = slice(start, min(start + _ROWS_AT_ONCE, len(matrix)))
            chosen = slice(None) if kept is None else kept[part]
            target = targets[part][chosen]
            if isinstance(matrix, Packed):
                if kept is None:
                    self._add_columns(total, parameters, columns, target, matrix.unit, start)
                else:
                    sampled = np.ascontiguousarray(columns[:, part][:, chosen])
                    self._add_columns(total, parameters, sampled, target, matrix.unit)
            elif matrix.dtype == np.float64:
                rows = np.ascontiguousarray(matrix[part][chosen])
                self._add_columns(total, parameters, columns_of(rows), target)
            else:
                self._add_positions(total, parameters, np.ascontiguousarray(matrix[part][chosen]), target)
        return total

    def _add_columns(
        self,
        total: Floats,
        parameters: Floats,
        columns: NDArray[Any],
        targets: Floats,
        unit: float = 1.0,
        start: int = 0,
    ) -> None:
        """Add the sum over rows of numbers, given by column and in units: those from `start` on, as many as there are targets."""
        from sudare.linear.clipped_gradient_kernels import add_clipped, logistic_slopes, scores_and_squares

        row_grid, slope_grid = self._steps_of
        scores, squares = scores_and_squares(columns, start, start + len(targets), unit, parameters, row_grid)
        by_output, loss = np.ascontiguousarray(targets.T), self.facts.loss
        if isinstance(loss, Logistic):
            slopes = logistic_slopes(scores.ravel(), by_output.ravel()).reshape(scores.shape)
        else:
            slopes = loss.slope(scores, by_output)
        add_clipped(total, columns, start, unit, slopes, squares, row_grid, slope_grid, float(self.recipe.clip))

    def _add_positions(self, total: Floats, parameters: Floats, positions: NDArray[Any], targets: Floats) -> None:
        """Add the sum over rows of ones at these positions."""
        from sudare.linear.clipped_gradient_kernels import add_clipped_at, logistic_slopes, scores_at

        scores, loss = scores_at(positions, parameters), self.facts.loss
        if isinstance(loss, Logistic):
            slopes = logistic_slopes(scores.ravel(), np.ravel(targets)).reshape(scores.shape)
        else:
            slopes = loss.slope(scores, targets)
        add_clipped_at(total, positions, slopes, *self._steps_of, float(self.recipe.clip))

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """Parameters after all steps from zero, averaged over the last ones, on the grid."""
        facts, recipe = self.facts, self.recipe
        place = np.zeros((facts.outputs, facts.width))
        velocity, average = np.zeros_like(place), np.zeros_like(place)
        row_grid, slope_grid = self._steps_of
        finer = round(row_grid * slope_grid / self._noise_grid)
        for step in range(recipe.steps):
            ahead = place + recipe.momentum * velocity
            kept = None if recipe.sampling_rate == 1 else poisson_sample(facts.rows, recipe.exact_sampling_rate, source)
            whole = self.clipped_sum(rows, ahead, kept).astype(np.int64) * finer
            noisy = source.gaussian(whole.ravel(), self._scale_in_steps).astype(np.float64) * self._noise_grid
            gradient = noisy.reshape(place.shape) / self._expected_rows + facts.penalty / facts.rows * ahead
            velocity = recipe.momentum * velocity - recipe.learning_rate * gradient
            place = place + velocity
            if step >= recipe.steps - recipe.averaged:
                average += place / recipe.averaged
        return on_grid(average, self.grid)


def poisson_sample(rows: int, sampling_rate: float, source: WordSource) -> NDArray[np.bool_]:
    """Each row kept with exactly that probability (a multiple of 2⁻³²), independently: its word of 64 bits is below q·2⁶⁴."""
    limit = int(sampling_rate * 2.0**_SAMPLING_BITS) << (64 - _SAMPLING_BITS)
    return np.asarray(source.words(rows) < np.uint64(limit))


@functools.lru_cache(maxsize=64)
def sampled_multiplier(
    sampling_rate: float, steps: int, epsilon: float, delta: float, neighbours: Neighbours = "replace-one"
) -> float:
    """Noise deviation over clip for Poisson-sampled descent at (ε, δ), by privacy loss distributions.

    The whole run is one batch that is declared before it starts, so numerical composition applies. As for any such batch,
    a part of δ is kept for the rounding of Fourier transforms, and one for the distance to ideal noise.
    """
    limit = rounded_down(exact(delta) * (1 - 2 * TOTAL_VARIATION_SHARE) - steps * FOURIER_ERROR)
    if limit <= 0:
        raise InvalidParameter("delta is too small for sampled descent.", "Use for example 1e-6, or full batches.")

    def holds(multiplier: float) -> bool:
        loss_step = _LOSS_STEP * min(1.0, epsilon)
        accountant = sampled_accountant(sampling_rate, multiplier, steps, loss_step, neighbours)
        return bool(accountant.get_epsilon(limit) <= epsilon)

    # About what full batches would need for the same noise beside the expected sum. Noise far below the clip has losses so large
    # that their distribution does not fit into memory: the search comes from above, and ends at a quarter of the clip.
    moved = 2 if neighbours == "replace-one" else 1
    high = max(0.5, moved * math.sqrt(steps) * sampling_rate / gaussian_mu_within(epsilon, delta))
    while holds(high):
        if high <= _LEAST_MULTIPLIER:
            return high
        high /= _MULTIPLIER_STEP
    low, high = high, high * _MULTIPLIER_STEP
    while not holds(high):
        low, high = high, high * _MULTIPLIER_STEP
        if high > 2.0**20:
            raise InvalidParameter("epsilon or delta is too small for sampled descent.", "Use full batches.")
    while high > low * (1 + _MULTIPLIER_ACCURACY):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def sampled_cost(
    sampling_rate: float,
    multiplier: float,
    steps: int,
    epsilon: float,
    delta: float,
    distance: Fraction,
    neighbours: Neighbours = "replace-one",
) -> Cost:
    """(ε, δ) of a sampled run whose noise is that far from ideal; and the μ of a Gaussian that dominates it, where there is one."""
    found = sampled_mu(sampling_rate, multiplier, steps, epsilon, neighbours)
    if found is None:
        return approximate_cost(epsilon, delta)
    total = rounded_up(distance + 2 * steps * FOURIER_ERROR)
    return Cost(exact(epsilon), exact(delta), found, Fraction(total), apart=True)


@functools.lru_cache(maxsize=64)
def sampled_mu(
    sampling_rate: float, multiplier: float, steps: int, epsilon: float, neighbours: Neighbours
) -> float | None:
    """A μ such that the run with ideal noise is within 2⁻³⁹ a step of a μ-GDP one; None where none is found. Proof: proofs/gaussian_domination.md.

    Half of the distance is for the rounding of Fourier transforms, and half for losses that are rarer.
    """
    loss_step = _LOSS_STEP * min(1.0, epsilon)
    accountant = sampled_accountant(sampling_rate, multiplier, steps, loss_step, neighbours)

    def delta_at(places: NDArray[np.float64]) -> NDArray[np.float64]:
        # Given a list of places, dp-accounting walks through all losses one by one; at one place it is much quicker.
        return np.array([accountant.get_delta(float(places[0]))] if len(places) == 1 else accountant.get_delta(places))

    curve = privacy_curve(delta_at, loss_step, float(steps * FOURIER_ERROR))
    return None if curve is None else dominating_mu(curve)


def sampled_accountant(
    sampling_rate: float, multiplier: float, steps: int, loss_step: float, neighbours: Neighbours
) -> Any:
    """dp-accounting's account of a whole run, losses rounded up to multiples of `loss_step`."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    relation = NeighboringRelation.REPLACE_ONE if neighbours == "replace-one" else NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(relation, value_discretization_interval=loss_step)
    step = PoissonSampledDpEvent(sampling_rate, GaussianDpEvent(multiplier))
    accountant.compose(SelfComposedDpEvent(step, steps))
    return accountant

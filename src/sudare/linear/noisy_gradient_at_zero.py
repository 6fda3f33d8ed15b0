"""A private linear model from one message: the gradient at zero, with noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.frames.rows import BLOCK_ROWS, Rows
from sudare.linear.mechanism import Facts, LinearMechanism, public_grid
from sudare.linear.noise_calibration import laplace_is_quieter
from sudare.linear.rows import row_step
from sudare.privacy.accounting import Cost, rounded_up_root
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

_SUM_BITS: Final = 52


@dataclass(frozen=True)
class MeanMessage(LinearMechanism):
    """ε-DP or (ε, δ)-DP gradient at zero, replace-one rows. Proof: proofs/mean_message.md.

    One output: Σ y·x. Several: the sums of the rows of each class, one block a class, made into one-against-the-rest
    gradients afterwards. Sums are exact, so no solver and no slack: but features should be publicly centred, or the targets, by a level that is released
    already (`centred`): then Σ (y − level)·x is the covariance with the target.
    """

    facts: Facts
    epsilon: float
    delta: float = 0.0
    centred: bool = False

    def __post_init__(self) -> None:
        _ = self.cost

    @cached_property
    def _bits(self) -> tuple[int, int]:
        """Bits of a row and of a target, so that sums over all rows stay within 52 bits."""
        total = _SUM_BITS - self.facts.rows.bit_length()
        is_sign = self.facts.outputs > 1 or (self.facts.loss.one_sided and not self.centred)
        target = 0 if is_sign else min(20, total // 2)
        return min(26, total - target - 1), target

    @cached_property
    def _steps(self) -> tuple[float, float]:
        row_bits, target_bits = self._bits
        return row_step(self.facts.norm_bound, row_bits), 2.0**-target_bits

    @cached_property
    def mechanism(self) -> GammaNorm | Laplace | Gaussian:
        """Noise for all sums as one vector.

        A replaced row moves Σ y·x by 2R at most. With blocks it leaves one block and enters another (√2R), or moves within
        one (2R; but √2R where no entry of a row can be negative). Absolute values move by 2R₁ together, whichever it is.
        """
        facts = self.facts
        reach = rounded_up_root(Fraction(2)) if facts.outputs > 1 and facts.nonnegative else 2.0
        sensitivity = reach * facts.norm_bound * facts.rows_per_unit * (1 + 2.0**-50)
        sum_sensitivity = 2 * facts.sum_bound * facts.rows_per_unit * (1 + 2.0**-50)
        size, step = facts.outputs * facts.width, self._steps[0] * self._steps[1]
        if self.delta == 0 and laplace_is_quieter(sum_sensitivity, sensitivity, size):
            return Laplace(sum_sensitivity, self.epsilon, size, integer_grid=step)
        if self.delta == 0:
            return GammaNorm(sensitivity, self.epsilon, size)
        return Gaussian(sensitivity, self.epsilon, self.delta, size, integer_grid=step)

    @property
    def cost(self) -> Cost:
        """That of the noise: pure ε, or Gaussian."""
        return self.mechanism.cost

    @cached_property
    def _scale(self) -> float:
        """From a gradient at zero to parameters: one Newton step where all directions are taken to be alike (public)."""
        facts = self.facts
        curvature = facts.loss.largest_curvature * facts.rows * facts.norm_bound**2 / facts.width
        slope = 0.5 if facts.loss.joint else 1.0
        return slope / (curvature + facts.penalty)

    @property
    def noise_scale(self) -> float:
        """Scale of the noise on the parameters."""
        return self.mechanism.noise_scale * self._scale

    @property
    def grid(self) -> float:
        """A power of two far below the noise: the grid of the parameters."""
        return public_grid(self.noise_scale)

    def sums(self, rows: Rows, level: float = 0.0) -> Floats:
        """Σ w·x with w = (y − level)/(1 + |level|) in [−1, 1], or the sums of rows by class; exact in floats, because everything is whole multiples of a step."""
        row_grid, target_grid = self._steps
        return rows.total(partial(self._of_block, level)) * (row_grid * target_grid)

    def _of_block(self, level: float, matrix: NDArray[Any], targets: Floats) -> Floats:
        """The sums over a block as whole multiples of both grids' product, a thousand rows at a time. Rows are matrices, or positions of ones."""
        row_grid, target_grid = self._steps
        total = np.zeros((self.facts.outputs, self.facts.width))
        for start in range(0, len(matrix), BLOCK_ROWS):
            target, rows = targets[start : start + BLOCK_ROWS], matrix[start : start + BLOCK_ROWS]
            weights = (
                (target - level) / (1 + abs(level)) if self.facts.outputs == 1 else (target > 0).astype(np.float64)
            )
            whole = np.trunc(weights / target_grid)
            if rows.dtype == np.float64:
                total += whole.T @ np.trunc(rows / row_grid)
            else:
                for output, line in enumerate(whole.T):
                    repeated = np.repeat(line / row_grid, rows.shape[1])
                    total[output] += np.bincount(rows.ravel(), repeated, self.facts.width)
        return total

    def fitted(self, rows: Rows, source: NoiseSource, level: Floats | None = None) -> Floats:
        """Noisy sums, as parameters; about released levels of the targets where they are given: one, or the share of each class."""
        outputs = self.facts.outputs
        middle = float(level[0]) if outputs == 1 and level is not None else 0.0
        noisy = self.mechanism.apply(self.sums(rows, middle).ravel(), source).reshape(outputs, self.facts.width)
        if outputs > 1:
            shares = np.full(outputs, 0.5) if level is None else level
            noisy = 2 * (noisy - shares[:, np.newaxis] * noisy.sum(axis=0))
        return on_grid(noisy * self._scale, self.grid)

"""Laplace noise on one number of a record (paper 004, eq. (1); Igarashi et al.)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats, Integers
from sudare.perturbation.exact_draws import StepNoise, step_noise
from sudare.perturbation.number_channels import NumberPerturbation, grid_of
from sudare.privacy.noise import NoiseSource

# The grid is about this part of the noise and of the range: what rounding to it loses is far below the noise.
_STEPS_IN_SCALE: Final = 256
_STEPS_IN_RANGE: Final = 256
# Tables beyond this would not fit a processor's cache; reached where ε is below 0.06.
_MOST_STEPS_IN_SCALE: Final = 8192


class LaplacePerturbation(NumberPerturbation):
    """ε-local DP for one number; with k, 1/k is the most a shuffled row can be linked. Proof: proofs/record_perturbation.md.

    Parameters
    ----------
    bounds : public (low, high). Never taken from the data: that would void the promise.
    epsilon : the local ε; or instead
    k, n_records : no row can be linked with probability above 1/k among so many shuffled rows. Then the noise scale is
        φ = 2·(high − low)/ln((n_records − 1)/(k − 1)), which is local ε = (high − low)/φ.
    whole : whether values are whole numbers; outputs are then whole as well.
    """

    kind = "laplace"

    def fine_grid(self, width: float) -> float:
        """About a 256th of noise and range, or less; coarser where ε is below 0.06."""
        return public_grid(width, self.epsilon)

    def whole_grid(self, width: float) -> float:
        """1, or more where the noise scale of a range of this width would have more than 8192 steps."""
        return float(math.ceil(width / self.epsilon / _MOST_STEPS_IN_SCALE))

    @property
    def noise(self) -> StepNoise:
        """The exact law of the noise, in steps."""
        return step_noise(self.steps, self.epsilon)

    @property
    def overshoot(self) -> int:
        """How many steps beyond the bounds noise is cut: about 22 scales less the range."""
        return self.noise.overshoot

    @property
    def noise_scale(self) -> float:
        """φ of the Laplace law, in the column's unit."""
        return self.noise.scale * self.grid

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of probabilities, from the table that is drawn from."""
        return self.noise.ratio

    def draw(self, codes: Integers, source: NoiseSource) -> Integers:
        """Codes with discrete Laplace noise."""
        return self.noise.drawn(codes, source)

    def draw_many(self, steps: NDArray[np.int32], words: NDArray[np.uint64], outputs: NDArray[Any]) -> None:
        """The outcome of the alias table added to each step, cut to the possible outputs."""
        from sudare.perturbation.compiled_draws import laplace_outputs

        noise, table = self.noise, self.noise.table
        shift, last = noise.reach - noise.overshoot, self.output_count - 1
        laplace_outputs(steps, words, table.bits, table.pairs, shift, last, outputs)

    def steps_cdf(self, outputs: Integers, codes: Integers) -> Floats:
        """The distribution function of the discrete Laplace law: q^{−n}/(1 + q) below zero, 1 − q^{n+1}/(1 + q) from zero on."""
        offsets = (outputs - codes).astype(np.float64)
        decay = math.exp(-1 / self.noise.scale)
        tails = np.exp(-np.where(offsets < 0, -offsets, offsets + 1) / self.noise.scale) / (1 + decay)
        return np.where(offsets < 0, tails, 1 - tails)


def public_grid(width: float, epsilon: float) -> float:
    """The step for a range of this width: about a 256th of noise and range, or less; coarser where ε is below 0.06."""
    scale = width / epsilon
    fine = min(scale / _STEPS_IN_SCALE, width / _STEPS_IN_RANGE)
    return grid_of(width, max(fine, 2 * scale / _MOST_STEPS_IN_SCALE))

"""Laplace noise on one number of a record (paper 004, eq. (1); Igarashi et al.)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.perturbation.column_perturbation import unsigned_type
from sudare.perturbation.exact_draws import CHUNK_VALUES, MANY_ROWS, StepNoise, step_noise
from sudare.perturbation.number_channels import Bounds, NumberPerturbation, grid_of
from sudare.privacy.noise import NoiseSource

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

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
    """

    kind = "laplace"

    def __init__(
        self, bounds: Bounds, *, epsilon: float | None = None, k: int | None = None, n_records: int | None = None
    ) -> None:
        super().__init__(bounds, epsilon=epsilon, k=k, n_records=n_records)
        low, high = self.bounds
        self._grid = public_grid(high - low, self.epsilon)

    @property
    def grid(self) -> float:
        """About a 256th of the noise and of the range, or less; coarser where ε is below 0.06."""
        return self._grid

    @property
    def noise(self) -> StepNoise:
        """The exact law of the noise, in steps."""
        return step_noise(self.steps, self.epsilon)

    @property
    def overshoot(self) -> int:
        """Where the noise is cut: about 22 scales less the range."""
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

    def drawn(self, column: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """One output for each number, packed; of many numbers by a compiled loop."""
        if len(column) < MANY_ROWS:
            return super().drawn(column, source)
        from sudare.perturbation.compiled_draws import laplace_outputs, steps_of

        noise, table = self.noise, self.noise.table
        outputs = np.empty(len(column), dtype=unsigned_type(self.output_count))
        for start in range(0, len(column), CHUNK_VALUES):
            part = np.ascontiguousarray(column[start : start + CHUNK_VALUES], dtype=np.float64)
            steps, words = steps_of(part, *self.bounds, self.grid), source.words(len(part))
            shift, last = noise.reach - noise.overshoot, self.output_count - 1
            laplace_outputs(steps, words, table.bits, table.pairs, shift, last, outputs[start : start + CHUNK_VALUES])
        return outputs

    def steps_cdf(self, outputs: Integers, codes: Integers) -> Floats:
        """The distribution function of the discrete Laplace law: q^{−n}/(1 + q) below zero, 1 − q^{n+1}/(1 + q) from zero on."""
        offsets = (outputs - codes).astype(np.float64)
        decay = math.exp(-1 / self.noise.scale)
        tails = np.exp(-np.where(offsets < 0, -offsets, offsets + 1) / self.noise.scale) / (1 + decay)
        return np.where(offsets < 0, tails, 1 - tails)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Floats:
        """−|y − x|/φ − log(2φ)."""
        scale = self.noise_scale
        distance = np.abs(np.asarray(y, dtype=np.float64) - np.asarray(x, dtype=np.float64))
        return np.asarray(-distance / scale - math.log(2 * scale))

    def description(self) -> dict[str, Any]:
        """Kind, bounds, ε, noise scale and grid."""
        return {
            "kind": self.kind,
            "bounds": list(self.bounds),
            "epsilon": self.epsilon,
            "noise_scale": self.noise_scale,
            "grid": self.grid,
        }


def public_grid(width: float, epsilon: float) -> float:
    """The step for a range of this width: fine against noise and range, unless the noise is very much wider than the range."""
    scale = width / epsilon
    fine = min(scale / _STEPS_IN_SCALE, width / _STEPS_IN_RANGE)
    return grid_of(width, max(fine, 2 * scale / _MOST_STEPS_IN_SCALE))

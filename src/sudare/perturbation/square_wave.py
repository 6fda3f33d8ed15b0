"""The square wave of Li, Wang, Lopuhaä-Zwakenberg, Skoric and Li (2020): an output near the value is e^ε times likelier."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats, Integers
from sudare.perturbation.exact_draws import WORD_BITS, ratio_within
from sudare.perturbation.number_channels import NumberPerturbation, grid_of
from sudare.privacy.noise import NoiseSource

_STEPS_IN_RANGE: Final = 1024
_STEPS_IN_WAVE: Final = 64
_MOST_STEPS_IN_RANGE: Final = 2**14


class SquareWave(NumberPerturbation):
    """ε-local DP for one number; outputs stay within half a range of the bounds. Proof: proofs/record_perturbation.md.

    With D steps between the bounds and a wave of B steps to either side there are D + 2B + 1 outputs. The 2B + 1 that are
    within B steps of the value have `near_weight` of 2⁶⁴ words each, the D others `far_weight`.

    Parameters are those of `LaplacePerturbation`. `noise_scale` is the half-width of the wave.
    """

    kind = "square-wave"

    def fine_grid(self, width: float) -> float:
        """About a 1024th of the range and a 64th of the wave, or less."""
        fine = min(1 / _STEPS_IN_RANGE, wave_half_width(self.epsilon) / _STEPS_IN_WAVE)
        return grid_of(width, width * max(fine, 2 / _MOST_STEPS_IN_RANGE))

    def whole_grid(self, width: float) -> float:
        """1, or more where a range of this width would have more than 2¹⁴ steps."""
        return float(math.ceil(width / _MOST_STEPS_IN_RANGE))

    @cached_property
    def overshoot(self) -> int:
        """The half-width of the wave, in steps."""
        return math.floor(wave_half_width(self.epsilon) * self.steps)

    @cached_property
    def _law(self) -> tuple[int, int, Fraction]:
        return wave_weights(self.steps, self.overshoot, ratio_within(self.epsilon))

    @property
    def far_weight(self) -> int:
        """How many of 2⁶⁴ words each output outside of the wave has."""
        return self._law[0]

    @property
    def near_weight(self) -> int:
        """How many each output of the wave has."""
        return self._law[1]

    @property
    def noise_scale(self) -> float:
        """The half-width of the wave, in the column's unit."""
        return (self.overshoot + 0.5) * self.grid

    @property
    def ratio(self) -> Fraction:
        """The largest weight over the smallest."""
        return self._law[2]

    def draw(self, codes: Integers, source: NoiseSource) -> Integers:
        """The first D·far_weight words lead to the outputs outside of the wave, in their order; the others into it."""
        words = source.words(len(codes))
        far_words = np.uint64(self.steps * self.far_weight)
        far = (words // np.uint64(self.far_weight)).astype(np.int64)
        wave = self.overshoot
        # The far outputs below the wave are −wave … code − wave − 1, as many as the code says; those above follow.
        far += np.where(far < codes, -wave, wave + 1)
        near = ((words - far_words) // np.uint64(self.near_weight)).astype(np.int64)
        near = np.minimum(near, 2 * wave) + codes - wave
        return np.where(words < far_words, far, near)

    def draw_many(self, steps: NDArray[np.int32], words: NDArray[np.uint64], outputs: NDArray[Any]) -> None:
        """Write what `draw` returns, with one division a row."""
        from sudare.perturbation.compiled_draws import wave_outputs

        far_words = np.uint64(self.steps * self.far_weight)
        weights = np.uint64(self.far_weight), np.uint64(self.near_weight)
        wave_outputs(steps, words, far_words, *weights, self.overshoot, outputs)

    def steps_cdf(self, outputs: Integers, codes: Integers) -> Floats:
        """Far outputs below and above the wave, and near ones, counted and weighed."""
        wave = self.overshoot
        near = np.clip(outputs - (codes - wave) + 1, 0, 2 * wave + 1)
        far = outputs + wave + 1 - near
        probability: Floats = (near * float(self.near_weight) + far * float(self.far_weight)) / 2.0**WORD_BITS
        return probability


def wave_half_width(epsilon: float) -> float:
    """b for a range of one, which makes outputs most informative: (εe^ε − e^ε + 1)/(2e^ε(e^ε − 1 − ε)) (Li et al., eq. (6))."""
    if epsilon < 1e-2:
        # The quotient of two small differences; its series is ½ − ε/3 + ε²/9 − ….
        return 0.5 - epsilon / 3 + epsilon**2 / 9
    growth = math.exp(epsilon)
    return (epsilon * growth - growth + 1) / (2 * growth * (growth - 1 - epsilon))


def wave_weights(steps: int, half_width_steps: int, limit: Fraction) -> tuple[int, int, Fraction]:
    """Far and near weight, and the largest ratio, at most `limit`; words that are left over go to the last near output.

    Far words are D·f, so near ones are (2⁶⁴ − D·f)/(2B + 1) each, rounded down, and fewer than 2B + 1 are left over: f is the
    least whole number for which even the last near output stays within the limit.
    """
    near_outputs = 2 * half_width_steps + 1
    least = (2**WORD_BITS + (near_outputs - 1) * near_outputs) / (near_outputs * limit + steps)
    far_weight = math.ceil(least)
    near_words = 2**WORD_BITS - steps * far_weight
    near_weight = near_words // near_outputs
    last = near_weight + near_words % near_outputs
    return far_weight, near_weight, Fraction(last, far_weight)

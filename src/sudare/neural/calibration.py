"""How a network descends and how much noise that takes: public rules from (rows, ε, δ, relation), and privacy loss distributions.

docs/neural.md says how the rule was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sudare.errors import InvalidParameter
from sudare.linear.descent import sampled_multiplier
from sudare.privacy.accounting import (
    exact,
    gaussian_mu_within,
    rounded_down,
    rounded_up,
    rounded_up_root,
    total_variation_delta,
)
from sudare.privacy.discrete_gaussian import DISTANCE
from sudare.privacy.guarantee import Neighbours

SAMPLING_BITS: Final = 32
MOST_STEPS: Final = 100_000
_SAMPLING_RATE: Final = 1 / 8
_FEWEST_EXPECTED_ROWS: Final = 256
_LARGEST_PHYSICAL_BATCH: Final = 8192
# Half of the rows that are added up at once: small samples leave few slots empty.
_BATCH_STEP: Final = 64
_MOMENTUM: Final = 0.9
_WAY_PER_SIGNAL: Final = 0.036
_SHORTEST_WAY, _LONGEST_WAY = 5.0, 400.0
_STEPS_PER_ROOT: Final = 24
_FEWEST_STEPS, _MOST_STEPS_BY_RULE = 200, 400
# Within these bounds the norm of every row there can be is right (proofs/dp_sgd.md).
SMALLEST_CLIP, LARGEST_CLIP = 2.0**-20, 2.0**20
_SMALLEST_RATE, _LARGEST_RATE = 1e-30, 1e30
# One sample in so many may be larger than there are slots for it.
_OVERFLOW: Final = Fraction(1, 2**69)
# Less noise than this is not drawn: sums in units of the noise would not fit into 64 bits.
_LEAST_MULTIPLIER: Final = 2.0**-20
# The most of δ that the distance between drawn and ideal noise may take.
_LARGEST_SHARE_OF_DISTANCE: Final = Fraction(1, 2)


@dataclass(frozen=True)
class Recipe:
    """Public numbers of a descent. `rate` is in units of the clip: a full step along one row's clipped gradient has this length."""

    steps: int
    sampling_rate: float
    clip: float
    rate: float
    momentum: float
    physical_batch: int


def exact_sampling_rate(sampling_rate: float) -> float:
    """The rate as a multiple of 2⁻³², rounded down, so that sampling is exact."""
    return math.floor(sampling_rate * 2.0**SAMPLING_BITS) / 2.0**SAMPLING_BITS


def public_recipe(
    rows: int,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    *,
    steps: int | None = None,
    sampling_rate: float | None = None,
    clip: float = 1.0,
    rate: float | None = None,
    momentum: float = 0.9,
    physical_batch: int | None = None,
) -> Recipe:
    """What is not given is filled in from public facts."""
    if sampling_rate is None:
        sampling_rate = min(1.0, max(_SAMPLING_RATE, _FEWEST_EXPECTED_ROWS / rows))
    sampled = exact_sampling_rate(sampling_rate)
    signal = _signal(rows, epsilon, delta, neighbours)
    steps = public_steps(signal) if steps is None else steps
    rate = public_rate(signal, steps, momentum) if rate is None else rate
    if physical_batch is None:
        physical_batch = _batch_for(rows, sampled)
    return Recipe(steps, sampled, clip, rate, momentum, physical_batch)


def run_distance(steps: int, parameters: int) -> Fraction:
    """Total variation to a run whose noise is normal, rounded to whole units, and whose samples all find their slots."""
    return steps * (parameters * DISTANCE + _OVERFLOW)


def delta_of_ideal_noise(epsilon: float, delta: float, distance: Fraction) -> float:
    """What is left of δ for a run with ideal noise: a distance adds (1 + e^ε) times as much."""
    charged = total_variation_delta(exact(epsilon), distance)
    if charged > exact(delta) * _LARGEST_SHARE_OF_DISTANCE:
        raise InvalidParameter(
            "delta is too small for so many parameters and steps: the noise is not drawn so exactly.",
            "Use a larger delta, a smaller network or fewer steps.",
        )
    return rounded_down(exact(delta) - charged)


def run_mu(epsilon: float, delta: float, distance: Fraction) -> float:
    """μ of a whole run on full batches, before its distance is counted."""
    return gaussian_mu_within(epsilon, delta_of_ideal_noise(epsilon, delta, distance))


def noise_multiplier(recipe: Recipe, epsilon: float, delta: float, neighbours: Neighbours, parameters: int) -> float:
    """Noise deviation over clip for the whole run at (ε, δ): one batch that is declared before it starts.

    Full batches compose as one Gaussian of √steps times the μ; sampled ones by privacy loss distributions.
    """
    distance = run_distance(recipe.steps, parameters)
    if recipe.sampling_rate < 1:
        ideal = delta_of_ideal_noise(epsilon, delta, distance)
        return sampled_multiplier(recipe.sampling_rate, recipe.steps, epsilon, ideal, neighbours)
    moved = Fraction(rounded_up_root(Fraction(recipe.steps))) * (2 if neighbours == "replace-one" else 1)
    return max(_LEAST_MULTIPLIER, rounded_up(moved / Fraction(run_mu(epsilon, delta, distance))))


def public_steps(signal: float) -> int:
    """Enough for the way to go at a rate that stays stable, and few enough to be quick."""
    return max(_FEWEST_STEPS, min(_MOST_STEPS_BY_RULE, round(_STEPS_PER_ROOT * math.sqrt(_way(signal)))))


def public_rate(signal: float, steps: int, momentum: float) -> float:
    """The way to go, shared out among the steps: momentum makes each of them go 1/(1 − momentum) times as far."""
    return _way(signal) / steps * (1 - momentum) / (1 - _MOMENTUM)


def _way(signal: float) -> float:
    """Rate times steps at momentum 0.9: the noise that piles up on the way is in proportion to way over signal."""
    return min(_LONGEST_WAY, max(_SHORTEST_WAY, _WAY_PER_SIGNAL * signal))


def _signal(rows: int, epsilon: float, delta: float, neighbours: Neighbours) -> float:
    """Rows over the noise of one full-batch sum in units of the clip: how much louder all rows together are than the noise."""
    moved = 2 if neighbours == "replace-one" else 1
    return gaussian_mu_within(epsilon, delta) * rows / moved


def slots_for(rows: float, sampling_rate: float) -> float:
    """Slots that hold the sample of so many rows, or fewer, but for one in 2⁶⁹: Bernstein's inequality, proofs/dp_sgd.md."""
    expected = rows * sampling_rate
    return max(1.0, min(rows, expected + 10 * math.sqrt(expected * (1 - sampling_rate)) + 32))


def _batch_for(rows: int, sampling_rate: float) -> int:
    """Rows treated at once: all of a sample, or equal parts of it."""
    wanted = slots_for(rows, sampling_rate)
    batches = math.ceil(wanted / _LARGEST_PHYSICAL_BATCH)
    return _BATCH_STEP * math.ceil(wanted / batches / _BATCH_STEP)


def check_recipe(recipe: Recipe) -> None:
    """Raise InvalidParameter unless a descent can be made with these numbers."""
    if not 1 <= recipe.steps <= MOST_STEPS:
        raise InvalidParameter(f"steps must be from 1 to {MOST_STEPS}, got {recipe.steps}.", "Use for example 100.")
    if not 2.0**-SAMPLING_BITS <= recipe.sampling_rate <= 1:
        raise InvalidParameter("sampling_rate must be above 0 and at most 1.", "Use for example 0.125.")
    if not SMALLEST_CLIP <= recipe.clip <= LARGEST_CLIP:
        raise InvalidParameter(
            f"clip must be from {SMALLEST_CLIP:g} to {LARGEST_CLIP:g}, got {recipe.clip:g}.", "Use for example 1.0."
        )
    if not _SMALLEST_RATE <= recipe.rate <= _LARGEST_RATE:
        raise InvalidParameter(
            f"rate must be from {_SMALLEST_RATE:g} to {_LARGEST_RATE:g}, got {recipe.rate:g}.", "Leave it out."
        )
    if not 0 <= recipe.momentum < 1:
        raise InvalidParameter("momentum must be at least 0 and below 1.", "Use for example 0.9.")
    if not 1 <= recipe.physical_batch <= 2**24:
        raise InvalidParameter("physical_batch must be from 1 to 2²⁴ rows.", "Leave it out, or use for example 1024.")

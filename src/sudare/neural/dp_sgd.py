"""DP-SGD: its public settings, how much noise they take, and the run. Only the run itself needs JAX.

Settings follow from (rows, ε, δ, relation); docs/neural.md says how the rule was found. Noise is calibrated with privacy loss
distributions. Proof: proofs/dp_sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

from sudare.array_types import Singles
from sudare.errors import InvalidParameter
from sudare.linear.descent import sampled_cost, sampled_multiplier
from sudare.neural.seeded_randomness import RunSeed, RunState
from sudare.neural.training_method_base import RunFacts
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import (
    Cost,
    exact,
    gaussian_mu_within,
    rounded_down,
    rounded_up,
    rounded_up_root,
    total_variation_delta,
)
from sudare.privacy.discrete_gaussian import DISTANCE
from sudare.privacy.guarantee import Guarantee, Neighbours
from sudare.privacy.noise import NoiseSource

SAMPLING_BITS: Final = 32
_SAMPLING_RATE: Final = 1 / 8
_FEWEST_EXPECTED_ROWS: Final = 256
LARGEST_PHYSICAL_BATCH: Final = 8192
# Half of the rows that are added up at once: small samples leave few slots empty.
_BATCH_STEP: Final = 64
_MOMENTUM: Final = 0.9
_LENGTH_PER_SIGNAL: Final = 0.036
_SHORTEST, _LONGEST = 5.0, 400.0
_STEPS_PER_ROOT: Final = 24
_FEWEST_STEPS, _MOST_STEPS = 200, 400
# One sample in so many may be larger than there are slots for it.
_OVERFLOW: Final = Fraction(1, 2**69)
# Less noise than this is not drawn: sums in units of the noise would not fit into 64 bits.
_LEAST_MULTIPLIER: Final = 2.0**-20
# The most of δ that the distance between drawn and ideal noise may take.
_LARGEST_SHARE_OF_DISTANCE: Final = Fraction(1, 2)
# Fine enough for any use of a network, and coarse enough that the last bits of a float do not leave.
GRID: Final = 2.0**-20
_NOISE: Final = "discrete Gaussian, deviation 2^34 units"

RANGES: Final = {
    "max_iter": Numbers(1, 100_000, whole=True),
    "sampling_rate": Numbers(2.0**-SAMPLING_BITS, 1),
    # Within these bounds the norm of every row there can be is right (proofs/dp_sgd.md).
    "clip": Numbers(2.0**-20, 2.0**20),
    "learning_rate": Numbers(1e-30, 1e30),
    "momentum": Numbers(0, 1, open_high=True),
    "max_physical_batch_size": Numbers(1, 2**24, whole=True),
}


@dataclass(frozen=True)
class Recipe:
    """Public settings of a run.

    `max_iter` is the number of steps. `learning_rate` is in units of the clip: a full step along one row's clipped gradient has
    this length. A step's sample is treated `max_physical_batch_size` rows at a time.
    """

    max_iter: int
    sampling_rate: float
    clip: float
    learning_rate: float
    momentum: float
    max_physical_batch_size: int


def public_recipe(
    rows: int,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    *,
    max_iter: int | None = None,
    sampling_rate: float | None = None,
    clip: float = 1.0,
    learning_rate: float | None = None,
    momentum: float = 0.9,
    max_physical_batch_size: int | None = None,
    largest_physical_batch: int = LARGEST_PHYSICAL_BATCH,
) -> Recipe:
    """The settings, with those that are None filled in from public facts; a sampling rate is rounded down to a multiple of 2⁻³²."""
    if sampling_rate is None:
        sampling_rate = min(1.0, max(_SAMPLING_RATE, _FEWEST_EXPECTED_ROWS / rows))
    sampled = math.floor(sampling_rate * 2.0**SAMPLING_BITS) / 2.0**SAMPLING_BITS
    # Rows over the noise of one full-batch sum in units of the clip: how much louder all rows together are than the noise.
    signal = gaussian_mu_within(epsilon, delta) * rows / _moved(neighbours)
    # Learning rate times steps at momentum 0.9: the noise that piles up is in proportion to length over signal.
    length = min(_LONGEST, max(_SHORTEST, _LENGTH_PER_SIGNAL * signal))
    if max_iter is None:
        max_iter = max(_FEWEST_STEPS, min(_MOST_STEPS, round(_STEPS_PER_ROOT * math.sqrt(length))))
    if learning_rate is None:
        # Momentum makes each step go 1/(1 − momentum) times as far.
        learning_rate = length / max_iter * (1 - momentum) / (1 - _MOMENTUM)
    if max_physical_batch_size is None:
        wanted = slots_for(rows, sampled)
        batches = math.ceil(wanted / largest_physical_batch)
        max_physical_batch_size = _BATCH_STEP * math.ceil(wanted / batches / _BATCH_STEP)
    return Recipe(max_iter, sampled, clip, learning_rate, momentum, max_physical_batch_size)


def check_recipe(recipe: Recipe) -> None:
    """Raise InvalidParameter unless a run can be made with these settings."""
    for name, numbers in RANGES.items():
        numbers.check(name, getattr(recipe, name))


def slots_for(rows: float, sampling_rate: float) -> float:
    """Slots that hold the sample of so many rows, or fewer, but for one in 2⁶⁹: Bernstein's inequality, proofs/dp_sgd.md."""
    expected = rows * sampling_rate
    return max(1.0, min(rows, expected + 10 * math.sqrt(expected * (1 - sampling_rate)) + 32))


def _moved(neighbours: Neighbours) -> int:
    """How many clips a row moves a sum by at most."""
    return 2 if neighbours == "replace-one" else 1


def delta_of_ideal_noise(epsilon: float, delta: float, distance: Fraction) -> float:
    """What is left of δ for a run with ideal noise: a distance adds (1 + e^ε) times as much. Raise InvalidParameter where that is too little."""
    charged = total_variation_delta(exact(epsilon), distance)
    if charged > exact(delta) * _LARGEST_SHARE_OF_DISTANCE:
        raise InvalidParameter(
            "delta is too small for so many parameters and steps: the noise is not drawn so exactly.",
            "Use a larger delta, a smaller network or a smaller max_iter.",
        )
    return rounded_down(exact(delta) - charged)


@dataclass(frozen=True)
class DpSgd:
    """(ε, δ)-DP network by noisy gradient descent, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    Every step takes a Poisson sample of the rows, shortens each row's gradient to the clip, and adds whole-numbered Gaussian noise to their
    sum in whole units.
    """

    facts: RunFacts
    epsilon: float
    delta: float
    recipe: Recipe

    grid: ClassVar[float] = GRID
    # The promise is to records.
    parameter_guarantee: ClassVar[Guarantee | None] = None

    def __post_init__(self) -> None:
        if self.delta == 0:
            raise InvalidParameter("DP-SGD needs delta > 0.", "Use for example delta=1e-6.")
        check_recipe(self.recipe)
        self.facts.check()

    @property
    def parameters(self) -> int:
        """d, the numbers that are trained."""
        return self.facts.parameters

    @cached_property
    def distance(self) -> Fraction:
        """Total variation to a run whose noise is normal, rounded to whole units, and whose samples all find their slots. It is charged to δ."""
        return self.recipe.max_iter * (self.parameters * DISTANCE + _OVERFLOW)

    @cached_property
    def ideal_delta(self) -> float:
        """δ of the run with ideal noise."""
        return delta_of_ideal_noise(self.epsilon, self.delta, self.distance)

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise deviation over clip for the whole run: one batch that is declared before it starts.

        Full batches compose as one Gaussian of √steps times the μ; sampled ones by privacy loss distributions.
        """
        recipe, neighbours = self.recipe, self.facts.neighbours
        if recipe.sampling_rate < 1:
            return sampled_multiplier(recipe.sampling_rate, recipe.max_iter, self.epsilon, self.ideal_delta, neighbours)
        moved = Fraction(rounded_up_root(Fraction(recipe.max_iter))) * _moved(neighbours)
        mu = gaussian_mu_within(self.epsilon, self.ideal_delta)
        return max(_LEAST_MULTIPLIER, rounded_up(moved / Fraction(mu)))

    @cached_property
    def cost(self) -> Cost:
        """Gaussian for full batches; for sampled ones (ε, δ), and a Gaussian that dominates the run."""
        recipe = self.recipe
        if recipe.sampling_rate < 1:
            promised = self.epsilon, self.delta, self.distance, self.facts.neighbours
            return sampled_cost(recipe.sampling_rate, self.noise_multiplier, recipe.max_iter, *promised)
        mu = gaussian_mu_within(self.epsilon, self.ideal_delta)
        return Cost(exact(self.epsilon), exact(self.delta), mu, Fraction(rounded_up(self.distance)))

    @property
    def expected_rows(self) -> float:
        """Rows that a step is expected to see: sums are divided by this, which is public."""
        return self.recipe.sampling_rate * self.facts.rows

    @property
    def noise_scale(self) -> float:
        """Standard deviation that the noise of one step gives a parameter at the full learning rate."""
        return self.recipe.learning_rate * self.noise_multiplier / self.expected_rows

    def declared(self) -> dict[str, Any]:
        """Everything that decides what the run does beside data and seed, as plain values.

        A checkpoint holds a digest of this, so names stay those of checkpoint format 1 whatever settings are called elsewhere.
        """
        facts, recipe = self.facts, self.recipe
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "recipe": {
                "steps": recipe.max_iter,
                "sampling_rate": recipe.sampling_rate,
                "clip": recipe.clip,
                "rate": recipe.learning_rate,
                "momentum": recipe.momentum,
                "physical_batch": recipe.max_physical_batch_size,
            },
            "noise_multiplier": self.noise_multiplier,
            # A run whose seed makes other noise is another run: its checkpoint is refused.
            "noise": _NOISE,
            "rows": facts.rows,
            "neighbours": facts.neighbours,
            **facts.described(),
        }

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Any:
        """The averaged parameters of a run with a fresh seed: arrays in the order and structure of what is trained."""
        return self.run(rows, targets, RunSeed.drawn(source))

    def run(
        self,
        rows: Singles,
        targets: Singles,
        seed: RunSeed,
        *,
        state: RunState | None = None,
        keep: Callable[[RunState], None] | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> Any:
        """The averaged parameters of the run that this seed decides, from the beginning or from a kept state."""
        # Here and not above: everything before training works without JAX.
        from sudare.neural.training import Training, trained

        training = Training(self.recipe, self.noise_multiplier, self.expected_rows)
        return trained(training, self.facts.trainable(), rows, targets, seed, state=state, keep=keep, tell=tell)

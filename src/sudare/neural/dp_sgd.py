"""The route that wins: noisy stochastic gradient descent, in which every step pays for what it sees of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from sudare.neural.calibration import Recipe, check_recipe, noise_multiplier, run_distance, run_mu
from sudare.neural.seeded_randomness import RunSeed, Standing
from sudare.neural.training_methods import Facts, Layers, Singles, check_inputs, parameters_in
from sudare.privacy.accounting import Cost, approximate_cost, exact, rounded_up
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import NoiseSource

# Fine enough for any use of a network, and coarse enough that the last bits of a float do not leave.
GRID: Final = 2.0**-20
_NOISE: Final = "discrete Gaussian, deviation 2^34 units"


@dataclass(frozen=True)
class NoisyDescent:
    """(ε, δ)-DP network by noisy gradient descent, replace-one or add/remove records. Proof: proofs/dp_sgd.md.

    Every step takes a Poisson sample of the rows, shortens each row's gradient to the clip, and adds whole-numbered Gaussian noise to their
    sum in whole units.
    """

    facts: Facts
    epsilon: float
    delta: float
    recipe: Recipe

    exact_noise = True
    grid = GRID

    def __post_init__(self) -> None:
        check_recipe(self.recipe)
        check_inputs(self.facts.declared, self.facts.encoding)

    @property
    def parameter_guarantee(self) -> Guarantee | None:
        """None: the promise is to records."""
        return None

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise deviation over clip."""
        return noise_multiplier(self.recipe, self.epsilon, self.delta, self.facts.neighbours, self.parameters)

    @property
    def parameters(self) -> int:
        """d, weights and biases."""
        return parameters_in(self.facts.sizes)

    @cached_property
    def distance(self) -> Fraction:
        """Total variation between the whole run and one with ideal noise: it is charged to δ."""
        return run_distance(self.recipe.steps, self.parameters)

    @cached_property
    def cost(self) -> Cost:
        """Gaussian for full batches; (ε, δ) for sampled ones."""
        if self.recipe.sampling_rate < 1:
            return approximate_cost(self.epsilon, self.delta)
        mu = run_mu(self.epsilon, self.delta, self.distance)
        return Cost(exact(self.epsilon), exact(self.delta), mu, Fraction(rounded_up(self.distance)))

    @property
    def expected_rows(self) -> float:
        """Rows that a step is expected to see: sums are divided by this, which is public."""
        return self.recipe.sampling_rate * self.facts.rows

    @property
    def noise_scale(self) -> float:
        """Standard deviation that the noise of one step gives a parameter at the full rate."""
        return self.recipe.rate * self.noise_multiplier / self.expected_rows

    def declared(self) -> dict[str, Any]:
        """Everything that decides what the run does beside data and seed, as plain values."""
        facts = self.facts
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "recipe": asdict(self.recipe),
            "noise_multiplier": self.noise_multiplier,
            # A run whose seed makes other noise is another run: its checkpoint is refused.
            "noise": _NOISE,
            "rows": facts.rows,
            "sizes": list(facts.sizes),
            "loss": facts.loss,
            "neighbours": facts.neighbours,
            "columns": facts.declared.digest,
            "encoding": facts.encoding,
            "target": [str(value) for value in facts.target],
        }

    def fitted(self, rows: Singles, targets: Singles, source: NoiseSource) -> Layers:
        """The averaged parameters of a run with a fresh seed."""
        return self.run(rows, targets, RunSeed.drawn(source))

    def run(
        self,
        rows: Singles,
        targets: Singles,
        seed: RunSeed,
        *,
        begun: Standing | None = None,
        keep: Callable[[Standing], None] | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> Layers:
        """The averaged parameters of the run that this seed stands for, from where it stood."""
        # Here and not above: everything before training works without JAX.
        from sudare.neural.training import Descent, descended

        recipe = self.recipe
        descent = Descent(
            sizes=self.facts.sizes,
            loss=self.facts.loss,
            steps=recipe.steps,
            sampling_rate=recipe.sampling_rate,
            physical_batch=recipe.physical_batch,
            clip=recipe.clip,
            noise_multiplier=self.noise_multiplier,
            rate=recipe.rate,
            momentum=recipe.momentum,
            expected_rows=self.expected_rows,
        )
        return descended(descent, rows, targets, seed, begun=begun, keep=keep, tell=tell)

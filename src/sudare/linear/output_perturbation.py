"""A private linear model by noise on the minimiser. Proof: proofs/output.md."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sudare.array_types import Floats
from sudare.frames.rows import Rows
from sudare.linear.mechanism import Facts, LinearMechanism, public_grid
from sudare.linear.solvers import Objective, solved
from sudare.privacy.accounting import Cost, rounded_up_root
from sudare.privacy.mechanisms import GammaNorm, Gaussian
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid


@dataclass(frozen=True)
class OutputPerturbation(LinearMechanism):
    """ε-DP or (ε, δ)-DP minimiser, replace-one rows. Proof: proofs/output.md.

    The minimisers of all outputs get noise as one vector: a replaced row moves each by at most 2RL/ρ.
    """

    facts: Facts
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.solver_steps, self.grid

    @cached_property
    def solver_steps(self) -> int:
        """The number of accelerated steps that come within γ/ρ of the minimiser, whatever the rows."""
        return self.worst_case.steps(self.tolerance)

    @cached_property
    def tolerance(self) -> float:
        """γ: a thousandth of a row's pull, or what rounding can cost at any point the solver visits."""
        facts = self.facts
        pull = facts.norm_bound * facts.loss.largest_slope
        return max(1e-3 * pull, self.worst_case.least_tolerance)

    @cached_property
    def mechanism(self) -> GammaNorm | Gaussian:
        """Noise for the parameters of all outputs together."""
        facts = self.facts
        pull = 2 * facts.norm_bound * facts.loss.largest_slope * facts.rows_per_unit
        moved = (pull + 2 * self.tolerance) / facts.penalty * rounded_up_root(Fraction(facts.outputs)) * (1 + 2.0**-40)
        size = facts.outputs * facts.width
        if self.delta == 0:
            return GammaNorm(moved, self.epsilon, size)
        return Gaussian(moved, self.epsilon, self.delta, size)

    @property
    def cost(self) -> Cost:
        """That of the noise: pure ε, or Gaussian."""
        return self.mechanism.cost

    @property
    def noise_scale(self) -> float:
        """Scale of the noise on the parameters."""
        return self.mechanism.noise_scale

    @property
    def grid(self) -> float:
        """A power of two far below the noise: the grid of the parameters."""
        return public_grid(self.noise_scale)

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """The minimisers with noise."""
        facts = self.facts
        minimisers = []
        for output in range(facts.outputs):
            objective = Objective(rows, facts.loss, facts.penalty, np.zeros(facts.width), facts.norm_bound, output)
            minimisers.append(solved(objective, self.tolerance, self.solver_steps))
        noisy = self.mechanism.apply(np.concatenate(minimisers), source)
        return on_grid(noisy, self.grid).reshape(facts.outputs, facts.width)

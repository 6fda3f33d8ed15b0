"""A private linear model by a random linear term in the objective. Proof: proofs/objective.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.linear.mechanism import Facts, LinearMechanism, public_grid
from sudare.linear.noise_calibration import NoiseNorm, gaussian_deviation, penalty_needed, pure_rate, quietest_norm
from sudare.linear.solvers import Objective, solved
from sudare.privacy.accounting import (
    TOTAL_VARIATION_SHARE,
    Cost,
    approximate_cost,
    decimal_down,
    exact,
    pure_cost,
    rounded_up,
    total_variation_delta,
)
from sudare.privacy.guarantee import group_delta
from sudare.privacy.mechanisms import GammaNorm, power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

# Part of ε that pays for solver error and rounding.
FINISHING_SHARE: Final = Fraction(1, 100)
# Finishing noise is kept to this part of the noise that the objective's linear term causes.
_FINISHING_NOISE: Final = 5e-3
_FINEST_NOISE_BITS: Final = 40
_COARSEST_NOISE_BITS: Final = 20
# Noise on a lattice whose largest entry decides costs one over its scale in steps more than ideal noise: at most this.
_CUBE_NOISE_BITS: Final = 30
_CUBE_EPSILON: Final = Fraction(1, 2**_CUBE_NOISE_BITS)
# Whole numbers up to here are exact in floats; a draw beyond has probability below e⁻⁴⁰⁰⁰ a coordinate, and is cut off.
_MOST_EXACT_STEPS: Final = 2.0**53


@dataclass(frozen=True)
class ObjectivePerturbation(LinearMechanism):
    """ε-DP or (ε, δ)-DP minimiser, replace-one rows. Proof: proofs/objective.md.

    A random linear term is added to the summed loss, and the minimiser is released with a little noise that covers solver
    error and rounding. The outputs (one against the rest) share ε and δ equally.
    """

    facts: Facts
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.noise_steps, self.finishing, self.solver_steps, self.grid

    @cached_property
    def cost(self) -> Cost:
        """Pure ε, or (ε, δ) of which no more is known."""
        return pure_cost(self.epsilon) if self.delta == 0 else approximate_cost(self.epsilon, self.delta)

    @cached_property
    def _finishing_epsilon(self) -> float:
        return decimal_down(exact(self.epsilon) * FINISHING_SHARE / self.facts.outputs)

    @cached_property
    def _row_epsilon(self) -> Fraction:
        """What the linear term may cost when one row changes."""
        shared = exact(self.epsilon) / self.facts.outputs - exact(self._finishing_epsilon)
        return shared / self.facts.rows_per_unit

    @cached_property
    def _row_delta(self) -> Fraction:
        """The δ of the linear term when one row changes, less what is kept for the distance to ideal Gaussian noise."""
        growth = group_delta(rounded_up(self._row_epsilon), 1.0, self.facts.rows_per_unit)
        return exact(self.delta) / self.facts.outputs * (1 - TOTAL_VARIATION_SHARE) / Fraction(growth)

    @cached_property
    def penalty(self) -> float:
        """ρ: what was asked for, or more where ε needs it (a public rule: the determinant's slack takes half of ε at most)."""
        needed = penalty_needed(float(self._row_epsilon), self.facts.norm_bound, self.facts.loss)
        return max(self.facts.penalty, needed)

    @cached_property
    def norm(self) -> NoiseNorm:
        """Which norm is in the density of pure noise on the linear term: that of the quietest, by what is declared of the columns."""
        facts = self.facts
        if self.delta > 0:
            return "euclidean"
        # Of so small an ε the lattice's own share would be too large a part.
        entries = facts.entry_bounds if self._row_epsilon > _CUBE_EPSILON * 2**10 else ()
        return quietest_norm(facts.width, facts.norm_bound, facts.sum_bound, entries)

    @cached_property
    def rate(self) -> float:
        """a of the noise density ∝ exp(−a‖b‖), ∝ exp(−a‖b‖₁), or ∝ exp(−a·max|bᵢ|/rᵢ) of which the lattice takes a little of ε."""
        facts = self.facts
        row_reach = {"euclidean": facts.norm_bound, "sum": facts.sum_bound, "largest": 1.0}[self.norm]
        epsilon = self._row_epsilon - _CUBE_EPSILON if self.norm == "largest" else self._row_epsilon
        return pure_rate(epsilon, facts.norm_bound, self.penalty, facts.loss, row_reach)

    @cached_property
    def _units(self) -> Floats:
        """What a step of the linear term's noise is multiplied by in each coordinate."""
        return np.array(self.facts.entry_bounds) if self.norm == "largest" else np.ones(self.facts.width)

    @cached_property
    def _unit_norm(self) -> float:
        if self.norm != "largest":
            return math.sqrt(self.facts.width)
        return float(np.linalg.norm(self._units)) * (1 + 2.0**-40)

    @cached_property
    def deviation(self) -> float:
        """σ of the Gaussian noise on the linear term."""
        return gaussian_deviation(
            self._row_epsilon, self._row_delta, self.facts.norm_bound, self.penalty, self.facts.loss
        )

    @cached_property
    def _noise_size(self) -> float:
        """Typical norm of the linear term."""
        width = self.facts.width
        if self.delta > 0:
            return self.deviation * math.sqrt(width)
        sizes = {"euclidean": width, "sum": math.sqrt(2 * width), "largest": width / math.sqrt(3) * self._unit_norm}
        return sizes[self.norm] / self.rate

    @cached_property
    def largest_linear_norm(self) -> float:
        """A norm that the linear term passes with probability below e⁻²⁰⁰ (proofs/objective.md)."""
        width = self.facts.width
        if self.delta == 0:
            largest = (width + 20 * math.sqrt(width) + 220) / self.rate
            return largest * self._unit_norm if self.norm == "largest" else largest
        return self.deviation * (math.sqrt(width) + 21)

    @cached_property
    def linear_grid(self) -> float:
        """The grid of the linear term: a 2⁻⁴⁰th of its scale, or up to a 2⁻²⁰th while that is little against γ.

        The coarser, the sooner a draw's rounding is certain. Gaussian noise must be fine to be close to its ideal.
        """
        if self.delta > 0:
            return power_of_two_below(self.deviation) * 2.0**-_FINEST_NOISE_BITS
        scale, share = power_of_two_below(1 / self.rate), self.tolerance / (16 * self._unit_norm)
        coarsest_bits = _CUBE_NOISE_BITS if self.norm == "largest" else _COARSEST_NOISE_BITS
        finest, coarsest = scale * 2.0**-_FINEST_NOISE_BITS, scale * 2.0**-coarsest_bits
        return min(coarsest, max(finest, power_of_two_below(share)))

    @cached_property
    def tolerance(self) -> float:
        """γ: the gradient norm that the solver must certify, above what rounding can cost where noise is not extreme."""
        facts = self.facts
        stiffness = facts.rows * facts.loss.largest_curvature * facts.norm_bound**2 + self.penalty
        distance = _FINISHING_NOISE * self._finishing_epsilon * self._noise_size / (2 * facts.width * stiffness)
        return max(distance * self.penalty, self.worst_case.least_tolerance)

    @cached_property
    def solver_steps(self) -> int:
        """The number of accelerated steps that come within γ/ρ of the minimiser, whatever the rows."""
        return self.worst_case.steps(self.tolerance)

    @cached_property
    def finishing(self) -> GammaNorm:
        """Noise for two solutions that are each within r = (γ + grid·√p)/ρ of the same ideal minimiser."""
        gap = self.tolerance + self.linear_grid * self._unit_norm
        return GammaNorm(2 * gap / self.penalty * (1 + 2.0**-40), self._finishing_epsilon, self.facts.width)

    @cached_property
    def noise_scale(self) -> float:
        """The linear term's scale over the penalty: what a parameter moves by where the data say nothing."""
        if self.delta > 0:
            return self.deviation / self.penalty
        unit = self._unit_norm / math.sqrt(self.facts.width) if self.norm == "largest" else 1.0
        return unit / self.rate / self.penalty

    @cached_property
    def grid(self) -> float:
        """Far below the smallest effect of the noise."""
        facts = self.facts
        stiffness = facts.rows * facts.loss.largest_curvature * facts.norm_bound**2 + self.penalty
        return public_grid(self.noise_scale * self.penalty / stiffness)

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """One minimiser an output."""
        return np.array([self._minimiser(rows, output, source) for output in range(self.facts.outputs)])

    def _minimiser(self, rows: Rows, output: int, source: NoiseSource) -> Floats:
        facts = self.facts
        linear = self._linear_term(source)
        objective = Objective(rows, facts.loss, self.penalty, linear, facts.norm_bound, output)
        minimiser = solved(objective, self.tolerance, self.solver_steps)
        return on_grid(self.finishing.apply(minimiser, source), self.grid)

    def _linear_term(self, source: NoiseSource) -> Floats:
        if self.delta == 0 and self.norm == "euclidean":
            return source.gamma_norm(np.zeros(self.facts.width), self.rate, self.linear_grid)
        zeros = np.zeros(self.facts.width, dtype=np.int64)
        pure = source.laplace if self.norm == "sum" else source.infinity_norm
        whole = (pure if self.delta == 0 else source.gaussian)(zeros, self.noise_steps).astype(np.float64)
        steps = np.clip(whole, -_MOST_EXACT_STEPS, _MOST_EXACT_STEPS) * self.linear_grid
        return steps * self._units if self.norm == "largest" else steps

    @cached_property
    def noise_steps(self) -> float:
        """1/a of Laplace or infinity-norm noise, or σ of Gaussian noise, in steps of the linear term's grid, rounded up; of gamma-norm noise 1/a."""
        if self.delta == 0:
            return rounded_up(1 / (Fraction(self.rate) * Fraction(self.linear_grid)))
        steps = rounded_up(Fraction(self.deviation) / Fraction(self.linear_grid))
        distance = self.facts.outputs * Fraction(self.facts.width) / (24 * Fraction(steps) ** 2)
        if total_variation_delta(exact(self.epsilon), distance) > exact(self.delta) * TOTAL_VARIATION_SHARE:
            raise InvalidParameter(
                "Gaussian noise cannot be exact enough for this epsilon and delta.", "Use a larger delta."
            )
        return steps

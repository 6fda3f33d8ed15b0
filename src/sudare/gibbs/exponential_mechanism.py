"""The exponential mechanism on points of a grid in a ball, or on listed candidates: ε-DP, drawn exactly. Proof: proofs/gibbs.md, "Pure ε for losses of a user".

Losses are clipped to their declared range and added up as whole numbers, so what a record can change in the law is known whatever the loss function does. On a grid the
sampler needs more: convex losses within their range, or it stops. Every
decision is made in floats with a bound on rounding, or else in ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from flint import arb

from sudare.array_types import Floats, Integers
from sudare.errors import DataError
from sudare.gibbs.lazy_uniforms import log_uniforms
from sudare.gibbs.potentials import Potential, RefusedProposals, envelope_at, isotropic_envelope
from sudare.gibbs.rejection_decisions import chosen, chosen_exactly, decided_with_enough_bits, is_less
from sudare.privacy.column_sums import exact_sums, fixed_point_step
from sudare.privacy.noise import NoiseSource

# Losses are taken to be evaluated to within this part of their range; the envelope is raised by what that can amount to.
_EVALUATION_ERROR: Final = 2.0**-32
_ROUNDING: Final = 2.0**-46


@dataclass(frozen=True, eq=False)
class ExponentialLaw:
    """∝ exp(−w·S(θ))·π(θ), S the exact sum of losses scaled to [0, 1]. A replaced record changes S by one at most: a draw is 2w-DP."""

    losses: Callable[[Floats], Floats]
    loss_range: tuple[float, float]
    rows: int
    weight: float
    log_prior: Callable[[Floats], float]

    def total(self, point: Floats) -> float:
        """S(θ), exact; a loss that is not a number counts as the largest."""
        low, high = self.loss_range
        scaled = np.clip(np.nan_to_num((self.losses(point) - low) / (high - low), nan=1.0), 0.0, 1.0)
        return float(exact_sums(scaled[:, np.newaxis], fixed_point_step(self.rows))[0])

    @property
    def evaluation_cost(self) -> float:
        """More than rounding of losses can change in the logarithm of a ratio of two weights."""
        return 2 * self.weight * self.rows * (_EVALUATION_ERROR + fixed_point_step(self.rows))


def candidate_draws(law: ExponentialLaw, candidates: Floats, draws: int, source: NoiseSource) -> Floats:
    """Independent draws among listed points; their losses may be of any shape."""
    totals = np.array([law.total(point) for point in candidates])
    priors = np.array([float(law.log_prior(point)) for point in candidates])
    log_weights = -law.weight * (totals - totals.min()) + (priors - priors.max())
    picked = [_picked(law.weight, totals, priors, log_weights, source) for _ in range(draws)]
    return np.asarray(candidates[picked], dtype=np.float64)


def _picked(weight: float, totals: Floats, priors: Floats, log_weights: Floats, source: NoiseSource) -> int:
    words = source.words(1)
    index = int(chosen(log_weights, words)[0])
    if index >= 0:
        return index

    def picked_exactly(chance: list[arb]) -> int:
        start = arb(float(totals.min()))
        weights = [
            (-arb(weight) * (arb(float(total)) - start) + arb(float(prior))).exp()
            for total, prior in zip(totals, priors, strict=True)
        ]
        return chosen_exactly(weights, chance[0])

    return decided_with_enough_bits(words, source, picked_exactly)


def grid_draws(
    law: ExponentialLaw, potential: Potential, grid: float, draws: int, source: NoiseSource, least_proposals: int = 0
) -> tuple[Floats, float]:
    """Independent draws among the multiples of `grid` in the ball, and the share of accepted proposals.

    Raise DataError where the law is seen above the envelope that its declared convexity gives, or where proposals are refused without end and it
    bends more than declared.
    """
    first = isotropic_envelope(potential)
    centre = np.rint(first.centre / grid).astype(np.int64)
    bound = envelope_at(potential, _point(centre, grid), first.tilt)
    # A little wider than the envelope.
    scale = (1 + 2.0**-40) / (math.sqrt(bound.precision) * grid)
    proposals = _Proposals(
        law, centre, grid, scale, bound.log_constant + law.evaluation_cost, potential.curvature.radius
    )
    accepted: list[Floats] = []
    refused = RefusedProposals(potential, bound)
    made = 0
    while len(accepted) < draws or made < least_proposals:
        place = source.gaussian(centre, scale)
        if proposals.is_accepted(place, source):
            accepted.append(_point(place, grid))
            refused.accepted()
        else:
            refused.refused(_point(place, grid))
        made += 1
    return np.array(accepted[:draws]), len(accepted) / made


def _point(place: Integers, grid: float) -> Floats:
    return place.astype(np.float64) * grid


class _Proposals:
    """Discrete Gaussian proposals around a point of the grid, and decisions about them."""

    def __init__(
        self,
        law: ExponentialLaw,
        centre: Integers,
        grid: float,
        scale: float,
        log_constant: float,
        radius: float | None,
    ) -> None:
        self.law, self.centre, self.grid = law, centre, grid
        self.scale, self.log_constant, self.radius = scale, log_constant, radius
        self.total = law.total(_point(centre, grid))
        self.log_prior = float(law.log_prior(_point(centre, grid)))

    def is_accepted(self, place: Integers, source: NoiseSource) -> bool:
        """Whether a proposal is in the ball and accepted."""
        if self.radius is not None and sum(int(k) ** 2 for k in place) > (self.radius / self.grid) ** 2:
            return False
        point = _point(place, self.grid)
        rise = self.law.total(point) - self.total
        prior = float(self.law.log_prior(point))
        square = sum((int(k) - int(c)) ** 2 for k, c in zip(place, self.centre, strict=True))
        height = square / (2 * self.scale * self.scale)
        log_ratio = -self.law.weight * rise + (prior - self.log_prior) + height - self.log_constant
        terms = (self.law.weight * rise, prior, self.log_prior, height, self.log_constant)
        error = _ROUNDING * sum(abs(term) for term in terms)
        if not log_ratio <= error:
            raise DataError(
                "The loss is not as convex as declared, or outside of its range.",
                "Check loss, gradient, convexity and loss_range.",
            )
        words = source.words(1)
        logs, log_errors = log_uniforms(words)
        if abs(log_ratio - logs[0]) > error + log_errors[0] + _ROUNDING * abs(logs[0]):
            return bool(logs[0] < log_ratio)
        return self._is_accepted_exactly(rise, prior, square, words, source)

    def _is_accepted_exactly(self, rise: float, prior: float, square: int, words: Any, source: NoiseSource) -> bool:
        def is_below(chance: list[arb]) -> bool:
            height = arb(square) / (2 * arb(self.scale) * arb(self.scale))
            change = -arb(self.law.weight) * arb(rise) + (arb(prior) - arb(self.log_prior))
            return is_less(chance[0].log(), change + height - arb(self.log_constant))

        return decided_with_enough_bits(words, source, is_below, more_bits=256)

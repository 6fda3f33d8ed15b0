"""What a batch of mechanisms costs that was fixed before any of them runs, by privacy loss distributions. Proof: proofs/accounting.md.

Tighter than a sum, but not a filter: charges that are chosen after looking at earlier answers need `accounting.Budget`.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from sudare.errors import InvalidCost
from sudare.privacy.accounting import (
    FOURIER_ERROR,
    TOTAL_VARIATION_SHARE,
    Cost,
    Spent,
    exact,
    rounded_down,
    rounded_up,
    total_variation_delta,
)
from sudare.privacy.guarantee import SMALLEST_NORMAL, checked_delta

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_LOSS_STEP: Final = 1e-4
# Beyond this e^ε is not a float, and dp-accounting fails.
_LARGEST_LOSS: Final = 700


def declared_batch(costs: Sequence[Cost], delta: float) -> Cost:
    """The cost at `delta` of a batch declared before it starts, by privacy loss distributions (dp-accounting).

    Gaussian costs enter by their μ, all others as the worst (ε, δ)-DP mechanism there is; losses are rounded up. Where
    δ allows the plain sum and that is less, it is the plain sum.
    """
    if not costs:
        raise InvalidCost("A batch of nothing has no cost.", "Give at least one cost.")
    limit = exact(checked_delta(delta))
    plain = Spent.of(costs)
    distance = sum((cost.total_variation for cost in costs), Fraction(0))
    allowed = limit * (1 - TOTAL_VARIATION_SHARE)
    composed = _composed_epsilon(costs, allowed - len(costs) * FOURIER_ERROR)
    if plain.delta <= limit and plain.epsilon <= composed:
        return Cost(plain.epsilon, plain.delta)
    if composed == math.inf:
        raise InvalidCost(f"delta = {delta:g} is too small for this batch.", "Use for example delta=1e-6.")
    epsilon = exact(max(SMALLEST_NORMAL, math.nextafter(composed, math.inf)))
    return Cost(epsilon, max(limit, allowed + total_variation_delta(epsilon, distance)))


def _composed_epsilon(costs: Sequence[Cost], delta: Fraction) -> float:
    """ε at δ of independent mechanisms with these costs, before the distances of their samplers; infinite if none."""
    if delta <= 0 or any(cost.epsilon > _LARGEST_LOSS for cost in costs):
        return math.inf
    # Coarser steps where losses are large keep the distribution small.
    size = sum(rounded_up(cost.epsilon) + (cost.mu or 0.0) ** 2 for cost in costs)
    step = _LOSS_STEP * max(1, math.ceil(size / 20))
    distribution = functools.reduce(
        lambda left, right: left.compose(right),
        (_loss_distribution(cost, step).self_compose(times) for cost, times in Counter(costs).items()),
    )
    return float(distribution.get_epsilon_for_delta(rounded_down(delta)))


def _loss_distribution(cost: Cost, step: float) -> PrivacyLossDistribution:
    """The dominating privacy loss distribution of one cost, rounded towards more loss."""
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, from_privacy_parameters

    if cost.mu is not None:
        deviation = rounded_down(1 / Fraction(cost.mu))
        return from_gaussian_mechanism(deviation, value_discretization_interval=step)
    worst = DifferentialPrivacyParameters(rounded_up(cost.epsilon), rounded_up(cost.delta))
    return from_privacy_parameters(worst, value_discretization_interval=step)

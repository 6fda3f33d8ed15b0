"""What several mechanisms cost together that were chosen before any of them runs. Proof: proofs/accounting.md.

On disjoint parts of the rows not all of them count (`parallel_cost`); of a batch on the same rows privacy loss
distributions tell more than a sum does (`declared_batch`). Neither is a filter: for charges that are chosen after looking
at earlier answers there is `accounting.Budget`.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, get_args

from sudare.errors import InvalidCost
from sudare.privacy.accounting import (
    TOTAL_VARIATION_SHARE,
    Cost,
    Spent,
    exact,
    gaussian_delta,
    rounded_down,
    rounded_up,
    rounded_up_root,
    total_variation_delta,
)
from sudare.privacy.guarantee import NEIGHBOURS, SMALLEST_NORMAL, Neighbours, checked_delta

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Parts = Literal["public", "by-value"]
PARTS: Final = get_args(Parts)

# Part of a batch's δ, per mechanism, that pays for rounding in the fast Fourier transform, which dp-accounting does not
# bound: what is measured is below 2⁻⁵⁰ (tests/guarantees/test_accounting.py).
FOURIER_ERROR: Final = Fraction(1, 2**40)
_LOSS_STEP: Final = 1e-4
# Beyond this e^ε is not a float, and dp-accounting fails.
_LARGEST_LOSS: Final = 700


def parallel_cost(costs: Sequence[Cost], parts: Parts, neighbours: Neighbours = "replace-one") -> Cost:
    """The cost in relation `neighbours` of mechanisms on disjoint parts of the rows, chosen before any of them runs.

    Parts indexed publicly ("public"): a changed record is in one of them, so the largest counts, and each cost is one
    in the same relation. Parts defined by values ("by-value"): a replaced record may leave one part and enter another,
    so the two largest count, and each cost must hold when a record of its part is added, removed or replaced.
    """
    if not costs:
        raise InvalidCost("Parallel composition of nothing has no cost.", "Give at least one cost.")
    if parts not in PARTS or neighbours not in NEIGHBOURS:
        raise InvalidCost(
            f"parts must be one of {', '.join(PARTS)} and neighbours one of {', '.join(NEIGHBOURS)}.",
            "Use these words.",
        )
    touched = 2 if parts == "by-value" and neighbours == "replace-one" else 1
    if len(set(costs)) == 1 and min(touched, len(costs)) == 1:
        return costs[0]
    epsilon = _sum_of_largest((cost.epsilon for cost in costs), touched)
    if any(cost.mu is None for cost in costs):
        return Cost(epsilon, _sum_of_largest((cost.delta for cost in costs), touched))
    mu = rounded_up_root(_sum_of_largest((Fraction(cost.mu or 0) ** 2 for cost in costs), touched))
    distance = _sum_of_largest((cost.total_variation for cost in costs), touched)
    delta = exact(gaussian_delta(mu, rounded_down(epsilon))) + total_variation_delta(epsilon, distance)
    return Cost(epsilon, delta, mu, distance)


def _sum_of_largest(numbers: Iterable[Fraction], count: int) -> Fraction:
    return sum(sorted(numbers, reverse=True)[:count], Fraction(0))


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

"""Costs that compose, and the filters that keep an account within its budget. Proof: proofs/accounting.md.

Charges are adaptive: each may be chosen after looking at the answers to the earlier ones. So a budget is enforced by a
*filter* that stays valid then:

- "basic" sums ε and δ;
- "gaussian" sums squared Gaussian parameters μ² (Gaussian differential privacy), and accepts histories of pure charges
  whose plain sum fits as well.

Tight numerical composition (privacy loss distributions) is not a filter; it is used only inside one batch that is
declared before it starts (`declared_batch`). ε and δ are exact rationals read from the decimal text of a float, so ten
charges of 0.1 are 1; everything irrational is rounded towards more privacy by ball arithmetic.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_gaussian_mechanism,
    from_privacy_parameters,
)
from flint import arb
from flint import ctx as ball_context

from sudare.errors import InvalidCost
from sudare.privacy.guarantee import Neighbours, checked_delta, checked_epsilon, group_delta

Composition = Literal["basic", "gaussian"]
COMPOSITIONS: Final = ("basic", "gaussian")
Parts = Literal["public", "by-value"]

# Share of an account's or a mechanism's δ that pays for distances between an ideal law and the sampled one.
TOTAL_VARIATION_SHARE: Final = Fraction(1, 2**20)
_BALL_BITS: Final = 192


def exact(number: float) -> Fraction:
    """The rational that the shortest decimal text of a float names: 0.1 is one tenth."""
    return Fraction(repr(float(number)))


def rounded_up(number: Fraction) -> float:
    """The smallest float that is at least `number`."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def rounded_down(number: Fraction) -> float:
    """The largest float that is at most `number`."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)


def decimal_up(number: Fraction) -> float:
    """A float whose decimal text names `number` or a little more: nine tenths is 0.9."""
    nearest = float(number)
    return nearest if exact(nearest) >= number else math.nextafter(nearest, math.inf)


def decimal_down(number: Fraction) -> float:
    """A float whose decimal text names `number` or a little less."""
    nearest = float(number)
    return nearest if exact(nearest) <= number else math.nextafter(nearest, -math.inf)


def _upper(ball: arb) -> float:
    return math.nextafter(float(ball.upper()), math.inf)


def _normal_cdf(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of a μ-GDP mechanism, rounded up: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (Balle and Wang 2018, Theorem 8)."""
    if mu == 0:
        return 0.0
    with ball_context.workprec(_BALL_BITS):
        scale, loss = arb(mu), arb(epsilon)
        ball = _normal_cdf(scale / 2 - loss / scale) - loss.exp() * _normal_cdf(-scale / 2 - loss / scale)
        return min(1.0, max(0.0, _upper(ball)))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ found for which μ-GDP implies (ε, δ)-DP, rounded down."""
    return _bisected(
        lambda mu: gaussian_delta(mu, epsilon) <= delta, low=0.0, high=_doubled_until_false(epsilon, delta)
    )


def _doubled_until_false(epsilon: float, delta: float) -> float:
    mu = 1.0
    while gaussian_delta(mu, epsilon) <= delta:
        mu *= 2
    return mu


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε found for which μ-GDP implies (ε, δ)-DP, rounded up; infinite when δ = 0."""
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    return _bisected(lambda epsilon: gaussian_delta(mu, epsilon) > delta, low=0.0, high=high, above=True)


def _bisected(holds: Any, low: float, high: float, above: bool = False) -> float:
    """The border of a predicate that is true at `low` and false at `high`; the end on the safe side."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high if above else low


@functools.lru_cache(maxsize=4096)
def mu_of_pure(epsilon: Fraction) -> float:
    """The μ for which every ε-DP mechanism is μ-GDP, rounded up: 2Φ⁻¹(e^ε/(1+e^ε)), where both trade-offs meet."""
    with ball_context.workprec(_BALL_BITS):
        # Φ⁻¹(p) = √2·erf⁻¹(2p − 1) and 2·e^ε/(1+e^ε) − 1 = tanh(ε/2).
        ratio = arb(epsilon.numerator) / arb(epsilon.denominator)
        ball = 2 * arb(2).sqrt() * (ratio / 2).tanh().erfinv()
        if not ball.is_finite():
            raise InvalidCost(
                f"A pure epsilon of {float(epsilon):g} is too large for Gaussian composition.",
                "Charge it to an account with basic composition.",
            )
        return _upper(ball)


@dataclass(frozen=True)
class Cost:
    """What one passage through the door costs.

    Always (ε, δ)-DP. `mu` is set when the mechanism is within `total_variation` of a μ-GDP one; then (ε, δ) already
    covers that distance at this ε, and the Gaussian filter uses μ and the distance instead.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mu: float | None = None
    total_variation: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        checked_epsilon(rounded_up(self.epsilon))
        checked_delta(rounded_up(self.delta))
        if self.mu is not None:
            checked_epsilon(self.mu, "mu")
            checked_delta(rounded_up(self.total_variation), "total variation")
            covered = exact(gaussian_delta(self.mu, rounded_down(self.epsilon)))
            covered += total_variation_delta(self.epsilon, self.total_variation)
            if covered > self.delta:
                raise InvalidCost(
                    "The delta of a Gaussian cost does not cover its mu.", "Use gaussian_cost(epsilon, delta)."
                )

    def for_group(self, size: int) -> Cost:
        """The cost when `size` units change at once: kε and the matching δ; kμ in Gaussian terms."""
        if size == 1:
            return self
        epsilon = self.epsilon * size
        if self.mu is None:
            delta = exact(group_delta(rounded_up(self.epsilon), rounded_up(self.delta), size))
            return Cost(epsilon, delta)
        # A chain of `size` steps of μ-GDP is kμ-GDP; the endpoints stay within the same distance of their ideals.
        mu = math.nextafter(self.mu * size, math.inf)
        delta = exact(gaussian_delta(mu, rounded_down(epsilon))) + total_variation_delta(epsilon, self.total_variation)
        return Cost(epsilon, delta, mu, self.total_variation)

    def to(self, neighbours: Neighbours, source: Neighbours) -> Cost:
        """The cost in relation `neighbours`, given in relation `source`; the caller has refused the reverse."""
        return self if neighbours == source else self.for_group(2)

    def to_dict(self) -> dict[str, Any]:
        """Exact values as text."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "mu": None if self.mu is None else self.mu.hex(),
            "total_variation": str(self.total_variation),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cost:
        """The cost that `to_dict` wrote."""
        mu = values["mu"]
        return cls(
            Fraction(values["epsilon"]),
            Fraction(values["delta"]),
            None if mu is None else float.fromhex(mu),
            Fraction(values["total_variation"]),
        )


def total_variation_delta(epsilon: Fraction, total_variation: Fraction) -> Fraction:
    """(1 + e^ε)γ rounded up: what sampling within γ of the ideal law adds to δ at the composed ε (paper 001, Theorem 12)."""
    if total_variation == 0:
        return Fraction(0)
    with ball_context.workprec(_BALL_BITS):
        growth = 1 + (arb(epsilon.numerator) / arb(epsilon.denominator)).exp()
        return total_variation * Fraction(_upper(growth))


def pure_cost(epsilon: float) -> Cost:
    """The cost of an ε-DP mechanism."""
    return Cost(exact(checked_epsilon(epsilon)))


def approximate_cost(epsilon: float, delta: float) -> Cost:
    """The cost of an (ε, δ)-DP mechanism of which no more is known."""
    return Cost(exact(checked_epsilon(epsilon)), exact(checked_delta(delta)))


def gaussian_cost(epsilon: float, delta: float, total_variation: Fraction = Fraction(0)) -> Cost:
    """The cost of the μ-GDP mechanism with the largest μ that (ε, δ) allows, sampled within `total_variation`."""
    return Cost(exact(epsilon), exact(delta), gaussian_mu_within(epsilon, delta), total_variation)


@functools.lru_cache(maxsize=4096)
def gaussian_mu_within(epsilon: float, delta: float) -> float:
    """The largest μ that (ε, δ) allows when a 2⁻²⁰th of δ is kept for the distance between ideal and sampled noise."""
    if checked_delta(delta) == 0:
        raise InvalidCost("Gaussian noise needs delta > 0, got 0.", "Use for example delta=1e-6, or a pure mechanism.")
    return gaussian_mu(checked_epsilon(epsilon), rounded_down(exact(delta) * (1 - TOTAL_VARIATION_SHARE)))


def parallel_cost(costs: Sequence[Cost], parts: Parts, neighbours: Neighbours = "replace-one") -> Cost:
    """The cost of mechanisms on disjoint parts of the rows, chosen before any of them runs.

    Parts indexed publicly ("public"): a changed record is in one of them, so the largest counts. Parts defined by
    values ("by-value"): a replaced record may leave one part and enter another, so the two largest count.
    """
    if not costs:
        raise InvalidCost("Parallel composition of nothing has no cost.", "Give at least one cost.")
    touched = 2 if parts == "by-value" and neighbours == "replace-one" else 1
    epsilons = sorted((cost.epsilon for cost in costs), reverse=True)[:touched]
    if all(cost.mu is not None for cost in costs):
        mus = sorted((cost.mu for cost in costs if cost.mu is not None), reverse=True)[:touched]
        mu = math.nextafter(math.hypot(*mus) * (1 + 1e-15), math.inf)
        distance = sum(sorted((cost.total_variation for cost in costs), reverse=True)[:touched], Fraction(0))
        epsilon = sum(epsilons, Fraction(0))
        delta = exact(gaussian_delta(mu, rounded_down(epsilon))) + total_variation_delta(epsilon, distance)
        return Cost(epsilon, delta, mu, distance)
    deltas = sorted((cost.delta for cost in costs), reverse=True)[:touched]
    return Cost(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))


def declared_batch(costs: Sequence[Cost], delta: float) -> Cost:
    """The cost at `delta` of a batch declared before it starts, by privacy loss distributions (dp-accounting).

    Gaussian costs enter by their μ, all others as the worst (ε, δ)-DP mechanism there is; dp-accounting rounds up.
    """
    if not costs:
        raise InvalidCost("A batch of nothing has no cost.", "Give at least one cost.")
    distribution = functools.reduce(
        lambda left, right: left.compose(right),
        (_loss_distribution(cost).self_compose(times) for cost, times in Counter(costs).items()),
    )
    distance = sum((cost.total_variation for cost in costs), Fraction(0))
    allowed = exact(checked_delta(delta)) * (1 - TOTAL_VARIATION_SHARE)
    composed = float(distribution.get_epsilon_for_delta(rounded_down(allowed)))
    if not 0 < composed < math.inf:
        raise InvalidCost(f"delta = {delta:g} is too small or too large for this batch.", "Use for example delta=1e-6.")
    epsilon = exact(math.nextafter(composed, math.inf))
    return Cost(epsilon, exact(delta) + total_variation_delta(epsilon, distance))


def _loss_distribution(cost: Cost) -> PrivacyLossDistribution:
    """The dominating privacy loss distribution of one cost, rounded towards more loss."""
    if cost.mu is not None:
        return from_gaussian_mechanism(standard_deviation=rounded_down(1 / Fraction(cost.mu)))
    return from_privacy_parameters(DifferentialPrivacyParameters(rounded_up(cost.epsilon), rounded_up(cost.delta)))


@dataclass(frozen=True)
class Spent:
    """Running totals of an account, exact. Proof that the filters below hold for adaptive charges: proofs/accounting.md."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)
    total_variation: Fraction = Fraction(0)
    leaked_delta: Fraction = Fraction(0)
    gaussian_charges: int = 0

    def plus(self, cost: Cost) -> Spent:
        """Totals after one more charge."""
        mu = mu_of_pure(cost.epsilon) if cost.mu is None else cost.mu
        return Spent(
            epsilon=self.epsilon + cost.epsilon,
            delta=self.delta + cost.delta,
            mu_squared=self.mu_squared + Fraction(mu) ** 2,
            total_variation=self.total_variation + (Fraction(0) if cost.mu is None else cost.total_variation),
            leaked_delta=self.leaked_delta + (cost.delta if cost.mu is None else Fraction(0)),
            gaussian_charges=self.gaussian_charges + (cost.mu is not None),
        )

    @classmethod
    def of(cls, costs: Iterable[Cost]) -> Spent:
        """Totals of a list of charges."""
        spent = cls()
        for cost in costs:
            spent = spent.plus(cost)
        return spent


@dataclass(frozen=True)
class Budget:
    """An account's limit and the filter that enforces it. Proof: proofs/accounting.md."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    composition: Composition = "basic"
    reserved_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        checked_epsilon(rounded_up(self.epsilon))
        checked_delta(rounded_up(self.delta))
        checked_delta(rounded_up(self.reserved_delta), "reserved_delta")
        if self.composition not in COMPOSITIONS:
            raise InvalidCost(
                f"composition must be one of {', '.join(COMPOSITIONS)}, got {self.composition!r}.",
                "Use one of these words.",
            )
        if self.composition == "gaussian" and not self.reserved_delta < self.delta:
            raise InvalidCost(
                "Gaussian composition needs delta > reserved_delta, so that some of delta is left for the noise.",
                "Give a delta such as 1e-6, or use basic composition.",
            )
        if self.composition == "basic" and self.reserved_delta != 0:
            raise InvalidCost("Basic composition reserves no delta.", "Leave reserved_delta out.")

    @classmethod
    def of(
        cls, epsilon: float, delta: float = 0.0, composition: Composition = "basic", reserved_delta: float | None = None
    ) -> Budget:
        """A budget from floats. Gaussian composition reserves 2⁻²⁰ of δ for sampling distances unless told otherwise."""
        limit = exact(checked_delta(delta))
        if reserved_delta is not None:
            reserve = exact(checked_delta(reserved_delta, "reserved_delta"))
        else:
            reserve = limit * TOTAL_VARIATION_SHARE if composition == "gaussian" else Fraction(0)
        return cls(exact(checked_epsilon(epsilon)), limit, composition, reserve)

    def admits(self, spent: Spent) -> bool:
        """Whether these totals keep the promise (ε, δ), whatever made the charges be chosen."""
        if self.composition == "basic":
            return spent.epsilon <= self.epsilon and spent.delta <= self.delta
        if spent.leaked_delta + total_variation_delta(self.epsilon, spent.total_variation) > self.reserved_delta:
            return False
        fits_plainly = spent.gaussian_charges == 0 and spent.epsilon <= self.epsilon
        return fits_plainly or spent.mu_squared <= Fraction(self.mu) ** 2

    @property
    def mu(self) -> float:
        """The Gaussian parameter that fits the budget, rounded down."""
        return _budget_mu(self.epsilon, self.delta - self.reserved_delta)

    def shown(self, spent: Spent) -> tuple[float, float]:
        """(ε, δ) of the totals, rounded up, for people to read; the promise an outsider may rely on is the budget."""
        plain = decimal_up(spent.epsilon), decimal_up(spent.delta)
        if self.composition == "basic" or spent == Spent():
            return plain
        leaked = spent.leaked_delta + total_variation_delta(self.epsilon, spent.total_variation)
        mu = math.nextafter(math.sqrt(rounded_up(spent.mu_squared)), math.inf)
        composed = gaussian_epsilon(mu, rounded_down(self.delta - self.reserved_delta))
        if spent.gaussian_charges == 0 and plain[0] <= composed:
            return plain[0], decimal_up(leaked)
        return composed, decimal_up(self.delta - self.reserved_delta + leaked)


@functools.lru_cache(maxsize=256)
def _budget_mu(epsilon: Fraction, delta: Fraction) -> float:
    return gaussian_mu(rounded_down(epsilon), rounded_down(delta))

"""Costs that compose, and the filters that keep an account within its budget. Proof: proofs/accounting.md.

Charges are adaptive: each may be chosen after looking at the answers to the earlier ones. So a budget is enforced by a
*filter* that stays valid then:

- "basic" sums ε and δ;
- "gaussian" sums squared Gaussian parameters μ² (Gaussian differential privacy), and accepts histories of pure charges
  whose plain sum fits as well.

Tight numerical composition (privacy loss distributions) is not a filter; it is used only inside one run whose steps are
fixed before it starts (`linear.descent`). ε and δ are exact rationals read from the decimal text of a
float, so ten charges of 0.1 are 1; everything irrational is rounded towards more privacy by ball arithmetic.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from flint import arb

from sudare.ball_precision import ball_precision
from sudare.errors import InvalidCost, RelationMismatch
from sudare.privacy.guarantee import (
    SMALLEST_NORMAL,
    Neighbours,
    checked_delta,
    checked_epsilon,
    group_delta,
    readable_up,
)

Composition = Literal["basic", "gaussian"]
COMPOSITIONS: Final = get_args(Composition)

# Share of an account's or a mechanism's δ that pays for distances between an ideal law and the sampled one.
TOTAL_VARIATION_SHARE: Final = Fraction(1, 2**20)
# Part of a batch's δ, per mechanism, that pays for rounding in the fast Fourier transform, which dp-accounting does not
# bound: what is measured is below 2⁻⁵⁰ (tests/guarantees/test_accounting.py).
FOURIER_ERROR: Final = Fraction(1, 2**40)
_BALL_BITS: Final = 192
_LARGEST_DENOMINATOR_BITS: Final = 4096
_RATIONAL: Final = re.compile(r"(0|[1-9][0-9]*)(/[1-9][0-9]*)?")


def exact(number: float) -> Fraction:
    """The rational that the shortest decimal text of a float names: 0.1 is one tenth."""
    return Fraction(repr(float(number)))


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def rounded_up(number: Fraction) -> float:
    """The smallest float that is at least `number`."""
    nearest = _nearest(number)
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


def rounded_down(number: Fraction) -> float:
    """The largest float that is at most `number`."""
    nearest = _nearest(number)
    return nearest if nearest <= number else math.nextafter(nearest, -math.inf)


def decimal_up(number: Fraction) -> float:
    """A float whose decimal text names `number` or a little more: nine tenths is 0.9."""
    nearest = _nearest(number)
    return nearest if nearest == math.inf or exact(nearest) >= number else math.nextafter(nearest, math.inf)


def decimal_down(number: Fraction) -> float:
    """A float whose decimal text names `number` or a little less."""
    nearest = float(number)
    return nearest if exact(nearest) <= number else math.nextafter(nearest, -math.inf)


def rational(text: object) -> Fraction:
    """The non-negative rational that `str` wrote; anything else (a float, an exponent, 1/0) is a ValueError."""
    if not isinstance(text, str) or not _RATIONAL.fullmatch(text):
        raise ValueError("not a rational")
    return Fraction(text)


def upper_end(ball: arb) -> float:
    """An upper bound of what is in the ball; infinite when nothing is known."""
    return math.nextafter(float(ball.upper()), math.inf) if ball.is_finite() else math.inf


def _ball(number: Fraction) -> arb:
    return arb(number.numerator) / arb(number.denominator)


def _normal_cdf(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of a μ-GDP mechanism, rounded up: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (Balle and Wang 2018, Theorem 8)."""
    if mu == 0:
        return 0.0
    with ball_precision(_BALL_BITS):
        return min(1.0, upper_end(gaussian_delta_ball(mu, epsilon)))


def gaussian_delta_ball(mu: float, epsilon: float) -> arb:
    """A ball around it, at the precision that is set; μ is positive."""
    scale, loss = arb(mu), arb(epsilon)
    return _normal_cdf(scale / 2 - loss / scale) - loss.exp() * _normal_cdf(-scale / 2 - loss / scale)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest float μ for which μ-GDP implies (ε, δ)-DP."""
    return _last_float(lambda mu: gaussian_delta(mu, epsilon) <= delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest float ε for which μ-GDP implies (ε, δ)-DP; infinite when there is none."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return math.nextafter(_last_float(lambda epsilon: gaussian_delta(mu, epsilon) > delta), math.inf)


def _last_float(holds: Callable[[float], bool]) -> float:
    """The last of the positive floats up to which a predicate holds; 0 if it holds nowhere, infinite if everywhere."""
    low = high = 1.0
    while low >= SMALLEST_NORMAL and not holds(low):
        low, high = low / 2, low
    while high < math.inf and holds(high):
        low, high = high, 2 * high
    if low < SMALLEST_NORMAL or high == math.inf:
        return 0.0 if low < SMALLEST_NORMAL else math.inf
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@functools.lru_cache(maxsize=4096)
def mu_of_pure(epsilon: Fraction) -> float:
    """The μ for which every ε-DP mechanism is μ-GDP, rounded up: 2Φ⁻¹(e^ε/(1+e^ε)), where both trade-offs meet.

    Beyond ε = 100 the bound 2√(2ε) is used, a little more: Φ(−x) ≤ e^{−x²/2}/2 makes e^{−ε}/2 ≤ 1/(1+e^ε) enough.
    """
    with ball_precision(_BALL_BITS):
        if epsilon > 100:
            return upper_end(2 * (2 * _ball(epsilon)).sqrt())
        # Φ⁻¹(p) = √2·erf⁻¹(2p − 1) and 2·e^ε/(1+e^ε) − 1 = tanh(ε/2).
        return upper_end(2 * arb(2).sqrt() * (_ball(epsilon) / 2).tanh().erfinv())


@dataclass(frozen=True)
class Cost:
    """What one charge costs.

    Always (ε, δ)-DP. `mu` is set when the mechanism is within `total_variation` of a μ-GDP one; then (ε, δ) already
    covers that distance at this ε, and the Gaussian filter uses μ and the distance instead. With `apart` both were proven for
    themselves (proofs/gaussian_domination.md), and (ε, δ) may be less than μ alone would give.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mu: float | None = None
    total_variation: Fraction = Fraction(0)
    apart: bool = False

    def __post_init__(self) -> None:
        _checked_rational("epsilon", self.epsilon, checked_epsilon)
        _checked_rational("delta", self.delta, checked_delta)
        _checked_rational("total_variation", self.total_variation, checked_delta)
        if not isinstance(self.apart, bool):
            raise InvalidCost("Whether a cost has a mu of its own is yes or no.", "Use True or False.")
        if self.mu is None:
            if self.total_variation != 0 or self.apart:
                raise InvalidCost("A distance to Gaussian noise was given without a mu.", "Use gaussian_cost.")
            return
        checked_epsilon(self.mu, "mu")
        if self.apart:
            return
        covered = exact(gaussian_delta(self.mu, rounded_down(self.epsilon)))
        covered += total_variation_delta(self.epsilon, self.total_variation)
        if covered > self.delta:
            raise InvalidCost(
                "The delta of a Gaussian cost does not cover its mu.", "Use gaussian_cost(epsilon, delta)."
            )

    def for_group(self, size: int) -> Cost:
        """The cost when `size` units change at once: kε and the matching δ; kμ in Gaussian terms."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidCost(f"A group has a whole number of members, at least 1; got {size!r}.", "Use for example 3.")
        if size == 1:
            return self
        epsilon = self.epsilon * size
        if self.mu is None or self.apart:
            # A distance to a Gaussian that is another one for every pair of neighbours does not stay what it is along a chain.
            delta = exact(group_delta(decimal_up(self.epsilon), decimal_up(self.delta), size))
            return Cost(epsilon, delta)
        # A chain of `size` steps of μ-GDP is kμ-GDP; the endpoints stay within the same distance of their ideals.
        mu = math.nextafter(self.mu * size, math.inf)
        delta = exact(gaussian_delta(mu, rounded_down(epsilon))) + total_variation_delta(epsilon, self.total_variation)
        return Cost(epsilon, delta, mu, self.total_variation)

    def to(self, neighbours: Neighbours, source: Neighbours) -> Cost:
        """The cost in relation `neighbours`, given in relation `source`: add/remove gives replace-one by two steps."""
        if neighbours == source:
            return self
        if neighbours != "replace-one":
            raise RelationMismatch(
                "A replace-one cost says nothing about add/remove neighbours.",
                "Calibrate the mechanism for add/remove, or use a replace-one account.",
            )
        return self.for_group(2)

    def of_moving_row(self) -> Cost:
        """The cost of a row that is replaced, where an added or removed one costs this: it may leave one slice and enter another.

        Two steps, as in `to`; and twice the distance to the ideal, because two slices' noise is then looked at (proofs/slices.md).
        """
        moved, distance = self.for_group(2), 2 * self.total_variation
        if moved.mu is None:
            return moved
        covered = exact(gaussian_delta(moved.mu, rounded_down(moved.epsilon)))
        covered += total_variation_delta(moved.epsilon, distance)
        return replace(moved, delta=max(2 * self.delta, covered), total_variation=distance)

    def to_dict(self) -> dict[str, Any]:
        """Exact values as text."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "mu": None if self.mu is None else self.mu.hex(),
            "total_variation": str(self.total_variation),
            # Costs that are not have the text that they always had.
            **({"apart": True} if self.apart else {}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cost:
        """The cost that `to_dict` wrote."""
        mu = values["mu"]
        return cls(
            rational(values["epsilon"]),
            rational(values["delta"]),
            None if mu is None else float.fromhex(mu),
            rational(values["total_variation"]),
            values.get("apart", False),
        )


def _checked_rational(name: str, number: object, checked: Callable[[float, str], float]) -> None:
    """Raise InvalidCost or InvalidParameter unless `number` is a Fraction that `checked` accepts when rounded up."""
    if not isinstance(number, Fraction) or number < 0:
        raise InvalidCost(f"{name} must be a Fraction, at least 0; got {number!r}.", "Use exact(0.1) for one tenth.")
    if number.denominator.bit_length() > _LARGEST_DENOMINATOR_BITS:
        raise InvalidCost(f"{name} has too long a denominator.", "Use exact(0.1) for one tenth.")
    checked(rounded_up(number), name)


def total_variation_delta(epsilon: Fraction, total_variation: Fraction) -> Fraction:
    """(1 + e^ε)γ rounded up: what sampling within γ of the ideal law adds to δ at the composed ε (paper 001, Theorem 12).

    Beyond all floats it is 1: no guarantee is left.
    """
    if total_variation == 0:
        return Fraction(0)
    with ball_precision(_BALL_BITS):
        growth = upper_end(1 + _ball(epsilon).exp())
    return Fraction(1) if growth == math.inf else total_variation * Fraction(growth)


def pure_cost(epsilon: float) -> Cost:
    """The cost of an ε-DP mechanism."""
    return Cost(exact(checked_epsilon(epsilon)))


def approximate_cost(epsilon: float, delta: float) -> Cost:
    """The cost of an (ε, δ)-DP mechanism of which no more is known."""
    return Cost(exact(checked_epsilon(epsilon)), exact(checked_delta(delta)))


def gaussian_cost(epsilon: float, delta: float, total_variation: Fraction = Fraction(0)) -> Cost:
    """The cost of the μ-GDP mechanism with the largest μ that (ε, δ) allows, sampled within `total_variation`."""
    mu = gaussian_mu_within(epsilon, delta)
    # A float: many distances with denominators of their own would add up to a number too long to write down.
    distance = Fraction(rounded_up(total_variation))
    if total_variation_delta(exact(epsilon), distance) > exact(delta) * TOTAL_VARIATION_SHARE:
        raise InvalidCost(
            "With so large an epsilon this delta does not cover how far drawn noise is from ideal noise.",
            "Use a smaller epsilon or a larger delta.",
        )
    return Cost(exact(epsilon), exact(delta), mu, distance)


@functools.lru_cache(maxsize=4096)
def gaussian_mu_within(epsilon: float, delta: float) -> float:
    """The largest μ that (ε, δ) allows when a 2⁻²⁰th of δ is kept for the distance between ideal and sampled noise."""
    if checked_delta(delta) == 0:
        raise InvalidCost("Gaussian noise needs delta > 0, got 0.", "Use for example delta=1e-6, or a pure mechanism.")
    mu = gaussian_mu(checked_epsilon(epsilon), rounded_down(exact(delta) * (1 - TOTAL_VARIATION_SHARE)))
    if mu == 0:
        raise InvalidCost(
            f"epsilon = {readable_up(epsilon)} and delta = {readable_up(delta)} are too small for Gaussian noise.",
            "Use larger ones.",
        )
    return mu


def rounded_up_root(number: Fraction) -> float:
    """A float that is not below √number."""
    with ball_precision(_BALL_BITS):
        return upper_end(_ball(number).sqrt())


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
            epsilon=_writable(self.epsilon + cost.epsilon),
            delta=_writable(self.delta + cost.delta),
            mu_squared=_writable(self.mu_squared + Fraction(mu) ** 2),
            total_variation=_writable(self.total_variation + cost.total_variation),
            leaked_delta=_writable(self.leaked_delta + (cost.delta if cost.mu is None else Fraction(0))),
            gaussian_charges=self.gaussian_charges + (cost.mu is not None),
        )

    def beside(self, other: Spent) -> Spent:
        """Totals of both: charges that all look at the same records."""
        return Spent(
            **{name: _writable(getattr(self, name) + getattr(other, name)) for name in TOTALS},
            gaussian_charges=self.gaussian_charges + other.gaussian_charges,
        )

    def or_at_most(self, other: Spent) -> Spent:
        """The larger of every total: not below either, for charges of which any record is looked at by one or the other only."""
        return Spent(
            **{name: max(getattr(self, name), getattr(other, name)) for name in TOTALS},
            gaussian_charges=max(self.gaussian_charges, other.gaussian_charges),
        )

    @classmethod
    def of(cls, costs: Iterable[Cost]) -> Spent:
        """Totals of a list of charges."""
        spent = cls()
        for cost in costs:
            spent = spent.plus(cost)
        return spent


# The exact totals among the fields.
TOTALS: Final = ("epsilon", "delta", "mu_squared", "total_variation", "leaked_delta")


def _writable(total: Fraction) -> Fraction:
    """The total itself; rounded up to a multiple of 2⁻²²⁰⁰ once its denominator would be too long to keep."""
    if total.denominator.bit_length() <= _LARGEST_DENOMINATOR_BITS:
        return total
    return Fraction(math.ceil(total * 2**2200), 2**2200)


@dataclass(frozen=True)
class Budget:
    """An account's limit and the filter that enforces it. Proof: proofs/accounting.md."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    composition: Composition = "basic"
    reserved_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _checked_rational("epsilon", self.epsilon, checked_epsilon)
        _checked_rational("delta", self.delta, checked_delta)
        _checked_rational("reserved_delta", self.reserved_delta, checked_delta)
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
        if self.lacks_reserve(spent):
            return False
        fits_plainly = spent.gaussian_charges == 0 and spent.epsilon <= self.epsilon
        return fits_plainly or spent.mu_squared <= Fraction(self.mu) ** 2

    def lacks_reserve(self, spent: Spent) -> bool:
        """Whether the reserve is too small for what these totals leak beside their μ; never so with basic composition."""
        leaked = spent.leaked_delta + total_variation_delta(self.epsilon, spent.total_variation)
        return self.composition == "gaussian" and leaked > self.reserved_delta

    @property
    def mu(self) -> float:
        """The Gaussian parameter that fits the budget, rounded down."""
        return _budget_mu(self.epsilon, self.delta - self.reserved_delta)

    def used_up(self, spent: Spent) -> Spent:
        """Totals not below these that leave nothing: whatever else was charged within the budget is covered by them."""
        full = replace(spent, epsilon=max(spent.epsilon, self.epsilon), delta=max(spent.delta, self.delta))
        if self.composition == "basic":
            return full
        leaked = self.reserved_delta - total_variation_delta(self.epsilon, spent.total_variation)
        return replace(
            full,
            mu_squared=max(spent.mu_squared, Fraction(self.mu) ** 2),
            leaked_delta=max(spent.leaked_delta, leaked),
        )

    def shown(self, spent: Spent) -> tuple[float, float]:
        """(ε, δ) of the totals, rounded up, for people to read; the promise an outsider may rely on is the budget."""
        plain = decimal_up(spent.epsilon), decimal_up(spent.delta)
        if self.composition == "basic" or spent == Spent():
            return plain
        leaked = spent.leaked_delta + total_variation_delta(self.epsilon, spent.total_variation)
        composed = gaussian_epsilon(rounded_up_root(spent.mu_squared), rounded_down(self.delta - self.reserved_delta))
        if spent.mu_squared <= Fraction(self.mu) ** 2:
            # Rounded up twice, a full account would be shown as more than full.
            composed = min(composed, decimal_down(self.epsilon))
        if spent.gaussian_charges == 0 and plain[0] <= composed:
            return plain[0], decimal_up(leaked)
        return composed, decimal_up(self.delta - self.reserved_delta + leaked)


@functools.lru_cache(maxsize=256)
def _budget_mu(epsilon: Fraction, delta: Fraction) -> float:
    return gaussian_mu(rounded_down(epsilon), rounded_down(delta))

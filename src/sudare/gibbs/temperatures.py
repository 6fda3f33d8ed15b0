"""How cold a Gibbs posterior may be: the inverse temperature β that a target (ε, δ) allows. Proof: proofs/gibbs.md.

One draw from exp(−β Σ loss(θ, xᵢ))·prior(θ) is a release. Every function returns the largest β that its condition
proves, rounded down, for replace-one neighbours. `lipschitz` bounds ‖∇(loss(θ, x) − loss(θ, x′))‖/2 over all records and all
parameters: the Lipschitz constant of one loss always does, and so does half of that of the difference of two. `prior_convexity`
is m with −log prior m-strongly convex; `loss_convexity` is that of every single loss, 0 for linear models.
"""

from __future__ import annotations

import math
from typing import Final

from sudare.errors import InvalidParameter
from sudare.privacy.accounting import gaussian_delta, gaussian_mu_within
from sudare.privacy.guarantee import checked_delta, checked_epsilon

# Every formula below has fewer than thirty roundings of 2⁻⁵³ each, and is monotone in what is rounded.
_ROUNDED_DOWN: Final = 1 - 2.0**-46
_LARGEST: Final = 2.0**200


def bounded_beta(epsilon: float, loss_range: float) -> float:
    """ε-DP when every loss has values in an interval of length `loss_range` (Theorems 2 and 3, exponential mechanism)."""
    return _rounded_down(checked_epsilon(epsilon) / (2 * _positive("loss_range", loss_range)))


def gaussian_beta(
    epsilon: float, delta: float, lipschitz: float, prior_convexity: float, loss_convexity: float = 0.0, rows: int = 1
) -> float:
    """(ε, δ)-DP and μ-GDP, 2βL/√(m + nβm_ℓ) = μ: the tight condition (Gopi, Lee and Liu 2022)."""
    mu = gaussian_mu_within(epsilon, delta)
    return largest_beta(mu**2, lipschitz, prior_convexity, loss_convexity, rows)


def gaussian_parameter(
    beta: float, lipschitz: float, prior_convexity: float, loss_convexity: float = 0.0, rows: int = 1
) -> float:
    """μ = 2βL/√(m + nβm_ℓ), rounded up: what a draw at inverse temperature β costs."""
    convexity = prior_convexity + rows * beta * loss_convexity
    return 2 * beta * lipschitz / math.sqrt(convexity) / _ROUNDED_DOWN


def concentration_beta(
    epsilon: float, delta: float, lipschitz: float, prior_convexity: float, loss_convexity: float = 0.0, rows: int = 1
) -> float:
    """(ε, δ)-DP by the tail of the privacy loss (Theorems 8 and 9, with C(1 + log …) = 1): never more than `gaussian_beta`.

    With D = 2β²L²/(m + nβm_ℓ) the tail at ε is at most e^{−(ε−D)²/4D}, which is δ at √D = √(log(1/δ) + ε) − √log(1/δ):
    D is the paper's u (eq. 31), and β its root (eq. 32, with +4uC′).
    """
    tail = -math.log(_proper(delta))
    # √(l + ε) − √l without cancellation.
    root = checked_epsilon(epsilon) / (math.sqrt(tail + epsilon) + math.sqrt(tail))
    return largest_beta(2 * root**2, lipschitz, prior_convexity, loss_convexity, rows)


def corollary_10_beta(epsilon: float, delta: float, lipschitz: float, prior_convexity: float) -> float:
    """(ε, δ)-DP by Corollary 10 (ii), eq. 23, where its proof holds: ε ≤ 1 + D/2 with D = ε²/(2 + 4 log(1/δ)).

    The tail of Theorem 8 at this β is e^{−(ε−D)²/4D} = δ·e^{(ε − 1 − D/2)/2}.
    """
    tail = -math.log(_proper(delta))
    spread = checked_epsilon(epsilon) ** 2 / (2 + 4 * tail)
    if epsilon > 1 + spread / 2 or spread >= epsilon:
        raise InvalidParameter(
            f"Corollary 10 (ii) is not proved for epsilon = {epsilon!r} with delta = {delta!r}, and false for large epsilon.",
            "Use an epsilon of at most 1, or the tight condition gaussian_beta.",
        )
    return largest_beta(2 * spread, lipschitz, prior_convexity, 0.0, 1)


def corollary_10_one_beta(epsilon: float, lipschitz: float, prior_convexity: float) -> tuple[float, float]:
    """β and δ of Corollary 10 (i), eq. 22: (ε, e^{−(1+ε)/4})-DP, only where the tight profile confirms it."""
    delta = math.exp(-(1 + checked_epsilon(epsilon)) / 4)
    mu = math.sqrt(2 * epsilon)
    if gaussian_delta(mu, epsilon) > delta:
        raise InvalidParameter(
            f"Corollary 10 (i) is false for epsilon = {epsilon!r}: on linear losses δ is {gaussian_delta(mu, epsilon):.3g}, "
            f"not {delta:.3g}.",
            "Use the tight condition gaussian_beta.",
        )
    return largest_beta(mu**2, lipschitz, prior_convexity, 0.0, 1), delta


def largest_beta(
    square: float, lipschitz: float, prior_convexity: float, loss_convexity: float = 0.0, rows: int = 1
) -> float:
    """The root β of 4L²β² = μ²(m + nβm_ℓ), rounded down; `square` is μ²."""
    slope = _positive("lipschitz", lipschitz)
    prior = _positive("prior_convexity", prior_convexity)
    if not 0 <= loss_convexity <= _LARGEST:
        raise InvalidParameter(f"loss_convexity must be at least 0, got {loss_convexity!r}.", "Use 0 if unknown.")
    if rows < 1:
        raise InvalidParameter(f"rows must be at least 1, got {rows!r}.", "Give the number of records.")
    linear = square * rows * loss_convexity
    root = (linear + math.sqrt(linear**2 + 16 * slope**2 * square * prior)) / (8 * slope**2)
    return _rounded_down(root)


def _rounded_down(number: float) -> float:
    """A little less: more than all roundings in the formulas above together."""
    if not 0 < number < _LARGEST:
        raise InvalidParameter(
            "The inverse temperature is too small or too large for floating point.", "Rescale rows or loss."
        )
    return number * _ROUNDED_DOWN


def _positive(name: str, value: float) -> float:
    if not 1 / _LARGEST <= value <= _LARGEST:
        raise InvalidParameter(f"{name} must be positive and finite, got {value!r}.", "Derive it from public bounds.")
    return float(value)


def _proper(delta: float) -> float:
    if not 0 < checked_delta(delta) < 1:
        raise InvalidParameter(f"delta must be between 0 and 1, got {delta!r}.", "Use for example delta=1e-6.")
    return float(delta)

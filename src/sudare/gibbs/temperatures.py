"""The inverse temperature β of a Gibbs posterior that ε, or a Gaussian parameter μ, allows. Proof: proofs/gibbs.md.

One draw from exp(−β Σ loss(θ, xᵢ))·prior(θ) is a release. The functions return the largest β that keeps the draw ε-DP or μ-GDP for replace-one
neighbours, rounded down. `lipschitz` bounds ‖∇(loss(θ, x) − loss(θ, x′))‖/2 over all records and all parameters: the Lipschitz constant
of one loss always does, and so does half of that of the difference of two.
"""

from __future__ import annotations

import math
from typing import Final

from sudare.errors import InvalidParameter

# Every formula below has fewer than thirty roundings of 2⁻⁵³ each, and is monotone in what is rounded.
_ROUNDED_DOWN: Final = 1 - 2.0**-46
_LARGEST: Final = 2.0**200


def pure_beta(epsilon: float, oscillation: float) -> float:
    """β = ε/Ω, rounded down (Theorems 2 and 3), where loss(θ, x) − loss(θ, x′) varies by at most Ω over θ, for any two records.

    Losses with values in an interval of length B have Ω ≤ 2B. Nothing is asked of the prior, nor of convexity.
    """
    return _rounded_down(epsilon / _positive("oscillation", oscillation))


def proportional_beta(square: float, lipschitz: float, penalty: float) -> float:
    """β = μ²ρ/(4L²), rounded down: the condition 2βL/√(βρ) ≤ μ when the prior is as cold as the losses."""
    ratio = square * penalty / (4 * lipschitz**2)
    if not 1 / _LARGEST < ratio < _LARGEST:
        raise InvalidParameter(
            "The inverse temperature is beyond what floats can sample.", "Change epsilon or regularization."
        )
    return ratio * _ROUNDED_DOWN


def largest_beta(
    square: float, lipschitz: float, prior_convexity: float, loss_convexity: float = 0.0, rows: int = 1
) -> float:
    """The root β of 4L²β² = μ²(m + nβm_ℓ), rounded down; `square` is μ².

    `prior_convexity` is m with −log prior m-strongly convex; `loss_convexity` is m_ℓ of every single loss, 0 for linear models.
    """
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

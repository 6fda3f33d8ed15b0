"""Inverse temperatures by the conditions that the paper prints, where they hold, and by the tight one. Proof: proofs/gibbs.md.

Every function returns the largest β that its condition proves, rounded down, for replace-one neighbours. Arguments are those of
`sudare.gibbs.temperatures.largest_beta`.
"""

from __future__ import annotations

import math

from sudare.errors import InvalidParameter
from sudare.gibbs.temperatures import largest_beta
from sudare.privacy.accounting import gaussian_delta, gaussian_mu_within
from sudare.privacy.guarantee import checked_delta, checked_epsilon


def gaussian_beta(
    epsilon: float, delta: float, lipschitz: float, prior_convexity: float, loss_convexity: float = 0.0, rows: int = 1
) -> float:
    """(ε, δ)-DP and μ-GDP, 2βL/√(m + nβm_ℓ) = μ: the tight condition (Gopi, Lee and Liu 2022)."""
    mu = gaussian_mu_within(epsilon, delta)
    return largest_beta(mu**2, lipschitz, prior_convexity, loss_convexity, rows)


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


def _proper(delta: float) -> float:
    if not 0 < checked_delta(delta) < 1:
        raise InvalidParameter(f"delta must be between 0 and 1, got {delta!r}.", "Use for example delta=1e-6.")
    return float(delta)

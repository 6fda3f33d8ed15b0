"""The paper's definitions, bounds and laws as functions, in its symbols. No privacy for a record: they compute what is promised, and draw nothing.

`L` is the Lipschitz constant of a loss, `m_pi` and `m_l` the strong convexities of −log π and of the losses, `C_alpha` stands for C(1 + log(α²/(α² − 1))), which may be 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats
from sudare.privacy.array_checks import as_numbers


def hockey_stick_delta(rho: ArrayLike, rho_neighbour: ArrayLike, epsilon: float) -> float:
    """The least δ of Definition 1 (eq. 3) for two laws on the same finite set, in this direction."""
    first, second = np.asarray(rho, dtype=np.float64), np.asarray(rho_neighbour, dtype=np.float64)
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def d_priv(rho: ArrayLike, rho_neighbour: ArrayLike) -> float:
    """sup |log ρ(A)/ρ′(A)| over events (eq. 4), which on a finite set is reached by single points that have a probability."""
    first, second = np.asarray(rho, dtype=np.float64), np.asarray(rho_neighbour, dtype=np.float64)
    possible = (first > 0) | (second > 0)
    with np.errstate(divide="ignore"):
        return float(np.max(np.abs(np.log(first[possible]) - np.log(second[possible]))))


def gibbs_map(beta: float, f: ArrayLike, base: ArrayLike) -> Floats:
    """G_{β,f} ∝ e^{−βf}·π on a finite set (eqs. 2, 6, 9 and 13)."""
    weights = np.log(np.asarray(base, dtype=np.float64)) - beta * np.asarray(f, dtype=np.float64)
    return np.asarray(np.exp(weights - np.logaddexp.reduce(weights)))


def exponential_mechanism_beta(epsilon: float, delta_1: float) -> float:
    """β = ε/2Δ₁ of Theorem 2 (eq. 8): ε-DP where H(·, D) changes by at most Δ₁ in the supremum norm (eq. 5), by eq. 7."""
    return epsilon / (2 * delta_1)


def bounded_likelihood_epsilon(beta: float, B: float) -> float:
    """4βB of Theorem 3 (i), where |log p(x|θ)| ≤ B; 4βLR of (ii) with B = LR."""
    return 4 * beta * B


def d_plus(beta: float, n: int, m_l: float, m_pi: float, L: float, C_alpha: float = 1.0) -> float:
    """The bound on the KL divergence: eq. 20, and eq. 16 with m_l = 0."""
    return 2 * L**2 * C_alpha * beta**2 / (n * m_l * beta + m_pi)


def concentration_tail(t: float, kl_bound: float) -> float:
    """e^{−t²/4D} of eqs. 15 and 19: the probability that the privacy loss is more than t above its mean; `kl_bound` is D₊."""
    return math.exp(-(t**2) / (4 * kl_bound))


def privacy_loss_tail(epsilon: float, kl_bound: float) -> float:
    """e^{−(ε − D)²/4D} of eqs. 17 and 21, for ε above the bound D on the KL divergence; 1 below it. By Theorem 4 it is a δ."""
    return 1.0 if epsilon <= kl_bound else concentration_tail(epsilon - kl_bound, kl_bound)


def least_radius(kappa: float, alpha: float, d: int, m_pi: float) -> float:
    """R_Θ of eq. 18."""
    return kappa + alpha * math.sqrt(d / m_pi)


def restriction_constant(alpha: float, C: float = 1.0) -> float:
    """C(1 + log(α²/(α² − 1))) of eq. 19 and Theorem 13, for a universal constant C that the paper leaves unknown."""
    return C * (1 + math.log(alpha**2 / (alpha**2 - 1)))


def u(epsilon: float, delta: float) -> float:
    """u_{ε,δ} of eq. 31."""
    middle = epsilon + 2 * math.log(1 / delta)
    return middle - math.sqrt(middle**2 - epsilon**2)


def b_printed(epsilon: float, delta: float, n: int, C_prime: float) -> float:
    """Eq. 32 as printed, with −4uC′ under the root; NaN where that is negative. It does not solve D₊ = u."""
    square = n**2 * u(epsilon, delta) ** 2 - 4 * u(epsilon, delta) * C_prime
    return math.nan if square < 0 else (n * u(epsilon, delta) + math.sqrt(square)) / (2 * C_prime)


def b_corrected(epsilon: float, delta: float, n: int, C_prime: float) -> float:
    """Eq. 32 with +4uC′: the β at which D₊ of eq. 30 is u."""
    square = n**2 * u(epsilon, delta) ** 2 + 4 * u(epsilon, delta) * C_prime
    return (n * u(epsilon, delta) + math.sqrt(square)) / (2 * C_prime)


class NormalPosterior(NamedTuple):
    """θ_{β,D} and σ²_{β,D} of eqs. 28 and 29."""

    mean: float
    variance: float


def normal_posterior(x: ArrayLike, beta: float, sigma: float = 1.0, tau: float = 1.0) -> NormalPosterior:
    """The Gibbs posterior of the mean of a normal law on all of ℝ (eqs. 28 and 29; the modulus in eq. 28 is dropped)."""
    records = as_numbers(x, "x")
    precision = len(records) * beta / sigma**2 + 1 / tau**2
    return NormalPosterior(beta / sigma**2 * float(records.sum()) / precision, 1 / precision)


def approximate_sampling_delta(epsilon: float, delta: float, gamma: float) -> float:
    """δ + (e^ε + 1)γ of Theorem 12, for a sampler within γ in total variation."""
    return delta + (math.exp(epsilon) + 1) * gamma


def lipschitz_tail(t: float, L: float, D_LS: float) -> float:
    """e^{−t²/2L²D_LS} of eq. 37: an L-Lipschitz function of a law with log-Sobolev constant D_LS, t above its mean."""
    return math.exp(-(t**2) / (2 * L**2 * D_LS))

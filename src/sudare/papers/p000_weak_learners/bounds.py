"""The bounds of paper 000 as functions: Theorems 2.1, 2.2, 3.1 and 4.1 and the appendix, as printed and as they hold.

What is printed as O(…) takes its constant as `constant`, one unless given: no statement is made about its size. What `_that_holds` ends a name has
all constants. Symbols are the paper's: n rows, p parameters, ζ or L a bound on a record's gradient, M senders, n₀ own rows, α a chance.
"""

from __future__ import annotations

import math

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p000_weak_learners.perturbed_erm import minimisers_in_ball

# Theorem 2.1: Algorithm 1


def theorem_2_1_a(zeta: float, theta_norm: float, p: int, epsilon: float, n: int, constant: float = 1.0) -> float:
    """Eq. (6) as printed, for δ = 0: ζ‖θ*‖·p·log p/(εn) times a constant."""
    return constant * zeta * theta_norm * p * math.log(p) / (epsilon * n)


def theorem_2_1_b(
    zeta: float, theta_norm: float, p: int, epsilon: float, delta: float, n: int, constant: float = 1.0
) -> float:
    """Eq. (7) as printed, for δ > 0: ζ‖θ*‖·√(p·log(1/δ))/(εn) times a constant."""
    return constant * zeta * theta_norm * math.sqrt(p * math.log(1 / delta)) / (epsilon * n)


def theorem_2_1_that_holds(squared_noise: float, extra_penalty: float, theta_norm: float, n: int) -> float:
    """E‖b‖²/(2nΔ) + Δ‖θ*‖²/(2n): the privacy risk of Algorithm 1 with extra penalty Δ, whatever the convex loss and convex Θ.

    With f = mean loss + Δ/(2n)‖θ‖², minimal at θ̄, the output θ̂ minimises f + bᵀθ/n, and both are Δ/n-strongly convex: f(θ̂) − f(θ̄) ≤ bᵀ(θ̄ − θ̂)/n − Δ/(2n)‖θ̂ − θ̄‖² ≤ ‖b‖²/(2nΔ).
    The mean loss at θ̂ is at most f(θ̂), and f(θ̄) ≤ f(θ*). Eqs. (6) and (7) follow for Δ of the order of √E‖b‖²/‖θ*‖, and not for every Δ ≥ 2λ_max/ε: at θ* = 0 they would say that
    noise costs nothing.
    """
    return squared_noise / (2 * n * extra_penalty) + extra_penalty * theta_norm**2 / (2 * n)


def squared_noise_a(zeta: float, p: int, epsilon: float) -> float:
    """E‖b‖² of density ∝ exp(−ε‖b‖/2ζ): p(p + 1)(2ζ/ε)²."""
    return p * (p + 1) * (2 * zeta / epsilon) ** 2


def squared_noise_b(deviation: float, p: int) -> float:
    """E‖b‖² of normal noise."""
    return p * deviation**2


# Theorem 2.2: Algorithm 2


def theorem_2_2_a(
    lipschitz: float, diameter: float, p: int, epsilon: float, delta: float, n: int, constant: float = 1.0
) -> float:
    """Eq. (8) as printed: L‖Θ‖·log^{3/2}(n/δ)·√(p·log(1/δ))/ε times a constant. It is about the sum of losses: n times the mean."""
    logarithms = math.pow(math.log(n / delta), 1.5) * math.sqrt(p * math.log(1 / delta))
    return constant * lipschitz * diameter * logarithms / epsilon


def theorem_2_2_b(
    lipschitz: float, convexity: float, p: int, epsilon: float, delta: float, n: int, constant: float = 1.0
) -> float:
    """Eq. (9) as printed: L²·log²(n/δ)·p·log(1/δ)/(nβε²) times a constant. It is about the sum of losses: n times the mean."""
    logarithms = math.log(n / delta) ** 2 * math.log(1 / delta)
    return constant * lipschitz**2 * logarithms * p / (n * convexity * epsilon**2)


def theorem_2_2_a_that_holds(lipschitz: float, diameter: float, p: int, sigma: float, n: int) -> float:
    """2‖Θ‖·√(n²L² + pσ²)·(2 + log T)/(n√T), T = n²: the mean loss of the last of T steps (Shamir and Zhang 2013, Theorem 2), for any σ."""
    steps = n**2
    return (
        2 * diameter * math.hypot(n * lipschitz, math.sqrt(p) * sigma) * (2 + math.log(steps)) / (n * math.sqrt(steps))
    )


def theorem_2_2_b_that_holds(lipschitz: float, convexity: float, p: int, sigma: float, n: int) -> float:
    """17(n²L² + pσ²)(1 + log T)/(n²βT), T = n²: the mean loss of the last of T steps (Shamir and Zhang 2013, Theorem 1), for any σ."""
    steps = n**2
    return 17 * ((n * lipschitz) ** 2 + p * sigma**2) * (1 + math.log(steps)) / (n**2 * convexity * steps)


# Theorem 3.1: mirror averaging


def theorem_3_1(beta: float, experts: int, rows: int) -> float:
    """β·log M/n of eq. (20): how far the average's expected risk may be above that of the best expert."""
    return beta * math.log(experts) / rows


def least_temperature(largest_score: float) -> float:
    """β_φ of condition (19) for the logistic loss and scores up to this: e to the power of it; e for scores within one."""
    return math.exp(largest_score)


# Theorem 4.1 and its proof


def weak_learner_bound(
    n_m: int, p: int, epsilon: float, alpha: float, regularization: float, approximation: float, radius: float,
    c_1: float = 1.0, c_2: float = 1.0,
) -> float:  # fmt: skip
    """Eq. (A.9) as printed: one sender's expected excess risk, with chance 1 − α."""
    chance = math.log(2 / alpha)
    estimation = math.sqrt(chance / n_m) + math.sqrt(4 / n_m + 8 * chance / n_m)
    uniform = c_1 * radius**2 * chance / (regularization * n_m)
    return approximation + estimation / regularization + uniform + c_2 * privacy_term(radius, p, epsilon, n_m)


def privacy_term(radius: float, p: int, epsilon: float, rows: int) -> float:
    """R·p·log p/(ε·rows), the last term of eqs. (A.9) and (A.11)."""
    return radius * p * math.log(p) / (epsilon * rows)


def theorem_4_1(
    senders: int, n: int, own_rows: int, epsilon: float, alpha: float, regularization: float, beta: float,
    approximation: float, c_1: float, c_2: float,
) -> float:  # fmt: skip
    """Eq. (25) as printed: the aggregate's expected excess risk, with chance 1 − α over the senders' records."""
    share, chance = senders / (n - own_rows), math.log(2 * senders / alpha)
    estimation = math.sqrt(share * chance) + math.sqrt(4 * share) + c_1 * share * chance
    return approximation + estimation / regularization + c_2 * share / epsilon + theorem_3_1(beta, senders, own_rows)


def theorem_4_1_constants(radius: float, p: int, c_1: float = 1.0, c_2: float = 1.0) -> tuple[float, float]:
    """C₁ and C₂ of eq. (25) by those of eq. (A.11): 8 + C₁R² and C₂·R·p·log p."""
    return 8 + c_1 * radius**2, c_2 * radius * p * math.log(p)


def approximation_error(rows: Floats, labels: Floats, regularization: float, radius: float) -> float:
    """A₂(λ_reg) of eq. (A.8), with the risk on these rows [n, p] for 𝓡: the least of λ_reg‖θ‖² + 𝓡(θ), less the least risk."""
    theta = ball_minimiser(rows, labels, radius, regularization)
    least = logistic_risk(rows, labels, ball_minimiser(rows, labels, radius))
    return regularization * float(theta @ theta) + logistic_risk(rows, labels, theta) - least


def ball_minimiser(rows: Floats, labels: Floats, radius: float, regularization: float = 0.0) -> Floats:
    """The least of mean logistic loss + λ_reg‖θ‖² over ‖θ‖ ≤ radius (eqs. 24, A.1 and A.2)."""
    penalty = 2 * len(rows) * regularization
    nothing = np.zeros((1, rows.shape[1]))
    found: Floats = minimisers_in_ball(rows[np.newaxis], labels[np.newaxis], penalty, nothing, radius)[0]
    return found


def logistic_risk(rows: Floats, labels: Floats, theta: Floats) -> float:
    """The mean logistic loss of θ (eqs. 5 and 23)."""
    return float(np.logaddexp(0.0, -labels * (rows @ theta)).mean())

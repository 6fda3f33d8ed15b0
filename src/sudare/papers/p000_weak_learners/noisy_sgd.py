"""Algorithm 2: differentially private gradient descent with its n² noisy steps (Bassily, Smith and Thakurta 2014).

Every step draws one record, adds normal noise to n times its gradient, and projects onto the ball Θ. The print's σ stands beside the
one that modern accounting finds, and beside the ε that the print's σ really keeps. Neighbours replace one record.

Noise comes from a seeded generator of floats: this is for studies, and what it gives must not be published.
"""

from __future__ import annotations

import functools
import math
from typing import Final, Literal

import numpy as np
from dp_accounting.pld import pld_pmf
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sudare.array_types import Floats
from sudare.compiled_loops import compiled
from sudare.errors import InvalidParameter
from sudare.papers.p000_weak_learners.perturbed_erm import least_epsilon

LossName = Literal["logistic", "hinge"]

# Steps whose noise is drawn at once.
_BLOCK: Final = 1 << 14
# Losses are rounded to this part of what one step's loss is of order.
_LOSS_CELLS: Final = 8
_LOSS_TAIL: Final = 1e-18
# Fourier transforms are right to about n·2⁻⁵³: below this δ they would be seen.
_LEAST_DELTA: Final = 1e-10
_MULTIPLIER_ACCURACY: Final = 1e-3
# With less noise losses are so large that their distribution does not fit into memory.
_LEAST_MULTIPLIER: Final = 0.25


def printed_sigma(rows: int, epsilon: float, delta: float, lipschitz: float = 1.0) -> float:
    """σ = L·n·√(32·log(2/δ)·log(1/δ))/ε (line 1 of Algorithm 2)."""
    return lipschitz * rows * math.sqrt(32 * math.log(2 / delta) * math.log(1 / delta)) / epsilon


def original_sigma(rows: int, epsilon: float, delta: float, lipschitz: float = 1.0) -> float:
    """The σ of the work that Algorithm 2 is taken from, which has log(n/δ) where the paper prints log(2/δ)."""
    return lipschitz * rows * math.sqrt(32 * math.log(rows / delta) * math.log(1 / delta)) / epsilon


def algorithm_2(
    rows: Floats,
    labels: Floats,
    sigma: float,
    generator: np.random.Generator,
    *,
    radius: float,
    convexity: float = 0.0,
    loss: LossName = "logistic",
) -> Floats:
    """(ε, δ)-DP in real arithmetic as computed by `algorithm_2_epsilon`: θ after n² − 1 noisy steps from zero (Algorithm 2).

    Rows [n, p] lie in the unit ball, labels are −1 and +1, Θ is the ball of `radius`. With `convexity` β > 0 the loss has (β/2)‖θ‖² added
    and steps are 1/(βnt) (Theorem 2.2 b), else ‖Θ‖/√(t(n²L² + pσ²)) with the diameter ‖Θ‖ = 2·radius (Theorem 2.2 a).
    """
    if not (0 < radius < math.inf and sigma >= 0 and convexity >= 0):
        raise InvalidParameter(
            "radius must be positive and finite, sigma and convexity not negative.", "Use 1, 1 and 0."
        )
    count, width = rows.shape
    scale = 2 * radius / math.sqrt(count**2 * largest_gradient(convexity, radius) ** 2 + width * sigma**2)
    place, table = np.zeros(width), np.ascontiguousarray(rows)
    for first in range(1, count**2, _BLOCK):
        drawn = generator.integers(0, count, min(_BLOCK, count**2 - first))
        noise = sigma * generator.standard_normal((len(drawn), width))
        _descend(place, first, table, labels, drawn, noise, radius, convexity, scale, loss == "hinge")
    return place


def largest_gradient(convexity: float, radius: float) -> float:
    """L of ℓ(θ) + (β/2)‖θ‖² on the ball, for rows in the unit ball."""
    return 1.0 + convexity * radius


@compiled()
def _descend(
    place: Floats,
    first: int,
    rows: Floats,
    labels: Floats,
    drawn: NDArray[np.int64],
    noise: Floats,
    radius: float,
    convexity: float,
    scale: float,
    hinge: bool,
) -> None:
    """Move the place by steps first, first + 1, …, one for each record that was drawn (line 5)."""
    count, width = rows.shape
    for number in range(len(drawn)):
        row, step = drawn[number], first + number
        margin = 0.0
        for j in range(width):
            margin += labels[row] * rows[row, j] * place[j]
        slope = -labels[row] / (1.0 + math.exp(margin))
        if hinge:
            slope = -labels[row] if margin < 1.0 else 0.0
        rate = 1.0 / (convexity * count * step) if convexity > 0.0 else scale / math.sqrt(step)
        length = 0.0
        for j in range(width):
            gradient = count * (slope * rows[row, j] + convexity * place[j])
            place[j] -= rate * (gradient + noise[number, j])
            length += place[j] * place[j]
        if length > radius * radius:
            shrink = radius / math.sqrt(length)
            for j in range(width):
                place[j] *= shrink


# Modern accounting


def algorithm_2_epsilon(rows: int, multiplier: float, delta: float) -> float:
    """The ε that n² − 1 steps keep at δ when one record is replaced; `multiplier` is σ/(n·L) with L the bound on a record's slope times row.

    A step draws one of n records, so it is a mixture in which one of n parts changes, by at most 2nL. Its privacy profile is at most
    δ(ε) = q·δ_G(2/multiplier, log(1 + (e^ε − 1)/q)) with q = 1/n (Balle, Barthe and Gaboardi 2018, Theorem 9) and, turned around, 1 − e^ε + e^ε·δ(−ε) for
    ε < 0. A pair of laws with this profile dominates every step, so its composition dominates the run (Zhu, Dong and Wang 2022, Theorem 10). Losses are
    rounded by connecting the dots of the profile, which never understates it. Infinite for a multiplier below a quarter, where nothing is computed.
    """
    _check(rows, delta)
    if multiplier < _LEAST_MULTIPLIER:
        return math.inf
    composed = _composed(rows, multiplier)
    return least_epsilon(lambda claimed: composed.get_delta_for_epsilon(claimed) <= delta)


def modern_multiplier(rows: int, epsilon: float, delta: float) -> float:
    """The least σ/(n·L) from a quarter on, to a thousandth, at which n² − 1 steps keep (ε, δ) by `algorithm_2_epsilon`."""
    _check(rows, delta)

    def holds(multiplier: float) -> bool:
        return bool(_composed(rows, multiplier).get_delta_for_epsilon(epsilon) <= delta)

    high = max(_LEAST_MULTIPLIER, printed_sigma(1, epsilon, delta))
    while not holds(high):
        high *= 2
    low = max(_LEAST_MULTIPLIER, high / 2)
    while holds(low):
        if low == _LEAST_MULTIPLIER:
            return low
        low, high = max(_LEAST_MULTIPLIER, low / 2), low
    while high > low * (1 + _MULTIPLIER_ACCURACY):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check(rows: int, delta: float) -> None:
    """Raise InvalidParameter unless there are two rows and δ is large enough for Fourier transforms."""
    if rows < 2 or not _LEAST_DELTA <= delta < 1:
        raise InvalidParameter(
            f"Algorithm 2 is accounted for with two rows or more and delta from {_LEAST_DELTA:g}, got {rows} and {delta!r}.",
            "Use for example delta=1e-6.",
        )


@functools.lru_cache(maxsize=256)
def _composed(rows: int, multiplier: float) -> pld_pmf.PLDPmf:
    """The privacy loss distribution of all steps."""
    share = 1 / rows
    # Beyond this loss a step's δ is below what is counted as lost anyway.
    farthest = math.log1p(share * math.expm1(_farthest_gaussian_loss(2 / multiplier)))
    step = 2 / (rows * multiplier) / _LOSS_CELLS
    cells = math.ceil(farthest / step)
    losses = np.arange(-cells, cells + 1)
    deltas = _profile(np.abs(losses) * step, share, 2 / multiplier)
    turned = np.where(losses < 0, -np.expm1(losses * step) + np.exp(losses * step) * deltas, deltas)
    single = pld_pmf.create_pmf_pessimistic_connect_dots(step, losses, np.minimum.accumulate(turned)).to_dense_pmf()
    # n² − 1 in two factors: tails are cut off by Chernoff bounds that are loose for many steps at once.
    return single.self_compose(rows - 1, _LOSS_TAIL).self_compose(rows + 1, _LOSS_TAIL)


def _profile(losses: Floats, share: float, mu: float) -> Floats:
    """q·δ_G(μ, log(1 + (e^ε − 1)/q)) at losses ε ≥ 0."""
    amplified = np.log1p(np.expm1(losses) / share)
    first, second = log_ndtr(mu / 2 - amplified / mu), amplified + log_ndtr(-mu / 2 - amplified / mu)
    return np.asarray(share * np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))


def _farthest_gaussian_loss(mu: float) -> float:
    """μ²/2 + 9μ: a larger loss of a Gaussian mechanism has probability below 10⁻¹⁸."""
    return mu**2 / 2 + 9 * mu

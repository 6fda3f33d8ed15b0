"""What shuffling adds: the central ε of rows that are perturbed one by one and then mixed. Proof: proofs/pk_anonymity.md.

Feldman, McMillan and Talwar (2021), "Hiding among the clones", Theorem 3.2: shuffled outputs of n records under one
ε₀-DP channel tell no more about one record than the pair (A + Δ, C − A + 1 − Δ), where C ~ Bin(n − 1, e^{−ε₀}) others are
its clones, A ~ Bin(C, ½), and Δ ~ Bernoulli(e^{ε₀}/(1 + e^{ε₀})). The hockey-stick divergence of that pair is summed
here, rounded up: a number C in a block counts as the smallest of the block, which can only tell more.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import betainc

from sudare.array_types import Floats

_BLOCKS: Final = 200
_BISECTIONS: Final = 30
# What rounding in the binomial sums can amount to; they are right to about a trillionth.
_ROUNDING: Final = 1e-6


def shuffled_epsilon(local_epsilon: float, rows: int, delta: float) -> float:
    """The least ε found for which the shuffled rows are (ε, δ)-DP, replace-one; `local_epsilon` itself if none is less."""
    if rows < 2 or shuffled_delta(local_epsilon * (1 - 2.0**-20), local_epsilon, rows) > delta:
        return local_epsilon
    low, high = 0.0, local_epsilon
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if shuffled_delta(middle, local_epsilon, rows) <= delta else (middle, high)
    return high


def shuffled_delta(epsilon: float, local_epsilon: float, rows: int) -> float:
    """An upper bound of the δ that goes with `epsilon` < `local_epsilon` after shuffling."""
    if epsilon >= local_epsilon:
        return 0.0
    clones, probability = rows - 1, math.exp(-local_epsilon)
    fewest = _block_starts(clones, probability)
    # P(C ≥ c) of a binomial law is an incomplete beta integral.
    above = np.append(betainc(fewest[1:], clones - fewest[1:] + 1, probability), 0.0)
    shares = np.append(1.0, above[:-1]) - above
    total = float(np.sum(shares * divergence(fewest, epsilon, local_epsilon)))
    return total * (1 + _ROUNDING) + 1e-18


def divergence(clones: Floats, epsilon: float, local_epsilon: float) -> Floats:
    """sup over thresholds t of P(A + Δ ≥ t) − e^ε·P(A + 1 − Δ ≥ t), for each number of clones."""
    truth = 1 / (1 + math.exp(-local_epsilon))
    gain, growth = truth - math.exp(epsilon) * (1 - truth), math.exp(epsilon) * truth - (1 - truth)
    # The likelihood ratio rises with t and passes e^ε where t/(clones + 1 − t) = growth/gain.
    turning = np.floor((clones + 1) * (growth / (growth + gain)))
    best = np.zeros_like(clones)
    for offset in (0.0, 1.0, 2.0):
        threshold = np.minimum(turning + offset, clones + 1)
        at_least = _half_tail(threshold, clones)
        at_least_less_one = _half_tail(threshold - 1, clones)
        best = np.maximum(best, gain * at_least_less_one - growth * at_least)
    return best


def _half_tail(threshold: Floats, clones: Floats) -> Floats:
    """P(Bin(clones, ½) ≥ threshold)."""
    inside = np.clip(threshold, 1.0, np.maximum(clones, 1.0))
    tail = betainc(inside, np.maximum(clones, 1.0) - inside + 1, 0.5)
    return np.where(threshold <= 0, 1.0, np.where(threshold > clones, 0.0, tail))


def _block_starts(clones: int, probability: float) -> Floats:
    """Numbers of clones from zero upwards at which blocks begin: dense where the binomial law has its weight."""
    mean = clones * probability
    spread = math.sqrt(mean * (1 - probability)) + 1.0
    inner = np.floor(np.linspace(mean - 12 * spread, mean + 4 * spread, _BLOCKS))
    return np.unique(np.concatenate([[0.0], np.clip(inner, 0, clones)]))

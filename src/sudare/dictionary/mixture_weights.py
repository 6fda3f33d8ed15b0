"""The weights with which a member mixes patterns or other densities, from its own records alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.array_types import Booleans, Floats
from sudare.dictionary.exponential_families import Family, Frame, Patterns
from sudare.dictionary.member_tables import Records

_TINY_WEIGHT: Final = 1e-12
_WEIGHT_STEPS: Final = 500
# Nats by which a step must raise the log-likelihood of all own records for another one to be worth it.
_WEIGHT_TOL: Final = 1e-3
# Weights of more records than this are fitted to so many of them, evenly spread.
_MOST_RECORDS: Final = 2**20


def updated_weights(counts: Floats, concentration: float) -> Floats:
    """π = (N_k + γ − 1)/(N + K(γ − 1)) (1.12)."""
    raised = np.maximum(counts + concentration - 1, 0.0)
    return np.asarray(raised / raised.sum())


def inherited_weights(transfer: Floats, parents: Floats) -> Floats:
    """The parent's weights carried over to other patterns; none of them is zero."""
    inherited = transfer @ parents + _TINY_WEIGHT
    return np.asarray(inherited / inherited.sum())


@dataclass(frozen=True, eq=False)
class WeightFit:
    """Weights, and the log-likelihood of the records that they were fitted to."""

    weights: Floats
    log_likelihood: float


def needed_weights(records: Records, family: Family, frame: Frame, patterns: Patterns, start: Floats) -> Floats:
    """A member's final weights, from its own records alone: most likely ones, without patterns it does not need.

    A pattern stays only if it raises the log-likelihood by more than ½ ln N (BIC).
    """
    Z = frame.applied(records.thinned(_MOST_RECORDS))
    return needed(family.log_densities(Z, patterns), start).weights


def needed(log_densities: Floats, start: Floats) -> WeightFit:
    """The most likely weights of densities (records × densities) without those that raise it by ½ ln N or less.

    So the log-likelihood is at most (K − 1)·½ ln N below that of the best weights, hence of each density alone.
    """
    used = np.ones(len(start), dtype=np.bool_)
    best = fitted_weights(log_densities, start, used)
    while used.sum() > 1:
        smallest = np.flatnonzero(used)[np.argmin(best.weights[used])]
        fewer = used.copy()
        fewer[smallest] = False
        candidate = fitted_weights(log_densities, best.weights, fewer)
        if best.log_likelihood - candidate.log_likelihood > 0.5 * math.log(len(log_densities)):
            break
        used, best = fewer, candidate
    return best


def fitted_weights(log_densities: Floats, start: Floats, used: Booleans) -> WeightFit:
    """EM on the weights of the densities in use; the log-likelihood rises in every step."""
    weights = start[used] + _TINY_WEIGHT
    weights /= weights.sum()
    largest = log_densities[:, used].max(axis=1, keepdims=True)
    densities = np.exp(log_densities[:, used] - largest)
    log_likelihood = -math.inf
    for _ in range(_WEIGHT_STEPS):
        mixed = densities @ weights
        following = float(np.log(mixed).sum())
        rise, log_likelihood = following - log_likelihood, following
        if rise < _WEIGHT_TOL:
            break
        weights = weights * (densities.T @ (1 / mixed))
        weights /= weights.sum()
    everywhere = np.zeros(len(used))
    everywhere[used] = weights
    return WeightFit(everywhere, log_likelihood + float(largest.sum()))

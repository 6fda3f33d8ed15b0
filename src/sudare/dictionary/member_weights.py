"""A member's weights of the patterns, from its own records alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy.special import logsumexp

from sudare.array_types import Booleans, Floats
from sudare.dictionary.families import Family, Frame, Patterns, log_weights
from sudare.dictionary.member_records import Records
from sudare.frames.rows import Rows

_TINY_WEIGHT: Final = 1e-12
_WEIGHT_STEPS: Final = 200
# Nats by which a step must raise the log-likelihood of all own records for another one to be worth it.
_WEIGHT_TOL: Final = 1e-3
# Up to this many densities (a gigabyte) are kept between steps; beyond, records are read again.
_HELD_DENSITIES: Final = 2**27


def updated_weights(counts: Floats, concentration: float) -> Floats:
    """π = (N_k + γ − 1)/(N + K(γ − 1)) (1.12)."""
    raised = np.maximum(counts + concentration - 1, 0.0)
    return np.asarray(raised / raised.sum())


def inherited_weights(transfer: Floats, parents: Floats) -> Floats:
    """The parent's weights carried over to other patterns; none of them is zero."""
    inherited = transfer @ parents + _TINY_WEIGHT
    return np.asarray(inherited / inherited.sum())


@dataclass(frozen=True, eq=False)
class _WeightFit:
    weights: Floats
    log_likelihood: float


def needed_weights(records: Records, family: Family, frame: Frame, patterns: Patterns, start: Floats) -> Floats:
    """A member's final weights, from its own records alone: most likely ones, without patterns it does not need.

    A pattern stays only if it raises the log-likelihood by more than ½ ln N (BIC).
    """
    densities_of: Callable[[Floats], Floats] = partial(_densities, family, frame, patterns)
    if records.rows * len(patterns) <= _HELD_DENSITIES:
        held = [(block,) for block in records.of_blocks(densities_of)]
        densities, densities_of = Rows(lambda: held, records.rows, len(patterns)), _as_they_are
    else:
        densities = records.checked
    fitted = partial(_fitted_weights, densities, densities_of)
    used = np.ones(len(start), dtype=np.bool_)
    best = fitted(start, used)
    while used.sum() > 1:
        smallest = np.flatnonzero(used)[np.argmin(best.weights[used])]
        fewer = used.copy()
        fewer[smallest] = False
        candidate = fitted(best.weights, fewer)
        if best.log_likelihood - candidate.log_likelihood > 0.5 * math.log(records.rows):
            break
        used, best = fewer, candidate
    return best.weights


def _densities(family: Family, frame: Frame, patterns: Patterns, block: Floats) -> Floats:
    return family.log_densities(frame.applied(block), patterns)


def _as_they_are(densities: Floats) -> Floats:
    return densities


def _weight_sums(densities_of: Callable[[Floats], Floats], weights: Floats, used: Booleans, block: Floats) -> Floats:
    """The expected numbers of a block's records by pattern, and last their log-likelihood."""
    log_joint = densities_of(block)[:, used] + log_weights(weights)
    log_total = logsumexp(log_joint, axis=1, keepdims=True)
    return np.append(np.exp(log_joint - log_total).sum(axis=0), log_total.sum())


def _fitted_weights(rows: Rows, densities_of: Callable[[Floats], Floats], start: Floats, used: Booleans) -> _WeightFit:
    """EM on the weights of the patterns in use."""
    weights = start[used] + _TINY_WEIGHT
    weights /= weights.sum()
    log_likelihood = -math.inf
    for _ in range(_WEIGHT_STEPS):
        sums = rows.total(partial(_weight_sums, densities_of, weights, used))
        counts, following = sums[:-1], float(sums[-1])
        rise, log_likelihood = following - log_likelihood, following
        if rise < _WEIGHT_TOL:
            break
        weights = counts / counts.sum()
    everywhere = np.zeros(len(used))
    everywhere[used] = weights
    return _WeightFit(everywhere, log_likelihood)

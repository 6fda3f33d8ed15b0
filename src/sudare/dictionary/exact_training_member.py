"""A member's part of an exact training: what it computes from its own records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from scipy.special import logsumexp

from sudare.dictionary.families import Booleans, Expected, Family, Floats, Frame, Patterns, log_weights
from sudare.dictionary.gaussian_families import upper
from sudare.dictionary.member_records import Records, total_over
from sudare.dictionary.sum_questions import Branch, Counts, OpeningSquares, OpeningSums, Overlaps, Own

# A pattern with less than one expected record at a member has no weight there, as far as BIC is concerned.
_USED_COUNT: Final = 1.0
_TINY_WEIGHT: Final = 1e-12
_WEIGHT_STEPS: Final = 200
# Nats by which a step must raise the log-likelihood of all own records for another one to be worth it.
_WEIGHT_TOLERANCE: Final = 1e-3
# Up to this many densities (a gigabyte) are kept between steps; beyond, records are read again.
_HELD_DENSITIES: Final = 2**27


def opening_sums(records: Records, question: OpeningSums) -> Floats:
    """Column sums in units of half the declared ranges, about their middles."""
    return total_over(records, partial(_opening_sums, question))


def _opening_sums(question: OpeningSums, block: Floats) -> Floats:
    middle, half = (question.low + question.high) / 2, (question.high - question.low) / 2
    return np.asarray(((question.family.opening(block) - middle) / half).sum(axis=0))


def opening_squares(records: Records, question: OpeningSquares) -> Floats:
    """Squares about the common centre; for some families products of all pairs."""
    return total_over(records, partial(_opening_squares, question))


def _opening_squares(question: OpeningSquares, block: Floats) -> Floats:
    centred = (question.family.opening(block) - question.centre) / question.scale
    if question.family.opens_with_pairs:
        return np.asarray((centred.T @ centred)[upper(len(question.centre))])
    return np.asarray(np.einsum("ij,ij->j", centred, centred))


def counted(records: Records, own: Own, question: Counts) -> tuple[Own, Floats]:
    """The E step. Counts are given; everything else waits until it is known which patterns stay."""
    weights = branch_weights(own, question.branch, len(question.patterns))
    total = total_over(records, partial(_expected, question, weights))
    prior = (question.concentration - 1) * log_weights(weights).sum()
    used = int(np.count_nonzero(total.counts > _USED_COUNT))
    weight_cost = math.log(records.rows) * max(used - 1, 0)
    remainder = np.concatenate([total.statistics.ravel(), [total.log_likelihood, prior, weight_cost]])
    own = own.with_weights(question.branch.number, updated_weights(total.counts, question.concentration))
    return replace(own, counts=total.counts, remainder=remainder), total.counts


def _expected(question: Counts, weights: Floats, block: Floats) -> Expected:
    return question.family.expected(question.frame.applied(block), weights, question.patterns)


def branch_weights(own: Own, branch: Branch, patterns: int) -> Floats:
    """The member's weights for a branch: kept, taken over from its parent, or equal."""
    if branch.transfer is None:
        return np.full(patterns, 1 / patterns) if branch.number not in own.weights else own.weights[branch.number]
    inherited = branch.transfer @ own.weights[branch.parent if branch.parent is not None else branch.number]
    inherited = inherited + _TINY_WEIGHT
    return np.asarray(inherited / inherited.sum())


def updated_weights(counts: Floats, concentration: float) -> Floats:
    """π = (N_k + γ − 1)/(N + K(γ − 1)) (1.12)."""
    raised = np.maximum(counts + concentration - 1, 0.0)
    return np.asarray(raised / raised.sum())


def overlaps(records: Records, weights: Floats, question: Overlaps) -> Floats:
    """Σ r_k r_l, the upper triangle."""
    return np.asarray(total_over(records, partial(_overlaps, question, weights))[upper(len(question.patterns))])


def _overlaps(question: Overlaps, weights: Floats, block: Floats) -> Floats:
    shares = responsibilities(question.family, question.frame.applied(block), weights, question.patterns)
    return np.asarray(shares.T @ shares)


def responsibilities(family: Family, Z: Floats, weights: Floats, patterns: Patterns) -> Floats:
    """r (1.11), records × patterns."""
    log_joint = family.log_densities(Z, patterns) + log_weights(weights)
    return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class _WeightFit:
    weights: Floats
    log_likelihood: float


def needed_weights(records: Records, family: Family, frame: Frame, patterns: Patterns, start: Floats) -> Floats:
    """A member's final weights, from its own records alone: most likely ones, without patterns it does not need.

    A pattern stays only if it raises the log-likelihood by more than ½ ln N (BIC).
    """

    def densities() -> Iterator[Floats]:
        return (family.log_densities(frame.applied(block), patterns) for block in records.blocks())

    held = list(densities()) if records.rows * len(patterns) <= _HELD_DENSITIES else None
    read = densities if held is None else lambda: iter(held)
    used = np.ones(len(start), dtype=np.bool_)
    best = _fitted_weights(read, start, used)
    while used.sum() > 1:
        smallest = np.flatnonzero(used)[np.argmin(best.weights[used])]
        fewer = used.copy()
        fewer[smallest] = False
        candidate = _fitted_weights(read, best.weights, fewer)
        if best.log_likelihood - candidate.log_likelihood > 0.5 * math.log(records.rows):
            break
        used, best = fewer, candidate
    return best.weights


def _fitted_weights(read: Callable[[], Iterator[Floats]], start: Floats, used: Booleans) -> _WeightFit:
    """EM on the weights of the patterns in use."""
    weights = start[used] + _TINY_WEIGHT
    weights /= weights.sum()
    log_likelihood = -math.inf
    for _ in range(_WEIGHT_STEPS):
        counts, following = np.zeros(len(weights)), 0.0
        for densities in read():
            log_joint = densities[:, used] + log_weights(weights)
            log_total = logsumexp(log_joint, axis=1, keepdims=True)
            counts += np.exp(log_joint - log_total).sum(axis=0)
            following += float(log_total.sum())
        rise, log_likelihood = following - log_likelihood, following
        if rise < _WEIGHT_TOLERANCE:
            break
        weights = counts / counts.sum()
    everywhere = np.zeros(len(used))
    everywhere[used] = weights
    return _WeightFit(everywhere, log_likelihood)

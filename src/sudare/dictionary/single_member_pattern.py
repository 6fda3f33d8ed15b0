"""A pattern that only one member has. It is learned from the member's own records, and never shown.

A training removes such a pattern, because its moments would be that member's alone. Without one the member's model would call its
own usual records strange. With ε there is none: the misfit of noisy patterns would be taken for a pattern of one's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy.special import logsumexp

from sudare.array_types import Booleans, Floats
from sudare.dictionary.dependency_selection import edge_price, fitted_on, support_by_ebic
from sudare.dictionary.em import Dictionary
from sudare.dictionary.families import Expected, Frame, Patterns, symmetric
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_records import Records, total_over
from sudare.dictionary.member_weights import needed_weights

# Where the search begins: with so large a share of the records that the shared patterns explain worst.
_START_SHARES: Final = (0.1, 0.3, 0.6)
# Records that the mean variances within the shared patterns count for.
_PRIOR_RECORDS: Final = 4.0
_STEPS: Final = 60
# Nats by which a step must raise the log-likelihood of all own records for another one to be worth it.
_TOLERANCE: Final = 1e-3
_FEWEST_RECORDS: Final = 3.0


@dataclass(frozen=True, eq=False, repr=False)
class OwnPart:
    """What a member knows alone: its weights for the shared patterns, and a pattern of its own with its weight, or none.

    `pattern` is in the coordinates of the dictionary's frame.
    """

    weights: Floats
    pattern: Patterns | None = None
    pattern_weight: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class _Mixed:
    """Shared patterns, which stay as they are, and a last one that is fitted; with the totals of own records."""

    patterns: Patterns
    weights: Floats
    totals: Expected


def with_own_pattern(records: Records, dictionary: Dictionary, weights: Floats) -> OwnPart:
    """The member's own part of a finished exact training, from its weights: with a pattern of its own if BIC says so."""
    family = dictionary.family
    if not isinstance(family, SparseGaussian) or records.rows <= len(dictionary.frame.centre) + 1:
        return OwnPart(weights)
    family = SparseGaussian(family.shrinkage, family.sparsity, family.dtype)
    shared, frame = dictionary.patterns, dictionary.frame
    variances = np.diagonal(np.linalg.inv(shared["precisions"]), axis1=1, axis2=2).mean(axis=0)
    alone = total_over(records, partial(_expected, family, frame, weights, shared)).log_likelihood
    columns = len(variances)
    none = np.eye(columns, dtype=np.bool_)
    tried = [
        _fitted(records, family, frame, shared, start, variances, none)
        for start in _starts(records, family, frame, shared, weights)
    ]
    found = [fit for fit in tried if fit is not None]
    if not found:
        return OwnPart(weights)
    best = max(found, key=lambda fit: fit.totals.log_likelihood)
    count, covariance, _ = _moments(best.totals, variances)
    support = support_by_ebic(covariance, count)
    sparse = _fitted(records, family, frame, shared, best, variances, support)
    edges = (np.count_nonzero(support) - columns) // 2
    price = math.log(records.rows) * (1 + 2 * columns) + edges * edge_price(records.rows, columns)
    if sparse is None or 2 * (sparse.totals.log_likelihood - alone) <= price:
        return OwnPart(weights)
    final = needed_weights(records, family, frame, sparse.patterns, sparse.weights)
    return OwnPart(final[:-1], sparse.patterns.kept(np.array([len(shared)])), float(final[-1]))


def _starts(records: Records, family: SparseGaussian, frame: Frame, shared: Patterns, weights: Floats) -> list[_Mixed]:
    """The totals of the records that the shared patterns explain worst, for every share."""
    scores = np.concatenate(records.of_blocks(partial(_scores, family, frame, weights, shared)))
    starts = []
    for share in _START_SHARES:
        least = max(int(share * len(scores)), len(frame.centre) + 1)
        limit = float(np.partition(scores, least - 1)[least - 1])
        counts = total_over(records, partial(_strange, family, frame, weights, shared, limit))
        part = float(counts.counts[0]) / len(scores)
        starts.append(_Mixed(shared, np.append((1 - part) * weights, part), counts))
    return starts


def _scores(family: SparseGaussian, frame: Frame, weights: Floats, shared: Patterns, block: Floats) -> Floats:
    return _log_likelihoods(family, frame.applied(block), weights, shared)


def _strange(
    family: SparseGaussian, frame: Frame, weights: Floats, shared: Patterns, limit: float, block: Floats
) -> Expected:
    Z = frame.applied(block)
    chosen = family.statistics(Z[_log_likelihoods(family, Z, weights, shared) <= limit])
    return Expected(np.array([float(len(chosen))]), chosen.sum(axis=0, keepdims=True), 0.0)


def _fitted(
    records: Records,
    family: SparseGaussian,
    frame: Frame,
    shared: Patterns,
    start: _Mixed,
    variances: Floats,
    support: Booleans,
) -> _Mixed | None:
    """EM on the weights and on one pattern with these dependencies; None if it vanishes."""
    weights, totals, before = start.weights, start.totals, -math.inf
    for _ in range(_STEPS):
        if totals.counts[-1] < _FEWEST_RECORDS:
            return None
        patterns = shared.joined(_pattern(totals, variances, support))
        totals = total_over(records, partial(_expected, family, frame, weights, patterns))
        fit = _Mixed(patterns, weights, totals)
        if totals.log_likelihood - before < _TOLERANCE:
            break
        weights, before = totals.counts / totals.counts.sum(), totals.log_likelihood
    return fit


def _pattern(totals: Expected, variances: Floats, support: Booleans) -> Patterns:
    count, covariance, mean = _moments(totals, variances)
    roots = np.sqrt(np.diag(covariance))
    outer = np.outer(roots, roots)
    precision = fitted_on(covariance / outer, support, count).precision / outer
    return Patterns({"means": mean[np.newaxis], "precisions": precision[np.newaxis]})


def _moments(totals: Expected, variances: Floats) -> tuple[float, Floats, Floats]:
    """Count, covariance and mean of the last pattern; the prior keeps the variances of few records from vanishing."""
    size, count = len(variances), float(totals.counts[-1])
    mean = totals.statistics[-1, :size] / count
    centred = symmetric(totals.statistics[-1, size:], size) - count * np.outer(mean, mean)
    return count, (centred + _PRIOR_RECORDS * np.diag(variances)) / (count + _PRIOR_RECORDS), mean


def _expected(family: SparseGaussian, frame: Frame, weights: Floats, patterns: Patterns, block: Floats) -> Expected:
    return family.expected(frame.applied(block), weights, patterns)


def _log_likelihoods(family: SparseGaussian, Z: Floats, weights: Floats, patterns: Patterns) -> Floats:
    return np.asarray(logsumexp(family.log_joint(Z, weights, patterns), axis=1))

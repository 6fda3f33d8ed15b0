"""How far a member trusts the shared patterns: a stack of densities, weighted by how likely they make its own held-out records.

Candidates are the shared patterns with own weights, a mixture of own patterns, the same drawn to the covariances of the shared ones, and
own patterns beside the shared ones. Each is fitted without a part of the member's records and judged there (stacking: Wolpert 1992; of
densities: Smyth and Wolpert 1999). A candidate stays if held-out records ask for it; on them the stack is nowhere worse than any
candidate, so not than the member alone, but for (candidates − 1)·½ ln N nats in all. All of it stays with the member and costs no ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.dictionary.em import Dictionary
from sudare.dictionary.exponential_families import Family, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.member_tables import Records
from sudare.dictionary.mixture_weights import needed
from sudare.dictionary.own_mixture import (
    NO_TAILS,
    TAILS,
    CovariancePrior,
    Mixture,
    clusters,
    fitted_mixture,
    robust_deviations,
)

# Beyond so many records own patterns are learned from half of them, a quarter, …, evenly spread, so that it takes seconds.
_MOST_RECORDS: Final = 2**13
_FEWEST_RECORDS: Final = 12
_FOLDS: Final = 5
# Folds are of stretches of neighbouring records, since what follows in time is alike; so many stretches each.
_STRETCHES: Final = 2
# So many held-out records are enough to choose by.
_HELD_OUT_RECORDS: Final = 400
_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12)
_COUNTS_BESIDE: Final = (1, 3)
# So many counts in a row may fail to help before the next are not tried.
_PATIENCE: Final = 1
# Records that targets of covariances count for, by column.
_PRIOR_OWN: Final = 0.25
_PRIOR_SHARED: Final = 3.0
# Everyone's shares count for so many independent records; correlations of neighbours matter from so many deviations of chance on.
_PRIOR_EVERYONE: Final = 2.0
_CHANCE_DEVIATIONS: Final = 3.0
_LARGEST_CORRELATION: Final = 0.99
_CONSTANT: Final = 1e-9
_NEGLIGIBLE_WEIGHT: Final = 1e-6

Learner = Callable[[Floats], Mixture]


@dataclass(frozen=True, eq=False, repr=False)
class OwnPart:
    """What a member knows alone: its weights for the shared patterns, and patterns of its own with theirs, in the units of the columns."""

    weights: Floats
    patterns: Patterns | None = None
    pattern_weights: Floats = field(default_factory=lambda: np.empty(0))

    def model(self, shared: Patterns) -> Mixture:
        """Shared patterns (in the units of the columns), then own ones."""
        if self.patterns is None:
            return Mixture(shared, self.weights, len(shared))
        return Mixture(shared.joined(self.patterns), np.append(self.weights, self.pattern_weights), len(shared))


@dataclass(frozen=True, eq=False)
class _HeldOutScore:
    """A way of learning, and ln p of held-out records by what it learned from the others."""

    learner: Learner
    held_out: Floats

    @property
    def total(self) -> float:
        return float(self.held_out.sum())


def stacked(records: Records, dictionary: Dictionary, weights: Floats) -> OwnPart:
    """The member's own part of a finished training, from its weights of the shared patterns."""
    Z = dictionary.frame.applied(records.thinned(_MOST_RECORDS))
    if len(Z) < _FEWEST_RECORDS:
        return OwnPart(weights)
    everyone, share = dictionary.counts / dictionary.counts.sum(), weight_of_all_members(Z)
    weights = _drawn_to(everyone, share, weights)
    family, shared = dictionary.family, Mixture(dictionary.patterns, weights, len(weights))
    judged = list(candidates(family, shared, partial(_drawn_to, everyone, share), Z))
    stack = needed(np.column_stack([each.held_out for each in judged]), np.full(len(judged), 1 / len(judged)))
    if stack.weights[0] == 1:
        return OwnPart(weights)
    return _joined(
        [(weight, each.learner(Z)) for weight, each in zip(stack.weights, judged, strict=True) if weight > 0],
        dictionary,
    )


def candidates(
    family: Family, shared: Mixture, drawn: Callable[[Floats], Floats], Z: Floats
) -> Iterator[_HeldOutScore]:
    """The shared patterns with own weights, and what else a member may learn, each with the number of patterns that suits it best."""
    judged = partial(_judged, family, Z, held_out_folds(len(Z)))
    yield judged(partial(_reweighted, family, shared, drawn))
    learned = partial(_learned, family)
    prior = partial(_own_prior, family)
    best, count = _best_count(judged, lambda count: partial(learned, prior, count, NO_TAILS, None), _COUNTS, len(Z))
    if not isinstance(family, SparseGaussian | DiagonalGaussian):
        yield best
        return
    tails = NO_TAILS
    for fewer in sorted({1, (count + 1) // 2, count}):
        tailed = judged(partial(learned, prior, fewer, TAILS, None))
        if tailed.total > best.total:
            best, count, tails = tailed, fewer, TAILS
    yield best
    prior = partial(_shared_prior, CovariancePrior(_within(family, shared), _PRIOR_SHARED * Z.shape[1]))
    yield judged(partial(learned, prior, count, tails, None))
    yield _best_count(judged, lambda count: partial(learned, prior, count, NO_TAILS, shared), _COUNTS_BESIDE, len(Z))[0]


def weight_of_all_members(Z: Floats) -> float:
    """How much of its weights a member takes from all members, because its records tell too little about what will come.

    Records in the order of time that are like their neighbours have only visited some patterns. Where they count as N/τ independent ones,
    τ = (1 + ρ)/(1 − ρ) for a mean correlation ρ of neighbours, the shares of everyone count as 2(τ − 1) records. It is 0 unless ρ is well
    above what chance makes it.
    """
    centred = (Z - Z.mean(axis=0)) / np.maximum(Z.std(axis=0), _CONSTANT)
    correlation = min(float(np.mean(centred[1:] * centred[:-1])), _LARGEST_CORRELATION)
    if correlation < _CHANCE_DEVIATIONS / np.sqrt(len(Z)):
        return 0.0
    prior = _PRIOR_EVERYONE * ((1 + correlation) / (1 - correlation) - 1)
    return prior / (len(Z) + prior)


def _drawn_to(everyone: Floats, share: float, weights: Floats) -> Floats:
    return np.asarray((1 - share) * weights + share * everyone)


def held_out_folds(rows: int) -> list[NDArray[np.bool_]]:
    """Which records each fold leaves out: stretches of neighbours. Of many records not all folds are needed."""
    stretch = np.arange(rows) * (_FOLDS * _STRETCHES) // rows
    needed_folds = min(_FOLDS, -(-_HELD_OUT_RECORDS * _FOLDS // rows))
    return [np.asarray(stretch % _FOLDS == fold) for fold in range(needed_folds)]


def _judged(family: Family, Z: Floats, folds: list[NDArray[np.bool_]], learner: Learner) -> _HeldOutScore:
    return _HeldOutScore(learner, np.concatenate([learner(Z[~fold]).log_densities(family, Z[fold]) for fold in folds]))


def _best_count(
    judged: Callable[[Learner], _HeldOutScore], learner: Callable[[int], Learner], counts: tuple[int, ...], rows: int
) -> tuple[_HeldOutScore, int]:
    """The number of patterns that makes held-out records most likely."""
    best, best_count, failures = judged(learner(counts[0])), counts[0], 0
    for count in counts[1:]:
        if failures == _PATIENCE or count * _FEWEST_RECORDS > rows:
            break
        found = judged(learner(count))
        if found.total > best.total:
            best, best_count, failures = found, count, 0
        else:
            failures += 1
    return best, best_count


def _reweighted(family: Family, shared: Mixture, drawn: Callable[[Floats], Floats], Z: Floats) -> Mixture:
    weights = needed(family.log_densities(Z, shared.patterns), shared.weights).weights
    return replace(shared, weights=drawn(weights))


def _learned(
    family: Family,
    prior: Callable[[Floats, int], CovariancePrior],
    count: int,
    tails: tuple[float, ...],
    beside: Mixture | None,
    Z: Floats,
) -> Mixture:
    return fitted_mixture(family, Z, count, prior(Z, count), tails, beside)


def _own_prior(family: Family, Z: Floats, count: int) -> CovariancePrior:
    """Robust variances within clusters of the records, in which patterns begin."""
    labels = clusters(Z, count)
    medians = np.stack([np.median(Z[labels == k], axis=0) for k in range(labels.max() + 1)])
    variances = robust_deviations(Z - medians[labels]) ** 2
    return CovariancePrior(
        np.diag(variances) if isinstance(family, SparseGaussian) else variances, _PRIOR_OWN * Z.shape[1]
    )


def _shared_prior(prior: CovariancePrior, Z: Floats, count: int) -> CovariancePrior:
    return prior


def _within(family: Family, shared: Mixture) -> Floats:
    """The mean covariance (or variances) within the shared patterns, as the member mixes them."""
    precisions = shared.patterns["precisions"]
    inverses = np.linalg.inv(precisions) if isinstance(family, SparseGaussian) else 1 / precisions
    return np.asarray(np.tensordot(shared.weights, inverses, axes=1))


def _joined(parts: list[tuple[float, Mixture]], dictionary: Dictionary) -> OwnPart:
    """One mixture of several: the weights of shared patterns add up, all others are the member's own."""
    weights = np.zeros(len(dictionary.patterns))
    own, own_weights = [], []
    for share, mixture in parts:
        weights[: mixture.shared] += share * mixture.weights[: mixture.shared]
        is_own = np.arange(len(mixture.weights)) >= mixture.shared
        chosen = is_own & (mixture.weights > _NEGLIGIBLE_WEIGHT)
        if chosen.any():
            own.append(mixture.patterns.kept(chosen))
            own_weights.append(share * mixture.weights[chosen])
    if not own:
        return OwnPart(weights / weights.sum())
    patterns = own[0]
    for others in own[1:]:
        patterns = patterns.joined(others)
    total = weights.sum() + sum(part.sum() for part in own_weights)
    natural = dictionary.family.natural(patterns, dictionary.frame)
    return OwnPart(weights / total, natural, np.concatenate(own_weights) / total)

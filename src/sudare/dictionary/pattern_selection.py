"""How many patterns, and which dependencies: decided from sums alone.

Patterns are merged, deleted and split as long as BIC falls. Then, for sparse Gaussian patterns, the extended BIC chooses each
pattern's support (`sudare.dictionary.dependency_selection`), and EM goes on without a penalty on what was chosen.
The chapter's way (γ − 1 small and positive, then remove what is empty) prunes where the penalty ρ₀ is large (30 for its example), which costs
fit; with ρ₀ = 1 it leaves nearly all patterns: docs/papers/003.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from sudare.array_types import Booleans, Floats
from sudare.dictionary.dependency_selection import support_by_ebic
from sudare.dictionary.em import Fit, Opening, Script, maximised
from sudare.dictionary.exponential_families import Patterns, symmetric
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.sum_questions import Branch, Overlaps, power_of_two_at_least

_HALTON_COLUMNS: Final = 12
_MERGES_TRIED: Final = 3
_DIRECTIONS_TRIED: Final = 2
_MOST_MOVES: Final = 60
# Nats a record by which an iteration must still help a candidate: BIC differences are far larger.
_SEARCH_TOL: Final = 1e-4
_SUPPORT_ROUNDS: Final = 3


@dataclass(frozen=True, eq=False)
class Candidate:
    """Patterns to try in the place of others."""

    patterns: Patterns
    transfer: Floats


def normal_points(count: int, size: int, skip: int = 0) -> Floats:
    """Points spread evenly like a standard normal cloud, the same for everybody: Halton's sequence, from its second point.

    Beyond a dozen columns its first points crowd into a corner; there it is Sobol's, in a whole number of its balanced blocks.
    """
    if size <= _HALTON_COLUMNS:
        halton = qmc.Halton(size, scramble=False)
        halton.fast_forward(1 + skip)
        return np.asarray(ndtri(halton.random(count)))
    block = qmc.Sobol(size, scramble=False).random_base2((count + skip).bit_length())
    return np.asarray(ndtri(block[1 + skip : 1 + skip + count]))


def searched(opening: Opening) -> Script[Fit]:
    """From n_patterns public points, or an earlier dictionary: merge and delete while BIC falls, then split, until neither helps."""
    if opening.terms.initial is None:
        points = normal_points(opening.terms.n_patterns, len(opening.overall.mean))
        start = opening.family.start(points, opening.overall)
    else:
        start = opening.family.framed(opening.terms.initial.patterns, opening.frame)
    fit = yield from maximised(opening, opening.family, start, Branch(next(opening.branches)), _SEARCH_TOL)
    if not opening.terms.search:
        return fit
    for _ in range(_MOST_MOVES):
        better = yield from _improved(opening, fit)
        if better is None:
            break
        fit = better
    return fit


def _improved(opening: Opening, fit: Fit) -> Script[Fit | None]:
    """The first candidate with a lower BIC; None if there is none.

    Lower by more than one parameter's price: a split whose half vanishes again is the fit it began with, a few iterations later.
    """
    enough = fit.bic(opening, opening.family) - math.log(opening.overall.rows)
    if len(fit.patterns) > 1:
        overlap = yield from _overlap(opening, fit)
        for candidate in itertools.chain(merges(opening, fit, overlap), [deletion(fit)]):
            tried = yield from _tried(opening, fit, candidate)
            if tried.bic(opening, opening.family) < enough:
                return tried
    if len(fit.patterns) < opening.terms.n_patterns:
        for candidate in splits(opening, fit):
            tried = yield from _tried(opening, fit, candidate)
            if tried.bic(opening, opening.family) < enough:
                return tried
    return None


def _tried(opening: Opening, fit: Fit, candidate: Candidate) -> Script[Fit]:
    branch = Branch(next(opening.branches), fit.branch.number, candidate.transfer)
    return (yield from maximised(opening, opening.family, candidate.patterns, branch, _SEARCH_TOL))


def _overlap(opening: Opening, fit: Fit) -> Script[Floats]:
    """Σ r_k r_l, scaled so that a pattern's overlap with itself is one."""
    size = len(fit.patterns)
    limits = np.full(size * (size + 1) // 2, power_of_two_at_least(2.0 * opening.overall.rows))
    total = yield Overlaps(limits, opening.family, opening.frame, fit.patterns, fit.branch)
    matrix = symmetric(total, size)
    roots = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    return np.asarray(matrix / np.outer(roots, roots))


def merges(opening: Opening, fit: Fit, overlap: Floats) -> Iterator[Candidate]:
    """The pairs that share most records, each with one pattern in its place, from the sum of both patterns' totals."""
    size = len(fit.patterns)
    pairs = sorted(itertools.combinations(range(size), 2), key=lambda pair: -overlap[pair])
    for first, second in pairs[:_MERGES_TRIED]:
        others = np.array([k for k in range(size) if k not in (first, second)], dtype=np.intp)
        both = [first, second]
        united = opening.family.updated(
            fit.counts[both].sum(keepdims=True), fit.statistics[both].sum(axis=0, keepdims=True)
        )
        transfer = np.vstack([np.eye(size)[others], np.eye(size)[both].sum(axis=0)])
        yield Candidate(fit.patterns.kept(others).joined(united), transfer)


def deletion(fit: Fit) -> Candidate:
    """Without the pattern that has fewest records."""
    staying = np.arange(len(fit.patterns)) != np.argmin(fit.counts)
    return Candidate(fit.patterns.kept(staying), np.eye(len(staying))[staying])


def splits(opening: Opening, fit: Fit) -> Iterator[Candidate]:
    """Every pattern in two, along the family's own axis and along public directions; those with most records first."""
    size = len(fit.patterns)
    width = len(opening.overall.mean)
    directions: list[Floats | None] = [None, *normal_points(_DIRECTIONS_TRIED - 1, width, skip=7)]
    for direction, k in itertools.product(directions, np.argsort(-fit.counts)):
        others = np.arange(size) != k
        halves = opening.family.halves(fit.patterns.kept(np.array([k])), direction)
        transfer = np.vstack([np.eye(size)[others], np.eye(size)[[k, k]] / 2])
        yield Candidate(fit.patterns.kept(others).joined(halves), transfer)


def refined(opening: Opening, fit: Fit) -> Script[tuple[Fit, SparseGaussian]]:
    """Supports by EBIC, and EM without a penalty on them, until the supports stay as they are."""
    family = opening.family
    if not isinstance(family, SparseGaussian):
        raise TypeError("Only sparse Gaussian patterns have supports.")
    chosen: tuple[Booleans, ...] = ()
    for _ in range(_SUPPORT_ROUNDS):
        supports = chosen_supports(family, fit.counts, fit.statistics)
        if len(chosen) == len(supports) and all(map(np.array_equal, chosen, supports)):
            break
        chosen = supports
        sparse = family.with_supports(chosen)
        patterns = sparse.updated(fit.counts, fit.statistics)
        branch = Branch(next(opening.branches), fit.branch.number, np.eye(len(patterns)))
        fit = yield from maximised(opening, sparse, patterns, branch, opening.terms.tol)
        if len(fit.patterns) < len(chosen):
            # Others' records grew too few behind a pattern: choose anew for those that are left.
            chosen = ()
    return fit, sparse


def chosen_supports(family: SparseGaussian, counts: Floats, statistics: Floats) -> tuple[Booleans, ...]:
    """Each pattern's support, from its own totals."""
    covariances = family.covariances(counts, statistics)
    return tuple(support_by_ebic(covariance, count) for covariance, count in zip(covariances, counts, strict=True))

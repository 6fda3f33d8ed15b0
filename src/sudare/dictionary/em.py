"""Expectation maximisation without a server: the part that every member computes alike, from totals alone.

Each function is a script: a generator that yields a question and is sent the total. It sees no record. One iteration asks
three questions: counts; vetoes, by which a pattern with too few records of others behind it goes before its moments are
shown; and moments. With the exact update the objective rises in every iteration, and it is an error if it does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from sudare.array_types import Booleans, Floats
from sudare.dictionary.exponential_families import Family, Frame, Overall, Patterns, symmetric
from sudare.dictionary.sum_questions import (
    Branch,
    Moments,
    OpeningSquares,
    OpeningSums,
    PatternCounts,
    RecordCount,
    SumQuestion,
    Vetoes,
    power_of_two_at_least,
)
from sudare.errors import DataError, ImplausibleTotal, NotSolved

Answer = TypeVar("Answer")
Script = Generator[SumQuestion, Floats, Answer]

# Log densities of a record beyond this saturate, were a member's records that unlikely on average.
_LARGEST_LOG_DENSITY: Final = 1024.0
_LARGEST_WEIGHT_TERM: Final = 2.0**20
_IMPLAUSIBLE: Final = 1e-6
_SMALLEST_DEVIATION: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Initial:
    """An earlier dictionary that a training begins from: patterns in the units of the columns, their shares of the records, the opening.

    Members know it. A private training may begin only from one whose patterns are private themselves.
    """

    columns: tuple[str, ...]
    patterns: Patterns
    shares: Floats
    overall: Overall


@dataclass(frozen=True, eq=False)
class TrainingTerms:
    """What members agree on before they begin. Everything here is public.

    `low` and `high` bound the columns; `most_rows` the records of one member. With `search` the number of patterns is chosen
    by BIC and `n_patterns` is where it begins and the most there can be; without it, patterns only vanish. `initial` takes the place of
    public points.
    """

    columns: tuple[str, ...]
    low: Floats
    high: Floats
    members: int
    family: Family
    n_patterns: int = 8
    concentration: float = 1.01
    min_others: float = 3.0
    search: bool = True
    max_iter: int = 300
    tol: float = 1e-6
    most_rows: int = 2**32
    initial: Initial | None = None


@dataclass(frozen=True, eq=False)
class Dictionary:
    """What a training ends with, the same at every member: patterns, and how they were found."""

    family: Family
    patterns: Patterns
    frame: Frame
    overall: Overall
    counts: Floats
    branch: Branch
    history: tuple[float, ...]

    def natural(self) -> Patterns:
        """The patterns in the units of the columns."""
        return self.family.natural(self.patterns, self.frame)


@dataclass(frozen=True, eq=False)
class Opening:
    """What all later questions depend on: the terms, and what the opening sums told."""

    terms: TrainingTerms
    overall: Overall
    frame: Frame
    limits: Floats
    branches: Iterator[int] = field(default_factory=itertools.count)

    @property
    def family(self) -> Family:
        """The agreed family."""
        return self.terms.family


@dataclass(frozen=True, eq=False)
class Fit:
    """Patterns on one branch, with the totals they were computed from and the objective that was reached."""

    patterns: Patterns
    branch: Branch
    counts: Floats
    statistics: Floats
    log_likelihood: float
    objective: float
    weight_cost: float
    history: tuple[float, ...]
    removed: int = 0

    def bic(self, opening: Opening, family: Family) -> float:
        """−2 ln L + ln N × parameters, members' own weights counted by their own numbers of records."""
        length = family.description_length(self.counts, self.statistics, self.patterns, opening.overall.rows)
        return -2 * self.log_likelihood + length + self.weight_cost


def row_count(terms: TrainingTerms) -> Script[int]:
    """How many records all members have together; enough for patterns, or an error that is the same for all."""
    total = yield RecordCount(np.array([power_of_two_at_least(float(terms.most_rows))]))
    rows = round(float(total[0]))
    if rows <= len(terms.columns):
        raise DataError(
            f"All members together hold {rows} records of {len(terms.columns)} columns.",
            "Patterns need more records than columns; ask more members, or drop columns.",
        )
    return rows


def opened(terms: TrainingTerms) -> Script[Opening]:
    """Number of records, centre and spread of the columns, from three sums."""
    rows = yield from row_count(terms)
    low, high = terms.family.opening_bounds(terms.low, terms.high)
    half = (high - low) / 2
    total = yield OpeningSums(np.full(len(half), power_of_two_at_least(2.0 * rows)), terms.family, low, high)
    if np.any(np.abs(total) > rows * (1 + _IMPLAUSIBLE)):
        raise implausible()
    mean = (low + high) / 2 + half * total / rows
    overall = yield from _spread(terms, rows, mean, half)
    frame = terms.family.frame(overall)
    # Twice the bound, so that rounding at its edge cannot saturate.
    limits = power_of_two_at_least(2 * terms.family.statistic_limits(overall))
    return Opening(terms, overall, frame, limits)


def _spread(terms: TrainingTerms, rows: int, mean: Floats, half: Floats) -> Script[Overall]:
    """The covariance of the columns, or its diagonal, about the mean. In units of half ranges squares are at most four."""
    size = len(mean)
    count = size * (size + 1) // 2 if terms.family.opens_with_pairs else size
    total = yield OpeningSquares(
        np.full(count, power_of_two_at_least(8.0 * rows)), terms.family, centre=mean, scale=half
    )
    squares = symmetric(total, size) if terms.family.opens_with_pairs else np.diag(total)
    variances = np.diag(squares) / rows
    constant = np.flatnonzero(variances <= _SMALLEST_DEVIATION**2)
    if len(constant) and size == len(terms.columns):
        raise DataError(
            f"Column {terms.columns[constant[0]]!r} is the same in all records of all members.",
            "Drop it: a sensor that never changes says nothing about patterns.",
        )
    if np.any(variances > 4 * (1 + _IMPLAUSIBLE)):
        raise implausible()
    return Overall(rows, mean, squares / rows * np.outer(half, half))


def maximised(
    opening: Opening,
    family: Family,
    patterns: Patterns,
    branch: Branch,
    tol: float,
) -> Script[Fit]:
    """EM from these patterns until an iteration raises the objective by less than `tol` nats a record."""
    terms, previous, history = opening.terms, -math.inf, []
    removed = 0
    for _ in range(terms.max_iter):
        counts, staying = yield from _counted(opening, family, patterns, branch)
        if not np.all(staying):
            removed += int(np.count_nonzero(~staying))
            patterns, branch = patterns.kept(staying), _without(branch, staying)
            family, previous = family.for_patterns(np.flatnonzero(staying)), -math.inf
            continue
        branch = Branch(branch.number)
        statistics, terms_of_weights = yield from _moments(opening, counts)
        log_likelihood, weight_prior, weight_cost = terms_of_weights
        objective = log_likelihood + weight_prior + family.log_prior(patterns)
        _check_rise(previous, objective, family.rounding * max(opening.overall.rows, abs(objective)))
        history.append(objective)
        patterns = family.updated(counts, statistics, patterns)
        if objective - previous < tol * opening.overall.rows:
            break
        previous = objective
    else:
        if not history:
            raise NotSolved("No pattern kept enough records of the others.", "Lower min_others or ask more members.")
    return Fit(patterns, branch, counts, statistics, log_likelihood, objective, weight_cost, tuple(history), removed)


def _counted(opening: Opening, family: Family, patterns: Patterns, branch: Branch) -> Script[tuple[Floats, Booleans]]:
    """Counts, and which patterns every member is content to keep."""
    terms, rows = opening.terms, opening.overall.rows
    limits = np.full(len(patterns), power_of_two_at_least(2.0 * rows))
    counts = yield PatternCounts(limits, family, opening.frame, patterns, branch, terms.concentration)
    if abs(counts.sum() - rows) > _IMPLAUSIBLE * rows or np.any(counts < -_IMPLAUSIBLE * rows):
        raise _not_of_the_opening()
    fewest = terms.min_others if terms.members > 1 else 0.0
    vetoes = yield Vetoes(np.ones(len(patterns)), counts, fewest)
    if np.any(vetoes < -_IMPLAUSIBLE):
        raise implausible()
    staying = vetoes < 0.5
    if not np.any(staying):
        raise NotSolved(
            f"No pattern has {terms.min_others:g} records of others behind it for every member.",
            "Lower min_others, or train with members that have patterns in common.",
        )
    return counts, staying


def _moments(opening: Opening, counts: Floats) -> Script[tuple[Floats, tuple[float, float, float]]]:
    """T_k, and the log-likelihood, the weights' prior and the weights' part of BIC."""
    patterns = len(counts)
    rest = [_LARGEST_LOG_DENSITY * opening.overall.rows, _LARGEST_WEIGHT_TERM, _LARGEST_WEIGHT_TERM]
    limits = np.concatenate([np.tile(opening.limits, patterns), power_of_two_at_least(np.array(rest))])
    total = yield Moments(limits)
    statistics = total[:-3].reshape(patterns, -1)
    if not np.all(np.isfinite(total)) or np.any(np.abs(statistics) > opening.limits):
        raise implausible()
    # Responsibilities add up to one, so the patterns' sums add up to those of the opening, in every iteration.
    drift = np.abs(statistics.sum(axis=0) - opening.family.whole(opening.overall))
    if np.any(drift > 10 * opening.family.rounding * opening.limits):
        raise _not_of_the_opening()
    return statistics, (float(total[-3]), float(total[-2]), float(total[-1]))


def _check_rise(previous: float, objective: float, rounding: float) -> None:
    if objective < previous - rounding:
        raise NotSolved(
            "The objective fell in an iteration, which exact sums rule out.",
            "Some member's addends do not come from the records it began with; begin again without it.",
        )


def _without(branch: Branch, staying: Booleans) -> Branch:
    """The branch after patterns were removed: the others' weights stay in proportion."""
    selection = np.eye(len(staying))[staying]
    return Branch(branch.number, branch.number, selection)


def _not_of_the_opening() -> ImplausibleTotal:
    """Exact totals are over the records that the opening counted, or they are of no use."""
    return ImplausibleTotal(
        "A total does not fit the number of records that was counted at first.",
        "If a member left since: its records were counted, exact sums cannot go on without them, and to run the task again does not help. "
        "Agree on a new task, or on one with epsilon, which goes on. If nobody left, a member's addend was wrong or hostile; masks hide which.",
    )


def implausible() -> ImplausibleTotal:
    """Under masks a hostile addend shows only in a total that cannot be."""
    return ImplausibleTotal(
        "A total lies outside what the declared ranges allow.",
        "A member's addend was wrong or hostile; masks hide which. Ask every member to check its records and program.",
    )

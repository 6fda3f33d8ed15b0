"""A private training: (ε, δ)-DP towards members and outsiders, replace-one records. Proof: proofs/dictionary.md.

A fixed number of noisy sums, each computed from public numbers and clipped contributions: one for centre and spread, except of codes,
then one for every iteration (`private_gaussian_patterns`, `private_column_patterns`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.column_families import ColumnFamily
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.dictionary.em import Dictionary, Script, TrainingTerms, row_count
from sudare.dictionary.exponential_families import Family, Overall
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.private_column_patterns import STATISTIC_SENSITIVITY, noisy_columns
from sudare.dictionary.private_gaussian_patterns import (
    MOMENT_SENSITIVITY,
    ball_radius,
    gaussian_patterns,
    moment_count,
    noisy_gaussians,
)
from sudare.dictionary.private_sum_questions import NoisyOpening
from sudare.dictionary.sum_questions import Branch, power_of_two_at_least
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import gaussian_mu_within

_OPENING_SHARE: Final = Fraction(1, 10)
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 8, 24
# From an earlier dictionary fewer are enough, and each has less noise.
_WARM_ITERATIONS: Final = 4


@dataclass(frozen=True, eq=False)
class PrivateTerms:
    """What members agree on before a private training, besides the usual terms. All of it is public."""

    terms: TrainingTerms
    epsilon: float
    delta: float
    colluders: int = 1
    iterations: int | None = None
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        check_private_bounds(self.terms.family, self.terms.low, self.terms.high)
        if self.iterations is not None and self.iterations < 1:
            raise InvalidParameter(
                "A private training needs at least one iteration.", "Leave it out for the public rule."
            )

    def plan(self, rows: int) -> NoisePlan:
        """The noise of all sums, from public numbers: charged for at once, before any of it is drawn."""
        iterations = self.iterations
        if iterations is None and self.terms.initial is not None:
            iterations = _WARM_ITERATIONS
        elif iterations is None:
            iterations = public_iterations(
                self.epsilon, self.delta, rows, len(self.terms.columns), self.terms.n_patterns
            )
        releases = _releases(self.terms, iterations, self.rows_per_unit)
        plan = _plan(self.epsilon, self.delta, self.terms.members, self.colluders, releases, rows)
        check_exact_in_words(plan)
        return plan


def check_private_bounds(family: Family, low: Floats, high: Floats) -> None:
    """Raise InvalidParameter unless records that are clipped to declared bounds are of the family, whatever they are."""
    fault = family.fault_of_bounds(low, high) if isinstance(family, ColumnFamily) else None
    if fault is not None:
        raise InvalidParameter(
            f"Declared bounds do not suit a private training: {fault}.", "Declare bounds that are of that kind."
        )


def check_exact_in_words(plan: NoisePlan) -> None:
    """Raise InvalidParameter unless noisy addends on the plan's grid are whole steps of the words that are added up.

    Else every member would round its own noisy addend, and the total would be no function of the noisy sum that the proof is about.
    """
    coarsest = max(float(power_of_two_at_least(plan.limit(release))) for release in plan.releases) * float(ADDENDS.step)
    if coarsest > plan.grid:
        raise InvalidParameter(
            "The noise of this training is too large to be added exactly.",
            "Use a larger epsilon, fewer rows per person, or a smaller number of private_iterations.",
        )


def public_iterations(epsilon: float, delta: float, rows: int, columns: int, patterns: int) -> int:
    """How many iterations, from public numbers alone: the more records a pattern has above the noise, the more are worth it.

    The noise of an iteration grows with the root of their number; patterns that overlap need more of them to come apart.
    """
    signal = gaussian_mu_within(epsilon, delta) * rows / (patterns * ball_radius(columns) ** 2)
    return int(min(_MOST_ITERATIONS, max(_FEWEST_ITERATIONS, math.ceil(4 * signal**0.3))))


def _releases(terms: TrainingTerms, iterations: int, rows_per_unit: int) -> tuple[NoisyTotal, ...]:
    """The opening, where there is one, and all iterations, each of at most so many numbers."""
    columns, family = len(terms.columns), terms.family
    numbers, sensitivity = moment_count(columns), MOMENT_SENSITIVITY
    if isinstance(family, ColumnFamily):
        numbers, sensitivity = 1 + family.statistic_count(columns), STATISTIC_SENSITIVITY
    share = _OPENING_SHARE if asks_for_spread(terms) else Fraction(0)
    moments = NoisyTotal(terms.n_patterns * numbers, sensitivity, (1 - share) / iterations, rows_per_unit)
    if not share:
        return (moments,) * iterations
    of_opening = math.nextafter(2 * math.sqrt(columns), math.inf)
    return NoisyTotal(2 * columns, of_opening, share, rows_per_unit), *[moments] * iterations


@functools.lru_cache(maxsize=16)
def _plan(
    epsilon: float, delta: float, members: int, colluders: int, releases: tuple[NoisyTotal, ...], rows: int
) -> NoisePlan:
    return NoisePlan(epsilon, delta, members, colluders, releases, rows)


def trained_privately(private: PrivateTerms) -> Script[Dictionary]:
    """The script of a private training."""
    terms, family = private.terms, private.terms.family
    rows = yield from row_count(terms)
    plan = private.plan(rows)
    releases = plan.releases
    if asks_for_spread(terms):
        overall = yield from _noisy_opening(terms, plan)
        releases = releases[1:]
    elif terms.initial is not None:
        overall = replace(terms.initial.overall, rows=rows)
    else:
        size = len(family.opening_bounds(terms.low, terms.high)[0])
        overall = Overall(rows, np.full(size, 0.5), np.eye(size))
    frame = family.frame(overall)
    if isinstance(family, ColumnFamily):
        patterns, counts = yield from noisy_columns(terms, family, plan, overall, releases)
    else:
        found = yield from noisy_gaussians(terms, plan, frame, releases)
        patterns, counts = gaussian_patterns(family, found), found.counts
    return Dictionary(family, patterns, frame, overall, counts, Branch(0), ())


def asks_for_spread(terms: TrainingTerms) -> bool:
    """Whether a training begins with a noisy sum for centre and spread of the columns: not of codes, and not where they are known."""
    return terms.initial is None and not (isinstance(terms.family, ColumnFamily) and not terms.family.opens_privately)


def _noisy_opening(terms: TrainingTerms, plan: NoisePlan) -> Script[Overall]:
    """Centre and spread from noisy sums; a spread below the noise counts as the noise."""
    release, columns = plan.releases[0], len(terms.columns)
    limits = np.full(release.size, power_of_two_at_least(plan.limit(release)))
    question = NoisyOpening(limits, plan, release, terms.low, terms.high)
    total = yield question
    question.check_plausible(total)
    mean = np.clip(total[:columns] / plan.rows, -1.0, 1.0)
    noise = plan.total_deviation(release) / plan.rows
    variance = np.clip(total[columns:] / plan.rows - mean**2, 2 * noise, 1.0 + 2 * noise)
    middle, half = (terms.low + terms.high) / 2, (terms.high - terms.low) / 2
    return Overall(plan.rows, middle + half * mean, np.diag(variance * half**2))

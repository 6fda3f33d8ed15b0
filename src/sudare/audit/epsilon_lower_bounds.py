"""From counts to a lower bound on ε that is wrong with a stated, tiny probability.

Outputs on two neighbouring data sets are reduced to a score. On one part of the sample an event {score ≥ t} is chosen for
each direction (likelier under the second data set, likelier under the first); on the rest, which the choice has not seen,
each event's two probabilities are bounded by Clopper–Pearson intervals. Two directions times two one-sided intervals make
four statements; each is wrong with probability at most (1 − confidence)/4, so by the union bound the whole is wrong with
probability at most 1 − confidence, whatever the score and however it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import betainccinv, betaincinv, ndtri

from sudare.array_types import Floats
from sudare.parameter_checks import Numbers
from sudare.privacy.guarantee import Guarantee

Score = Callable[[Floats], Floats]
# From bounds on an event's two probabilities (low for the likelier side, high for the other) to a lower bound.
Bound = Callable[[Floats, Floats], Floats]

DEFAULT_CONFIDENCE: Final = 1 - 1e-6
_STATEMENTS: Final = 4
_CHOOSING_ERROR: Final = 0.01
_MOST_THRESHOLDS: Final = 400
_FEWEST_SAMPLES: Final = 40


@dataclass(frozen=True)
class Counts:
    """How often the event was seen among the measured outputs of either data set."""

    hits_where_likelier: int
    trials_where_likelier: int
    hits_where_rarer: int
    trials_where_rarer: int

    def __str__(self) -> str:
        return (
            f"{self.hits_where_likelier} of {self.trials_where_likelier} against "
            f"{self.hits_where_rarer} of {self.trials_where_rarer}"
        )


@dataclass(frozen=True)
class Audit:
    """A claim and the largest ε that the outputs refute: with probability at least `confidence`, ε is no smaller."""

    claimed: Guarantee
    epsilon_lower_bound: float
    event: str
    confidence: float
    counts: Counts

    @property
    def holds(self) -> bool:
        """Whether the measurement leaves the claim standing."""
        return self.epsilon_lower_bound <= self.claimed.epsilon

    @property
    def tightness(self) -> float:
        """Measured over claimed: above 1 refutes, near 1 shows that the audit could have."""
        return self.epsilon_lower_bound / self.claimed.epsilon

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "REFUTED"
        return (
            f"claimed ε = {self.claimed.epsilon:g}, δ = {self.claimed.delta:g}; "
            f"measured ε ≥ {self.epsilon_lower_bound:.4g}: {verdict} ({self.event}; {self.counts})"
        )


def lower_limit(hits: Floats, trials: int, error: float) -> Floats:
    """Clopper–Pearson: below the probability of success, except with probability `error`; 0 without a hit."""
    with np.errstate(invalid="ignore"):
        limit = betaincinv(hits, trials - hits + 1, error)
    return np.where(hits > 0, limit, 0.0)


def upper_limit(hits: Floats, trials: int, error: float) -> Floats:
    """Clopper–Pearson: above the probability of success, except with probability `error`; 1 when all were hits."""
    with np.errstate(invalid="ignore"):
        limit = betainccinv(hits + 1, trials - hits, error)
    return np.where(hits < trials, limit, 1.0)


def epsilon_bound(delta: float) -> Bound:
    """(p_low, q_high) → log((p_low − δ)/q_high), or 0: (ε, δ)-DP with a smaller ε would contradict p ≥ p_low, q ≤ q_high."""

    def bound(low: Floats, high: Floats) -> Floats:
        return np.asarray(np.log(np.maximum(np.maximum(low - delta, 0.0) / high, 1.0)), dtype=np.float64)

    return bound


def mu_bound(low: Floats, high: Floats) -> Floats:
    """(p_low, q_high) → Φ⁻¹(p_low) − Φ⁻¹(q_high), or 0: the power of any test of a μ-GDP mechanism is below this line."""
    return np.asarray(np.maximum(ndtri(low) - ndtri(high), 0.0), dtype=np.float64)


@dataclass(frozen=True)
class _Event:
    """{score ≥ threshold}; `swapped` when it is likelier under the first data set."""

    name: str
    score: Score
    threshold: float
    swapped: bool
    promise: float

    def hits(self, outputs: Floats) -> int:
        return int(np.count_nonzero(self.score(outputs) >= self.threshold))

    def __str__(self) -> str:
        side = "first" if self.swapped else "second"
        return f"{self.name} ≥ {self.threshold:.6g}, likelier under the {side} data set"


@dataclass(frozen=True)
class Parts:
    """One data set's outputs: a part to learn scores on, one to choose the event on, and one to measure it on."""

    learning: Floats
    choosing: Floats
    measuring: Floats


def split(outputs: Floats, measured_share: float) -> Parts:
    """Split in the order of arrival; what comes before the measured share is divided evenly."""
    before = len(outputs) - int(len(outputs) * measured_share)
    return Parts(outputs[: before // 2], outputs[before // 2 : before], outputs[before:])


def checked_sampling(samples: int, confidence: float, measured_share: float) -> None:
    """Refuse what no measurement can be made with."""
    Numbers(_FEWEST_SAMPLES, whole=True).check("samples", samples)
    Numbers(0, 1, open_low=True, open_high=True).check("confidence", confidence)
    Numbers(0.1, 0.9).check("measured_share", measured_share)


def _thresholds(scores: Floats) -> Floats:
    """Values to cut at: all of them when few, else quantiles that are dense in both tails."""
    distinct = np.unique(scores)
    if len(distinct) <= _MOST_THRESHOLDS:
        return distinct
    tail = np.geomspace(1 / len(scores), 0.5, _MOST_THRESHOLDS // 2)
    return np.unique(np.quantile(scores, np.concatenate([tail, 1 - tail]), method="nearest"))


def _count_above(scores: Floats, thresholds: Floats) -> Floats:
    ordered = np.sort(scores)
    return (len(scores) - np.searchsorted(ordered, thresholds, side="left")).astype(np.float64)


def _best_event(
    name: str, score: Score, first: Parts, second: Parts, swapped: bool, bound: Bound, error: float
) -> _Event:
    """The threshold whose bound would be largest if the measured part showed frequencies a little worse than this part's.

    A little worse: at the ends of intervals that the chosen frequencies hold to with moderate confidence. Without that,
    the best of many thresholds would be one in the tails that a few lucky outputs flatter.
    """
    likelier, rarer = (first, second) if swapped else (second, first)
    likelier_scores, rarer_scores = score(likelier.choosing), score(rarer.choosing)
    thresholds = _thresholds(np.concatenate([likelier_scores, rarer_scores]))
    low = lower_limit(_count_above(likelier_scores, thresholds), len(likelier_scores), _CHOOSING_ERROR)
    high = upper_limit(_count_above(rarer_scores, thresholds), len(rarer_scores), _CHOOSING_ERROR)
    trials = len(likelier.measuring), len(rarer.measuring)
    promises = bound(lower_limit(low * trials[0], trials[0], error), upper_limit(high * trials[1], trials[1], error))
    best = int(np.argmax(promises))
    return _Event(name, score, float(thresholds[best]), swapped, float(promises[best]))


def _measured(event: _Event, first: Parts, second: Parts, bound: Bound, error: float) -> tuple[float, Counts]:
    likelier, rarer = (first, second) if event.swapped else (second, first)
    counts = Counts(
        event.hits(likelier.measuring), len(likelier.measuring), event.hits(rarer.measuring), len(rarer.measuring)
    )
    low = lower_limit(np.array(counts.hits_where_likelier, dtype=np.float64), counts.trials_where_likelier, error)
    high = upper_limit(np.array(counts.hits_where_rarer, dtype=np.float64), counts.trials_where_rarer, error)
    return float(bound(low, high)), counts


def strongest_evidence(
    scores: Sequence[tuple[str, Score]], first: Parts, second: Parts, bound: Bound, confidence: float
) -> tuple[float, str, Counts]:
    """The lower bound, the event and its counts in the direction that shows more; scores are used with either sign."""
    error = (1 - confidence) / _STATEMENTS
    signed = [*scores, *((f"−{name}", _negative(score)) for name, score in scores)]
    found: list[tuple[float, str, Counts]] = []
    for swapped in (False, True):
        events = [_best_event(name, score, first, second, swapped, bound, error) for name, score in signed]
        event = max(events, key=lambda candidate: candidate.promise)
        value, counts = _measured(event, first, second, bound, error)
        found.append((value, str(event) if value > 0 else "no event was seen to tell them apart", counts))
    return max(found, key=lambda evidence: evidence[0])


def _negative(score: Score) -> Score:
    return lambda outputs: -score(outputs)

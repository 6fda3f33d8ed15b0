"""When records change: an alarm with a stated rate of false ones, and what became of the patterns in a later training.

The alarm is a conformal one (Vovk 2021). While new records are as usual as those that calibrated the model, the rank of each score among
all scores before it is uniform and independent of the others, whatever the model is worth. A bet on small ranks, renewed at every record
(Shiryaev and Roberts), then has an expected statistic of at most n after n records.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import qmc

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import Family, Patterns
from sudare.dictionary.member_model import FALSE_ALARM_RATES, MemberModel
from sudare.errors import DataError, InvalidParameter
from sudare.parameter_checks import Numbers

if TYPE_CHECKING:
    from sudare.dictionary.estimators import PatternDictionary

# Bets κ·p^(κ−1) on a rank p: the smaller κ, the rarer and higher the scores it waits for.
_POWERS: Final = np.array([0.2, 0.4, 0.6, 0.8])
_POINT_BITS: Final = 10


@dataclass(frozen=True, eq=False, repr=False)
class ChangeDetector:
    """Whether a member's new records score higher than usual ones, record by record, for as long as it likes.

    Usual records raise no more than one alarm in 1/`false_alarm_rate` of them on average, and one within n of them with probability
    n·`false_alarm_rate` at most, whatever the model is worth: as long as they and those that calibrated the model could have come in
    any order. Only scores that rise are noticed. Knows exact scores: never leaves the member.
    """

    model: MemberModel
    false_alarm_rate: float
    scores: tuple[float, ...]
    statistics: Floats
    n_records: int = 0
    alarm_at: int | None = None
    suspected_from: int = 0
    evidence: float = 1.0

    @classmethod
    def begun(cls, model: MemberModel, false_alarm_rate: float = 1e-4) -> ChangeDetector:
        """A detector that has seen nothing yet. Raise DataError unless the model is calibrated."""
        FALSE_ALARM_RATES.check("false_alarm_rate", false_alarm_rate)
        if model.calibration is None or not len(model.calibration):
            raise DataError(
                "Changes are told from usual records, and this model has seen none.",
                "Use model.calibrated(records) with usual records that were not used in training.",
            )
        if model.window > 1:
            raise InvalidParameter(
                "Changes are told from the scores of single records, and this model's are over a window of several.",
                "Use the model before it was smoothed: evidence is added up over records here as well.",
            )
        return cls(model, false_alarm_rate, tuple(model.calibration.tolist()), np.zeros(len(_POWERS)))

    def __repr__(self) -> str:
        return f"ChangeDetector({self.n_records} records, statistic {self.statistic:.3g} of {self.threshold:.3g})"

    @property
    def statistic(self) -> float:
        """The mean over the bets; at most the number of records, in expectation, while nothing has changed."""
        return float(self.statistics.mean())

    @property
    def threshold(self) -> float:
        """1/false_alarm_rate: the alarm is raised when the statistic reaches it."""
        return 1 / self.false_alarm_rate

    @property
    def has_changed(self) -> bool:
        """Whether the alarm was raised, at the record `alarm_at`; the change began about `suspected_from` (both from 0)."""
        return self.alarm_at is not None

    def after(self, X: object) -> ChangeDetector:
        """The detector after more records, in the order in which they came."""
        scores, statistics = list(self.scores), self.statistics
        count, alarm_at = self.n_records, self.alarm_at
        suspected_from, evidence = self.suspected_from, self.evidence
        for score in self.model.score_samples(X).tolist():
            # Ties count against an alarm: the rank is then above the uniform one, and every bet falls with it.
            rank = (len(scores) - bisect_left(scores, score) + 1) / (len(scores) + 1)
            factors = _POWERS * rank ** (_POWERS - 1)
            statistics = (statistics + 1) * factors
            if alarm_at is None:
                if evidence <= 1:
                    suspected_from, evidence = count, 1.0
                evidence *= float(factors.mean())
                if statistics.mean() >= self.threshold:
                    alarm_at = count
            insort(scores, score)
            count += 1
        return replace(
            self,
            scores=tuple(scores),
            statistics=statistics,
            n_records=count,
            alarm_at=alarm_at,
            suspected_from=suspected_from,
            evidence=evidence,
        )


@dataclass(frozen=True)
class PatternChanges:
    """What became of an earlier dictionary's patterns, by their positions in both.

    `kept` has (earlier, later, nats), nats being how much less likely the later pattern makes a record of the earlier one; `retired` are
    earlier patterns that no later one is like, `new` later ones that no earlier one is like.
    """

    kept: tuple[tuple[int, int, float], ...]
    retired: tuple[int, ...]
    new: tuple[int, ...]


def pattern_changes(
    earlier: PatternDictionary, later: PatternDictionary, same_within_nats: float = 2.0
) -> PatternChanges:
    """Patterns of two dictionaries matched one to one; a pair that is farther apart is an old and a new pattern.

    It is computed from the patterns alone, so it costs nothing and tells nothing more. Two nats are a shift by two deviations in one column.
    Raise InvalidParameter unless both are fitted dictionaries of the same columns and family.
    """
    Numbers(0, open_low=True).check("same_within_nats", same_within_nats)
    if not all(hasattr(given, "dictionary_") and hasattr(given, "columns_") for given in (earlier, later)):
        raise InvalidParameter(
            "Patterns of two fitted dictionaries can be compared, and something else was given.",
            "Give the PatternDictionary that was fitted, not a member's model of it.",
        )
    if (
        tuple(earlier.columns_) != tuple(later.columns_)
        or earlier.dictionary_.family.name != later.dictionary_.family.name
    ):
        raise InvalidParameter(
            "Two dictionaries can be compared if they have the same columns and the same family of patterns; these differ.",
            "Fit the later one to the columns of the earlier one, with the same family.",
        )
    nats = kl_divergences(later.dictionary_.family, earlier.patterns_, later.patterns_, len(later.columns_))
    pairs = [
        (int(old), int(new), float(nats[old, new]))
        for old, new in zip(*linear_sum_assignment(np.minimum(nats, 1e6)), strict=True)
        if nats[old, new] <= same_within_nats
    ]
    retired = set(range(len(nats))) - {old for old, _, _ in pairs}
    new = set(range(nats.shape[1])) - {new for _, new, _ in pairs}
    return PatternChanges(tuple(pairs), tuple(sorted(retired)), tuple(sorted(new)))


def kl_divergences(family: Family, earlier: Patterns, later: Patterns, columns: int) -> Floats:
    """Σ f ln f/g of every earlier pattern f and later pattern g, at evenly spread points of f."""
    sequence = qmc.Sobol(columns, scramble=False)
    sequence.fast_forward(1)
    uniforms = sequence.random(2**_POINT_BITS - 1)
    rows = []
    for k in range(len(earlier)):
        points = family.draws(earlier, k, uniforms)
        own = family.log_densities(points, earlier.kept(np.array([k])))
        rows.append((own - family.log_densities(points, later)).mean(axis=0))
    return np.array(rows)

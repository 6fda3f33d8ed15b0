"""Paper 001 (Minami 2015): how cold a Gibbs posterior may be, what sampling from it takes, and how good one draw is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sudare.papers.p001_gibbs_posteriors import other_losses_results, samplers
from sudare.papers.p001_gibbs_posteriors.accuracy import accuracy_panel, accuracy_table, adult, breast_cancer
from sudare.papers.p001_gibbs_posteriors.errata import ERRATA
from sudare.papers.p001_gibbs_posteriors.samplers import measured_cases, steps_panel, steps_table, times_table
from sudare.papers.p001_gibbs_posteriors.temperatures import (
    gain_panel,
    logistic_table,
    normal_table,
    pure_table,
    tail_table,
)
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell

# Small tables are dealt out this many times as often; Adult, where seeds hardly differ, is fitted for every second repetition.
SMALL_FACTOR: Final = 4
ADULT_SHARE: Final = 2


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All parts."""
    found = {name: part(tell, settings) for name, part in PARTS.items()}
    if settings.quick:
        found |= {name: found[name].marked_quick(QUICK_HOW) for name in MEASURED}
    return StudyResult.joined(found.values())


def temperatures_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """How cold a posterior may be: computed, not sampled."""
    tell("inverse temperatures")
    figures = [
        Figure(
            "§4.1: inverse temperatures",
            "β against ε by eq. 27, by Theorem 8 and by the tight condition. The paper has no figures.",
            [gain_panel()],
        ),
        Figure(
            "§4.3: steps of chains",
            "Steps against the total variation that is charged to δ (Theorem 12).",
            [steps_panel()],
        ),
    ]
    return StudyResult([logistic_table(), normal_table(), tail_table(), pure_table()], figures)


def samplers_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """What sampling takes."""
    cases = measured_cases(tell, 1 if settings.quick else None)
    own = samplers.custom_times_table(tell, 5_000 if settings.quick else 50_000)
    return StudyResult([steps_table(cases), times_table(cases), own], [])


def other_losses_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Losses beyond logistic ones."""
    repeats = _small_repeats(settings)
    tables = (
        other_losses_results.location_table,
        other_losses_results.ridge_table,
        other_losses_results.softmax_table,
    )
    return StudyResult([table(tell, repeats) for table in tables], [])


def accuracy_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """One draw as a model: breast cancer and, unless quick, Adult."""
    found = [breast_cancer(tell, _small_repeats(settings))]
    if not settings.quick:
        found.append(adult(tell, max(2, settings.repeats // ADULT_SHARE)))
    figure = Figure(
        "Accuracy of one draw",
        "Accuracy against ε; bars are standard errors. Not in the paper, which reports no experiment.",
        [accuracy_panel(each) for each in found],
    )
    return StudyResult([accuracy_table(each) for each in found], [figure])


def _small_repeats(settings: StudySettings) -> int:
    return settings.repeats if settings.quick else SMALL_FACTOR * settings.repeats


PARTS: Final[Mapping[str, Callable[[Tell, StudySettings], StudyResult]]] = {
    "temperatures": temperatures_part,
    "samplers": samplers_part,
    "other_losses": other_losses_part,
    "accuracy": accuracy_part,
}
# What a quick run makes shorter.
MEASURED: Final = ("samplers", "other_losses", "accuracy")
QUICK_HOW: Final = "fewer repetitions, 5,000 rows where it takes long, no Adult"

STUDY: Final = Study(
    title="Gibbs posteriors: inverse temperatures (§4.1, §4.2), pure ε (Theorems 2, 3), samplers (§4.3), losses beyond the paper, and accuracy of one draw",
    paper="001: Minami (2015), Concentration of measure for Gibbs posteriors and differential privacy",
    repeats=10,
    run=run,
    errata=ERRATA,
)

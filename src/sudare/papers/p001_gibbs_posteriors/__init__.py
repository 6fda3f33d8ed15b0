"""Paper 001 (Minami 2015): how cold a Gibbs posterior may be, what sampling from it takes, and how good one draw is."""

from __future__ import annotations

from typing import Final

from sudare.papers.p001_gibbs_posteriors.accuracy import accuracy_panel, accuracy_table, adult, breast_cancer
from sudare.papers.p001_gibbs_posteriors.samplers import measured_cases, steps_panel, steps_table, times_table
from sudare.papers.p001_gibbs_posteriors.temperatures import gain_panel, logistic_table, normal_table
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell

# The medical table is small: it is dealt out this many times as often.
CANCER_FACTOR: Final = 4


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All sections."""
    repeats = settings.repeats
    tell("inverse temperatures")
    tables = [logistic_table(), normal_table()]
    cases = measured_cases(tell)
    cancer, census = breast_cancer(tell, CANCER_FACTOR * repeats), adult(tell, repeats)
    tables += [steps_table(cases), times_table(cases), accuracy_table(cancer), accuracy_table(census)]
    figures = [
        Figure("Inverse temperatures", "How much colder the tight condition allows a posterior to be.", [gain_panel()]),
        Figure("Steps", "Steps of the samplers against the dimension.", [steps_panel()]),
        Figure("Accuracy of one draw", "Breast cancer and Adult.", [accuracy_panel(cancer), accuracy_panel(census)]),
    ]
    return StudyResult(tables, figures)


STUDY: Final = Study(
    title="Gibbs posteriors: inverse temperatures (§4.1, §4.2), samplers (§4.3), and accuracy of one draw",
    paper="001: Minami (2015), Concentration of measure for Gibbs posteriors and differential privacy",
    repeats=10,
    run=run,
)

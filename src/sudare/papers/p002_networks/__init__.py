"""Paper 002 (Sei and Ohsuga): private networks, the three approaches of figure 5 and what they promise, and what wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sudare.neural.training_method_base import require_jax
from sudare.papers.p002_networks.errata import ERRATA
from sudare.papers.study import Study, StudyResult, StudySettings, Tell

QUICK_HOW: Final = "10 epochs where 500 are printed, two folds or seeds, and fewer values of ε"
# What is the same in a quick run.
NEVER_SHORT: Final = ("Canaries in noisy descent", "Theorem 4, measured")

# Modules that need JAX are imported where they are used: a list of studies needs none.


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All sections. `settings.repeats` is the number of folds (of ten) in figure 5, and of seeds at the record level."""
    require_jax()
    found = StudyResult.joined(part(tell, settings) for part in _SECTIONS)
    return found.marked_quick(QUICK_HOW, NEVER_SHORT) if settings.quick else found


def figure_5_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The approaches as printed, corrected, and both against a record's ε."""
    from sudare.papers.p002_networks import corrected_results, figure5

    setting = figure5.QUICK_SETTING if settings.quick else figure5.PRINTED_SETTING
    lines = corrected_results.QUICK_LINES if settings.quick else corrected_results.LINES
    figure = figure5.measured(tell, settings.repeats, setting)
    corrected = corrected_results.measured(tell, settings.repeats, lines)
    return StudyResult(
        [figure5.table(figure, setting), corrected_results.table(corrected, lines)],
        [
            figure5.drawn(figure, setting),
            figure5.by_record(figure, corrected, setting, corrected_results.shown(lines)),
        ],
    )


def corrected_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The table of corrected approaches and the product by itself."""
    from sudare.papers.p002_networks import corrected_results

    lines = corrected_results.QUICK_LINES if settings.quick else corrected_results.LINES
    return StudyResult([corrected_results.table(corrected_results.measured(tell, settings.repeats, lines), lines)], [])


def record_level_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Methods at one ε for records."""
    from sudare.papers.p002_networks import equal_epsilon_results

    epsilons = equal_epsilon_results.QUICK_EPSILONS if settings.quick else equal_epsilon_results.EPSILONS
    records = equal_epsilon_results.measured(tell, settings.repeats, epsilons)
    return StudyResult(
        [equal_epsilon_results.table(records, epsilons)], [equal_epsilon_results.drawn(records, epsilons)]
    )


def diffprivlib_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """The product beside diffprivlib at one pure ε."""
    from sudare.papers.p002_networks import diffprivlib_results, equal_epsilon_results

    epsilons = equal_epsilon_results.QUICK_EPSILONS if settings.quick else equal_epsilon_results.EPSILONS
    found = diffprivlib_results.measured(tell, settings.repeats, epsilons)
    return StudyResult([diffprivlib_results.table(found, epsilons)], [])


def audits_part(tell: Tell, settings: StudySettings) -> StudyResult:
    """Canaries, and Theorem 4 measured."""
    from sudare.papers.p002_networks import canaries, theorem_4_audit

    return StudyResult(
        [canaries.table(canaries.measured(tell)), theorem_4_audit.table(theorem_4_audit.measured(tell))], []
    )


_SECTIONS: Final = (figure_5_part, record_level_part, diffprivlib_part, audits_part)

# Parts that `benchmarks.rerun_study_part` computes again; "corrected" is within "figure_5".
PARTS: Final[Mapping[str, Callable[[Tell, StudySettings], StudyResult]]] = {
    "figure_5": figure_5_part,
    "corrected": corrected_part,
    "record_level": record_level_part,
    "diffprivlib": diffprivlib_part,
    "audits": audits_part,
}

STUDY: Final = Study(
    title="Private networks: figure 5 and what its ε is worth to a record, noisy descent, synthetic rows, canaries",
    paper="002: Sei and Ohsuga, Building neural networks for privacy-preserving deep learning (in Japanese)",
    repeats=10,
    run=run,
    errata=ERRATA,
)

"""Paper 002 (Sei and Ohsuga): private networks, the three approaches of figure 5 and what they promise, and what wins."""

from __future__ import annotations

from typing import Final

from sudare.neural.training_method_base import require_jax
from sudare.papers.p002_networks.errata import ERRATA
from sudare.papers.study import Study, StudyResult, StudySettings, Tell


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All sections. `settings.repeats` is the number of folds (of ten) in figure 5, and of seeds at the record level."""
    require_jax()
    # Here and not above: a list of studies needs no JAX.
    from sudare.papers.p002_networks import (
        canaries,
        corrected_results,
        figure5,
        record_level,
        theorem_4_audit,
    )

    repeats, quick = settings.repeats, settings.quick
    setting = figure5.QUICK_SETTING if quick else figure5.PRINTED_SETTING
    lines = corrected_results.QUICK_LINES if quick else corrected_results.LINES
    epsilons = record_level.QUICK_EPSILONS if quick else record_level.EPSILONS
    figure = figure5.measured(tell, repeats, setting)
    corrected = corrected_results.measured(tell, repeats, lines)
    records = record_level.measured(tell, repeats, epsilons)
    tables = [
        figure5.table(figure, setting),
        corrected_results.table(corrected, lines),
        record_level.table(records, epsilons),
        canaries.table(canaries.measured(tell)),
        theorem_4_audit.table(theorem_4_audit.measured(tell)),
    ]
    figures = [
        figure5.drawn(figure, setting),
        figure5.by_record(figure, corrected, setting, corrected_results.shown(lines)),
        record_level.drawn(records, epsilons),
    ]
    return StudyResult(tables, figures)


STUDY: Final = Study(
    title="Private networks: figure 5 and what its ε is worth to a record, noisy descent, synthetic rows, canaries",
    paper="002: Sei and Ohsuga, Building neural networks for privacy-preserving deep learning (in Japanese)",
    repeats=10,
    run=run,
    errata=ERRATA,
)

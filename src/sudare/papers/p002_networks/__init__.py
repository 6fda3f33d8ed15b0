"""Paper 002 (Sei and Ohsuga): private networks, the three approaches of figure 5 and what they promise, and what wins."""

from __future__ import annotations

from typing import Final

from sudare.neural.training_methods import require_jax
from sudare.papers.study import Figure, Study, StudyResult, StudySettings, Tell

THEOREM_4_RUNS: Final = 10_000


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All sections. `settings.repeats` is the number of folds (of ten) in figure 5, and of seeds at the record level."""
    require_jax()
    # Here and not above: a list of studies needs no JAX.
    from sudare.papers.p002_networks import canaries, errata, figure5, record_level

    figure = figure5.measured(tell, settings.repeats)
    records = record_level.measured(tell, settings.repeats)
    audits = canaries.measured(tell)
    tell("errata")
    tables = [
        figure5.table(figure),
        record_level.table(records),
        canaries.table(audits),
        errata.table(errata.theorem_4_audit(4, THEOREM_4_RUNS)),
    ]
    figures = [
        Figure("Figure 5", "Accuracy against the paper's ε.", [figure5.panel(figure)]),
        Figure(
            "Figure 5, by a record's ε", "The same against what a record is promised.", [figure5.honest_panel(figure)]
        ),
        Figure("Adult at one ε for records", "Accuracy against ε.", [record_level.panel(records)]),
    ]
    return StudyResult(tables, figures)


STUDY: Final = Study(
    title="Private networks: figure 5 and what its ε is worth to a record, noisy descent, synthetic rows, canaries",
    paper="002: Sei and Ohsuga, Building neural networks for privacy-preserving deep learning (in Japanese)",
    repeats=10,
    run=run,
)

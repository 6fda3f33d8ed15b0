"""Paper 002 (Sei and Ohsuga): private networks, the three approaches of figure 5 and what they promise, and what wins."""

from __future__ import annotations

from typing import Final

from sudare.neural.training_methods import require_jax
from sudare.papers.study import Study, StudyResult, Tell

THEOREM_4_RUNS: Final = 10_000


def run(tell: Tell, repeats: int) -> StudyResult:
    """All sections. `repeats` is the number of folds (of ten) in figure 5, and of seeds at the record level."""
    require_jax()
    # Here and not above: a list of studies needs no JAX.
    from sudare.papers.p002_networks import canaries, errata, figure5, record_level

    figure = figure5.measured(tell, repeats)
    records = record_level.measured(tell, repeats)
    audits = canaries.measured(tell)
    tell("errata")
    tables = [
        figure5.table(figure),
        record_level.table(records),
        canaries.table(audits),
        errata.table(errata.theorem_4_audit(4, THEOREM_4_RUNS)),
    ]
    return StudyResult(tables, [figure5.panel(figure), figure5.honest_panel(figure), record_level.panel(records)])


STUDY: Final = Study(
    title="Private networks: figure 5 and what its ε is worth to a record, noisy descent, synthetic rows, canaries",
    paper="002: Sei and Ohsuga, Building neural networks for privacy-preserving deep learning (in Japanese)",
    repeats=10,
    run=run,
)

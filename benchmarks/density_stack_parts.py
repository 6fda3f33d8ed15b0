"""How well each part of a member's stack of densities finds faults: AUC of every candidate, of the stack, and of a mixture by BIC, on the detection benchmark.

    python -m benchmarks.density_stack_parts

Seeds are other ones than those of the study's table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.page_parts import write_part
from benchmarks.study_pages import DOCS, markdown_table
from sudare.array_types import Floats
from sudare.dictionary.held_out_stacking import candidates
from sudare.dictionary.own_mixture import Mixture
from sudare.papers.p003_decentralised import detection_benchmark as detection
from sudare.papers.p003_decentralised.dictionary_figures import mixture_by_bic

EPSILONS: Final = (0.5, 1.0)
SEEDS: Final = range(100, 105)
NAMES: Final = ("shared patterns alone", "own patterns alone", "own, drawn to shared covariances", "own beside shared")
STACK, ALONE = "the stack of these: the product", "own mixture by BIC (scikit-learn), as in the study's table"
RESULTS: Final = Path(__file__).with_suffix(".json")
PAGE: Final = DOCS / "dictionary.md"
PART: Final = "parts of the stack"


def areas(epsilon: float, seed: int) -> dict[str, dict[str, float]]:
    """AUC by way and fault, the mean over the members that are tried."""
    trial = detection.new_trial(seed)
    fitted = detection.fitted_dictionary(trial, epsilon, seed)
    dictionary = fitted.dictionary_
    shared = Mixture(dictionary.patterns, dictionary.counts / dictionary.counts.sum(), len(dictionary.patterns))
    learned, alone = [], []
    for records in trial.records[: detection.TRIED]:
        Z = dictionary.frame.applied(records)
        found = candidates(dictionary.family, shared, lambda weights: weights, Z)
        learned.append([candidate.learner(Z) for candidate in found])
        alone.append(mixture_by_bic(records, 4, seed))

    def candidate_scorer(place: int) -> detection.Scorer:
        def scores(member: int, X: Floats) -> Floats:
            return -learned[member][place].log_densities(dictionary.family, dictionary.frame.applied(X))

        return scores

    scorers: dict[str, detection.Scorer] = {
        ALONE: lambda member, X: -np.asarray(alone[member].score_samples(X)),
        **{name: candidate_scorer(place) for place, name in enumerate(NAMES)},
        STACK: lambda member, X: fitted.member(member).score_samples(X),
    }
    return {name: trial.areas(scorer) for name, scorer in scorers.items()}


def measured() -> list[dict[str, float | str]]:
    """A row for each ε and way: mean AUC of every fault."""
    rows: list[dict[str, float | str]] = []
    for epsilon in EPSILONS:
        runs = [areas(epsilon, seed) for seed in SEEDS]
        for name in runs[0]:
            means = {fault: float(np.mean([run[name][fault] for run in runs])) for fault in detection.FAULTS}
            rows.append({"epsilon": epsilon, "scores": name, **means})
    return rows


def table(rows: list[dict[str, float | str]]) -> str:
    """The committed numbers."""
    cells = [
        [f"{row['epsilon']:g}", str(row["scores"]), *(f"{row[fault]:.3f}" for fault in detection.FAULTS)]
        for row in rows
    ]
    return markdown_table(["ε", "scores", *detection.FAULTS], cells)


def main() -> None:
    """Measure, write file and page."""
    rows = measured()
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    write_part(PAGE, PART, table(rows))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.panel.reconstruction_rules`: the rule of `sudare.reconstruction.held_out_average`, chosen on the tuning half."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from benchmarks.panel.reconstruction_cases import Case, accuracy, cases
from sudare.reconstruction.held_out_average import PREFERENCES, held_out_weights
from sudare.reconstruction.number_reconstruction import Reconstruction
from sudare.reconstruction.reconstructed_distribution import Layout

DESIGN: Final = ((300, "ε = 2"), (3_000, "ε = 1"), (30_000, "k = 2"))
TEMPERATURES: Final = (1.0, 2.0, 4.0, 8.0)
OF_BAYES: Final = (0.1, 0.25, 0.5, 1.0)


def options() -> dict[str, tuple[float, dict[str, float]]]:
    """Temperatures and preferences to choose from."""
    return {
        f"temperature {temperature:g}, bayes {bayes:g}": (temperature, {**PREFERENCES, "bayes": bayes})
        for temperature, bayes in itertools.product(TEMPERATURES, OF_BAYES)
    }


def accuracies(case: Case) -> dict[str, float]:
    """L1 accuracy with each choice, and of each candidate alone."""
    records, perturbed = case.drawn(0)
    model = Reconstruction(case.perturbation)
    law, counts, states = model._prepared(perturbed)
    families, parts = model._families(law, states, counts), model._parts(counts)
    candidates = model._candidates(law, families, model._stopped(states, parts), states, counts, parts)
    histograms = []
    for candidate in candidates:
        layout = Layout.of([candidate.states], case.perturbation.bounds)
        histograms.append(layout.binning(case.edges) @ layout.carrying(candidate.states) @ candidate.probabilities)
    true = case.shares(records)
    found: dict[str, Any] = {
        name: accuracy(held_out_weights(candidates, parts, *rule) @ np.array(histograms), true)
        for name, rule in options().items()
    }
    alone = {one.name: accuracy(seen, true) for one, seen in zip(candidates, histograms, strict=True)}
    return {**found, "best single": max(alone[name] for name in ("smooth", "mixture", "bayes"))}


def main() -> None:
    """Print mean accuracy and gaps of every choice, the best last."""
    rows = [accuracies(case) for case in cases("tuning", DESIGN)]
    best = np.array([row["best single"] for row in rows])
    for name in sorted(options(), key=lambda name: float(np.mean([row[name] for row in rows]))):
        found = np.array([row[name] for row in rows])
        far = best - found
        print(
            f"{found.mean():.2f}  more than 1.0 below the best single: {int((far > 1).sum())} of {len(rows)}, largest {far.max():.1f}  {name}"
        )


if __name__ == "__main__":
    main()

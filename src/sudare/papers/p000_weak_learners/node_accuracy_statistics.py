"""Accuracies of all nodes of a consortium: their mean and their standard deviation over nodes, which is what the paper's bars are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sudare.array_types import Floats
from sudare.papers.repetitions import Measurements, Shown
from sudare.papers.study import Cell
from sudare.report.plots import Panel, Series, curves

PURE_EPSILON: Final = "ε (pure, replace-one)"
NEIGHBOURS: Final = "Replace-one records, pure ε (δ = 0), ± one standard error over"
BARS: Final = "Bars: one standard deviation over the nodes (the text says so of Figure 3), averaged over repetitions (tables have standard errors of the mean)."

# Names of the methods in legends, as the paper words them in its text.
AGGREGATED: Final = "aggregated (mirror averaging)"
WEAK_LEARNERS: Final = "private weak learners"
STACKING: Final = "stacking [3]"
NOISY_MEANS: Final = "aggregated noisy means (ours)"
CONSENSUS: Final = "own plus consensus (ours)"
DIFFPRIVLIB: Final = "aggregated, diffprivlib's logistic regressions"


def note_nodes(found: Measurements, name: str, accuracies: Floats, epsilon: float | None = None) -> None:
    """Keep the mean over nodes under the name, and the deviation over nodes beside it."""
    found.note(name, float(accuracies.mean()), epsilon)
    found.note(deviation_of(name), float(accuracies.std()), epsilon)


def rows_with_peer(
    found: Measurements, names: Sequence[str], peer: Measurements | None, epsilons: Sequence[float]
) -> list[tuple[Cell, ...]]:
    """Rows of a table with diffprivlib in the last column; a dash where it was not run."""
    rows = found.rows(names, epsilons)
    return [
        (*row, peer.at(DIFFPRIVLIB, epsilon) if peer else None) for row, epsilon in zip(rows, epsilons, strict=True)
    ]


def peer_lines(peer: Measurements | None) -> list[Shown]:
    """The line of diffprivlib in a figure, if it was run."""
    return [(peer, DIFFPRIVLIB, DIFFPRIVLIB)] if peer else []


def deviation_of(name: str) -> str:
    """Under which name the deviation over nodes is kept."""
    return f"{name}, deviation over nodes"


def node_panel(
    title: str, epsilons: Sequence[float], lines: Sequence[Shown], levels: Sequence[Shown], x_label: str = PURE_EPSILON
) -> Panel:
    """Mean accuracy against ε with deviations over nodes as bars, and dashed levels that do not depend on ε."""
    drawn = [
        Series(
            label,
            [found.at(name, epsilon).value for epsilon in epsilons],
            [found.at(deviation_of(name), epsilon).value for epsilon in epsilons],
        )
        for found, name, label in lines
    ]
    for found, name, label in levels:
        level = found.at(name).value
        drawn.append(Series(f"{label} ({level:.3f})", [level] * len(epsilons), dashed=True))
    return curves(epsilons, drawn, x_label=x_label, y_label="accuracy", title=title)

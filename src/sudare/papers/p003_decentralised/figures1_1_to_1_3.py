"""Figures 1.1, 1.2 and 1.3 of Ide (2021): the setting, the gambler with a debt, and circulant graphs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from sudare.papers.p003_decentralised.byzantine_and_proof_of_work import debt_paths
from sudare.papers.p003_decentralised.chunked_sum_risk import catch_up_probability
from sudare.papers.p003_decentralised.graphs import Graph, cycle
from sudare.report.plots import BLUE, VERMILLION, Panel, Series, Theme, curves, finished

FIGURE_1_3_MEMBERS: Final = (5, 7, 8, 12)
FIGURE_1_2_SEED: Final = 12
_DEBT, _SHARE, _GAMES, _PATHS = 4, 0.4, 30, 6


def graph_panel(graph: Graph, title: str, dashed: Collection[tuple[int, int]] = ()) -> Panel:
    """Members on a circle and lines between neighbours; some of them dashed."""

    def panel(axes: Axes, theme: Theme) -> None:
        angles = np.pi / 2 - 2 * np.pi * np.arange(graph.members) / graph.members
        x, y = np.cos(angles), np.sin(angles)
        for edge in graph.edges:
            style = "--" if edge in dashed else "-"
            axes.plot(
                x[list(edge)], y[list(edge)], color=VERMILLION if edge in dashed else BLUE, linestyle=style, lw=1.2
            )
        axes.scatter(x, y, s=60, color=theme.ink, zorder=2)
        for member in range(graph.members):
            axes.text(1.18 * x[member], 1.18 * y[member], str(member + 1), ha="center", va="center", color=theme.ink)
        axes.set(xlim=(-2.2, 2.2), ylim=(-1.35, 1.35), xticks=[], yticks=[])
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        finished(axes, theme, "", "", title)

    return panel


def figure_1_1(members: int = 5) -> Panel:
    """Members with data sets of their own, connected and without a server."""
    return graph_panel(cycle(members, 2), f"S = {members} participants, each with its own data and model")


def figure_1_2() -> list[Panel]:
    """Debts of some gamblers, and how likely a debt is ever paid off (1.25) by the gambler's chance q."""
    paths = debt_paths(_SHARE, _DEBT, _GAMES, _PATHS, np.random.default_rng(FIGURE_1_2_SEED))
    walks = [
        Series(f"gambler{'s' if len(who) > 1 else ''} {' and '.join(map(str, who))}", list(path))
        for path, who in _walkers(paths.tolist()).items()
    ]
    debts = list(range(11))
    chances = [
        Series(f"q = {share:g}", [catch_up_probability(share, debt) for debt in debts])
        for share in (0.1, 0.2, 0.3, 0.4, 0.45, 0.5)
    ]
    return [
        curves(list(range(_GAMES + 1)), walks, x_label=f"games (q = {_SHARE:g})", y_label="debt"),
        curves(debts, chances, x_label="debt z at first", y_label="R: paid off in the end"),
    ]


def _walkers(paths: Sequence[Sequence[int]]) -> dict[tuple[int, ...], list[int]]:
    """Every path once, with the numbers of those who walk it, from 1: a line below an equal one would not be seen."""
    walkers: dict[tuple[int, ...], list[int]] = {}
    for number, path in enumerate(paths, start=1):
        walkers.setdefault(tuple(path), []).append(number)
    return walkers


def figure_1_3() -> list[Panel]:
    """Cycles of order one, and with the dashed edges of order two."""
    panels = []
    for members in FIGURE_1_3_MEMBERS:
        plain = set(cycle(members).edges)
        second = cycle(members, 2)
        panels.append(graph_panel(second, f"S = {members}", [edge for edge in second.edges if edge not in plain]))
    return panels

"""Pictures of patterns: who uses which, what depends on what in them, and how strange a day was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from sudare.array_types import Floats
from sudare.report.plots import BLUE, SERIES_COLOURS, VERMILLION, Panel, Theme, finished

_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "oo")
_WEAKEST_LINE = 0.05


def stacked_shares(
    labels: Sequence[str], shares: Floats, parts: Sequence[str], *, y_label: str, title: str = ""
) -> Panel:
    """One bar for each label, cut into parts that add up to one; parts that are nothing are not drawn."""

    def panel(axes: Axes, theme: Theme) -> None:
        positions, bottom = np.arange(len(labels)), np.zeros(len(labels))
        for index, part in enumerate(parts):
            axes.bar(
                positions,
                shares[:, index],
                0.7,
                bottom=bottom,
                label=part,
                color=SERIES_COLOURS[index % 6],
                hatch=_HATCHES[index % 6],
                edgecolor=theme.paper,
                lw=0.5,
            )
            bottom = bottom + shares[:, index]
        axes.set_xticks(positions, labels)
        finished(axes, theme, "", y_label, title)

    return panel


def dependency_graph(names: Sequence[str], strengths: Floats, *, title: str = "") -> Panel:
    """Columns on a circle; a line where two depend on each other directly, thicker for more, dashed where one falls as the other rises."""

    def panel(axes: Axes, theme: Theme) -> None:
        angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
        x, y = np.cos(angles), np.sin(angles)
        for first in range(len(names)):
            for second in range(first + 1, len(names)):
                strength = float(strengths[first, second])
                if abs(strength) > _WEAKEST_LINE:
                    axes.plot(
                        x[[first, second]],
                        y[[first, second]],
                        color=BLUE if strength > 0 else VERMILLION,
                        linestyle="-" if strength > 0 else "--",
                        lw=1 + 5 * abs(strength),
                        zorder=1,
                    )
        axes.scatter(x, y, s=60, color=theme.ink, zorder=2)
        for name, horizontal, vertical in zip(names, x, y, strict=True):
            side = "center" if abs(horizontal) < 0.2 else ("left" if horizontal > 0 else "right")
            axes.text(1.14 * horizontal, 1.14 * vertical, name, ha=side, va="center", color=theme.ink, fontsize=8.5)
        axes.set(xlim=(-2.1, 2.1), ylim=(-1.45, 1.45), xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.grid(visible=False)
        finished(axes, theme, "", "", title)

    return panel


def timeline(
    scores: Floats,
    threshold: float,
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    marked: tuple[int, int, str] | None = None,
) -> Panel:
    """A score for each moment, the threshold, and what was above it; `marked` is a stretch of moments with a name."""

    def panel(axes: Axes, theme: Theme) -> None:
        moments = np.arange(len(scores))
        above = scores > threshold
        axes.plot(moments, scores, color=theme.faint, lw=0.8, zorder=1)
        if marked is not None:
            axes.axvspan(
                marked[0] - 0.5, marked[1] - 0.5, color=theme.faint, alpha=0.5, lw=0, label=marked[2], zorder=0
            )
        axes.scatter(moments[~above], scores[~above], s=8, color=BLUE, label="no alarm", zorder=2)
        axes.scatter(moments[above], scores[above], s=22, color=VERMILLION, marker="^", label="alarm", zorder=3)
        axes.axhline(threshold, color=theme.ink, linestyle="--", lw=1, label="threshold")
        finished(axes, theme, x_label, y_label, title)

    return panel


def shaded(names: Sequence[str], values: Floats, *, x_label: str, scale_label: str, title: str = "") -> Panel:
    """A row for each name, a column for each moment, brighter for more; the highest hundredth of values is as bright as its least."""

    def panel(axes: Axes, theme: Theme) -> None:
        top = float(np.quantile(values, 0.99)) or 1.0
        low = min(0.0, float(values.min()))
        image = axes.imshow(
            np.clip(values, low, top), aspect="auto", cmap="cividis", interpolation="nearest", vmin=low, vmax=top
        )
        axes.set_yticks(np.arange(len(names)), names)
        axes.grid(visible=False)
        bar = axes.figure.colorbar(image, ax=axes, location="bottom", fraction=0.07, aspect=40)
        bar.set_label(scale_label, color=theme.ink)
        bar.ax.tick_params(colors=theme.ink, length=3)
        bar.outline.set_visible(False)
        finished(axes, theme, x_label, "", title)

    return panel

"""Pictures of distributions: histograms as steps, with a band where one is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from sudare.report.plots import BLUE, SKY, Panel, Theme, finished

Floats = NDArray[np.float64]


def shaded_densities(
    edges: Floats,
    shares: Mapping[str, Floats],
    band: tuple[Floats, Floats] | None = None,
    *,
    x_label: str,
    y_label: str,
    title: str = "",
) -> Panel:
    """Shares of bins: the first dashed (the truth), the second filled (what was seen), the others as lines; a band behind the last."""

    def panel(axes: Axes, theme: Theme) -> None:
        names = list(shares)
        if band is not None:
            axes.stairs(band[1], edges, baseline=band[0], fill=True, color=SKY, alpha=0.45, label="90 % band")
        for position, name in enumerate(names):
            if position == 1:
                axes.stairs(shares[name], edges, fill=True, color=theme.faint, label=name, zorder=0)
            elif position == 0:
                axes.stairs(shares[name], edges, color=theme.ink, linestyle="--", lw=1.2, label=name, zorder=3)
            else:
                axes.stairs(shares[name], edges, color=BLUE, lw=1.6, label=name, zorder=2)
        axes.set_ylim(bottom=0.0)
        finished(axes, theme, x_label, y_label, title)

    return panel

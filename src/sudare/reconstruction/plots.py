"""Pictures of a reconstructed distribution."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sudare.perturbation.number_channels import checked_edges
from sudare.reconstruction.reconstructed_distribution import Distribution
from sudare.report.plots import BLUE, VERMILLION, Panel, Theme, finished


def histogram_panel(
    distribution: Distribution,
    edges: ArrayLike,
    *,
    level: float = 0.9,
    original: ArrayLike | None = None,
    perturbed: ArrayLike | None = None,
    x_label: str = "",
    title: str = "",
) -> Panel:
    """Shares of records in bins: reconstructed, with its band, or with a note if there is none; original and perturbed if given."""
    places = checked_edges(edges, "edges")
    band = distribution.band(places, level)
    seen = None if perturbed is None else np.histogram(perturbed, places)[0] / np.size(perturbed)
    truth = None if original is None else np.histogram(original, places)[0] / np.size(original)

    def panel(axes: Axes, theme: Theme) -> None:
        if truth is not None:
            axes.stairs(truth, places, fill=True, color=theme.faint, label="original")
        if seen is not None:
            axes.stairs(
                seen, places, color=VERMILLION, linestyle=":", lw=1.2, label="perturbed, as far as within bounds"
            )
        if band.low is not None and band.high is not None:
            axes.stairs(
                band.high, places, baseline=band.low, fill=True, color=BLUE, alpha=0.25, label=f"{level:.0%} band"
            )
        else:
            axes.text(0.01, 0.98, "band not calibrated", transform=axes.transAxes, va="top", color=theme.ink)
        axes.stairs(band.estimate, places, color=BLUE, lw=1.4, label="reconstructed")
        axes.set_ylim(bottom=0.0)
        finished(axes, theme, x_label, "share of records", title)

    return panel

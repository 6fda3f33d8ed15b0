"""Pictures of reconstructed distributions and cross tables."""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sudare.perturbation.number_channels import checked_edges
from sudare.reconstruction.cross_tables import CrossTable, value_text
from sudare.reconstruction.reconstructed_distribution import Distribution
from sudare.report.plots import BLUE, VERMILLION, Panel, Theme, finished

_MOST_WRITTEN: Final = 10
_LONGEST_LABEL: Final = 20


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


def cross_table_panel(table: CrossTable, first: str, second: str) -> Panel:
    """Shares of pairs as a field of colours, with shares and standard errors where there is room for them."""
    names, headings = ([value_text(value) for value in values] for values in table.values_)

    def panel(axes: Axes, theme: Theme) -> None:
        shares, errors = table.probabilities_, table.standard_errors_
        axes.imshow(shares, aspect="auto", cmap="Blues", vmin=0.0)
        axes.set_xticks(range(len(headings)), [text[:_LONGEST_LABEL] for text in headings], rotation=30, ha="right")
        axes.set_yticks(range(len(names)), [text[:_LONGEST_LABEL] for text in names])
        if len(names) <= _MOST_WRITTEN and len(headings) <= _MOST_WRITTEN:
            for row, column in np.ndindex(shares.shape):
                ink = "white" if shares[row, column] > shares.max() / 2 else "black"
                text = f"{100 * shares[row, column]:.1f}\n± {100 * errors[row, column]:.1f}"
                axes.text(column, row, text, ha="center", va="center", color=ink, fontsize="small")
        finished(axes, theme, second, first, "% of records ± standard error")
        axes.grid(visible=False)

    return panel

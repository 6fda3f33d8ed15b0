"""An assessment as a picture: breaches against chunks and sums, disagreement against rounds, rewriting against confirmations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from sudare.papers.p003_decentralised.averaging import Method, averaging_plan
from sudare.papers.p003_decentralised.chunked_sum_assessment import (
    CONFIRMED_RISK,
    METHOD_NAMES,
    Assessment,
    Proposal,
    breach_by_chunks,
)
from sudare.papers.p003_decentralised.chunked_sum_risk import (
    catch_up_probability,
    composed,
    nakamoto_probability,
    rewrite_probability,
)
from sudare.papers.p003_decentralised.spectra import chebyshev_contraction, contraction, optimal_step, safe_step
from sudare.report.plots import Panel, Series, Theme, curves

_MOST_CHUNKS: Final = 10
_MOST_CONFIRMATIONS: Final = 20
_POINTS: Final = 24
# A logarithmic axis cannot show zero: lines end here.
_LEAST_SHOWN: Final = 1e-12


def assessment_panels(assessment: Assessment) -> list[Panel]:
    """Four panels."""
    proposal = assessment.proposal
    return [
        chunks_panel(proposal),
        sums_panel(assessment),
        rounds_panel(proposal),
        chain_panel(assessment.chain.share),
    ]


def chunks_panel(proposal: Proposal) -> Panel:
    """How breaches in one sum fall with the number of chunks."""
    most = max(_MOST_CHUNKS, proposal.chunks)
    series = [
        Series(label, values, dashed="bound" in label) for label, values in breach_by_chunks(proposal, most).items()
    ]
    return on_logarithmic_height(
        list(range(1, most + 1)), series, x_label="chunks (first messages only)", y_label="breach in one sum"
    )


def sums_panel(assessment: Assessment) -> Panel:
    """How breaches add up over sums."""
    sums = _spaced(4 * assessment.proposal.iterations)
    series = [
        Series(each.what, [composed(each.one_sum, count) for count in sums])
        for each in assessment.breaches
        if "bound" not in each.what
    ]
    return on_logarithmic_height(
        sums, series, x_label=f"sums ({assessment.proposal.chunks} chunks each)", y_label="breach in some sum"
    )


def rounds_panel(proposal: Proposal) -> Panel:
    """How disagreement shrinks by each method, at worst."""
    graph = proposal.graph
    rounds = _spaced(max(2, len(averaging_plan(graph, "constant", proposal.tolerance).rounds)))
    shrinks: dict[Method, Callable[[int], float]] = {
        "constant": lambda count: contraction(graph, safe_step(graph)) ** count,
        "optimal": lambda count: contraction(graph, optimal_step(graph)) ** count,
        "chebyshev": lambda count: chebyshev_contraction(graph, count),
    }
    series = [Series(METHOD_NAMES[method], [shrunk(count) for count in rounds]) for method, shrunk in shrinks.items()]
    return on_logarithmic_height(rounds, series, x_label=f"rounds ({graph.name})", y_label="disagreement left")


def chain_panel(share: float) -> Panel:
    """How likely a chain is rewritten after so many confirmations."""
    numbers = list(range(_MOST_CONFIRMATIONS + 1))
    series = [
        Series("exactly", [rewrite_probability(share, number) for number in numbers]),
        Series("Nakamoto's approximation", [nakamoto_probability(share, number) for number in numbers]),
        Series("gambler's ruin (1.25)", [catch_up_probability(share, number) for number in numbers]),
        Series(f"risk {CONFIRMED_RISK:g}", [CONFIRMED_RISK for _ in numbers], dashed=True),
    ]
    return on_logarithmic_height(
        numbers,
        series,
        x_label=f"confirmations (attacker with {100 * share:.3g} % of the power)",
        y_label="chain rewritten",
    )


def on_logarithmic_height(x: Sequence[float], series: Sequence[Series], *, x_label: str, y_label: str) -> Panel:
    """Curves over a linear x and a logarithmic height."""
    shown = [
        replace(line, values=[value if value >= _LEAST_SHOWN else math.nan for value in line.values]) for line in series
    ]
    drawn = curves(x, shown, x_label=x_label, y_label=y_label)

    def panel(axes: Axes, theme: Theme) -> None:
        drawn(axes, theme)
        axes.set_yscale("log")
        # matplotlib's own labels of powers are formulas, which are not drawn here.
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return panel


def _spaced(most: int) -> list[int]:
    """Whole numbers from 1 to so many, evenly on a logarithmic scale."""
    return sorted({round(number) for number in np.geomspace(1, most, _POINTS).tolist()})

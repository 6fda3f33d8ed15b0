"""`sudare risk`: what a proposed consortium can expect of its sums."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Table

from sudare.cli.answers import AsJson, answer, progress, reported
from sudare.cli.pictures import check_picture
from sudare.errors import InvalidParameter

if TYPE_CHECKING:
    from sudare.consensus.assessment import Assessment, Breach


@reported
def risk(
    members: Annotated[int, typer.Option("--members", min=2, max=1000, help="How many members the consortium has.")],
    graph: Annotated[
        str,
        typer.Option(
            "--graph",
            help="Who talks to whom: cycle, inverse-chords, random-regular, exponential, hypercube, base-k or complete.",
        ),
    ] = "cycle",
    degree: Annotated[
        int, typer.Option("--degree", min=2, help="Neighbours of each member, for cycle (even) and random-regular.")
    ] = 2,
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="Chunks that each addend is split into.")] = 5,
    iterations: Annotated[
        int, typer.Option("--iterations", min=1, help="Sums to be computed, one for each iteration of a training.")
    ] = 50,
    colluders: Annotated[
        int, typer.Option("--colluders", min=1, help="Members who pool what they see; 1 is one curious member.")
    ] = 1,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="How small disagreement must get, as a share of the first.")
    ] = 1e-3,
    trials: Annotated[int, typer.Option("--trials", min=100, help="How many sums to simulate.")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the simulation and of random graphs.")] = 0,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the numbers into a PNG or SVG file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rounds a sum takes, how likely chunking shows an addend, what colluders see, and what masks would give instead."""
    import numpy as np

    from sudare.consensus.assessment import Proposal, assessed
    from sudare.consensus.graphs import graph_named

    check_picture(plot)
    with progress(as_json) as tell:
        tell("simulating")
        proposal = Proposal(graph_named(graph, members, degree, seed), chunks, iterations, colluders, tolerance)
        assessment = assessed(proposal, trials, np.random.default_rng(seed))
        if plot is not None:
            _draw(assessment, plot)
    shown: list[RenderableType] = [_opening(assessment), "", _rounds(assessment), "", _breaches(assessment), ""]
    answer(assessment.to_dict(), as_json, *shown, *_conclusions(assessment))


def _opening(assessment: Assessment) -> str:
    proposal = assessment.proposal
    who = "1 curious member" if proposal.colluders == 1 else f"{proposal.colluders} colluders"
    return (
        f"{proposal.graph.members} members, {proposal.graph.name}, at most {proposal.graph.largest_degree} neighbours; "
        f"{proposal.chunks} chunks, {proposal.iterations} sums, {who}."
    )


def _rounds(assessment: Assessment) -> Table:
    table = Table("one sum by", "rounds", "values a member sends", "disagreement", box=None, pad_edge=False)
    for each in assessment.rounds:
        accuracy = "none" if each.exact else f"{assessment.proposal.tolerance:g} of the first"
        table.add_row(each.method, f"{each.rounds:,}", f"{each.values_sent:,}", accuracy)
    return table


def _breaches(assessment: Assessment) -> Table:
    columns = ("every chunk received", "one sum", f"{assessment.proposal.iterations} sums", "99 % interval of one")
    table = Table(*columns, box=None, pad_edge=False)
    for each in assessment.breaches:
        table.add_row(each.what, _probability(each.one_sum), _probability(each.all_sums), _interval(each))
    return table


def _conclusions(assessment: Assessment) -> list[str]:
    watching, honest = assessment.proposal.colluders, assessment.honest
    they = "it" if watching == 1 else "they"
    forgetful = "These hold for members who keep the first message of each chunk and forget the rest."
    if assessment.recovered is None:
        attack = "Keeping all messages was not simulated: too many members."
    else:
        attack = (
            f"Who knows the relabellings and keeps all messages solves, in double precision, for the addends of "
            f"{assessment.recovered} of {honest} others in every sum (observability)."
        )
    if assessment.masks_hide:
        masks = (
            f"Masks instead: exact in {assessment.rounds[-1].rounds} rounds, and {they} would learn the sum of the {honest} others, "
            f"no addend. Up to {honest + watching - 2} colluders are withstood if no more than one drop-out must be survived. "
            "The sums themselves are seen by all."
        )
    else:
        masks = "Masks instead: nothing can be hidden from all others together; the sum shows the last member's addend."
    return [f"{forgetful} {attack}", masks, _chain(assessment)]


def _chain(assessment: Assessment) -> str:
    from sudare.consensus.assessment import CONFIRMATIONS, CONFIRMED_RISK

    needed = assessment.chain_confirmations
    enough = "no number of confirmations is enough" if needed is None else f"{needed} confirmations are enough"
    return (
        f"A chain by proof of work, members of equal power: with {_probability(100 * assessment.chain_share)} % of it, what {CONFIRMATIONS} blocks have confirmed is "
        f"rewritten with probability {_probability(assessment.chain_rewritten)} (Nakamoto's approximation "
        f"{_probability(assessment.chain_rewritten_nakamoto)}); for a risk below {CONFIRMED_RISK:g}, {enough}."
    )


def _interval(breach: Breach) -> str:
    if breach.low is None or breach.high is None:
        return ""
    return f"{_probability(breach.low)} to {_probability(breach.high)}"


def _probability(value: float) -> str:
    from sudare.report.numbers import nearest

    return nearest(value, 3)


def _draw(assessment: Assessment, file: Path) -> None:
    from sudare.consensus.assessment_panels import assessment_panels
    from sudare.report.plots import rendered

    image = rendered(assessment_panels(assessment), "svg" if file.suffix == ".svg" else "png", columns=2)
    try:
        file.write_bytes(image)
    except OSError as error:
        raise InvalidParameter(f"'{file}' cannot be written ({error.strerror}).", "Choose another --plot.") from None

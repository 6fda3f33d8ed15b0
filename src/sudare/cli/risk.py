"""`sudare risk`: what a proposed consortium can expect of its sums."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import RenderableType
from rich.table import Table

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.plot_files import check_picture, draw

if TYPE_CHECKING:
    from sudare.sums.dropout_and_collusion_risk import SumAssessment

app = typer.Typer(help="What a proposed consortium can expect of its sums.", no_args_is_help=True)


@app.callback()
def risk() -> None:
    """What a proposed consortium can expect of its sums."""


# Secure sums


@app.command("sums")
@reported
def sums(
    members: Annotated[
        int, typer.Option("--members", min=2, max=1_000_000, help="How many members the consortium has.")
    ],
    dishonest: Annotated[
        int, typer.Option("--dishonest", min=0, help="Members that may do anything, together with the collector.")
    ] = 1,
    leaving: Annotated[int, typer.Option("--leaving", min=0, help="Members that may leave during a sum.")] = 0,
    threshold: Annotated[
        int | None,
        typer.Option(
            "--threshold",
            min=1,
            help="Votes that settle who is in a sum; by default all but those that may leave. All: nobody may leave.",
        ),
    ] = None,
    collector: Annotated[
        Literal["member", "relay"],
        typer.Option("--collector", help="Who collects a sum that members may leave: they by turns, or the relay."),
    ] = "member",
    as_json: AsJson = False,
) -> None:
    """Secure sums: votes, neighbours and shares, how probable failure is, and what dishonest members can and cannot do."""
    from sudare.errors import InvalidParameter
    from sudare.sums.dropout_and_collusion_risk import assessed_sum

    assessment = assessed_sum(members, dishonest, leaving, threshold)
    if collector == "relay" and assessment.serverless:
        raise InvalidParameter("A sum that nobody may leave has no collector.", "Say how many may leave: --leaving.")
    shown: list[RenderableType] = [_who(assessment), *_collects(assessment, collector), "", _choices(assessment), ""]
    told = {**assessment.to_dict(), "collector": None if assessment.serverless else collector}
    answer(told, as_json, *shown, *_meaning(assessment))


def _who(of: SumAssessment) -> str:
    leave = "nobody" if of.serverless else f"up to {of.leaving:,}"
    return f"{of.members:,} members; {_adversary(of)} may be dishonest; {leave} may leave a sum."


def _collects(of: SumAssessment, collector: str) -> list[str]:
    """Who collects, in a line; none where nobody does."""
    if of.serverless:
        return []
    if collector == "relay":
        return [
            "The relay, who is no member, collects every sum: it sees the total, and has no addend that would be lost with it."
        ]
    return ["Members collect by turns: each attempt at a sum has another collector."]


def _adversary(of: SumAssessment) -> str:
    """Who may be dishonest. Without a collector there are only members."""
    some = f"{of.dishonest:,} of them" if of.dishonest else "nobody"
    if of.serverless:
        return some
    return f"{some} and the collector" if of.dishonest else "the collector"


def _choices(of: SumAssessment) -> Table:
    table = Table("chosen", "", "what it means", box=None, pad_edge=False)
    if of.serverless:
        table.add_row("votes t", f"{of.threshold:,}", "everybody's: no collector, one total or none")
        return table
    table.add_row("votes t", f"{of.threshold:,}", "for one set open its sum; 2t > members + dishonest")
    if of.complete:
        table.add_row("neighbours k", f"{of.degree:,}", "everybody masks with everybody and deals shares to everybody")
    else:
        each = f"picked at random by each; about {2 * of.degree:,} with those that pick it"
        table.add_row("neighbours k", f"{of.degree:,}", each)
    table.add_row("shares t_k", f"{of.share_threshold:,}", "recover what a member left behind; fewer tell nothing")
    return table


def _meaning(of: SumAssessment) -> list[str]:
    if of.serverless and not of.dishonest:
        return [_may_leave(of)]
    return [_failure(of), "", _can_learn(of), "", _can_do(of), "", _may_leave(of)]


def _failure(of: SumAssessment) -> str:
    if of.complete:
        return "Failure: none but that of the cryptography, as everybody shares a mask with everybody."
    return (
        f"Failure, in each sum: half of the honest members or fewer can be opened apart from the others, or {of.share_threshold:,} shares of somebody's "
        f"secret are in dishonest hands, with probability {_power(of.privacy_failure_log2)}. With {of.leaving:,} gone somebody has fewer than {of.share_threshold:,} of its "
        f"{of.degree:,} neighbours left, and the sum stops, with probability {_power(of.liveness_failure_log2)}."
    )


def _can_learn(of: SumAssessment) -> str:
    missing = (
        f" (up to {of.most_separated:,} of those voted for may be missing from it, if the collector lies)"
        if of.most_separated
        else ""
    )
    return (
        f"What they can learn: one sum, with at least {of.honest_addends:,} honest members' addends in it{missing}. "
        "No addend, and no second sum of the same addends. The total is seen by all members, whoever is honest."
    )


def _can_do(of: SumAssessment) -> str:
    anyway = "What they can do: make a sum fail, add what they like to it"
    if of.serverless:
        return f"{anyway}. What they cannot: leave an honest member out, or have members use different totals."
    left_out = of.members - of.threshold
    return (
        f"{anyway}, leave out up to {left_out:,} of the members as if these had left. "
        f"What they cannot: open a sum of fewer than {of.threshold:,} members, have two sets voted for, or have members use different totals."
    )


def _may_leave(of: SumAssessment) -> str:
    if of.serverless:
        return "If anybody leaves, nothing is opened and the sum is begun again."
    unless = "" if of.complete else ", if who leaves does not depend on who picked whom"
    stays = f"Up to {of.leaving:,} may leave at any moment{unless}. With fewer than {of.threshold:,} left nothing is opened."
    if of.threshold == of.largest_threshold:
        return stays
    return f"{stays} A --threshold of up to {of.largest_threshold:,} lets as many leave, and fewer can be left out."


def _power(log2: float) -> str:
    """A probability as a power of two, rounded up."""
    return "0" if log2 == -math.inf else f"at most 2^{math.ceil(log2)}"


# Random chunks


@app.command("chunks")
@reported
def chunks(
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
    pieces: Annotated[int, typer.Option("--chunks", min=1, help="Chunks that each addend is split into.")] = 5,
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
    """Random chunks: rounds a sum takes, how likely chunking shows an addend, what colluders see, and what masks would give instead."""
    import numpy as np

    from sudare.papers.p003_decentralised.chunked_sum_assessment import Proposal, assessed
    from sudare.papers.p003_decentralised.chunked_sum_report import assessment_report
    from sudare.papers.p003_decentralised.graphs import graph_named

    check_picture(plot)
    with progress(as_json) as tell:
        tell("simulating")
        proposal = Proposal(graph_named(graph, members, degree, seed), pieces, iterations, colluders, tolerance)
        assessment = assessed(proposal, trials, np.random.default_rng(seed))
        if plot is not None:
            from sudare.papers.p003_decentralised.chunked_sum_plots import assessment_panels

            draw(*assessment_panels(assessment), file=plot, columns=2, replace=True)
    answer(assessment.to_dict(), as_json, *assessment_report(assessment))

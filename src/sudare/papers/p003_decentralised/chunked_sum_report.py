"""What can be expected of sums in random chunks, in tables and sentences for a terminal."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from sudare.papers.p003_decentralised.chunked_sum_assessment import Assessment, Breach
from sudare.report.number_formatting import nearest


def assessment_report(assessment: Assessment) -> list[RenderableType]:
    """Who adds up how, rounds, what chunking shows, and what masks would give instead."""
    tables: list[RenderableType] = [_rounds(assessment), "", _breaches(assessment), ""]
    return [_opening(assessment), "", *tables, *_conclusions(assessment)]


def _opening(assessment: Assessment) -> str:
    proposal = assessment.proposal
    who = "1 curious member" if proposal.colluders == 1 else f"{proposal.colluders} colluders"
    return (
        f"{proposal.graph.members} members, {proposal.graph.name}, at most {proposal.graph.largest_degree} neighbours; "
        f"{proposal.chunks} chunks, {proposal.iterations} sums, {who}."
    )


def _rounds(assessment: Assessment) -> Table:
    table = Table("one sum by", "rounds", "values a member sends", "disagreement left", box=None, pad_edge=False)
    for each in assessment.rounds:
        left = 0.0 if each.exact else assessment.proposal.tolerance
        table.add_row(each.method, f"{each.rounds:,}", f"{each.values_sent:,}", f"{left:g}")
    return table


def _breaches(assessment: Assessment) -> Table:
    columns = (
        "every chunk received",
        "one sum",
        f"{assessment.proposal.iterations} sums",
        "99 % interval, one sum",
    )
    table = Table(*columns, box=None, pad_edge=False)
    for each in assessment.breaches:
        table.add_row(each.what, _probability(each.one_sum), _probability(each.all_sums), _interval(each))
    return table


def _conclusions(assessment: Assessment) -> list[str]:
    watching, honest = assessment.proposal.colluders, assessment.honest
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
            f"Masks instead: exact in {assessment.rounds[-1].rounds} rounds, and {'it' if watching == 1 else 'they'} would learn the sum of the {honest} others, "
            f"no addend. Up to {honest + watching - 2} colluders are withstood if no more than one drop-out must be survived. "
            "The sums themselves are seen by all."
        )
    else:
        masks = "Masks instead: nothing can be hidden from all others together; the sum shows the last member's addend."
    return [f"{forgetful} {attack}", masks, _chain(assessment)]


def _chain(assessment: Assessment) -> str:
    chain = assessment.chain
    needed = chain.confirmations_needed
    enough = "no number of confirmations is enough" if needed is None else f"{needed} confirmations are enough"
    return (
        f"A chain by proof of work, members of equal power: with {_probability(100 * chain.share)} % of it, what {chain.confirmations} blocks have confirmed is "
        f"rewritten with probability {_probability(chain.rewritten)} (Nakamoto's approximation "
        f"{_probability(chain.rewritten_nakamoto)}); for a risk below {chain.risk:g}, {enough}."
    )


def _interval(breach: Breach) -> str:
    if breach.low is None or breach.high is None:
        return ""
    return f"{_probability(breach.low)} – {_probability(breach.high)}"


def _probability(value: float) -> str:
    return nearest(value, 3)

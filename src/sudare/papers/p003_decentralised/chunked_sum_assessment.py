"""A proposed consortium, assessed: rounds a sum takes, how likely chunking breaks, and what masks would give instead."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.attacks import determined_members
from sudare.papers.p003_decentralised.averaging import METHODS, Method, averaging_plan
from sudare.papers.p003_decentralised.chunked_sum_risk import (
    Simulation,
    any_breach_bound,
    any_pair_bound,
    breach_bound,
    breach_probability,
    coalition_probability,
    composed,
    confirmations_needed,
    nakamoto_probability,
    rewrite_probability,
    simulated_any_breach,
    simulated_coalition_breach,
)
from sudare.papers.p003_decentralised.graphs import Graph
from sudare.sums import dissemination

MOST_ATTACKED_MEMBERS: Final = 200
"""Above this the observability attack is not simulated: it solves for all members at once."""

METHOD_NAMES: Final[dict[Method, str]] = {
    "constant": "constant step",
    "optimal": "best constant step",
    "chebyshev": "Chebyshev",
    "finite_time": "finite time",
}
CONFIRMATIONS: Final = 6
CONFIRMED_RISK: Final = 1e-3


@dataclass(frozen=True)
class Proposal:
    """Members on a graph, chunks an addend is split into, sums to be computed, and how many of the members pool what they see."""

    graph: Graph
    chunks: int = 5
    iterations: int = 50
    colluders: int = 1
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("chunks", "iterations", "colluders"):
            if getattr(self, name) < 1:
                raise InvalidParameter(f"{name} = {getattr(self, name)} is below 1.", f"Use {name} >= 1.")
        if self.colluders >= self.graph.members:
            raise InvalidParameter(
                f"{self.colluders} of {self.graph.members} members collude: nobody is left to protect.",
                f"Use at most {self.graph.members - 1} colluders.",
            )
        if not self.graph.connected:
            raise InvalidParameter("The graph is not connected: its parts never agree.", "Add edges.")


@dataclass(frozen=True)
class Rounds:
    """Rounds of one sum by each method, and the most values a member sends in them for every number that is summed."""

    method: str
    rounds: int
    values_sent: int
    exact: bool


@dataclass(frozen=True)
class Breach:
    """The probability of one kind of breach in one sum and in all of them; with an interval where it was simulated."""

    what: str
    one_sum: float
    all_sums: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Chain:
    """How likely a chain of blocks is rewritten by this share of the power, and confirmations needed for a small risk."""

    share: float
    confirmations: int
    rewritten: float
    rewritten_nakamoto: float
    confirmations_needed: int | None
    risk: float


@dataclass(frozen=True)
class Assessment:
    """Everything there is to say about a proposal."""

    proposal: Proposal
    rounds: tuple[Rounds, ...]
    breaches: tuple[Breach, ...]
    recovered: int | None
    honest: int
    chain: Chain

    @property
    def masks_hide(self) -> bool:
        """Whether masks leave anything hidden: the sum itself shows the addend of the only honest member."""
        return self.honest >= 2

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        graph = self.proposal.graph
        return {
            "members": graph.members,
            "graph": graph.name,
            "degree": graph.largest_degree,
            "chunks": self.proposal.chunks,
            "iterations": self.proposal.iterations,
            "colluders": self.proposal.colluders,
            "tolerance": self.proposal.tolerance,
            "rounds": [asdict(each) for each in self.rounds],
            "breaches": [asdict(each) for each in self.breaches],
            "observability": {"recovered": self.recovered, "of": self.honest},
            "masks": {
                "rounds": len(dissemination.rounds_of(graph.members)),
                "breach": 0.0 if self.masks_hide else 1.0,
                "tolerated_colluders": graph.members - 2,
            },
            "chain": asdict(self.chain),
        }


def assessed(proposal: Proposal, trials: int, generator: np.random.Generator) -> Assessment:
    """All numbers; simulations use so many trials."""
    members, colluders = proposal.graph.members, proposal.colluders
    share = colluders / members
    return Assessment(
        proposal,
        rounds_of(proposal),
        breaches_of(proposal, trials, generator),
        observed_addends(proposal, generator) if members <= MOST_ATTACKED_MEMBERS else None,
        members - colluders,
        Chain(
            share,
            CONFIRMATIONS,
            rewrite_probability(share, CONFIRMATIONS),
            nakamoto_probability(share, CONFIRMATIONS),
            confirmations_needed(share, CONFIRMED_RISK),
            CONFIRMED_RISK,
        ),
    )


def rounds_of(proposal: Proposal) -> tuple[Rounds, ...]:
    """One sum by each way of averaging over the graph, and by dissemination, which needs no graph."""
    plans = {method: averaging_plan(proposal.graph, method, proposal.tolerance) for method in METHODS}
    constant, spread = plans["constant"], dissemination.rounds_of(proposal.graph.members)
    chunked = (proposal.chunks * len(constant.rounds), proposal.chunks * constant.values_sent)
    return (
        Rounds("chunks, constant step", *chunked, exact=False),
        *(
            Rounds(METHOD_NAMES[method], len(plan.rounds), plan.values_sent, exact=method == "finite_time")
            for method, plan in plans.items()
        ),
        Rounds("masks, dissemination", len(spread), sum(map(_values_sent, spread)), exact=True),
    )


def _values_sent(round_: dissemination.Round) -> int:
    return int(round_.sends_window) + int(round_.sends_partial)


def breaches_of(proposal: Proposal, trials: int, generator: np.random.Generator) -> tuple[Breach, ...]:
    """Bounds, exact values and simulations for members that keep first messages only."""
    graph, chunks, colluders = proposal.graph, proposal.chunks, proposal.colluders
    found = [
        _breach(proposal, "a given member: bound (1.34)", min(1.0, breach_bound(graph, chunks))),
        _breach(proposal, "a given member: exactly", float(breach_probability(graph, chunks))),
        _breach(proposal, "anybody: bound (1.35)", min(1.0, any_breach_bound(graph, chunks))),
        _breach(proposal, "anybody: bound, pairs once", min(1.0, any_pair_bound(graph, chunks))),
        _simulated(proposal, "anybody: simulated", simulated_any_breach(graph, chunks, trials, generator)),
    ]
    if colluders > 1:
        pooled = float(coalition_probability(graph, colluders, chunks))
        simulated = simulated_coalition_breach(graph, colluders, chunks, trials, generator)
        found += [
            _breach(proposal, f"a given member, {colluders} colluders: exactly", pooled),
            _simulated(proposal, f"anybody, {colluders} colluders: simulated", simulated),
        ]
    return tuple(found)


def observed_addends(proposal: Proposal, generator: np.random.Generator) -> int:
    """How many addends the colluders solve for in one sum if they know the relabellings and keep all messages they get."""
    graph, colluders = proposal.graph, proposal.colluders
    known = np.ones(graph.members, dtype=np.bool_)
    plan = averaging_plan(graph, "constant", proposal.tolerance)
    for _ in range(proposal.chunks):
        places = generator.permutation(graph.members)
        known &= determined_members(plan, places[:colluders].tolist(), graph.members)[places]
    return int(known[colluders:].sum())


def breach_by_chunks(proposal: Proposal, most_chunks: int) -> dict[str, list[float]]:
    """How breaches in one sum fall with the number of chunks, from 1 to so many."""
    graph, colluders = proposal.graph, proposal.colluders
    numbers = range(1, most_chunks + 1)
    curves = {
        "anybody: bound (1.35)": [min(1.0, any_breach_bound(graph, number)) for number in numbers],
        "a given member: exactly": [float(breach_probability(graph, number)) for number in numbers],
    }
    if colluders > 1:
        curves[f"a given member, {colluders} colluders: exactly"] = [
            float(coalition_probability(graph, colluders, number)) for number in numbers
        ]
    return curves


def _breach(proposal: Proposal, what: str, probability: float) -> Breach:
    return Breach(what, probability, composed(probability, proposal.iterations))


def _simulated(proposal: Proposal, what: str, simulation: Simulation) -> Breach:
    low, high = simulation.interval()
    return Breach(what, simulation.probability, composed(simulation.probability, proposal.iterations), low, high)

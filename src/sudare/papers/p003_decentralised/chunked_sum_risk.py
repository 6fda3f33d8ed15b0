"""How often random chunking shows somebody's addend, and how often a chain of blocks can be rewritten.

Chunking (Algorithm 2 of Ide 2021) splits an addend into N_c chunks and sends each to the neighbours that a fresh random relabelling gives. The
*breach* of (1.33) to (1.35) is that one other member was a neighbour in all N_c of them. What the formulas need, and real members need not grant:

- the relabellings are uniform and independent, and nobody but the router chooses them;
- members do not pool what they see (`coalition_*` drops this);
- they forget everything but the first message of each chunk (`sudare.papers.p003_decentralised.attacks` drops this, and then chunking protects nobody);
- one sum is computed (`composed` drops this).

Probabilities of one member are exact fractions; those of "anybody" are bounds and simulations.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.graphs import Graph
from sudare.papers.p003_decentralised.spectra import adjacency
from sudare.parameter_checks import Numbers

_NUMBERS_AT_ONCE: Final = 2_000_000
MOST_CONFIRMATIONS: Final = 1 << 20
_WHOLE: Final = Numbers(0, whole=True)
_SHARES: Final = Numbers(0, 1)


# One member


def neighbour_probability(graph: Graph) -> Fraction:
    """(1.33): that j sits next to s after a random relabelling; d/(S − 1), where d is the mean degree if degrees differ."""
    return Fraction(2 * len(graph.edges), graph.members * (graph.members - 1))


def breach_bound(graph: Graph, chunks: int) -> float:
    """(1.34): (S − 1)(d/(S − 1))^N_c bounds the breach of one given member; above 1 it says nothing."""
    return float((graph.members - 1) * neighbour_probability(graph) ** _positive("chunks", chunks))


def breach_probability(graph: Graph, chunks: int) -> Fraction:
    """What (1.34) bounds, exactly: some single other member sits next to s in every chunk.

    Neighbours of s are a uniform set of d others in each chunk; inclusion and exclusion over who is in all of these sets.
    """
    others = graph.members - 1
    _positive("chunks", chunks)
    if neighbour_probability(graph) == 1:
        return Fraction(1)
    return Fraction(
        sum(
            (-1) ** (size + 1) * math.comb(others, size) * _all_neighbours(graph, size) ** chunks
            for size in range(1, graph.largest_degree + 1)
        )
    )


def coalition_probability(graph: Graph, colluders: int, chunks: int) -> Fraction:
    """That these colluders together got every chunk of one given member outside, exactly."""
    others = graph.members - 1
    if not 1 <= colluders <= others:
        raise InvalidParameter(f"{colluders} colluders among {graph.members} members.", f"Use 1 to {others}.")
    unseen = _mean_over_places(graph, lambda d: Fraction(math.comb(others - colluders, d), math.comb(others, d)))
    return (1 - unseen) ** _positive("chunks", chunks)


def _all_neighbours(graph: Graph, size: int) -> Fraction:
    """That a given set of so many others sits next to s."""
    others = graph.members - 1
    return _mean_over_places(
        graph,
        lambda d: Fraction(math.comb(others - size, d - size), math.comb(others, d)) if size <= d else Fraction(0),
    )


def _mean_over_places(graph: Graph, probability: Any) -> Fraction:
    """Relabelling puts s at every place equally often: a mean over degrees."""
    counted = Counter(graph.degrees).items()
    return Fraction(sum(count * probability(degree) for degree, count in counted)) / graph.members


# Anybody


def any_breach_bound(graph: Graph, chunks: int) -> float:
    """The last form of (1.35), as the chance of a breach: S(S − 1)(d_max/(S − 1))^N_c."""
    others = graph.members - 1
    return float(graph.members * others * Fraction(graph.largest_degree, others) ** _positive("chunks", chunks))


def any_pair_bound(graph: Graph, chunks: int) -> float:
    """Half of it: who sits next to whom is mutual, so there are S(S − 1)/2 pairs to add up, each with (1.33)'s chance."""
    pairs = math.comb(graph.members, 2)
    return float(pairs * neighbour_probability(graph) ** _positive("chunks", chunks))


def composed(probability: float, iterations: int) -> float:
    """That it happens at least once in so many independent sums."""
    _positive("iterations", iterations)
    if probability >= 1:
        return 1.0
    return -math.expm1(iterations * math.log1p(-probability))


@dataclass(frozen=True)
class Simulation:
    """How often something happened in independent trials."""

    hits: int
    trials: int

    @property
    def probability(self) -> float:
        """The share of trials."""
        return self.hits / self.trials

    def interval(self, confidence: float = 0.99) -> tuple[float, float]:
        """Clopper and Pearson's: covers the truth with at least this probability."""
        found = stats.binomtest(self.hits, self.trials).proportion_ci(confidence, method="exact")
        return float(found.low), float(found.high)


def simulated_any_breach(graph: Graph, chunks: int, trials: int, generator: np.random.Generator) -> Simulation:
    """Sums in which somebody sat next to somebody else in every chunk. No bound: what happens."""
    _positive("chunks", chunks)
    if neighbour_probability(graph) == 1:
        return Simulation(trials, _positive("trials", trials))
    linked = adjacency(graph) > 0
    # The first chunk's relabelling may be the identity: only places relative to each other matter.
    edges = np.array(graph.edges)
    hits = 0
    for batch in _batches(trials, max(graph.members, len(edges))):
        trial, pair = (each.ravel() for each in np.indices((batch, len(edges))))
        for _ in range(chunks - 1):
            alive, trial = np.unique(trial, return_inverse=True)
            if not len(alive):
                break
            places = _relabellings(len(alive), graph.members, generator)
            first, second = edges[pair].T
            kept = linked[places[trial, first], places[trial, second]]
            trial, pair = trial[kept], pair[kept]
        hits += len(np.unique(trial))
    return Simulation(hits, trials)


def simulated_coalition_breach(
    graph: Graph, colluders: int, chunks: int, trials: int, generator: np.random.Generator
) -> Simulation:
    """Sums in which so many colluders together got every chunk of somebody outside."""
    coalition_probability(graph, colluders, chunks)
    linked = adjacency(graph) > 0
    hits = 0
    for batch in _batches(trials, graph.members * colluders):
        exposed = np.ones((batch, graph.members - colluders), dtype=np.bool_)
        for _ in range(chunks):
            places = _relabellings(batch, graph.members, generator)
            watched = linked[places[:, :colluders]].any(axis=1)
            exposed &= np.take_along_axis(watched, places[:, colluders:], axis=1)
        hits += int(exposed.any(axis=1).sum())
    return Simulation(hits, trials)


def _relabellings(count: int, members: int, generator: np.random.Generator) -> NDArray[np.intp]:
    return generator.permuted(np.tile(np.arange(members), (count, 1)), axis=1)


def _batches(trials: int, numbers_a_trial: int) -> list[int]:
    """Trials in parts whose numbers fit into memory."""
    size = max(1, _NUMBERS_AT_ONCE // numbers_a_trial)
    full, rest = divmod(_positive("trials", trials), size)
    return [size] * full + ([rest] if rest else [])


# Chains of blocks (section 1.3)


def catch_up_probability(share: float, behind: int) -> float:
    """(1.25), the gambler's ruin: that an attacker with this share q of the power ever makes up so many blocks.

    (q/p)^z where q < p, else 1: from one half on, not from 51 %, every past can be rewritten.
    """
    _WHOLE.check("behind", behind)
    rival = 1 - _share(share)
    return 1.0 if share >= rival else (share / rival) ** behind


def nakamoto_probability(share: float, confirmations: int) -> float:
    """Section 11 of Nakamoto (2008): the attacker works while z blocks confirm, his own counted as Poisson(zq/p)."""
    _WHOLE.check("confirmations", confirmations)
    rival = 1 - _share(share)
    if share >= rival or confirmations == 0:
        return 1.0
    mined = np.arange(confirmations + 1)
    law = stats.poisson(confirmations * share / rival)
    return float(law.sf(confirmations) + (law.pmf(mined) * (share / rival) ** (confirmations - mined)).sum())


def rewrite_probability(share: float, confirmations: int) -> float:
    """The same without the Poisson approximation, which flatters small risks: his blocks are negative binomial, and it sums to I_{4pq}(z, ½).

    (Rosenfeld 2014; the closed form is that of Grunspan and Pérez-Marco 2018.)
    """
    _WHOLE.check("confirmations", confirmations)
    rival = 1 - _share(share)
    if share >= rival or confirmations == 0:
        return 1.0
    return float(special.betainc(confirmations, 0.5, 4 * rival * share))


def confirmations_needed(share: float, risk: float, *, exact: bool = True) -> int | None:
    """The fewest confirmations after which a rewrite is less likely than `risk`; None where no number up to 2²⁰ is enough."""
    probability = rewrite_probability if exact else nakamoto_probability
    if not 0 < risk < 1:
        raise InvalidParameter(f"risk = {risk} is not between 0 and 1.", "Use for example 0.001.")
    high = 1
    while probability(share, high) >= risk:
        high *= 2
        if high > MOST_CONFIRMATIONS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if probability(share, middle) >= risk else (low, middle)
    return high


def _share(share: float) -> float:
    if not _SHARES.holds(share):
        raise InvalidParameter(f"A share of {share} is not between 0 and 1.", "Use for example 0.1.")
    return share


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise InvalidParameter(f"{name} = {value} is below 1.", f"Use {name} >= 1.")
    return value

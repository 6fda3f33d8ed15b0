"""Figures 1.4, 1.5, 1.6 and 1.9 of paper 003 (Ide 2021) as far as they concern sums, and what the chapter leaves out: breaches and attacks.

Figures 1.1, 1.2, 1.3 and 1.7 are drawings; 1.8 is about the dictionary. Nothing here is differentially private: tables say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.papers.p003_decentralised.attacks import recovered, recovered_addends, transcript_of
from sudare.papers.p003_decentralised.averaging import Method, averaging_plan, trajectory
from sudare.papers.p003_decentralised.chunking_assessment import Proposal
from sudare.papers.p003_decentralised.chunking_plots import chain_panel, chunks_panel
from sudare.papers.p003_decentralised.chunking_risk import (
    any_breach_bound,
    any_pair_bound,
    breach_bound,
    breach_probability,
    catch_up_probability,
    coalition_probability,
    composed,
    confirmations_needed,
    nakamoto_probability,
    rewrite_probability,
    simulated_any_breach,
)
from sudare.papers.p003_decentralised.graphs import (
    Graph,
    cycle,
    cycle_with_inverse_chords,
    hypercube,
    prime_factors,
    random_regular,
)
from sudare.papers.p003_decentralised.spectra import (
    chebyshev_rounds,
    constant_rounds,
    cycle_second_eigenvalue,
    rounds_to,
)
from sudare.papers.study import Cell, Estimate, ResultTable
from sudare.report.plots import Panel, Series, curves
from sudare.sums import dissemination

Floats = NDArray[np.float64]

REACHES: Final = (1, 2, 4, 8, 16)
PRINTED_ROUNDS: Final = {1: 236, 2: 47, 3: 6}
TOLERANCE: Final = 1e-3
WIDEST_VALUE: Final = 10.0
FIGURE_1_9_ERROR: Final = 0.01
FIGURE_1_9_CHUNKS: Final = 5
NOT_PRIVATE: Final = "No differential privacy: every member sees the exact sum."


def uniform_values(members: int, generator: np.random.Generator, numbers: int = 1) -> Floats:
    """First values as in figures 1.4 and 1.9: uniform between −10 and 10."""
    return generator.uniform(-WIDEST_VALUE, WIDEST_VALUE, (members, numbers))


def root_mean_square(values: Floats, mean: Floats) -> float:
    """How far members are from the mean, in the units of the values."""
    return float(np.sqrt(np.square(values - mean).mean()))


# Figure 1.4: twelve values run together


def figure_1_4(generator: np.random.Generator, rounds: int = 30) -> tuple[ResultTable, Panel]:
    """Dynamic consensus on the cycle of 12 members with b = 2 and ε = 1/4b."""
    graph = cycle(12, 2)
    values = uniform_values(12, generator)
    states = np.array(list(trajectory(values, averaging_plan(graph, "constant", rounds=rounds))))[:, :, 0]
    mean, second = float(values.mean()), cycle_second_eigenvalue(12, 2)
    first = root_mean_square(states[0], values.mean(axis=0))
    rows: list[Sequence[Cell]] = [
        (count, root_mean_square(states[count], values.mean(axis=0)) / first, second**count)
        for count in (5, 10, 20, rounds)
    ]
    table = ResultTable(
        "Figure 1.4: twelve members run together",
        ("round", "disagreement left, measured", "ν₂^t"),
        rows,
        f"Cycle of 12, b = 2, ε = 1/8: ν₂ = {second:.4f}, as printed. After the 20 rounds that the chapter calls almost complete convergence, "
        f"members still differ by a few per cent of their first values. {NOT_PRIVATE}",
    )
    lines = [Series("a member's value", list(states[:, member])) for member in range(12)]
    lines.append(Series("mean", [mean] * (rounds + 1), dashed=True))
    return table, curves(list(range(rounds + 1)), lines, x_label="round", y_label="value")


# Figure 1.5: the second eigenvalue and the rounds of cycles


def figure_1_5(largest: int = 100) -> tuple[ResultTable, list[Panel]]:
    """ν₂ and rounds to 1e-3 against the number of members; ε = 1/4b."""
    rows: list[Sequence[Cell]] = [
        (reach, printed, rounds_to(TOLERANCE, cycle_second_eigenvalue(10, reach)))
        for reach, printed in PRINTED_ROUNDS.items()
    ]
    table = ResultTable(
        "Figure 1.5: rounds until ν₂^t ≤ 1e-3 at S = 10",
        ("b", "paper", "ours"),
        rows,
        "Cycles with ε = 1/4b. No single step gives the printed three. (1.50) is right with ε = 1/4b put in: rounds grow like S²/b², not S²/b³.",
    )
    members = list(range(5, largest + 1, 5))
    eigenvalues = _for_each_reach(members, cycle_second_eigenvalue)
    rounds = _for_each_reach(
        members, lambda count, reach: rounds_to(TOLERANCE, cycle_second_eigenvalue(count, reach)) or math.nan
    )
    return table, [
        curves(members, eigenvalues, x_label="members S", y_label="ν₂ (ε = 1/4b)"),
        curves(members, rounds, x_label="members S", y_label="rounds until ν₂^t ≤ 1e-3"),
    ]


def _for_each_reach(members: Sequence[int], value: Callable[[int, int], float]) -> list[Series]:
    """A line for each b, where S is large enough for it."""
    return [
        Series(f"b = {reach}", [value(count, reach) if count > 2 * reach else math.nan for count in members])
        for reach in REACHES
    ]


# Figure 1.6: inverse chords


def figure_1_6(largest: int = 60) -> tuple[ResultTable, list[Panel]]:
    """Rounds until √S·contraction^t ≤ 1e-3: the printed step, and what the best methods need on the same graphs."""
    members = list(range(5, largest + 1))
    plain = {
        reach: [_printed_step_rounds(cycle(count, reach)) for count in members if count > 2 * reach] for reach in (1, 2)
    }
    chords = {count: cycle_with_inverse_chords(count) for count in members}
    printed = [_printed_step_rounds(graph) for graph in chords.values()]
    accelerated = [float(chebyshev_rounds(graph, TOLERANCE / math.sqrt(graph.members))) for graph in chords.values()]
    rows: list[Sequence[Cell]] = [
        (
            count,
            "yes" if len(prime_factors(count)) == 1 else "no",
            len(chords[count].edges) - count,
            _whole(_printed_step_rounds(cycle(count))),
            _whole(_printed_step_rounds(chords[count])),
            chebyshev_rounds(chords[count], TOLERANCE / math.sqrt(count)),
            len(dissemination.rounds_of(count)),
        )
        for count in (10, 11, 12, 23, 24, 47, 48, 59, 60)
        if count <= largest
    ]
    table = ResultTable(
        "Figure 1.6: rounds until √S·(contraction)^t ≤ 1e-3",
        (
            "S",
            "prime",
            "chords",
            "cycle b = 1, ε = 1/d",
            "chords, ε = 1/d",
            "chords, Chebyshev",
            "dissemination (exact)",
        ),
        rows,
        "A dash: never. The printed step ε = 1/d_max leaves the eigenvalue −1 on every even cycle with b = 1. Chords add no edge where S is 5 or "
        "divides 24, and the gap stays away from zero for prime S only: the jumps in the printed figure are these.",
    )
    left = curves(
        members,
        [Series(f"b = {reach}", [math.nan] * (len(members) - len(found)) + found) for reach, found in plain.items()],
        x_label="members S (cycle, ε = 1/d; gaps: never)",
        y_label="rounds",
    )
    right = curves(
        members,
        [Series("ε = 1/d, as printed", printed), Series("Chebyshev", accelerated)],
        x_label="members S (cycle with inverse chords)",
        y_label="rounds",
    )
    return table, [left, right]


def _printed_step_rounds(graph: Graph) -> float:
    rounds = constant_rounds(graph, TOLERANCE / math.sqrt(graph.members), 1 / graph.largest_degree)
    return math.nan if rounds is None else float(rounds)


def _whole(rounds: float) -> int | None:
    return None if math.isnan(rounds) else int(rounds)


# Rounds of all methods


def rounds_table(members: int = 128, seed: int = 4) -> ResultTable:
    """What each graph and method needs for three tolerances."""
    ways: list[tuple[str, Graph, Method]] = [
        ("cycle, ε = 1/4", cycle(members), "constant"),
        ("cycle, best step", cycle(members), "optimal"),
        ("cycle, Chebyshev", cycle(members), "chebyshev"),
        ("inverse chords, Chebyshev", cycle_with_inverse_chords(members), "chebyshev"),
        ("random 4-regular, best step", random_regular(members, 4, seed), "optimal"),
        ("random 4-regular, Chebyshev", random_regular(members, 4, seed), "chebyshev"),
        ("cycle, finite time", cycle(members), "finite_time"),
        ("hypercube, finite time", hypercube(members), "finite_time"),
    ]
    rows: list[Sequence[Cell]] = [
        (name, *(len(averaging_plan(graph, method, tolerance).rounds) for tolerance in (1e-3, 1e-6, 1e-12)))
        for name, graph, method in ways
    ]
    rows.append(("dissemination, every S", *[len(dissemination.rounds_of(members))] * 3))
    return ResultTable(
        f"Rounds of one sum among {members} members",
        ("", "to 1e-3", "to 1e-6", "to 1e-12"),
        rows,
        f"Disagreement left, as a share of the first. Finite time and dissemination are exact. {NOT_PRIVATE}",
    )


# Breaches and attacks


def breach_table(generator: np.random.Generator, trials: int = 50_000, iterations: int = 50) -> ResultTable:
    """Theorem 1.1 beside what happens on some cycles."""
    rows: list[Sequence[Cell]] = []
    for members, reach, chunks in ((10, 1, 5), (10, 2, 5), (20, 2, 3), (20, 2, 5), (20, 2, 10), (50, 2, 5)):
        graph = cycle(members, reach)
        anybody = simulated_any_breach(graph, chunks, trials, generator).probability
        rows.append(
            (
                f"S = {members}, d = {2 * reach}, N_c = {chunks}",
                breach_bound(graph, chunks),
                float(breach_probability(graph, chunks)),
                any_breach_bound(graph, chunks),
                any_pair_bound(graph, chunks),
                anybody,
                composed(anybody, iterations),
                float(coalition_probability(graph, 3, chunks)),
            )
        )
    return ResultTable(
        "Breaches of random chunking, first messages only",
        (
            "",
            "a member: (1.34)",
            "a member: exactly",
            "anybody: (1.35)",
            "anybody: pairs once",
            "anybody: simulated",
            f"in {iterations} sums",
            "a member, 3 colluders",
        ),
        rows,
        f"Uniform and independent relabellings; {trials:,} simulated sums. Bounds above 1 say nothing. All of this assumes members who forget all but "
        "the first message of each chunk; the next table is about those who do not.",
    )


def attack_table(generator: np.random.Generator, chunks: int = 5) -> ResultTable:
    """The observability attack on chunked sums."""
    rows: list[Sequence[Cell]] = [
        _attacked(graph, chunks, generator)
        for graph in (cycle(10), cycle(12, 2), cycle(20, 2), cycle_with_inverse_chords(13), random_regular(20, 4))
    ]
    return ResultTable(
        f"One curious member against {chunks} chunks",
        ("graph", "S", "rounds watched", "addends recovered", "of", "largest error"),
        rows,
        "Chunks are uniform in [−100, 100], addends in [−10, 10]. The member knows the graph of each chunk and keeps what its neighbours send in the first "
        "S rounds. Masks modulo 2⁶⁴ leave it with uniform words: tests/papers/p003_decentralised/test_attacks.py.",
    )


def _attacked(graph: Graph, chunks: int, generator: np.random.Generator) -> Sequence[Cell]:
    members = graph.members
    addends = uniform_values(members, generator)
    parts = generator.uniform(-100, 100, (chunks, members, 1))
    parts[-1] = addends - parts[:-1].sum(axis=0)
    found = []
    for part in parts:
        plan = averaging_plan(graph.relabelled(generator.permutation(members).tolist()), "constant", TOLERANCE)
        found.append(recovered(plan, [0], transcript_of(part, plan, [0], rounds=members)))
    solved = recovered_addends(found)
    known = ~np.isnan(solved[:, 0])
    error = float(np.abs(solved[known] - addends[known]).max())
    return graph.name, members, members, int(known[1:].sum()), members - 1, error


def breach_panel(members: int = 20, reach: int = 2, colluders: int = 3) -> Panel:
    """How breaches fall with the number of chunks."""
    return chunks_panel(Proposal(cycle(members, reach), colluders=colluders))


# Figure 1.9, as far as rounds and values go


def figure_1_9_counts(
    generator: np.random.Generator, repeats: int, members: Sequence[int] = (5, 10, 20, 40)
) -> ResultTable:
    """Rounds until the root mean squared error is 0.01 on the cycle with b = 2, five chunks, and what others need for the same."""
    rows: list[Sequence[Cell]] = []
    for count in members:
        graph = cycle(count, 2)
        measured = [
            FIGURE_1_9_CHUNKS * measured_rounds(graph, uniform_values(count, generator)) for _ in range(repeats)
        ]
        rounds = Estimate.of(measured)
        accelerated = chebyshev_rounds(graph, FIGURE_1_9_ERROR / WIDEST_VALUE)
        exact = dissemination.rounds_of(count)
        sent = sum(round_.sends_window + round_.sends_partial for round_ in exact)
        rows.append((count, rounds, round(4 * rounds.value), accelerated, 4 * accelerated, len(exact), sent))
    return ResultTable(
        "Figure 1.9: rounds and values sent for one number",
        (
            "S",
            "chunks: rounds",
            "values a member sends",
            "Chebyshev: rounds",
            "values",
            "dissemination (exact): rounds",
            "values",
        ),
        rows,
        f"Cycle with b = 2, ε = 1/8, first values uniform in ±10, until the root mean squared error is {FIGURE_1_9_ERROR:g}, {FIGURE_1_9_CHUNKS} chunks, "
        f"± one standard error over {repeats} seeds. Chebyshev's and dissemination's rounds hold for all values in ±10. {NOT_PRIVATE}",
    )


def measured_rounds(graph: Graph, values: Floats, error: float = FIGURE_1_9_ERROR) -> int:
    """Rounds with ε = 1/(2d) until the root mean squared error is small enough."""
    # Values within ±10 are within ten of their mean on average: this many rounds are enough for all.
    plan = averaging_plan(graph, "constant", error / WIDEST_VALUE)
    states, mean = trajectory(values, plan), values.mean(axis=0)
    return next(count for count, state in enumerate(states) if root_mean_square(state, mean) <= error)


# Chains of blocks


def chain_table(shares: Sequence[float] = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)) -> ResultTable:
    """Nakamoto's confirmations for a risk below 0.1 %, and without his approximation."""
    rows: list[Sequence[Cell]] = [
        (
            share,
            catch_up_probability(share, 6),
            nakamoto_probability(share, 6),
            rewrite_probability(share, 6),
            confirmations_needed(share, 1e-3, exact=False),
            confirmations_needed(share, 1e-3),
        )
        for share in shares
    ]
    return ResultTable(
        "Rewriting a chain of blocks",
        (
            "attacker's share q",
            "(1.25), z = 6",
            "Nakamoto, z = 6",
            "exactly, z = 6",
            "z for a risk below 0.001: Nakamoto",
            "exactly",
        ),
        rows,
        "(1.25) starts z blocks behind; Nakamoto (2008) adds what the attacker finds meanwhile, as Poisson; exactly it is negative binomial. From q = ½ on, "
        "not 51 %, every past can be rewritten.",
    )


def chain_figure(share: float = 0.1) -> Panel:
    """The same against the number of confirmations."""
    return chain_panel(share)

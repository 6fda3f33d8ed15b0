"""Figures 1.4, 1.5 and 1.6 of paper 003 (Ide 2021): how averaging over a graph converges, and rounds of other methods and graphs.

Figures 1.1, 1.2, 1.3 and 1.7 are drawings. Nothing here is differentially private: tables say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p003_decentralised.averaging import Method, averaging_plan, trajectory
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
    nonzero_range,
    rounds_to,
)
from sudare.papers.study import Cell, ResultTable
from sudare.report.plots import Panel, Series, curves
from sudare.sums import dissemination

REACHES: Final = (1, 2, 4, 8, 16)
PRINTED_ROUNDS: Final = {1: 236, 2: 47, 3: 6}
TOLERANCE: Final = 1e-3
WIDEST_VALUE: Final = 10.0
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
        "Cycles with ε = 1/4b. No single step gives the printed three. (1.50) is right: with ε = 1/4b put in, rounds grow like S²/b².",
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
            _whole(_formula_rounds(cycle(count))),
            _whole(_printed_step_rounds(cycle(count))),
            _whole(_formula_rounds(chords[count])),
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
            "cycle b = 1, by ν₂",
            "cycle b = 1, ε = 1/d",
            "chords, by ν₂",
            "chords, ε = 1/d",
            "chords, Chebyshev",
            "dissemination (exact)",
        ),
        rows,
        "By ν₂: the printed √S·(ν₂/ν₁)^t, which does not look at negative eigenvalues; beside it rounds until members agree. A dash: never. The printed step ε = 1/d_max leaves the eigenvalue −1 on every even cycle with b = 1. Chords add no edge where S is 5 or "
        "divides 24, and the gap stays away from zero for prime S only: the jumps in the printed figure are these.",
    )
    by_formula = [_formula_rounds(cycle(count)) for count in members]
    left = curves(
        members,
        [
            Series("cycle, b = 1: by ν₂ as printed", by_formula),
            *(
                Series(f"b = {reach}: until members agree", [math.nan] * (len(members) - len(found)) + found)
                for reach, found in plain.items()
            ),
        ],
        x_label="members S (cycle, ε = 1/d; gaps: never)",
        y_label="rounds",
    )
    right = curves(
        members,
        [
            Series("inverse chords: by ν₂ as printed", [_formula_rounds(graph) for graph in chords.values()]),
            Series("until members agree", printed),
            Series("the same by Chebyshev's method", accelerated),
        ],
        x_label="members S (cycle with inverse chords, ε = 1/d)",
        y_label="rounds",
    )
    return table, [left, right]


def _printed_step_rounds(graph: Graph) -> float:
    rounds = constant_rounds(graph, TOLERANCE / math.sqrt(graph.members), 1 / graph.largest_degree)
    return math.nan if rounds is None else float(rounds)


def _formula_rounds(graph: Graph) -> float:
    """The least t with √S·(ν₂/ν₁)^t ≤ 1e-3, where ν₂ is the second largest eigenvalue of W, as printed."""
    second = 1 - nonzero_range(graph)[0] / graph.largest_degree
    rounds = rounds_to(TOLERANCE / math.sqrt(graph.members), max(second, 0.0))
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

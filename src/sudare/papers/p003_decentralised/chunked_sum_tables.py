"""What random chunking shows (Theorem 1.1 of Ide 2021, and the attack it leaves out), and how long a chain of blocks protects (section 1.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sudare.papers.p003_decentralised.attacks import recovered, recovered_addends, transcript_of
from sudare.papers.p003_decentralised.averaging import averaging_plan
from sudare.papers.p003_decentralised.averaging_figures import TOLERANCE, uniform_values
from sudare.papers.p003_decentralised.byzantine_and_proof_of_work import oral_messages_sent, traitors_withstood
from sudare.papers.p003_decentralised.chunked_sum_risk import (
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
from sudare.papers.p003_decentralised.graphs import Graph, cycle, cycle_with_inverse_chords, random_regular
from sudare.papers.study import Cell, ResultTable


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
        f"Uniform and independent relabellings; {trials:,} simulated sums, in which what happened a few times only can by chance lie above its bound. Bounds above 1 say nothing. All of this assumes members who forget all but "
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
        "S rounds. Masks modulo 2⁶⁴ leave it with uniform words: tests/sums/test_word_equations.py.",
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
        "(1.25) starts z blocks behind; Nakamoto (2008) adds what the attacker finds meanwhile, as Poisson; exactly it is negative binomial. From q = ½ on "
        "every past can be rewritten.",
    )


def byzantine_table(members: Sequence[int] = (3, 4, 7, 10, 16, 31)) -> ResultTable:
    """Traitors that oral messages withstand, what they cost, and beside them how much power a proof of work withstands."""
    rows: list[Sequence[Cell]] = [
        (
            count,
            traitors_withstood(count),
            traitors_withstood(count) + 1,
            _roughly(count * oral_messages_sent(count, traitors_withstood(count))),
            (count - 1) // 2,
            confirmations_needed(traitors_withstood(count) / count, 1e-3),
        )
        for count in members
    ]
    return ResultTable(
        "Byzantine generals and the proof of work",
        (
            "members S",
            "traitors withstood",
            "rounds of talk",
            "messages, all opinions",
            "attackers withstood by a proof of work",
            "confirmations against as many traitors",
        ),
        rows,
        "Section 1.3. Fewer than S/3 traitors are withstood by oral messages (Lamport, Shostak and Pease 1982), and messages grow exponentially with them. A proof of work among members of equal power withstands fewer than half, but "
        "only with a probability: the last column is how many blocks must confirm until a rewrite by as many traitors is less likely than 0.001.",
    )


def _roughly(number: int) -> str:
    """A whole number, three digits of it from a million on."""
    return f"{number:,}" if number < 1_000_000 else f"{number:.3g}"

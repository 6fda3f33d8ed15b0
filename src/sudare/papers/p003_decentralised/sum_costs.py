"""What one sum takes by each way of hiding addends: rounds, values, bits, error and seconds (figure 1.9 of Ide 2021)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p003_decentralised.averaging import averaging_plan, trajectory
from sudare.papers.p003_decentralised.averaging_figures import (
    NOT_PRIVATE,
    TOLERANCE,
    WIDEST_VALUE,
    root_mean_square,
    uniform_values,
)
from sudare.papers.p003_decentralised.graphs import Graph, cycle
from sudare.papers.p003_decentralised.other_hidden_sums import hidden_sum
from sudare.papers.p003_decentralised.paillier import keypairs, paillier_cost, paillier_trajectory
from sudare.papers.p003_decentralised.spectra import chebyshev_rounds, laplacian, safe_step
from sudare.papers.repetitions import estimated_series
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.report.plots import Panel, Series, curves
from sudare.sums import MemberKeys, SecureSum, dissemination, secure_sum

MEMBERS: Final = (5, 10, 20, 40)
CHUNKS: Final = 5
FIGURE_1_9_ERROR: Final = 0.01
FIGURE_1_9_SEED: Final = 19
# The length of keys is not printed. A sum with keys of 2048 bits takes seven times as long as with 1024, and over twice as many members eight times.
KEY_BITS_DRAWN: Final = (1024, 2048)
MOST_MEMBERS: Final = {256: 10, 1024: 20, 2048: 10}
COMPARED_MEMBERS: Final = 10
KEY_BITS: Final = 2048


def figure_1_9_counts(generator: np.random.Generator, repeats: int, members: Sequence[int] = MEMBERS) -> ResultTable:
    """Rounds until the root mean squared error is 0.01 on the cycle with b = 2, five chunks, and what others need for the same."""
    rows: list[Sequence[Cell]] = []
    for count in members:
        graph = cycle(count, 2)
        measured = [CHUNKS * measured_rounds(graph, uniform_values(count, generator)) for _ in range(repeats)]
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
        f"Cycle with b = 2, ε = 1/8, first values uniform in ±10, until the root mean squared error is {FIGURE_1_9_ERROR:g}, {CHUNKS} chunks, "
        f"± one standard error over {repeats} seeds. Chebyshev's and dissemination's rounds hold for all values in ±10. {NOT_PRIVATE}",
    )


def measured_rounds(graph: Graph, values: Floats, error: float = FIGURE_1_9_ERROR) -> int:
    """Rounds with ε = 1/(2d) until the root mean squared error is small enough."""
    # Values within ±10 are within ten of their mean on average: this many rounds are enough for all.
    plan = averaging_plan(graph, "constant", error / WIDEST_VALUE)
    states, mean = trajectory(values, plan), values.mean(axis=0)
    return next(count for count, state in enumerate(states) if root_mean_square(state, mean) <= error)


def figure_1_9(
    generator: np.random.Generator,
    repeats: int,
    tell: Tell,
    key_bits: Sequence[int] = KEY_BITS_DRAWN,
    encrypted_repeats: int = 2,
) -> tuple[ResultTable, Panel]:
    """Seconds for one agreed number: chunks as in the chapter, Paillier's encryption where it can be waited for, and masks."""
    rows: list[Sequence[Cell]] = []
    own = np.random.default_rng(FIGURE_1_9_SEED)
    for members in MEMBERS:
        tell(f"one sum over {members} members by each way")
        values = generator.uniform(-WIDEST_VALUE, WIDEST_VALUE, members)[:, np.newaxis]
        keys, graph = [MemberKeys.generated() for _ in range(members)], cycle(members, 2)
        chunked = _seconds(partial(chunked_total, values, graph, CHUNKS, own), repeats)
        masked = _seconds(partial(secure_sum, list(values), keys=keys), repeats)
        encrypted = [
            _seconds(partial(encrypted_total, values, graph, bits, own), encrypted_repeats)
            if members <= MOST_MEMBERS[bits]
            else None
            for bits in key_bits
        ]
        rows.append((members, *encrypted, chunked, masked))
    table = ResultTable(
        "Figure 1.9: seconds for one sum of one number, all members in one process",
        ("S", *(f"Paillier, {bits} bits, new keys" for bits in key_bits), f"{CHUNKS} chunks", "masks, keys kept"),
        rows,
        f"Cycle with b = 2 for chunks and Paillier, until the root mean squared error is {FIGURE_1_9_ERROR:g}; masks are exact. Processor seconds, ± one standard error over {repeats} runs on one "
        f"machine, of Paillier over {encrypted_repeats}; a dash: not waited for. As the chapter finds, encryption is slower by orders of magnitude. Its text gives neither seconds nor the length of keys nor how often it measured. Chunks and masks take "
        "milliseconds alike for one number; masks are exact, send less and hide more.",
    )
    columns = list(zip(*rows, strict=True))
    names = [
        *(f"Paillier cipher, {bits} bits" for bits in key_bits),
        f"random chunking, N_C = {CHUNKS}",
        "masks (ours)",
    ]
    series = [_drawn(name, cells) for name, cells in zip(names, columns[1:], strict=True)]
    return table, curves(MEMBERS, series, x_label="members S", y_label="processor seconds", logarithmic=True)


def chunked_total(values: Floats, graph: Graph, chunks: int, generator: np.random.Generator) -> tuple[Floats, int]:
    """Algorithm 2: each member's idea of the sum, and the rounds of all chunks, each averaged until its root mean squared error is 0.01."""
    totals, rounds = np.zeros_like(values), 0
    parts = generator.uniform(-WIDEST_VALUE, WIDEST_VALUE, (chunks, *values.shape))
    parts[-1] = values - parts[:-1].sum(axis=0)
    for part in parts:
        moves = safe_step(graph) * laplacian(graph.relabelled(generator.permutation(len(values)).tolist()))
        state, mean = part, part.mean(axis=0)
        while root_mean_square(state, mean) > FIGURE_1_9_ERROR:
            state = state - moves @ state
            rounds += 1
        totals += len(values) * state
    return totals, rounds


def encrypted_total(values: Floats, graph: Graph, key_bits: int, generator: np.random.Generator) -> tuple[Floats, int]:
    """The same under Paillier's encryption with fresh keys, without chunks."""
    mean = values.mean(axis=0)
    states = paillier_trajectory(values, graph, keypairs(len(values), key_bits), generator.bytes(32))
    return next(
        (len(values) * state, rounds)
        for rounds, state in enumerate(states)
        if root_mean_square(state, mean) <= FIGURE_1_9_ERROR
    )


def _drawn(name: str, cells: Sequence[Cell]) -> Series:
    """A line of seconds; a gap where there are none."""
    missing = Estimate(math.nan, math.nan, 0)
    return estimated_series(name, [cell if isinstance(cell, Estimate) else missing for cell in cells])


def _seconds(job: Callable[[], object], times: int) -> Estimate:
    """Processor seconds of so many runs: they hardly depend on what else the machine does."""
    measured = []
    for _ in range(times):
        start = time.process_time()
        job()
        measured.append(time.process_time() - start)
    return Estimate.of(measured)


def sums_table(generator: np.random.Generator, numbers: int = 1_000) -> ResultTable:
    """Ten members, values uniform between −10 and 10 as in figure 1.9, and for each way what was sent, counted message by message."""
    vectors = list(generator.uniform(-WIDEST_VALUE, WIDEST_VALUE, (COMPARED_MEMBERS, numbers)))
    masks = secure_sum(vectors)
    rows = [
        _row("masks, dissemination", masks, vectors, masks),
        _row("masks, one may leave (t = 9)", secure_sum(vectors, threshold=COMPARED_MEMBERS - 1), vectors, masks),
        _row("additive shares", hidden_sum(vectors, hide="shares"), vectors, masks),
        _row("Shamir shares (t = 6)", hidden_sum(vectors, hide="shamir"), vectors, masks),
    ]
    for reach in (1, 2, 3):
        chunked = hidden_sum(
            vectors,
            "chunks",
            cycle(COMPARED_MEMBERS, reach),
            chunks=CHUNKS,
            chunk_spread=WIDEST_VALUE,
            tolerance=TOLERANCE,
        )
        rows.append(_row(f"{CHUNKS} chunks, cycle of reach {reach}", chunked, vectors, masks))
    cost = paillier_cost(cycle(COMPARED_MEMBERS, 2), TOLERANCE, KEY_BITS)
    encrypted = cost.bits_per_number / COMPARED_MEMBERS
    ratio = encrypted / _bits_each(masks, numbers)
    rows.append(["Paillier 2048, cycle of reach 2", cost.rounds, cost.ciphertexts_per_round, encrypted, None, ratio])
    return ResultTable(
        f"One sum over {COMPARED_MEMBERS} members of {numbers:,} numbers",
        ["way", "rounds", "values a round", "bits a member and number", "relative error", "bits ÷ masks"],
        rows,
        "No differential privacy: every member sees the sum. Averaging stops when disagreement is 1/1000 of the first; the relative "
        "error of the sum, the worst member's, is then larger, so that chunks would need still more bits for 1e-3. Values a round are the most that one member sends for each number. "
        "Paillier's line is counted, not run: each value is two numbers of 4096 bits on every edge.",
    )


def _row(name: str, found: SecureSum, vectors: Sequence[Floats], masks: SecureSum) -> list[Cell]:
    exact = np.sum(vectors, axis=0)
    error = max(float(np.linalg.norm(total - exact)) for total in found.totals if total is not None)
    relative = error / float(np.linalg.norm(exact))
    numbers = len(exact)
    ratio = _bits_each(found, numbers) / _bits_each(masks, numbers)
    return [name, found.rounds, found.values_per_round, _bits_each(found, numbers), relative, ratio]


def _bits_each(found: SecureSum, numbers: int) -> float:
    """Bits that a member sends for each number, on average."""
    return found.bits_sent / len(found.totals) / numbers

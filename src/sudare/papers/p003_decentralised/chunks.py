"""Random chunking, Algorithm 2 of Ide (2021): split a value, average each chunk over the graph with members' places shuffled, add up.

It hides little. A member that sees a neighbour's first message of every chunk knows its value; a member that remembers what it sees
recovers everyone's (`consensus.attacks`). It is here to be compared with; use masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.averaging import Method, Plan, averaging_plan, trajectory
from sudare.papers.p003_decentralised.graphs import Graph
from sudare.sums.streams import derived, permutation, unit_floats

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ChunkRun:
    """One chunk of every member (members × numbers) and the plan that averages it, over a graph with shuffled places."""

    values: Floats
    plan: Plan


def chunked(values: Floats, count: int, spread: float, seed: bytes) -> Floats:
    """Chunks (count × numbers) that add up to the values (1.31): all but the last uniform in ±spread, whatever the values are."""
    if count < 1 or not spread > 0:
        raise InvalidParameter(
            f"{count} chunks of spread {spread} are not defined.", "Use at least one chunk and a positive spread."
        )
    free = spread * (2 * unit_floats(seed, (count - 1) * len(values)) - 1)
    rows = free.reshape(count - 1, len(values))
    return np.vstack([rows, values - rows.sum(axis=0)])


def chunk_runs(
    vectors: Floats, graph: Graph, count: int, spread: float, method: Method, tolerance: float, seed: bytes
) -> Iterator[ChunkRun]:
    """Lines 3 to 8 of Algorithm 2 for members' vectors (members × numbers). Places are public; chunks are each member's own."""
    chunks = np.stack(
        [
            chunked(vector, count, spread, derived(seed, b"chunks", member.to_bytes(4, "big")))
            for member, vector in enumerate(vectors)
        ]
    )
    for number in range(count):
        places = permutation(derived(seed, b"places", number.to_bytes(4, "big")), graph.members)
        yield ChunkRun(chunks[:, number], averaging_plan(graph.relabelled(places), method, tolerance))


def averaged_sum(run: ChunkRun) -> Floats:
    """What each member takes for the sum of a chunk: S times its value after the last round (1.30)."""
    last = run.values
    for state in trajectory(run.values, run.plan):
        last = state
    return np.asarray(run.plan.members * last)

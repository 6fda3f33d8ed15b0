"""Other ways to hide addends than the product's masks, on the same vectors: additive and Shamir shares, chunks, Paillier.

Additive shares modulo 2^64 (proofs/secure_sums.md): each member gives one share to every member, adds what it received, and the members sum those
sums. Fewer than S − 1 colluders learn nothing but the sum of the others, as with masks, but everyone sends S − 1 vectors.

Random chunking (Algorithm 2 of Ide 2021): split a value, average each chunk over the graph with members' places shuffled, add up. It hides little.
A member that sees a neighbour's first message of every chunk knows its value; one that remembers what it sees recovers everyone's (`attacks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats, Words
from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.averaging import Method, Plan, averaging_plan, trajectory
from sudare.papers.p003_decentralised.graphs import Graph, graph_named
from sudare.papers.p003_decentralised.paillier import keypairs, paillier_average
from sudare.parameter_checks import Numbers
from sudare.sums import shamir
from sudare.sums.fixed_point import WORD_BITS, FixedPoint, vector_of_numbers
from sudare.sums.in_process import SecureSum, WordSum, check_lengths, decoded_sum, disseminated, encoded_vectors
from sudare.sums.pseudorandom_streams import derived, fresh_seed, permutation, stretched, unit_floats

OtherHide = Literal["shares", "shamir", "chunks", "paillier"]
OTHER_HIDES: Final[tuple[OtherHide, ...]] = get_args(OtherHide)
_ARGUMENTS: Final = {
    "threshold": Numbers(whole=True, optional=True),
    "chunks": Numbers(1, whole=True),
    "chunk_spread": Numbers(0),
    "tolerance": Numbers(0, 1, open_low=True, open_high=True),
    "key_bits": Numbers(16, whole=True),
}


def hidden_sum(
    vectors: Sequence[ArrayLike],
    hide: OtherHide,
    over: str | Graph | None = None,
    *,
    fixed_point: FixedPoint | None = None,
    threshold: int | None = None,
    chunks: int = 5,
    chunk_spread: float = 1.0,
    method: Method = "constant",
    tolerance: float = 1e-3,
    key_bits: int = 2048,
) -> SecureSum:
    """The sum of one vector per member, as each member learns it; in one process. `sudare.sums.secure_sum` is the way to use.

    Parameters
    ----------
    vectors : one float array for each member, all of one length.
    hide : "shares" (additive), "shamir", "chunks" (Algorithm 2 of Ide 2021) or "paillier" (Ruan et al. 2017).
    over : chunks and Paillier only: the graph they are averaged over, or its name.
    fixed_point : declared range and precision of shares; ±2^20 in steps of 2^−32 if not given.
    threshold : Shamir only: so many shares open the sum; ⌊S/2⌋ + 1 if not given.
    chunks, chunk_spread : how many chunks, uniform in ± the spread.
    method, tolerance : how chunks are averaged, until disagreement is at most tolerance times the first one; the tolerance also for Paillier.
    key_bits : size of Paillier's keys.
    """
    if hide not in OTHER_HIDES:
        raise InvalidParameter(f"There is no way of hiding named {hide!r}.", f"Use one of: {', '.join(OTHER_HIDES)}.")
    given = {
        "threshold": threshold,
        "chunks": chunks,
        "chunk_spread": chunk_spread,
        "tolerance": tolerance,
        "key_bits": key_bits,
    }
    for name, value in given.items():
        _ARGUMENTS[name].check(name, value)
    if threshold is not None and hide != "shamir":
        raise InvalidParameter(f"Sums under {hide} have no threshold.", "Leave threshold away, or hide by 'shamir'.")
    if hide in ("shares", "shamir"):
        if over is not None:
            raise InvalidParameter(
                f"Under {hide} words are summed exactly; averaging over a graph would not.", "Leave over= away."
            )
        return _shared_sum(vectors, hide, FixedPoint() if fixed_point is None else fixed_point, threshold)
    rows = _finite_rows(vectors)
    graph = _graph(over, len(rows), hide)
    if hide == "paillier":
        return _under_paillier(rows, graph, tolerance, key_bits)
    return _in_chunks(chunk_runs(rows, graph, chunks, chunk_spread, method, tolerance, fresh_seed()), rows)


# Exact ways: words modulo 2^64, or modulo a prime


def additive_shares(words: Words, count: int) -> list[Words]:
    """So many vectors that add up to the words modulo 2^64, any count − 1 of them uniform and independent."""
    if count < 1:
        raise InvalidParameter(f"{count} shares of a vector are not defined.", "Make at least one.")
    free = stretched(fresh_seed(), (count - 1) * len(words)).reshape(count - 1, len(words))
    return [*free, words - free.sum(axis=0, dtype=np.uint64)]


def _shared_sum(vectors: Sequence[ArrayLike], hide: OtherHide, grid: FixedPoint, threshold: int | None) -> SecureSum:
    members = len(vectors)
    grid.check_members(members, shamir.PRIME if hide == "shamir" else 2**WORD_BITS)
    check_lengths([np.shape(vector) for vector in vectors])
    saturated: list[int] = []
    words = list(encoded_vectors(vectors, grid, saturated))
    if hide == "shares":
        found = _in_shares(words)
    else:
        found = _in_shamir_shares(words, members // 2 + 1 if threshold is None else threshold)
    # Before that everyone sent one vector to every other.
    dealt = replace(
        found,
        rounds=found.rounds + 1,
        values_per_round=max(found.values_per_round, members - 1),
        bits_sent=found.bits_sent + members * (members - 1) * len(words[0]) * WORD_BITS,
    )
    return decoded_sum(dealt, grid, tuple(saturated))


def _in_shares(words: Sequence[Words]) -> WordSum:
    dealt = [additive_shares(vector, len(words)) for vector in words]
    return disseminated(list(np.sum(dealt, axis=0, dtype=np.uint64)))


def _in_shamir_shares(words: Sequence[Words], threshold: int) -> WordSum:
    members, length = len(words), len(words[0])
    dealt = [shamir.shares_of(shamir.residues(vector), threshold, members, fresh_seed()) for vector in words]
    weights = shamir.lagrange_weights(range(threshold)) + [0] * (members - threshold)
    received = []
    for member, weight in enumerate(weights):
        held = np.zeros(length, dtype=np.uint64)
        for shares in dealt:
            held = shamir.field_sum(held, shares[member])
        received.append(shamir.field_product(held, np.full(length, weight, dtype=np.uint64)))
    found = disseminated(received, shamir.field_sum)
    return replace(found, totals=tuple(None if total is None else shamir.signed_words(total) for total in found.totals))


# Inexact ways: floats


@dataclass(frozen=True)
class ChunkRun:
    """One chunk of every member (members × numbers) and the plan that averages it, over a graph with shuffled places."""

    values: Floats
    plan: Plan

    @property
    def sums(self) -> Floats:
        """What each member takes for the sum of the chunk: S times its value after the last round (1.30)."""
        *_, last = trajectory(self.values, self.plan)
        return np.asarray(self.plan.members * last)


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


def _in_chunks(runs: Iterator[ChunkRun], rows: Floats) -> SecureSum:
    totals, rounds, bits, most = np.zeros_like(rows), 0, 0, 0
    for run in runs:
        totals += run.sums
        rounds += len(run.plan.rounds)
        most = max(most, run.plan.values_per_round)
        bits += sum(2 * len(each.graph.edges) for each in run.plan.rounds) * rows.shape[1] * WORD_BITS
    return _float_sum(totals, rounds, most, bits)


def _under_paillier(rows: Floats, graph: Graph, tolerance: float, key_bits: int) -> SecureSum:
    run = paillier_average(rows, graph, tolerance, keypairs(len(rows), key_bits), fresh_seed())
    bits = run.cost.bits_per_number * rows.shape[1]
    return _float_sum(len(rows) * run.averages, run.cost.rounds, run.cost.ciphertexts_per_round, bits)


def _float_sum(totals: Floats, rounds: int, values_per_round: int, bits: int) -> SecureSum:
    everyone = frozenset(range(len(totals)))
    return SecureSum(tuple(totals), totals[0], everyone, (0,) * len(totals), rounds, values_per_round, bits)


def _graph(over: str | Graph | None, members: int, hide: str) -> Graph:
    if over is None:
        raise InvalidParameter(f"{hide} averages over a graph.", "Give over= a graph or its name, such as 'cycle'.")
    graph = over if isinstance(over, Graph) else graph_named(over, members)
    if graph.members != members:
        raise InvalidParameter(
            f"The graph has {graph.members} members; there are {members} vectors.", "Make them equal."
        )
    return graph


def _finite_rows(vectors: Sequence[ArrayLike]) -> Floats:
    check_lengths([np.shape(vector) for vector in vectors])
    rows = np.stack([vector_of_numbers(vector) for vector in vectors])
    for member, row in enumerate(rows):
        if not np.isfinite(row).all():
            raise DataError(f"The vector of member {member} is not finite.", "Nothing was sent. Use finite numbers.")
    return rows

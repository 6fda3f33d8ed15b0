"""Other ways to hide addends than the product's masks, on the same vectors: additive and Shamir shares, chunks, Paillier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.additive_shares import additive_shares, words_sum
from sudare.papers.p003_decentralised.averaging import Method
from sudare.papers.p003_decentralised.chunks import averaged_sum, chunk_runs, chunked
from sudare.papers.p003_decentralised.graphs import Graph, graph_named
from sudare.papers.p003_decentralised.paillier import keypairs, paillier_average
from sudare.parameter_checks import Numbers
from sudare.sums import shamir
from sudare.sums.fixed_point import WORD_BITS, FixedPoint, vector_of_numbers
from sudare.sums.in_process import SecureSum, WordSum, check_lengths, decoded_sum, disseminated, encoded_vectors
from sudare.sums.streams import fresh_seed

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

OtherHide = Literal["shares", "shamir", "chunks", "paillier"]
OTHER_HIDES: Final[tuple[OtherHide, ...]] = get_args(OtherHide)
DISSEMINATION: Final = "dissemination"
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
    over: str | Graph = DISSEMINATION,
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
    over : "dissemination", or for chunks and Paillier a graph or its name. Chunks without a graph go over dissemination too.
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
        if over != DISSEMINATION:
            raise InvalidParameter(
                f"Under {hide} words are summed exactly; averaging over a graph would not.", "Use over='dissemination'."
            )
        return _shared_sum(vectors, hide, FixedPoint() if fixed_point is None else fixed_point, threshold)
    rows = _finite_rows(vectors)
    if hide == "paillier":
        return _under_paillier(rows, _graph(over, len(rows), hide), tolerance, key_bits)
    return _in_chunks(rows, over, chunks, chunk_spread, method, tolerance)


# Exact ways: words modulo 2^64, or modulo a prime


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
    return decoded_sum(found, grid, tuple(saturated))


def _with_dealing(found: WordSum, length: int) -> WordSum:
    """With the round before, in which everyone sent one vector to every other."""
    members = len(found.totals)
    bits = members * (members - 1) * length * WORD_BITS
    most = max(found.values_per_round, members - 1)
    return WordSum(found.totals, found.included, found.rounds + 1, most, found.bits_sent + bits)


def _in_shares(words: Sequence[Words]) -> WordSum:
    members, length = len(words), len(words[0])
    dealt = [additive_shares(vector, members) for vector in words]
    received = [words_sum((shares[member] for shares in dealt), length) for member in range(members)]
    return _with_dealing(disseminated(received), length)


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
    signed = tuple(None if total is None else shamir.signed_words(total) for total in found.totals)
    return _with_dealing(WordSum(signed, found.included, found.rounds, found.values_per_round, found.bits_sent), length)


# Inexact ways: floats


def _in_chunks(
    rows: Floats, over: str | Graph, count: int, spread: float, method: Method, tolerance: float
) -> SecureSum:
    members, length = rows.shape
    if isinstance(over, str) and over == DISSEMINATION:
        return _chunks_disseminated(rows, count, spread)
    graph = _graph(over, members, "chunks")
    totals, rounds, bits, most = np.zeros_like(rows), 0, 0, 0
    for run in chunk_runs(rows, graph, count, spread, method, tolerance, fresh_seed()):
        totals += averaged_sum(run)
        rounds += len(run.plan.rounds)
        most = max(most, run.plan.values_per_round)
        bits += sum(2 * len(each.graph.edges) for each in run.plan.rounds) * length * WORD_BITS
    return _float_sum(totals, rounds, most, bits)


def _chunks_disseminated(rows: Floats, count: int, spread: float) -> SecureSum:
    split = np.stack([chunked(row, count, spread, fresh_seed()) for row in rows])
    found = [disseminated(list(split[:, number])) for number in range(count)]
    totals = np.sum([np.stack([total for total in each.totals if total is not None]) for each in found], axis=0)
    bits = sum(each.bits_sent for each in found)
    return _float_sum(totals, sum(each.rounds for each in found), max(each.values_per_round for each in found), bits)


def _under_paillier(rows: Floats, graph: Graph, tolerance: float, key_bits: int) -> SecureSum:
    run = paillier_average(rows, graph, tolerance, keypairs(len(rows), key_bits), fresh_seed())
    bits = run.cost.bits_per_number * rows.shape[1]
    return _float_sum(len(rows) * run.averages, run.cost.rounds, run.cost.ciphertexts_per_round, bits)


def _float_sum(totals: Floats, rounds: int, values_per_round: int, bits: int) -> SecureSum:
    everyone = frozenset(range(len(totals)))
    return SecureSum(tuple(totals), totals[0], everyone, (0,) * len(totals), rounds, values_per_round, bits)


def _graph(over: str | Graph, members: int, hide: str) -> Graph:
    graph = over if isinstance(over, Graph) else graph_named(over, members) if over != DISSEMINATION else None
    if graph is None:
        raise InvalidParameter(f"{hide} averages over a graph.", "Give over= a graph or its name, such as 'cycle'.")
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

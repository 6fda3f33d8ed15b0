"""One call for a sum over members in one process, every member seeing only what it would see between machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.consensus.averaging import Method
from sudare.consensus.graphs import Graph, graph_named
from sudare.consensus.sharing.chunks import averaged_sum, chunk_runs, chunked
from sudare.consensus.sharing.paillier import keypairs, paillier_average
from sudare.consensus.sharing.shares import additive_shares, words_sum
from sudare.errors import DataError, InvalidParameter, MembersMissing
from sudare.schema.arguments import Numbers
from sudare.sums import dissemination, shamir
from sudare.sums.context import Roster, Seat, SumContext, check_threshold, most_dishonest
from sudare.sums.fixed_point import WORD_BITS, FixedPoint, vector_of_numbers
from sudare.sums.keys import MemberKeys
from sudare.sums.neighbours import sum_neighbourhood
from sudare.sums.party import Party
from sudare.sums.simulation import failure_of, simulate
from sudare.sums.streams import fresh_seed

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

Hide = Literal["masks", "shares", "shamir", "chunks", "paillier", "nothing"]
HIDES: Final[tuple[Hide, ...]] = get_args(Hide)
EXACT: Final = frozenset({"masks", "shares", "shamir", "nothing"})
DISSEMINATION: Final = "dissemination"
_USUAL: Final = FixedPoint()
_ARGUMENTS: Final = {
    "threshold": Numbers(whole=True, optional=True),
    "dishonest": Numbers(0, whole=True, optional=True),
    "chunks": Numbers(1, whole=True),
    "chunk_spread": Numbers(0),
    "tolerance": Numbers(0, 1, open_low=True, open_high=True),
    "key_bits": Numbers(16, whole=True),
}


@dataclass(frozen=True)
class SecureSum:
    """What a sum gave and what it took.

    Attributes
    ----------
    totals : what each member ends with; None for a member that left.
    total : the sum (for inexact ways of hiding: what the first member holds).
    included : whose vectors are in the sum.
    saturated : how many values of each member were outside the declared range. A member knows its own count only.
    rounds : rounds in which vectors were sent. Masks exchange short messages as well: keys, shares, votes, statements.
    values_per_round : the most vectors one member sent in one round, that is values for every number that is summed.
    bits_sent : by all members together, short messages included.
    """

    totals: tuple[Floats | None, ...]
    total: Floats
    included: frozenset[int]
    saturated: tuple[int, ...]
    rounds: int
    values_per_round: int
    bits_sent: int


@dataclass(frozen=True)
class _Words:
    """The outcome of an exact way of hiding, before it is decoded."""

    totals: tuple[Words | None, ...]
    included: frozenset[int]
    rounds: int
    values_per_round: int
    bits_sent: int


def secure_sum(
    vectors: Sequence[ArrayLike],
    hide: Hide = "masks",
    over: str | Graph = DISSEMINATION,
    *,
    fixed_point: FixedPoint | None = None,
    threshold: int | None = None,
    dishonest: int | None = None,
    keys: Sequence[MemberKeys] | None = None,
    leave_after: Mapping[int, int] | None = None,
    chunks: int = 5,
    chunk_spread: float = 1.0,
    method: Method = "constant",
    tolerance: float = 1e-3,
    key_bits: int = 2048,
) -> SecureSum:
    """The sum of one vector per member, as each member learns it; in one process. Proof: proofs/secure_sums.md.

    Parameters
    ----------
    vectors : one float array for each member, all of one length.
    hide : "masks" (pairwise masks, the way to use), "shares" (additive), "shamir", "chunks" (Algorithm 2 of Ide 2021), "paillier"
        (Ruan et al. 2017) or "nothing" (the same bits as masks, for simulation).
    over : "dissemination", or for chunks and Paillier a graph or its name. Chunks without a graph go over dissemination too.
    fixed_point : declared range and precision; ±2^20 in steps of 2^−32 if not given. Not for chunks and Paillier, which use floats.
    threshold : t. Masks: with t < S, S − t members may leave; default S, where nobody may. Shamir: t shares open the sum; default ⌊S/2⌋ + 1.
    dishonest : masks only: so many members, with whoever collects among them, may do anything and still learn only the sum of the others;
        2t > S + dishonest. Default: as many as t allows.
    keys : members' keys, at least as many as vectors, to be used again and again; fresh ones otherwise.
    leave_after : members that fall silent, and after how many messages. Masks only.
    chunks, chunk_spread : how many chunks, uniform in ± the spread.
    method, tolerance : how chunks are averaged, until disagreement is at most tolerance times the first one; the tolerance also for Paillier.
    key_bits : size of Paillier's keys.

    Two members learn each other's vector from the sum, whatever hides it: a real consortium refuses S = 2.
    """
    if hide not in HIDES:
        raise InvalidParameter(f"There is no way of hiding named {hide!r}.", f"Use one of: {', '.join(HIDES)}.")
    given = {
        "threshold": threshold,
        "dishonest": dishonest,
        "chunks": chunks,
        "chunk_spread": chunk_spread,
        "tolerance": tolerance,
    }
    for name, value in {**given, "key_bits": key_bits}.items():
        _ARGUMENTS[name].check(name, value)
    if set(leave_after or {}) - set(range(len(vectors))):
        raise InvalidParameter(
            "leave_after names a member that is not there.", f"Members are numbered from 0 to {len(vectors) - 1}."
        )
    if leave_after and hide != "masks":
        raise InvalidParameter("Only sums under masks survive members that leave.", "Leave leave_after away.")
    if hide in EXACT:
        if over != DISSEMINATION:
            raise InvalidParameter(
                f"Under {hide} words are summed exactly; averaging over a graph would not.", "Use over='dissemination'."
            )
        grid = _USUAL if fixed_point is None else fixed_point
        return _exact_sum(vectors, hide, grid, threshold, dishonest, keys, leave_after)
    rows = _finite_rows(vectors)
    if hide == "paillier":
        return _under_paillier(rows, _graph(over, len(rows), hide), tolerance, key_bits)
    return _in_chunks(rows, over, chunks, chunk_spread, method, tolerance)


def _exact_sum(
    vectors: Sequence[ArrayLike],
    hide: Hide,
    grid: FixedPoint,
    threshold: int | None,
    dishonest: int | None,
    keys: Sequence[MemberKeys] | None,
    leave_after: Mapping[int, int] | None,
) -> SecureSum:
    members = len(vectors)
    grid.check_members(members, shamir.PRIME if hide == "shamir" else 2**WORD_BITS)
    _check_lengths([np.shape(vector) for vector in vectors])
    saturated: list[int] = []
    words = _encoded(vectors, grid, saturated)
    if hide == "masks":
        chosen = members if threshold is None else threshold
        found = _under_masks(words, members, chosen, dishonest, keys, leave_after)
    elif hide == "shares":
        found = _in_shares(list(words))
    elif hide == "shamir":
        found = _in_shamir_shares(list(words), members // 2 + 1 if threshold is None else threshold)
    else:
        found = _disseminated(list(words))
    return _decoded(found, grid, tuple(saturated))


def _encoded(vectors: Sequence[ArrayLike], grid: FixedPoint, saturated: list[int]) -> Iterator[Words]:
    """Each member's words, one after the other; how many of its values saturated is noted."""
    for vector in vectors:
        encoded = grid.encode(vector)
        saturated.append(encoded.saturated)
        yield encoded.words


def _decoded(found: _Words, grid: FixedPoint, saturated: tuple[int, ...]) -> SecureSum:
    """Every member looks at its own total, refuses an implausible one, and reads it; equal words share one array."""
    totals: list[Floats | None] = []
    seen: list[tuple[Words, Floats]] = []
    for words in found.totals:
        if words is None:
            totals.append(None)
            continue
        total = next((total for known, total in seen if np.array_equal(known, words)), None)
        if total is None:
            grid.check_total(words, len(found.included))
            total = grid.decode(words)
            total.flags.writeable = False
            seen.append((words, total))
        totals.append(total)
    return SecureSum(
        tuple(totals), seen[0][1], found.included, saturated, found.rounds, found.values_per_round, found.bits_sent
    )


# Exact ways: words modulo 2^64, or modulo a prime


def _under_masks(
    words: Iterator[Words],
    members: int,
    threshold: int,
    dishonest: int | None,
    keys: Sequence[MemberKeys] | None,
    leave_after: Mapping[int, int] | None,
) -> _Words:
    owned = [MemberKeys.generated() for _ in range(members)] if keys is None else list(keys[:members])
    if len(owned) < members:
        raise InvalidParameter(f"{len(owned)} keys for {members} members.", "Give keys for every member.")
    roster = Roster(tuple(map(str, range(members))), tuple(each.public for each in owned))
    expected = most_dishonest(members, threshold) if dishonest is None else dishonest
    check_threshold(members, threshold, expected)
    hood = sum_neighbourhood(members, expected, threshold)
    # A fresh name makes fresh masks: cached keys never mask two vectors alike.
    name = os.urandom(16).hex()
    context = SumContext(
        name, "secure_sum", 0, _attempt(members, leave_after), roster, threshold, expected, neighbourhood=hood
    )
    parties = [Party(Seat(context, position, own), next(words)) for position, own in enumerate(owned)]
    traffic = simulate(parties, leave_after)
    finished = {position: each for position, each in enumerate(parties) if each.total is not None}
    if not finished:
        raise failure_of(parties) or MembersMissing(
            f"This sum over {members} members needs {threshold} of them to the end; too few were left.",
            "Nothing was opened. Begin another attempt.",
        )
    included = next(each.included for each in finished.values() if each.included is not None)
    totals = tuple(None if each in traffic.left else parties[each].total for each in range(members))
    return _Words(totals, included, traffic.rounds, traffic.vectors_per_round, traffic.bits)


def _attempt(members: int, leave_after: Mapping[int, int] | None) -> int:
    """The first attempt whose collector stays."""
    return next((each for each in range(members) if each not in (leave_after or {})), 0)


def _disseminated(values: Sequence[Words], add: dissemination.Add = np.add) -> _Words:
    """Everyone's total by dissemination alone."""
    members, length = len(values), len(values[0])
    begun = [dissemination.begun(members, position, value) for position, value in enumerate(values)]
    states = [state for state, _ in begun]
    parcels = [parcel for _, parcel in begun if parcel is not None]
    most, sent = 0, 0
    rounds = dissemination.rounds_of(members)
    for _ in rounds:
        most = max(most, *(parcel.values for parcel in parcels))
        sent += sum(parcel.values for parcel in parcels)
        stepped = {parcel.receiver: dissemination.step(states[parcel.receiver], parcel, add) for parcel in parcels}
        states = [stepped[position][0] for position in range(members)]
        parcels = [parcel for _, parcel in stepped.values() if parcel is not None]
    totals = tuple(state.total for state in states)
    return _Words(totals, frozenset(range(members)), len(rounds), most, sent * length * WORD_BITS)


def _with_dealing(found: _Words, length: int) -> _Words:
    """With the round before, in which everyone sent one vector to every other."""
    members = len(found.totals)
    bits = members * (members - 1) * length * WORD_BITS
    most = max(found.values_per_round, members - 1)
    return _Words(found.totals, found.included, found.rounds + 1, most, found.bits_sent + bits)


def _in_shares(words: Sequence[Words]) -> _Words:
    members, length = len(words), len(words[0])
    dealt = [additive_shares(vector, members) for vector in words]
    received = [words_sum((shares[member] for shares in dealt), length) for member in range(members)]
    return _with_dealing(_disseminated(received), length)


def _in_shamir_shares(words: Sequence[Words], threshold: int) -> _Words:
    members, length = len(words), len(words[0])
    dealt = [shamir.shares_of(shamir.residues(vector), threshold, members, fresh_seed()) for vector in words]
    weights = shamir.lagrange_weights(range(threshold)) + [0] * (members - threshold)
    received = []
    for member, weight in enumerate(weights):
        held = np.zeros(length, dtype=np.uint64)
        for shares in dealt:
            held = shamir.field_sum(held, shares[member])
        received.append(shamir.field_product(held, np.full(length, weight, dtype=np.uint64)))
    found = _disseminated(received, shamir.field_sum)
    signed = tuple(None if total is None else shamir.signed_words(total) for total in found.totals)
    return _with_dealing(_Words(signed, found.included, found.rounds, found.values_per_round, found.bits_sent), length)


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
    found = [_disseminated(list(split[:, number])) for number in range(count)]
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
    _check_lengths([np.shape(vector) for vector in vectors])
    rows = np.stack([vector_of_numbers(vector) for vector in vectors])
    for member, row in enumerate(rows):
        if not np.isfinite(row).all():
            raise DataError(f"The vector of member {member} is not finite.", "Nothing was sent. Use finite numbers.")
    return rows


def _check_lengths(shapes: Sequence[tuple[int, ...]]) -> None:
    if not shapes:
        raise DataError("There are no vectors.", "Give one vector for each member.")
    if len(set(shapes)) != 1 or len(shapes[0]) != 1 or shapes[0][0] < 1:
        raise DataError(
            f"{len(shapes)} members' vectors are not one-dimensional, of one length and not empty.",
            "Agree on what is summed; nothing was sent.",
        )


__all__ = ["HIDES", "Hide", "SecureSum", "secure_sum"]

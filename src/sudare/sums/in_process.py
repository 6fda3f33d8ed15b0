"""One call for a sum over members in one process, every member seeing only what it would see between machines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats, Words
from sudare.errors import DataError, InvalidParameter, MembersMissing
from sudare.parameter_checks import Numbers
from sudare.sums import dissemination
from sudare.sums.context import (
    COLLECTORS,
    Collector,
    Participant,
    RelayedSumContext,
    Roster,
    SumContext,
    check_threshold,
    most_dishonest,
)
from sudare.sums.fixed_point import WORD_BITS, FixedPoint
from sudare.sums.keys import MemberKeys
from sudare.sums.neighbour_graph import sum_neighbourhood
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector
from sudare.sums.simulation import failure_of, simulate

Hide = Literal["masks", "nothing"]
HIDES: Final[tuple[Hide, ...]] = get_args(Hide)
_USUAL_GRID: Final = FixedPoint()
_ARGUMENTS: Final = {
    "threshold": Numbers(whole=True, optional=True),
    "dishonest": Numbers(0, whole=True, optional=True),
}


@dataclass(frozen=True)
class SecureSum:
    """What a sum gave and what it took.

    Attributes
    ----------
    totals : what each member ends with; None for a member that left.
    total : the sum.
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
class WordSum:
    """The outcome of an exact way of hiding, before it is decoded."""

    totals: tuple[Words | None, ...]
    included: frozenset[int]
    rounds: int
    values_per_round: int
    bits_sent: int


def secure_sum(
    vectors: Sequence[ArrayLike],
    hide: Hide = "masks",
    *,
    fixed_point: FixedPoint | None = None,
    threshold: int | None = None,
    dishonest: int | None = None,
    keys: Sequence[MemberKeys] | None = None,
    leave_after: Mapping[int, int] | None = None,
    collector: Collector = "member",
) -> SecureSum:
    """The sum of one vector per member, as each member learns it; in one process. Proof: proofs/secure_sums.md.

    Parameters
    ----------
    vectors : one float array for each member, all of one length.
    hide : "masks", or "nothing" for the same bits faster, in simulations.
    fixed_point : declared range and precision; ±2^20 in steps of 2^−32 if not given.
    threshold : t. With t < S, S − t members may leave; default S, where nobody may.
    dishonest : so many members, with whoever collects among them, may do anything and still learn only the sum of the others;
        2t > S + dishonest. Default: as many as t allows.
    keys : members' keys, at least as many as vectors, to be used again and again; fresh ones otherwise.
    leave_after : members that fall silent, and after how many messages.
    collector : with t < S, who collects: "member", one of them, or "relay", who is none. A relay that collects learns the total, and beside
        the dishonest members it may do anything too.

    Two members learn each other's vector from the sum, whatever hides it: a real consortium refuses S = 2.
    """
    if hide not in HIDES:
        raise InvalidParameter(f"There is no way of hiding named {hide!r}.", f"Use one of: {', '.join(HIDES)}.")
    if collector not in COLLECTORS:
        raise InvalidParameter(f"There is no collector named {collector!r}.", f"Use one of: {', '.join(COLLECTORS)}.")
    for name, value in {"threshold": threshold, "dishonest": dishonest}.items():
        _ARGUMENTS[name].check(name, value)
    if set(leave_after or {}) - set(range(len(vectors))):
        raise InvalidParameter(
            "leave_after names a member that is not there.", f"Members are numbered from 0 to {len(vectors) - 1}."
        )
    about_masks = leave_after or collector != "member" or any(each is not None for each in (threshold, dishonest, keys))
    if hide != "masks" and about_masks:
        raise InvalidParameter(
            "threshold, dishonest, keys, leave_after and collector are about sums under masks.",
            "Leave them away, or hide by masks.",
        )
    members, grid = len(vectors), _USUAL_GRID if fixed_point is None else fixed_point
    grid.check_members(members, 2**WORD_BITS)
    shapes = [np.shape(vector) for vector in vectors]
    check_lengths(shapes)
    saturated: list[int] = []
    words = encoded_vectors(vectors, grid, saturated)
    if hide == "masks":
        chosen = members if threshold is None else threshold
        found = _under_masks(words, shapes[0][0], members, chosen, dishonest, keys, leave_after, collector)
    else:
        found = disseminated(list(words))
    return decoded_sum(found, grid, tuple(saturated))


def encoded_vectors(vectors: Sequence[ArrayLike], grid: FixedPoint, saturated: list[int]) -> Iterator[Words]:
    """Each member's words, one after the other; how many of its values saturated is noted."""
    for vector in vectors:
        encoded = grid.encode(vector)
        saturated.append(encoded.saturated)
        yield encoded.words


def decoded_sum(found: WordSum, grid: FixedPoint, saturated: tuple[int, ...]) -> SecureSum:
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


def _under_masks(
    words: Iterator[Words],
    length: int,
    members: int,
    threshold: int,
    dishonest: int | None,
    keys: Sequence[MemberKeys] | None,
    leave_after: Mapping[int, int] | None,
    collector: Collector,
) -> WordSum:
    owned = [MemberKeys.generated() for _ in range(members)] if keys is None else list(keys[:members])
    if len(owned) < members:
        raise InvalidParameter(f"{len(owned)} keys for {members} members.", "Give keys for every member.")
    roster = Roster(tuple(map(str, range(members))), tuple(each.public for each in owned))
    expected = most_dishonest(members, threshold) if dishonest is None else dishonest
    check_threshold(members, threshold, expected)
    hood = sum_neighbourhood(members, expected, threshold)
    # A fresh name makes fresh masks: cached keys never mask two vectors alike.
    name = os.urandom(16).hex()
    which = name, "secure_sum", 0, _attempt(members, leave_after), roster, threshold, expected
    relay = MemberKeys.generated() if collector == "relay" else None
    context = (
        SumContext(*which, neighbourhood=hood)
        if relay is None
        else RelayedSumContext(*which, neighbourhood=hood, relay=relay.public)
    )
    parties = [Party(Participant(context, position, own), next(words)) for position, own in enumerate(owned)]
    collecting = [] if relay is None else [RelayCollector(Participant(context, members, relay), length)]
    traffic = simulate([*parties, *collecting], leave_after)
    finished = {position: each for position, each in enumerate(parties) if each.total is not None}
    if not finished:
        raise failure_of(parties) or MembersMissing(
            f"This sum over {members} members needs {threshold} of them to the end; too few were left.",
            "Nothing was opened. Begin another attempt.",
        )
    included = next(each.included for each in finished.values() if each.included is not None)
    totals = tuple(None if each in traffic.left else parties[each].total for each in range(members))
    return WordSum(totals, included, traffic.rounds, traffic.vectors_per_round, traffic.bits)


def _attempt(members: int, leave_after: Mapping[int, int] | None) -> int:
    """The first attempt whose collector stays."""
    return next((each for each in range(members) if each not in (leave_after or {})), 0)


def disseminated(values: Sequence[Words], add: dissemination.Add = np.add) -> WordSum:
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
    return WordSum(totals, frozenset(range(members)), len(rounds), most, sent * length * WORD_BITS)


def check_lengths(shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise DataError unless all vectors are one-dimensional, of one length and not empty."""
    if not shapes:
        raise DataError("There are no vectors.", "Give one vector for each member.")
    if len(set(shapes)) != 1 or len(shapes[0]) != 1 or shapes[0][0] < 1:
        raise DataError(
            f"{len(shapes)} members' vectors are not one-dimensional, of one length and not empty.",
            "Agree on what is summed; nothing was sent.",
        )


__all__ = ["HIDES", "Hide", "SecureSum", "secure_sum"]

"""The dissemination sum: everyone holds the exact sum after ⌈log₂ S⌉ rounds, for every number S of members.

In round k member i receives from i + 2^k (modulo S) and sends to i − 2^k, once each. It keeps a *window*, the sum over
i, i+1, …, i + 2^k − 1, which doubles in every round, and a *partial* sum over the first S mod 2^k members from itself on,
which is extended by the window wherever S has a binary one. Both together are at most two values in a round.

Everything here is a pure step from a state and what came in to a state and what goes out; how values are added is a parameter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from sudare.errors import InvalidParameter

Value = Any
Add = Callable[[Value, Value], Value]


class Round(NamedTuple):
    """What a round does; lengths are in members."""

    distance: int
    sends_window: bool
    sends_partial: bool
    extends_partial: bool
    partial_length: int


@dataclass(frozen=True)
class Parcel:
    """What goes from one member to another in a round."""

    sender: int
    receiver: int
    round: int
    window: Value = None
    partial: Value = None

    @property
    def values(self) -> int:
        """How many values it holds: one or two."""
        return (self.window is not None) + (self.partial is not None)


@dataclass(frozen=True)
class DisseminationState:
    """One member's place in the sum. `total` is set when it has heard from everyone."""

    PACKED_NAME: ClassVar = "State"

    members: int
    position: int
    round: int
    window: Value
    partial: Value = None
    total: Value = None


@lru_cache(maxsize=4096)
def rounds_of(members: int) -> tuple[Round, ...]:
    """The rounds of a sum over so many members: ⌈log₂ S⌉."""
    if members < 1:
        raise InvalidParameter(f"A sum over {members} members is not defined.", "Name at least one member.")
    highest = members.bit_length() - 1
    rounds = []
    for power in range(highest + 1):
        length = members % (1 << power)
        one = bool(members >> power & 1)
        last = power == highest
        if not (last and length == 0):
            rounds.append(Round(1 << power, not last, one and length > 0, one, length))
    return tuple(rounds)


def begun(members: int, position: int, value: Value) -> tuple[DisseminationState, Parcel | None]:
    """The state before the first round, and what to send in it; nothing where one member sums alone."""
    if not 0 <= position < members:
        raise InvalidParameter(f"There is no position {position} among {members} members.", "Count from zero.")
    state = _finished_if_last(DisseminationState(members, position, 0, value))
    return state, _outgoing(state)


def step(
    state: DisseminationState, incoming: Parcel, add: Add = operator.add
) -> tuple[DisseminationState, Parcel | None]:
    """The state after one more round and what to send in the next; nothing after the last."""
    round_ = rounds_of(state.members)[state.round]
    _check_expected(state, round_, incoming)
    partial = state.partial
    if round_.extends_partial:
        partial = add(state.window, incoming.partial) if round_.sends_partial else state.window
    window = add(state.window, incoming.window) if round_.sends_window else None
    after = _finished_if_last(DisseminationState(state.members, state.position, state.round + 1, window, partial))
    return after, _outgoing(after)


def covered(incoming: Parcel, members: int) -> tuple[range, range]:
    """The members (before reduction modulo S) that a parcel's window and partial sum are over; empty where there is none."""
    round_ = rounds_of(members)[incoming.round]
    window = round_.distance if round_.sends_window else 0
    partial = round_.partial_length if round_.sends_partial else 0
    return range(incoming.sender, incoming.sender + window), range(incoming.sender, incoming.sender + partial)


def _finished_if_last(state: DisseminationState) -> DisseminationState:
    if state.round < len(rounds_of(state.members)):
        return state
    # A power of two has no partial sum: its last window is over everyone.
    total = state.window if state.partial is None else state.partial
    return DisseminationState(state.members, state.position, state.round, None, None, total)


def _outgoing(state: DisseminationState) -> Parcel | None:
    if state.total is not None:
        return None
    round_ = rounds_of(state.members)[state.round]
    return Parcel(
        sender=state.position,
        receiver=(state.position - round_.distance) % state.members,
        round=state.round,
        window=state.window if round_.sends_window else None,
        partial=state.partial if round_.sends_partial else None,
    )


def _check_expected(state: DisseminationState, round_: Round, incoming: Parcel) -> None:
    sender = (state.position + round_.distance) % state.members
    is_expected = (
        incoming.sender == sender
        and incoming.receiver == state.position
        and incoming.round == state.round
        and (incoming.window is not None) == round_.sends_window
        and (incoming.partial is not None) == round_.sends_partial
    )
    if not is_expected:
        raise InvalidParameter(
            f"Round {state.round + 1} expects one parcel from position {sender}; another one came.",
            "Keep parcels of later rounds until their round, and drop duplicates.",
        )

"""The dissemination inside a masked sum: parcels go where they are waited for, and what came is kept in case somebody leaves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sudare.consensus.messages import Body, Given, Members, Message, Passed, Relay, SumState
from sudare.consensus.sharing.masks import Seat
from sudare.sums import dissemination
from sudare.sums.dissemination import Parcel

Words = NDArray[np.uint64]


def sent_to(seat: Seat, state: SumState, receivers: Iterable[int], body: Body) -> SumState:
    """The state with the same message to each receiver among those sent."""
    messages = tuple(Message(seat.position, receiver, body) for receiver in receivers)
    return state.changed(sent=state.sent + messages)


def survivors_of(seat: Seat, state: SumState) -> list[int]:
    """Everyone who is not known to have left, this member included."""
    return [member for member in range(len(seat.publics)) if member not in state.left]


def told_to_all(seat: Seat, state: SumState, body: Body) -> SumState:
    """The state with a message to every other survivor among those sent."""
    return sent_to(seat, state, [each for each in survivors_of(seat, state) if each != seat.position], body)


def begin_relay(
    seat: Seat, state: SumState, participants: tuple[int, ...], included: Members, rows: Words | None, value: Words
) -> SumState:
    """Start to disseminate a value, and use the parcels that came before."""
    place, parcel = dissemination.begun(len(participants), participants.index(seat.position), value)
    relay, early = Relay(participants, included, rows, place, (), {}), state.early
    if parcel is None:
        return state.changed(early=(), decided=True, masked_total=place.total, included=included)
    sent = (*state.sent, _passed_on(seat, state, relay, parcel))
    state = state.changed(early=(), decided=True, relay=relay, sent=sent)
    for message in early:
        state = placed(seat, state, message)
    return state


def placed(seat: Seat, state: SumState, message: Message) -> SumState:
    """A parcel or a given total goes where it is waited for, is kept for later, or is dropped because it comes too late."""
    body, relay = message.body, state.relay
    if not isinstance(body, Passed | Given) or is_late(message, state.left):
        return state
    if isinstance(body, Given) and body.left == state.left and state.decided:
        known = state.masked_total is not None
        return state if known else state.changed(masked_total=body.total, included=body.included)
    if isinstance(body, Given) or body.left != state.left or relay is None:
        early = sum(each.sender == message.sender for each in state.early)
        return state.changed(early=(*state.early, message)) if early < _most_early(seat) else state
    if body.round in relay.waiting or body.round < relay.place.round:
        return state
    there = relay.participants.index(message.sender)
    parcel = Parcel(there, relay.place.position, body.round, body.window, body.partial)
    if body.round > relay.place.round:
        return state.changed(relay=replace(relay, waiting={**relay.waiting, body.round: parcel}))
    return _added(seat, state, relay, parcel)


def _most_early(seat: Seat) -> int:
    """How many parcels and totals a member that follows the protocol can send before they are waited for: each round, whoever has left."""
    members = len(seat.publics)
    return (members.bit_length() + 1) * (members - seat.context.threshold + 1)


def is_late(message: Message, left: Members) -> bool:
    """Whether a parcel or given total belongs to what was stopped when these members had left."""
    return isinstance(message.body, Passed | Given) and message.body.left < left


def _added(seat: Seat, state: SumState, relay: Relay, parcel: Parcel) -> SumState:
    """One round further: what came is added, and what follows from it goes out."""
    place, outgoing = dissemination.step(relay.place, parcel)
    # What came is remembered for the case that somebody leaves; without repair it would be of no use.
    came = (*relay.came, parcel) if seat.context.repairable else ()
    waiting = relay.waiting
    if parcel.round in waiting:
        waiting = {number: kept for number, kept in waiting.items() if number != parcel.round}
    relay = Relay(relay.participants, relay.included, relay.rows, place, came, waiting)
    if outgoing is not None:
        return state.changed(relay=relay, sent=(*state.sent, _passed_on(seat, state, relay, outgoing)))
    return state.changed(relay=relay, masked_total=place.total, included=relay.included)


def _passed_on(seat: Seat, state: SumState, relay: Relay, parcel: Parcel) -> Message:
    body = Passed(state.left, parcel.round, parcel.window, parcel.partial)
    return Message(seat.position, relay.participants[parcel.receiver], body)


def add_up(seat: Seat, state: SumState) -> SumState:
    """Use the parcels that came before their round. Without self-masks the masked total is the total."""
    while state.relay is not None and state.relay.place.round in state.relay.waiting:
        state = _added(seat, state, state.relay, state.relay.waiting[state.relay.place.round])
    if state.masked_total is not None and state.total is None and not seat.context.repairable:
        state = state.changed(total=state.masked_total)
    return state


def holdings(seat: Seat, state: SumState) -> tuple[tuple[Words, ...], tuple[Words, ...]]:
    """Everything that came during a dissemination: combinations of whose masked values, and the sums themselves."""
    rows, values = [], []
    relay = state.relay
    count = len(seat.publics) if relay is None else len(relay.participants)
    for parcel in _came(state):
        for span, value in zip(dissemination.covered(parcel, count), (parcel.window, parcel.partial), strict=True):
            if value is not None:
                places = [place % count for place in span]
                if relay is None or relay.rows is None:
                    rows.append(unit_row(seat, *places))
                else:
                    rows.append(relay.rows[places].sum(axis=0, dtype=np.uint64))
                values.append(value)
    return tuple(rows), tuple(values)


def _came(state: SumState) -> list[Parcel]:
    """Parcels that were used, that wait for their round, or that came before this member was ready for the first one."""
    if state.relay is not None:
        return [*state.relay.came, *state.relay.waiting.values()]
    return [
        Parcel(message.sender, message.receiver, message.body.round, message.body.window, message.body.partial)
        for message in state.early
        if isinstance(message.body, Passed) and not message.body.left and not state.left
    ]


def unit_row(seat: Seat, *members: int) -> Words:
    """The combination that is the sum of these members' masked values."""
    row = np.zeros(len(seat.publics), dtype=np.uint64)
    row[list(members)] = 1
    return row


def combined(weights: Words, vectors: Words) -> Words:
    """The sum of vectors times weights modulo 2^64."""
    return np.asarray((weights[:, np.newaxis] * vectors).sum(axis=0, dtype=np.uint64))

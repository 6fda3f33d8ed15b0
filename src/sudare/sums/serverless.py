"""A sum that nobody may leave, without a collector: masked vectors are disseminated in ⌈log₂ S⌉ rounds, then totals are compared.

Pure steps: (me, state, message) → (state, messages to send). Up to S − 2 members that do anything learn the sum of the others' vectors and
nothing else; they can make the sum fail or wrong. Proof: proofs/secure_sums.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sudare.errors import StatementsContradict, SumError
from sudare.sums import dissemination
from sudare.sums.context import Participant
from sudare.sums.dissemination import Parcel
from sudare.sums.heard_totals import HeardTotals
from sudare.sums.input_records import InputRecord, admitted
from sudare.sums.masks import add_pair_masks, lasting_pair_seed
from sudare.sums.messages import GivenUp, Heard, Message, Passed, heard_content
from sudare.sums.statements import stated

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class ServerlessState:
    """All that a member remembers: its place in the dissemination, parcels that came early, and what was heard of the total."""

    record: InputRecord
    length: int
    place: dissemination.State
    waiting: Mapping[int, Parcel] = field(default_factory=dict)
    heard_totals: HeardTotals = field(default_factory=HeardTotals)
    total: Words | None = None
    stopped: str | None = None

    # `replace` takes three times as long as these, which are called for every message of every sum.

    def placed(self, place: dissemination.State, waiting: Mapping[int, Parcel]) -> ServerlessState:
        """In another place of the dissemination."""
        return ServerlessState(self.record, self.length, place, waiting, self.heard_totals, self.total, self.stopped)

    def after(self, heard_totals: HeardTotals) -> ServerlessState:
        """With more heard of the total."""
        return ServerlessState(
            self.record, self.length, self.place, self.waiting, heard_totals, self.total, self.stopped
        )


Step = tuple[ServerlessState, tuple[Message, ...]]


def begun(me: Participant, words: Words, earlier: InputRecord | None = None) -> Step:
    """The first state and messages. `earlier` is what this member remembers of the same input, from any attempt."""
    count = len(me.publics)
    everyone = me.context.bitmap(me.context.everyone)
    record = admitted(me, words, earlier).with_vote(me.context, everyone)
    masked = words.copy()
    seeds = {other: lasting_pair_seed(me, other) for other in range(count) if other != me.position}
    add_pair_masks(masked, me.position, seeds)
    place, parcel = dissemination.begun(count, me.position, masked)
    return _advanced(me, ServerlessState(record, len(words), place), parcel)


def step(me: Participant, state: ServerlessState, message: Message) -> Step:
    """The state after a message, and what to send. What comes twice or is no part of the sum changes nothing."""
    body, sender = message.body, message.sender
    if state.stopped is not None:
        return state, ()
    if isinstance(body, GivenUp):
        return (state if state.total is not None else replace(state, stopped="given up")), ()
    if isinstance(body, Heard):
        return _settled(me, state.after(state.heard_totals.with_other(me, sender, body)))
    if not isinstance(body, Passed) or not _fits(me, state, sender, body) or body.round in state.waiting:
        return state, ()
    parcel = Parcel(sender, me.position, body.round, body.window, body.partial)
    return _added(me, state, {**state.waiting, body.round: parcel})


def failure(me: Participant, state: ServerlessState) -> SumError | None:
    """Why this member's sum was stopped, if it was."""
    if state.stopped is None:
        return None
    if state.stopped == "contradiction":
        return StatementsContradict(
            "Members hold different totals of one sum: somebody passed on something false. The signed statements are kept.",
            "No total was used. See `sudare consortium blame`.",
        )
    return SumError("A member has given up this sum, which nobody may leave.", "Begin again when all are there.")


def _fits(me: Participant, state: ServerlessState, sender: int, body: Passed) -> bool:
    """Whether a parcel is one that is still waited for: of a round to come, from its sender, with vectors of the length asked for."""
    count = len(me.publics)
    rounds = dissemination.rounds_of(count)
    if not state.place.round <= body.round < len(rounds):
        return False
    round_ = rounds[body.round]
    is_sender = sender == (me.position + round_.distance) % count
    has_values = (body.window is not None, body.partial is not None) == (round_.sends_window, round_.sends_partial)
    vectors = [vector for vector in (body.window, body.partial) if vector is not None]
    return is_sender and has_values and all(vector.shape == (state.length,) for vector in vectors)


def _added(me: Participant, state: ServerlessState, waiting: dict[int, Parcel]) -> Step:
    """Use the parcels that are there, round by round."""
    outgoing: tuple[Message, ...] = ()
    place = state.place
    if place.round not in waiting:
        return state.placed(place, waiting), ()
    while place.round in waiting:
        place, parcel = dissemination.step(place, waiting.pop(place.round))
        state, sent = _advanced(me, state.placed(place, dict(waiting)), parcel)
        outgoing += sent
    return state, outgoing


def _advanced(me: Participant, state: ServerlessState, parcel: Parcel | None) -> Step:
    """Pass the next parcel on, or say which total this member holds."""
    if parcel is not None:
        body = Passed(parcel.round, parcel.window, parcel.partial)
        return state, (Message(me.position, parcel.receiver, body),)
    if state.place.total is None:
        return state, ()
    everyone = me.context.everyone
    own = Heard(stated(me, "heard", heard_content(me.context, everyone, state.place.total)), None)
    messages = tuple(Message(me.position, other, own) for other in sorted(everyone - {me.position}))
    state, more = _settled(me, state.after(state.heard_totals.with_own(own)))
    return state, messages + more


def _settled(me: Participant, state: ServerlessState) -> Step:
    """Use the total once everyone heard the same; stop where statements differ."""
    if state.total is not None or state.heard_totals.own is None:
        return state, ()
    if state.heard_totals.contradiction:
        return replace(state, stopped="contradiction"), ()
    # Nobody contradicts this member.
    if len(state.heard_totals.others) == len(me.publics) - 1:
        return replace(state, total=state.place.total), ()
    return state, ()

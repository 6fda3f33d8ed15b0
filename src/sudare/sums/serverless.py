"""A sum that nobody may leave, without a collector: masked vectors are disseminated in ⌈log₂ S⌉ rounds, then totals are compared.

Pure steps: (me, state, message) → (state, messages to send). Up to S − 2 members that do anything learn the sum of the others' vectors and
nothing else; they can make the sum fail or wrong. Proof: proofs/secure_sums.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sudare.array_types import Words
from sudare.errors import StatementsContradict, SumError
from sudare.sums import dissemination
from sudare.sums.context import Participant
from sudare.sums.dissemination import Parcel
from sudare.sums.heard_totals import HeardTotals
from sudare.sums.input_records import InputRecord, admitted
from sudare.sums.masks import add_pair_masks, lasting_pair_seed
from sudare.sums.messages import GivenUp, Heard, Message, Passed, heard_content
from sudare.sums.statements import stated


@dataclass(frozen=True)
class ServerlessState:
    """All that a member remembers: its place in the dissemination, parcels that came early, and what was heard of the total."""

    record: InputRecord
    length: int
    place: dissemination.DisseminationState
    waiting: Mapping[int, Parcel] = field(default_factory=dict)
    heard_totals: HeardTotals = field(default_factory=HeardTotals)
    total: Words | None = None
    stopped: str | None = None

    def placed(self, place: dissemination.DisseminationState, waiting: Mapping[int, Parcel]) -> ServerlessState:
        """In another place of the dissemination."""
        return self._with("place", place)._with("waiting", waiting)

    def after(self, heard_totals: HeardTotals) -> ServerlessState:
        """Returns the state with more heard of the total."""
        return self._with("heard_totals", heard_totals)

    def finished(self) -> ServerlessState:
        """Returns the state with the total that everyone heard."""
        return self._with("total", self.place.total)

    def ended(self, reason: str) -> ServerlessState:
        """Without a total, for this reason."""
        return self._with("stopped", reason)

    def _with(self, name: str, value: object) -> ServerlessState:
        """With another value of one field. `replace` takes ten times as long, for every message of every sum."""
        changed = object.__new__(ServerlessState)
        values = changed.__dict__
        values.update(self.__dict__)
        values[name] = value
        return changed


Step = tuple[ServerlessState, tuple[Message, ...]]


def begun(me: Participant, words: Words, earlier: InputRecord | None = None) -> Step:
    """The first state and messages. `earlier` is what this member remembers of the same input, from any attempt."""
    count = len(me.publics)
    record = admitted(me, words, earlier).with_vote(me.context, me.context.bitmap_of_everyone)
    seeds = {other: lasting_pair_seed(me, other) for other in range(count) if other != me.position}
    masked = words.copy()
    add_pair_masks(masked, me.position, seeds)
    place, parcel = dissemination.begun(count, me.position, masked)
    return _advanced(me, ServerlessState(record, len(words), place), parcel)


def step(me: Participant, state: ServerlessState, message: Message) -> Step:
    """The state after a message, and what to send. What comes twice or is no part of the sum changes nothing."""
    body, sender = message.body, message.sender
    if state.stopped is not None:
        return state, ()
    if isinstance(body, Heard):
        heard_totals = state.heard_totals.with_other(me, sender, body)
        return (state, ()) if heard_totals is state.heard_totals else (_settled(state.after(heard_totals), body), ())
    if isinstance(body, GivenUp):
        return (state if state.total is not None else state.ended("given up")), ()
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
    return (
        sender == (me.position + round_.distance) % count
        and _has_length(body.window, state.length if round_.sends_window else None)
        and _has_length(body.partial, state.length if round_.sends_partial else None)
    )


def _has_length(vector: Words | None, length: int | None) -> bool:
    """Whether a vector has this length, or where there is to be none there is none."""
    return vector is None if length is None else vector is not None and vector.shape == (length,)


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
    everyone = range(state.place.members)
    own = Heard(stated(me, "heard", heard_content(me.context, me.context.everyone, state.place.total)), None)
    messages = tuple(Message(me.position, other, own) for other in everyone if other != me.position)
    return _settled(state.after(state.heard_totals.with_own(own)), *state.heard_totals.others.values()), messages


def _settled(state: ServerlessState, *others: Heard) -> ServerlessState:
    """With the total once everyone heard the same; stopped where one of these others, with whom it was not compared before, heard another."""
    own = state.heard_totals.own
    if state.total is not None or own is None:
        return state
    for other in others:
        if other.heard.content != own.heard.content:
            return state.ended("contradiction")
    return state.finished() if len(state.heard_totals.others) == state.place.members - 1 else state

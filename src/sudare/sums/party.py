"""What one member runs in one sum: its own steps, the collector's where it is its turn, and the state that is saved before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sudare.array_types import Words
from sudare.errors import SumError
from sudare.sums import collector, dissemination, member, serverless
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.collector import CollectorState
from sudare.sums.context import Participant
from sudare.sums.evidence import signed_in, signed_to_collector, signed_to_member, with_refused
from sudare.sums.heard_totals import HeardTotals
from sudare.sums.input_records import InputRecord, admitted
from sudare.sums.masks import HeldShares
from sudare.sums.member import MemberState
from sudare.sums.messages import MESSAGE_CLASSES, Members, Message, ToCollector
from sudare.sums.serverless import ServerlessState
from sudare.sums.statements import Statement

Persist = Callable[[bytes], None]


@dataclass(frozen=True)
class PartyState:
    """Everything that is saved of a sum: it holds secrets of this sum, so keep it like a key."""

    context_digest: bytes
    member: MemberState | ServerlessState
    collector: CollectorState | None
    sent: tuple[Message, ...]
    refused: tuple[Statement, ...]

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> PartyState:
        """The state of these bytes. Raise MessageMalformed unless they are one."""
        return unpacked_as(cls, content, *_STATE_CLASSES)

    @property
    def record(self) -> InputRecord:
        """What is remembered of the input."""
        return self.member.record


_STATE_CLASSES: Final = (
    *MESSAGE_CLASSES,
    *(PartyState, MemberState, ServerlessState, CollectorState, InputRecord, HeldShares, HeardTotals),
    *(dissemination.DisseminationState, dissemination.Parcel),
)


class Party:
    """A member in a sum. `persist` gets the whole state before messages are handed out; `saved` is what it got last.

    Whoever saves `state` itself says so by `saves_state`: what was sent is remembered in it, as for `persist`.
    Saved state of the same sum is taken up again: `begin` then returns every message sent before, byte for byte. Saved state
    of another attempt at the same input still binds: the data must be the same, and a vote that was cast stays. `among`, where members may
    leave, are the only ones that a new input is added up with.
    """

    def __init__(
        self,
        me: Participant,
        words: Words,
        persist: Persist | None = None,
        saved: bytes | None = None,
        *,
        saves_state: bool = False,
        among: Members | None = None,
    ) -> None:
        self.participant, self._persist = me, persist
        self._remembers = saves_state or persist is not None
        before = None if saved is None else PartyState.from_bytes(saved)
        if before is not None and before.context_digest == me.context.digest:
            admitted(me, words, before.record)
            self._member, self._collector, self._sent = before.member, before.collector, before.sent
            self._refused = before.refused
            return
        record = None if before is None else before.record
        self._collector, self._sent, self._refused = None, (), ()
        if not me.context.may_leave:
            self._member, outgoing = serverless.begun(me, words, record)
        else:
            self._member, outgoing = member.begun(me, words, record, among)
            if me.context.collector == me.position:
                voted_for = self._member.record.voted_for
                among = None if voted_for is None else me.context.members_in(voted_for)
                self._collector = collector.begun(len(me.publics), len(words), among)
        self._sent = self._without_own(outgoing)

    def begin(self) -> tuple[Message, ...]:
        """Everything sent so far: the first messages, or after a restart all of them again."""
        if self._persist is not None:
            self._persist(self.state.to_bytes())
        return self._sent

    def receive(self, message: Message) -> tuple[Message, ...]:
        """What to send after a message came."""
        outgoing = self._stepped(message)
        return self._sent_out(outgoing) if outgoing or self._persist is not None else ()

    def expire(self) -> tuple[Message, ...]:
        """What to send when the deadline of a round has passed: nothing unless this member collects."""
        if self._collector is None:
            return ()
        return self._sent_out(collector.expired(self.participant, self._collector))

    def note(self, message: Message) -> None:
        """Keep what is signed in a message and do nothing else: for what comes after the end."""
        self._refused = with_refused(self.participant, self._refused, message.body, self._member, self._collector)

    # What came of it

    @property
    def state(self) -> PartyState:
        """What this member remembers."""
        return PartyState(self.participant.context.digest, self._member, self._collector, self._sent, self._refused)

    @property
    def total(self) -> Words | None:
        """The sum, once it may be used."""
        return self._member.total

    @property
    def included(self) -> Members | None:
        """Whose addends are in the sum, once it may be used."""
        if self._member.total is None:
            return None
        context = self.participant.context
        if isinstance(self._member, MemberState):
            return context.members_in(self._member.included)
        return context.everyone

    @property
    def stopped(self) -> str | None:
        """Why the sum was stopped here, if it was."""
        return self._member.stopped

    @property
    def failure(self) -> SumError | None:
        """Returns the failure of this party's part as an error; None while there is none."""
        if isinstance(self._member, MemberState):
            return member.failure(self.participant, self._member)
        return serverless.failure(self.participant, self._member)

    @property
    def waits_for(self) -> Members:
        """Those whose answers this member waits for as collector, or the collector; nobody once the sum is over."""
        if self._member.total is not None or self._member.stopped is not None:
            return frozenset() if self._collector is None else collector.waits_for(self.participant, self._collector)
        if self._collector is not None:
            return collector.waits_for(self.participant, self._collector)
        if isinstance(self._member, MemberState):
            return frozenset({self.participant.context.collector})
        return self.participant.context.everyone - {self.participant.position}

    @property
    def has_enough(self) -> bool:
        """Whether this member collects and enough have answered in this round."""
        return self._collector is not None and collector.has_enough(self.participant, self._collector)

    @property
    def progress(self) -> tuple[str, str]:
        """What this member waits for, and what it waits for as collector: it changes from round to round."""
        own = self._member.stage if isinstance(self._member, MemberState) else str(self._member.place.round)
        return own, "" if self._collector is None else self._collector.stage

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything signed that this member has heard or said about the sum: what `sudare consortium blame` looks at."""
        taken = signed_to_member(self.participant, self._member)
        if self._collector is not None:
            taken += signed_to_collector(self.participant, self._collector)
        said = (each for message in self._sent for each in signed_in(message.body))
        return tuple(dict.fromkeys((*taken, *said, *self._refused)))

    # Steps

    def _stepped(self, message: Message) -> tuple[Message, ...]:
        before = self._member
        if isinstance(before, ServerlessState):
            self._member, outgoing = serverless.step(self.participant, before, message)
            # It takes a message in whole, or stays as it is.
            if self._member is before:
                self.note(message)
            return outgoing
        if isinstance(message.body, ToCollector):
            outgoing = () if self._collector is None else collector.step(self.participant, self._collector, message)
        else:
            self._member, outgoing = member.step(self.participant, before, message)
        self.note(message)
        return outgoing

    def _without_own(self, outgoing: tuple[Message, ...]) -> tuple[Message, ...]:
        """What goes to others, after this member has taken in what goes to itself."""
        to_others: list[Message] = []
        queue = list(outgoing)
        # It grows while it is read.
        for message in queue:
            if message.receiver != self.participant.position:
                to_others.append(message)
            else:
                queue.extend(self._stepped(message))
        return tuple(to_others)

    def _sent_out(self, outgoing: tuple[Message, ...]) -> tuple[Message, ...]:
        """What goes to others, saved before it is handed out; remembered to be sent again after a restart, where anything is saved."""
        to_others = self._without_own(outgoing)
        if to_others and self._remembers:
            self._sent = (*self._sent, *to_others)
        if self._persist is not None:
            self._persist(self.state.to_bytes())
        return to_others

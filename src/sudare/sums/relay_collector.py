"""The relay as the collector of a sum that members may leave: no addend, no shares, no vote, and the state that is saved before anything is sent.

Members trust it no more than a member that collects (proofs/secure_sums.md). It learns the total, which a relay that only passes messages on does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sudare.array_types import Words
from sudare.errors import InvalidParameter, SumError
from sudare.sums import collector
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.collector import CollectorState
from sudare.sums.context import Participant
from sudare.sums.evidence import signed_in, signed_to_collector, with_refused
from sudare.sums.messages import MESSAGE_CLASSES, Members, Message, ToCollector
from sudare.sums.party import Persist
from sudare.sums.statements import Statement


@dataclass(frozen=True)
class RelayState:
    """What a relay saves of an attempt at a sum."""

    input_digest: bytes
    context_digest: bytes
    collector: CollectorState
    sent: tuple[Message, ...]
    refused: tuple[Statement, ...]

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> RelayState:
        """The state of these bytes. Raise MessageMalformed unless they are one."""
        return unpacked_as(cls, content, *_STATE_CLASSES)


_STATE_CLASSES: Final = (RelayState, CollectorState, *MESSAGE_CLASSES)


class RelayCollector:
    """The relay in a sum over vectors of `length` words. `persist` gets the whole state before messages are handed out; `saved` is what it got last.

    Saved state of the same attempt is taken up again. Nothing of other attempts binds it: whom members have voted for they say themselves.
    """

    def __init__(
        self, me: Participant, length: int, persist: Persist | None = None, saved: bytes | None = None
    ) -> None:
        if me.position != me.context.collector or me.position in me.context.everyone:
            raise InvalidParameter("This relay does not collect this sum.", "Give the sum the relay's keys.")
        self.participant, self._persist = me, persist
        before = None if saved is None else RelayState.from_bytes(saved)
        if before is not None and before.input_digest != me.context.input_digest:
            raise SumError("What was saved is of another input.", "Give every iteration of a task its own place.")
        if before is not None and before.context_digest == me.context.digest:
            self._collector, self._sent, self._refused = before.collector, before.sent, before.refused
            return
        self._collector, self._sent, self._refused = collector.begun(len(me.publics), length), (), ()

    def begin(self) -> tuple[Message, ...]:
        """Everything sent so far: nothing at first, or after a restart all of it again."""
        self._sent_out(())
        return self._sent

    def give_up_before_votes(self) -> tuple[Message, ...]:
        """What to send after a restart to end an attempt in which no votes were asked for, as far as this state knows.

        An older copy of the state may know of fewer answers than came: asked for votes on another set, members would be split. Who has voted says so in the next attempt.
        """
        is_early = self._collector.stage in ("keys", "boxes", "inputs")
        return self._sent_out(collector.given_up(self.participant, self._collector)) if is_early else ()

    def receive(self, message: Message) -> tuple[Message, ...]:
        """What to send after a message came."""
        if not isinstance(message.body, ToCollector):
            return ()
        outgoing = collector.step(self.participant, self._collector, message)
        self._refused = with_refused(self.participant, self._refused, message.body, None, self._collector)
        return self._sent_out(outgoing)

    def expire(self) -> tuple[Message, ...]:
        """What to send when the deadline of a round has passed."""
        return self._sent_out(collector.expired(self.participant, self._collector))

    @property
    def state(self) -> RelayState:
        """What the relay remembers."""
        context = self.participant.context
        return RelayState(context.input_digest, context.digest, self._collector, self._sent, self._refused)

    @property
    def total(self) -> Words | None:
        """The sum, once it is opened. Members use it only after they have compared it."""
        return self._collector.total

    @property
    def included(self) -> Members:
        """Whose addends came."""
        return frozenset(self._collector.inputs)

    @property
    def is_over(self) -> bool:
        """Whether nothing is waited for any more."""
        return self._collector.is_over

    @property
    def progress(self) -> str:
        """What the relay waits for: it changes from round to round."""
        return self._collector.stage

    @property
    def waits_for(self) -> Members:
        """Those whose answers this round still waits for."""
        return collector.waits_for(self.participant, self._collector)

    @property
    def has_enough(self) -> bool:
        """Whether enough have answered in this round."""
        return collector.has_enough(self.participant, self._collector)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything signed that the relay took in or said about the sum: what `sudare.sums.blame` looks at."""
        said = (each for message in self._sent for each in signed_in(message.body))
        taken = signed_to_collector(self.participant, self._collector)
        return tuple(dict.fromkeys((*taken, *said, *self._refused)))

    def _sent_out(self, outgoing: tuple[Message, ...]) -> tuple[Message, ...]:
        """The same, remembered and saved before it is handed out."""
        self._sent = (*self._sent, *outgoing)
        if self._persist is not None:
            self._persist(self.state.to_bytes())
        return outgoing

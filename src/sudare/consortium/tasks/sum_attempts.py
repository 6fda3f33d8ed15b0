"""One sum among the members of an agreement: attempts at it, deadlines, and its messages in envelopes.

Each attempt has another collector, or all of them the relay. A member begins the next one when its own was stopped or made no progress, or when more members speak of it
than may be dishonest. A vote that was cast stays: no later attempt makes a total over other members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.tasks.sum_participant import (
    COLLECT,
    PART_FOR_THE_LATE,
    Attempt,
    SumGroup,
    SumRequest,
    SumSteps,
)
from sudare.errors import MembersMissing, SumError
from sudare.sums.blame import Transcript
from sudare.sums.canonical_encoding import packed
from sudare.sums.context import RELAY_NAME, Participant, SumContext
from sudare.sums.keys import PublicKeys
from sudare.sums.messages import GivenUp, Message, Withdrawn, history_after
from sudare.sums.party import Party, PartyState
from sudare.sums.statements import Statement

Words = NDArray[np.uint64]
# Longer than a collector waits for members.
_DEADLINES_OF_A_COLLECTOR: Final = 5
# In one life of the process every member collects a sum so many times at most, and no sum is tried for longer.
_TURNS: Final = 2
_DEADLINES_OF_A_SUM: Final = 20


@dataclass(frozen=True)
class IterationStart:
    """The state of the script before the sum of an iteration; `history` is the digest of all totals heard before.

    Whoever was left out of a total takes part in no later one: its records are not in what the script counts on. `among` are the only members that
    the addend is added up with, where that is settled.
    """

    PACKED_NAME: ClassVar = "Stand"

    iteration: int
    state: bytes
    addend: Words
    history: bytes
    takes_part: bool
    among: frozenset[int] | None = None


@dataclass(frozen=True)
class Total:
    """A total and the positions of those whose addends are in it."""

    words: Words
    included: frozenset[int]


class SumAttempts(SumSteps[Party]):
    """This member in one sum.

    `earlier` is what was signed in attempts before, and `late` are the members that were left out of the sum before. One that does not take part
    looks on: it tells collectors not to wait for it.
    """

    def __init__(
        self,
        task: str,
        group: SumGroup,
        publics: tuple[PublicKeys, ...],
        start: IterationStart,
        save: Callable[[Attempt], None],
        earlier: tuple[Statement, ...] = (),
        late: frozenset[str] = frozenset(),
    ) -> None:
        request = SumRequest(start.history, len(start.addend))
        super().__init__(task, group, publics, start.iteration, request, save, late)
        self._start = start
        self._others_at: dict[str, int] = {}
        self._earlier = earlier
        self._is_closed = False
        self.failure: SumError | None = None

    def begin(self, saved: Attempt | None, now: float) -> None:
        """Begin, or take up what was saved: the same bytes again.

        What was saved with other keys is followed by a later attempt: secrets depend on the context alone, so that none may be begun twice.
        """
        number = 0 if saved is None else saved.number
        if saved is not None and PartyState.from_bytes(saved.sum_state).context_digest != self._context(number).digest:
            number += 1
        self._began_at, self._first = now, number
        self._attempt(number, None if saved is None else saved.sum_state, now)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message of this sum in. True once it may be acknowledged: what follows from it is saved, or nothing does.

        False also if the message is of a later attempt than this member's; those of earlier ones change nothing.
        """
        self.notice_attempt(sender, envelope.attempt, now)
        if not self._start.takes_part:
            return True
        if self.is_over:
            self.note(sender, envelope)
            return True
        if envelope.attempt != self.number:
            return envelope.attempt < self.number
        self._take_once(sender, envelope, now)
        self._look_whether_stopped(now)
        return self._is_saved

    def notice_attempt(self, sender: str, number: int, now: float) -> None:
        """Go to an attempt that more members speak of than may be dishonest: an honest one among them has begun it. A relay's word is nobody's."""
        if sender not in self._group.members:
            return
        self._others_at[sender] = number
        dishonest = self._group.dishonest
        numbers = sorted(self._others_at.values(), reverse=True)
        if len(numbers) > dishonest and self._may_try_again and numbers[dishonest] > self.number:
            self._begin_attempt(numbers[dishonest], now)

    def note(self, sender: str, envelope: Envelope) -> None:
        """Keep what is signed in a message that came after the end: it may prove a lie."""
        message = self._read(sender, envelope) if envelope.attempt == self.number else None
        if message is not None:
            self._party.note(message)

    def keep(self, sender: str, envelope: Envelope) -> None:
        """Take in what came after this member gave up, and send nothing: as if it had been killed then. It goes on from there when the task is run again.

        Its sender may be done, and never say it again.
        """
        message = self._read(sender, envelope) if envelope.attempt == self.number else None
        if message is not None and self._start.takes_part and not self._is_closed:
            self._party.receive(message)
            self._is_saved = False
            self.flush()

    def close(self) -> None:
        """The total is known, from here or from others, and saved: nothing that comes changes anything."""
        self._is_closed = True

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done, here or for the others: whoever misses something has it in what was sent before."""
        return self._is_closed or self.failure is not None

    def wait_anew(self, now: float) -> None:
        """Count the time that the others were waited for from now on."""
        super().wait_anew(now)
        self._began_at = now

    def tick(self, now: float, present: frozenset[str], deadline_seconds: float) -> None:
        """Time passed. `present` are the participants heard of within the deadline."""
        self._present = present
        if self.failure is not None:
            return
        if not self._start.takes_part:
            if now - self._began_at >= _DEADLINES_OF_A_SUM * deadline_seconds:
                self.failure = self._last_failure()
            return
        awaited, waited = self._awaited(), now - self._progress_at
        if not self._group.may_lose_some:
            self._look_for_everyone(awaited, waited, deadline_seconds)
        elif self._collects:
            self._look_for_answers(now, deadline_seconds)
        elif awaited and (not awaited <= present or waited >= self._deadlines_for(awaited) * deadline_seconds):
            self._next_attempt(now)
        self._look_whether_stopped(now)
        if self._may_try_again and waited >= deadline_seconds:
            self._look_for_enough()
        if self._may_try_again and now - self._began_at >= _DEADLINES_OF_A_SUM * deadline_seconds:
            self.failure = self._last_failure()
        self.flush()

    def _deadlines_for(self, collector: frozenset[str]) -> float:
        return PART_FOR_THE_LATE if collector <= self._late else _DEADLINES_OF_A_COLLECTOR

    def _look_for_everyone(self, awaited: frozenset[str], waited: float, deadline_seconds: float) -> None:
        """Stop where nobody may leave and somebody has, or where all have spoken and it is not finished for long.

        Whoever has said nothing of the task yet may wait for its steward; that is waited for until the task's own deadline.
        """
        if self.total is not None:
            return
        absent = sorted(awaited - self._present)
        have_begun = self.iteration > 0 or len(self._others_at) == len(self._group.members) - 1
        if have_begun and not absent and waited >= _DEADLINES_OF_A_SUM * deadline_seconds:
            self.failure = MembersMissing(
                f"This sum over {len(self._group.members)} members needs all of them to the end; they are there, and it was not finished: "
                "somebody says nothing, or shows different keys to different members.",
                "No total was used. Ask the others how far they came, and run the task again.",
            )
        if absent and waited >= deadline_seconds:
            self.failure = MembersMissing(
                f"This sum over {len(self._group.members)} members needs all of them to the end; missing: {_named(absent)}.",
                "Nothing was opened. Wait until they are back and run the task again.",
            )

    def _look_for_enough(self) -> None:
        """Stop where more members are absent than may leave."""
        absent = sorted(frozenset(self._group.members) - self._present)
        if self.failure is None and len(absent) > len(self._group.members) - self._group.threshold:
            self.failure = MembersMissing(
                f"A sum needs {self._group.threshold} of {len(self._group.members)} members to its end; missing: {_named(absent)}.",
                "No total was used. Wait until enough of them are back and run the task again.",
            )

    @property
    def total(self) -> Total | None:
        """The sum and whose addends are in it, once it may be used."""
        words, included = self._party.total, self._party.included
        return None if words is None or included is None else Total(words, included)

    def history_with(self, total: Total) -> bytes:
        """The digest of all totals heard, with this one."""
        return history_after(self._start.history, self._party.participant.context, total.included, total.words)

    @property
    def transcript(self) -> Transcript:
        """Everything signed in this sum, with what names it."""
        return Transcript(self._party.participant.context, self.statements)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything signed that was heard or said, in all attempts."""
        return tuple(dict.fromkeys((*self._earlier, *self._party.statements)))

    # Attempts

    @property
    def _collects(self) -> bool:
        return self._party.participant.context.collector == self._group.position

    @property
    def _may_try_again(self) -> bool:
        return self._group.may_lose_some and self.total is None and not self.is_over

    def _look_whether_stopped(self, now: float) -> None:
        """Make the next attempt where this one was stopped; none after somebody was shown to lie, or where nobody may leave."""
        if self._party.stopped is None or self.total is not None or self.is_over:
            return
        if self._party.stopped == "contradiction" or not self._group.may_lose_some:
            self.failure = self._party.failure
        else:
            self._next_attempt(now)

    def _next_attempt(self, now: float) -> None:
        """The next attempt whose collector is there; none is left after as many as let every member have its turns."""
        for number in range(self.number + 1, self._first + _TURNS * len(self._group.members)):
            collector = self._group.collector_of(self.iteration, number)
            if collector in self._present or collector == self._group.name:
                self._begin_attempt(number, now)
                return
        self.failure = self._last_failure()

    def _last_failure(self) -> SumError:
        """Why no further attempt is made."""
        count, voted_for = len(self._group.members), self._party.state.record.voted_for
        promised = frozenset[int]() if voted_for is None else self._party.participant.context.members_in(voted_for)
        left = [
            self._group.members[each] for each in sorted(promised) if self._group.members[each] not in self._present
        ]
        if left:
            return MembersMissing(
                f"This member's addend is for a total over {len(promised)} members; missing: {_named(left)}. No total over others is made of it.",
                "No total was used. Run the task again when they are back; it goes on where it stopped.",
            )
        if self._group.relay_collects and RELAY_NAME not in self._present:
            return MembersMissing(
                "The relay, which collects the sums of this agreement, is missing.",
                "No total was used. Run the task again when it is back; it goes on where it stopped.",
            )
        if self._party.failure is not None:
            return self._party.failure
        tried = f"{self.number + 1} attempts at a sum among {count} members were not finished"
        if self._group.relay_collects:
            return MembersMissing(
                f"{tried}: the relay, which collects them, is there and finished none.",
                "No total was used. Ask who runs it what it says; it may hold another agreement, key or state folder. Run the task again then.",
            )
        return MembersMissing(
            f"{tried}.", "No total was used. Look at `sudare status`, and run the task again when members are there."
        )

    def _begin_attempt(self, number: int, now: float) -> None:
        self._earlier = self.statements
        self._attempt(number, self._party.state.to_bytes(), now)

    def _attempt(self, number: int, saved: bytes | None, now: float) -> None:
        context = self._context(number)
        participant = Participant(context, self._group.position, self._group.keys)
        party = Party(participant, self._start.addend, saved=saved, saves_state=True, among=self._start.among)
        self._begin(number, party, party.begin() if self._start.takes_part else self._refusals(context), now)
        self.ask_relay()

    def ask_relay(self) -> None:
        """Ask the relay to collect this attempt, where that is its part. Asked again it hears nothing new, unless it was restarted."""
        if self._group.relay_collects and self.total is None:
            request = Envelope(self._task, COLLECT, self.iteration, self.number, packed(self.request))
            self._posts.append((RELAY_NAME, request))

    def _refusals(self, context: SumContext) -> tuple[Message, ...]:
        """What a member that looks on says at the beginning of an attempt: as collector that it gives up, to all; else that it is not there."""
        own = self._group.position
        if context.collector != own:
            return (Message(own, context.collector, Withdrawn()),)
        return tuple(Message(own, other, GivenUp()) for other in sorted(self._group.everyone - {own}))


def _named(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)

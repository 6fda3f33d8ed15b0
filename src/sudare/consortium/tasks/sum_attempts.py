"""One sum among the members of an agreement: attempts at it, deadlines, and its messages in envelopes.

Each attempt has another collector. A member begins the next one when its own was stopped or made no progress, or when more members speak of it
than may be dishonest. A vote that was cast stays: no later attempt makes a total over other members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sudare.consortium.network.message_dispatch import Envelope
from sudare.errors import MembersMissing, MessageMalformed, SumError
from sudare.sums.blame import Transcript
from sudare.sums.context import Participant, Roster, SumContext
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.messages import GivenUp, Message, Withdrawn, history_after, most_message_bytes
from sudare.sums.neighbour_graph import sum_neighbourhood
from sudare.sums.party import Party
from sudare.sums.statements import Statement

Words = NDArray[np.uint64]
SUM = "sum"
# A collector goes on without those who are there and say nothing after two deadlines; members wait for it longer than that.
_DEADLINES_OF_A_ROUND: Final = 2
_DEADLINES_OF_A_COLLECTOR: Final = 5
# Those who were left out of the sum before are waited for by a small part of a deadline.
_PART_FOR_THE_LATE: Final = 0.1
_MOST_UNACKNOWLEDGED: Final = 4096
# In one life of the process every member collects a sum so many times at most, and no sum is tried for longer.
_TURNS: Final = 2
_DEADLINES_OF_A_SUM: Final = 20


@dataclass(frozen=True)
class SumGroup:
    """Among whom sums are made: the agreement's digest, its members in their order, this one's name and keys, the threshold, how many may lie."""

    agreement: str
    members: tuple[str, ...]
    name: str
    keys: MemberKeys
    threshold: int
    dishonest: int

    @property
    def position(self) -> int:
        """Which of the members this one is."""
        return self.members.index(self.name)

    @property
    def everyone(self) -> frozenset[int]:
        """All positions."""
        return frozenset(range(len(self.members)))

    @property
    def may_lose_some(self) -> bool:
        """Whether the agreement lets members leave."""
        return self.threshold < len(self.members)


@dataclass(frozen=True)
class IterationStart:
    """Where the script is before the sum of an iteration; `history` is the digest of all totals heard before.

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


@dataclass(frozen=True)
class Attempt:
    """One attempt at a sum, saved before its messages are sent."""

    iteration: int
    number: int
    sum_state: bytes


class SumAttempts:
    """This member in one sum.

    `earlier` is what was signed in attempts before, and `late` are the members that were left out of the sum before. One that does not take part
    looks on: it tells collectors not to wait for it.
    """

    number: int
    _party: Party
    _stage: tuple[str, str]
    _progress_at: float

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
        self.iteration, self._start, self._late = start.iteration, start, late
        self._task, self._group, self._save = task, group, save
        self._roster = Roster(group.members, publics)
        self._posts: list[tuple[str, Envelope]] = []
        self._is_saved = True
        self._unacknowledged: set[tuple[str, int, bytes]] = set()
        self._present = frozenset(group.members)
        self._others_at: dict[str, int] = {}
        self._earlier = earlier
        self._is_closed = False
        self.failure: SumError | None = None

    def begin(self, saved: Attempt | None, now: float) -> None:
        """Begin, or take up what was saved: the same bytes again."""
        self._began_at, self._first = now, 0 if saved is None else saved.number
        self._attempt(self._first, None if saved is None else saved.sum_state, now)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message of this sum in. True once it may be acknowledged: what follows from it is saved, or nothing does.

        What leads to no message yet is saved with the next one that is sent, or at the next tick. False also if the message is of a
        later attempt than this member's; those of earlier ones change nothing.
        """
        self.notice_attempt(sender, envelope.attempt, now)
        if not self._start.takes_part:
            return True
        if self.is_over:
            self.note(sender, envelope)
            return True
        if envelope.attempt != self.number:
            return envelope.attempt < self.number
        key = sender, envelope.attempt, hashlib.sha256(envelope.body).digest()
        if key not in self._unacknowledged:
            if len(self._unacknowledged) >= _MOST_UNACKNOWLEDGED:
                # Those that are offered again are read again.
                self._unacknowledged.clear()
            self._unacknowledged.add(key)
            self._received(sender, envelope, now)
        if self._is_saved:
            self._unacknowledged.discard(key)
        return self._is_saved

    def notice_attempt(self, sender: str, number: int, now: float) -> None:
        """Go to an attempt that more members speak of than may be dishonest: an honest one among them has begun it."""
        self._others_at[sender] = number
        dishonest = self._group.dishonest
        numbers = sorted(self._others_at.values(), reverse=True)
        if len(numbers) > dishonest and self._may_try_again and numbers[dishonest] > self.number:
            self._begin_attempt(numbers[dishonest], now)

    def _received(self, sender: str, envelope: Envelope, now: float) -> None:
        message = self._read(sender, envelope)
        if message is None:
            # Whoever sends what cannot be read is heard as if it were silent.
            return
        self._take_step(self._party.receive(message), now)
        self._look_whether_stopped(now)

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

    def _take_step(self, outgoing: tuple[Message, ...], now: float) -> None:
        self._is_saved = False
        self._send(outgoing)
        if self._party.progress != self._stage:
            self._stage, self._progress_at = self._party.progress, now

    def _read(self, sender: str, envelope: Envelope) -> Message | None:
        """The message in an envelope; None unless it is one that this sender can send to this member."""
        if len(envelope.body) > most_message_bytes(len(self._start.addend), len(self._group.members)):
            return None
        try:
            message = Message.from_bytes(envelope.body)
        except MessageMalformed:
            return None
        ends = self._group.members.index(sender), self._group.position
        return message if (message.sender, message.receiver) == ends else None

    def flush(self) -> None:
        """Save what was not saved yet. Messages are sent only after it."""
        if not self._is_saved:
            self._save(Attempt(self.iteration, self.number, self._party.state.to_bytes()))
            self._is_saved = True

    def close(self) -> None:
        """The total is known, from here or from others, and saved: nothing that comes changes anything."""
        self._is_closed = True

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done, here or for the others: whoever misses something has it in what was sent before."""
        return self._is_closed or self.failure is not None

    def wait_anew(self, now: float) -> None:
        """Count the time that the others were waited for from now on."""
        self._began_at = self._progress_at = now

    def tick(self, now: float, present: frozenset[str], deadline_seconds: float) -> None:
        """Time passed. `present` are the members heard of within the deadline."""
        self._present = present
        if self.failure is not None:
            return
        if not self._start.takes_part:
            if now - self._began_at >= _DEADLINES_OF_A_SUM * deadline_seconds:
                self.failure = self._last_failure()
            return
        awaited = {self._group.members[position] for position in self._party.waits_for}
        waited = now - self._progress_at
        if not self._group.may_lose_some:
            self._look_for_everyone(awaited, waited, deadline_seconds)
        elif self._collects:
            self._look_for_answers(awaited, waited, deadline_seconds, now)
        elif awaited and (not awaited <= present or waited >= self._deadlines_for(awaited) * deadline_seconds):
            self._next_attempt(now)
        self._look_whether_stopped(now)
        if self._may_try_again and waited >= deadline_seconds:
            self._look_for_enough()
        if self._may_try_again and now - self._began_at >= _DEADLINES_OF_A_SUM * deadline_seconds:
            self.failure = self._last_failure()
        self.flush()

    def _deadlines_for(self, collector: set[str]) -> float:
        return _PART_FOR_THE_LATE if collector <= self._late else _DEADLINES_OF_A_COLLECTOR

    def _look_for_everyone(self, awaited: set[str], waited: float, deadline_seconds: float) -> None:
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

    def _look_for_answers(self, awaited: set[str], waited: float, deadline_seconds: float, now: float) -> None:
        """Collect without those who are silent: at once where they are absent and the others are enough."""
        if not awaited:
            return
        are_absent, are_late = not awaited & self._present, awaited <= self._late
        waited_for_late = waited >= _PART_FOR_THE_LATE * deadline_seconds
        is_over = self._party.has_enough and (are_absent or (are_late and waited_for_late))
        is_over |= are_absent and waited >= deadline_seconds
        if is_over or waited >= _DEADLINES_OF_A_ROUND * deadline_seconds:
            self._take_step(self._party.expire(), now)

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

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent."""
        posts, self._posts = self._posts, []
        return posts

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
        """The next attempt whose collector is there; none is left after every member had its turns."""
        count = len(self._group.members)
        for number in range(self.number + 1, self._first + _TURNS * count):
            collector = self._group.members[(self.iteration + number) % count]
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
        return self._party.failure or MembersMissing(
            f"{self.number + 1} attempts at a sum among {count} members were not finished.",
            "No total was used. Look at `sudare status`, and run the task again when members are there.",
        )

    def _begin_attempt(self, number: int, now: float) -> None:
        self._earlier = self.statements
        self._attempt(number, self._party.state.to_bytes(), now)

    def _attempt(self, number: int, saved: bytes | None, now: float) -> None:
        group = self._group
        self.number, self._progress_at = number, now
        counts = group.threshold, group.dishonest
        neighbourhood = sum_neighbourhood(len(group.members), group.dishonest, group.threshold)
        which = group.agreement, self._task, self.iteration, number
        context = SumContext(*which, self._roster, *counts, self._start.history, neighbourhood)
        participant = Participant(context, group.position, group.keys)
        self._party = Party(participant, self._start.addend, saved=saved, saves_state=True, among=self._start.among)
        self._unacknowledged.clear()
        self._stage = self._party.progress
        self._take_step(self._party.begin() if self._start.takes_part else self._refusals(context), now)
        self.flush()

    def _refusals(self, context: SumContext) -> tuple[Message, ...]:
        """What a member that looks on says at the beginning of an attempt: as collector that it gives up, to all; else that it is not there."""
        own = self._group.position
        if context.collector != own:
            return (Message(own, context.collector, Withdrawn()),)
        return tuple(Message(own, other, GivenUp()) for other in sorted(self._group.everyone - {own}))

    def _send(self, messages: tuple[Message, ...]) -> None:
        if messages:
            self.flush()
        for message in messages:
            receiver = self._group.members[message.receiver]
            envelope = Envelope(self._task, SUM, self.iteration, self.number, message.to_bytes())
            self._posts.append((receiver, envelope))


def _named(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)

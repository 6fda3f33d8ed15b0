"""One sum among the members of an agreement: attempts at it, deadlines, and its messages in envelopes.

Each attempt has another collector. A member begins the next one when its own was stopped or made no progress, or when more members speak of it
than may be dishonest. A vote that was cast stays: no later attempt makes a total over other members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.consortium.desk import Envelope
from sudare.errors import MembersMissing, MessageMalformed, SumError
from sudare.sums.context import Roster, Seat, SumContext
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.messages import Message, history_after, most_message_bytes
from sudare.sums.neighbours import sum_neighbourhood
from sudare.sums.party import Party, PartyState
from sudare.sums.statements import Statement

Words = NDArray[np.uint64]
SUM = "sum"
# A collector goes on without those who are there and say nothing after two deadlines; members wait for it longer than that.
_DEADLINES_OF_A_ROUND: Final = 2
_DEADLINES_OF_A_COLLECTOR: Final = 5
# Reasons after which no other attempt is made: somebody lied, or the input was promised to another set of members.
_FINAL: Final = ("contradiction", "second total")


@dataclass(frozen=True)
class Circle:
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


class Sitting:
    """This member in one sum. `history` is the digest of all totals heard before."""

    def __init__(
        self,
        task: str,
        circle: Circle,
        publics: tuple[PublicKeys, ...],
        iteration: int,
        history: bytes,
        addend: Words,
        save: Callable[[Attempt], None],
    ) -> None:
        self.iteration = iteration
        self._task, self._circle, self._addend, self._save = task, circle, addend, save
        self._history = history
        self._roster = Roster(circle.members, publics)
        self._posts: list[tuple[str, Envelope]] = []
        self._unsaved: Attempt | None = None
        self._ahead: dict[str, int] = {}
        # Of attempts before this one; and those that are in the transcript on disk.
        self.earlier_statements: tuple[Statement, ...] = ()
        self.kept: frozenset[Statement] = frozenset()
        self.failure: SumError | None = None

    def begin(self, saved: Attempt | None, now: float) -> None:
        """Begin, or take up what was saved: the same bytes again, or the next attempt if that one was stopped."""
        if saved is None:
            self._attempt(0, None, now)
            return
        self._attempt(saved.number, saved.sum_state, now)
        self._look_whether_stopped(now, frozenset(self._circle.members))

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """A message of this sum. False if it is of a later attempt than this member's; those of earlier ones change nothing."""
        if envelope.attempt > self._number:
            self._ahead[sender] = envelope.attempt
            self._join_the_others(now)
        if envelope.attempt > self._number and self.failure is None and self.total is None:
            return False
        if envelope.attempt == self._number:
            self._received(sender, envelope, now)
        return True

    def _received(self, sender: str, envelope: Envelope, now: float) -> None:
        message = self._read(sender, envelope)
        if message is None:
            # Whoever sends what cannot be read is heard as if it were silent.
            return
        self._send(self._party.receive(message))
        self._note_progress(now)
        if self.total is None or self._circle.may_lose_some:
            self.flush()

    def _read(self, sender: str, envelope: Envelope) -> Message | None:
        """The message in an envelope; None unless it is one that this sender can send to this member."""
        if len(envelope.body) > most_message_bytes(len(self._addend), len(self._circle.members)):
            return None
        try:
            message = Message.from_bytes(envelope.body)
        except MessageMalformed:
            return None
        ends = self._circle.members.index(sender), self._circle.position
        return message if (message.sender, message.receiver) == ends else None

    def flush(self) -> None:
        """Save what was not saved yet.

        Messages are sent only after it. The event that completes a sum may wait for the checkpoint of the next one: whoever sent it
        sends it again until then.
        """
        if self._unsaved is not None:
            self._save(self._unsaved)
            self._unsaved = None

    def tick(self, now: float, present: frozenset[str], deadline_seconds: float) -> None:
        """Time passed. `present` are the members heard of within the deadline."""
        if self.failure is not None:
            return
        awaited = {self._circle.members[position] for position in self._party.waits_for}
        waited = now - self._progress_at
        if self._collects and self._circle.may_lose_some:
            is_over = waited >= deadline_seconds and not awaited & present
            if awaited and (is_over or waited >= _DEADLINES_OF_A_ROUND * deadline_seconds):
                self._send(self._party.expire())
                self._note_progress(now)
                self.flush()
        elif self.total is None and awaited:
            self._look_for_the_awaited(awaited, waited, present, deadline_seconds, now)
        self._look_whether_stopped(now, present)

    def _look_for_the_awaited(
        self, awaited: set[str], waited: float, present: frozenset[str], deadline_seconds: float, now: float
    ) -> None:
        absent = sorted(awaited - present)
        if not self._circle.may_lose_some:
            if absent and waited >= deadline_seconds:
                named = ", ".join(f"'{name}'" for name in absent)
                self.failure = MembersMissing(
                    f"This sum over {len(self._circle.members)} members needs all of them to the end; missing: {named}.",
                    "Nothing was opened. Wait until they are back and begin another task.",
                )
            return
        if (absent and waited >= deadline_seconds) or waited >= _DEADLINES_OF_A_COLLECTOR * deadline_seconds:
            self._next_attempt(now, present)

    @property
    def total(self) -> Total | None:
        """The sum and whose addends are in it, once it may be used."""
        words, included = self._party.total, self._party.included
        return None if words is None or included is None else Total(words, included)

    def history_with(self, total: Total) -> bytes:
        """The digest of all totals heard, with this one."""
        return history_after(self._history, self._party.seat.context, total.included, total.words)

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent."""
        posts, self._posts = self._posts, []
        return posts

    # Attempts

    @property
    def _collects(self) -> bool:
        return self._party.seat.context.collector == self._circle.position

    def _join_the_others(self, now: float) -> None:
        """Go to an attempt that more members speak of than may be dishonest: an honest one among them has begun it."""
        numbers = sorted(self._ahead.values(), reverse=True)
        if len(numbers) > self._circle.dishonest and self.total is None and self.failure is None:
            joined = numbers[self._circle.dishonest]
            if joined > self._number:
                self._begin_attempt(joined, now)

    def _look_whether_stopped(self, now: float, present: frozenset[str]) -> None:
        """Make the next attempt where this one was stopped, if there can be one."""
        if self._party.stopped is None or self.failure is not None or self.total is not None:
            return
        if self._party.stopped in _FINAL or not self._circle.may_lose_some:
            self.failure = self._party.failure
        else:
            self._next_attempt(now, present)

    def _next_attempt(self, now: float, present: frozenset[str]) -> None:
        """The next attempt whose collector is there; none is left after every member has collected twice."""
        count = len(self._circle.members)
        for number in range(self._number + 1, 2 * count):
            collector = self._circle.members[(self.iteration + number) % count]
            if collector in present or collector == self._circle.name:
                self._begin_attempt(number, now)
                return
        self.failure = self._party.failure or MembersMissing(
            f"{2 * count} attempts at a sum were not finished.",
            "Nothing was opened. Look at `sudare status`, and begin another task.",
        )

    def _begin_attempt(self, number: int, now: float) -> None:
        self.earlier_statements = self.statements
        self._attempt(number, self._party.state.to_bytes(), now)

    def _attempt(self, number: int, saved: bytes | None, now: float) -> None:
        circle = self._circle
        self._number, self._progress_at = number, now
        hood = sum_neighbourhood(len(circle.members), circle.dishonest, circle.threshold)
        context = SumContext(
            circle.agreement,
            self._task,
            self.iteration,
            number,
            self._roster,
            circle.threshold,
            circle.dishonest,
            self._history,
            hood,
        )
        seat = Seat(context, circle.position, circle.keys)
        self._party = Party(seat, self._addend, self._persist, saved)
        self._stage = self._party.progress
        self._send(self._party.begin())
        self.flush()

    def _note_progress(self, now: float) -> None:
        if self._party.progress != self._stage:
            self._stage, self._progress_at = self._party.progress, now

    @property
    def context(self) -> SumContext:
        """Which sum this is, and which attempt at it."""
        return self._party.seat.context

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything signed that was heard or said, in all attempts of this life of the process."""
        return tuple(dict.fromkeys((*self.earlier_statements, *self._party.statements)))

    def _persist(self, sum_state: bytes) -> None:
        self._unsaved = Attempt(self.iteration, self._number, sum_state)

    def _send(self, messages: tuple[Message, ...]) -> None:
        if messages:
            self.flush()
        for message in messages:
            receiver = self._circle.members[message.receiver]
            envelope = Envelope(self._task, SUM, self.iteration, self._number, message.to_bytes())
            self._posts.append((receiver, envelope))


__all__ = ["SUM", "Attempt", "Circle", "PartyState", "Sitting", "Total"]

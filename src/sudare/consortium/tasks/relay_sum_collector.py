"""The relay as collector of the sums of a task, between machines. No I/O but the store, no clock.

It knows neither script nor records. Members tell it which sum is next, the digest of earlier totals and the length of vectors; it believes what more of
them say than may be dishonest. What it promised is in the store before a message is handed out. After a restart it sends the same bytes again; it gives up
an attempt in which it had not asked for votes, because its saved state may be an older copy. Of a task it keeps the current sum and the one before, and
transcripts as members do; once nobody has spoken of a task for a while, only in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from sudare.consortium.network.message_dispatch import STOP, Envelope
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_participant import (
    COLLECT,
    SUM,
    Attempt,
    Known,
    SumActivity,
    SumGroup,
    SumRequest,
    SumSteps,
)
from sudare.consortium.tasks.sum_transcripts import Transcripts
from sudare.errors import AgreementMismatch, MessageMalformed, SudareError
from sudare.sums.blame import Transcript
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.context import Participant
from sudare.sums.relay_collector import RelayCollector
from sudare.sums.statements import Statement

# After so long without a word about a task whose last sum has ended, it is kept in the store alone.
_REST_SECONDS: Final = 60.0


def named(names: Iterable[str]) -> str:
    """The names, in their order."""
    return ", ".join(sorted(names))


@dataclass(frozen=True)
class CollectedAttempt:
    """What a relay saves of a sum: what members asked for, and the attempt at it."""

    request: SumRequest
    attempt: Attempt


@dataclass(frozen=True)
class _Asked:
    """What one member asked for last."""

    iteration: int
    attempt: int
    request: SumRequest


class RelayedSum(SumSteps[RelayCollector]):
    """The relay in one sum."""

    _earlier: tuple[Statement, ...]

    def begin(self, number: int, saved: bytes | None, now: float, earlier: tuple[Statement, ...]) -> None:
        """Begin an attempt, or take up what was saved: the same bytes again, and the end of it where no votes were asked for. `earlier` is what was signed in attempts before."""
        self._earlier = earlier
        me = Participant(self._context(number), self._group.position, self._group.keys)
        collector = RelayCollector(me, self.request.length, saved=saved)
        said = collector.begin()
        self._begin(number, collector, said if saved is None else said + collector.give_up_before_votes(), now)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in. True once it may be acknowledged; False also if it is of a later attempt. Those of earlier ones change nothing."""
        if envelope.attempt != self.number:
            return envelope.attempt < self.number
        self._take_once(sender, envelope, now)
        return self._is_saved

    def tick(self, now: float, present: frozenset[str], deadline_seconds: float) -> None:
        """Time passed. `present` are the members heard of within the deadline."""
        self._present = present
        self._look_for_answers(now, deadline_seconds)
        self.flush()

    @property
    def is_over(self) -> bool:
        """Whether the current attempt has come to its end."""
        return self._party.is_over

    @property
    def transcript(self) -> Transcript:
        """Everything signed in this sum, with what names it."""
        return Transcript(self._party.participant.context, self.statements)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything signed that was heard or said, in all attempts."""
        return tuple(dict.fromkeys((*self._earlier, *self._party.statements)))

    def situation(self, present: frozenset[str]) -> str:
        """What the relay waits for in this attempt, or what came of it."""
        members, count = self._group.members, len(self._group.members)
        where = f"sum {self.iteration + 1}, attempt {self.number + 1}"
        if self.is_opened:
            left = f" (without {named(self.left_out)})" if self.left_out else ""
            return (
                f"sum {self.iteration + 1} is done, over {count - len(self.left_out)} of {count} members{left}; no other was asked for since. "
                "Whether the task has ended its members know: `sudare status`."
            )
        if self.is_over:
            return (
                f"{where} was given up: it needs {self._group.threshold} of {count} members to its end, and answers that fit. "
                "Members begin another attempt; if they have stopped, run the task again at every member."
            )
        awaited = self._awaited()
        away = named(awaited - present)
        silent = named(awaited & present)
        told = f"{away} (not connected)" if away else ""
        told += (" and " if away and silent else "") + (f"{silent} (connected, no answer yet)" if silent else "")
        return f"{where} waits for {told}; it needs {self._group.threshold} of {len(members)} members."

    @property
    def is_opened(self) -> bool:
        """Whether there is a total."""
        return self._party.total is not None

    @property
    def left_out(self) -> frozenset[str]:
        """The members whose addends are not in the total; none as long as there is no total."""
        included = self._group.everyone if self._party.total is None else self._party.included
        return frozenset(self._group.members[each] for each in self._group.everyone - included)


class RelayedSums(SumActivity):
    """The relay in all sums of one task. It is never finished: members may run the task again, or need something once more."""

    def __init__(
        self, task: str, group: SumGroup, store: CheckpointStore, known: Known, silence_seconds: float = 30.0
    ) -> None:
        super().__init__(task, group, store, known, silence_seconds)
        self.iteration = -1
        self._sums: dict[int, RelayedSum] = {}
        self._asked: dict[str, _Asked] = {}
        self._stopped_by: set[str] = set()
        self._kept_at = -1, -1
        self._notices: list[str] = []
        self._heard_at = 0.0
        # Where the task stood when it was put to rest; None while it is in memory.
        self._rests_at: str | None = None

    @property
    def finished(self) -> bool:
        """Whether it rests: nothing is left to do until somebody speaks of the task again, which a relay cannot rule out."""
        return self._rests_at is not None

    @property
    def stage(self) -> Hashable:
        """The sum and the attempt at it."""
        collected = self._sums.get(self.iteration)
        return self.iteration, None if collected is None else collected.number

    def begin(self, now: float) -> None:
        """Take up what is in the store."""
        self._heard_at = now
        self._open(now)
        self._transcripts = Transcripts(self._store)
        self._guarded(self._take_up, now)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in; False if it belongs to a sum, or an attempt at it, that has not begun here."""
        if envelope.kind == STOP:
            self._stopped_by.add(sender)
            return True
        if envelope.kind == COLLECT:
            # What it said in a sum may be from before it stopped, and have waited here for that sum.
            self._stopped_by.discard(sender)
        self._heard_at = now
        if self._rests_at is not None:
            self._guarded(self._wake, now)
        if self.failure is not None:
            self._posts.append((sender, Envelope(self.task, STOP)))
        elif envelope.kind == COLLECT:
            self._guarded(self._consider, sender, envelope, now)
        elif envelope.kind == SUM:
            return self._guarded(self._take_part, sender, envelope, now) is not False
        return True

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Those who were silent for too long are collected without."""
        if self.failure is None and self._rests_at is None:
            self._guarded(self._look_around, now, present)
            self._rest_if_over(now, present)

    def _rest_if_over(self, now: float, present: frozenset[str]) -> None:
        """Once the last sum has ended and nobody has spoken of the task for a while: keep in memory only where the store is."""
        are_over = bool(self._sums) and all(each.is_over for each in self._sums.values())
        if are_over and not self._posts and self.failure is None and now - self._heard_at >= _REST_SECONDS:
            self._rests_at = self.situation(present)
            self._sums = {}
            # Without the lock, and its open file.
            self._store = self._unopened
            del self._transcripts

    def _wake(self, now: float) -> None:
        """Read the sums again, and say nothing: all of it was sent before, and the session sends it again to who has not acknowledged it."""
        self._rests_at = None
        self._open(now)
        self._transcripts = Transcripts(self._store)
        self._take_up(now)
        self._posts = []

    def stop(self, reason: SudareError) -> None:
        """Give up, and tell members so. One that holds another agreement has left: the others are collected without it."""
        if not isinstance(reason, AgreementMismatch):
            super().stop(reason)

    def situation(self, present: frozenset[str]) -> str:
        """Where the task stands, for whoever runs the relay: what is waited for, or what came of the last sum."""
        group, current = self._group, self._sums.get(self.iteration)
        if self._rests_at is not None:
            return self._rests_at
        stopped = self._stopped_by & set(group.members)
        if len(group.members) - len(stopped) < group.threshold:
            return f"{named(stopped)} stopped the task; too few are left for a sum. To go on, run it again at every member."
        if current is not None:
            return current.situation(present)
        needed = group.dishonest + 1
        return f"the first sum waits until {needed} of {len(group.members)} members ask for the same; so far: {named(self._asked) or 'nobody'}."

    def notices(self) -> list[str]:
        """What whoever runs the relay should know, each handed out once."""
        notices, self._notices = self._notices, []
        return notices

    def _take_up(self, now: float) -> None:
        saved = [self._store.load(f"sum-{place}") for place in (0, 1)]
        found = [unpacked_as(CollectedAttempt, each, SumRequest, Attempt) for each in saved if each is not None]
        for each in sorted(found, key=lambda each: each.attempt.iteration):
            self._begin_sum(each.request, each.attempt, now)

    def _consider(self, sender: str, envelope: Envelope, now: float) -> None:
        """Begin the attempt that more members ask for than may be dishonest: an honest one is among them."""
        try:
            request = SumRequest.from_bytes(envelope.body)
        except MessageMalformed:
            return
        self._asked[sender] = _Asked(envelope.iteration, envelope.attempt, request)
        numbers = sorted(
            (
                each.attempt
                for each in self._asked.values()
                if (each.iteration, each.request) == (envelope.iteration, request)
            ),
            reverse=True,
        )
        if len(numbers) > self._group.dishonest:
            self._begin_attempt(envelope.iteration, numbers[self._group.dishonest], request, now)

    def _begin_attempt(self, iteration: int, number: int, request: SumRequest, now: float) -> None:
        """Begin an attempt if it is later than the current one. Of a sum that has begun nothing is changed but the attempt."""
        current = self._sums.get(iteration)
        if current is not None:
            if iteration == self.iteration and number > current.number and request == current.request:
                self._keep_transcript(current)
                current.begin(number, None, now, current.statements)
                self._collect(current)
        elif iteration > self.iteration:
            if iteration > self.iteration + 1:
                self._notices.append(
                    f"members ask for sum {iteration + 1}, and the state folder knows of {self.iteration + 1}: it is empty, an older copy, or another relay "
                    "collected meanwhile. The sum that members ask for is collected; if votes were cast in it before, that may take another attempt."
                )
            self._begin_sum(request, Attempt(iteration, number, b""), now)

    def _begin_sum(self, request: SumRequest, attempt: Attempt, now: float) -> None:
        """Collect a sum, as soon as everyone's keys are known."""
        publics, iteration = self._saved_publics() or self._gathered_publics(), attempt.iteration
        if publics is None:
            return
        before = self._sums.get(iteration - 1)
        late = frozenset[str]() if before is None else before.left_out
        begun = RelayedSum(self.task, self._group, publics, iteration, request, self._saver(request), late)
        self._sums = {each: old for each, old in self._sums.items() if each == iteration - 1} | {iteration: begun}
        self.iteration = iteration
        begun.begin(attempt.number, attempt.sum_state or None, now, self._transcripts.statements(iteration))
        self._collect(begun)

    def _saver(self, request: SumRequest) -> Callable[[Attempt], None]:
        """What saves an attempt: the current and the last sum are in two places that take turns."""
        return lambda attempt: self._store.save(
            f"sum-{attempt.iteration % 2}", packed(CollectedAttempt(request, attempt))
        )

    def _take_part(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take in a message of a sum; False if it has not begun here. Of sums that are long over nothing is wanted."""
        if envelope.iteration > self.iteration:
            return False
        collected = self._sums.get(envelope.iteration)
        if collected is None:
            return True
        is_saved = collected.receive(sender, envelope, now)
        self._after(collected)
        return is_saved

    def _after(self, collected: RelayedSum) -> None:
        """After a sum was given something: send, and keep what was signed in an attempt that is over."""
        self._collect(collected)
        if collected.is_over and self._kept_at < (collected.iteration, collected.number):
            self._keep_transcript(collected)

    def _keep_transcript(self, collected: RelayedSum) -> None:
        self._kept_at = collected.iteration, collected.number
        self._transcripts.add(collected.transcript)
        self._transcripts.save()

    def _look_around(self, now: float, present: frozenset[str]) -> None:
        was_away = self._was_away(now)
        for collected in self._sums.values():
            if was_away:
                collected.wait_anew(now)
            collected.tick(now, self._seen(now, present) - self._stopped_by, self.deadline_seconds)
            self._after(collected)

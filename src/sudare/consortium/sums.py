"""A script of secure sums, walked by one member among others that may be late, restarted or gone. No I/O, no clock.

Everything that a restart needs is in the store before a message is handed out: the walk's state with the addend (noise in it is
drawn once), and the state of the sum. A member that takes them up again says the same bytes. The sum before stays open,
because somebody may still wait for a message of it. Where the agreement lets members leave (t < S), one who was left out
is an onlooker until the walk ends: it is told the totals, which it believes once t members say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.consortium.checkpoints import Store
from sudare.consortium.desk import STOP, Envelope, read_as, unexpected
from sudare.consortium.sitting import SUM, Attempt, Circle, Sitting, Total
from sudare.consortium.transcripts import transcript_name
from sudare.errors import IdentityError, MessageMalformed, NotConnected, SudareError, TaskStopped
from sudare.sums.blame import Transcript
from sudare.sums.context import NO_HISTORY
from sudare.sums.keys import PublicKeys
from sudare.sums.messages import most_message_bytes
from sudare.sums.wire import MOST_VALUES, packed

Words = NDArray[np.uint64]

ASK, HEARD = "ask", "heard"
_ASK_SECONDS: Final = 2.0
# A member that asks more often than that is answered as often as that.
_LEAST_ANSWER_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Finished:
    """What a walk ends with; the same at every member."""

    result: object


class Walk(Protocol):
    """One member's way through a script of sums: state and total in, state and addend out.

    Noise in an addend may be drawn here: the runner keeps the addend, and never asks twice for one that was sent. `included` are
    the positions, in the agreement's order, of those whose addends are in the total.
    """

    def begun(self) -> tuple[bytes, Words]:
        """The first state and addend."""

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        """The next state and addend after a total, or what the walk ends with."""


@dataclass(frozen=True)
class Patience:
    """For how long members may be silent in a sum, and how long everyone is waited for before the first, in seconds."""

    silence_seconds: float = 30.0
    gathering_seconds: float = 600.0


@dataclass(frozen=True)
class Stand:
    """Where the walk stands before the sum of an iteration; `history` is the digest of all totals heard before."""

    iteration: int
    state: bytes
    addend: Words
    history: bytes


@dataclass(frozen=True)
class Checkpoint:
    """A stand and the attempt at its sum, in one piece: an addend is never without the sum it was sent in."""

    stand: Stand
    attempt: Attempt | None


@dataclass(frozen=True)
class _Keys:
    """Everyone's public keys for masks and votes, which must not change in the middle of a task."""

    exchange: tuple[bytes, ...]
    signing: tuple[bytes, ...]


class SumRunner:
    """An activity that walks through sums.

    `known` gives the public keys for masks and votes of the members met so far; the first sum begins once all are known.
    """

    def __init__(
        self,
        task: str,
        circle: Circle,
        walk: Walk,
        store: Store,
        known: Callable[[], Mapping[str, PublicKeys]],
        patience: Patience | None = None,
    ) -> None:
        self.task, self.iteration = task, 0
        self.result: Finished | None = None
        self.failure: SudareError | None = None
        self._circle, self._walk, self._store, self._known = circle, walk, store, known
        self._patience = Patience() if patience is None else patience
        self._posts: list[tuple[str, Envelope]] = []
        self._publics: tuple[PublicKeys, ...] | None = None
        self._sittings: dict[int, Sitting] = {}
        self._stands: dict[int, Stand] = {}
        self._told: dict[str, Total] = {}
        self._begun_at = self._asked_at = 0.0
        self._was_early = False
        self._answered_at: dict[str, float] = {}

    # As an activity

    @property
    def finished(self) -> bool:
        """Whether the last total was heard."""
        return self.result is not None

    @property
    def deadline_seconds(self) -> float:
        """For how long a member may be silent."""
        return self._patience.silence_seconds

    def begin(self, now: float) -> None:
        """Start, or take up what is in the store, as soon as everyone's keys are known."""
        self._begun_at = now
        self._guarded(self._gather, now)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in; False if it belongs to a sum that has not begun here."""
        if envelope.kind == STOP:
            if not self.finished and self.failure is None:
                self.failure = TaskStopped(f"'{sender}' stopped the task.", TaskStopped.help)
                self._guarded(self._keep_transcripts)
            return True
        if self.failure is not None:
            # Whoever was started again after this member had given up waits for nothing.
            self._posts.append((sender, Envelope(self.task, STOP)))
            return True
        if self._publics is None or (envelope.kind == SUM and envelope.iteration > self.iteration):
            return False
        self._was_early = False
        self._guarded(self._received, sender, envelope, now)
        return not self._was_early

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Those who were silent for too long have left."""
        if self.failure is not None:
            return
        self._guarded(self._gather if self._publics is None else self._look_around, now, present)

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent."""
        posts, self._posts = self._posts, []
        return posts

    def stop(self, reason: SudareError) -> None:
        """Give up. The others are told that, and not why."""
        if self.failure is None and not self.finished:
            self.failure = reason
            self._tell_all(Envelope(self.task, STOP))
            self._guarded(self._keep_transcripts)

    def _guarded(self, action: Callable[..., None], *arguments: object) -> None:
        try:
            action(*arguments)
        except SudareError as error:
            self.stop(error)
        except Exception as error:  # noqa: BLE001 - a foreign error in a walk ends the task, not the process
            self.stop(unexpected(error))

    # Beginning

    def _gather(self, now: float, present: frozenset[str] = frozenset()) -> None:
        """Everyone's keys, from the store or from their hellos; then the walk begins."""
        known, members = self._known(), self._circle.members
        content = self._store.load("keys")
        if content is not None:
            saved = read_as(_Keys, content)
            self._publics = tuple(map(PublicKeys, saved.exchange, saved.signing))
        elif all(name in known for name in members):
            self._publics = tuple(known[name] for name in members)
            keys = _Keys(tuple(each.exchange for each in self._publics), tuple(each.signing for each in self._publics))
            self._store.save("keys", packed(keys))
        if self._publics is not None:
            self._begun_at = now
            self._take_up(now)
        elif now - self._begun_at > self._patience.gathering_seconds:
            absent = ", ".join(f"'{name}'" for name in members if name not in known)
            raise NotConnected(f"Not all members came in time; missing: {absent}. Nothing was sent.", NotConnected.help)

    def _take_up(self, now: float) -> None:
        saved = [checkpoint for checkpoint in map(self._saved, (0, 1)) if checkpoint is not None]
        if not saved:
            state, addend = self._walk.begun()
            saved = [Checkpoint(Stand(0, state, addend, NO_HISTORY), None)]
        for checkpoint in sorted(saved, key=lambda each: each.stand.iteration):
            self._sit(checkpoint.stand, checkpoint.attempt, now)
        self._conclude(now)

    def _sit(self, stand: Stand, saved: Attempt | None, now: float) -> None:
        """Take part in the sum after this stand."""
        self._told, self._asked_at = {}, now
        self._stand, self.iteration = stand, stand.iteration
        circle, iteration, publics = self._circle, self.iteration, self._publics
        self._stands = {each: old for each, old in self._stands.items() if each == iteration - 1} | {iteration: stand}
        self._keep_transcripts(before=iteration - 1)
        self._sittings = {each: old for each, old in self._sittings.items() if each == iteration - 1}
        if publics is None:
            return
        sitting = Sitting(self.task, circle, publics, iteration, stand.history, stand.addend, self._save_attempt)
        self._sittings[iteration] = sitting
        sitting.begin(saved, now)
        self._collect(sitting)

    # The store: the current and the last sum, in two places that take turns

    def _save(self, checkpoint: Checkpoint) -> None:
        self._store.save(f"sum-{checkpoint.stand.iteration % 2}", packed(checkpoint))

    def _save_attempt(self, attempt: Attempt) -> None:
        self._save(Checkpoint(self._stands[attempt.iteration], attempt))

    def _saved(self, place: int) -> Checkpoint | None:
        content = self._store.load(f"sum-{place}")
        return None if content is None else read_as(Checkpoint, content, Stand, Attempt)

    def _saved_total(self, iteration: int) -> Total | None:
        """Kept only where members may leave: those who were left out ask for it when they come back."""
        if not self._circle.may_lose_some:
            return None
        content = self._store.load(f"total-{iteration:08d}")
        return None if content is None else read_as(Total, content)

    # Events

    def _received(self, sender: str, envelope: Envelope, now: float) -> None:
        if envelope.kind == ASK:
            self._answer(sender, envelope.iteration, now)
        elif envelope.kind == HEARD:
            if envelope.iteration == self.iteration and not self.finished:
                self._told[sender] = self._plausible(envelope.body)
                self._conclude(now)
        elif envelope.kind == SUM:
            sitting = self._sittings.get(envelope.iteration)
            if sitting is not None:
                self._was_early = not sitting.receive(sender, envelope, now)
                self._collect(sitting)
                self._conclude(now)
        else:
            raise MessageMalformed(f"'{sender}' sent a message of an unknown kind.", "Use one program version.")

    def _answer(self, sender: str, iteration: int, now: float) -> None:
        """Tell a total that is known here to a member that asks for it, but not more often than it may ask."""
        if now - self._answered_at.get(sender, float("-inf")) < _LEAST_ANSWER_SECONDS or iteration > self.iteration:
            return
        self._answered_at[sender] = now
        total = self._saved_total(iteration)
        if total is not None:
            self._posts.append((sender, Envelope(self.task, HEARD, iteration, body=packed(total))))

    def _plausible(self, content: bytes) -> Total:
        """The total in a message. Raise MessageMalformed unless it has the form of the one that is waited for."""
        if len(content) > most_message_bytes(len(self._stand.addend), len(self._circle.members)):
            raise MessageMalformed("A total is larger than what was asked for.", "Use one program version.")
        total = read_as(Total, content, most_values=MOST_VALUES)
        if total.words.shape != self._stand.addend.shape or not total.included <= self._circle.everyone:
            raise MessageMalformed("A total has another form than was asked for.", "Use one program version.")
        return total

    def _look_around(self, now: float, present: frozenset[str]) -> None:
        self._check_keys()
        for sitting in self._sittings.values():
            sitting.tick(now, present, self.deadline_seconds)
            self._collect(sitting)
        if self.finished:
            self._keep_transcripts()
        else:
            self._conclude(now)
        if self._circle.may_lose_some and not self.finished and now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            self._tell_all(Envelope(self.task, ASK, self.iteration))

    def _check_keys(self) -> None:
        for name, keys in self._known().items():
            if self._publics is not None and keys != self._publics[self._circle.members.index(name)]:
                raise IdentityError(
                    f"'{name}' has come back with other keys in the middle of a task.",
                    "Let it use the key that the task was begun with, or begin a new task.",
                )

    def _conclude(self, now: float) -> None:
        """Go on while a total is known; try again, look on or stop where the sum was stopped."""
        while not self.finished and self.failure is None:
            total = self._saved_total(self.iteration) or self._total_of_sum() or self._told_total()
            if total is None:
                break
            self._advance(total, now)
        sitting = self._sittings.get(self.iteration)
        if not self.finished and self.failure is None and sitting is not None and sitting.failure is not None:
            self.failure = sitting.failure
            self._keep_transcripts()

    def _total_of_sum(self) -> Total | None:
        sitting = self._sittings.get(self.iteration)
        return None if sitting is None else sitting.total

    def _told_total(self) -> Total | None:
        """The total that t members say they hold."""
        for total in self._told.values():
            same = [each for each in self._told.values() if each.included == total.included]
            if sum(np.array_equal(each.words, total.words) for each in same) >= self._circle.threshold:
                return total
        return None

    def _advance(self, total: Total, now: float) -> None:
        if self._circle.may_lose_some and self._saved_total(self.iteration) is None:
            self._store.save(f"total-{self.iteration:08d}", packed(total))
        sitting = self._sittings[self.iteration]
        state, following = self._walk.step(self._stand.state, total.words, tuple(sorted(total.included)))
        if isinstance(following, Finished):
            for each in self._sittings.values():
                each.flush()
            self.result = following
            self._keep_transcripts()
            return
        self._sit(Stand(self.iteration + 1, state, following, sitting.history_with(total)), None, now)

    # Evidence, for `sudare consortium blame`

    def _keep_transcripts(self, before: int | None = None) -> None:
        """Save what was signed in the sums that are open here, or in those before an iteration, where there is more than was saved."""
        for iteration, sitting in self._sittings.items():
            if before is None or iteration < before:
                self._keep_transcript(sitting)

    def _keep_transcript(self, sitting: Sitting) -> None:
        statements, name = sitting.statements, transcript_name(sitting.iteration)
        if sitting.kept.issuperset(statements):
            return
        content = self._store.load(name)
        # Of attempts that were made before a restart the store knows more.
        earlier = () if content is None else Transcript.from_bytes(content).statements
        transcript = Transcript(sitting.context, tuple(dict.fromkeys((*earlier, *statements))))
        self._store.save(name, transcript.to_bytes())
        sitting.kept = frozenset(statements)

    # Sending

    def _collect(self, sitting: Sitting) -> None:
        self._posts += sitting.posts()
        if not sitting.kept.issuperset(sitting.earlier_statements):
            self._keep_transcript(sitting)

    def _tell_all(self, envelope: Envelope) -> None:
        self._posts += [(name, envelope) for name in self._circle.members if name != self._circle.name]


__all__ = ["Checkpoint", "Circle", "Finished", "Patience", "Stand", "SumRunner", "Total", "Walk"]

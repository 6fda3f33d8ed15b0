"""A script of secure sums, run by one member among others that may be late, restarted, gone or lying. No I/O but the store, no clock.

Everything that a restart needs is in the store before a message is handed out: the script's state with the addend (noise in it is
drawn once), and the state of the sum. A member that takes them up again says the same bytes. The sum before stays open,
because somebody may still wait for a message of it. Where the agreement lets members leave (t < S), one who was left out of a sum
asks for its total, which it believes once more members say the same than may be dishonest (an honest one uses no other
total), and looks on until the task ends. There one that says it stops has left, and the others go on. Where the agreement says so the relay
collects, and is asked again and again to: it may have been restarted.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from sudare.consortium.network.message_dispatch import STOP, Envelope, stopped_by
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.sum_attempts import IterationStart, SumAttempts, Total
from sudare.consortium.tasks.sum_participant import SUM, Attempt, Known, SumActivity, SumGroup
from sudare.consortium.tasks.sum_transcripts import TRANSCRIPT, Transcripts
from sudare.errors import (
    AgreementMismatch,
    IdentityError,
    MaskReused,
    MessageMalformed,
    NotConnected,
    SudareError,
)
from sudare.joint.sum_script import Finished, Walk
from sudare.sums.canonical_encoding import MOST_VALUES, packed, unpacked_as
from sudare.sums.context import NO_HISTORY, RELAY_NAME
from sudare.sums.keys import PublicKeys
from sudare.sums.messages import most_message_bytes, total_digest

ASK, HEARD = "ask", "heard"
_BEGUN, _TOTAL = "begun", "total-"
_ASK_SECONDS: Final = 2.0
# After so long without a word about a task that is finished, nobody is in the middle of it.
_REST_SECONDS: Final = 30.0
# A member that asks more often than that is answered as often as that.
_LEAST_ANSWER_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Timeouts:
    """How long members may be silent in a sum, and how long everyone is waited for before the first, in seconds."""

    silence_seconds: float = 30.0
    gathering_seconds: float = 600.0


@dataclass(frozen=True)
class Checkpoint:
    """A start and the attempt at its sum, in one piece: an addend is never without the sum it was sent in."""

    start: IterationStart
    attempt: Attempt | None


class SumRunner(SumActivity):
    """An activity that runs through sums.

    The first begins once everyone's public keys are known and, where members may leave, everyone has taken the task up, or after a deadline as
    many as a sum needs.
    """

    def __init__(
        self,
        task: str,
        group: SumGroup,
        script: Walk,
        store: CheckpointStore,
        known: Known,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._timeouts = Timeouts() if timeouts is None else timeouts
        super().__init__(task, group, store, known, self._timeouts.silence_seconds)
        self.iteration = 0
        self.result: Finished | None = None
        self._is_finished = self._is_resting = False
        self._heard_at = float("-inf")
        self._script: Walk | None = script
        self._publics: tuple[PublicKeys, ...] | None = None
        self._transcripts: Transcripts | None = None
        self._sums: dict[int, SumAttempts] = {}
        self._starts: dict[int, IterationStart] = {}
        self._reported: dict[str, Total] = {}
        self._spoken = {group.name}
        self._stopped_by: set[str] = set()
        self._late: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._answered: dict[str, tuple[int, float]] = {}

    # As an activity

    @property
    def finished(self) -> bool:
        """Whether the last total was heard. The result is kept until it rests."""
        return self._is_finished

    @property
    def stage(self) -> Hashable:
        """The sum and the attempt at it, once everyone's keys are known."""
        attempts = self._sums.get(self.iteration)
        number = None if attempts is None else (attempts.number, attempts.is_over)
        return self.iteration, number, self._publics is None, self._is_resting

    def begin(self, now: float) -> None:
        """Start, or take up what is in the store, as soon as everyone's keys are known."""
        self._open(now)
        self._guarded(self._gather, now)

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in; False if it belongs to a sum, or an attempt at it, that has not begun here."""
        if envelope.kind == STOP:
            self._handle_stop(sender, envelope)
            return True
        self._heard_at = now
        if self.failure is not None:
            is_kept = self._guarded(self._keep_late, sender, envelope) is not False
            # Whoever was started again after this member had given up waits for nothing.
            self._posts.append((sender, Envelope(self.task, STOP)))
            return is_kept
        self._stopped_by.discard(sender)
        if sender in self._group.members:
            self._spoken.add(sender)
        elif envelope.kind != SUM:
            # A relay takes part in sums, and says nothing beside them that counts.
            return True
        if self._is_resting and envelope.kind == SUM:
            self._guarded(self._wake, now)
        elif self._publics is None and not self._is_resting:
            self._guarded(self._gather, now)
        if self._publics is None and not self._is_resting:
            return envelope.kind == ASK
        if envelope.kind == SUM:
            return self._guarded(self._take_part, sender, envelope, now) is not False
        self._guarded(self._exchange_totals, sender, envelope, now)
        return True

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Look at the time: members that were silent for too long count as having left."""
        if self.failure is None and not self._is_resting:
            self._guarded(self._gather if self._publics is None else self._look_around, now, present)

    def stop(self, reason: SudareError) -> None:
        """Give up. The others are told that, and not why. A member that holds another agreement has left where members may."""
        is_without_it = isinstance(reason, AgreementMismatch) and self._group.may_lose_some
        if self.failure is None and not self.finished and not is_without_it:
            super().stop(reason)
            if self._group.relay_collects:
                # Else it waits in every sum for what does not come from a member that is there.
                self._posts.append((RELAY_NAME, Envelope(self.task, STOP)))
            # Where a transcript cannot be written, the reason stays the first one.
            self._guarded(self._keep_transcripts)

    def rest(self, now: float) -> None:
        """Once it is finished, its result is written and nobody has spoken of it for a while: keep in memory only where the store is.

        Totals are told from the store; a late message of a sum, which may prove a lie, lets the sums be read again.
        """
        if self._is_finished and not self._is_resting and now - self._heard_at >= _REST_SECONDS:
            self._guarded(self._keep_transcripts)
            self.result = self._script = self._publics = self._transcripts = None
            self._sums, self._starts, self._reported = {}, {}, {}
            # Without the lock, and its open file.
            self._store, self._is_resting = self._unopened, True

    def _wake(self, now: float) -> None:
        """Read the sums again, and say nothing: all of it was sent before, and the session sends it again to who has not acknowledged it."""
        posts = self.posts()
        self._open(now)
        self._publics, self._transcripts, self._is_resting = self._saved_publics(), Transcripts(self._store), False
        for checkpoint in self._checkpoints():
            self._begin_sum(checkpoint.start, checkpoint.attempt, now)
        for attempts in self._sums.values():
            attempts.close()
        self._posts = posts

    def _handle_stop(self, sender: str, envelope: Envelope) -> None:
        """A member has stopped: so has the task, unless enough others are left. A relay that says so may take the task up again; whether it is there, presence tells."""
        if sender not in self._group.members:
            return
        self._stopped_by.add(sender)
        stopped = sorted(self._stopped_by)
        left = len(self._group.members) - len(stopped)
        if left < self._group.threshold and not self.finished and self.failure is None:
            named = ", ".join(f"'{name}'" for name in stopped)
            self.failure = stopped_by(named, envelope)
            self._guarded(self._keep_transcripts)

    # Beginning

    def _gather(self, now: float, present: frozenset[str] = frozenset()) -> None:
        """Everyone's keys, from the store or from their hellos; then the script begins."""
        self._publics = self._saved_publics()
        if self._publics is None and self._is_gathered(now):
            self._publics = self._gathered_publics()
        if self._publics is not None:
            self._begun_at = self._looked_at = now
            self._transcripts = Transcripts(self._store)
            self._take_up(now)
        elif now - self._begun_at > self._timeouts.gathering_seconds:
            known, spoken = self._known(), self._spoken | {RELAY_NAME}
            absent = [name for name in self._group.participants if name not in known or name not in spoken]
            named = ", ".join(f"'{name}'" for name in absent)
            raise NotConnected(f"Not all members came in time; missing: {named}. Nothing was sent.", NotConnected.help)
        else:
            self._ask(now)

    def _is_gathered(self, now: float) -> bool:
        """Whether the first sum can begin. Where members may leave it waits for those who have not taken the task up, until enough have and the deadline is over."""
        waits_for = set(self._group.members) - self._spoken - self._stopped_by
        is_late = now - self._begun_at >= self.deadline_seconds
        enough = len(self._spoken - self._stopped_by) >= self._group.threshold
        return not self._group.may_lose_some or (enough and (is_late or not waits_for))

    def _take_up(self, now: float) -> None:
        saved = self._checkpoints()
        self._check_nothing_is_lost(saved)
        if not saved and self._script is not None:
            state, addend = self._script.begun()
            saved = [Checkpoint(IterationStart(0, state, addend, NO_HISTORY, takes_part=True), None)]
        for checkpoint in saved:
            self._begin_sum(checkpoint.start, checkpoint.attempt, now)
        heard = self._saved_total(self.iteration)
        if heard is not None:
            self._advance(heard, now)
        self._conclude(now)

    def _begin_sum(self, start: IterationStart, saved: Attempt | None, now: float) -> None:
        """Take part in the sum after this start."""
        if self._publics is None or self._transcripts is None:
            return
        self._reported, self._asked_at = {}, now
        self.iteration = iteration = start.iteration
        self._starts = {each: old for each, old in self._starts.items() if each == iteration - 1} | {iteration: start}
        for old in self._sums.values():
            # With what came after its total was used.
            self._transcripts.add(old.transcript)
        self._sums = {each: old for each, old in self._sums.items() if each == iteration - 1}
        for old in self._sums.values():
            old.close()
        earlier = () if saved is None else self._transcripts.statements(iteration)
        attempts = SumAttempts(self.task, self._group, self._publics, start, self._save_attempt, earlier, self._late)
        attempts.begin(saved, now)
        # Before a message leaves, and before anything else is kept of this sum.
        if self._begun_before() < iteration:
            self._store.save(_BEGUN, iteration.to_bytes(4, "big"))
        self._sums[iteration] = attempts
        self._collect(attempts)

    # The store: the current and the last sum, in two places that take turns

    def _save(self, checkpoint: Checkpoint) -> None:
        self._store.save(f"sum-{checkpoint.start.iteration % 2}", packed(checkpoint))

    def _save_attempt(self, attempt: Attempt) -> None:
        self._save(Checkpoint(self._starts[attempt.iteration], attempt))

    def _checkpoints(self) -> list[Checkpoint]:
        """What is saved of the last sum and of the one before, in their order."""
        saved = [checkpoint for checkpoint in map(self._saved, (0, 1)) if checkpoint is not None]
        return sorted(saved, key=lambda each: each.start.iteration)

    @property
    def _start(self) -> IterationStart:
        """What the current sum began with."""
        return self._starts[self.iteration]

    def _saved(self, place: int) -> Checkpoint | None:
        content = self._store.load(f"sum-{place}")
        return None if content is None else unpacked_as(Checkpoint, content, IterationStart, Attempt)

    def _begun_before(self) -> int:
        """The last sum that this member has begun, −1 before the first."""
        content = self._store.load(_BEGUN)
        return -1 if content is None else int.from_bytes(content, "big")

    def _check_nothing_is_lost(self, saved: list[Checkpoint]) -> None:
        """Raise MaskReused where a sum was begun and its state is gone: begun again, it would hide another vector behind the same masks.

        Which sum was begun last is itself saved before the first message; without that there is the state of the first sum, or nothing of any.
        """
        begun, last = self._begun_before(), max((each.start.iteration for each in saved), default=-1)
        is_of_a_sum = any(name.startswith((_TOTAL, TRANSCRIPT)) for name in self._store.names())
        if begun > last or (begun < 0 and (last > 0 or is_of_a_sum)):
            raise MaskReused(
                "This member has begun sums of the task, and the state of the last of them is gone from its folder.",
                "Put the folder back as it was. If it is lost, begin a new task; what was charged stays charged.",
            )

    def _saved_total(self, iteration: int) -> Total | None:
        """Kept only where members may leave: those who were left out ask for it when they come back."""
        if not self._group.may_lose_some:
            return None
        content = self._store.load(f"{_TOTAL}{iteration:08d}")
        return None if content is None else unpacked_as(Total, content)

    def _keep_transcripts(self) -> None:
        """Write what was signed so far, for `sudare consortium blame`."""
        if self._transcripts is not None:
            for attempts in self._sums.values():
                self._transcripts.add(attempts.transcript)
            self._transcripts.save()

    def _keep_late(self, sender: str, envelope: Envelope) -> bool:
        """Keep what others say after this member has given up: it may show who lied, or be all that is missing when the task is run again.

        False where it is for the next life of the task, and cannot be kept here.
        """
        attempts = self._sums.get(envelope.iteration)
        if envelope.kind != SUM:
            return True
        if attempts is None:
            return envelope.iteration < self.iteration or not self.can_resume
        if envelope.iteration == self.iteration:
            attempts.keep(sender, envelope)
        else:
            attempts.note(sender, envelope)
        self._keep_transcripts()
        return True

    # Events

    def _take_part(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take in a message of a sum; False if it has not begun here. Of sums that are long over nothing is wanted."""
        if envelope.iteration > self.iteration:
            return self.finished
        attempts = self._sums.get(envelope.iteration)
        if attempts is None:
            return True
        attempt = attempts.number
        is_saved = attempts.receive(sender, envelope, now)
        self._after(attempts, attempt, now)
        return is_saved or attempts.is_over

    def _exchange_totals(self, sender: str, envelope: Envelope, now: float) -> None:
        """Answer who asks for a total, and take in answers. Anything else is nothing that a member can say."""
        if envelope.kind == ASK:
            self._answer(sender, envelope.iteration, now)
            attempts = self._sums.get(envelope.iteration)
            if attempts is not None and envelope.iteration == self.iteration:
                attempt = attempts.number
                attempts.notice_attempt(sender, envelope.attempt, now)
                self._after(attempts, attempt, now)
        elif envelope.kind == HEARD and envelope.iteration == self.iteration and not self.finished:
            total = self._plausible(envelope.body)
            if total is not None:
                self._reported[sender] = total
                self._conclude(now)

    def _answer(self, sender: str, iteration: int, now: float) -> None:
        """Tell a total that is known here to a member that asks for it: one after the other, but not all over again at once."""
        last, answered_at = self._answered.get(sender, (-1, float("-inf")))
        if iteration > self.iteration or (now - answered_at < _LEAST_ANSWER_SECONDS and iteration != last + 1):
            return
        self._answered[sender] = iteration, now
        total = self._saved_total(iteration)
        if total is not None:
            self._posts.append((sender, Envelope(self.task, HEARD, iteration, body=packed(total))))

    def _plausible(self, content: bytes) -> Total | None:
        """The total in a message, if it has the form of the one that is waited for."""
        if len(content) > most_message_bytes(len(self._start.addend), len(self._group.members)):
            return None
        try:
            total = unpacked_as(Total, content, most_values=MOST_VALUES)
        except MessageMalformed:
            return None
        is_of_form = total.words.shape == self._start.addend.shape and total.included <= self._group.everyone
        return total if is_of_form and len(total.included) >= self._group.threshold else None

    def _look_around(self, now: float, present: frozenset[str]) -> None:
        """Let the sum look at who is there."""
        changed, attempts = self._changed_keys(), self._sums.get(self.iteration)
        if self._was_away(now):
            for each in self._sums.values():
                each.wait_anew(now)
        if attempts is not None and not self.finished:
            attempt = attempts.number
            attempts.tick(now, self._seen(now, present) - changed - self._stopped_by, self.deadline_seconds)
            self._after(attempts, attempt, now)
        if self.finished:
            self._keep_transcripts()
        elif self.failure is None:
            self._ask(now)

    def _ask(self, now: float) -> None:
        """Where members may leave: tell the others now and then how far this one is; who has the total answers."""
        if self._group.may_lose_some and now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            attempts = self._sums.get(self.iteration)
            self._post_to_all(Envelope(self.task, ASK, self.iteration, 0 if attempts is None else attempts.number))
            if attempts is not None:
                attempts.ask_relay()
                self._collect(attempts)

    def _changed_keys(self) -> frozenset[str]:
        """Members that came back with other keys; nothing they say counts. Raise IdentityError where nobody may leave."""
        if self._publics is None:
            return frozenset()
        known, pinned = self._known(), zip(self._group.participants, self._publics, strict=True)
        changed = frozenset(name for name, keys in pinned if known.get(name, keys) != keys)
        if changed and not self._group.may_lose_some:
            raise IdentityError(
                f"'{min(changed)}' shows other keys for sums than the task was begun with, or than it signed with the agreement.",
                "Let it use the key that the task was begun with, or begin a new task.",
            )
        return changed

    def _after(self, attempts: SumAttempts, attempt: int, now: float) -> None:
        """After a sum was given something: send, keep what was signed in an attempt that is over, and go on."""
        if attempts.number != attempt:
            self._keep_transcripts()
        self._collect(attempts)
        self._conclude(now)

    def _conclude(self, now: float) -> None:
        """Go on while a total is known; stop where the sum cannot be finished."""
        while not self.finished and self.failure is None:
            attempts = self._sums.get(self.iteration)
            total = None if attempts is None else attempts.total
            is_reported = total is None
            total = self._reported_total() if total is None else total
            if total is None:
                if attempts is not None and attempts.failure is not None:
                    self.stop(attempts.failure)
                return
            self._advance(total, now)
            if is_reported:
                # The others may be far ahead.
                self._asked_at = float("-inf")
                self._ask(now)

    def _reported_total(self) -> Total | None:
        """A total that more members say they hold than may be dishonest."""
        said: dict[tuple[frozenset[int], bytes], list[Total]] = {}
        for total in self._reported.values():
            said.setdefault((total.included, total_digest(total.words)), []).append(total)
        return next((same[0] for same in said.values() if len(same) > self._group.dishonest), None)

    def _advance(self, total: Total, now: float) -> None:
        if self._group.may_lose_some:
            self._store.save(f"{_TOTAL}{self.iteration:08d}", packed(total))
        attempts, script = self._sums[self.iteration], self._script
        if script is None:
            return
        state, following = script.step(self._start.state, total.words, tuple(sorted(total.included)))
        if isinstance(following, Finished):
            attempts.flush()
            attempts.close()
            self._keep_transcripts()
            self.result, self._is_finished = following, True
            return
        members = self._group.members
        self._late = frozenset(members) - {members[position] for position in total.included}
        takes_part = self._start.takes_part and self._group.position in total.included
        among = total.included if script.is_exact and self._group.may_lose_some else None
        start = IterationStart(self.iteration + 1, state, following, attempts.history_with(total), takes_part, among)
        self._begin_sum(start, None, now)


__all__ = ["Checkpoint", "SumGroup", "Timeouts", "IterationStart", "SumRunner", "Total"]

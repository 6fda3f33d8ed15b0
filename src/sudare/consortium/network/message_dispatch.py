"""Messages between one session with the others and the activities they belong to; and the one loop that looks at a clock and a transport."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from sudare.consortium.agreement.document_fields import NAME
from sudare.consortium.network.dropped_messages import Drops, Reason
from sudare.consortium.network.session import MOST_MESSAGE_BYTES, Delivery, Session
from sudare.consortium.network.transport.base import Packet, Transport
from sudare.consortium.network.transport.queues import Limits, SenderQuotas
from sudare.errors import ConsortiumError, MembersMissing, MessageMalformed, NotConnected, SudareError, TaskStopped
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.context import RELAY_NAME

# Messages for tasks that have not begun here, or not come so far.
HELD: Final = Limits(most_items=4096, most_bytes=2 * MOST_MESSAGE_BYTES, most_total_bytes=4 * MOST_MESSAGE_BYTES)
_MOST_STOPS: Final = 256
_MOST_ENVELOPE_VALUES: Final = 16
_LARGEST_WHOLE: Final = 2**53
# A call that is later than the clock here says by more than a hundred years is of no honest member, however wrong its clock is.
_MOST_MILLISECONDS_AHEAD: Final = 100 * 366 * 86_400_000


@dataclass(frozen=True)
class Envelope:
    """A message of a task: which step it belongs to, and its content."""

    task: str
    kind: str
    iteration: int = 0
    attempt: int = 0
    body: bytes = b""

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Envelope:
        """The envelope of these bytes. Raise MessageMalformed unless they are one."""
        found = unpacked_as(cls, content, most_values=_MOST_ENVELOPE_VALUES)
        if not (NAME.fullmatch(found.task) and NAME.fullmatch(found.kind)):
            raise MessageMalformed("A message is of no task or kind.", "Use one program version.")
        if not (0 <= found.iteration <= _LARGEST_WHOLE and 0 <= found.attempt <= _LARGEST_WHOLE):
            raise MessageMalformed("A message is of no iteration or attempt.", "Use one program version.")
        return found


# Calls of a task have numbers, in the place of an iteration: a member begins it, the first time or again, with a larger number than it has heard of.
STOP: Final = "stop"
# In the place of an attempt: a member has stopped because another had, and is not to be taken for who stopped first.
AFTER_ANOTHER: Final = 1
# Somebody begins a task, and everybody can get ready at the same time: no message that belongs to a step.
ASKED: Final = "asked"
# What ends a task here because of others: it can go on once they do.
_FOR_OTHERS: Final = (MembersMissing, NotConnected, TaskStopped)
Result = TypeVar("Result")


def stopped_by(named: str, envelope: Envelope) -> TaskStopped:
    """The error of a task that ends with the STOP of one of these members."""
    if envelope.attempt == AFTER_ANOTHER:
        return TaskStopped(f"{named} stopped the task, by its word because another member had.", TaskStopped.help)
    return TaskStopped(f"{named} stopped the task.", TaskStopped.help)


def unexpected(error: Exception) -> ConsortiumError:
    """Any foreign error in our words. Its text is not repeated: libraries quote what they were given."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name} line {frame.lineno}"
    return ConsortiumError(f"Something unexpected happened: {type(error).__name__}, in {place}.", SudareError.help)


class Activity(ABC):
    """One task of one member, as steps. `failure` is why it was stopped, if it was.

    A member that is silent for longer than `deadline_seconds` is taken to have left.
    """

    def __init__(self, task: str, name: str, members: Iterable[str], deadline_seconds: float) -> None:
        self.task, self.deadline_seconds = task, deadline_seconds
        self.failure: SudareError | None = None
        self._others = [member for member in members if member != name]
        self._posts: list[tuple[str, Envelope]] = []

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing is left to do but to answer the others."""

    @property
    def stage(self) -> Hashable:
        """How far this member is: what came too early is offered again at once where it has changed, and else at the next tick."""
        return None

    @abstractmethod
    def begin(self, now: float) -> None:
        """Start, or take up again what is in the store."""

    @abstractmethod
    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in. False means too early: it is offered again later, and not acknowledged yet."""

    @abstractmethod
    def tick(self, now: float, present: frozenset[str]) -> None:
        """Time passed. `present` are the members heard of within the deadline of the activity."""

    @property
    def can_resume(self) -> bool:
        """Whether it was stopped because others had stopped or were not there, and for no reason of this member's own."""
        return isinstance(self.failure, _FOR_OTHERS)

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent, each with its receiver; handed out once."""
        posts, self._posts = self._posts, []
        return posts

    def stop(self, reason: SudareError) -> None:
        """Give up, if it is not finished. The others are told that, and not why."""
        if self.failure is None and not self.finished:
            self.failure = reason
            self._post_to_all(Envelope(self.task, STOP))

    def _post_to_all(self, envelope: Envelope) -> None:
        self._posts += [(name, envelope) for name in self._others]

    def _guarded(self, action: Callable[..., Result], *arguments: object) -> Result | None:
        """What the action returns; None where it raises, which stops the task and not the process."""
        try:
            return action(*arguments)
        except SudareError as error:
            self.stop(error)
        except Exception as error:  # noqa: BLE001 - a foreign error ends the task, not the process
            self.stop(unexpected(error))
        return None


class MessageDispatcher:
    """Messages in, messages out: what came is handed to its task, and acknowledged once the task has it on disk.

    Whatever a message is, handling it raises nothing: what cannot be used is counted in `drops`, acknowledged and forgotten. `tasks` are
    the names that messages may speak of, or None if any will do. Each sender has its own share of what is kept for later.

    A STOP names the last call of the task that its sender had heard of. One from before a later call says nothing of what is begun since: its sender may go on
    with that, or says again that it has stopped. So it does not matter in which order they come. Numbers of calls begin with the time of day, so that those of
    a process that was started again are larger; where its clock was set back it learns of the others' numbers by their answer, and calls once more.
    A relay is called by nobody and calls nobody: there a STOP always counts. Earlier versions of sudare name no call: their STOPs always count, and so do those with a number that no clock can have given: after the largest one
    no later call could be told from it, and nobody would go on with anybody again.
    """

    def __init__(
        self,
        session: Session,
        tasks: Collection[str] | None = None,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self.session = session
        self._time_of_day = time_of_day
        self._calls: dict[str, int] = {}
        self._called: dict[str, tuple[str, ...]] = {}
        self._called_again_for: dict[str, set[str]] = {}
        self._beginning: set[str] = set()
        self._told_of_stop: dict[str, set[tuple[str, bytes]]] = {}
        self._tasks = None if tasks is None else frozenset(tasks)
        self._activities: dict[str, Activity] = {}
        self._held: dict[str, dict[int, tuple[Delivery, Envelope]]] = {}
        self._quotas: SenderQuotas[tuple[str, int]] = SenderQuotas(HELD)
        self._held_so_far = 0
        self._offered_at: dict[str, Hashable] = {}
        self._refused: set[str] = set()
        self._stops: dict[str, dict[str, Envelope]] = {}
        self._asked: dict[str, set[str]] = {}

    @property
    def drops(self) -> Drops:
        """What was dropped, by sender and reason."""
        return self.session.drops

    @property
    def is_working(self) -> bool:
        """Whether a task has begun here and not ended."""
        return any(not (each.finished or each.failure) for each in self._activities.values())

    @property
    def held_bytes(self) -> int:
        """How much is kept for tasks that have not begun here, or not come so far."""
        return self._quotas.total_bytes

    def start(self, activity: Activity, now: float) -> None:
        """Take up a task; messages for it that came before are handed over."""
        activity.begin(now)
        self._activities[activity.task] = activity
        self._asked.pop(activity.task, None)
        self._refused.discard(activity.task)
        self._told_of_stop.pop(activity.task, None)
        self._beginning.discard(activity.task)
        for sender, stops in self._stops.items():
            stop = stops.pop(activity.task, None)
            if stop is not None and self._is_before_last_call(stop):
                self.session.post(sender, self._of_last_call(activity.task, ASKED).to_bytes())
            elif stop is not None:
                activity.receive(sender, stop, now)
        self._post(activity)
        self._offer_held(activity.task, now)

    def ask(self, task: str, receivers: Iterable[str]) -> None:
        """Tell these members that this one begins a task, before it has anything to say in it."""
        self._called[task], self._called_again_for[task] = tuple(receivers), set()
        self._beginning.add(task)
        self._call(task, max(int(1000 * self._time_of_day()), self._calls.get(task, 0) + 1))

    def _call(self, task: str, number: int) -> None:
        """Begin a task under a call of this number."""
        self._calls[task] = min(max(number, 1), _LARGEST_WHOLE)
        for receiver in self._called[task]:
            self.session.post(receiver, self._of_last_call(task, ASKED).to_bytes())

    def _of_last_call(self, task: str, kind: str) -> Envelope:
        activity = self._activities.get(task)
        was_stopped = activity is not None and isinstance(activity.failure, TaskStopped) and task not in self._refused
        return Envelope(task, kind, self._calls.get(task, 0), AFTER_ANOTHER if kind == STOP and was_stopped else 0)

    def _is_before_last_call(self, envelope: Envelope) -> bool:
        return 0 < envelope.iteration < self._calls.get(envelope.task, 0)

    def forget(self, task: str) -> None:
        """A task that was stopped or refused here is to begin again: what others say of it from now on waits for that, and is not answered with a STOP."""
        self._activities.pop(task, None)
        self._refused.discard(task)
        self._told_of_stop.pop(task, None)

    def refuse(self, task: str, receivers: Iterable[str], now: float) -> None:
        """Take no part in a task. These members are told, and whoever speaks of it later; never why."""
        self._refused.add(task)
        self._beginning.discard(task)
        for receiver in receivers:
            self._tell_of_stop(receiver, task)
        self._offer_held(task, now)

    def _tell_of_stop(self, receiver: str, task: str, *, names_call: bool = True) -> None:
        stop = self._of_last_call(task, STOP)
        self.session.post(receiver, (stop if names_call else replace(stop, iteration=0)).to_bytes())

    def receive(self, packet: Packet, now: float) -> None:
        """A packet from the transport. Nothing that others send makes this raise."""
        delivery = None
        try:
            delivery = self.session.receive(packet, now)
            if delivery is not None:
                self._deliver(delivery, now)
        except Exception as error:  # noqa: BLE001 - no packet may end the node; the owner is told the place
            self.drops.count_error(packet.sender, error)
            if delivery is not None:
                self.session.acknowledge(delivery)

    def tick(self, now: float) -> None:
        """Let every task look at who is there."""
        differences = self.session.differences()
        for activity in self._activities.values():
            try:
                for difference in differences.values():
                    activity.stop(difference)
                activity.tick(now, self.session.heard_within(now, activity.deadline_seconds))
            except Exception as error:  # noqa: BLE001 - a foreign error ends the task, not the node
                self.drops.count_error(self.session.name, error)
                activity.stop(unexpected(error))
            self._post(activity)
        for task in [task for task in self._held if task in self._activities]:
            self._offer_held(task, now)

    def wanted(self, members: Collection[str]) -> frozenset[str]:
        """Tasks that these members have sent messages for and that were not started here. A relay's messages start nothing."""
        senders = {task: {delivery.sender for delivery, _ in held.values()} for task, held in self._held.items()}
        for task, asking in self._asked.items():
            senders[task] = senders.get(task, set()) | asking
        return frozenset(
            task for task, names in senders.items() if task not in self._activities and not names.isdisjoint(members)
        )

    def is_told(self, envelope: Envelope) -> bool:
        """Whether everybody that a task has said this to has acknowledged it, and so has what follows from it on its disk."""
        activity = self._activities.get(envelope.task)
        if activity is not None:
            self._post(activity)
        return self.session.is_acknowledged(envelope.to_bytes())

    def due(self, now: float) -> Iterator[Packet]:
        """Packets to be sent now, each with its receiver."""
        return self.session.due(now)

    def _deliver(self, delivery: Delivery, now: float) -> None:
        try:
            envelope = Envelope.from_bytes(delivery.content)
        except MessageMalformed:
            # Authentic and yet unreadable: the sender's fault, told to nobody else and never tried again.
            self._drop(delivery, "malformed")
            return
        if self._tasks is not None and envelope.task not in self._tasks:
            self._drop(delivery, "unknown-task")
        elif envelope.kind in (STOP, ASKED) and envelope.body:
            self._drop(delivery, "too-large")
        elif self._offer(delivery, self._with_possible_call(envelope), now):
            task = envelope.task
            if task in self._held and self._stage_of(task) != self._offered_at.get(task):
                self._offer_held(task, now)
        else:
            self._hold(delivery, envelope)

    def _with_possible_call(self, envelope: Envelope) -> Envelope:
        """The envelope; without the number of a call that no clock can have given."""
        last = 1000 * self._time_of_day() + _MOST_MILLISECONDS_AHEAD
        is_impossible = envelope.kind in (STOP, ASKED) and envelope.iteration > last
        return replace(envelope, iteration=0) if is_impossible else envelope

    def _stage_of(self, task: str) -> Hashable:
        """What decides whether messages that are held for a task can be of use."""
        activity = self._activities.get(task)
        if activity is None:
            return task in self._refused
        return id(activity), activity.failure is None, activity.finished, activity.stage

    def _drop(self, delivery: Delivery, reason: Reason) -> None:
        self.drops.count(delivery.sender, reason)
        self.session.acknowledge(delivery)

    def _offer(self, delivery: Delivery, envelope: Envelope, now: float) -> bool:
        """Hand a message to its task. False if it is to be offered again later."""
        try:
            return self._offered(delivery, envelope, now)
        except Exception as error:  # noqa: BLE001 - no message may end the node; the owner is told the place
            self.drops.count_error(delivery.sender, error)
            self.session.acknowledge(delivery)
            return True

    def _offered(self, delivery: Delivery, envelope: Envelope, now: float) -> bool:
        is_between_members = RELAY_NAME not in (delivery.sender, self.session.name)
        if is_between_members and envelope.kind == STOP and self._is_of_another_call(delivery.sender, envelope):
            self.session.acknowledge(delivery)
            return True
        if is_between_members and envelope.kind == ASKED and envelope.task not in self._refused:
            self._let_resume(envelope)
        if is_between_members and envelope.kind in (STOP, ASKED):
            self._note_call(envelope)
        activity, stops = self._activities.get(envelope.task), self._stops.setdefault(delivery.sender, {})
        if activity is not None and envelope.kind != ASKED:
            if not activity.receive(delivery.sender, envelope, now):
                self._post(activity)
                return False
            self._post(activity)
        elif envelope.kind == STOP:
            # It counts when the task is started here, unless its sender has spoken of the task again by then.
            stops[envelope.task] = envelope
            if len(stops) > _MOST_STOPS:
                del stops[next(iter(stops))]
                self.drops.count(delivery.sender, "over-quota")
        else:
            stops.pop(envelope.task, None)
            if envelope.task in self._refused or (activity is not None and activity.failure is not None):
                # Who named no call that counts here would take the number of the last one for one from before its own.
                self._tell_of_stop(
                    delivery.sender, envelope.task, names_call=(envelope.kind, envelope.iteration) != (ASKED, 0)
                )
            elif envelope.kind == ASKED:
                self._note_asked(delivery.sender, envelope.task)
            else:
                return False
        self.session.acknowledge(delivery)
        return True

    def _let_resume(self, call: Envelope) -> None:
        """Somebody begins a task again that stopped here because of others: what it says next is for the next life of the task."""
        activity = self._activities.get(call.task)
        is_later = call.iteration == 0 or call.iteration > self._calls.get(call.task, 0)
        if activity is not None and activity.can_resume and is_later:
            self.forget(call.task)

    def _is_of_another_call(self, sender: str, stop: Envelope) -> bool:
        """Whether a STOP says nothing of the present call of a task: it is from before it, or from after one that this member had not heard of when it called itself.

        Then the sender is told of the present one: it goes on with that, or says again that it has stopped.
        """
        task, activity = stop.task, self._activities.get(stop.task)
        if self._is_before_last_call(stop):
            is_running = activity is not None and activity.failure is None and not activity.finished
            if is_running or task in self._beginning:
                self.session.post(sender, self._of_last_call(task, ASKED).to_bytes())
            return True
        if task in self._called and stop.iteration > self._calls[task] and sender not in self._called_again_for[task]:
            # Once for each of them and each time that it was asked for here: some may have heard of later calls than others.
            self._called_again_for[task].add(sender)
            self._call(task, stop.iteration + 1)
            return True
        return False

    def _note_call(self, envelope: Envelope) -> None:
        """Keep the largest number of a call that was heard of."""
        task, number = envelope.task, envelope.iteration
        # Where tasks are those of an agreement, there are no more than it has.
        has_room = self._tasks is not None or task in self._calls or len(self._calls) < _MOST_STOPS
        if number > self._calls.get(task, 0) and has_room:
            self._calls[task] = number

    def _note_asked(self, sender: str, task: str) -> None:
        if len(self._asked) >= _MOST_STOPS and task not in self._asked:
            self.drops.count(sender, "over-quota")
        elif task not in self._activities:
            self._asked.setdefault(task, set()).add(sender)

    def _hold(self, delivery: Delivery, envelope: Envelope) -> None:
        """Keep a message for later. One that must go for it is not acknowledged: an honest sender sends it again."""
        self._held_so_far += 1
        key = envelope.task, self._held_so_far
        # The content is in the envelope already.
        self._held.setdefault(envelope.task, {})[self._held_so_far] = delivery._replace(content=b""), envelope
        for sender, (task, number) in self._quotas.add(delivery.sender, key, len(delivery.content)):
            gone, _ = self._taken(task, number)
            self.session.put_back(gone)
            self.drops.count(sender, "over-quota")

    def _taken(self, task: str, number: int) -> tuple[Delivery, Envelope]:
        taken = self._held[task].pop(number)
        if not self._held[task]:
            del self._held[task]
        return taken

    def _offer_held(self, task: str, now: float) -> None:
        self._offer_all_held(task, now)
        if task in self._held:
            self._offered_at[task] = self._stage_of(task)
        else:
            self._offered_at.pop(task, None)

    def _offer_all_held(self, task: str, now: float) -> None:
        activity = self._activities.get(task)
        if activity is not None and activity.can_resume:
            self._keep_for_next_life(task)
            return
        progress = True
        while progress:
            progress = False
            for number, (delivery, envelope) in list(self._held.get(task, {}).items()):
                if self._offer(delivery, envelope, now):
                    self._quotas.remove(delivery.sender, (task, number))
                    self._taken(task, number)
                    progress = True

    def _keep_for_next_life(self, task: str) -> None:
        """What came too early for a task that has stopped here because of others waits for its next life; its senders are told that it has stopped, once."""
        told = self._told_of_stop.setdefault(task, set())
        for delivery, _ in self._held.get(task, {}).values():
            if (delivery.sender, delivery.incarnation) not in told:
                told.add((delivery.sender, delivery.incarnation))
                self._tell_of_stop(delivery.sender, task)

    def _post(self, activity: Activity) -> None:
        while posts := activity.posts():
            for receiver, posted in posts:
                envelope = self._of_last_call(activity.task, STOP) if posted.kind == STOP else posted
                try:
                    self.session.post(receiver, envelope.to_bytes())
                except MessageMalformed as error:
                    activity.stop(error)


# The loop

_TICK_SECONDS: Final = 0.25
_IDLE_TICK_SECONDS: Final = 0.5
_MOST_AT_ONCE: Final = 64
# A process that comes so much later than it wanted to has too little of the machine: what others did meanwhile it could not see.
_STARVED_SECONDS: Final = 0.5


def drive(
    dispatcher: MessageDispatcher,
    transport: Transport,
    until: Callable[[], bool],
    most_seconds: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Let a member talk until the condition holds; False if it does not within the time."""
    end, ticks_at, wakes_at = clock() + most_seconds, clock(), float("inf")
    while True:
        now = clock()
        if now - wakes_at > _STARVED_SECONDS:
            dispatcher.session.forgive(now - wakes_at, now)
        if now >= ticks_at:
            dispatcher.tick(now)
            ticks_at = now + (_TICK_SECONDS if dispatcher.is_working else _IDLE_TICK_SECONDS)
        _send_due(dispatcher, transport, now)
        if until():
            return True
        if now >= end:
            return False
        wakes_at = max(min(dispatcher.session.next_due(now), ticks_at, end), now)
        packet = transport.receive(wakes_at - now)
        for _ in range(_MOST_AT_ONCE):
            if packet is None:
                break
            dispatcher.receive(packet, clock())
            packet = transport.receive(0.0)
        else:
            if packet is not None:
                dispatcher.receive(packet, clock())


def _send_due(dispatcher: MessageDispatcher, transport: Transport, now: float) -> None:
    for_all = dispatcher.session.announcement_due(now)
    if for_all is not None:
        transport.announce(for_all, dispatcher.session.others)
    for receiver, content in dispatcher.due(now):
        transport.send(receiver, content)


def settle(dispatcher: MessageDispatcher, transport: Transport, most_seconds: float) -> bool:
    """Stay until the others have acknowledged everything (somebody may need the last message of a task), then say goodbye."""
    is_settled = drive(dispatcher, transport, dispatcher.session.is_settled, most_seconds)
    leave(dispatcher, transport)
    return is_settled


def leave(dispatcher: MessageDispatcher, transport: Transport) -> None:
    """Say goodbye as things are. What others did not acknowledge is on disk here, and what they say meanwhile they say again to the next life."""
    for receiver, content in dispatcher.session.last_receipts():
        transport.send(receiver, content)
    transport.announce(dispatcher.session.farewell(time.monotonic()), dispatcher.session.others)

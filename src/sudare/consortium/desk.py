"""A member's desk: one session with the others, and the activities whose messages go through it. No I/O, no clock."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sudare.consensus.wire import packed, unpacked
from sudare.consortium.session import Delivery, Session
from sudare.consortium.transport.base import Packet
from sudare.errors import ConsortiumError, MessageMalformed, SudareError


@dataclass(frozen=True)
class Envelope:
    """A message of a task: which step it belongs to, and its content. `members` are positions in the agreement."""

    task: str
    kind: str
    iteration: int = 0
    attempt: int = 0
    members: frozenset[int] = frozenset()
    body: bytes = b""

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Envelope:
        """The envelope of these bytes."""
        return read_as(cls, content)


Read = TypeVar("Read")


def read_as(kind: type[Read], content: bytes, *inner: type) -> Read:
    """The value of this class, with values of `inner` classes in it, that was packed into the bytes; anything else is refused."""
    found = unpacked(content, kind, *inner)
    if not isinstance(found, kind):
        raise MessageMalformed(
            f"These bytes are not a packed {kind.__name__.lstrip('_')}.",
            "The writer's version differs; nothing was used.",
        )
    return found


STOP: Final = "stop"


class Activity(Protocol):
    """One task of one member, as steps."""

    @property
    def task(self) -> str:
        """Its name in the agreement."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do but to answer the others."""

    @property
    def failure(self) -> SudareError | None:
        """Why it was stopped, if it was."""

    def begin(self, now: float) -> None:
        """Start, or take up again what is in the store."""

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take a message in. False means too early: it is offered again later, and not acknowledged yet."""

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Time passed. `present` are the members heard of within the deadline of the activity."""

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent, each with its receiver; handed out once."""

    def stop(self, reason: SudareError) -> None:
        """Give up, if it is not finished. The others are told that, and not why."""

    @property
    def deadline_seconds(self) -> float:
        """For how long a member may be silent before it is taken to have left."""


def unexpected(error: Exception) -> ConsortiumError:
    """Any foreign error in our words. Its text is not repeated: libraries quote what they were given."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name} line {frame.lineno}"
    return ConsortiumError(f"Something unexpected happened: {type(error).__name__}, in {place}.", SudareError.help)


class Desk:
    """Messages in, messages out: what came is handed to its task, and acknowledged once the task has it on disk."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._activities: dict[str, Activity] = {}
        self._held: list[tuple[Delivery, Envelope]] = []
        self._refused: set[str] = set()
        self._stops: dict[tuple[str, str], Envelope] = {}
        self.malformed: dict[str, int] = {}

    def start(self, activity: Activity, now: float) -> None:
        """Take up a task; messages for it that came before are handed over."""
        self._activities[activity.task] = activity
        self._refused.discard(activity.task)
        activity.begin(now)
        for (task, sender), envelope in self._stops.items():
            if task == activity.task:
                activity.receive(sender, envelope, now)
        self._post(activity)
        self._offer_held(now)

    def refuse(self, task: str, receivers: Iterable[str], now: float) -> None:
        """Take no part in a task. These members are told, and whoever speaks of it later; never why."""
        self._refused.add(task)
        for receiver in receivers:
            self.session.post(receiver, Envelope(task, STOP).to_bytes())
        self._offer_held(now)

    def receive(self, packet: Packet, now: float) -> None:
        """A packet from the transport."""
        delivery = self.session.receive(packet, now)
        if delivery is None:
            return
        try:
            envelope = Envelope.from_bytes(delivery.content)
        except MessageMalformed:
            # Authentic and yet unreadable: the sender's fault, told to nobody else and never tried again.
            self.malformed[delivery.sender] = self.malformed.get(delivery.sender, 0) + 1
            self.session.acknowledge(delivery)
            return
        if self._offer(delivery, envelope, now):
            self._offer_held(now)
        else:
            self._held.append((delivery, envelope))

    def tick(self, now: float) -> None:
        """Let every task look at who is there."""
        differences = self.session.differences()
        for activity in self._activities.values():
            for difference in differences.values():
                activity.stop(difference)
            activity.tick(now, self.session.present(now, activity.deadline_seconds))
            self._post(activity)
        self._offer_held(now)

    def wanted(self) -> frozenset[str]:
        """Tasks that others have sent messages for and that were not started here."""
        return frozenset(envelope.task for _, envelope in self._held if envelope.task not in self._activities)

    def due(self, now: float) -> Iterator[Packet]:
        """Packets to be sent now, each with its receiver."""
        return self.session.due(now)

    def _offer(self, delivery: Delivery, envelope: Envelope, now: float) -> bool:
        activity = self._activities.get(envelope.task)
        if activity is not None:
            if not activity.receive(delivery.sender, envelope, now):
                return False
            self._post(activity)
        elif envelope.kind == STOP:
            # It counts when the task is started here, unless its sender has spoken of the task again by then.
            self._stops[envelope.task, delivery.sender] = envelope
        else:
            self._stops.pop((envelope.task, delivery.sender), None)
            if envelope.task not in self._refused:
                return False
            self.session.post(delivery.sender, Envelope(envelope.task, STOP).to_bytes())
        self.session.acknowledge(delivery)
        return True

    def _offer_held(self, now: float) -> None:
        progress = True
        while progress and self._held:
            waiting, self._held = self._held, []
            for delivery, envelope in waiting:
                if not self._offer(delivery, envelope, now):
                    self._held.append((delivery, envelope))
            progress = len(self._held) < len(waiting)

    def _post(self, activity: Activity) -> None:
        for receiver, envelope in activity.posts():
            self.session.post(receiver, envelope.to_bytes())

"""What a node says about the others: who came and went, whether the relay can be reached, what was dropped, whose key two processes use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from sudare.consortium.event_log import EventLog
from sudare.consortium.network.dropped_messages import DropLines
from sudare.consortium.network.message_dispatch import MessageDispatcher
from sudare.consortium.network.transport.base import Transport

# A line that is not up for so long after the start of a process does not come up by itself.
_FIRST_LINE_SECONDS: Final = 20.0


@dataclass
class PeerWatch:
    """Compares what there is with what was last said, and says the difference: to the log in events, to the owner in words.

    `members` are those of the agreement, `talking` all that talk to this one; who is silent for `silence_seconds` is taken to be away.
    """

    members: Collection[str]
    talking: Collection[str]
    silence_seconds: float
    dispatcher: MessageDispatcher
    transport: Transport
    log: EventLog
    tell: Callable[[str], None]
    present: frozenset[str] = frozenset()
    reaches_relay: bool = False
    # When a relay that was never reached is told of; None once it was told of, or reached.
    _missed_at: float | None = float("inf")
    _drop_lines: DropLines = field(default_factory=DropLines)
    _told: set[str] = field(default_factory=set)

    def look(self, now: float) -> None:
        """Say what has changed since."""
        self._look_at_line(now)
        self._look_at_presence(now)
        self._look_at_drops(now)
        self._look_at_keys()

    def _look_at_line(self, now: float) -> None:
        reaches = self.transport.reaches_relay()
        if reaches:
            self._missed_at = None
            if not self.reaches_relay:
                self.log.write("relay-reached")
        elif self.reaches_relay:
            self.log.write("relay-lost")
            self.tell("the line to the relay is down; it is tried again all the time, and what was begun goes on then")
        elif self._missed_at is not None:
            self._missed_at = min(self._missed_at, now + _FIRST_LINE_SECONDS)
            if now >= self._missed_at:
                self._missed_at = None
                self.log.write("relay-lost")
                self.tell(
                    "the relay is not reached: it is down, or line, proxy or certificate are not right; it is tried again all the time"
                )
        self.reaches_relay = reaches

    def _look_at_presence(self, now: float) -> None:
        session = self.dispatcher.session
        present, left = session.present(now, self.silence_seconds), session.have_left()
        for name in sorted(present - self.present - {session.name}):
            self.log.write("connected", peer=name)
        for name in sorted(self.present - present):
            self.log.write("disconnected", peer=name, kind="farewell" if name in left else "silence")
        if present != self.present:
            absent = [
                f"{name} (it was stopped)" if name in left else name for name in self.talking if name not in present
            ]
            waiting = f", waiting for {', '.join(absent)}" if absent else ""
            self.tell(f"{len(present & set(self.members))} of {len(self.members)} members present{waiting}")
        self.present = present

    def _look_at_drops(self, now: float) -> None:
        """Log what was dropped since, by sender and reason and not more than a line a minute for each; tell the owner of faults in the code."""
        drops = self.transport.drops, self.dispatcher.drops
        counts = Counter(drops[0].counts()) + Counter(drops[1].counts())
        for sender, reason, amount in self._drop_lines.due(counts, now):
            self.log.write("message-dropped", peer=sender, kind=reason, count=amount)
        for place in (*drops[0].new_places(), *drops[1].new_places()):
            self.tell(f"a message was dropped because of a fault in sudare, please report: {place}")

    def _look_at_keys(self) -> None:
        """Say once who speaks another version, and with whose key two processes seem to speak."""
        session = self.dispatcher.session
        found = dict.fromkeys(session.other_versions().values(), "")
        found |= {_doubled_text(name): name for name in session.doubled()}
        reporters = session.reporters_of_our_double()
        found |= {_doubled_here_text(", ".join(sorted(reporters))): session.name} if reporters else {}
        for text in found.keys() - self._told:
            self._told.add(text)
            if found[text]:
                self.log.write("member-doubled", peer=found[text])
            self.tell(text)


def _doubled_text(name: str) -> str:
    return f"words of two nodes come with the key of '{name}', and this one hears the newer: ask '{name}' whether it runs two, and let it stop one. After a restart a relay may pass on old words of the node that ended; if neither is so, somebody else has its key (sudare key revoke)"


def _doubled_here_text(reporters: str) -> str:
    return f"another node speaks with this member's key, and others hear that one, by the word of {reporters}: stop one of the two; if you run one only, ask them by telephone: they lie, or somebody else has the key (sudare key revoke)"

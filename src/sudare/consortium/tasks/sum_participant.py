"""What members and a relay that collects have in common in sums between machines. No I/O but the store, no clock.

Messages of a sum are in envelopes; each is taken in once, and what follows from it is saved before it is sent or acknowledged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

from sudare.consortium.network.message_dispatch import Activity, Envelope
from sudare.consortium.network.session import MOST_MESSAGE_BYTES
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.errors import IdentityError, MessageMalformed
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.context import RELAY_NAME, RelayedSumContext, Roster, SumContext
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.messages import Message, most_message_bytes
from sudare.sums.neighbour_graph import sum_neighbourhood
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector

# A message of a sum, and what members ask of a relay that collects.
SUM, COLLECT = "sum", "collect"
# A collector goes on without those who are there and say nothing after two deadlines.
_DEADLINES_OF_A_ROUND: Final = 2
# Those who were left out of the sum before are waited for by a small part of a deadline.
PART_FOR_THE_LATE: Final = 0.1
_MOST_UNACKNOWLEDGED: Final = 4096
_KEYS: Final = "keys"
_DIGEST_BYTES: Final = 32
_LONGEST_VECTOR: Final = MOST_MESSAGE_BYTES // 8

Known = Callable[[], Mapping[str, PublicKeys]]


@dataclass(frozen=True)
class SumGroup:
    """Among whom sums are made: the agreement's digest, its members in their order, the own name and keys, the threshold, how many may lie.

    Where the relay collects it has a name and keys too, and is no member. `signed` are the public keys that members have signed with the agreement.
    """

    agreement: str
    members: tuple[str, ...]
    name: str
    keys: MemberKeys
    threshold: int
    dishonest: int
    relay_collects: bool = False
    signed: Mapping[str, PublicKeys] = field(default_factory=dict)

    @property
    def participants(self) -> tuple[str, ...]:
        """All who send messages in a sum: the members and, where it collects, the relay after them."""
        return (*self.members, RELAY_NAME) if self.relay_collects else self.members

    @property
    def position(self) -> int:
        """Which of the participants this one is."""
        return self.participants.index(self.name)

    @property
    def everyone(self) -> frozenset[int]:
        """The positions of all members."""
        return frozenset(range(len(self.members)))

    @property
    def may_lose_some(self) -> bool:
        """Whether the agreement lets members leave."""
        return self.threshold < len(self.members)

    def collector_of(self, iteration: int, attempt: int) -> str:
        """The name of who collects an attempt at a sum."""
        return RELAY_NAME if self.relay_collects else self.members[(iteration + attempt) % len(self.members)]


@dataclass(frozen=True)
class SumRequest:
    """What a relay must know of a sum to collect it, and members know: the digest of all totals heard before, and how many words are added up."""

    history: bytes
    length: int

    @classmethod
    def from_bytes(cls, content: bytes) -> SumRequest:
        """The request of these bytes. Raise MessageMalformed unless they are one that an honest member makes."""
        found = unpacked_as(cls, content, most_values=4)
        if len(found.history) != _DIGEST_BYTES or not 0 < found.length <= _LONGEST_VECTOR:
            raise MessageMalformed("A request to collect names no sum.", "Use one program version.")
        return found


@dataclass(frozen=True)
class Attempt:
    """One attempt at a sum, saved before its messages are sent."""

    iteration: int
    number: int
    sum_state: bytes


Steps = TypeVar("Steps", Party, RelayCollector)


class SumSteps(Generic[Steps]):
    """One participant in one sum, over its attempts. `late` are the members that were left out of the sum before."""

    number: int
    _party: Steps
    _stage: object
    _progress_at: float

    def __init__(
        self,
        task: str,
        group: SumGroup,
        publics: tuple[PublicKeys, ...],
        iteration: int,
        request: SumRequest,
        save: Callable[[Attempt], None],
        late: frozenset[str],
    ) -> None:
        self.iteration, self.request, self._late = iteration, request, late
        self._task, self._group, self._save, self.publics = task, group, save, publics
        self._roster = Roster(group.members, publics[: len(group.members)])
        self._relay = publics[-1] if group.relay_collects else None
        self._neighbourhood = sum_neighbourhood(len(group.members), group.dishonest, group.threshold)
        self._posts: list[tuple[str, Envelope]] = []
        self._is_saved = True
        self._unacknowledged: set[tuple[str, int, bytes]] = set()
        self._present = frozenset(group.participants)

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent."""
        posts, self._posts = self._posts, []
        return posts

    def flush(self) -> None:
        """Save what was not saved yet. Messages are sent only after it."""
        if not self._is_saved:
            self._save(Attempt(self.iteration, self.number, self._party.state.to_bytes()))
            self._is_saved = True

    def wait_anew(self, now: float) -> None:
        """Count the time that the others were waited for from now on."""
        self._progress_at = now

    def _context(self, number: int) -> SumContext:
        """What an attempt depends on."""
        group, history, neighbourhood = self._group, self.request.history, self._neighbourhood
        which = group.agreement, self._task, self.iteration, number, self._roster, group.threshold, group.dishonest
        if self._relay is None:
            return SumContext(*which, history, neighbourhood)
        return RelayedSumContext(*which, history, neighbourhood, relay=self._relay)

    def _begin(self, number: int, party: Steps, outgoing: tuple[Message, ...], now: float) -> None:
        """Begin an attempt, with what is sent first."""
        self.number, self._progress_at = number, now
        self._party, self._stage = party, party.progress
        self._unacknowledged.clear()
        self._take_step(outgoing, now)
        self.flush()

    def _take_once(self, sender: str, envelope: Envelope, now: float) -> None:
        """Take a message of this attempt in. It may be acknowledged once `_is_saved`: what leads to no message yet is saved with the next one that is sent, or at the next tick."""
        key = sender, envelope.attempt, hashlib.sha256(envelope.body).digest()
        if key not in self._unacknowledged:
            if len(self._unacknowledged) >= _MOST_UNACKNOWLEDGED:
                # Those that are offered again are read again.
                self._unacknowledged.clear()
            self._unacknowledged.add(key)
            message = self._read(sender, envelope)
            # Whoever sends what cannot be read is heard as if it were silent.
            if message is not None:
                self._take_step(self._party.receive(message), now)
        if self._is_saved:
            self._unacknowledged.discard(key)

    def _read(self, sender: str, envelope: Envelope) -> Message | None:
        """The message in an envelope; None unless it is one that this sender can send to this participant."""
        if len(envelope.body) > most_message_bytes(self.request.length, len(self._group.members)):
            return None
        try:
            message = Message.from_bytes(envelope.body)
        except MessageMalformed:
            return None
        ends = self._group.participants.index(sender), self._group.position
        return message if (message.sender, message.receiver) == ends else None

    def _take_step(self, outgoing: tuple[Message, ...], now: float) -> None:
        self._is_saved = False
        if outgoing:
            self.flush()
        for message in outgoing:
            receiver = self._group.participants[message.receiver]
            envelope = Envelope(self._task, SUM, self.iteration, self.number, message.to_bytes())
            self._posts.append((receiver, envelope))
        if self._party.progress != self._stage:
            self._stage, self._progress_at = self._party.progress, now

    def _awaited(self) -> frozenset[str]:
        """The names of those that are waited for."""
        participants = self._group.participants
        return frozenset(participants[position] for position in self._party.waits_for)

    def _look_for_answers(self, now: float, deadline_seconds: float) -> None:
        """Collect without those who are silent: at once where they are absent and the others are enough."""
        awaited, waited = self._awaited(), now - self._progress_at
        if not awaited:
            return
        are_absent, are_late = not awaited & self._present, awaited <= self._late
        waited_for_late = waited >= PART_FOR_THE_LATE * deadline_seconds
        is_over = self._party.has_enough and (are_absent or (are_late and waited_for_late))
        is_over |= are_absent and waited >= deadline_seconds
        if is_over or waited >= _DEADLINES_OF_A_ROUND * deadline_seconds:
            self._take_step(self._party.expire(), now)


@dataclass(frozen=True)
class PinnedKeys:
    """Everyone's public keys for masks and votes, which must not change in the middle of a task."""

    PACKED_NAME: ClassVar = "_Keys"

    exchange: tuple[bytes, ...]
    signing: tuple[bytes, ...]


class SumActivity(Activity):
    """An activity that takes part in sums. `known` gives the public keys for masks and votes of the participants met so far."""

    def __init__(
        self, task: str, group: SumGroup, store: CheckpointStore, known: Known, silence_seconds: float
    ) -> None:
        super().__init__(task, group.name, group.members, silence_seconds)
        self._group, self._known, self._unopened = group, known, store
        self._begun_at = self._looked_at = 0.0

    def _open(self, now: float) -> None:
        """Take hold of the store before anything of it is read.

        Raise InvalidParameter where another process has it open, IdentityError where members may leave and one has not signed its keys for sums.
        """
        group = self._group
        unsigned = [name for name in group.members if name not in group.signed]
        if group.may_lose_some and unsigned:
            raise IdentityError(
                f"No keys for sums that {', '.join(unsigned)} signed with the agreement are here: others could be shown to each member.",
                "Nothing was sent. They sign again with `sudare consortium sign` and send their file of statements.",
            )
        self._begun_at = self._looked_at = now
        self._store = self._unopened.opened_alone()

    def _saved_publics(self) -> tuple[PublicKeys, ...] | None:
        """The participants' public keys that the task was begun with."""
        content = self._store.load(_KEYS)
        if content is None:
            return None
        saved = unpacked_as(PinnedKeys, content)
        return tuple(map(PublicKeys, saved.exchange, saved.signing))

    def _gathered_publics(self) -> tuple[PublicKeys, ...] | None:
        """The participants' public keys, saved for the rest of the task; None as long as somebody has not shown its own.

        Where members may leave, members' are those that they have signed with the agreement: they need not be there, and show the same to all.
        Raise InvalidParameter, and save nothing, unless sums can be made with them: who showed a wrong key may show the right one in the next run.
        """
        known, signed = self._known(), self._group.signed
        at_hand = (
            {**known, **signed}
            if self._group.may_lose_some
            else {name: signed.get(name, known[name]) for name in known}
        )
        if not all(name in at_hand for name in self._group.participants):
            return None
        publics = tuple(at_hand[name] for name in self._group.participants)
        Roster(self._group.participants, publics)
        keys = PinnedKeys(tuple(each.exchange for each in publics), tuple(each.signing for each in publics))
        self._store.save(_KEYS, packed(keys))
        return publics

    def _collect(self, steps: SumSteps[Party] | SumSteps[RelayCollector]) -> None:
        """Send what a sum has to say."""
        self._posts += steps.posts()

    def _was_away(self, now: float) -> bool:
        """Whether this process itself computed for long, or its machine slept: what the others said meanwhile is yet to be read."""
        was_away = now - self._looked_at > self.deadline_seconds / 2
        self._looked_at = now
        if was_away:
            self._begun_at = now
        return was_away

    def _seen(self, now: float, present: frozenset[str]) -> frozenset[str]:
        """Who is there; everyone in the first seconds, in which nobody can have been heard of."""
        return frozenset(self._group.participants) if now - self._begun_at < self.deadline_seconds else present

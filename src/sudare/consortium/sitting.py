"""One sum among the members of an agreement: attempts at it, who takes part, and its messages in envelopes.

A sum may take several attempts: when members left before they had dealt their shares, those who stay begin again without
them. All of them know who left (they reported the same), so they begin the same attempt; whoever hears of a later attempt
than its own joins it, unless it has already promised its input to another set of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.consensus.messages import Message, Missing, SumState, most_message_bytes
from sudare.consensus.participant import Participant
from sudare.consensus.sharing.masks import Seat, SumContext
from sudare.consortium.desk import Envelope
from sudare.errors import MessageMalformed, SumError
from sudare.sums.keys import MemberKeys, PublicKeys

Words = NDArray[np.uint64]
SUM = "sum"


@dataclass(frozen=True)
class Circle:
    """Among whom sums are made: the agreement's digest, its members in their order, this one's name and keys, and the threshold."""

    agreement: str
    members: tuple[str, ...]
    name: str
    keys: MemberKeys
    threshold: int

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
    members: frozenset[int]
    sum_state: bytes

    @property
    def rank(self) -> tuple[int, int, list[int]]:
        """Of two attempts at one sum all join the one that ranks higher."""
        return self.number, len(self.members), sorted(self.members)

    @property
    def was_stopped(self) -> bool:
        """Whether it ended without a total."""
        state = SumState.from_bytes(self.sum_state)
        return state.stopped is not None and state.total is None


class Sitting:
    """This member in one sum."""

    def __init__(
        self,
        task: str,
        circle: Circle,
        publics: tuple[PublicKeys, ...],
        iteration: int,
        addend: Words,
        save: Callable[[Attempt], None],
    ) -> None:
        self.iteration = iteration
        self._task, self._circle, self._publics, self._addend, self._save = task, circle, publics, addend, save
        self._posts: list[tuple[str, Envelope]] = []
        self._settled: tuple[str, ...] | None = None
        self._unsaved: Attempt | None = None

    def begin(self, members: frozenset[int], saved: Attempt | None) -> None:
        """Begin, or take up what was saved: the same bytes again, or another attempt if that one was stopped."""
        if saved is None:
            self._attempt(0, members, None)
            return
        if not saved.was_stopped:
            self._attempt(saved.number, saved.members, saved.sum_state)
            return
        state = SumState.from_bytes(saved.sum_state)
        self._settled = state.record.settled
        left = frozenset(sorted(saved.members)[place] for place in state.left)
        again = saved.members - left if self._may_join(saved.members - left) else self._circle.everyone
        self._attempt(saved.number + 1, again, saved.sum_state)

    def receive(self, sender: str, envelope: Envelope) -> None:
        """A message of this sum; those of attempts that were given up change nothing."""
        theirs = Attempt(self.iteration, envelope.attempt, envelope.members, b"")
        if theirs.rank > self._current.rank and self._may_join(envelope.members):
            self._attempt(envelope.attempt, envelope.members, self._participant.state.to_bytes())
        place = self._circle.members.index(sender)
        if theirs.rank != self._current.rank or place not in envelope.members:
            return
        if len(envelope.body) > most_message_bytes(len(self._addend), len(self._order)):
            raise MessageMalformed(f"'{sender}' sent more than a sum of this size needs.", "Use one program version.")
        message = Message.from_bytes(envelope.body)
        if message.sender != self._order.index(place):
            raise MessageMalformed(f"'{sender}' sent a message in another's name.", "Ask that member by telephone.")
        self._send(self._participant.receive(message))
        if self.total is None or self._circle.may_lose_some:
            self.flush()

    def flush(self) -> None:
        """Save what was not saved yet.

        Messages are sent only after it. The event that completes a sum may wait for the checkpoint of the next one: whoever sent it
        sends it again until then.
        """
        if self._unsaved is not None:
            self._save(self._unsaved)
            self._unsaved = None

    def lose(self, names: Iterable[str]) -> None:
        """These members were silent for too long."""
        for name in names:
            position = self._circle.members.index(name)
            if position in self._current.members and self.total is None and self.stopped is None:
                self._send(self._participant.receive(Missing(self._order.index(position))))
                self.flush()

    def try_without_those_who_left(self) -> bool:
        """Another attempt at a sum that was stopped, if the agreement lets that many be missing."""
        left = frozenset(self._order[place] for place in self._participant.state.left)
        staying = self._current.members - left
        if not left or not self._may_join(staying):
            return False
        self._attempt(self._current.number + 1, staying, self._participant.state.to_bytes())
        return True

    @property
    def total(self) -> Total | None:
        """The sum and whose addends are in it, once known."""
        words, included = self._participant.total, self._participant.included
        if words is None or included is None:
            return None
        return Total(words, frozenset(self._order[place] for place in included))

    @property
    def stopped(self) -> str | None:
        """Why this attempt was stopped, if it was."""
        return self._participant.state.stopped

    @property
    def failure(self) -> SumError | None:
        """The same as an error."""
        return self._participant.failure

    def posts(self) -> list[tuple[str, Envelope]]:
        """What is to be sent."""
        posts, self._posts = self._posts, []
        return posts

    def _may_join(self, members: frozenset[int]) -> bool:
        circle = self._circle
        enough = members <= circle.everyone and circle.position in members and circle.threshold <= len(members)
        if not enough or self._settled is None:
            return enough
        settled, names = set(self._settled), {circle.members[position] for position in members}
        # An input that was promised to a total over some members is never put into one over others.
        return settled == names or (len(members) > circle.threshold and settled <= names)

    def _attempt(self, number: int, members: frozenset[int], saved: bytes | None) -> None:
        circle = self._circle
        self._current, self._order = Attempt(self.iteration, number, members, b""), sorted(members)
        names = tuple(circle.members[position] for position in self._order)
        context = SumContext(
            circle.agreement, self._task, self.iteration, number, names, circle.threshold, len(circle.members)
        )
        publics = tuple(self._publics[position] for position in self._order)
        seat = Seat(context, self._order.index(circle.position), circle.keys, publics)
        self._participant = Participant(seat, self._addend, self._persist, saved)
        self._settled = self._participant.state.record.settled
        self._send(self._participant.begin())
        self.flush()

    def _persist(self, sum_state: bytes) -> None:
        current, self._settled = self._current, self._participant.state.record.settled
        self._unsaved = Attempt(current.iteration, current.number, current.members, sum_state)

    def _send(self, messages: tuple[Message, ...]) -> None:
        current = self._current
        if messages:
            self.flush()
        for message in messages:
            receiver = self._circle.members[self._order[message.receiver]]
            envelope = Envelope(self._task, SUM, self.iteration, current.number, current.members, message.to_bytes())
            self._posts.append((receiver, envelope))

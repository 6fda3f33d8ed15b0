"""All members of a masked sum in one process: messages in the order they were sent, and members that leave when told to."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from sudare.consensus.messages import Body, Event, Given, Message, Missing, Passed, Ready
from sudare.consensus.participant import Participant
from sudare.errors import SumError
from sudare.sums.wire import packed_size


@dataclass
class Traffic:
    """What went between members: vectors by sender and round, and bits, both counted as they are sent; and who left."""

    vectors: dict[tuple[int, frozenset[int], int], int] = field(default_factory=dict)
    bits: int = 0
    left: set[int] = field(default_factory=set)
    _last: tuple[Body | None, int] = (None, 0)

    def count(self, message: Message) -> None:
        """One more message."""
        body = message.body
        if body is not self._last[0]:
            # What is told to everyone is measured once.
            self._last = body, _body_bytes(body)
        self.bits += 8 * (self._last[1] + _frame_bytes(message.sender, message.receiver))
        if isinstance(body, Passed | Given):
            number, values = (body.round, body.values) if isinstance(body, Passed) else (-1, 1)
            key = message.sender, body.left, number
            self.vectors[key] = self.vectors.get(key, 0) + values

    @property
    def rounds(self) -> int:
        """Rounds in which vectors were sent."""
        return len({(left, number) for _, left, number in self.vectors})

    @property
    def vectors_per_round(self) -> int:
        """The most vectors one member sent in one round."""
        return max(self.vectors.values(), default=0)


def _body_bytes(body: Body) -> int:
    if not isinstance(body, Passed):
        return packed_size(body)
    vectors = [vector for vector in (body.window, body.partial) if vector is not None]
    return sum(vector.nbytes for vector in vectors) + _empty_parcel_bytes(body.left, body.round, len(vectors))


@lru_cache(maxsize=4096)
def _empty_parcel_bytes(left: frozenset[int], number: int, values: int) -> int:
    empty = np.empty(0, dtype=np.uint64)
    return packed_size(Passed(left, number, empty, empty if values == 2 else None))


@lru_cache(maxsize=4096)
def _frame_bytes(sender: int, receiver: int) -> int:
    return packed_size(Message(sender, receiver, Ready())) - packed_size(Ready())


def rehearse(
    participants: Sequence[Participant],
    leave_after: Mapping[int, int] | None = None,
    watch: Callable[[Message], None] | None = None,
) -> Traffic:
    """Deliver everything until nobody has more to say.

    `leave_after` names members and after how many messages they fall silent; `watch` is shown every message that is sent.
    """
    leaving = dict(leave_after or {})
    traffic, queue, noticed = Traffic(), deque[tuple[int, Event]](), deque[tuple[int, Event]]()
    spoken = [0] * len(participants)

    def post(sender: int, messages: Sequence[Message]) -> None:
        for message in messages:
            if spoken[sender] >= leaving.get(sender, math.inf):
                break
            spoken[sender] += 1
            traffic.count(message)
            if watch is not None:
                watch(message)
            queue.append((message.receiver, message))
        if spoken[sender] >= leaving.get(sender, math.inf) and sender not in traffic.left:
            traffic.left.add(sender)
            noticed.extend((other, Missing(sender)) for other in range(len(participants)) if other != sender)

    for position, participant in enumerate(participants):
        post(position, participant.begin())
    while queue or noticed:
        # That somebody left is noticed when nothing else comes any more, as by a deadline.
        receiver, event = (queue or noticed).popleft()
        if receiver not in traffic.left:
            post(receiver, participants[receiver].receive(event))
    return traffic


def failure_of(participants: Sequence[Participant]) -> SumError | None:
    """The first failure among members that reported one."""
    return next((failure for each in participants if (failure := each.failure) is not None), None)

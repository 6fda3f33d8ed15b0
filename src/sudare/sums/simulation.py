"""All members of a sum in one process: messages in the order they were sent, and members that fall silent when told to."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from sudare.errors import SumError
from sudare.sums.canonical_encoding import packed_size
from sudare.sums.messages import Body, Masked, Message, Opened, Passed
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector


@dataclass
class Traffic:
    """What went between members, counted as it is sent: vectors by sender and round, and bits; and who left."""

    vectors: dict[tuple[int, int], int] = field(default_factory=dict)
    bits: int = 0
    left: set[int] = field(default_factory=set)
    _last: tuple[Body | None, int, int | None] = (None, 0, None)

    def count(self, message: Message) -> None:
        """One more message."""
        body = message.body
        if body is not self._last[0]:
            # What is told to everyone is measured once.
            self._last = body, 8 * _body_bytes(body), _round_of_vectors(body)
        _, bits, number = self._last
        self.bits += bits
        if number is not None:
            key = message.sender, number
            self.vectors[key] = self.vectors.get(key, 0) + (body.values if isinstance(body, Passed) else 1)

    @property
    def rounds(self) -> int:
        """Rounds in which vectors were sent."""
        return len({number for _, number in self.vectors})

    @property
    def vectors_per_round(self) -> int:
        """The most vectors one member sent in one round."""
        return max(self.vectors.values(), default=0)


def _round_of_vectors(body: Body) -> int | None:
    """A number for the round in which a body brings vectors; None where it brings none."""
    if isinstance(body, Passed):
        return body.round
    return -1 if isinstance(body, Masked) else -2 if isinstance(body, Opened) else None


def _body_bytes(body: Body) -> int:
    """How many bytes a body has when it is packed; parcels, of which there are most, are not packed for it."""
    if not isinstance(body, Passed):
        return packed_size(body)
    vectors = [vector for vector in (body.window, body.partial) if vector is not None]
    return sum(vector.nbytes for vector in vectors) + _empty_parcel_bytes(body.round, len(vectors))


@lru_cache(maxsize=128)
def _empty_parcel_bytes(number: int, values: int) -> int:
    empty = np.empty(0, dtype=np.uint64)
    return packed_size(Passed(number, empty, empty if values == 2 else None))


def simulate(
    parties: Sequence[Party | RelayCollector],
    leave_after: Mapping[int, int] | None = None,
    watch: Callable[[Message], None] | None = None,
) -> Traffic:
    """Deliver everything until nobody has more to say; then deadlines pass, as long as that leads to more messages.

    A relay that collects comes after the members. `leave_after` names members and after how many messages they fall silent; `watch` is shown every message that is sent.
    """
    network = _Network(parties, dict(leave_after or {}), watch)
    for position, party in enumerate(parties):
        network.post(position, party.begin())
    network.deliver()
    while network.pass_deadlines():
        network.deliver()
    return network.traffic


class _Network:
    """Messages between members, in the order they were sent."""

    def __init__(
        self,
        parties: Sequence[Party | RelayCollector],
        leaving: Mapping[int, int],
        watch: Callable[[Message], None] | None,
    ) -> None:
        self.traffic = Traffic()
        self._parties, self._leaving, self._watch = parties, leaving, watch
        self._queue = deque[Message]()
        self._spoken = [0] * len(parties)

    def post(self, sender: int, messages: Sequence[Message]) -> None:
        """Send what a member says, until it falls silent."""
        most = self._leaving.get(sender, math.inf)
        for message in messages:
            if self._spoken[sender] >= most:
                break
            self._spoken[sender] += 1
            self.traffic.count(message)
            if self._watch is not None:
                self._watch(message)
            self._queue.append(message)
        if self._spoken[sender] >= most:
            self.traffic.left.add(sender)

    def deliver(self) -> None:
        """Until nobody has more to say."""
        while self._queue:
            message = self._queue.popleft()
            receiver = message.receiver
            if receiver not in self.traffic.left and (answer := self._parties[receiver].receive(message)):
                self.post(receiver, answer)

    def pass_deadlines(self) -> bool:
        """Whether anybody has something to say once a deadline has passed."""
        for position, party in enumerate(self._parties):
            if position not in self.traffic.left:
                self.post(position, party.expire())
        return bool(self._queue)


def failure_of(parties: Sequence[Party]) -> SumError | None:
    """The first failure among members that reported one."""
    return next((failure for each in parties if (failure := each.failure) is not None), None)

"""Sums in which some members' programs lie, for tests: honest members run the code as it is, and what the others send goes through `lie`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sudare.sums.blame import Transcript
from sudare.sums.context import NO_HISTORY, Participant, SumContext
from sudare.sums.messages import Message
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.party import Party
from sudare.sums.statements import Kind, Statement, stated
from tests.sums.parties import keys_of, roster

Lie = Callable[[Message], Sequence[Message]]


def context_of(
    members: int = 7,
    threshold: int = 5,
    dishonest: int = 1,
    attempt: int = 0,
    iteration: int = 0,
    history: bytes = NO_HISTORY,
    neighbourhood: Neighbourhood | None = None,
) -> SumContext:
    members_of_sum = roster(members, "m")
    return SumContext(
        "agreement", "task", iteration, attempt, members_of_sum, threshold, dishonest, history, neighbourhood
    )


def statement_of(context: SumContext, signer: int, kind: Kind, content: bytes) -> Statement:
    """What this member's own key signs, whatever it is."""
    return stated(Participant(context, signer, keys_of(signer)), kind, content)


@dataclass
class Play:
    """A sum, or another attempt at it, in which what `liars` send goes through `lie`."""

    context: SumContext = field(default_factory=context_of)
    liars: Collection[int] = ()
    lie: Lie = lambda message: [message]
    saved: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parties = [self._party(position) for position in range(len(self.context.roster))]

    def _party(self, position: int) -> Party:
        participant = Participant(self.context, position, keys_of(position))
        words = np.arange(3, dtype=np.uint64) + np.uint64(100 * self.context.iteration + position)
        saved = self.saved.get(position)
        return Party(participant, words, lambda state: self.saved.__setitem__(position, state), saved)

    def played(self) -> Play:
        """Until nobody has more to say, and no deadline leads to more."""
        queue = deque[Message]()
        for party in self.parties:
            self._post(queue, party.begin())
        for _ in range(12):
            while queue:
                message = queue.popleft()
                if 0 <= message.receiver < len(self.parties):
                    self._post(queue, self.parties[message.receiver].receive(message))
            for party in self.parties:
                self._post(queue, party.expire())
        return self

    def _post(self, queue: deque[Message], messages: Sequence[Message]) -> None:
        for message in messages:
            queue.extend(self.lie(message) if message.sender in self.liars else [message])

    def again(self, **changes: object) -> Play:
        """Another attempt with the same inputs."""
        return Play(replace(self.context, attempt=self.context.attempt + 1), self.liars, self.lie, self.saved).changed(
            **changes
        )

    def changed(self, **changes: object) -> Play:
        return replace(self, **changes) if changes else self

    def transcript(self, position: int) -> Transcript:
        return Transcript(self.context, self.parties[position].statements)

    @property
    def honest(self) -> list[Transcript]:
        """What the honest members hold."""
        return [self.transcript(position) for position in range(len(self.parties)) if position not in self.liars]

"""One member of a masked sum at the edge: the pure steps of the protocol, with the state saved before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sudare.consensus import protocol
from sudare.consensus.messages import Event, Members, Message, SumState
from sudare.consensus.sharing.masks import Seat
from sudare.errors import SumError

Words = NDArray[np.uint64]
Persist = Callable[[bytes], None]


class Participant:
    """A member in a sum. `persist` gets the whole state before messages are handed out; `saved` is what it got last.

    Saved state of the same sum is taken up again: `begin` then returns every message sent before, byte for byte. Saved state
    of another attempt at the same input still binds: the data must be the same, and the members those it was promised to.
    """

    def __init__(self, seat: Seat, words: Words, persist: Persist | None = None, saved: bytes | None = None) -> None:
        self._seat, self._persist = seat, persist
        before = None if saved is None else SumState.from_bytes(saved)
        if before is not None and before.context_digest == seat.context.digest:
            protocol.admitted(seat, words, before.record)
            self._state = before
        else:
            self._state, _ = protocol.begun(seat, words, None if before is None else before.record)

    def begin(self) -> tuple[Message, ...]:
        """Everything sent so far: the first messages, or after a restart all of them again."""
        self._save()
        return self._handed_out(self._state.sent)

    def receive(self, event: Event) -> tuple[Message, ...]:
        """What to send after a message came or a member left."""
        self._state, outgoing = protocol.step(self._seat, self._state, event)
        self._save()
        return self._handed_out(outgoing)

    @property
    def state(self) -> SumState:
        """What this member remembers."""
        return self._state

    @property
    def total(self) -> Words | None:
        """The sum, once it is known."""
        return self._state.total

    @property
    def included(self) -> Members | None:
        """Whose addends are in the sum, once it is known."""
        return self._state.included if self._state.total is not None else None

    @property
    def failure(self) -> SumError | None:
        """Why the sum was stopped, if it was."""
        return protocol.failure(self._seat, self._state)

    def _handed_out(self, outgoing: tuple[Message, ...]) -> tuple[Message, ...]:
        """What is sent is remembered to be sent again after a restart; where nothing is saved there is none."""
        if outgoing and self._persist is None:
            self._state = self._state.changed(sent=())
        return outgoing

    def _save(self) -> None:
        if self._persist is not None:
            self._persist(self._state.to_bytes())

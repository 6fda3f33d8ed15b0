"""Turns at slow work, such as comparing passwords: a few at once, and of each address or user (`place`) one at a time, so that nobody waits for all that came from one address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class FairTurns:
    """Runs functions in threads, or tells when to go on: so many at once, and of each place one at a time."""

    def __init__(self, at_once: int) -> None:
        self._limiter = anyio.CapacityLimiter(at_once)
        self._places: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def turn(self, place: str) -> AsyncIterator[None]:
        """While it is this place's turn."""
        alone = self._places.setdefault(place, anyio.Lock())
        async with alone, self._limiter:
            yield

    async def run(self, place: str, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """What the function returns, when it is this place's turn."""
        alone = self._places.setdefault(place, anyio.Lock())
        async with alone:
            return await anyio.to_thread.run_sync(function, *arguments, limiter=self._limiter)

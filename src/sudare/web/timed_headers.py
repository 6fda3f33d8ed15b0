"""Connections that do not say what they want in time, or that one address holds too many of, are closed; where there are too many in all, those that have been silent longest."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sudare.web.sessions import address_block
from sudare.web.settings import is_loopback

HEADER_SECONDS: Final = 10.0
# Of other computers. On this one there may be a proxy, which has the connections of all.
MOST_OF_AN_ADDRESS: Final = 50
# With so many open ones a new one takes the place of the one that owes the rest of a request, or does not take its answer, longest: whoever holds many open keeps nobody out.
MOST_OPEN: Final = 400


class TimedHeaders(H11Protocol):
    """HTTP/1.1 where the header of a request is there within ten seconds of its first byte, or of the connection's beginning."""

    _header_timer: asyncio.TimerHandle | None = None
    _heard_at: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a header; close the connection where its address has too many."""
        super().connection_made(transport)
        self._heard_at = self.loop.time()
        self._watch_header()
        self._make_room()
        if self.client is not None and not is_loopback(self.client[0]) and self._of_this_address() > MOST_OF_AN_ADDRESS:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Go on with a header, or with what follows it."""
        super().data_received(data)
        self._heard_at = self.loop.time()
        self._watch_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _watch_header(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self._close_without_header)

    def _close_without_header(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _make_room(self) -> None:
        """Close the connection that was silent longest of those that owe the rest of a request, or do not take the rest of an answer, where there are too many."""
        others = [each for each in self.connections if isinstance(each, TimedHeaders) and each is not self]
        if len(others) >= MOST_OPEN:
            owing = [
                each
                for each in others
                if each.conn.their_state in (h11.IDLE, h11.SEND_BODY)
                or each.flow.write_paused
                # It ends when its peer has taken all, which may be never.
                or each.transport.is_closing()
            ]
            if owing:
                longest = min(owing, key=lambda each: each._heard_at)
                longest.transport.abort()
                # The loop tells of the end later: until then it must not be chosen again.
                self.connections.discard(longest)

    def _of_this_address(self) -> int:
        own = address_block(self.client[0]) if self.client else ""
        clients = (getattr(each, "client", None) for each in self.connections)
        return sum(client is not None and address_block(client[0]) == own for client in clients)

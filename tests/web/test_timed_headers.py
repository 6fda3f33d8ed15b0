"""Connections with half a header end; those with a whole one are answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from sudare.web import timed_headers
from sudare.web.timed_headers import TimedHeaders


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def answer(*pieces: bytes, when_answered: Callable[[], None] = lambda: None) -> bytes:
    """All that comes back until the connection ends."""
    config = uvicorn.Config(app, http=TimedHeaders, log_config=None, timeout_keep_alive=1000)  # type: ignore[arg-type]
    config.load()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop, state = asyncio.get_running_loop(), ServerState()
    await loop.connect_accepted_socket(lambda: TimedHeaders(config, state, {}), theirs)
    received = b""
    for piece in (*pieces, b""):
        await loop.sock_sendall(ours, piece)
        if piece.endswith(b"\r\n\r\n"):
            received += await asyncio.wait_for(loop.sock_recv(ours, 4096), 60)
            when_answered()
    while more := await asyncio.wait_for(loop.sock_recv(ours, 4096), 60):
        received += more
    ours.close()
    return received


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "


@pytest.mark.parametrize("pieces", [(), (HALF,), (HALF, b"a", b"b")])
def test_a_header_that_does_not_end_ends_the_connection(
    pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_headers, "HEADER_SECONDS", 0.05)
    # What is still unread when the connection is aborted makes it end with a reset.
    with contextlib.suppress(ConnectionError):
        assert asyncio.run(answer(*pieces)) == b""


def test_so_it_does_after_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    received = asyncio.run(
        answer(WHOLE, HALF, when_answered=lambda: monkeypatch.setattr(timed_headers, "HEADER_SECONDS", 0.05))
    )
    assert received.startswith(b"HTTP/1.1 204")


async def held_open(count: int) -> tuple[int, bytes]:
    """How many of so many silent connections are still open after one more came, and what that one was answered."""
    config = uvicorn.Config(app, http=TimedHeaders, log_config=None, limit_concurrency=8)  # type: ignore[arg-type]
    config.load()
    loop, state, ours = asyncio.get_running_loop(), ServerState(), []
    for _ in range(count + 1):
        own, theirs = socket.socketpair()
        own.setblocking(False)
        ours.append(own)
        await loop.connect_accepted_socket(lambda: TimedHeaders(config, state, {}), theirs)
    await loop.sock_sendall(ours[-1], WHOLE)
    answered = await asyncio.wait_for(loop.sock_recv(ours[-1], 4096), 60)
    still = len(state.connections)
    for own in ours:
        own.close()
    return still, answered


@pytest.mark.parametrize("count", [3, 40])
def test_whoever_holds_many_connections_open_keeps_nobody_out(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_headers, "MOST_OPEN", 5)
    still, answered = asyncio.run(held_open(count))
    assert answered.startswith(b"HTTP/1.1 204")
    assert still == min(count + 1, 5)


async def unread(rounds: int) -> list[bytes]:
    """How one more connection begins to be answered, after each of some rounds of connections whose answers nobody takes."""

    async def large(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(1 << 23)})

    config = uvicorn.Config(large, http=TimedHeaders, log_config=None, limit_concurrency=8, timeout_keep_alive=0)  # type: ignore[arg-type]
    config.load()
    loop, state, ours, begun = asyncio.get_running_loop(), ServerState(), [], []
    for _ in range(rounds):
        for _ in range(7):
            own, theirs = socket.socketpair()
            own.setblocking(False)
            ours.append(own)
            await loop.connect_accepted_socket(lambda: TimedHeaders(config, state, {}), theirs)
            await loop.sock_sendall(own, WHOLE)
            answered = await asyncio.wait_for(loop.sock_recv(own, 12), 60)
        begun.append(answered)
    for own in ours:
        own.close()
    return begun


def test_so_is_nobody_by_answers_that_are_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_headers, "MOST_OPEN", 5)
    assert asyncio.run(unread(4)) == [b"HTTP/1.1 200"] * 4

"""The running server: one process, one port, until it is told to stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

import uvicorn

from sudare.errors import InvalidParameter
from sudare.web.application import application
from sudare.web.page_log import PageLog
from sudare.web.sessions import Sessions
from sudare.web.settings import PageSettings
from sudare.web.timed_headers import TimedHeaders

MOST_CONNECTIONS = 500
KEEP_ALIVE_SECONDS = 20
STOPPING_SECONDS = 10


def listening(settings: PageSettings) -> tuple[PageSettings, socket.socket]:
    """A socket that listens where the settings say, and the settings with its port. Raise InvalidParameter where that cannot be."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((settings.host, settings.port))
    except OSError as error:
        found.close()
        raise InvalidParameter(
            f"The page cannot listen on port {settings.port} ({error.strerror}).", "Choose another one with --port."
        ) from None
    return replace(settings, port=found.getsockname()[1]), found


def printed_address(settings: PageSettings, sessions: Sessions) -> str:
    """The address to open; with a token that signs in once, where there are no users."""
    if settings.users:
        return f"{settings.address()}/"
    return f"{settings.address()}/sign-in?token={sessions.new_token(settings.owner, 'steward')}"


def serve(
    settings: PageSettings, listener: socket.socket, sessions: Sessions, log: PageLog, started: Callable[[], None]
) -> None:
    """Answer requests until the process is told to stop; `started` is called when it answers."""
    app = application(settings, sessions, log)
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            http=TimedHeaders,
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOPPING_SECONDS,
            limit_concurrency=MOST_CONNECTIONS,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        ),
        started,
    )
    log.write("started", process=os.getpid(), version=version("sudare"))
    # The server sends itself again, when all is answered, what told it to stop: that must not end the process before it has said so.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    server.run([listener])
    log.write("stopped", process=os.getpid())


class _Server(uvicorn.Server):
    """Tells when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._tell_started()

"""Whether the node is well, for the IT department's own tools: one address on this machine, and no data behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from sudare.errors import NotConnected

LOOPBACK: Final = "127.0.0.1"
Facts = Callable[[], Mapping[str, Any]]


class HealthEndpoint:
    """GET /health on the loopback address: names, counts and states. Anything else is answered with 404."""

    def __init__(self, port: int, facts: Facts) -> None:
        """Port 0 takes a free one."""
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _handler(facts))
        except OSError as error:
            raise NotConnected(
                f"The health endpoint cannot listen on port {port} ({error.strerror}).", "Choose another port."
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def _handler(facts: Facts) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "sudare", ""
        timeout = 10

        def do_GET(self) -> None:
            found = self.path == "/health"
            content = json.dumps(dict(facts()) if found else {"error": "not here"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Requests are not logged."""

    return Handler

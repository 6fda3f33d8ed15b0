"""Whether the node is well, and what it counts, for the IT department's own tools: on this machine only, and no data behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from sudare.errors import NotConnected
from sudare.report.prometheus import PROMETHEUS, Metric, prometheus_text

LOOPBACK: Final = "127.0.0.1"
# A foreign site can make a browser ask this machine under a name of its own: its Host header then tells.
_OWN_NAMES: Final = (LOOPBACK, "localhost")
Facts = Callable[[], Mapping[str, Any]]
Metrics = Callable[[], Sequence[Metric]]


class HealthEndpoint:
    """GET /health on the loopback address: names, counts and states, with 503 where they have a `problem`; and GET /metrics for Prometheus, where there are some. Anything else is answered with 404, and who asks under another name than this machine's own with 421."""

    def __init__(self, port: int, facts: Facts, metrics: Metrics | None = None) -> None:
        """Port 0 takes a free one."""
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _handler(facts, metrics))
        except OSError as error:
            raise NotConnected(
                f"The health endpoint cannot listen on port {port} ({error.strerror}).", "Choose another port."
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def _handler(facts: Facts, metrics: Metrics | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "sudare", ""
        timeout = 10

        def do_GET(self) -> None:
            host = self.headers.get("Host")
            is_ours = host is None or host.lower().rsplit(":", 1)[0] in _OWN_NAMES
            is_counted = is_ours and self.path == "/metrics" and metrics is not None
            is_found = is_ours and (self.path == "/health" or is_counted)
            status = 200 if is_found else 404 if is_ours else 421
            if is_counted and metrics is not None:
                content = prometheus_text(metrics()).encode()
            else:
                told = dict(facts()) if is_found else {"error": "not here"}
                status = 503 if told.get("problem") else status
                content = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", PROMETHEUS if is_counted else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Requests are not logged."""

    return Handler

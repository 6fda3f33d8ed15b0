"""What every answer carries and every request must have: headers, and a Host that is this page's own.

A foreign site can make a browser ask 127.0.0.1 under a name of its own (DNS rebinding): the Host header then tells.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sudare.web.settings import PageSettings, is_everywhere, is_loopback
from sudare.web.signed_in_request import refusal

CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[dict[str, str]] = {
    "content-security-policy": CONTENT_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
STRICT_TRANSPORT: Final = "max-age=31536000"
LONGEST_ADDRESS: Final = 4096


def allowed_hosts(settings: PageSettings) -> frozenset[str]:
    """The Host headers that a request for this page can have."""
    names = {settings.host if ":" not in settings.host else f"[{settings.host}]"}
    if is_everywhere(settings.host):
        names = {"127.0.0.1", "localhost", "[::1]"}
    elif is_loopback(settings.host):
        names |= {"127.0.0.1", "localhost", "[::1]"}
    hosts = {f"{name}:{settings.port}" for name in names}
    if settings.port == (443 if settings.certificate else 80):
        hosts |= names
    if settings.public_address is not None:
        hosts.add(urlsplit(settings.public_address).netloc)
    return frozenset(hosts)


class Protection:
    """Refuses requests under a foreign name, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, settings: PageSettings) -> None:
        self._app = app
        self._hosts = allowed_hosts(settings)
        headers = {**HEADERS, **({"strict-transport-security": STRICT_TRANSPORT} if settings.is_https else {})}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(header for header in self._headers if header[0] not in given),
                ]
            await send(message)

        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            await refusal(Request(scope), 421)(scope, receive, send_protected)
        elif {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # A proxy may take the other one for the length of the body: what follows would be somebody else's request to it.
            await _closing(refusal(Request(scope), 400))(scope, receive, send_protected)
        elif len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            await refusal(Request(scope), 400)(scope, receive, send_protected)
        else:
            await self._app(scope, receive, send_protected)


def _closing(response: Response) -> Response:
    """The answer, after which the connection ends."""
    response.headers["connection"] = "close"
    return response

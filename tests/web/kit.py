"""A page for tests: an application over a folder of its own, and clients that are signed in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from sudare import Ledger
from sudare.requests.users import Role
from sudare.web.application import application
from sudare.web.sessions import Sessions
from sudare.web.settings import PageSettings
from sudare.web.shared_server_state import Services

ADDRESS = "http://127.0.0.1:8177"


@dataclass
class Clock:
    """A clock that tests set."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Client(TestClient):
    """A browser that is signed in, or not yet; forms that it sends carry the token of the page they are on."""

    def __init__(self, app: Starlette, address: str = ADDRESS) -> None:
        super().__init__(app, base_url=address, follow_redirects=False, raise_server_exceptions=False)

    def form_token(self, path: str = "/") -> str:
        """The token in the forms of a page."""
        found = re.search(r'name="form_token" value="([^"]+)"', self.get(path).text)
        assert found is not None
        return found[1]

    def submit(self, path: str, values: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        """Send a form as the page's own."""
        return self.post(path, data={"form_token": self.form_token(), **(values or {})}, **options)


class TestPage:
    """One application over a folder."""

    __test__ = False

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        self.clock = Clock()
        self.sessions = Sessions(self.clock)
        for name in ("releases", "schemas", "requests"):
            (folder / name).mkdir(exist_ok=True)
        settings = PageSettings(
            ledger=str(folder / "ledger.db"),
            releases=folder / "releases",
            schemas=folder / "schemas",
            requests=folder / "requests",
        )
        self.app = application(replace(settings, **changes), self.sessions)

    @property
    def services(self) -> Services:
        """What the application's parts share."""
        services: Services = self.app.state.services
        return services

    def ledger(self) -> Ledger:
        """The ledger that the page shows."""
        return Ledger(self.folder / "ledger.db")

    def client(self, role: Role | None = "steward", user: str = "aiko") -> Client:
        """A browser, signed in with a role unless that is None."""
        client = Client(self.app)
        if role is not None:
            client.cookies.set(self.services.cookie, self.sessions.sign_in(user, role))
        return client

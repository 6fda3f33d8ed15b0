"""The application: which parts the page has, and what all requests pass."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from sudare.web import (
    budget_pages,
    consortium_pages,
    home_page,
    monitoring,
    release_pages,
    request_pages,
    schema_pages,
    sign_in_pages,
)
from sudare.web.headers_and_hosts import Protection
from sudare.web.page_log import PageLog
from sudare.web.page_part import PagePart
from sudare.web.sessions import Sessions
from sudare.web.settings import PageSettings
from sudare.web.shared_server_state import Services
from sudare.web.signed_in_request import refusal

# In the order of the navigation.
PARTS: Final[Sequence[PagePart]] = (
    sign_in_pages.PART,
    home_page.PART,
    budget_pages.PART,
    request_pages.PART,
    release_pages.PART,
    schema_pages.PART,
    consortium_pages.PART,
    monitoring.PART,
)


def application(settings: PageSettings, sessions: Sessions | None = None, log: PageLog | None = None) -> Starlette:
    """The page as an ASGI application; `app.state.services` is what its parts share."""
    services = Services(settings, sessions or Sessions(), log or PageLog(None))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for part in PARTS:
            await run_in_threadpool(part.start, services)
        try:
            yield
        finally:
            for part in reversed(PARTS):
                await run_in_threadpool(part.stop, services)

    app = Starlette(
        routes=[
            *(route for part in PARTS for route in part.routes),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        middleware=[Middleware(Protection, settings=settings)],
        exception_handlers={HTTPException: _refused, 500: _failed},
        lifespan=lifespan,
    )
    app.state.services = services
    app.state.parts = PARTS
    app.state.navigation = [item for part in PARTS for item in part.navigation]
    return app


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refusal(request, status, request.app.state.services.session(request))


async def _failed(request: Request, error: Exception) -> Response:
    return refusal(request, 500)

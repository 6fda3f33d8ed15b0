"""Releases: what left, with its card, numbers and picture; and whether a file that somebody sent is what it says."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from sudare.errors import InvalidParameter, NotCharged, SudareError
from sudare.privacy import Release
from sudare.privacy.release_file import LARGEST_FILE_BYTES
from sudare.privacy.source_identity import looked_at, overlap
from sudare.safe_text import escaped_for_terminal
from sudare.web.download_responses import disposition
from sudare.web.page_part import PagePart
from sudare.web.release_display import (
    ListedFile,
    TrustedKeys,
    file_named,
    listed_files,
    received_view,
    rows_beside,
    trusted_keys,
)
from sudare.web.rendering import NavigationItem
from sudare.web.request_settings_of_page import request_settings
from sudare.web.shared_server_state import Services
from sudare.web.signed_in_request import LARGEST_FORM_BYTES, Visit, page


@page("viewer")
def releases(visit: Visit) -> Response:
    """All releases of the folder."""
    return visit.render("releases.html", files=listed_files(visit.services.settings.releases, _trusted(visit)))


@page("viewer")
def release(visit: Visit) -> Response:
    """One release: numbers, picture, card."""
    found = _found(visit)
    return visit.render("release.html", file=found, view=found.view, has_rows=_rows(visit, found) is not None)


@page("viewer")
def release_file(visit: Visit) -> Response:
    """The signed file itself, or the rows that left beside it. No file that is neither."""
    found = _found(visit)
    path = _rows(visit, found) if visit.query("beside") else found.path
    if found.view is None or path is None:
        raise HTTPException(404)
    return FileResponse(path, media_type="application/octet-stream", headers=disposition(path.name))


@page("viewer")
def verify_form(visit: Visit) -> Response:
    """The page on which a received file is dropped."""
    return visit.render("verify.html", view=None, name="", origin="", trusts=len(_trusted(visit).senders))


@page("viewer", largest_bytes=LARGEST_FILE_BYTES + LARGEST_FORM_BYTES)
def verify(visit: Visit) -> Response:
    """Whether a received file is whole, signed, by a trusted key, and what it promises. Nothing of it is kept."""
    upload = visit.form.files.get("file")
    if upload is None or not upload.content:
        raise InvalidParameter("No file came with the form.", "Choose a release, usually NAME.sudare.")
    trusted = _trusted(visit)
    try:
        view, received = received_view(upload.content, trusted)
    except SudareError as error:
        visit.services.log.write("file-verified", user=visit.user, error=type(error).__name__)
        return visit.problem(error, back="/verify")
    visit.services.log.write("file-verified", user=visit.user)
    name = escaped_for_terminal(upload.name)[:120]
    return visit.render(
        "verify.html", view=view, name=name, origin=_origin(visit, received), trusts=len(trusted.senders)
    )


def _origin(visit: Visit, received: Release) -> str:
    """Whether this page's own ledger let the file out: "own", "foreign", "forged" where it only says so, or "unknown" where the ledger cannot be read."""
    if visit.services.ledger_problem():
        return "unknown"
    if visit.services.ledger().identity != received.receipt.ledger:
        return "foreign"
    try:
        received.check_entered(visit.services.ledger())
    except NotCharged:
        return "forged"
    return "own"


def _found(visit: Visit) -> ListedFile:
    found = file_named(visit.services.settings.releases, visit.path("name"), _trusted(visit))
    if found is None:
        raise HTTPException(404)
    return found


def _rows(visit: Visit, found: ListedFile) -> Path | None:
    """The rows that left beside a release, which a receiver reconstructs from. Never a file of a table that can be asked about."""
    path, tables = rows_beside(found), request_settings(visit.services.settings).tables.values()
    if path is None:
        return None
    own, sources = looked_at(path), [looked_at(table.place) for table in tables]
    return None if any(overlap(own, source) for source in sources) else path


def _trusted(visit: Visit) -> TrustedKeys:
    return trusted_keys(visit.services.settings)


def read_ahead(services: Services) -> None:
    """Read the folder before anybody asks for it: the first release that is read takes a second, for what it needs is loaded then."""

    def read() -> None:
        with contextlib.suppress(SudareError):
            listed_files(services.settings.releases, trusted_keys(services.settings))

    threading.Thread(target=read, name="releases", daemon=True).start()


PART = PagePart(
    routes=[
        Route("/releases", releases),
        Route("/releases/{name}", release),
        Route("/releases/{name}/file", release_file),
        Route("/verify", verify_form),
        Route("/verify", verify, methods=["POST"]),
    ],
    navigation=[NavigationItem("/releases", "Releases"), NavigationItem("/verify", "Verify a file")],
    start=read_ahead,
)

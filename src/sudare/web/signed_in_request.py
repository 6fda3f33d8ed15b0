"""One request of somebody who is signed in, and the decorator that makes a page of a function.

`@page("steward")` lets only stewards in, reads the form within its limits, refuses forms that this page did not make for
this session, runs the function in a thread, and tells errors in words. A function takes a `Visit` and returns a response.
"""

from __future__ import annotations

import contextlib
import functools
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from sudare.errors import LedgerBusy, SudareError, UnknownAccount, UnknownName
from sudare.languages import Language
from sudare.requests.users import Role, may
from sudare.web.language import language_of
from sudare.web.rendering import rendered
from sudare.web.sessions import Session
from sudare.web.shared_server_state import Services, services_of

FORM_TOKEN: Final = "form_token"  # noqa: S105 (the name of a field)
LARGEST_FORM_BYTES: Final = 1 << 16
# Larger ones hold files: they wait for their turn.
LARGEST_TEXT_BYTES: Final = 1 << 20
MOST_FIELDS: Final = 2000
READING_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Upload:
    """A file that came with a form: in memory only, and gone with the request."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Form:
    """What a form held."""

    fields: Mapping[str, list[str]] = field(default_factory=dict)
    files: Mapping[str, Upload] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The value of a field, without blanks around it."""
        return self.fields.get(name, [default])[0].strip()

    @property
    def verdict(self) -> Literal["approved", "denied"]:
        """What somebody decided, by the button that was pressed. Raise HTTPException (400) where it was none of both."""
        match self.text("verdict"):
            case "approved":
                return "approved"
            case "denied":
                return "denied"
            case _:
                raise HTTPException(400)


@dataclass(frozen=True)
class Visit:
    """A request of somebody who is signed in, and everything that a page needs to answer it."""

    request: Request
    services: Services
    session: Session
    form: Form
    language: Language

    @property
    def user(self) -> str:
        """Who asks."""
        return self.session.user

    @property
    def is_steward(self) -> bool:
        """Whether somebody asks who may decide."""
        return self.session.role == "steward"

    def path(self, name: str) -> str:
        """A part of the address, as a route names it: /budget/{account}."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """A value after the question mark of the address."""
        return self.request.query_params.get(name, default)

    def may(self, least: Role) -> bool:
        """Whether whoever asks has this role, or one that may do more."""
        return may(self.session.role, least)

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page from a template; `base.html` shows navigation and notices around it."""
        return rendered(self.request, template, self.session, status, **values)

    def redirect(self, path: str, notice: str = "") -> Response:
        """To another page after a form was accepted, where the notice is told once."""
        if notice:
            self.session.notices.append(notice)
        return RedirectResponse(path, status_code=303)

    def problem(self, error: SudareError, status: int = 400, back: str = "/") -> Response:
        """What was wrong with what somebody asked for, in words."""
        return self.render("problem.html", status, problem=error.problem, remedy=error.remedy, back=back)


Handler = Callable[[Visit], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def page(least: Role, *, largest_bytes: int = LARGEST_FORM_BYTES) -> Callable[[Handler], Endpoint]:
    """A function of a visit as an endpoint for whoever has this role, or one that may do more."""
    takes_files = largest_bytes > LARGEST_TEXT_BYTES

    def decorated(handler: Handler) -> Endpoint:
        @functools.wraps(handler)
        async def endpoint(request: Request) -> Response:
            services, began = services_of(request), time.monotonic()
            session = services.session(request)
            if session is None:
                return signed_out(request)
            visit = Visit(request, services, session, Form(), language_of(request))
            try:
                if not visit.may(least):
                    raise HTTPException(403)
                async with services.receiving.turn(visit.user) if takes_files else contextlib.nullcontext():
                    if request.method not in ("GET", "HEAD"):
                        form = await read_form(request, largest_bytes)
                        visit = Visit(request, services, session, form, visit.language)
                        check_form(request, session.is_form_token(form.text(FORM_TOKEN)))
                    response = await run_in_threadpool(handler, visit)
            except SudareError as error:
                services.log.write("refused", user=session.user, error=type(error).__name__)
                response = visit.problem(error, _status_of(error))
            except HTTPException as error:
                response = refusal(request, error.status_code, session)
            except Exception as error:  # noqa: BLE001 - the text of foreign errors may hold private values
                services.log.write("failed", user=session.user, place=_place_of(error))
                response = refusal(request, 500, session)
            services.note_answer(handler.__name__, request.method, response.status_code, time.monotonic() - began)
            return response

        return endpoint

    return decorated


def signed_out(request: Request) -> Response:
    """Returns the answer to somebody who is not signed in: the form for it, and for what is no page a refusal."""
    if request.method == "GET":
        return RedirectResponse("/sign-in", status_code=303)
    return refusal(request, 401)


def refusal(request: Request, status: int, session: Session | None = None) -> Response:
    """A page that says in words why nothing was done."""
    return rendered(request, "refusal.html", session, status, code=status if status in REFUSALS else 400)


# Those that refusal.html has words for.
REFUSALS: Final = frozenset({400, 401, 403, 404, 405, 408, 413, 421, 429, 500})


def check_form(request: Request, is_own: bool) -> None:
    """Raise HTTPException 403 unless a form was made by this page for this session, and was sent from it."""
    if not is_own or not _is_from_here(request):
        raise HTTPException(403)


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that a form was sent from this page. Under our referrer policy the origin is "null", and the browser tells otherwise."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is None or (origin == "null" and site == "same-origin"):
        return True
    try:
        return urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:
        raise HTTPException(400) from None


class _InMemory(MultiPartParser):
    """Uploads stay in memory: nothing of them is ever on the disk."""

    spool_max_size = 1 << 30


async def read_form(request: Request, largest_bytes: int) -> Form:
    """The form of a request. Raise HTTPException 413 where it is too large, 408 where it takes too long, 400 where it is none."""
    if int(_whole(request.headers.get("content-length", "0"))) > largest_bytes:
        raise HTTPException(413)
    try:
        with anyio.fail_after(READING_SECONDS):
            data = await _parser(request, largest_bytes).parse()
    except TimeoutError:
        raise HTTPException(408) from None
    except (MultiPartException, ClientDisconnect, KeyError, ValueError):
        raise HTTPException(400) from None
    fields: dict[str, list[str]] = {}
    files: dict[str, Upload] = {}
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            files[name] = Upload(Path(value.filename or "").name, await value.read())
        else:
            fields.setdefault(name, []).append(value)
    await data.close()
    return Form(fields, files)


def _parser(request: Request, largest_bytes: int) -> MultiPartParser | FormParser:
    """What reads a form of this kind, within these bytes."""

    async def limited() -> AsyncGenerator[bytes, None]:
        received = 0
        async for piece in request.stream():
            received += len(piece)
            if received > largest_bytes:
                raise HTTPException(413)
            yield piece

    match request.headers.get("content-type", "").split(";")[0].strip().lower():
        case "multipart/form-data":
            return _InMemory(
                request.headers, limited(), max_files=1, max_fields=MOST_FIELDS, max_part_size=largest_bytes
            )
        case "application/x-www-form-urlencoded":
            return FormParser(request.headers, limited(), max_fields=MOST_FIELDS, max_part_size=largest_bytes)
        case _:
            raise HTTPException(400)


def _whole(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise HTTPException(400)
    return text


def _status_of(error: SudareError) -> int:
    if isinstance(error, UnknownAccount | UnknownName):
        return 404
    return 503 if isinstance(error, LedgerBusy) else 400


def _place_of(error: BaseException) -> str:
    """Module and line of a foreign error; its text may hold what must not be logged."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"

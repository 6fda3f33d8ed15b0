"""Signing in and out: by the one-time address that was printed, or with a name and a password."""

from __future__ import annotations

import hmac

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sudare.web.language import COOKIE as LANGUAGE_COOKIE
from sudare.web.language import LANGUAGES
from sudare.web.page_part import PagePart
from sudare.web.passwords import is_password
from sudare.web.rendering import rendered
from sudare.web.secret_tokens import new_token
from sudare.web.shared_server_state import Services, services_of
from sudare.web.signed_in_request import FORM_TOKEN, Visit, check_form, page, read_form, refusal

FORM_COOKIE = "sudare_form"
# Of a browser from which somebody has signed in: guesses of others at its address do not keep it out.
BROWSER_COOKIE = "sudare_browser"
YEAR_SECONDS = 31_536_000


async def sign_in(request: Request) -> Response:
    """The form for name and password; with ?token=… in the address, or after a right password, a new session."""
    services = services_of(request)
    if request.method == "POST":
        try:
            return await _sign_in_by_password(request, services)
        except HTTPException as error:
            return refusal(request, error.status_code)
    token = request.query_params.get("token", "")
    if token and request.method == "GET":
        return _sign_in_by_token(services, request, token)
    if services.session(request) is not None:
        return RedirectResponse("/", status_code=303)
    return _form(request, services)


def _sign_in_by_token(services: Services, request: Request, token: str) -> Response:
    secret = services.sessions.signed_in_by_token(token)
    if secret is None:
        services.log.write("sign-in-refused", kind="token")
        return _form(request, services, 403, "token")
    services.log.write("signed-in", user=services.settings.owner)
    return _with_session(services, secret)


async def _sign_in_by_password(request: Request, services: Services) -> Response:
    form = await read_form(request, 4096)
    cookie = request.cookies.get(FORM_COOKIE, "")
    is_own = bool(cookie) and hmac.compare_digest(
        form.text(FORM_TOKEN).encode("utf-8", "replace"), services.sessions.form_mark(cookie).encode()
    )
    check_form(request, is_own)
    name, address = form.text("user"), "" if request.client is None else request.client.host
    browser = request.cookies.get(BROWSER_COOKIE, "")
    user = services.settings.users.get(name)
    password = form.fields.get("password", [""])[0]
    with services.sessions.place_to_wait(address, name, browser) as is_free:
        if not is_free:
            services.log.write("sign-in-refused", kind="busy")
            return refusal(request, 429)
        if not services.sessions.count_guess(address, name, browser):
            services.log.write("sign-in-refused", kind="guesses")
            return _form(request, services, 429, "guesses")
        place = services.sessions.place(address, name, browser)
        is_right = await services.comparing.run(
            place, is_password, password, None if user is None else user.password
        )  # fmt: skip
    if not is_right or user is None:
        services.log.write("sign-in-refused", kind="password")
        return _form(request, services, 403, "password")
    services.sessions.forget_guesses(address, name, browser)
    services.log.write("signed-in", user=user.name)
    response = _with_session(services, services.sessions.sign_in(user.name, user.role))
    response.set_cookie(
        BROWSER_COOKIE,
        services.sessions.new_browser_token(user.name),
        max_age=YEAR_SECONDS,
        path="/sign-in",
        secure=services.settings.is_https,
        httponly=True,
        samesite="strict",
    )
    return response


def _form(request: Request, services: Services, status: int = 200, refused: str = "") -> Response:
    cookie = request.cookies.get(FORM_COOKIE) or new_token()
    response = rendered(
        request,
        "sign_in.html",
        None,
        status,
        refused=refused,
        with_password=bool(services.settings.users),
        form_mark=services.sessions.form_mark(cookie),
    )
    if services.settings.users:
        response.set_cookie(
            FORM_COOKIE, cookie, path="/sign-in", secure=services.settings.is_https, httponly=True, samesite="strict"
        )
    return response


def _with_session(services: Services, secret: str) -> Response:
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        services.cookie, secret, path="/", secure=services.settings.is_https, httponly=True, samesite="strict"
    )
    return response


@page("viewer")
def sign_out(visit: Visit) -> Response:
    """End the session, and forget the cookie."""
    services = visit.services
    services.sessions.sign_out(visit.request.cookies.get(services.cookie, ""))
    services.log.write("signed-out", user=visit.user)
    response = RedirectResponse("/sign-in", status_code=303)
    response.delete_cookie(
        services.cookie, path="/", secure=services.settings.is_https, httponly=True, samesite="strict"
    )
    return response


async def choose_language(request: Request) -> Response:
    """Keep the language in a cookie, and go back to the page where it was chosen."""
    language, back = request.path_params["language"], request.query_params.get("back", "/")
    if language not in LANGUAGES:
        return refusal(request, 404)
    is_local = back.startswith("/") and not back.startswith("//") and "\\" not in back and back.isprintable()
    response = RedirectResponse(back if is_local else "/", status_code=303)
    response.set_cookie(
        LANGUAGE_COOKIE,
        language,
        max_age=YEAR_SECONDS,
        path="/",
        secure=services_of(request).settings.is_https,
        httponly=True,
        samesite="strict",
    )
    return response


PART = PagePart(
    routes=[
        Route("/sign-in", sign_in, methods=["GET", "POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route("/language/{language}", choose_language),
    ]
)

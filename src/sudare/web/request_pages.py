"""Ask, price, approve, run: the pages of requests for a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from sudare.errors import SudareError
from sudare.languages import Language
from sudare.parsing import bounded_bytes
from sudare.privacy.account_balance import Amount
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.release import Release
from sudare.privacy.release_file import LARGEST_FILE_BYTES, parsed, verify_signature
from sudare.report.privacy_card import Strength, card_rows, card_strength
from sudare.report.prometheus import Metric
from sudare.requests import approved_request_job as job
from sudare.requests.expected_error import ExpectedError, two_digits
from sudare.requests.one_click_changes import suggested_changes
from sudare.requests.price import Price, price_now
from sudare.requests.request import Request, Values, approval_fault
from sudare.requests.request_account import as_entered, check_newest
from sudare.requests.request_actions import ask, change, decide, keep_entered_decisions
from sudare.requests.request_kinds import KINDS, Kind, kind_in_a_sentence, kind_named, kinds_for
from sudare.requests.steward_settings import RequestSettings
from sudare.web.download_responses import download as saved_as
from sudare.web.page_part import PagePart, Waiting
from sudare.web.rendering import NavigationItem
from sudare.web.request_forms import form_fields, values_in
from sudare.web.request_settings_of_page import request_settings
from sudare.web.shared_server_state import Services
from sudare.web.signed_in_request import Visit, page

_REFRESH_SECONDS = 2
_JOBS = "requests"


@dataclass(frozen=True)
class ExpectedErrorBar:
    """An expected error as a bar: `share` is its length in per cent of what the whole bar stands for; None where there is nothing to compare with."""

    error: ExpectedError

    @property
    def share(self) -> float | None:
        """How much of the bar is filled, in per cent."""
        size, whole = self.error.size, self.error.whole
        return None if not whole or size is None else min(100 * size / whole, 100.0)

    @property
    def whole_text(self) -> str:
        """What the whole bar stands for."""
        whole = self.error.whole
        return "" if whole is None else f"{whole:,.6g}" if whole < 100 else f"{whole:,.0f}"

    @property
    def size_text(self) -> str:
        """Its size in two digits."""
        return "" if self.error.size is None else two_digits(self.error.size)


@dataclass(frozen=True)
class BudgetShares:
    """What a request would take of its account, in per cent of the budget: spent before, and by this."""

    budget: Amount
    before: float
    more: float


@page("viewer")
def requests(visit: Visit) -> Response:
    """All requests."""
    settings = request_settings(visit.services.settings)
    found, unreadable = settings.store.readable_and_damaged()
    shown = [(each, Guarantee.from_dict(each.newest.guarantee), _is_abandoned(visit, settings, each)) for each in found]
    return visit.render("requests.html", requests=shown, unreadable=unreadable, kinds=KINDS)


@page("analyst")
def new_request(visit: Visit) -> Response:
    """The form of a new request: first table and kind, then its values."""
    settings = request_settings(visit.services.settings)
    table, kind = visit.query("table"), visit.query("kind")
    if not table or not kind:
        return visit.render("request_kinds.html", tables=_kinds_by_table(settings), table=table)
    return _form(visit, settings, table, kind, {}, "")


def _kinds_by_table(settings: RequestSettings) -> dict[str, Mapping[str, Kind]]:
    """What can be asked for of each table; everything where its schema cannot be read, which the form then says."""
    found: dict[str, Mapping[str, Kind]] = {}
    for name in settings.tables:
        try:
            found[name] = kinds_for(settings.table(name).schema())
        except SudareError:
            found[name] = KINDS
    return found


@page("analyst")
def ask_for(visit: Visit) -> Response:
    """Show the price of what was filled in, or ask for it."""
    settings, form = request_settings(visit.services.settings), visit.form
    table, kind, purpose = form.text("table"), form.text("kind"), form.text("purpose")
    values = values_in(form, kind_named(kind))
    is_asked = form.text("act") == "ask"
    try:
        # A price is told before a purpose is.
        said = purpose if is_asked or purpose else "…"
        with visit.services.pricing(visit.user):
            request = ask(
                settings,
                table,
                kind,
                values,
                who=visit.user,
                purpose=said,
                dry_run=not is_asked,
                is_owner=visit.is_steward,
            )
    except SudareError as error:
        return _form(visit, settings, table, kind, values, purpose, problem=error, status=400)
    if is_asked:
        visit.services.log.write("request-asked", user=visit.user, request=request.identity)
        return visit.redirect(f"/requests/{request.identity}")
    return _form(visit, settings, table, kind, values, purpose, request=request)


def _form(
    visit: Visit,
    settings: RequestSettings,
    table: str,
    kind: str,
    values: Values,
    purpose: str,
    *,
    request: Request | None = None,
    problem: SudareError | None = None,
    status: int = 200,
) -> Response:
    schema = settings.table(table).schema()
    price = None if request is None else price_now(settings, request)
    return visit.render(
        "request_form.html",
        status,
        table=table,
        kind=kind_named(kind),
        fields=form_fields(kind, schema, values),
        purpose=purpose,
        asked=request,
        problem=problem,
        action="/requests/new",
        **_priced(request, price),
    )


def _priced(request: Request | None, price: Price | None) -> dict[str, Any]:
    if request is None or price is None:
        return {"price": None, "bars": [], "budget_shares": None}
    return {"price": price, "bars": _bars(request), "budget_shares": _budget_shares(price)}


def _bars(request: Request) -> list[ExpectedErrorBar]:
    return [ExpectedErrorBar(each) for each in request.newest.expected]


def _budget_shares(price: Price) -> BudgetShares:
    whole = price.budget.epsilon
    before, after = price.quote.left_before.epsilon, price.quote.left_after.epsilon
    spent = 100 * (1 - before / whole)
    return BudgetShares(price.budget, spent, max(0.0, 100 * (before - after) / whole))


@page("viewer")
def show_request(visit: Visit) -> Response:
    """One request: what it asks for, what it costs and would leave, who decided, and what came of it."""
    settings = request_settings(visit.services.settings)
    request = settings.store.request(visit.path("identity"))
    price, problem, is_entered = None, None, False
    try:
        request = as_entered(settings.account(settings.table(request.table)), request)
        is_entered = True
        if request.state in ("asked", "approved"):
            check_newest(settings.account(settings.table(request.table)), request)
        price = price_now(settings, request)
    except SudareError as error:
        problem = error
    response = visit.render(
        "request.html",
        asked=request,
        version=request.newest,
        kind=kind_named(request.newest.kind),
        problem=problem,
        is_entered=is_entered,
        approvals=_approvals(visit, request) if is_entered else None,
        is_abandoned=_is_abandoned(visit, settings, request),
        step=settings.store.progress(request.identity),
        suggested=suggested_changes(request.newest),
        may_approve=_may_approve(visit, request),
        card=_card(settings, request, visit.language),
        release_name=job.release_name(request),
        **_priced(request, price),
    )
    if request.state == "running":
        # Without a script, too.
        response.headers["Refresh"] = str(_REFRESH_SECONDS)
    return response


@dataclass(frozen=True)
class ApprovalCount:
    """How many people have approved the newest version, how many still must, whether so many stewards are left who may, and whether who asks is one."""

    there: int
    needed: int
    can_be_had: bool
    asker_is_steward: bool


def _approvals(visit: Visit, request: Request) -> ApprovalCount:
    needed = max(0, request.people - len(request.approvals))
    users = visit.services.settings.users.values()
    left = [each for each in users if each.role == "steward" and approval_fault(request, each.name) is None]
    asker_is_steward = any(each.name == request.who and each.role == "steward" for each in users)
    return ApprovalCount(len(request.approvals), needed, not users or len(left) >= needed, asker_is_steward)


def _may_approve(visit: Visit, request: Request) -> bool:
    return visit.is_steward and request.state == "asked" and approval_fault(request, visit.user) is None


def _card(
    settings: RequestSettings, request: Request, language: Language
) -> tuple[Strength, list[tuple[str, str]]] | None:
    """The privacy card of the release, once there is one."""
    if request.state != "done" or request.outcome is None:
        return None
    file = _release_file(settings, request)
    if not file.is_file():
        return None
    card = Release.load(file, trusted=[settings.key().public_key()]).card()
    return card_strength(card), card_rows(card, language)


def _release_file(settings: RequestSettings, request: Request) -> Path:
    """Where the release of a request is. Its name follows from the request: one that was written into a file is never a path."""
    return settings.releases_folder / job.release_name(request)


@page("steward")
def decide_request(visit: Visit) -> Response:
    """Approve or deny the version that was looked at; what is approved runs."""
    settings, form = request_settings(visit.services.settings), visit.form
    identity = visit.path("identity")
    verdict = form.verdict
    version = form.text("version")
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 6 else 0
    try:
        request = decide(settings, identity, number, verdict, who=visit.user, reason=form.text("reason"))
    except SudareError as error:
        return visit.problem(error, back=f"/requests/{identity}")
    visit.services.log.write(f"request-{verdict}", user=visit.user, request=identity)
    if request.state == "approved":
        _start(visit.services, settings, identity)
    return visit.redirect(f"/requests/{identity}")


@page("steward")
def run_request(visit: Visit) -> Response:
    """Run an approved request that is not running, or one that failed."""
    settings = request_settings(visit.services.settings)
    identity = settings.store.request(visit.path("identity")).identity
    if not settings.store.is_running(identity):
        _start(visit.services, settings, identity)
    return visit.redirect(f"/requests/{identity}")


@page("analyst")
def change_form(visit: Visit) -> Response:
    """The form to change a request."""
    settings = request_settings(visit.services.settings)
    request = settings.store.request(visit.path("identity"))
    _check_may_change(visit, request)
    return _change_form(visit, settings, request, request.newest.values, "")


@page("analyst")
def change_request(visit: Visit) -> Response:
    """Make a new version of a request: as the form says, or as was suggested."""
    settings, form = request_settings(visit.services.settings), visit.form
    request = settings.store.request(visit.path("identity"))
    _check_may_change(visit, request)
    kind, reason = request.newest.kind, form.text("purpose")
    values: Values = values_in(form, kind_named(kind))
    name, column = form.text("suggested"), form.text("column")
    if name:
        chosen = [each for each in suggested_changes(request.newest) if (each.name, each.column) == (name, column)]
        if not chosen:
            raise HTTPException(404)
        values, reason = chosen[0].values, chosen[0].reason
    try:
        with visit.services.pricing(visit.user):
            change(settings, request.identity, kind, values, who=visit.user, reason=reason, is_owner=visit.is_steward)
    except SudareError as error:
        return _change_form(visit, settings, request, values, reason, problem=error, status=400)
    visit.services.log.write("request-changed", user=visit.user, request=request.identity)
    return visit.redirect(f"/requests/{request.identity}")


def _check_may_change(visit: Visit, request: Request) -> None:
    if not visit.is_steward and visit.user != request.who:
        raise HTTPException(403)


def _change_form(
    visit: Visit,
    settings: RequestSettings,
    request: Request,
    values: Values,
    reason: str,
    *,
    problem: SudareError | None = None,
    status: int = 200,
) -> Response:
    schema = settings.table(request.table).schema()
    return visit.render(
        "request_form.html",
        status,
        table=request.table,
        kind=kind_named(request.newest.kind),
        fields=form_fields(request.newest.kind, schema, values),
        purpose=reason,
        asked=request,
        problem=problem,
        action=f"/requests/{request.identity}/change",
        **_priced(None, None),
    )


@page("viewer")
def download(visit: Visit) -> Response:
    """The signed file of a request that is done. Raise SudareError unless this organisation's key has signed it."""
    settings = request_settings(visit.services.settings)
    request = settings.store.request(visit.path("identity"))
    file = _release_file(settings, request)
    if request.state != "done" or not file.is_file():
        raise HTTPException(404)
    content = bounded_bytes(file, LARGEST_FILE_BYTES)
    verify_signature(parsed(content), [settings.key().public_key()])
    return saved_as(content, file.name)


def _start(services: Services, settings: RequestSettings, identity: str) -> None:
    services.kept.setdefault(_JOBS, {})[identity] = job.start(settings, identity)
    services.log.write("job-started", request=identity)


def _is_abandoned(visit: Visit, settings: RequestSettings, request: Request) -> bool:
    """Whether a request was begun and no process runs it any more."""
    return not _is_started(visit.services, request) and settings.store.was_left(request)


def _is_started(services: Services, request: Request) -> bool:
    """Whether a process that was started for a request is still there."""
    started = services.kept.get(_JOBS, {}).get(request.identity)
    return started is not None and started.poll() is None


def _resume(services: Services) -> None:
    """Go on with what an earlier server left running, and keep decisions that it was killed before keeping."""
    settings = request_settings(services.settings)
    try:
        keep_entered_decisions(settings)
        started = job.resume(settings)
    except SudareError as error:
        services.log.write("job-failed", error=type(error).__name__)
        return
    services.kept.setdefault(_JOBS, {}).update(started)
    for name in started:
        services.log.write("job-started", request=name)


def _waiting(visit: Visit) -> Sequence[Waiting]:
    settings = request_settings(visit.services.settings)
    return [
        Waiting(
            f"'{each.who}' asks for a release of table '{each.table}' ({kind_in_a_sentence(each.newest.kind)})",
            f"/requests/{each.identity}",
            each.purpose,
        )
        for each in settings.store.requests()
        if _may_approve(visit, each)
    ]


def _metrics(services: Services) -> Sequence[Metric]:
    states: dict[str, int] = {}
    found, unreadable = request_settings(services.settings).store.readable_and_damaged()
    for state in (*(each.state for each in found), *("unreadable" for _ in unreadable)):
        states[state] = states.get(state, 0) + 1
    values = [({"state": state}, float(count)) for state, count in sorted(states.items())]
    return [Metric("sudare_page_requests", "Requests for releases, by state.", "gauge", values)]


PART = PagePart(
    routes=[
        Route("/requests", requests),
        Route("/requests/new", new_request),
        Route("/requests/new", ask_for, methods=["POST"]),
        Route("/requests/{identity}", show_request),
        Route("/requests/{identity}/decide", decide_request, methods=["POST"]),
        Route("/requests/{identity}/run", run_request, methods=["POST"]),
        Route("/requests/{identity}/change", change_form),
        Route("/requests/{identity}/change", change_request, methods=["POST"]),
        Route("/requests/{identity}/release", download),
    ],
    navigation=[NavigationItem("/requests", "Requests")],
    waiting=_waiting,
    metrics=_metrics,
    start=_resume,
)

"""`sudare request`: ask for a release, approve or deny it, and run it; the same requests that the page shows."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.command_output import AsJson, DryRun, answer, reported
from sudare.cli.language import Told, spoken, spoken_language
from sudare.parsing import parsed_json
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.requests.price import Price
    from sudare.requests.request import Request, Verdict
    from sudare.requests.steward_settings import RequestSettings
    from sudare.requests.users import Role

app = typer.Typer(help="Ask for releases, approve or deny them, and run them.", no_args_is_help=True)

RequestName = Annotated[str, typer.Argument(metavar="REQUEST", help="The request, by the name that `list` shows.")]
Settings = Annotated[
    Path,
    typer.Option(
        "--settings", metavar="FILE", help="Settings of the page and of requests: tables, ledger, key, users (TOML)."
    ),
]
Who = Annotated[
    str | None,
    typer.Option("--who", metavar="NAME", help="In whose name; without it that of the account on this machine."),
]
Values = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="NAME=VALUE", help="A value of this kind, such as epsilon=0.4; may be repeated."),
]
LookedAt = Annotated[
    int, typer.Option("--version", metavar="N", help="The version that you looked at, as `show` tells it.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why, in a sentence; it stays in the ledger.")]
DEFAULT_SETTINGS = Path("page.toml")
# The state of a request that was begun and that no process runs any more.
_LEFT = "interrupted, can go on"


@app.command("ask")
@reported
def ask(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table that the settings name.")],
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What is asked for, such as mean, table or logistic.")],
    purpose: Annotated[str, typer.Option("--purpose", help="What for, in a sentence; it stays in the ledger.")],
    value: Values = None,
    settings: Settings = DEFAULT_SETTINGS,
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Ask for a release of a table. The price is told, and nothing is charged."""
    from sudare.requests.request_actions import ask

    request_settings, person = _settings_and_person(settings, who, "analyst")
    request = ask(
        request_settings, table, kind, _texts(value), who=person, purpose=purpose, dry_run=dry_run, is_owner=True
    )
    _tell(request_settings, request, f"Request {request.identity} waits for the steward.", dry_run, as_json)


@app.command("change")
@reported
def change(
    name: RequestName,
    reason: Reason,
    value: Values = None,
    settings: Settings = DEFAULT_SETTINGS,
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give a request other values: a new version, which is to be approved anew. Values that are not named stay."""
    from sudare.requests.request_actions import change

    request_settings, person = _settings_and_person(settings, who, "analyst")
    found = request_settings.store.request(name).newest
    request = change(
        request_settings,
        name,
        found.kind,
        {**found.values, **_texts(value)},
        who=person,
        reason=reason,
        dry_run=dry_run,
        is_owner=True,
    )
    _tell(request_settings, request, f"Version {request.newest.number} waits for the steward.", dry_run, as_json)


@app.command("list")
@reported
def list_(settings: Settings = DEFAULT_SETTINGS, as_json: AsJson = False) -> None:
    """All requests, the newest first."""
    request_settings, _ = _settings_and_person(settings, None, None)
    store = request_settings.store
    found, damaged = store.readable_and_damaged()
    table = Table("request", "state", "table", "kind", "ε", "who", "when", "purpose", box=None, pad_edge=False)
    for each in found:
        version = each.newest
        cells = (
            each.identity,
            spoken(_LEFT if store.was_left(each) else each.state),
            each.table,
            version.kind,
            f"{version.guarantee['epsilon']:g}",
            each.who,
            each.when,
            each.purpose,
        )
        table.add_row(*(Text(escaped_for_terminal(cell)) for cell in cells))
    lines: list[Table | str] = [table] if found else [] if damaged else ["No request yet."]
    lines += [f"Request {name} cannot be read: its file is damaged." for name in damaged]
    plain = [{**_plain(each), "was_left": store.was_left(each)} for each in found]
    answer({"requests": plain, "damaged": damaged}, as_json, *lines)


@app.command("show")
@reported
def show(name: RequestName, settings: Settings = DEFAULT_SETTINGS, as_json: AsJson = False) -> None:
    """One request: what it asks for, costs and would leave, who decided, and what came of it."""
    from sudare.requests.request_account import as_entered

    request_settings, _ = _settings_and_person(settings, None, None)
    kept = request_settings.store.request(name)
    request = as_entered(request_settings.account(request_settings.table(kept.table)), kept)
    state = _LEFT if request_settings.store.was_left(request) else request.state
    _tell(request_settings, request, f"Request {request.identity} is {state}.", False, as_json)


def _decision(name: str, verdict: Verdict, told: str) -> None:
    """Add the command that makes this decision."""

    @reported
    def decide(
        name: RequestName,
        version: LookedAt,
        reason: Reason,
        settings: Settings = DEFAULT_SETTINGS,
        who: Who = None,
        dry_run: DryRun = False,
        as_json: AsJson = False,
    ) -> None:
        from sudare.requests.request_actions import decide

        request_settings, person = _settings_and_person(settings, who, "steward")
        request = decide(request_settings, name, version, verdict, who=person, reason=reason, dry_run=dry_run)
        still = request.people - len(request.approvals) if request.state == "asked" else 0
        more = f" {still} more must approve." if still else ""
        _tell(request_settings, request, f"Request {name}: {verdict} by {person}.{more}", dry_run, as_json)

    app.command(name, help=told)(decide)


_decision("approve", "approved", "Let a request run once, as it stands. Nothing is charged before it runs.")
_decision("deny", "denied", "Refuse a request, for ever. Nothing was or will be charged for it.")


@app.command("run")
@reported
def run(
    name: RequestName,
    settings: Settings = DEFAULT_SETTINGS,
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Run an approved request, or go on with one that was killed: charged once, and the release written whole or not at all."""
    from sudare.errors import RequestStopped
    from sudare.report.number_formatting import spent_text
    from sudare.requests import approved_request_job as job
    from sudare.requests.request import begun

    request_settings, _ = _settings_and_person(settings, who, "steward")
    if dry_run:
        request = request_settings.store.request(name)
        begun(request)
        _tell(request_settings, request, f"Request {name} would be run.", True, as_json)
        return
    request = job.run(request_settings, name)
    outcome = request.outcome
    if outcome is None or outcome.state != "done":
        problem = "no outcome was kept" if outcome is None else f"{outcome.error}: {outcome.problem}"
        spent = spent_text(0.0, 0.0) if outcome is None else spent_text(outcome.epsilon, outcome.delta)
        raise RequestStopped(
            f"Request {name} is {request.state}; {spent} was charged. {problem}",
            RequestStopped.help if outcome is None else outcome.remedy,
        )
    file = request_settings.releases_folder / outcome.file
    spent = spent_text(outcome.epsilon, outcome.delta)
    line = f"Wrote {file}; {spent} was charged."
    answer({**_plain(request), "output": str(file)}, as_json, line)


def _settings_and_person(settings: Path, who: str | None, least: Role | None) -> tuple[RequestSettings, str]:
    """The settings in a file, and in whose name somebody acts. Raise InvalidParameter where users are named and this is none who may."""
    from sudare.requests.users import check_may
    from sudare.web.request_settings_of_page import request_settings
    from sudare.web.settings import read_settings

    found = read_settings(settings)
    person = who or _user()
    if least is not None:
        check_may(found.users, person, least)
    return request_settings(found), person


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "steward"


def _texts(values: list[str] | None) -> dict[str, list[str]]:
    """Texts by field from NAME=VALUE. Raise InvalidParameter where there is no sign of equality."""
    from sudare.errors import InvalidParameter

    found: dict[str, list[str]] = {}
    for each in values or []:
        name, mark, text = each.partition("=")
        if not mark:
            raise InvalidParameter("--value is NAME=VALUE.", "Use for example --value epsilon=0.4 --value by=ward.")
        found.setdefault(name.replace("-", "_"), []).append(text)
    return found


def _plain(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = parsed_json(request.to_text())
    for plain, version in zip(found["versions"], request.versions, strict=True):
        plain["expected"] = [each.to_dict() for each in version.expected]
    return found


def _tell(request_settings: RequestSettings, request: Request, first: str, dry_run: bool, as_json: bool) -> None:
    from sudare.cli.charged_commands import price_text, quoted
    from sudare.requests.price import price_now
    from sudare.requests.request_kinds import kind_in_a_sentence

    was_left = request_settings.store.was_left(request)
    values: dict[str, Any] = {**_plain(request), "was_left": was_left, "dry_run": dry_run}
    lines = [
        "" if dry_run else first,
        f"{request.who} asks for {kind_in_a_sentence(request.newest.kind)} of table '{request.table}': {request.purpose}",
        f"This is version {request.newest.number}, by {request.newest.who}.",
    ]
    lines += [f"  {name} = {', '.join(texts)}" for name, texts in request.newest.values.items()]
    if request.state in ("asked", "approved"):
        price: Price = price_now(request_settings, request)
        word = price.strength.word
        values |= {"price": quoted(price.quote, request.account), "strength": word}
        lines.append(price_text(price.quote, request.account, word))
        lines += [Told(f"  {each.told(spoken_language())}") for each in request.newest.expected]
    lines += [
        f"version {each.version} {each.verdict} by {each.who}{f': {each.reason}' if each.reason else ''}"
        for each in request.decisions
    ]
    outcome = request.outcome
    if outcome is not None:
        lines.append(outcome.file if outcome.file else f"{outcome.error}: {outcome.problem} {outcome.remedy}")
    if was_left:
        lines.append(
            "Its process ended before it was done; `sudare request run` goes on with it, and charges nothing twice."
        )
    if dry_run:
        lines.append("Dry run: nothing was entered, charged or written.")
    answer(values, as_json, *(line for line in lines if line))

"""`sudare page`: the steward's page, served from this computer."""

from __future__ import annotations

import contextvars
import getpass
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.command_output import AsJson, DryRun, answer, note, reported
from sudare.cli.language import spoken, told

if TYPE_CHECKING:
    from sudare.web.settings import PageSettings

app = typer.Typer(
    help="The steward's page: budgets, requests, schemas, releases and the consortium, in a browser.",
    invoke_without_command=True,
)

DEFAULT_SETTINGS = Path("page.toml")


@app.callback()
@reported
def page(
    context: typer.Context,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings", metavar="FILE", help="What the page serves, and to whom (TOML); page.toml, if it is there."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", envvar="SUDARE_LEDGER", metavar="FILE", help="The ledger; ledger.db unless told."),
    ] = None,
    releases: Annotated[
        Path | None, typer.Option("--releases", metavar="FOLDER", help="Where releases are; this folder unless told.")
    ] = None,
    schemas: Annotated[
        Path | None, typer.Option("--schemas", metavar="FOLDER", help="Where schemas are; this folder unless told.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="A table that can be asked about; its schema and its account have its name. May be repeated.",
        ),
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="The port; 8177 unless told, 0 takes a free one.")] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Write the page's log (JSON lines) to the end of this file."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Serve the steward's page until Ctrl-C. The address that is printed signs one person in, once, unless the settings name users."""
    if context.invoked_subcommand is not None:
        return
    from sudare.optional_packages import optional_package

    problem, remedy = "The page needs packages that are not installed.", "Install them: pip install 'sudare[page]'."
    optional_package("starlette", problem, remedy)
    optional_package("uvicorn", problem, remedy)
    optional_package("python_multipart", problem, remedy)
    chosen = _settings(settings, ledger=ledger, releases=releases, schemas=schemas, tables=table, port=port)
    problems, lines = _problems(chosen), _problems(chosen, spoken).values()
    if dry_run:
        values = {**_told(chosen), "problems": problems, "dry_run": True}
        answer(
            values,
            as_json,
            _summary(chosen, len(chosen.tables) - len(problems)),
            *lines,
            "Dry run: nothing was started.",
        )
        return
    for line in lines:
        note(line)
    _serve(chosen, log, as_json)


@app.command("password")
@reported
def password(as_json: AsJson = False) -> None:
    """Ask for a password and print what the settings keep of it: password = "scrypt:…" under [users.NAME]."""
    from sudare.web.passwords import hashed_password

    if sys.stdin.isatty():
        given = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        given = sys.stdin.readline().rstrip("\n")
    kept = hashed_password(given)
    answer({"password": kept}, as_json, kept)


def _settings(file: Path | None, **given: Any) -> PageSettings:
    """The settings of the file, or those of a page for one person, with what the options say."""
    from sudare.web.settings import PageSettings, read_settings, table_named

    tables = given.pop("tables") or []
    changes = {name: value for name, value in given.items() if value is not None}
    named = {Path(each).stem: table_named(Path(each).stem, each) for each in tables}
    if file is not None or DEFAULT_SETTINGS.exists():
        found = read_settings(file or DEFAULT_SETTINGS, owner=_owner(), **changes)
        return replace(found, tables={**found.tables, **named})
    return PageSettings(owner=_owner(), tables=named, **changes)


def _problems(settings: PageSettings, said: Callable[[str], str] = str) -> dict[str, str]:
    """By table, what is wrong with it, in a line, of which `said` says the parts. Raise an error where a key does not open."""
    from sudare.web.start_checks import check_keys, table_problems

    check_keys(settings)
    found = {}
    for name, error in table_problems(settings).items():
        refused = f"Table '{name}' cannot be asked about now"
        found[name] = f"{said(refused)}: {said(error.problem)} {said(error.remedy)}"
    return found


def _owner() -> str:
    """The name of whoever started the page, as the operating system has it; entries of the ledger name it."""
    try:
        name = re.sub(r"[^a-z0-9-]", "-", getpass.getuser().lower())[:63]
    except (OSError, KeyError):
        name = ""
    return name if name.strip("-") else "steward"


def _told(settings: PageSettings) -> dict[str, Any]:
    return {
        "address": settings.address(),
        "ledger": settings.ledger if "://" not in settings.ledger else "a database",
        "releases": str(settings.releases),
        "schemas": str(settings.schemas),
        "tables": list(settings.tables),
        "users": {user.name: user.role for user in settings.users.values()},
        "two_people": settings.two_people,
        "https": settings.is_https,
    }


def _summary(settings: PageSettings, tables: int) -> str:
    people = f"{len(settings.users)} users with passwords" if settings.users else "one person, by a one-time address"
    return f"This would serve {settings.address()} for {people}; {tables} {'table' if tables == 1 else 'tables'} can be asked about."


def _serve(settings: PageSettings, log: Path | None, as_json: bool) -> None:
    from sudare.web.page_log import PageLog
    from sudare.web.server import listening, printed_address, serve
    from sudare.web.sessions import Sessions

    settings, listener = listening(settings)
    sessions = Sessions()

    def tell() -> None:
        address = printed_address(settings, sessions)
        where = "" if settings.users else "   (this computer only; ends with Ctrl-C)"
        answer(
            {**_told(settings), "address": address},
            as_json,
            told("Open {address}{where}", address=address, where=spoken(where)),
        )
        sys.stdout.flush()

    def tell_again_on_enter() -> None:
        for _ in sys.stdin:
            tell()

    def started() -> None:
        tell()
        if sys.stdin.isatty() and not settings.users:
            # With the language, which a thread does not have otherwise.
            in_context = contextvars.copy_context().run
            threading.Thread(target=in_context, args=(tell_again_on_enter,), name="enter", daemon=True).start()

    stream = None if log is None else log.open("a", encoding="utf-8")
    try:
        serve(settings, listener, sessions, PageLog(stream), started)
    finally:
        listener.close()
        if stream is not None:
            stream.close()

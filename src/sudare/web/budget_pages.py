"""Budgets: accounts, what is left, how that came about, whether the chain is intact; opened, raised and closed with a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route

from sudare.errors import InvalidParameter
from sudare.frames.table_addresses import is_address
from sudare.parsing import NotParsed, parsed_json
from sudare.privacy import Ledger
from sudare.privacy.account_balance import spending_steps
from sudare.privacy.guarantee import Unit
from sudare.privacy.ledger_chain import Entry, Head
from sudare.privacy.ledger_export import exported, to_be_shown
from sudare.report.budget_bar import entry_cells
from sudare.safe_text import text_fault
from sudare.web.account_display import account_view, account_views, shown_source
from sudare.web.download_responses import download
from sudare.web.page_part import PagePart
from sudare.web.rendering import NavigationItem
from sudare.web.signed_in_request import Visit, page
from sudare.web.svg_coordinates import StepPicture, step_picture

# So many entries of an account are shown on one screen, the newest first.
ENTRIES_ON_A_SCREEN = 50


@page("viewer")
def budgets(visit: Visit) -> Response:
    """All accounts, and whether the ledger is whole."""
    ledger = _ledger_or_none(visit)
    return visit.render(
        "budgets.html",
        accounts=[] if ledger is None else account_views(ledger),
        chain=None if ledger is None else visit.services.chain(),
        ledger_problem=None if ledger is not None else visit.services.ledger_problem(),
        tables=list(visit.services.settings.tables.values()),
    )


@page("viewer")
def account(visit: Visit) -> Response:
    """One account: balance, history as a picture, entries."""
    ledger, name = visit.services.ledger(), visit.path("account")
    handle = ledger.account(name)
    entries = handle.entries()
    before = _whole_or(visit.query("before"), entries[-1].position + 1)
    shown = [entry for entry in reversed(entries) if entry.position < before][:ENTRIES_ON_A_SCREEN]
    is_older_left = bool(shown) and shown[-1].position > entries[0].position
    return visit.render(
        "account.html",
        account=account_view(handle),
        slices=handle.slices(),
        history=spending_picture(entries),
        entries=[entry_cells(_without_folders(entry).to_dict(), visit.language) for entry in shown],
        older=shown[-1].position if is_older_left else None,
        chain=visit.services.chain(),
    )


@page("steward")
def open_account(visit: Visit) -> Response:
    """Open an account, in a new ledger where there is none yet."""
    name, delta = visit.form.text("account"), visit.form.text("delta")
    table = visit.services.settings.tables.get(visit.form.text("table"))
    unit: Unit = "person" if visit.form.text("unit") == "person" else "record"
    ledger = Ledger(visit.services.settings.ledger)
    if any(each.name == name for each in ledger.accounts()):
        raise InvalidParameter(f"There is an account '{name}' already.", "Raise its budget, or choose another name.")
    ledger.account(
        name,
        epsilon=number_in(visit.form.text("epsilon"), "ε"),
        delta=number_in(delta, "δ") if delta else 0.0,
        unit=unit,
        source=None if table is None else _place(table.source),
    )
    visit.services.log.write("account-opened", user=visit.user)
    return visit.redirect(account_path(name), f"Account '{name}' is open.")


@page("steward")
def raise_budget(visit: Visit) -> Response:
    """Give an account a larger budget, with a reason."""
    name, epsilon, delta = visit.path("account"), visit.form.text("epsilon"), visit.form.text("delta")
    visit.services.ledger().raise_budget(
        name,
        epsilon=number_in(epsilon, "ε") if epsilon else None,
        delta=number_in(delta, "δ") if delta else None,
        reason=_reason(visit),
    )
    visit.services.log.write("budget-raised", user=visit.user)
    return visit.redirect(account_path(name), f"The budget of account '{name}' was raised.")


@page("steward")
def close_account(visit: Visit) -> Response:
    """Close an account for ever, with a reason."""
    name = visit.path("account")
    if visit.form.text("sure") != "yes":
        raise InvalidParameter("Closing is for ever, and nobody said that it is meant.", "Tick the box, then close it.")
    visit.services.ledger().close_account(name, reason=_reason(visit))
    visit.services.log.write("account-closed", user=visit.user)
    return visit.redirect(account_path(name), f"Account '{name}' is closed.")


@page("viewer")
def head(visit: Visit) -> Response:
    """The chain's last point, to be kept elsewhere."""
    found = vars(visit.services.ledger().head())
    return download(json.dumps(found).encode() + b"\n", f"head-{found['position']}.json", "application/json")


@page("viewer")
def export(visit: Visit) -> Response:
    """All entries: whole for the steward's own tools, for others with the names of tables but not the folders they are in."""
    form: Literal["csv", "json"] = "csv" if visit.query("format") == "csv" else "json"
    ledger = visit.services.ledger()
    text = ledger.export(form) if visit.is_steward else exported([*map(_without_folders, ledger.entries())], form)
    return download(text.encode(), f"ledger.{form}", "text/csv" if form == "csv" else "application/json")


@page("viewer", largest_bytes=1 << 16)
def compare_head(visit: Visit) -> Response:
    """Whether the ledger still has the point that a head names which was kept elsewhere."""
    upload = visit.form.files.get("head")
    try:
        values = parsed_json(b"" if upload is None else upload.content)
        known = Head(str(values["ledger"]), int(values["position"]), str(values["hash"]))
    except (NotParsed, KeyError, TypeError, ValueError):
        raise InvalidParameter(
            "This file is not a head of a ledger.", "Give a file that this page or `sudare budget head` wrote."
        ) from None
    visit.services.ledger().verify([known])
    return visit.redirect("/budget", f"The ledger has entry {known.position} as it was when that head was kept.")


def _without_folders(entry: Entry) -> Entry:
    """An entry whose sources are names of files, of which nothing else is told. Its hash is that of the whole entry."""
    body = dict(to_be_shown(entry).body)
    for key in ("source", "bound"):
        if isinstance(body.get(key), str):
            body[key] = shown_source(body[key])
    return replace(entry, body=body)


def account_path(name: str) -> str:
    """Returns the path of the page that shows an account."""
    return f"/budget/{quote(name, safe='')}"


def number_in(text: str, what: str) -> float:
    """The number that somebody typed. Raise InvalidParameter where it is none."""
    try:
        # Python reads 1_0 as ten, and a budget is never lowered again.
        return float(text.replace("_", "?"))
    except ValueError:
        raise InvalidParameter(f"{what} is not a number.", "Write for example 0.5 or 1e-6.") from None


def spending_picture(entries: list[Entry]) -> StepPicture:
    """ε that was spent, and the budget, after each entry that changed one of them."""
    steps = spending_steps(entries)
    return step_picture(
        [step.epsilon_spent for step in steps], [step.epsilon_budget for step in steps], [step.time for step in steps]
    )


def _reason(visit: Visit) -> str:
    """The reason with the name of whoever gives it, as the ledger keeps it."""
    reason = visit.form.text("reason")
    if not reason:
        raise InvalidParameter("The reason is missing.", "Say why in a sentence; it stays in the ledger.")
    kept = f"{visit.user}: {reason}"
    fault = text_fault(kept)
    if fault is not None:
        raise InvalidParameter(f"The reason {fault}.", "Say it in a sentence; it stays in the ledger.")
    return kept


def _ledger_or_none(visit: Visit) -> Ledger | None:
    return None if visit.services.ledger_problem() else visit.services.ledger()


def _whole_or(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default


def _place(source: str) -> str | Path:
    return source if is_address(source) else Path(source)


PART = PagePart(
    routes=[
        Route("/budget", budgets),
        Route("/budget", open_account, methods=["POST"]),
        Route("/budget-head.json", head),
        Route("/budget-head", compare_head, methods=["POST"]),
        Route("/budget-export", export),
        Route("/budget/{account:path}/raise", raise_budget, methods=["POST"]),
        Route("/budget/{account:path}/close", close_account, methods=["POST"]),
        Route("/budget/{account:path}", account),
    ],
    navigation=[NavigationItem("/budget", "Budget")],
)

"""`sudare budget`: what was spent, by whom the budget was raised, and whether the ledger is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.command_output import DEFAULT_LEDGER, AsJson, DryRun, LedgerAddress, answer, reported, write_new_text
from sudare.cli.language import spoken_language
from sudare.errors import InvalidParameter
from sudare.parsing import bounded_bytes, parsed_json
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.privacy import Account, Ledger, Release
    from sudare.privacy.account_balance import Amount
    from sudare.privacy.ledger_chain import Entry, Head
    from sudare.report import BudgetBar

app = typer.Typer(
    help="Show, raise, close, verify, export, back up and restore the budgets in a ledger.", invoke_without_command=True
)

Heads = Annotated[
    list[Path] | None,
    typer.Option("--head", metavar="FILE", help="A head that `sudare budget head` wrote earlier; may be repeated."),
]
Receipts = Annotated[
    list[Path] | None,
    typer.Option(
        "--receipt",
        metavar="RELEASE",
        help="A release whose receipt must be in the ledger, which `verify` also compares with what it entered; may be repeated.",
    ),
]
AccountName = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's name.")]


@app.callback()
def budget(
    context: typer.Context,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Show, raise, close, verify, export, back up and restore the budgets in a ledger. Alone it shows them."""
    if context.invoked_subcommand is None:
        show(ledger=ledger, account=None, as_json=as_json)
        return
    for name in ("ledger", "as_json"):
        # Ignored silently, an option before the subcommand would make it act on another ledger than was meant.
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"write --{name.removeprefix('as_')} after '{context.invoked_subcommand}'.")


@app.command("show")
@reported
def show(
    account: Annotated[
        str | None, typer.Argument(metavar="ACCOUNT", help="One account, with its entries. Without it: all accounts.")
    ] = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """What each account has spent of its budget, after checking the ledger's chain."""
    from sudare.privacy.ledger_export import to_be_shown

    opened = _opened(ledger)
    head = opened.verify()
    shown = opened.accounts() if account is None else [opened.account(account)]
    bars = [_bar(each) for each in shown]
    width = max((len(escaped_for_terminal(bar.account)) for bar in bars), default=0)
    lines = [f"{bar.line(width)}   chain intact" for bar in bars] or ["No account yet; the ledger's chain is intact."]
    values: dict[str, Any] = {"accounts": [_values(each) for each in shown], "head": vars(head), "chain": "intact"}
    if account is None:
        answer(values, as_json, *lines)
        return
    lines += [f"  {_slice_line(*each)}" for each in shown[0].slices()]
    entries = shown[0].entries()
    values["entries"] = [to_be_shown(entry).to_dict() for entry in entries]
    answer(values, as_json, *lines, _table(entries))


@app.command("raise")
@reported
def raise_(
    account: AccountName,
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; it stays in the ledger for ever.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The new, larger ε of the budget.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="The new, larger δ of the budget.")] = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give an account a larger budget: an act of the steward, recorded with its reason."""
    from sudare.cli.dry_run import ledger_or_copy
    from sudare.report import strength_of

    with ledger_or_copy(ledger, dry_run) as opened:
        before = _values(opened.account(account))
        opened.raise_budget(account, epsilon=epsilon, delta=delta, reason=reason)
        after = _values(opened.account(account))
    word = strength_of(after["budget"]["epsilon"], after["budget"]["delta"]).word
    text = (
        f"{account}: budget {_amount(before['budget'])} → {_amount(after['budget'])}. All that this account may ever release is "
        f"then a {word} guarantee."
    )
    values = {"account": account, "before": before, "after": after, "strength": word, "dry_run": dry_run}
    answer(values, as_json, text, *(["Dry run: nothing was changed."] if dry_run else []))


@app.command("close")
@reported
def close(
    account: AccountName,
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; it stays in the ledger for ever.")],
    ledger: LedgerAddress = DEFAULT_LEDGER,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let an account pay for nothing any more, for ever: an act of the steward, recorded with its reason."""
    from sudare.cli.dry_run import ledger_or_copy

    with ledger_or_copy(ledger, dry_run) as opened:
        opened.close_account(account, reason=reason)
        after = _values(opened.account(account))
    text = f"{account} is closed: it pays for nothing any more. {_amount(after['spent'])} was spent."
    answer(
        {"account": account, "after": after, "dry_run": dry_run},
        as_json,
        text,
        *(["Dry run: nothing was changed."] if dry_run else []),
    )


@app.command("verify")
@reported
def verify(
    ledger: LedgerAddress = DEFAULT_LEDGER,
    heads: Heads = None,
    receipts: Receipts = None,
    as_json: AsJson = False,
) -> None:
    """Check that nothing was edited, deleted, reordered, or rolled back to an older copy."""
    opened, releases = _opened(ledger), [_release_in(path) for path in receipts or []]
    known = [*map(_head_in, heads or []), *(release.receipt for release in releases)]
    head = opened.verify(known)
    for release in releases:
        # An entry that is known to be lost cannot say any more what left.
        if opened.contains(release.receipt):
            release.check_entered(opened)
    found = f" and contains {len(known)} known point{'s' if len(known) != 1 else ''}" if known else ""
    hint = [] if known else ["An older copy put back cannot be noticed without --head or --receipt."]
    values = {"chain": "intact", "head": vars(head), "known_points": len(known)}
    answer(values, as_json, f"The chain of {head.position + 1} entries is intact{found}.", *hint)


@app.command("head")
@reported
def head(
    ledger: LedgerAddress = DEFAULT_LEDGER,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a new file instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the chain's last point. Keep it elsewhere: `verify --head` finds an older copy of the ledger by it."""
    found = vars(_opened(ledger).head())
    text = json.dumps(found)
    if output is not None:
        write_new_text(output, text + "\n")
    answer(found, as_json, text if output is None else f"Wrote {output}. Keep it away from the ledger.")


@app.command("export")
@reported
def export(
    ledger: LedgerAddress = DEFAULT_LEDGER,
    form: Annotated[Literal["json", "csv"], typer.Option("--format", help="The form of the text.")] = "json",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a new file instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """All entries as text, for the steward's own tools."""
    opened = _opened(ledger)
    text = opened.export(form)
    entries = [entry.to_dict() for entry in opened.entries()]
    if output is None:
        answer({"entries": entries}, as_json, text)
        return
    write_new_text(output, text)
    values = {"output": str(output), "entries": len(entries)}
    answer(values, as_json, f"Wrote {len(entries)} entries to {output}.")


@app.command("backup")
@reported
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A file that does not exist yet.")],
    ledger: LedgerAddress = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """A consistent copy of the ledger, made while others may write."""
    opened = _opened(ledger)
    opened.backup(target)
    position = opened.head().position
    answer(
        {"output": str(target), "last_entry": position}, as_json, f"Wrote {target}. Restoring it forgets later charges."
    )


@app.command("restore")
@reported
def restore(
    reason: Annotated[
        str, typer.Option("--reason", help="What happened, in a sentence; it stays in the ledger for ever.")
    ],
    backup: Annotated[
        Path | None,
        typer.Argument(
            metavar="BACKUP", help="A backup to copy to --ledger, where none may be. Without it: --ledger itself."
        ),
    ] = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    entries: Annotated[
        Path | None,
        typer.Option("--entries", metavar="FILE", help="A later export (JSON) with the entries that the backup lacks."),
    ] = None,
    heads: Heads = None,
    receipts: Receipts = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup back. Unless it has every known point, all accounts count as spent; `raise` then opens them again."""
    from sudare.privacy.ledger_restore import parsed_export, restored

    known = [*map(_head_in, heads or []), *(_release_in(path).receipt for path in receipts or [])]
    later = [] if entries is None else parsed_export(_text_in(entries))
    with _restorable(backup, ledger, dry_run) as opened:
        done = restored(opened, later, known, reason)
        head = opened.verify(known)
    values = {
        "entries_added": done.entries_added,
        "lost": [vars(each) for each in done.lost],
        "closed": list(done.closed),
        "head": vars(head),
        "dry_run": dry_run,
    }
    lines = [f"{done.entries_added} later entries were put back; the ledger's last entry is {head.position}."]
    if done.closed:
        lines.append(
            f"Nobody can say what was charged later, so these count as spent: {', '.join(done.closed)}. Accounts opened "
            "after the backup are forgotten: do not open one again. `sudare budget raise` is the steward's way on."
        )
    else:
        lines.append("Every known point is there: nothing is lost as far as they tell.")
    answer(values, as_json, *lines, *(["Dry run: nothing was changed."] if dry_run else []))


@contextmanager
def _restorable(backup: Path | None, address: str, dry_run: bool) -> Iterator[Ledger]:
    """The ledger to restore: what stands there, or a copy of the backup that takes its place only when all went well."""
    from sudare.cli.dry_run import ledger_or_copy

    if backup is None:
        with ledger_or_copy(address, dry_run) as opened:
            yield opened
        return
    if "://" in address:
        raise InvalidParameter(
            "A backup file is copied to a file.",
            "Restore a server's database with its own tool, then run this without BACKUP.",
        )
    if Path(address).exists():
        raise InvalidParameter(f"'{Path(address).name}' exists already.", "Move the old ledger away first; keep it.")
    with ledger_or_copy(str(backup), dry_run=True) as copy:
        yield copy
        if not dry_run:
            copy.backup(address)


def _text_in(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter(f"'{path.name}' cannot be read.", "Check the path.") from None


def _bar(account: Account) -> BudgetBar:
    from sudare.report import BudgetBar

    return BudgetBar.from_terms(account.name, account.terms.to_dict(), account.spent(), len(account.entries()))


def _opened(address: str) -> Ledger:
    from sudare.privacy import Ledger

    return Ledger(address, create=False)


def _values(account: Account) -> dict[str, Any]:
    terms, spent, left = account.terms, account.spent(), account.remaining()
    return {
        "account": account.name,
        "budget": {"epsilon": float(terms.budget.epsilon), "delta": float(terms.budget.delta)},
        "spent": spent._asdict(),
        "remaining": left._asdict(),
        "composition": terms.budget.composition,
        "neighbours": terms.neighbours,
        "unit": terms.unit,
        "closed": account.state().is_closed,
        "entries": len(account.entries()),
        "slices": [{"where": where, "spent": spent._asdict()} for where, spent in account.slices()],
    }


def _slice_line(where: dict[str, str], spent: Amount) -> str:
    named = ", ".join(f"{name}={value}" for name, value in where.items())
    return f"records of {escaped_for_terminal(named)}: {_amount(spent._asdict())} spent"


def _amount(budget: dict[str, float]) -> str:
    from sudare.report.number_formatting import rounded_up

    return f"ε {rounded_up(budget['epsilon'])}, δ {rounded_up(budget['delta']) if budget['delta'] else 0}"


def _table(entries: list[Entry]) -> Table:
    from sudare.report.budget_bar import ENTRY_HEADINGS, entry_cells

    table = Table(box=None, pad_edge=False)
    for heading in ENTRY_HEADINGS:
        # A long name is broken, never cut off.
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(*map(Text, entry_cells(entry.to_dict(), spoken_language())))
    return table


def _head_in(path: Path) -> Head:
    from sudare.privacy.ledger_chain import Head

    try:
        values = parsed_json(bounded_bytes(path))
        found = Head(str(values["ledger"]), int(values["position"]), str(values["hash"]))
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found is None:
        raise InvalidParameter(
            f"'{path.name}' is not a head of a ledger.", "Give a file that `sudare budget head` wrote."
        )
    return found


def _release_in(path: Path) -> Release:
    from sudare.privacy.release import audited, read

    return audited(read(path))

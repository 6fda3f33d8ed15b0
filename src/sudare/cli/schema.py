"""`sudare schema`: a first draft of the public facts about a table, and whether a table agrees with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli import options
from sudare.cli.charged_commands import Payment, check_can_be_written, price_text, quoted
from sudare.cli.command_output import (
    DEFAULT_LEDGER,
    AsJson,
    DryRun,
    LedgerAddress,
    answer,
    progress,
    reported,
    write_new_text,
)
from sudare.cli.language import spoken, spoken_language
from sudare.languages import with_translated_comments
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.schema import Person

app = typer.Typer(help="Draft a schema for a table, or check a table against one.", no_args_is_help=True)


@app.callback()
def schema() -> None:
    """Draft a schema for a table, or check a table against one."""


@app.command("draft")
@reported
def draft(
    table: options.TableFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a new file instead.")
    ] = None,
    has_header: options.HasHeader = None,
    encoding: options.Encoding = None,
    csv: options.CsvFacts = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon", help="Find bounds, bins and frequent categories with noise, and charge this ε for it."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            help="The δ for frequent categories of text; 1e-6 unless told, 0 leaves them open.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", metavar="FILE", help="What is known already (TOML); nothing is found about its columns."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out; may be repeated.")
    ] = None,
    person: Annotated[
        str | None, typer.Option("--person", metavar="COLUMN", help="The column that says whose row it is.")
    ] = None,
    most_rows: Annotated[
        int | None,
        typer.Option("--most-rows", help="How many rows of one person are used at most; further ones are left out."),
    ] = None,
    account: options.AccountOrTableName = None,
    budget: options.NewBudget = None,
    budget_delta: options.NewBudgetDelta = None,
    composition: options.Composition = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """A first schema from names and types of columns; bounds are questions to a human, or with --epsilon found with noise and charged."""
    from sudare.frames import column_types
    from sudare.schema import Schema

    if epsilon is not None:
        payment = Payment(ledger, account, table, budget, budget_delta, composition)
        source, known = (
            options.table_source(table, has_header, encoding, csv),
            None if schema is None else Schema.load(schema),
        )
        asked = {"epsilon": epsilon, "delta": delta, "declared": known, "drop": drop or (), "has_header": has_header}
        _draft_privately(source, payment, {**asked, "person": _person(person, most_rows)}, output, dry_run, as_json)
        return
    _refuse_without_epsilon(delta, schema, drop, person, most_rows, account, budget, budget_delta, composition, dry_run)
    types = column_types(options.table_source(table, has_header, encoding, csv))
    text = _with_spoken_comments(Schema.draft(types, has_header=has_header))
    if output is not None:
        write_new_text(output, text)
    values = {"columns": list(types.names), "draft": text, "output": None if output is None else str(output)}
    answer(
        values, as_json, text if output is None else f"Wrote {output}. Answer every question mark in it by knowledge."
    )


def _refuse_without_epsilon(*given: object) -> None:
    """Raise InvalidParameter where an option of a charged draft is given and its ε is not."""
    from sudare.errors import InvalidParameter

    if any(given):
        raise InvalidParameter(
            "Nothing is found, charged or known in advance without --epsilon.",
            "Give --epsilon to have bounds found and charged, or leave the other options out.",
        )


def _person(column: str | None, most_rows: int | None) -> Person | None:
    from sudare.errors import InvalidParameter
    from sudare.schema import Person

    if (column is None) != (most_rows is None):
        raise InvalidParameter("--person and --most-rows belong together.", "Give both, or neither.")
    return None if column is None or most_rows is None else Person(column, most_rows)


def _with_spoken_comments(draft: str) -> str:
    """The draft with its comments in the language that people are told in."""
    return with_translated_comments(draft, spoken_language())


def _draft_privately(
    source: str | os.PathLike[str],
    payment: Payment,
    asked: dict[str, Any],
    output: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Charge an account, find what is not declared, and show or write the draft; in a dry run tell the price."""
    from sudare.privacy.guarantee import readable_up
    from sudare.statistics.schema_discovery import draft_privately, planned_draft, price_of

    plan = planned_draft(source, **asked)
    shares = {"columns": list(plan.found), "column_epsilon": plan.column_epsilon, "column_delta": plan.column_delta}
    if output is not None and not dry_run:
        check_can_be_written(output)
    with payment.payer(plan.reading, dry_run) as payer, progress(as_json) as tell:
        if dry_run:
            quote = None if payer is None else price_of(plan, payer)
            told = [] if quote is None or payer is None else [price_text(quote, payer.name)]
            quoted_values = {} if quote is None or payer is None else quoted(quote, payer.name)
            answer(
                {"dry_run": True, "guarantee": plan.guarantee.to_dict(), **shares, **quoted_values},
                as_json,
                f"This would find {len(plan.found)} columns with ε = {readable_up(plan.column_epsilon)} each: {escaped_for_terminal(', '.join(plan.found))}.",
                *told,
                "Dry run: nothing was computed, charged or written.",
            )
            return
        tell("reading the table, charging, then counting with noise")
        draft = draft_privately(source, plan, payer)
    text = _with_spoken_comments(draft.text)
    if output is not None:
        write_new_text(output, text)
    values = {
        "draft": text,
        "found": draft.found,
        **shares,
        "guarantee": draft.guarantee.to_dict(),
        "receipt": None if draft.receipt is None else draft.receipt.to_dict(),
        "output": None if output is None else str(output),
    }
    left_open = sorted(set(plan.found) - set(draft.found))
    answer(
        values,
        as_json,
        text
        if output is None
        else f"Wrote {output}: {draft.guarantee}. Found: {escaped_for_terminal(', '.join(draft.found) or 'nothing')}.",
        *(
            [f"Hidden by the noise, left as questions: {escaped_for_terminal(', '.join(left_open))}."]
            if left_open
            else []
        ),
    )


@app.command("check")
@reported
def check(
    table: options.TableFile,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema (TOML).")],
    has_header: options.HasHeader = None,
    encoding: options.Encoding = None,
    csv: options.CsvFacts = None,
    as_json: AsJson = False,
) -> None:
    """Whether a table agrees with a schema: all problems at once, what would be clipped, and what is ignored. Counts are exact: for the owner only."""
    from sudare.frames.schema_validation import schema_report
    from sudare.schema import Schema

    declared, source = Schema.load(schema), options.table_source(table, has_header, encoding, csv)
    with progress(as_json) as tell:
        found = schema_report(source, declared, tell)
    values = {
        "rows": found.rows,
        "columns": list(declared.columns),
        "problems": [
            {
                "column": each.column,
                "error": type(each.error).__name__,
                "problem": each.error.problem,
                "remedy": each.error.remedy,
            }
            for each in found.problems
        ],
        "clipped": found.clipped,
        "cut_rows": found.cut_rows,
        "ignored": found.ignored,
        "person_like": found.person_like,
        "for": "the owner only",
    }
    clipped = ", ".join(f"{name} {count:,}" for name, count in found.clipped.items())
    opening = (
        f"{found.rows:,} rows match the schema."
        if not found.problems
        else f"The table does not match the schema; {len(found.problems)} problem{'s' if len(found.problems) > 1 else ''}:"
    )
    lines = [
        opening,
        *(
            f"- {escaped_for_terminal(f'{spoken(each.error.problem)} {spoken(each.error.remedy)}')}"
            for each in found.problems
        ),
        f"Values outside the bounds, which will be clipped: {escaped_for_terminal(clipped or 'none')}. Only you see this; do not pass it on.",
    ]
    if found.cut_rows:
        lines.append(
            f"Rows that are left out because their persons have more than are kept: {found.cut_rows:,}. Only you see this; do not pass it on. "
            "How many are kept is public where persons are replaced: releases tell it."
        )
    if found.ignored:
        lines.append(
            f"Columns that the schema does not name and that are ignored: {escaped_for_terminal(', '.join(found.ignored))}."
        )
    lines += [
        f"Column {escaped_for_terminal(repr(name))} looks as if it said whose row it is, and values occur again: if persons have several rows, declare [person] in the schema, "
        "or the promise is to rows only."
        for name in found.person_like
    ]
    answer(values, as_json, *lines)
    if found.problems:
        raise typer.Exit(found.problems[0].error.exit_code)

"""`sudare perturb`: every record randomised before it leaves, as a signed release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from sudare.cli import charged_commands as paying
from sudare.cli import options
from sudare.cli.command_output import DEFAULT_LEDGER, AsJson, DryRun, LedgerAddress, answer, progress, reported
from sudare.cli.language import Told, padded, spoken
from sudare.errors import InvalidParameter

if TYPE_CHECKING:
    from sudare.perturbation import RecordPerturbation
    from sudare.perturbation.epsilon_split import RecordPlan


@reported
def perturb(
    table: options.TableFile,
    schema: options.SchemaOfAllColumns,
    k: Annotated[
        int | None, typer.Option("--k", help="No row may be linked to a record with probability above 1/k.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The local ε of a record, instead of --k.")] = None,
    n_records: Annotated[
        int | None, typer.Option("--n-records", help="Among how many rows k holds; all of them without this.")
    ] = None,
    one_column: Annotated[
        bool,
        typer.Option(
            "--one-column",
            help="Every record answers one column, drawn at random, with the whole ε; how columns go together is then not told.",
        ),
    ] = False,
    split: Annotated[
        list[str] | None,
        typer.Option(
            "--split", metavar="COLUMN=WEIGHT", help="A column's share of ε; give all columns or none (equal shares)."
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="COLUMN=KIND",
            help="square-wave (the default) or laplace for numbers; retain-replace, unary or subset for categories.",
        ),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            "--memory",
            metavar="FILE",
            help="Keep the first answer of each person in this file, and give it again in every later collection: all of them together cost ε once. Needs --epsilon.",
        ),
    ] = None,
    has_header: options.HasHeader = None,
    encoding: options.Encoding = None,
    csv: options.CsvFacts = None,
    account: options.AccountOrTableName = None,
    budget: options.NewBudget = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    output: options.NewRelease = None,
    key: options.SigningKey = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Perturb every record of a table, shuffle the rows, and write them as a signed release; linking, local and central promise are told."""
    from sudare.perturbation import RecordPerturbation
    from sudare.schema import Schema

    declared, source = Schema.load(schema), options.table_source(table, has_header, encoding, csv)
    weights = {name: _number(name, weight) for name, weight in _pairs("--split", split).items()}
    asked: dict[str, Any] = {
        "k": k, "epsilon": epsilon, "n_records": n_records, "one_column": one_column,
        "split": weights or None, "methods": _pairs("--method", methods) or None, "memory": memory,
    }  # fmt: skip
    signing = None if dry_run else paying.ready_to_sign(output, key)
    if signing is not None:
        _check_rows_file(rows_file(signing.output))
    with progress(as_json) as tell:
        tell("looking through the table" if signing is None else "charging, then perturbing")
        model = paying.fitted_or_planned(
            paying.Payment(ledger, account, table, budget), declared, source, signing,
            make=lambda payer: RecordPerturbation(declared, **asked, account=payer),
            tell_plan=lambda model: _tell_plan(model, source, as_json),
        )  # fmt: skip
    if signing is not None:
        _save(model, signing, as_json)


def rows_file(release: Path) -> Path:
    """Returns the path of the rows that a release does not hold itself: beside it."""
    from sudare.perturbation.perturbed_table import ROWS_SUFFIX

    return release.with_suffix(ROWS_SUFFIX)


def _check_rows_file(file: Path) -> None:
    if paying.is_name_taken(file):
        raise InvalidParameter(
            f"'{file.name}' exists already.",
            "Large tables leave their rows there: move it, or choose another --output.",
        )


def _pairs(option: str, words: list[str] | None) -> dict[str, str]:
    pairs = dict(word.rpartition("=")[::2] for word in words or [])
    if "" in pairs or len(pairs) < len(words or []):
        raise InvalidParameter(f"{option} takes COLUMN=VALUE, every column once.", f"Use for example {option} age=2.")
    return pairs


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"The weight of {name!r} is not a number.", "Use for example --split age=2.") from None


def _tell_plan(model: RecordPerturbation, table: str | os.PathLike[str], as_json: bool) -> None:
    plan, statement, records = model.dry_run(table)
    charge, price = paying.price_of_plan(plan, model.account, answers=model._first_answers())
    values = {
        "dry_run": True,
        "statement": statement.to_dict(),
        "perturbations": _facts(plan),
        "clipped": paying.clipped_columns(records.clipped),
        **charge,
    }
    answer(
        values, as_json, *statement.lines, *_lines(plan), price, "Dry run: nothing was perturbed, charged or written."
    )


def _facts(plan: RecordPlan) -> dict[str, Any]:
    from sudare.perturbation.perturbed_table import described

    return {name: described(each) for name, each in plan.perturbations.items()}


def _lines(plan: RecordPlan) -> list[str]:
    """How ε is split, one line a column, whose name may be any word."""
    from sudare.perturbation.one_column_per_record import AnsweredColumn
    from sudare.report.number_formatting import nearest

    width = max(map(cell_len, plan.perturbations))
    lines: list[str] = []
    for name, facts in _facts(plan).items():
        if facts["kind"] == AnsweredColumn.kind:
            continue
        shown = ", ".join(
            f"{spoken(fact.replace('_', ' '))} {nearest(value)}"
            for fact, value in facts.items()
            if fact not in ("kind", "epsilon", "whole")
        )
        lines.append(Told(f"  {padded(name, width)}  ε = {nearest(facts['epsilon'])}, {facts['kind']} ({shown})"))
    return lines


def _save(model: RecordPerturbation, signing: paying.Signing, as_json: bool) -> None:
    from sudare.privacy import Release

    output = signing.output
    release = Release.of(model)
    release.save(output, key=signing.key)
    beside = None if release.content.beside is None else rows_file(output)
    statement, repeated = model.statement(), model.repeated_
    values = {
        "output": str(output),
        "rows_file": None if beside is None else str(beside),
        "rows": model.n_rows_,
        "statement": statement.to_dict(),
        "split": dict(model.split_),
        "repeated": None if repeated is None else vars(repeated),
        **paying.paid(model),
    }
    again = (
        []
        if repeated is None
        else [
            f"{repeated.first:,} persons answered for the first time, all others as before (collection {repeated.collection})."
        ]
    )
    answer(
        values,
        as_json,
        f"Wrote {output}: {model.n_rows_:,} perturbed rows in a random order.",
        *([] if beside is None else [f"The rows are in {beside}, which belongs to it: pass on both."]),
        *again,
        *statement.lines,
        *paying.paid_lines(model),
    )

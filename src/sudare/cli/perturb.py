"""`sudare perturb`: every record randomised before it leaves, as a signed release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.answers import DEFAULT_LEDGER, AsJson, DryRun, LedgerAddress, answer, progress, reported
from sudare.cli.fit import paying_account, ready_to_sign
from sudare.errors import InvalidParameter

if TYPE_CHECKING:
    from sudare.privacy import Account
    from sudare.records import RecordPerturbation
    from sudare.records.plan import RecordPlan


@reported
def perturb(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A Parquet or CSV file, or a folder of Parquet files.")
    ],
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="The public facts about all columns (TOML).")
    ],
    k: Annotated[
        int | None, typer.Option("--k", help="No row may be linked to a record with probability above 1/k.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The local ε of a record, instead of --k.")] = None,
    n_records: Annotated[
        int | None, typer.Option("--n-records", help="Among how many rows k holds; all of them without this.")
    ] = None,
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
            help="laplace or square-wave for numbers; retain-replace, unary or subset for categories.",
        ),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(
            "--account", metavar="NAME", help="The account that pays; without it, the one named like the table."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", metavar="EPSILON", help="Open the account with this ε, bound to the table, if it is new."
        ),
    ] = None,
    ledger: LedgerAddress = DEFAULT_LEDGER,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The release to write, usually NAME.sudare.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", envvar="SUDARE_KEY", metavar="FILE", help="Your Ed25519 private key (PEM) to sign with."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Perturb every record of a table, shuffle the rows, and write them as a signed release; linking, local and central promise are told."""
    from sudare.cli.rehearsal import ledger_or_copy
    from sudare.records import RecordPerturbation
    from sudare.schema import Schema

    declared = Schema.load(schema)
    weights = {name: _number(name, weight) for name, weight in _pairs("--split", split).items()}
    options: dict[str, Any] = {
        "k": k, "epsilon": epsilon, "n_records": n_records,
        "split": weights or None, "methods": _pairs("--method", methods) or None,
    }  # fmt: skip
    # All that can go wrong after the charge is looked at before it.
    signing = None if dry_run else ready_to_sign(output, key)
    if signing is not None:
        _check_rows_file(rows_file(signing[0]))
    name = table.stem if account is None else account
    with progress(as_json) as tell:
        tell("looking through the table")
        if signing is None and budget is None and account is None:
            _tell_plan(RecordPerturbation(declared, **options), table, None, as_json)
            return
        with ledger_or_copy(ledger, dry_run and budget is not None, create=budget is not None) as opened:
            payer = paying_account(opened, name, table, declared, budget, None, None)
            model = RecordPerturbation(declared, **options, account=payer)
            if signing is None:
                _tell_plan(model, table, payer, as_json)
                return
            tell("charging, then perturbing")
            model.fit(table)
    _save(model, signing, as_json)


def rows_file(release: Path) -> Path:
    """Where the rows of a release are that are more than it holds: beside it."""
    from sudare.records.table import ROWS_SUFFIX

    return release.with_suffix(ROWS_SUFFIX)


def _check_rows_file(file: Path) -> None:
    if file.exists():
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


def _tell_plan(model: RecordPerturbation, table: Path, account: Account | None, as_json: bool) -> None:
    from sudare.report.numbers import rounded_down, rounded_up

    plan, statement, seen = model.rehearsed(table)
    values: dict[str, Any] = {
        "dry_run": True,
        "statement": statement.to_dict(),
        "perturbations": _facts(plan),
        "clipped": {name: count for name, count in seen.clipped.items() if count},
    }
    price = f"This would cost ε = {rounded_up(plan.guarantee.epsilon)}."
    if account is not None:
        quote = account.quote(plan.guarantee, plan.mechanism.cost)
        values |= {"account": account.name, "asked": quote.asked._asdict(), "admitted": quote.admitted,
                   "left_before": quote.left_before._asdict(), "left_after": quote.left_after._asdict()}  # fmt: skip
        after = (
            f"ε = {rounded_down(quote.left_after.epsilon)} would be left" if quote.admitted else "it would be refused"
        )
        price = (
            f"This would cost ε = {rounded_up(quote.asked.epsilon)} of account '{account.name}', "
            f"which has ε = {rounded_down(quote.left_before.epsilon)} left; {after}."
        )
    answer(
        values, as_json, *statement.lines, *_lines(plan), price, "Dry run: nothing was perturbed, charged or written."
    )


def _facts(plan: RecordPlan) -> dict[str, Any]:
    from sudare.records.table import described

    return {name: described(each) for name, each in plan.perturbations.items()}


def _lines(plan: RecordPlan) -> list[str]:
    """How ε is split, one line a column."""
    from sudare.report.numbers import nearest

    width = max(map(len, plan.perturbations))
    lines = []
    for name, facts in _facts(plan).items():
        shown = ", ".join(
            f"{fact.replace('_', ' ')} {nearest(value)}"
            for fact, value in facts.items()
            if fact not in ("kind", "epsilon")
        )
        lines.append(f"  {name:<{width}}  ε = {nearest(facts['epsilon'])}, {facts['kind']} ({shown})")
    return lines


def _save(model: RecordPerturbation, signing: tuple[Path, Any], as_json: bool) -> None:
    from sudare.privacy import Release
    from sudare.report.numbers import rounded_down

    output, key = signing
    release = Release.of(model)
    release.save(output, key=key)
    beside = None if release.content.beside is None else rows_file(output)
    statement, left = model.statement(), model.account.remaining() if model.account else None
    values = {
        "output": str(output),
        "rows_file": None if beside is None else str(beside),
        "rows": model.n_rows_,
        "statement": statement.to_dict(),
        "split": dict(model.split_),
        "receipt": model.receipt_.to_dict() if model.receipt_ else None,
        "remaining": left._asdict() if left else None,
        "clipped": {name: count for name, count in model.clipped_.items() if count},
    }
    answer(
        values,
        as_json,
        f"Wrote {output}: {model.n_rows_:,} perturbed rows in a random order.",
        *([] if beside is None else [f"The rows are in {beside}, which belongs to it: pass on both."]),
        *statement.lines,
        f"Account '{model.account.name if model.account else ''}' has ε = {rounded_down(left.epsilon if left else 0.0)} left.",
        f"{sum(model.clipped_.values()):,} values lay outside the bounds and were clipped; only you see this.",
    )

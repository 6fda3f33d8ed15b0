"""`sudare synthesize` and `sudare sample`: a private synthetic table as a signed release, and rows drawn from it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.answers import DEFAULT_LEDGER, AsJson, DryRun, LedgerAddress, answer, progress, reported
from sudare.cli.fit import Filter, paying_account, ready_to_sign
from sudare.errors import InvalidParameter, NotReleasable

if TYPE_CHECKING:
    from sudare.privacy import Account
    from sudare.records import PrivateSynthesizer


class Engine(StrEnum):
    """How a synthetic table can be made."""

    MARGINALS = "marginals"
    MICROAGGREGATION = "microaggregation"


@reported
def synthesize(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A Parquet or CSV file, or a folder of Parquet files.")
    ],
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="The public facts about all columns (TOML).")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε of the guarantee, charged to the account.")],
    delta: Annotated[
        float, typer.Option("--delta", help="The δ of the guarantee; above 0 the noise is Gaussian.")
    ] = 0.0,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="The column to predict later; without it the schema's target."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="Noisy counts of columns and pairs, or noisy means of groups (paper 002)."),
    ] = Engine.MARGINALS,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--pair",
            metavar="COLUMN=COLUMN",
            help="Columns publicly known to belong together; may be repeated. Without it pairs are chosen, within ε.",
        ),
    ] = None,
    groups: Annotated[
        int, typer.Option("--groups", help="For microaggregation: into how many groups a class is cut.")
    ] = 20,
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
    budget_delta: Annotated[
        float | None, typer.Option("--budget-delta", metavar="DELTA", help="The δ of a newly opened account.")
    ] = None,
    composition: Annotated[
        Filter | None, typer.Option("--composition", help="How charges add up in a newly opened account.")
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
    """Count a table with noise, and write what synthetic rows can be drawn from as a signed release (see `sudare sample`)."""
    from sudare.cli.rehearsal import ledger_or_copy
    from sudare.records import PrivateSynthesizer
    from sudare.schema import Schema

    declared = Schema.load(schema)
    options: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "label": label, "engine": engine.value, "groups": groups,
        "tree": _tree(pairs),
    }  # fmt: skip
    # All that can go wrong after the charge is looked at before it.
    signing = None if dry_run else ready_to_sign(output, key)
    name = table.stem if account is None else account
    with progress(as_json) as tell:
        tell("looking through the table")
        if signing is None and budget is None and account is None:
            _tell_plan(PrivateSynthesizer(declared, **options), table, None, as_json)
            return
        with ledger_or_copy(ledger, dry_run and budget is not None, create=budget is not None) as opened:
            payer = paying_account(opened, name, table, declared, budget, budget_delta, composition)
            model = PrivateSynthesizer(declared, **options, account=payer)
            if signing is None:
                _tell_plan(model, table, payer, as_json)
                return
            tell("charging, then counting")
            model.fit(table)
    _save(model, signing, as_json)


@reported
def sample(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A release of `sudare synthesize`, usually NAME.sudare.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")],
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", help="How many rows; without it as many as there were, by noisy counts where that is not public."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Draw the same rows again; this protects nobody and harms nobody.")
    ] = None,
    trusted: Annotated[
        list[Path] | None,
        typer.Option(
            "--trusted", metavar="PUBLICKEY", help="An Ed25519 public key (PEM) that you trust; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw rows of nobody from a released synthetic table, and write them as Parquet. This costs nothing, however often."""
    from sudare.cli.inspect import read_release

    release, signature = read_release(file, trusted)
    if release.learner != "PrivateSynthesizer":
        raise NotReleasable(
            f"'{file.name}' holds a {release.learner}, not a synthetic table.", "Look at it with `sudare inspect`."
        )
    if output.exists() or not output.absolute().parent.is_dir():
        raise InvalidParameter(
            f"'{output}' exists, or its folder does not.", "Choose a new file in a folder that exists."
        )
    drawn = release.model().sample(rows, random_state=seed)
    drawn.to_parquet(output, index=False)
    checked = "" if signature == "trusted" else " The signature was NOT CHECKED against a key you trust."
    answer(
        {"output": str(output), "rows": len(drawn), "columns": list(drawn), "signature": signature,
         "guarantee": release.guarantee.to_dict()},
        as_json,
        f"Wrote {output}: {len(drawn):,} synthetic rows; {release.guarantee}.{checked}",
    )  # fmt: skip


def _tree(pairs: list[str] | None) -> list[tuple[str, str]] | None:
    if pairs is None:
        return None
    split = [pair.partition("=") for pair in pairs]
    if not all(first and second for first, _, second in split):
        raise InvalidParameter("--pair takes COLUMN=COLUMN.", "Use for example --pair age=sex.")
    return [(first, second) for first, _, second in split]


def _tell_plan(model: PrivateSynthesizer, table: Path, account: Account | None, as_json: bool) -> None:
    from sudare.report import strength_of
    from sudare.report.numbers import rounded_down, rounded_up

    plan, rows = model.rehearsed(table)
    promise = plan.guarantee
    word = strength_of(promise.epsilon, promise.delta).word
    values: dict[str, Any] = {
        "dry_run": True,
        "guarantee": promise.to_dict(),
        "strength": word,
        "clipped": {name: count for name, count in rows.clipped.items() if count},
    }
    price = f"This would cost ε = {rounded_up(promise.epsilon)} ({word})."
    if account is not None:
        quote = account.quote(promise, plan.mechanism.cost)
        values |= {"account": account.name, "asked": quote.asked._asdict(), "admitted": quote.admitted,
                   "left_before": quote.left_before._asdict(), "left_after": quote.left_after._asdict()}  # fmt: skip
        after = (
            f"ε = {rounded_down(quote.left_after.epsilon)} would be left" if quote.admitted else "it would be refused"
        )
        price = (
            f"This would cost ε = {rounded_up(quote.asked.epsilon)} of account '{account.name}' ({word}), "
            f"which has ε = {rounded_down(quote.left_before.epsilon)} left; {after}."
        )
    answer(values, as_json, f"{promise}.", price, "Dry run: nothing was counted, charged or written.")


def _save(model: PrivateSynthesizer, signing: tuple[Path, Any], as_json: bool) -> None:
    from sudare.privacy import Release
    from sudare.report import strength_of
    from sudare.report.numbers import rounded_down

    output, key = signing
    Release.of(model).save(output, key=key)
    promise, left = model.guarantee_, model.account.remaining() if model.account else None
    word = strength_of(promise.epsilon, promise.delta).word
    values = {
        "output": str(output),
        "guarantee": promise.to_dict(),
        "strength": word,
        "pairs": [list(pair) for pair in model.pairs_],
        "receipt": model.receipt_.to_dict() if model.receipt_ else None,
        "remaining": left._asdict() if left else None,
        "clipped": {name: count for name, count in model.clipped_.items() if count},
    }
    answer(
        values,
        as_json,
        f"Wrote {output}: {promise} ({word}); {len(model.pairs_)} pairs of columns. Draw rows with `sudare sample {output}`.",
        f"Account '{model.account.name if model.account else ''}' has ε = {rounded_down(left.epsilon if left else 0.0)} left.",
        f"{sum(model.clipped_.values()):,} values lay outside the bounds and were clipped; only you see this.",
    )

"""`sudare fit`: from a table to a signed release, charged to an account."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.answers import DEFAULT_LEDGER, AsJson, DryRun, LedgerAddress, answer, progress, reported
from sudare.errors import InvalidParameter, ReleaseExists

if TYPE_CHECKING:
    from sudare.privacy import Account, Ledger
    from sudare.privacy.ledger import Quote
    from sudare.schema import Schema


class Statistic(StrEnum):
    """What can be released from the shell."""

    MEAN = "mean"
    HISTOGRAM = "histogram"
    SCALER = "scaler"


class Filter(StrEnum):
    """How charges add up in a new account."""

    BASIC = "basic"
    GAUSSIAN = "gaussian"


@reported
def fit(
    statistic: Annotated[
        Statistic, typer.Argument(metavar="mean|histogram|scaler", help="Which statistic of all declared columns.")
    ],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A Parquet or CSV file, or a folder of Parquet files.")
    ],
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="The public facts about the columns (TOML).")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε of the guarantee, charged to the account.")],
    account: Annotated[str, typer.Option("--account", metavar="NAME", help="The account that pays.")],
    delta: Annotated[
        float, typer.Option("--delta", help="The δ of the guarantee; above 0 the noise is Gaussian.")
    ] = 0.0,
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
        Path | None, typer.Option("--key", metavar="FILE", help="Your Ed25519 private key (PEM) to sign with.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Charge an account, compute a private statistic of a table, and write it as a signed release."""
    from sudare.cli.rehearsal import ledger_or_copy
    from sudare.frames import read
    from sudare.schema import Schema

    declared = Schema.load(schema)
    # All that can go wrong after the charge is looked at before it.
    signing = None if dry_run else ready_to_sign(output, key)
    with progress(as_json) as tell:
        tell("reading the table")
        rows = read(table, schema=declared)
        with ledger_or_copy(ledger, dry_run and budget is not None, create=budget is not None) as opened:
            payer = paying_account(opened, account, table, declared, budget, budget_delta, composition)
            model = _learner(statistic)(epsilon=epsilon, delta=delta, schema=declared, account=payer)
            if signing is None:
                _tell_price(model.price(rows), account, as_json)
                return
            tell("charging, then computing")
            model.fit(rows)
    _save(model, signing, as_json)


def ready_to_sign(output: Path | None, key: Path | None) -> tuple[Path, Any]:
    """Where the release goes and the key it is signed with; looked at before anything is charged."""
    from sudare.cli.keys import private_key

    if output is None or key is None:
        raise InvalidParameter("A release needs --output and --key.", "Give both, or --dry-run to see the price only.")
    if output.exists():
        raise ReleaseExists(f"'{output.name}' exists already.", ReleaseExists.help)
    if not output.absolute().parent.is_dir():
        raise InvalidParameter(f"There is no folder for '{output}'.", "Make it first. Nothing was charged.")
    return output, private_key(key)


def paying_account(
    ledger: Ledger,
    name: str,
    table: Path,
    schema: Schema,
    budget: float | None,
    budget_delta: float | None,
    composition: Filter | None,
) -> Account:
    """The account of that name, opened and bound to the table if a budget is given and there is none yet."""
    if budget is None:
        return ledger.account(name)
    unit: Any = "record" if schema.person is None else "person"
    filter_name: Any = None if composition is None else composition.value
    return ledger.account(name, budget, budget_delta, unit=unit, composition=filter_name, source=table)


def _learner(statistic: Statistic) -> Any:
    from sudare.privacy import PrivateHistogram, PrivateMean, PrivateStandardScaler

    learners = {
        Statistic.MEAN: PrivateMean,
        Statistic.HISTOGRAM: PrivateHistogram,
        Statistic.SCALER: PrivateStandardScaler,
    }
    return learners[statistic]


def _tell_price(quote: Quote, account: str, as_json: bool) -> None:
    from sudare.report import strength_of
    from sudare.report.numbers import rounded_down, rounded_up

    values = {
        "dry_run": True,
        "account": account,
        "asked": quote.asked._asdict(),
        "left_before": quote.left_before._asdict(),
        "left_after": quote.left_after._asdict(),
        "admitted": quote.admitted,
        "strength": strength_of(*quote.asked).word,
    }
    delta = f", δ = {rounded_up(quote.asked.delta)}" if quote.asked.delta else ""
    verdict = (
        f"after it ε = {rounded_down(quote.left_after.epsilon)} would be left"
        if quote.admitted
        else "it would be refused"
    )
    answer(
        values,
        as_json,
        f"This would cost ε = {rounded_up(quote.asked.epsilon)}{delta} of account '{account}' ({values['strength']}), "
        f"which has ε = {rounded_down(quote.left_before.epsilon)} left; {verdict}.",
        "Dry run: nothing was computed, charged or written.",
    )


def _save(model: Any, signing: tuple[Path, Any], as_json: bool) -> None:
    from sudare.privacy import Release
    from sudare.report import strength_of
    from sudare.report.numbers import rounded_down

    output, key = signing
    Release.of(model).save(output, key=key)
    promise, left = model.guarantee_, model.account.remaining()
    word = strength_of(promise.epsilon, promise.delta).word
    values = {
        "output": str(output),
        "guarantee": promise.to_dict(),
        "strength": word,
        "receipt": model.receipt_.to_dict(),
        "remaining": left._asdict(),
        "clipped": {name: count for name, count in model.clipped_.items() if count},
    }
    clipped = sum(model.clipped_.values())
    answer(
        values,
        as_json,
        f"Wrote {output}: {promise} ({word}).",
        f"Account '{model.account.name}' has ε = {rounded_down(left.epsilon)} left.",
        f"{clipped:,} values lay outside the bounds and were clipped; only you see this.",
    )

"""`sudare fit`: from a table to a signed release, charged to an account."""

from __future__ import annotations

import functools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli import charged_commands as paying
from sudare.cli.answers import answer, progress, reported
from sudare.cli.options import (
    ChargedDelta,
    ChargedEpsilon,
    Cluster,
    Slices,
    TableFile,
    sliced,
)

if TYPE_CHECKING:
    from sudare.privacy.ledger import Account, Quote


class Statistic(StrEnum):
    """What can be released from the shell."""

    MEAN = "mean"
    HISTOGRAM = "histogram"
    TABLE = "table"
    QUANTILES = "quantiles"
    SCALER = "scaler"


@reported
@paying.charging
def fit(
    statistic: Annotated[
        Statistic,
        typer.Argument(
            metavar="mean|histogram|quantiles|table|scaler",
            help="Which statistic of all declared columns; a table has counts, means, variances and quantiles by group.",
        ),
    ],
    table: TableFile,
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="The public facts about the columns (TOML).")
    ],
    epsilon: ChargedEpsilon,
    account: Annotated[str, typer.Option("--account", metavar="NAME", help="The account that pays.")],
    delta: ChargedDelta = 0.0,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="COLUMN", help="A column that a table groups by; may be repeated."),
    ] = None,
    mean_of: Annotated[
        list[str] | None,
        typer.Option("--mean-of", metavar="COLUMN", help="A column whose means a table has; may be repeated."),
    ] = None,
    variance_of: Annotated[
        list[str] | None,
        typer.Option("--variance-of", metavar="COLUMN", help="A column whose variances a table has; may be repeated."),
    ] = None,
    quantile_of: Annotated[
        list[str] | None,
        typer.Option("--quantile-of", metavar="COLUMN", help="A column whose quantiles are wanted; may be repeated."),
    ] = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option("--quantile", help="Which quantile, the median (0.5) if none is given; may be repeated."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key-column",
            metavar="COLUMN",
            help="A column that a table groups by though nobody declared its values; needs --delta.",
        ),
    ] = None,
    neighbours: Annotated[
        str, typer.Option("--neighbours", help="replace-one, or add-remove where the number of rows is secret.")
    ] = "replace-one",
    slices: Slices = None,
    cluster: Cluster = None,
    *,
    charge: paying.ChargedOptions,
) -> None:
    """Charge an account, compute a private statistic of a table, and write it as a signed release."""
    from sudare.schema import Schema

    declared = Schema.load(schema)
    lists = {"by": by, "keys": keys, "mean_of": mean_of, "variance_of": variance_of, "quantile_of": quantile_of}
    asked = _asked(statistic, {name: given or [] for name, given in lists.items()}, quantile, neighbours)
    signing, source = charge.signing(), sliced(charge.source(table), declared, slices)
    learner = functools.partial(
        _learner(statistic), epsilon=epsilon, delta=delta, schema=declared, cluster=cluster, **asked
    )
    with progress(charge.as_json) as tell:
        tell("looking through the table" if signing is None else "looking through the table, then charging")
        model = paying.fitted_or_planned(
            charge.payment(account, table, neighbours), declared, source, signing,
            make=lambda payer: learner(account=payer),
            tell_plan=lambda model: _tell_price(model.price(source), model.account, neighbours, charge.as_json),
        )  # fmt: skip
    if signing is not None:
        _save(model, signing, neighbours, charge.as_json)


def _learner(statistic: Statistic) -> Any:
    from sudare.statistics import (
        GroupedTable,
        PrivateHistogram,
        PrivateMean,
        PrivateQuantiles,
        PrivateStandardScaler,
    )

    learners = {
        Statistic.TABLE: GroupedTable,
        Statistic.MEAN: PrivateMean,
        Statistic.HISTOGRAM: PrivateHistogram,
        Statistic.QUANTILES: PrivateQuantiles,
        Statistic.SCALER: PrivateStandardScaler,
    }
    return learners[statistic]


def _asked(
    statistic: Statistic, lists: dict[str, list[str]], quantile: list[float] | None, neighbours: str
) -> dict[str, Any]:
    """Parameters of this statistic and of no other. Raise InvalidParameter where an option belongs to another one."""
    from sudare.errors import InvalidParameter

    quantiles = {} if quantile is None else {"quantiles": sorted(quantile)}
    if statistic is Statistic.TABLE:
        return {**lists, **quantiles, "neighbours": neighbours}
    columns = lists["quantile_of"]
    if any(given for name, given in lists.items() if name != "quantile_of"):
        raise InvalidParameter(
            f"{statistic.capitalize()}: there are no groups.",
            "Leave --by, --key-column, --mean-of and --variance-of out, or ask for a table.",
        )
    if statistic is Statistic.QUANTILES:
        return {"quantile_of": columns or None, **quantiles, "neighbours": neighbours}
    if columns or quantiles:
        raise InvalidParameter(
            f"{statistic.capitalize()}: there are no quantiles.", "Ask for quantiles or for a table."
        )
    if statistic is Statistic.HISTOGRAM:
        return {"neighbours": neighbours}
    if neighbours != "replace-one":
        raise InvalidParameter(f"A {statistic} needs a public number of rows.", "Leave --neighbours out.")
    return {}


def _tell_price(quote: Quote, payer: Account, neighbours: str, as_json: bool) -> None:
    from sudare.report import strength_of

    word, account = strength_of(*quote.asked).word, payer.name
    answer(
        {"dry_run": True, **paying.quoted(quote, account), "strength": word},
        as_json,
        paying.price_text(quote, account, f" ({word})"),
        *paying.relation_lines(payer, neighbours),
        "Dry run: nothing was computed, charged or written.",
    )


def _save(model: Any, signing: paying.Signing, neighbours: str, as_json: bool) -> None:
    from sudare.privacy import Release
    from sudare.report import strength_of

    Release.of(model).save(signing.output, key=signing.key)
    promise = model.guarantee_
    word = strength_of(promise.epsilon, promise.delta).word
    values = {"output": str(signing.output), "guarantee": promise.to_dict(), "strength": word, **paying.paid(model)}
    lines = [*paying.paid_lines(model), *paying.relation_lines(model.account, neighbours)]
    answer(values, as_json, f"Wrote {signing.output}: {promise} ({word}).", *lines)

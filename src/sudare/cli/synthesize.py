"""`sudare synthesize` and `sudare sample`: a private synthetic table as a signed release, and rows drawn from it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli import charged_commands as paying
from sudare.cli import options
from sudare.cli.command_output import AsJson, Tell, answer, progress, reported
from sudare.cli.per_row_output_files import check_rows_output, spreadsheet_rows
from sudare.errors import InvalidParameter, NotReleasable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import pandas as pd

    from sudare.schema import Schema
    from sudare.synthesis import PrivateSynthesizer


class Engine(StrEnum):
    """How a synthetic table can be made."""

    MARGINALS = "marginals"
    ADAPTIVE = "adaptive"
    MICROAGGREGATION = "microaggregation"


@reported
@paying.charging
def synthesize(
    table: options.TableFile,
    schema: options.SchemaOfAllColumns,
    epsilon: options.ChargedEpsilon,
    delta: options.ChargedDelta = 0.0,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="The column to predict later; without it the schema's target."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            "--engine",
            help="Noisy counts of columns and pairs; pairs chosen one after another; or noisy means of groups (Sei and Ohsuga).",
        ),
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
    account: options.AccountOrTableName = None,
    *,
    charge: paying.ChargedOptions,
) -> None:
    """Count a table with noise, and write what synthetic rows can be drawn from as a signed release (see `sudare sample`)."""
    from sudare.schema import Schema
    from sudare.synthesis import PrivateSynthesizer

    declared, source, signing = Schema.load(schema), charge.source(table), charge.signing()
    asked: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "label": label, "engine": engine.value, "groups": groups,
        "tree": _tree(pairs),
    }  # fmt: skip
    with progress(charge.as_json) as tell:
        tell("looking through the table" if signing is None else "charging, then counting")
        model = paying.fitted_or_planned(
            charge.payment(account, table), declared, source, signing,
            make=lambda payer: PrivateSynthesizer(declared, **asked, account=payer),
            tell_plan=lambda model: _tell_plan(model, source, charge.as_json),
        )  # fmt: skip
    if signing is not None:
        _save(model, signing, charge.as_json)


@reported
def sample(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A release of `sudare synthesize`, usually NAME.sudare.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet or CSV file to write.")],
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            help="How many rows; without it as many as there were, by noisy counts where that is not public, and a million at most.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Draw the same rows again; this protects nobody and harms nobody.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", metavar="COLUMN=VALUE", help="Only rows with this value (engine adaptive); may be repeated."
        ),
    ] = None,
    trusted: options.TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Draw rows of nobody from a released synthetic table, and write them as Parquet, or as CSV where the file is called so. This costs nothing, however often."""
    from sudare.cli.inspect import read_release

    release, signature = read_release(file, trusted)
    if release.learner != "PrivateSynthesizer":
        raise NotReleasable(
            f"'{file.name}' holds a {release.learner}, not a synthetic table.", "Look at it with `sudare inspect`."
        )
    check_rows_output(output)
    model = release.model()
    count = model.rows_by_default if rows is None else rows
    with progress(as_json) as tell:
        _write_rows(output, model.sample_batches(count, seed, _given(given, model.declared_)), model.declared_, tell)
    told = model.n_rows_
    fewer = (
        ""
        if rows is not None or told is None or told <= count
        else (f" The release speaks of {told:,} rows; ask for more than these with --rows.")
    )
    checked = "" if signature == "trusted" else " The signature was NOT CHECKED against a key you trust."
    answer(
        {"output": str(output), "rows": count, "columns": list(model.declared_.columns), "signature": signature,
         "guarantee": release.guarantee.to_dict()},
        as_json,
        f"Wrote {output}: {count:,} synthetic rows; {release.guarantee}.{fewer}{checked}",
    )  # fmt: skip


def _write_rows(output: Path, batches: Iterator[pd.DataFrame], declared: Schema, tell: Tell) -> None:
    """Write rows as they are drawn to a new file, of the kind that its name says; where that fails, no part of it stays."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    is_csv = output.suffix == ".csv"
    if is_csv:
        batches = (_with_dates_as_text(batch, declared) for batch in batches)
    first = pa.Table.from_pandas(next(batches), preserve_index=False)
    written = spreadsheet_rows(first) if is_csv else first
    make: Any = pyarrow.csv.CSVWriter if is_csv else pyarrow.parquet.ParquetWriter
    try:
        with make(output, written.schema) as writer:
            writer.write_table(written)
            rows = first.num_rows
            for batch in batches:
                table = pa.Table.from_pandas(batch, schema=first.schema, preserve_index=False)
                writer.write_table(spreadsheet_rows(table) if is_csv else table)
                rows += len(batch)
                tell(f"{rows:,} rows")
    except OSError as error:
        output.unlink(missing_ok=True)
        raise InvalidParameter(
            f"'{output}' cannot be written ({error.strerror}).", "Ask for fewer rows, or choose another folder."
        ) from None
    except BaseException:
        output.unlink(missing_ok=True)
        raise


def _with_dates_as_text(batch: pd.DataFrame, declared: Schema) -> pd.DataFrame:
    """The rows with dates as the schema reads them: in the declared format, and else in ISO 8601."""
    from sudare.schema import Date

    texts = {}
    for name, column in declared.columns.items():
        if isinstance(column, Date):
            is_day = column.unit in ("week", "day")
            texts[name] = batch[name].dt.strftime(column.format or ("%Y-%m-%d" if is_day else "%Y-%m-%dT%H:%M:%S"))
    return batch.assign(**texts)


def _given(words: list[str] | None, declared: Schema) -> dict[str, object] | None:
    """The values of COLUMN=VALUE, as the columns have them: numbers, or the category that is written so."""
    if words is None:
        return None
    from sudare.schema import Number
    from sudare.schema.columns import level_text

    found: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        column = declared.columns.get(name)
        if not equals or column is None or name in found:
            raise InvalidParameter(
                "--given takes COLUMN=VALUE of different declared columns.", "Use for example --given sex=female."
            )
        if isinstance(column, Number):
            try:
                found[name] = float(text)
            except ValueError:
                raise InvalidParameter(
                    f"--given {name}= takes a number, because the column is one.", "Use for example --given age=40."
                ) from None
        else:
            found[name] = next((level for level in column.levels if level_text(level) == text), text)
    return found


def _tree(pairs: list[str] | None) -> list[tuple[str, str]] | None:
    if pairs is None:
        return None
    split = [pair.partition("=") for pair in pairs]
    if not all(first and second for first, _, second in split):
        raise InvalidParameter("--pair takes COLUMN=COLUMN.", "Use for example --pair age=sex.")
    return [(first, second) for first, _, second in split]


def _tell_plan(model: PrivateSynthesizer, table: str | os.PathLike[str], as_json: bool) -> None:
    from sudare.report import strength_of

    plan, rows = model.dry_run(table)
    promise = plan.guarantee
    word = strength_of(promise.epsilon, promise.delta).word
    charge, price = paying.price_of_plan(plan, model.account, word)
    values = {
        "dry_run": True,
        "guarantee": promise.to_dict(),
        "strength": word,
        "clipped": paying.clipped_columns(rows.clipped),
        **charge,
    }
    answer(values, as_json, f"Guarantee: {plan.guarantee}.", price, "Dry run: nothing was counted, charged or written.")


def _save(model: PrivateSynthesizer, signing: paying.Signing, as_json: bool) -> None:
    from sudare.privacy import Release
    from sudare.report import strength_of

    output, promise = signing.output, model.guarantee_
    Release.of(model).save(output, key=signing.key)
    word = strength_of(promise.epsilon, promise.delta).word
    values = {
        "output": str(output),
        "guarantee": promise.to_dict(),
        "strength": word,
        "pairs": [list(pair) for pair in model.pairs_],
        **paying.paid(model),
    }
    answer(
        values,
        as_json,
        f"Wrote {output}: {promise} ({word}); {len(model.pairs_)} pairs of columns. Draw rows with `sudare sample {output} -o rows.parquet`.",
        *([f"How far every pair may be off: `sudare show {output}`."] if model.engine == "adaptive" else []),
        *paying.paid_lines(model),
    )

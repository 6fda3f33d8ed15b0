"""`sudare predict`: what a released model says of new records. It stays with whoever has the records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.language import ToldTable, spoken
from sudare.cli.options import CsvFacts, Encoding, HasHeader, TableFile, TrustedKeys, table_source
from sudare.cli.per_row_output_files import check_rows_output, write_rows
from sudare.cli.prediction_date_formats import DateFormats, dates_with_formats, with_dates_read
from sudare.errors import ColumnMissing, InvalidParameter, SourceUnreadable
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sudare.schema import Date, DatePart, Schema

_STAYS: Final = "Predictions are about single records and stay with you: they are no release."
_OWN: Final = "A combined model is a file of your own and has no signature; the models in it were NOT CHECKED against keys you trust; give --trusted."
_OWN_TRUSTED: Final = "A combined model is a file of your own and has no signature; each of the models in it is signed by a key you trust."
_SHOWN: Final = 10
_PROBABILITY: Final = "probability_"


@dataclass(frozen=True)
class Predictor:
    """A model that predicts, the columns that it reads, whose signature was looked at, and what is said of that."""

    model: Any
    declared: Schema
    learner: str
    signature: str
    signature_lines: list[str]


@reported
def predict(
    file: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A released model, or a file that `sudare combine` wrote.")
    ],
    table: TableFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write every row's prediction to a new .csv or .parquet file."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of every class, where the model tells it.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="A column of the table to write along, such as its key; may be repeated."),
    ] = None,
    has_header: HasHeader = None,
    encoding: Encoding = None,
    csv: CsvFacts = None,
    date_formats: DateFormats = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Predict for the rows of a table with a released model. It costs nothing: the model's records are protected by its release.

    Columns are read by the schema that the release carries. Predictions are for whoever has the records; they are no release.
    """
    check_rows_output(output)
    keep = _kept(keep or [])
    predictor = opened_predictor(file, trusted)
    if proba and not hasattr(predictor.model, "predict_proba"):
        raise InvalidParameter(f"A {predictor.learner} tells no probabilities.", "Leave --proba out.")
    dates = dates_with_formats(date_formats or [], predictor.declared)
    with progress(as_json) as tell:
        tell("predicting")
        try:
            columns = _predicted(predictor, table_source(table, has_header, encoding, csv), dates, proba, keep)
        except ColumnMissing as missing:
            # Whoever has a release cannot change its schema.
            raise ColumnMissing(
                missing.problem, "Rename or add columns of the table: those that a model reads are fixed."
            ) from None
    if output is not None:
        write_rows(output, columns)
    rows = len(columns["row"])
    values = {
        "file": str(file), "learner": predictor.learner, "signature": predictor.signature, "rows": rows,
        "output": None if output is None else str(output), "release": False,
        "predictions": columns if output is None else None,
    }  # fmt: skip
    shown = [f"Wrote {output}; only you can read it."] if output is not None else _lines(columns, keep)
    answer(values, as_json, f"{rows:,} rows.", *shown, _STAYS, *predictor.signature_lines)


def _kept(names: list[str]) -> list[str]:
    """The columns to write along, each once. Raise InvalidParameter where one is called like a column of the result."""
    taken = [name for name in names if name in ("row", "prediction") or name.startswith(_PROBABILITY)]
    if taken:
        raise InvalidParameter(
            "--keep: the result has columns 'row', 'prediction' and 'probability_…' of its own.",
            "Rename the column of the table.",
        )
    return list(dict.fromkeys(names))


def opened_predictor(file: Path, trusted: list[Path] | None) -> Predictor:
    """The model in a file. Raise InvalidParameter where it cannot predict for the rows of a table."""
    from sudare.experts.combined_model_file import is_combined_model, read_combined_model

    try:
        is_combined = is_combined_model(file)
    except OSError as error:
        raise SourceUnreadable(f"'{file.name}' cannot be read ({error.strerror}).", "Check the path.") from None
    if is_combined:
        from sudare.cli.key_files import public_key

        keys = [public_key(path) for path in trusted] if trusted else None
        combined = read_combined_model(file, keys)
        declared = combined.expert_set_.models[0].declared_
        return Predictor(combined, declared, type(combined).__name__, "own", [_OWN if keys is None else _OWN_TRUSTED])
    release, signature = read_release(file, trusted)
    model = release.model()
    if not hasattr(model, "predict"):
        raise InvalidParameter(
            f"A {release.learner} predicts nothing.", "Its numbers are shown by `sudare show`; give a released model."
        )
    if getattr(model, "schema_digest_", None) is None:
        raise InvalidParameter(
            f"This {release.learner} was fitted to an array, so that its columns have no names.",
            "Predict from Python, with an array of the same columns.",
        )
    return Predictor(model, model.declared_, release.learner, signature, signature_lines(signature))


def _predicted(
    predictor: Predictor, source: object, dates: Mapping[str, Date | DatePart], proba: bool, keep: list[str]
) -> dict[str, Any]:
    """Columns of the result: number of the row, kept columns, prediction, probabilities."""
    from sudare.frames import batches
    from sudare.schema.columns import level_text

    features = list(predictor.declared.features)
    read = list(dict.fromkeys([*features, *keep]))
    columns: dict[str, list[Any]] = {"row": [], **{name: [] for name in keep}, "prediction": []}
    for batch in batches(source, read, schema=predictor.declared):
        rows = with_dates_read(batch.select(features), dates)
        for name in keep:
            columns[name] += batch.column(name).to_pylist()
        found = predictor.model.predict(rows)
        start = len(columns["row"])
        columns["row"] += range(start + 1, start + len(found) + 1)
        columns["prediction"] += found.tolist()
        if proba:
            labels = map(level_text, predictor.model.classes_.tolist())
            for label, chances in zip(labels, predictor.model.predict_proba(rows).T, strict=True):
                columns.setdefault(f"{_PROBABILITY}{label}", []).extend(chances.tolist())
    return columns


def _lines(columns: dict[str, Any], keep: list[str]) -> list[Any]:
    """The first rows as a table with headings in the reader's language, and how many more there are."""
    shown = ToldTable(box=None, pad_edge=False)
    for name in columns:
        shown.add_column(Text(escaped_for_terminal(name if name in keep else _heading(name))), overflow="fold")
    rows = list(zip(*(values[:_SHOWN] for values in columns.values()), strict=True))
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    more = len(columns["row"]) - len(rows)
    return [shown, *([f"… and {more:,} more; write them with --output FILE."] if more else [])]


def _heading(name: str) -> str:
    """What stands above a column of the result, which files call by its name."""
    if name.startswith(_PROBABILITY):
        label = name.removeprefix(_PROBABILITY)
        return spoken(f"probability of '{label}'")
    return spoken("row number" if name == "row" else "predicted")


def _cell(value: object) -> str:
    from sudare.report.number_formatting import six_digits

    if isinstance(value, bool):
        return str(value).lower()
    return six_digits(value) if isinstance(value, float) else escaped_for_terminal(str(value))

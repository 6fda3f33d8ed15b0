"""`sudare predict`: what a released model says of new records. It stays with whoever has the records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sudare.cli.answers import AsJson, answer, progress, reported
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.options import CsvFacts, Encoding, HasHeader, TableFile, TrustedKeys, table_source
from sudare.cli.row_files import check_rows_output, write_rows
from sudare.errors import InvalidParameter, SourceUnreadable

if TYPE_CHECKING:
    from sudare.schema import Schema

_STAYS: Final = "Predictions are about single records and stay with you: they are no release."
_SHOWN: Final = 10


@dataclass(frozen=True)
class Predictor:
    """A model that predicts, the columns that it reads, and whose signature was looked at."""

    model: Any
    declared: Schema
    learner: str
    signature: str


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
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Predict for the rows of a table with a released model. It costs nothing: the model's records are protected by its release.

    Columns are read by the schema that the release carries. Predictions are for whoever has the records; they are no release.
    """
    check_rows_output(output)
    predictor = opened_predictor(file, trusted)
    if proba and not hasattr(predictor.model, "predict_proba"):
        raise InvalidParameter(f"A {predictor.learner} tells no probabilities.", "Leave --proba out.")
    with progress(as_json) as tell:
        tell("predicting")
        columns = _predicted(predictor, table_source(table, has_header, encoding, csv), proba, keep or [])
    if output is not None:
        write_rows(output, columns)
    rows = len(columns["row"])
    values = {
        "file": str(file), "learner": predictor.learner, "signature": predictor.signature, "rows": rows,
        "output": None if output is None else str(output), "release": False,
        "predictions": columns if output is None else None,
    }  # fmt: skip
    shown = [f"Wrote {output}; only you can read it."] if output is not None else _lines(columns)
    answer(values, as_json, f"{rows:,} rows.", *shown, _STAYS, *signature_lines(predictor.signature))


def opened_predictor(file: Path, trusted: list[Path] | None) -> Predictor:
    """The model in a file. Raise InvalidParameter where it cannot predict for the rows of a table."""
    from sudare.experts.combined_model_file import is_combined_model, read_combined_model

    try:
        is_combined = is_combined_model(file)
    except OSError as error:
        raise SourceUnreadable(f"'{file.name}' cannot be read ({error.strerror}).", "Check the path.") from None
    if is_combined:
        combined = read_combined_model(file)
        return Predictor(combined, combined.expert_set_.models[0].declared_, type(combined).__name__, "own")
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
    return Predictor(model, model.declared_, release.learner, signature)


def _predicted(predictor: Predictor, source: object, proba: bool, keep: list[str]) -> dict[str, Any]:
    """Columns of the result: number of the row, kept columns, prediction, probabilities."""
    from sudare.frames import batches

    features = list(predictor.declared.features)
    read = list(dict.fromkeys([*features, *keep]))
    columns: dict[str, list[Any]] = {"row": [], **{name: [] for name in keep}, "prediction": []}
    for batch in batches(source, read, schema=predictor.declared):
        rows = batch.select(features)
        for name in keep:
            columns[name] += batch.column(name).to_pylist()
        found = predictor.model.predict(rows)
        start = len(columns["row"])
        columns["row"] += range(start + 1, start + len(found) + 1)
        columns["prediction"] += found.tolist()
        if proba:
            for label, chances in zip(predictor.model.classes_, predictor.model.predict_proba(rows).T, strict=True):
                columns.setdefault(f"probability_{label}", []).extend(chances.tolist())
    return columns


def _lines(columns: dict[str, Any]) -> list[str]:
    rows = list(zip(*(values[:_SHOWN] for values in columns.values()), strict=True))
    more = len(columns["row"]) - len(rows)
    written = ["  ".join(columns), *("  ".join(_cell(value) for value in row) for row in rows)]
    return [*written, *([f"… and {more:,} more; write them with --output FILE."] if more else [])]


def _cell(value: object) -> str:
    from sudare.report.numbers import six_digits

    return six_digits(value) if isinstance(value, float) else str(value)

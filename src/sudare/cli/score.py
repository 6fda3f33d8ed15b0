"""`sudare score`: new records against this member's dictionary of patterns. What it tells stays with the member."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.key_files import MemberFile
from sudare.cli.options import CsvFacts, Encoding, HasHeader, TableFile, table_name, table_source
from sudare.cli.per_row_output_files import check_rows_output, write_rows
from sudare.cli.plot_files import check_picture, draw
from sudare.errors import DataError, InvalidParameter, SourceUnreadable

if TYPE_CHECKING:
    from sudare.dictionary import MemberModel
    from sudare.dictionary.anomaly_scoring import ScoredRecords, UnusualRecord
    from sudare.schema import Schema
    from sudare.schema.table_from_any_frame import Table

# Reasons take records × patterns × columns numbers, so blocks are smaller than where only sums are taken.
_BLOCK_ROWS = 8192
_DEFAULT_RATE = 0.01
_NO_RELEASE = "These are exact numbers about single records: for this member's eyes, not a release."


TaskName = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="The dictionary task whose result in results/NAME is used."),
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", metavar="FILE", help="A dictionary.json instead of --task; needs --schema.")
]
ModelSchema = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="With --model: the schema it was trained with.")
]
FalseAlarmRate = Annotated[
    float | None,
    typer.Option(
        "--false-alarm-rate",
        metavar="SHARE",
        help="Share of usual records that may be above the threshold. Default: as agreed for the task, or 0.01.",
    ),
]
UsualRecords = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        metavar="TABLE",
        help="Usual records that were not used in training: the threshold then holds whatever the model is worth.",
    ),
]
Window = Annotated[
    int,
    typer.Option(
        "--window",
        min=1,
        max=100_000,
        metavar="RECORDS",
        help="For rows in the order of time: scores are means over so many rows up to each. Needs --calibrate.",
    ),
]
RowLabel = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="A column that names a row, such as its time. Default: numbers."),
]
HowMany = Annotated[int, typer.Option("--top", min=1, max=1000, help="How many of the highest scores are explained.")]
ScoresFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write every row's score to a new .csv or .parquet file."),
]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the scores into a new PNG or SVG file.")
]
OnlyLook = Annotated[
    bool, typer.Option("--dry-run", help="Look at model, table and threshold only. Nothing is scored or written.")
]


@reported
def score(
    table: TableFile,
    task: TaskName = None,
    member: MemberFile = Path("member.toml"),
    model: ModelFile = None,
    schema: ModelSchema = None,
    false_alarm_rate: FalseAlarmRate = None,
    calibrate: UsualRecords = None,
    window: Window = 1,
    label: RowLabel = None,
    has_header: HasHeader = None,
    encoding: Encoding = None,
    csv: CsvFacts = None,
    top: HowMany = 5,
    output: ScoresFile = None,
    plot: PlotFile = None,
    dry_run: OnlyLook = False,
    as_json: AsJson = False,
) -> None:
    """Score records by this member's dictionary: −ln p, the larger the stranger, and which columns are to blame.

    What is told and written is exact and about single records. It is for this member and no release: do not pass it on.
    It costs nothing, because nothing leaves. Ends with 0 whether or not records are above the threshold.
    """
    check_picture(plot)
    check_rows_output(output)
    with progress(as_json) as tell:
        tell("opening the dictionary")
        detector, rate = _detector(task, member, model, schema, false_alarm_rate)
        detector = detector.smoothed(window)
        if calibrate is not None:
            tell("calibrating")
            detector = detector.calibrated(_calibration(table_source(calibrate, has_header, encoding, csv), detector))
        threshold = detector.threshold(rate)
        told = _Told(threshold, rate, 0 if detector.calibration is None else len(detector.calibration) * window)
        source = _Source(table_name(table), table_source(table, has_header, encoding, csv), detector, label)
        if dry_run:
            _tell_plan(source, told, as_json)
            return
        tell("scoring")
        from sudare.dictionary.anomaly_scoring import scored_records

        found = scored_records(detector, source.blocks(), top, each_column=output is not None)
    files = _written(found, source, told, output, plot)
    _tell(found, source, told, files, as_json)


@dataclass(frozen=True)
class _Told:
    """The threshold, the rate it is set for, and from how many records it comes: none is the model's own word."""

    threshold: float
    rate: float
    calibration_records: int

    def values(self) -> dict[str, Any]:
        return {
            "value": self.threshold,
            "false_alarm_rate": self.rate,
            "calibration_records": self.calibration_records or None,
        }

    def text(self) -> str:
        from sudare.report.number_formatting import nearest, one_in

        odds = one_in(self.rate).removeprefix("1 in ")
        origin = (
            f"set on {self.calibration_records:,} usual records"
            if self.calibration_records
            else "by the model's own word; --calibrate makes it hold whatever the model is worth"
        )
        return f"the threshold {nearest(self.threshold)} for 1 false alarm in {odds} ({origin})"


@dataclass
class _Source:
    """The records, and what their rows are called; names are known once the blocks were read."""

    title: str
    rows: str | os.PathLike[str]
    model: MemberModel
    label: str | None
    names: list[str] = field(default_factory=list)

    def blocks(self) -> Iterator[Table]:
        from sudare.frames import batches

        columns = list(dict.fromkeys([*self.model.columns, *([] if self.label is None else [self.label])]))
        for block in batches(self.rows, columns, _BLOCK_ROWS, schema=self.model.schema):
            if self.label is not None:
                self.names.extend(str(name) for name in block.column(self.label).to_pylist())
            yield block

    def name(self, position: int) -> str:
        return f"row {position + 1:,}" if self.label is None else self.names[position]


def _detector(
    task: str | None, member: Path, model: Path | None, schema: Path | None, rate: float | None
) -> tuple[MemberModel, float]:
    """The member's model, and the rate of false alarms that was asked for or agreed on."""
    from sudare.dictionary.member_model_file import member_model
    from sudare.schema import Schema

    if (task is None) == (model is None):
        raise InvalidParameter(
            "Which dictionary is wanted was not said, or twice.",
            "Give --task NAME, or --model FILE with --schema FILE.",
        )
    if (model is None) != (schema is None):
        raise InvalidParameter(
            "--model and --schema belong together.", "Give both; with --task the agreement has the schema."
        )
    agreed = _DEFAULT_RATE
    if model is not None and schema is not None:
        declared, file = Schema.load(schema), model
    else:
        declared, file, agreed = _agreed(str(task), member)
    chosen = agreed if rate is None else rate
    if not 0 < chosen < 1:
        raise InvalidParameter(
            f"--false-alarm-rate {chosen!r} is not between 0 and 1.", "Use for example 0.001: 1 in 1,000."
        )
    return member_model(_document(file), declared, chosen), chosen


def _agreed(name: str, member: Path) -> tuple[Schema, Path, float]:
    """Schema, result and rate of a member's dictionary task."""
    from sudare.consortium.agreement.member_settings import Member

    own = Member.load(member)
    agreement = own.agreement()
    task = agreement.task(name)
    if task.kind != "dictionary":
        raise InvalidParameter(
            f"Task '{name}' is of kind {task.kind}, not dictionary.", "Name a task that trains a dictionary."
        )
    file = own.folder / "results" / name / "dictionary.json"
    if not file.is_file():
        raise DataError(
            f"Task '{name}' has left no dictionary at this member.", f"Run it with the others first: sudare run {name}."
        )
    rate = task.parameters.get("false_alarm_rate", _DEFAULT_RATE)
    return agreement.schema, file, rate if isinstance(rate, float) else _DEFAULT_RATE


def _document(file: Path) -> object:
    from sudare.dictionary.member_model_file import read_document

    try:
        return read_document(file)
    except OSError as error:
        raise SourceUnreadable(f"'{file}' cannot be read ({error.strerror}).", "Check the path.") from None
    except ValueError:
        raise SourceUnreadable(
            f"'{file}' is not JSON.", "Give the dictionary.json that a dictionary task wrote at this member."
        ) from None


def _calibration(path: str | os.PathLike[str], model: MemberModel) -> Table:
    from sudare.frames import read

    return read(path, model.columns, model.schema)


def _tell_plan(source: _Source, told: _Told, as_json: bool) -> None:
    from sudare.frames import column_types, row_count
    from sudare.schema.table_from_any_frame import refuse_missing_columns

    wanted = [*source.model.columns, *([] if source.label is None else [source.label])]
    refuse_missing_columns(wanted, column_types(source.rows, wanted).names)
    rows = row_count(source.rows)
    values = {
        "dry_run": True,
        "rows": rows,
        "patterns": len(source.model.patterns),
        "columns": list(source.model.columns),
        "threshold": told.values(),
    }
    answer(
        values,
        as_json,
        f"{'The' if rows is None else f'{rows:,}'} records would be scored by {len(source.model.patterns)} patterns "
        f"of {len(source.model.columns)} columns, against {told.text()}.",
        "Dry run: nothing was scored or written.",
    )


def _written(found: ScoredRecords, source: _Source, told: _Told, output: Path | None, plot: Path | None) -> list[Path]:
    if output is not None:
        _write_scores(found, source, told, output)
    if plot is not None:
        from sudare.report.dictionary_charts import timeline

        panel = timeline(found.scores, told.threshold, x_label="record", y_label="score (−ln p)", title=source.title)
        draw(panel, file=plot)
    return [file for file in (output, plot) if file is not None]


def _write_scores(found: ScoredRecords, source: _Source, told: _Told, output: Path) -> None:
    """All scores in a file that only its owner may read."""
    columns: dict[str, Any] = {"row": range(1, len(found.scores) + 1)}
    if source.label is not None:
        columns["label"] = source.names
    columns |= {"score": found.scores, "above": found.scores > told.threshold, "mostly": found.columns}
    write_rows(output, columns)


def _tell(found: ScoredRecords, source: _Source, told: _Told, files: list[Path], as_json: bool) -> None:
    above = int((found.scores > told.threshold).sum())
    values = {
        "rows": len(found.scores),
        "above": above,
        "threshold": told.values(),
        "strangest": [_strange_values(each, source, told) for each in found.strangest],
        "scores": found.scores.tolist(),
        "files": [str(file) for file in files],
        "release": False,
    }
    first, *others = (f"{_strange_text(each, source)}." for each in found.strangest)
    answer(
        values,
        as_json,
        f"{len(found.scores):,} records; {above:,} above {told.text()}.",
        f"Worst: {first}",
        *(f"Then:  {line}" for line in others),
        *([f"Wrote {', '.join(map(str, files))}."] if files else []),
        _NO_RELEASE,
    )


def _strange_values(found: UnusualRecord, source: _Source, told: _Told) -> dict[str, Any]:
    return {
        "row": found.position + 1,
        "label": None if source.label is None else source.name(found.position),
        "score": found.score,
        "above": found.score > told.threshold,
        "columns": [{"column": column, "score": amount} for column, amount in found.reasons],
        "given": found.given,
    }


def _strange_text(found: UnusualRecord, source: _Source) -> str:
    from sudare.report.number_formatting import nearest

    (first, amount), *others = found.reasons
    given = "" if found.given is None else f" given '{found.given}'"
    rest = "".join(f", '{column}' ({nearest(part, 3)})" for column, part in others)
    return f"{source.name(found.position)}, score {nearest(found.score, 3)}, mostly '{first}'{given} ({nearest(amount, 3)}){rest}"

"""Sums over a Spark dataframe, made by its executors: `mapInArrow` gives them batches, and one sum for each partition comes back.

For sums of whole numbers, and others that add up without rounding: Spark does not say in which order rows come. As on other clusters,
executors see the rows, what goes wrong comes back as a value (`frames.worker_failures`), and noise is drawn by the caller alone.
"""

from __future__ import annotations

import functools
import io
import itertools
import operator
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import ClusterFailed, InvalidParameter, SudareError
from sudare.frames.fixed_order_summation import Sum
from sudare.frames.rows import Arrays, Rows, Tallied, array_width, changed_source, tallied
from sudare.frames.sources import DEFAULT_BATCH_ROWS
from sudare.frames.wanted_columns import wanted_columns
from sudare.frames.worker_failures import WorkerReader, checked_answer, guarded
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import attempt, no_rows

_NUMPY_NAMES: Final = {"_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar"}


class _Answers(pickle.Unpickler):
    """Reads what executors send: numbers, arrays of numpy, records and errors of sudare. Raise UnpicklingError for all else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class or numpy's own way to make an array."""
        if module.partition(".")[0] == "numpy" and name in _NUMPY_NAMES:
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.partition(".")[0] == "sudare" else None
        if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, (tuple, SudareError)))):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an answer.")
        return found


def is_spark(source: object) -> bool:
    """Whether a source is a Spark dataframe, as far as it is used here."""
    return all(hasattr(source, name) for name in ("mapInArrow", "select", "columns"))


def total_on_spark(
    frame: Any,
    part_of: Callable[[Any], Sum],
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
) -> Sum:
    """The sum of `part_of(table)` over all rows of a Spark dataframe; `columns` or the schema say which columns are read.

    Raise what the local reader raises where rows are not what was declared, and ClusterFailed where Spark fails.
    """
    if schema is not None and schema.person is not None:
        raise InvalidParameter(
            "The schema declares persons, whose rows cannot be counted across the partitions of a Spark dataframe.",
            "Write it to Parquet files, and give their path.",
        )
    names = wanted_columns(list(frame.columns), columns, schema)
    reader = WorkerReader(part_of, schema, columns, batch_rows)
    answers = attempt(
        lambda: frame.select(*names).mapInArrow(functools.partial(parts, reader), "part binary").collect()
    )
    if answers is None:
        raise ClusterFailed(
            "Spark could not add up the rows.", "See the log of its driver; sudare must be installed on all executors."
        )
    made = [_Answers(io.BytesIO(answer[0])).load() for answer in answers]
    found: list[Sum] = list(itertools.chain.from_iterable(map(checked_answer, made)))
    if not found:
        raise no_rows()
    return functools.reduce(operator.add, found)


@dataclass(frozen=True, eq=False, repr=False)
class SparkRows(Rows):
    """Rows of a Spark dataframe, encoded by its executors at every pass. They come in no fixed order, so only sums without rounding are taken."""

    frame: Any = None
    arrays_of: Callable[[Any], Arrays | Tallied] = field(default=tuple)
    schema: Schema | None = None
    columns: Sequence[str] | None = None

    def total(
        self, function: Callable[..., Sum], beside: NDArray[Any] | None = None, first_rows: int | None = None
    ) -> Sum:
        """As in `Rows`, for all rows at once."""
        if beside is not None or first_rows is not None:
            raise unordered()
        found = total_on_spark(
            self.frame, functools.partial(_counted, self.arrays_of, function), self.schema, self.columns
        )
        if found.rows != self.count:
            raise changed_source()
        value: Sum = found.value
        return value


@dataclass(frozen=True, eq=False, repr=False)
class _Counted:
    rows: int
    value: Any

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted(self.rows + other.rows, self.value + other.value)


def _counted(arrays_of: Callable[[Any], Arrays | Tallied], function: Callable[..., Any], table: Any) -> _Counted:
    arrays = tallied(arrays_of(table)).arrays
    return _Counted(len(arrays[0]), function(*arrays))


def _facts(arrays_of: Callable[[Any], Arrays | Tallied], table: Any) -> _Counted:
    made = tallied(arrays_of(table))
    # Widths are the same everywhere, and each table is one of so many.
    return _Counted(len(made.arrays[0]), np.array([1, array_width(made.arrays[0]), *made.tally], dtype=np.int64))


def spark_rows(
    frame: Any,
    arrays_of: Callable[[Any], Arrays | Tallied],
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
) -> Rows:
    """The rows of a Spark dataframe, all checked by its executors."""
    found = total_on_spark(frame, functools.partial(_facts, arrays_of), schema, columns)
    tables, width, *tally = found.value.tolist()
    if not found.rows:
        raise no_rows()

    def nowhere() -> Any:
        raise unordered()

    return SparkRows(
        nowhere, found.rows, width // tables, np.array(tally, dtype=np.int64), frame, arrays_of, schema, columns
    )


def unordered() -> InvalidParameter:
    """What is raised where rows are needed in their order."""
    return InvalidParameter(
        "The rows of a Spark dataframe come in no fixed order, and this needs one.",
        "Write it to Parquet files, and give their path.",
    )


def _added(reader: WorkerReader, tables: Iterator[pa.Table]) -> list[Any]:
    """The sum over all tables; nothing where there is none."""
    total: list[Any] = []
    for part in reader.made_of(tables):
        total = [total[0] + part] if total else [part]
    return total


def parts(reader: WorkerReader, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What an executor makes of the batches of a partition: one row, with their sum or with what went wrong."""
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    made = guarded(_added, reader, tables)
    yield pa.RecordBatch.from_pydict({"part": pa.array([pickle.dumps(made)], pa.binary())})

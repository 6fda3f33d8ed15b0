"""Sums over a Spark dataframe, made by its executors: `mapInArrow` gives them batches, and one sum for each partition comes back.

For sums of whole numbers, and others that add up without rounding: Spark does not say in which order rows come. As on other clusters
(`frames.cluster_rows`), executors see the rows, what goes wrong comes back as a value in our words, and noise is drawn by the caller alone.
"""

from __future__ import annotations

import functools
import itertools
import operator
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sudare.errors import ClusterFailed, InvalidParameter
from sudare.frames.cluster_rows import Reader, checked_answer, guarded
from sudare.frames.fixed_tree import Sum
from sudare.frames.sources import DEFAULT_BATCH_ROWS
from sudare.frames.wanted_columns import wanted_columns
from sudare.schema import Schema
from sudare.schema.frame_conversion import attempt, no_rows


def is_spark(source: object) -> bool:
    """Whether a source is a Spark dataframe, as far as this module uses it."""
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
    reader = Reader(part_of, schema, columns, batch_rows)
    answers = attempt(
        lambda: frame.select(*names).mapInArrow(functools.partial(parts, reader), "part binary").collect()
    )
    if answers is None:
        raise ClusterFailed(
            "Spark could not add up the rows.", "See the log of its driver; sudare must be installed on all executors."
        )
    # The executors run this program: what they send is trusted as it is.
    made = [pickle.loads(answer[0]) for answer in answers]  # noqa: S301
    found: list[Sum] = list(itertools.chain.from_iterable(map(checked_answer, made)))
    if not found:
        raise no_rows()
    return functools.reduce(operator.add, found)


def parts(reader: Reader, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What an executor makes of the batches of a partition: one row, with their sum or with what went wrong."""
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    made = guarded(reader.added, tables)
    yield pa.RecordBatch.from_pydict({"part": pa.array([pickle.dumps(made)], pa.binary())})

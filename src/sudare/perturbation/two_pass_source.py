"""Rows to be perturbed, read twice: once to count and check them before anything is charged, once to perturb them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Bytes, Words
from sudare.errors import DataError
from sudare.frames import column_types, source
from sudare.frames.keyed_tags import TagKeys
from sudare.frames.person_rows import changed, origin_of, tags_in
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Arrays, Rows
from sudare.frames.sources import DEFAULT_BATCH_ROWS, is_in_memory
from sudare.perturbation.answer_memory import AnswerMemory, has_repeats
from sudare.perturbation.epsilon_split import RecordPlan
from sudare.perturbation.one_column_per_record import perturbed_block
from sudare.perturbation.perturbed_table import stored_shape
from sudare.perturbation.uniform_shuffle import columns_of_bytes, row_bytes, rows_as_bytes
from sudare.privacy.noise import NoiseSource
from sudare.schema import Schema, as_table
from sudare.schema.column_values import declared_values
from sudare.schema.table_from_any_frame import column_names

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class CheckedRecords:
    """Rows that can be perturbed: one array a declared column; and, for the owner only, how many values will be clipped."""

    rows: Rows
    clipped: dict[str, int]


def checked_records(data: Any, declared: Schema, secret: bytes = b"") -> CheckedRecords:
    """The rows of any source, counted and checked before any charge.

    Every declared column is read. With a secret the last array has the tags of the rows' persons under it.
    Raise DataError where there are other columns: what is not perturbed does not leave.
    """
    names = list(declared.columns)
    person = declared.person if secret else None
    read = names if person is None else list(dict.fromkeys([*names, person.column]))
    keys = TagKeys.of(secret)
    if not is_in_memory(data):
        data = source(data)
        present: Sequence[str] = column_types(data, declared.source_columns).names
    else:
        present = column_names(data, names)
    undeclared = set(present) - {*declared.source_columns, *declared.drop}
    if undeclared:
        # Not named: a file without a header has values in their place.
        raise DataError(
            f"The table has {len(undeclared)} columns that the schema does not declare, so nothing perturbs them.",
            "Declare them, or name them in `drop` of the schema (sudare schema check lists them): what is not perturbed does not leave.",
        )
    clipped = dict.fromkeys(names, 0)

    def arrays_of(table: Any) -> Arrays:
        values, _, outside = declared_values(as_table(table, names), declared.columns)
        for name, count in outside.items():
            clipped[name] += count
        if person is None:
            return tuple(values.values())
        persons = as_table(table, [person.column], names_arrays=False)
        return *values.values(), tags_in(origin_of(data), persons, person.column, keys)

    rows = checked_rows(data, arrays_of, declared, read)
    # Later passes count again.
    return CheckedRecords(rows, dict(clipped))


def perturbed_parts(rows: Rows, plan: RecordPlan, noise: NoiseSource) -> Iterator[Columns]:
    """The rows perturbed, block by block and in their order, in the few bytes in which they are kept.

    Noise is drawn column by column within a block, so that blocks are the same however the rows are stored.
    """
    for part in rows.blocks(DEFAULT_BATCH_ROWS):
        yield perturbed_block(plan.perturbations, part, noise)


def perturbed(rows: Rows, plan: RecordPlan, noise: NoiseSource) -> Columns:
    """All rows perturbed, in their order: this is all that grows with the rows."""
    stored = {name: np.empty(*stored_shape(each, rows.count)) for name, each in plan.perturbations.items()}
    start = 0
    for part in perturbed_parts(rows, plan, noise):
        end = start + len(next(iter(part.values())))
        for name, column in part.items():
            stored[name][start:end] = column
        start = end
    return stored


@dataclass(frozen=True, eq=False, repr=False)
class FirstAnswers:
    """All rows of a collection as they are released, and what is new of them: tags of persons and rows of bytes."""

    stored: Columns
    tags: Words
    answers: Bytes


def answer_bytes(plan: RecordPlan) -> int:
    """How many bytes the answers of a person have."""
    return sum(row_bytes(np.empty(*stored_shape(each, 0))) for each in plan.perturbations.values())


def answered(rows: Rows, plan: RecordPlan, memory: AnswerMemory, noise: NoiseSource) -> FirstAnswers:
    """All rows in their order: the answers of a person in the memory as they are there, all others perturbed.

    Raise DataError where a person has two rows: the source has others than those that were checked.
    """
    width = answer_bytes(plan)
    kept = memory.answers(width)
    like = [np.empty(*stored_shape(each, 0)) for each in plan.perturbations.values()]
    parts: list[Bytes] = []
    tags: list[Words] = []
    is_new: list[NDArray[np.bool_]] = []
    for *values, persons in rows.blocks(DEFAULT_BATCH_ROWS):
        places = memory.places(persons)
        new = places < 0
        part = np.empty((len(places), width), np.uint8)
        part[~new] = kept[places[~new]]
        if new.any():
            drawn = perturbed_block(plan.perturbations, [column[new] for column in values], noise)
            part[new] = rows_as_bytes(list(drawn.values()))
        parts.append(part)
        tags.append(persons)
        is_new.append(new)
    all_answers, all_tags, all_new = np.concatenate(parts), np.concatenate(tags), np.concatenate(is_new)
    if has_repeats(all_tags):
        raise changed()
    stored = dict(zip(plan.perturbations, columns_of_bytes(all_answers, like), strict=True))
    return FirstAnswers(stored, all_tags[all_new], all_answers[all_new])

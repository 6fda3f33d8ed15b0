"""New records against a member's model, block by block: scores of all, and reasons for the strangest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_model import MemberModel, trailing_means, worst_columns
from sudare.errors import DataError
from sudare.schema.table_from_any_frame import Table

# Columns that are named as the reason for a score, and the weakest partial correlation that is called a dependence.
REASONS = 3
_WEAKEST_DEPENDENCE = 0.05


@dataclass(frozen=True)
class UnusualRecord:
    """A record that scored high: its position (from 0), and the columns that are strangest given all others, with their −ln p.

    `given` is the column that the first of them depends on most in the pattern that explains the record best; None without one.
    """

    position: int
    score: float
    reasons: tuple[tuple[str, float], ...]
    given: str | None


@dataclass(frozen=True, eq=False, repr=False)
class ScoredRecords:
    """Scores of all records in their order, the strangest of them explained, and the strangest column of each where it was asked for."""

    scores: Floats
    strangest: tuple[UnusualRecord, ...]
    columns: NDArray[np.str_] | None


def scored_records(model: MemberModel, tables: Iterable[Table], most: int, each_column: bool = False) -> ScoredRecords:
    """Scores of all records, over the model's window across blocks; reasons for the `most` with the highest, the highest first."""
    of_single_records = replace(model, window=1)
    earlier = np.empty(0)
    scores: list[Floats] = []
    columns: list[NDArray[np.str_]] = []
    found: list[UnusualRecord] = []
    position = 0
    for table in tables:
        records = table.select(model.columns)
        joined = np.concatenate([earlier, of_single_records.score_samples(records)])
        block = trailing_means(joined, model.window)[len(earlier) :]
        earlier = joined[max(len(joined) - model.window + 1, 0) :]
        if each_column:
            columns.append(worst_columns(model.attribution(records), model.columns))
        chosen = np.argsort(-block, kind="stable")[:most]
        found += _explained(model, records, block, chosen, position)
        found = sorted(found, key=lambda strange: (-strange.score, strange.position))[:most]
        scores.append(block)
        position += len(block)
    if not position:
        raise DataError("There are no records to score.", "Give a table with rows.")
    return ScoredRecords(np.concatenate(scores), tuple(found), np.concatenate(columns) if each_column else None)


def _explained(
    model: MemberModel, records: Table, scores: Floats, chosen: NDArray[np.intp], before: int
) -> Iterator[UnusualRecord]:
    if not len(chosen):
        return
    rows = Table(records.arrow.take(chosen))
    attributions = model.attribution(rows)
    dependences = _dependences(model, rows)
    for index, attribution, dependence in zip(chosen, attributions, dependences, strict=True):
        order = np.argsort(-attribution, kind="stable")[:REASONS]
        reasons = tuple((model.columns[column], float(attribution[column])) for column in order)
        yield UnusualRecord(
            int(before + index), float(scores[index]), reasons, _given(model, dependence, int(order[0]))
        )


def _dependences(model: MemberModel, rows: Table) -> list[Floats | None]:
    """For every record the partial correlations of the pattern that explains it best; None where columns are independent."""
    if not isinstance(model.family, SparseGaussian):
        return [None] * rows.rows
    patterns = np.argmax(model.responsibilities(rows), axis=1)
    return list(np.abs(model.partial_correlations)[patterns])


def _given(model: MemberModel, dependence: Floats | None, column: int) -> str | None:
    if dependence is None:
        return None
    others = np.where(np.arange(len(model.columns)) == column, 0.0, dependence[column])
    strongest = int(np.argmax(others))
    return model.columns[strongest] if others[strongest] > _WEAKEST_DEPENDENCE else None

"""A source as a list of shards in a fixed order: parts that can be read apart, wherever their files can be opened.

Parquet files are cut at row groups. Since their rows are counted in the files, the cuts are moved to the next multiple of `BLOCK_ROWS` of the
whole source: a shard begins with rows that it shares with nobody, and reads a little into the row group after its own.
"""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sudare.frames.csv_dialects import CsvFile, described
from sudare.frames.file_discovery import files_at, is_parquet
from sudare.frames.fixed_order_summation import BLOCK_ROWS
from sudare.frames.stored_files import file_batches, opened_parquet, parquet_batches
from sudare.schema import Schema, Table


@dataclass(frozen=True, repr=False)
class FileShard:
    """A file that is read from its beginning to its end."""

    file: Path
    said: CsvFile

    @property
    def files(self) -> Sequence[Path]:
        """The file."""
        return (self.file,)

    def tables(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The rows of the file."""
        return file_batches(self.file, columns, batch_rows, schema, self.said)


class RowGroups(NamedTuple):
    """Row groups of one Parquet file, from `first` up to `stop` without it."""

    file: Path
    first: int
    stop: int


@dataclass(frozen=True, repr=False)
class ParquetRows:
    """`rows` rows of Parquet files, after the first `skipped` of these row groups."""

    groups: tuple[RowGroups, ...]
    skipped: int
    rows: int

    @property
    def files(self) -> Sequence[Path]:
        """Those that hold the row groups."""
        return [group.file for group in self.groups]

    def tables(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The rows, read no further than they go."""
        skipped, left = self.skipped, self.rows
        for part in self.groups:
            for table in parquet_batches(part.file, columns, batch_rows, schema, range(part.first, part.stop)):
                passed = min(skipped, table.rows)
                kept = table.slice(passed, left)
                skipped, left = skipped - passed, left - kept.rows
                if kept.rows:
                    yield kept
                if not left:
                    return


# A part of a source that can be read apart from the others, and pickled: `tables` gives its rows as `sudare.frames.batches` gives those of the whole.
Shard = FileShard | ParquetRows


class _Group(NamedTuple):
    file: Path
    number: int
    rows: int


def shards_of(source: str | os.PathLike[str], shard_rows: int) -> list[Shard]:
    """The shards of a path or a pattern, none of Parquet files much longer than asked for unless its row groups are."""
    files, said = [Path(os.path.abspath(file)) for file in files_at(source)], described(source)
    if all(is_parquet(file) for file in files):
        return _parquet_shards([group for file in files for group in _groups(file)], shard_rows)
    return [FileShard(file, said) for file in files]


def _groups(file: Path) -> list[_Group]:
    with opened_parquet(file) as parquet:
        metadata = parquet.metadata
        return [_Group(file, number, metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]


def _parquet_shards(groups: Sequence[_Group], shard_rows: int) -> list[Shard]:
    """Cuts at the first row group that begins where a shard is long enough, at the next multiple of `BLOCK_ROWS`."""
    begins = [0, *itertools.accumulate(group.rows for group in groups)]
    total, cuts = begins[-1], [0]
    for begin in begins:
        cut = -(-begin // BLOCK_ROWS) * BLOCK_ROWS
        if cut - cuts[-1] >= shard_rows and cut < total:
            cuts.append(cut)
    return [_rows_between(groups, begins, low, high) for low, high in itertools.pairwise([*cuts, total]) if high > low]


def _rows_between(groups: Sequence[_Group], begins: Sequence[int], low: int, high: int) -> ParquetRows:
    """The rows number `low` up to `high`, from the row groups that hold them."""
    first = bisect_right(begins, low) - 1
    wanted = [group for group, begin in zip(groups[first:], begins[first:], strict=False) if begin < high]
    runs = [list(run) for _, run in itertools.groupby(wanted, key=lambda group: group.file)]
    parts = tuple(RowGroups(run[0].file, run[0].number, run[-1].number + 1) for run in runs)
    return ParquetRows(parts, low - begins[first], high - low)

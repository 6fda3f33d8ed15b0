"""A perturbed table: what leaves, and what a receiver works with."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import ColumnMissing, DataError, NotReleasable, ReleaseMalformed, SourceUnreadable, SudareError
from sudare.parsing import opened_without_waiting
from sudare.perturbation.categorical import CategoryPerturbation, SetPerturbation
from sudare.perturbation.column_perturbation import Perturbation, unsigned_type
from sudare.perturbation.linkage_risk import PerturbationPromise
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.perturbation.one_column_per_record import ANSWERED, is_sampled
from sudare.perturbation.parquet_writer import FileLayout
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.release import write_new
from sudare.schema.columns import level_text

_CHUNK_BYTES: Final = 2**22


# What is added to the name of a release whose rows are in a file beside it.
ROWS_SUFFIX: Final = ".rows.parquet"


class FileColumns(Mapping[str, NDArray[Any]]):
    """Stored columns in a Parquet file of ours, read when they are asked for; without a file, they did not come with their release."""

    def __init__(self, layout: FileLayout, file: NDArray[np.uint8] | None) -> None:
        self._layout, self._file = layout, file

    @property
    def file(self) -> NDArray[np.uint8]:
        """The bytes of the file."""
        if self._file is None:
            raise DataError(
                "The rows are not in the release but in a Parquet file beside it: they are more than a release holds.",
                "Open it with table.opened('NAME.rows.parquet').",
            )
        return self._file

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._layout.column(self.file, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.codes)

    def __len__(self) -> int:
        return len(self._layout.codes)


@dataclass(frozen=True, eq=False, repr=False)
class PerturbedTable:
    """Perturbed columns and the perturbations they went through; rows have neither index nor order.

    `stored` has the outputs as they are released: whole numbers on the public grid, positions, or packed ticks. `memory` is that of first answers,
    where these are given again: tables of one memory have answers in common.
    """

    perturbations: Mapping[str, Perturbation]
    stored: Mapping[str, NDArray[Any]]
    guarantee: Guarantee
    row_epsilon: float
    rows_per_person: int
    shuffled: bool
    rows: int
    expected_digest: str | None = None
    memory: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.perturbations)

    @cached_property
    def layout(self) -> FileLayout:
        """The Parquet file of the rows, without its values."""
        return FileLayout.of(self.perturbations, self.rows)

    def perturbation(self, name: str) -> Perturbation:
        """The perturbation of a column."""
        self._check_name(name)
        return self.perturbations[name]

    @property
    def is_sampled(self) -> bool:
        """Whether every row answers one column only; the column "answered" says which."""
        return is_sampled(self.perturbations)

    def outputs(self, name: str) -> NDArray[Any]:
        """A column as it is stored; of sampled rows those that answer it."""
        self._check_name(name)
        if not self.is_sampled or name == ANSWERED:
            return self.stored[name]
        own = list(self.perturbations).index(name)
        answered: NDArray[Any] = self.stored[name][self.stored[ANSWERED] == own]
        return answered

    def column(self, name: str) -> NDArray[Any]:
        """Perturbed numbers, categories, or rows of ticks; of sampled rows those that answer this column."""
        return self.perturbation(name).decoded(self.outputs(name))

    def statement(self) -> PerturbationPromise:
        """Linking, local and central promise: they belong together."""
        return PerturbationPromise.of(
            self.guarantee,
            self.rows,
            shuffled=self.shuffled,
            row_epsilon=self.row_epsilon,
            rows_per_person=self.rows_per_person,
            answered_of=len(self.perturbations) - 1 if self.is_sampled else None,
            is_repeated=self.memory is not None,
        )

    def arrow(self) -> pa.Table:
        """All columns as an Arrow table; a set of categories becomes one column of booleans a category."""
        columns: dict[str, Any] = {}
        for name, perturbation in self.perturbations.items():
            values = perturbation.decoded(self.stored[name])
            if isinstance(perturbation, SetPerturbation):
                for own, ticks in zip(self.layout.codes[name].names, values.T, strict=True):
                    columns[own] = pa.array(np.ascontiguousarray(ticks))
            elif isinstance(perturbation, CategoryPerturbation) and values.dtype == object:
                columns[name] = pa.array([level_text(level) for level in values])
            else:
                columns[name] = pa.array(values)
        fields = [pa.field(name, values.type, nullable=False) for name, values in columns.items()]
        return pa.table(columns, schema=pa.schema(fields))

    def parquet(self) -> Iterator[bytes]:
        """The one Parquet file of these rows, in pieces: what a release holds, or names by its digest."""
        if not isinstance(self.stored, FileColumns):
            return self.layout.chunks(self.stored)
        file = self.stored.file
        return (file[start : start + _CHUNK_BYTES].tobytes() for start in range(0, len(file), _CHUNK_BYTES))

    def digest(self) -> str:
        """SHA-256 of that file."""
        hashed = hashlib.sha256()
        for piece in self.parquet():
            hashed.update(piece)
        return hashed.hexdigest()

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write that file, never over another. Columns are those of `arrow`; any Parquet reader opens it.

        Only rows that came out of a release are written: an owner's leave by `Release.of(model).save(…)`.
        """
        if self.expected_digest is None:
            raise NotReleasable(
                "These rows have not been released.", "Save them with Release.of(model).save(…), and load the release."
            )
        write_new(Path(path), self.parquet())

    def opened(self, path: str | os.PathLike[str]) -> PerturbedTable:
        """The table with its rows, where they are in a file beside the release; it is looked through, and read when needed.

        Kind and size of the file are looked at before that: a pipe would keep a reader waiting for ever.
        """
        another = ReleaseMalformed(
            "This is not the file of rows that the release names.", "Ask its sender for the file again."
        )
        try:
            with open(path, "rb", opener=opened_without_waiting) as stream:
                status = os.fstat(stream.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise SourceUnreadable(f"'{Path(path).name}' is not a file.", "Give the path of the rows.")
                if status.st_size not in (0, self.layout.size):
                    raise another
                file = np.memmap(stream, dtype=np.uint8, mode="r")
        except SudareError:
            raise
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is empty"
            raise SourceUnreadable(f"'{Path(path).name}' cannot be read ({reason}).", "Check the path.") from None
        found = replace(self, stored=FileColumns(self.layout, file))
        if found.digest() != self.expected_digest or not self.layout.holds(file):
            raise another
        return found

    def _check_name(self, name: str) -> None:
        if name not in self.perturbations:
            raise ColumnMissing(f"The table lacks {name!r}.", f"There are {', '.join(map(repr, self.perturbations))}.")

    def __repr__(self) -> str:
        return f"<PerturbedTable of {self.rows:,} rows: {', '.join(self.names)}; {self.guarantee}>"


def stored_shape(perturbation: Perturbation, rows: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of a stored column."""
    if isinstance(perturbation, SetPerturbation):
        return (rows, (perturbation.output_count + 7) // 8), np.dtype(np.uint8)
    return (rows,), unsigned_type(perturbation.output_count)


def described(perturbation: Perturbation) -> dict[str, Any]:
    """What a manifest says of a perturbation besides what its column declares: kind, ε, and how wide or how sure it is."""
    facts = perturbation.description()
    left_out = "bounds" if isinstance(perturbation, NumberPerturbation) else "values"
    return {name: value for name, value in facts.items() if name != left_out}

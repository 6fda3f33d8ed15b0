"""Rows that wait for a later pass: in memory up to a public size, beyond it in files that have no name.

Those are unlinked as soon as they are open, so they vanish with the process, however it ends. They lie where the system keeps temporary
files (TMPDIR) and hold what was put there in clear.
"""

from __future__ import annotations

import tempfile
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import DataError

# A public number: whether a file is used depends on the size of the table alone.
SPOOL_ABOVE_BYTES: Final = 2**27
_PARQUET_REMEDY: Final = (
    "Point TMPDIR at a folder with room; or give the path of a Parquet file, which is read anew at every pass."
)


class Spool:
    """Rows as arrays of one length, collected part by part, in memory or, where they are more than `held_bytes`, in files.

    `what` does not fit, and what to do then, are told where a file has no room.
    """

    def __init__(
        self, held_bytes: float | None = None, what: str = "The rows of an iterator do", remedy: str = _PARQUET_REMEDY
    ) -> None:
        self._held_bytes = SPOOL_ABOVE_BYTES if held_bytes is None else held_bytes
        self._what, self._remedy = what, remedy
        self._stacks: list[_Stack] = []
        self.count, self.bytes = 0, 0

    def append(self, part: tuple[NDArray[Any], ...]) -> None:
        """Add rows below the others. Raise DataError where they fit neither into memory nor into the temporary folder."""
        self._stacks = self._stacks or [_Stack() for _ in part]
        self.count += len(part[0])
        self.bytes += sum(array.nbytes for array in part)
        try:
            for stack, array in zip(self._stacks, part, strict=True):
                stack.append(array, to_file=self.bytes > self._held_bytes)
        except OSError as error:
            problem = f"{self._what} not fit into a temporary file ({error.strerror})."
            raise DataError(problem, self._remedy) from None

    def together(self) -> tuple[NDArray[Any], ...]:
        """All rows; those in files are paged in as they are looked at."""
        return tuple(stack.together() for stack in self._stacks)

    def part(self, number: int) -> tuple[NDArray[Any], ...]:
        """The rows that were added as part `number`, from 0."""
        return tuple(stack.part(number) for stack in self._stacks)


class _Stack:
    """Arrays of one shape and type but for their length, one below the other."""

    def __init__(self) -> None:
        self._held: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        # Where each part ends; nothing is before the first.
        self._ends = [0]

    def append(self, array: NDArray[Any], *, to_file: bool) -> None:
        self._ends.append(self._ends[-1] + len(array))
        self._shape, self._dtype = array.shape[1:], array.dtype
        self._held.append(array)
        if to_file:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sudare-")  # noqa: SIM115 - open as long as its rows are needed
            for each in self._held:
                self._file.write(np.ascontiguousarray(each).data)
            # Down to the system, where it may still fail: nothing was charged yet.
            self._file.flush()
            self._held = []

    def together(self) -> NDArray[Any]:
        if self._file is not None:
            return np.asarray(np.memmap(self._file, dtype=self._dtype, mode="r", shape=(self._ends[-1], *self._shape)))
        if len(self._held) > 1:
            self._held = [np.concatenate(self._held)]
        return self._held[0]

    def part(self, number: int) -> NDArray[Any]:
        if len(self._held) == len(self._ends) - 1:
            return self._held[number]
        return self.together()[self._ends[number] : self._ends[number + 1]]


class TableSpool:
    """Tables that wait, as streams of Arrow."""

    def __init__(self) -> None:
        self._spool, self._count = Spool(what="The rows do"), 0

    def put(self, table: pa.Table) -> int:
        """The number of a table. Raise DataError where it fits neither into memory nor into the temporary folder."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write(table)
        self._spool.append((np.frombuffer(sink.getvalue(), np.uint8),))
        self._count += 1
        return self._count - 1

    def get(self, number: int) -> pa.Table:
        """The table with this number."""
        (stream,) = self._spool.part(number)
        return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()

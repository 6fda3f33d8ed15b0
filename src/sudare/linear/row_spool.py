"""Where rows wait that come only once: in memory up to a public size, beyond it in files that have no name.

The files are unlinked as soon as they are open, so they vanish with the process, however it ends. They lie where the
system keeps temporary files (TMPDIR) and hold encoded records in clear.
"""

from __future__ import annotations

import tempfile
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from sudare.errors import DataError
from sudare.linear.rows import HeldRows, Rows

Floats = NDArray[np.float64]

# A public number: whether a file is used depends on the size of the table alone.
SPOOL_ABOVE_BYTES: Final = 2**27


class Stack:
    """Blocks of rows of one width, one below the other."""

    def __init__(self) -> None:
        self._held: list[Floats] = []
        self._file: IO[bytes] | None = None
        self.rows, self.held_bytes = 0, 0

    def append(self, block: Floats) -> None:
        """Add a block below the others."""
        self.rows += len(block)
        self._width = block.shape[1]
        if self._file is None:
            self._held.append(block)
            self.held_bytes += block.nbytes
        else:
            _write(self._file, [block])

    def spill(self) -> None:
        """Write what is held, and what comes after, to a file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="sudare-")  # noqa: SIM115 - open as long as its rows are needed
            _write(self._file, self._held)
            self._held, self.held_bytes = [], 0

    def together(self) -> Floats:
        """All rows as one matrix; one that is in a file is paged in as it is looked at."""
        if self._file is None:
            return np.concatenate(self._held)
        mapped = np.memmap(self._file, dtype=np.float64, mode="r", shape=(self.rows, self._width))
        return np.asarray(mapped)


def _write(file: IO[bytes], blocks: list[Floats]) -> None:
    """Add blocks to a file, down to the system; nothing was charged yet if that fails."""
    try:
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)
        file.flush()
    except OSError as error:
        raise DataError(
            f"The rows of an iterator do not fit into a temporary file ({error.strerror}).",
            "Point TMPDIR at a folder with room; or give the path of a Parquet file, which is read anew at every pass.",
        ) from None


class Spool:
    """Bounded rows and their targets, collected block by block."""

    def __init__(self) -> None:
        self._matrix, self._targets = Stack(), Stack()

    @property
    def count(self) -> int:
        """How many rows there are so far."""
        return self._matrix.rows

    def append_rows(self, matrix: Floats) -> None:
        """Add rows."""
        self._append(self._matrix, matrix)

    def append_targets(self, targets: Floats) -> None:
        """Add targets, for rows that were added or will be."""
        self._append(self._targets, targets)

    def _append(self, stack: Stack, block: Floats) -> None:
        stack.append(block)
        if self._matrix.held_bytes + self._targets.held_bytes > SPOOL_ABOVE_BYTES:
            self._matrix.spill()
            self._targets.spill()

    def collected(self) -> Rows:
        """All rows, to be read as often as one likes."""
        return HeldRows(self._matrix.together(), self._targets.together())

"""A uniformly random order on disk, for perturbed rows that are more than memory should hold.

Each row is thrown into a bucket by fair bits as it comes; when all are there, one bucket after the other is shuffled in memory and
written to its place. That is a uniformly random order (proofs/pk_anonymity.md). Buckets are files without a name that only their
owner can open, gone with the process whatever happens, and encrypted under keys that never leave memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from sudare.array_types import Bytes
from sudare.errors import DataError, InvalidParameter
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.parquet_writer import Columns, FileLayout
from sudare.perturbation.perturbed_table import FileColumns, stored_shape
from sudare.perturbation.uniform_shuffle import bucket_count, columns_of_bytes, row_bytes, rows_as_bytes, shuffled
from sudare.privacy.noise import NoiseSource

# Where the rows take more than this, they are shuffled on disk.
HELD_BYTES: Final = 2**26
BUCKET_BYTES: Final = 2**23
_ROWS_ALIGNED: Final = 8
_KEY_WORDS: Final = 4


class Buckets:
    """Rows of equal length in a power of two of nameless, encrypted files."""

    def __init__(self, row_bytes: int, count: int, source: NoiseSource) -> None:
        self._row_bytes, self._count, self._source = row_bytes, count, source
        self._stack = ExitStack()
        self._keys = [source.words(_KEY_WORDS).tobytes() for _ in range(count)]
        self._ciphers = [self._cipher(key).encryptor() for key in self._keys]
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._files.append(self._stack.enter_context(tempfile.TemporaryFile()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @staticmethod
    def _cipher(key: bytes) -> Cipher[None]:
        # A key serves one file, so the nonce may be the same for all.
        return Cipher(ChaCha20(key, nonce=bytes(16)), mode=None)

    def scatter(self, rows: Bytes) -> None:
        """Each row into any of the buckets with equal probability."""
        draws = self._source.words((len(rows) + 7) // 8).view(np.uint8)[: len(rows)] & np.uint8(self._count - 1)
        order = np.argsort(draws, kind="stable")
        ends = np.cumsum(np.bincount(draws, minlength=self._count))
        for file, cipher, part in zip(self._files, self._ciphers, np.split(rows[order], ends[:-1]), strict=True):
            file.write(cipher.update(part.tobytes()))

    def emptied(self) -> Iterator[Bytes]:
        """The rows of one bucket after the other."""
        for number, key in enumerate(self._keys):
            file = self._files[number]
            file.seek(0)
            content = self._cipher(key).decryptor().update(file.read())
            file.close()
            yield np.frombuffer(content, dtype=np.uint8).reshape(-1, self._row_bytes)


def shuffled_on_disk(
    perturbations: Mapping[str, Perturbation], rows: int, parts: Iterable[Columns], source: NoiseSource
) -> FileColumns:
    """Perturbed rows that come in parts, in one uniformly random order, in a nameless Parquet file."""
    layout = FileLayout.of(perturbations, rows)
    like = {name: np.empty(*stored_shape(each, 0)) for name, each in perturbations.items()}
    width = sum(map(row_bytes, like.values()))
    try:
        with Buckets(width, bucket_count(rows * width, BUCKET_BYTES), source) as buckets:
            for part in parts:
                buckets.scatter(rows_as_bytes(list(part.values())))
            return FileColumns(layout, written_file(layout, like, buckets, source))
    except OSError as error:
        raise DataError(
            f"The rows could not be shuffled on disk ({error.strerror}).",
            "Make room in the folder for temporary files, or name another in TMPDIR. What was charged stays charged.",
        ) from None


def written_file(layout: FileLayout, like: Columns, buckets: Buckets, source: NoiseSource) -> Bytes:
    """The buckets shuffled and written one after the other; what a multiple of eight rows leaves over goes to the next."""
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), layout.size)
        for place, piece in layout.fixed_pieces():
            write_at(file, place, piece)
        start, left_over = 0, rows_as_bytes(list(like.values()))
        for bucket in buckets.emptied():
            order = shuffled(np.arange(len(bucket), dtype=np.uint32), source)
            waiting = np.concatenate((left_over, bucket[order]))
            whole = len(waiting) // _ROWS_ALIGNED * _ROWS_ALIGNED
            write_rows(file, layout, like, waiting[:whole], start)
            start, left_over = start + whole, waiting[whole:]
        write_rows(file, layout, like, left_over, start)
        return np.memmap(file, dtype=np.uint8, mode="r")


def write_rows(file: IO[bytes], layout: FileLayout, like: Columns, rows: Bytes, start: int) -> None:
    """Write some rows, the first of them row `start`, into columns like these."""
    part = dict(zip(like, columns_of_bytes(rows, list(like.values())), strict=True))
    for place, piece in layout.value_pieces(part, start):
        write_at(file, place, piece)


def write_at(file: IO[bytes], place: int, piece: bytes) -> None:
    """Write all bytes of a piece, however many the system takes at once."""
    rest = memoryview(piece)
    while rest:
        taken = os.pwrite(file.fileno(), rest, place)
        place, rest = place + taken, rest[taken:]


def check_room(layout: FileLayout) -> None:
    """Raise InvalidParameter unless the disk has room for the buckets and the file; called before anything is charged."""
    facts = os.statvfs(tempfile.gettempdir())
    free = facts.f_bavail * facts.f_frsize
    if free < 2 * layout.size:
        raise InvalidParameter(
            f"Shuffling takes {2 * layout.size >> 20} MiB of temporary files, and there is room for {free >> 20}.",
            "Make room, or name another folder in TMPDIR. Nothing was charged.",
        )

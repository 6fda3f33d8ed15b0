"""CSV bytes that Python must read or decode, parsed block by block in the calling thread.

Arrow's own reader reads ahead in threads. Where they call Python (for another encoding than UTF-8, or a file system written in Python), one that
is still at work when the interpreter ends waits for ever, or aborts the process after its answer was printed.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv


class CsvBlocks:
    """Record batches of a CSV stream. Types that are not given are those that its first block suggests.

    `names` None: its first line has them. Raise pyarrow.ArrowInvalid, or UnicodeError, where a block cannot be read.
    """

    def __init__(
        self, stream: Any, encoding: str, names: Sequence[str] | None, separator: str, options: Any, block_bytes: int
    ) -> None:
        self._stream, self._separator, self._options = stream, separator, options
        self._blocks = utf8_blocks(stream, encoding, block_bytes)
        first = next(self._blocks, b"")
        self._first = self._parsed(first, names)
        self._names = names if names is not None else self._names_in(first)
        self.schema: pa.Schema = self._first.schema

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._first.to_batches()
        types = {field.name: field.type for field in self.schema}
        self._options.include_columns, self._options.column_types = list(types), types
        for block in self._blocks:
            yield from self._parsed(block, self._names).to_batches()

    def _parsed(self, block: bytes, names: Sequence[str] | None) -> pa.Table:
        return _table(block, names, self._separator, self._options)

    def _names_in(self, block: bytes) -> list[str]:
        """The names in the first line that is not empty."""
        line = block.lstrip(b"\r\n").splitlines(keepends=True)[0]
        names: list[str] = _table(line, None, self._separator, None).column_names
        return names


def _table(block: bytes, names: Sequence[str] | None, separator: str, options: Any) -> pa.Table:
    # Memory of Arrow's own: bytes of Python would be let go by a thread that has to ask Python for it.
    memory = pa.BufferOutputStream()
    memory.write(block)
    return pyarrow.csv.read_csv(
        pa.BufferReader(memory.getvalue()),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=None if names is None else list(names)
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator),
        convert_options=options,
    )


def utf8_blocks(stream: Any, encoding: str, block_bytes: int) -> Iterator[bytes]:
    """The stream's text in UTF-8, in blocks that end where a line ends. Raise pyarrow.ArrowInvalid at a line longer than a block."""
    decoder = None if encoding in ("utf-8", "utf8") else codecs.getincrementaldecoder(encoding)()
    begun = b""
    while read := stream.read(block_bytes):
        begun += read if decoder is None else decoder.decode(read).encode()
        end = begun.rfind(b"\n") + 1 or begun.rfind(b"\r", 0, -1) + 1
        if end:
            yield begun[:end]
            begun = begun[end:]
        # A character of two bytes takes three in UTF-8.
        elif len(begun) > 2 * block_bytes:
            raise pa.ArrowInvalid
    begun += b"" if decoder is None else decoder.decode(b"", final=True).encode()
    if begun.strip(b"\r\n"):
        yield begun

"""Perturbed rows as a Parquet file, of which there is exactly one for one table.

The file is plain: nothing compressed, one row group, one page of values a column, no statistics, no index, no metadata of any
program. All of it but the values follows from the perturbations and the number of rows. So reading takes no Parquet decoder: what is not
a value is compared with what it must be, and the values lie where they must. Every other Parquet reader opens the file too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Bytes
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.parquet_columns import TEXT, ColumnCode, column_code
from sudare.perturbation.thrift_compact_writer import Value, int32, int64, listed, record, text

Columns = Mapping[str, NDArray[Any]]

# Sizes of pages are 32-bit numbers in the format.
LARGEST_PAGE_BYTES: Final = 2**31 - 2**16
# A multiple of eight: ticks of eight rows share a byte.
CHUNK_ROWS: Final = 2**17

_MAGIC: Final = b"PAR1"
_REQUIRED: Final = 0
_UTF8: Final = 0
_UNCOMPRESSED: Final = 0
_PLAIN: Final = 0
_RUNS: Final = 3
_LISTED: Final = 8
_VALUES_PAGE: Final = 0
_LIST_PAGE: Final = 2
_FORMAT_VERSION: Final = 1
_WRITER: Final = "sudare"


@dataclass(frozen=True)
class Place:
    """Offsets of a column in the file: its list of possible values if it has one, its values, and its end."""

    name: str
    start: int
    list_header: bytes
    values_header: bytes
    values: int
    end: int


@dataclass(frozen=True)
class FileLayout:
    """The file of so many rows of these columns, without its values."""

    rows: int
    codes: Mapping[str, ColumnCode]
    places: Mapping[str, tuple[Place, ...]]
    footer: bytes

    @classmethod
    def of(cls, perturbations: Mapping[str, Perturbation], rows: int) -> FileLayout:
        """Sizes and places of everything; nothing that grows with them is built, so impossible ones cost nothing."""
        codes = {name: column_code(name, each, rows) for name, each in perturbations.items()}
        places: dict[str, tuple[Place, ...]] = {}
        start = len(_MAGIC)
        for name, code in codes.items():
            own: list[Place] = []
            for column in code.names:
                own.append(place_of(column, code, rows, start))
                start = own[-1].end
            places[name] = tuple(own)
        return cls(rows, codes, places, footer_of(codes, places, rows))

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._end + len(self.footer)

    @property
    def largest_page(self) -> int:
        """How many bytes the largest page has."""
        return max(max(code.page_bytes(self.rows), code.listed_bytes) for code in self.codes.values())

    @property
    def repeated_names(self) -> list[str]:
        """Columns of the file that would have the same name."""
        names = Counter(name for code in self.codes.values() for name in code.names)
        return [name for name, count in names.items() if count > 1]

    @property
    def _end(self) -> int:
        return max(own[-1].end for own in self.places.values())

    def chunks(self, stored: Columns) -> Iterator[bytes]:
        """The file from its beginning to its end, in pieces."""
        yield _MAGIC
        for name, code in self.codes.items():
            for number, place in enumerate(self.places[name]):
                yield self._before_values(code, place)
                for start in range(0, self.rows, CHUNK_ROWS):
                    yield code.written(stored[name][start : start + CHUNK_ROWS], number)
                yield bytes(code.page_bytes(self.rows) - code.bytes_of(self.rows))
        yield self.footer

    def fixed_pieces(self) -> Iterator[tuple[int, bytes]]:
        """All but the values and the zeros after them, with their places."""
        yield 0, _MAGIC
        for name, code in self.codes.items():
            for place in self.places[name]:
                yield place.start, self._before_values(code, place)
        yield self._end, self.footer

    def value_pieces(self, part: Columns, start: int) -> Iterator[tuple[int, bytes]]:
        """The values of some rows, the first of them row `start`, a multiple of eight; with their places."""
        for name, code in self.codes.items():
            for number, place in enumerate(self.places[name]):
                yield place.values + code.bytes_of(start), code.written(part[name], number)

    def holds(self, file: Bytes) -> bool:
        """Whether bytes are this file, with values that can be."""
        if len(file) != self.size or not all(
            file[start : start + len(piece)].tobytes() == piece for start, piece in self.fixed_pieces()
        ):
            return False
        return all(self._column_can_be(file, name) for name in self.codes)

    def column(self, file: Bytes, name: str) -> NDArray[Any]:
        """The stored column in a file that this layout holds."""
        column = self._read(file, name, 0, self.rows)
        if column is None:
            raise ValueError("this is not a file that the layout holds")
        return column

    def _column_can_be(self, file: Bytes, name: str) -> bool:
        filled = self.codes[name].bytes_of(self.rows)
        if any(np.any(file[place.values + filled : place.end]) for place in self.places[name]):
            return False
        starts = range(0, self.rows, CHUNK_ROWS)
        return all(self._read(file, name, start, min(start + CHUNK_ROWS, self.rows)) is not None for start in starts)

    def _read(self, file: Bytes, name: str, start: int, end: int) -> NDArray[Any] | None:
        code = self.codes[name]
        before, size = code.bytes_of(start), code.bytes_of(end - start)
        pages = [file[place.values + before : place.values + before + size] for place in self.places[name]]
        return code.read(pages, end - start)

    @staticmethod
    def _before_values(code: ColumnCode, place: Place) -> bytes:
        return place.list_header + code.possible_values() + place.values_header


def place_of(name: str, code: ColumnCode, rows: int, start: int) -> Place:
    """The place of a column that begins there, with the headers of its pages."""
    list_header = b""
    if code.listed_values:
        facts = record({1: int32(code.listed_values), 2: int32(_PLAIN)})
        list_header = page_header(_LIST_PAGE, code.listed_bytes, 7, facts)
    before = code.before_values(rows)
    encoding = _LISTED if code.listed_values else _PLAIN
    facts = record({1: int32(rows), 2: int32(encoding), 3: int32(_RUNS), 4: int32(_RUNS)})
    values_header = page_header(_VALUES_PAGE, len(before) + code.page_bytes(rows), 5, facts) + before
    values = start + len(list_header) + code.listed_bytes + len(values_header)
    return Place(name, start, list_header, values_header, values, values + code.page_bytes(rows))


def page_header(kind: int, size: int, number: int, facts: Value) -> bytes:
    """PageHeader of the format: kind, size before and after compression, and what the kind of page needs."""
    return record({1: int32(kind), 2: int32(size), 3: int32(size), number: facts}).content


def footer_of(codes: Mapping[str, ColumnCode], places: Mapping[str, tuple[Place, ...]], rows: int) -> bytes:
    """FileMetaData of the format, its length, and the last four letters."""
    pairs = [(codes[name], place) for name, own in places.items() for place in own]
    size = sum(place.end - place.start for _, place in pairs)
    root = record({4: text("rows"), 5: int32(len(pairs))})
    group = record(
        {1: listed([chunk_facts(code, place, rows) for code, place in pairs]), 2: int64(size), 3: int64(rows)}
    )
    facts = record(
        {
            1: int32(_FORMAT_VERSION),
            2: listed([root, *(column_facts(code, place) for code, place in pairs)]),
            3: int64(rows),
            4: listed([group]),
            6: text(_WRITER),
        }
    ).content
    return facts + len(facts).to_bytes(4, "little") + _MAGIC


def column_facts(code: ColumnCode, place: Place) -> Value:
    """SchemaElement of the format: type, never missing, name; and that bytes are text where they are."""
    facts = {1: int32(code.physical_type), 3: int32(_REQUIRED), 4: text(place.name)}
    return record(facts | ({6: int32(_UTF8)} if code.physical_type == TEXT else {}))


def chunk_facts(code: ColumnCode, place: Place, rows: int) -> Value:
    """ColumnChunk of the format."""
    size = place.end - place.start
    values_page = place.start + len(place.list_header) + code.listed_bytes
    encodings = [_PLAIN, _RUNS, _LISTED] if code.listed_values else [_PLAIN, _RUNS]
    facts = {
        1: int32(code.physical_type),
        2: listed([int32(encoding) for encoding in encodings]),
        3: listed([text(place.name)]),
        4: int32(_UNCOMPRESSED),
        5: int64(rows),
        6: int64(size),
        7: int64(size),
        9: int64(values_page),
    }
    if code.listed_values:
        facts[11] = int64(place.start)
    return record({2: int64(0), 3: record(facts)})

"""How a CSV file is written: its encoding, what stands between cells, and its decimal mark, told from its beginning.

What a single record could turn is not guessed, for it would change how every other record is read: a person then says it. UTF-8 (with it ASCII) and
what a byte order mark names are read so; of other encodings only the name is proposed. Separators are told from the first line alone. A decimal comma is
told from cells, and changes no number: one that can be read with either mark is the same with both. Errors name encodings and marks, never what was read.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from sudare.errors import InvalidParameter, SourceUnreadable
from sudare.frames.file_discovery import DataFile, opened_stream
from sudare.safe_text import normal_name

SAMPLED_BYTES: Final = 2**20
SAMPLED_LINES: Final = 1000
SEPARATORS: Final = (",", ";", "\t", "|")
THOUSANDS_MARKS: Final = (",", ".", "'", " ")
OTHER_MARK: Final = {",": ".", ".": ","}
JAPANESE_ENCODINGS: Final = ("cp932", "euc_jp")
ENCODING_NAMES: Final = {
    "cp932": "Shift_JIS (cp932)",
    "euc_jp": "EUC-JP (euc_jp)",
    "utf-16-be": "UTF-16 (utf-16-be)",
    "utf-16-le": "UTF-16 (utf-16-le)",
}
BYTE_ORDER_MARKS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# A day, or a month of a year, in the usual writings.
_DATE = re.compile(r"\d{4}[-/年]\d{1,2}([-/月]|$)|\d{4}\.\d{1,2}\.\d|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}$)")
# A decimal comma, not one between thousands: those have three digits behind them.
_DECIMAL_COMMA: Final = re.compile(r"\s*[-+]?\d+,(\d{1,2}|\d{4,})\s*")
_POINT_OR_THOUSANDS: Final = re.compile(r"\s*[-+]?(\d*\.\d+|\d{1,3}([.,]\d{3})+([.,]\d+)?)\s*")
# Western letters that are read as Japanese stand alone between ASCII letters; Japanese words do not.
_MOST_ALONE: Final = 0.2
# Marks, kana, kanji and full-width forms; half-width kana are what bytes of EUC-JP become in Shift_JIS.
_USUAL_JAPANESE: Final = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff01-\uff60\uffe0-\uffe6]")
_LEAST_USUAL: Final = 0.7
_KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_LEAST_COMMON: Final = 0.8


@dataclass(frozen=True, repr=False)
class CsvFile(os.PathLike[str]):
    """A CSV file of which a person says whether its first line names the columns, and how it is written.

    It stands wherever a path does. Without names the columns are called column_1, column_2, and so on. What is None is told from the file:
    `encoding` (UTF-8, or what a byte order mark names), the `separator` of cells (a comma, semicolon, tab or bar) and the `decimal` mark (a point or a comma). `thousands` is the mark
    between thousands (a comma, point, apostrophe or blank) where numbers have one; with `tidy` blanks around values are dropped, and numbers
    may be written in full-width figures.
    """

    path: str | os.PathLike[str]
    has_header: bool | None = None
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    tidy: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, str):
            # Asked once: what it answers later does not count.
            object.__setattr__(self, "path", Path(os.fspath(self.path)))
        if self.encoding is not None:
            checked_encoding(self.encoding)
        if self.separator not in (None, *SEPARATORS):
            raise InvalidParameter("`separator` is not a comma, semicolon, tab or bar.", 'Use for example ";".')
        if self.decimal not in (None, ".", ","):
            raise InvalidParameter("`decimal` is not a point or a comma.", 'Use "." or ",".')
        if self.thousands not in (None, *THOUSANDS_MARKS):
            raise InvalidParameter(
                "`thousands` is not a comma, point, apostrophe or blank.", 'Use for example ",", as in 1,234,567.'
            )
        if self.thousands is not None and self.thousands == self.decimal:
            raise InvalidParameter("`thousands` and `decimal` are the same mark.", "Say which is which.")
        if not isinstance(self.tidy, bool):
            raise InvalidParameter("`tidy` is neither true nor false.", "Use true, or leave it out.")

    def __repr__(self) -> str:
        """What was said, and the last part of the path: an address may hold a password before that."""
        said = (f"{fact.name}={getattr(self, fact.name)!r}" for fact in fields(self)[1:] if getattr(self, fact.name))
        return f"CsvFile({', '.join(['…/' + os.fspath(self.path).rpartition('/')[2].rpartition('@')[2], *said])})"

    def __fspath__(self) -> str:
        return os.fspath(self.path)


@dataclass(frozen=True)
class CsvDialect:
    """How the cells of a CSV file are found in its bytes."""

    encoding: str
    separator: str = ","
    decimal_point: str = "."
    thousands: str | None = None
    tidy: bool = False

    @property
    def rewrites_numbers(self) -> bool:
        """Whether numbers are read as text first."""
        return self.tidy or self.thousands is not None


def described(source: str | os.PathLike[str]) -> CsvFile:
    """The source with what a person said about it."""
    return source if isinstance(source, CsvFile) else CsvFile(source)


def checked_encoding(name: object) -> str:
    """The encoding. Raise InvalidParameter unless Python has a text encoding of that name."""
    try:
        "a".encode(str(name))
    except (LookupError, ValueError, TypeError):
        raise InvalidParameter(
            "`encoding` is not the name of a text encoding.",
            "Use for example utf-8, utf-16, cp932, euc_jp, cp1252.",
        ) from None
    return str(name)


def first_bytes(file: DataFile) -> bytes:
    """The first megabyte of a file, unpacked where it is compressed."""
    with opened_stream(file) as stream:
        beginning: bytes = stream.read(SAMPLED_BYTES)
    return beginning


def first_text(file: DataFile, encoding: str) -> str:
    """The first megabyte of a file as text; what cannot be decoded is replaced."""
    return first_bytes(file).decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")


def dialect_of(file: DataFile, said: CsvFile, expected: Collection[str]) -> CsvDialect:
    """How a file is written. Raise SourceUnreadable where its encoding, separator or decimal mark does not show."""
    beginning = first_bytes(file)
    encoding = said.encoding or detected_encoding(beginning, file)
    text = first_text(file, encoding)
    separator = said.separator or detected_separator(text, expected)
    if separator is None:
        raise SourceUnreadable(
            f"What separates the columns of {os.fspath(file)!r} does not show: its first line has more than one usual mark.",
            'Say which it is: --csv "separator=;", or sudare.frames.CsvFile(path, separator=";") in Python.',
        )
    point = (
        said.decimal
        or OTHER_MARK.get(said.thousands or "")
        or detected_decimal_point(text, separator, is_cut=len(beginning) == SAMPLED_BYTES)
    )
    if point is None:
        raise SourceUnreadable(
            f"The decimal mark of {os.fspath(file)!r} does not show: commas stand in some numbers as a decimal mark, and points or marks between thousands in others.",
            'Say which it is: --csv "decimal=,", or --csv "thousands=," (sudare.frames.CsvFile(path, decimal=",") in Python).',
        )
    return CsvDialect(encoding, separator, point, said.thousands, said.tidy)


def detected_encoding(beginning: bytes, file: DataFile) -> str:
    """The encoding that a byte order mark names, or UTF-8. Raise SourceUnreadable, which names likely ones, where it is another."""
    is_utf_32 = beginning.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if beginning.startswith(mark) and not is_utf_32:
            return encoding
    # Zeros are in UTF-16, in UTF-32 and in no text; an escape begins another character set in ISO-2022-JP.
    if b"\x00" not in beginning and b"\x1b" not in beginning and decoded(beginning, "utf-8") is not None:
        return "utf-8"
    likely = likely_encodings(beginning)
    could_be = " or ".join(ENCODING_NAMES[name] for name in likely)
    proposed = likely[0] if likely else "cp1252"
    raise SourceUnreadable(
        f"The encoding of {os.fspath(file)!r} does not show for certain: it is not UTF-8{f', and may be {could_be}' if likely else ''}. "
        "One record could change what it seems to be, so it is not guessed.",
        f'Say which it is: --encoding {proposed} for example, sudare.frames.CsvFile(path, encoding="{proposed}") in Python, or encoding = "{proposed}" '
        "under [data] in member.toml.",
    )


def likely_encodings(beginning: bytes) -> list[str]:
    """The encodings that bytes without a mark may be in which are not UTF-8: UTF-16, Shift_JIS, EUC-JP."""
    # Separators, figures and ends of lines in UTF-16 have a zero in their second or first byte; other text has no zeros.
    zeros = {"utf-16-be": beginning[0::2].count(0), "utf-16-le": beginning[1::2].count(0)}
    for encoding, count in zeros.items():
        if count and 10 * (sum(zeros.values()) - count) < count and decoded(beginning, encoding) is not None:
            return [encoding]
    if any(zeros.values()) or b"\x1b" in beginning:
        return []
    texts = {name: decoded(beginning, name) for name in JAPANESE_ENCODINGS}
    likely = [name for name, text in texts.items() if text is not None and is_likely_japanese(text)]
    # Chinese and Korean bytes are kanji in EUC-JP, and Cyrillic ones rare kanji in Shift_JIS: kana or common kanji tell more.
    certain = [name for name in likely if is_certainly_japanese(texts[name] or "", name)]
    return certain if len(certain) == 1 else likely


def decoded(beginning: bytes, encoding: str) -> str | None:
    """The bytes as text, which may end within a character; None if they are not written in that encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(beginning, final=len(beginning) < SAMPLED_BYTES)
    except UnicodeDecodeError:
        return None


def is_certainly_japanese(text: str, encoding: str) -> bool:
    """Whether text has kana; in Shift_JIS also whether nearly all its kanji are common ones (level 1 of JIS X 0208)."""
    if _KANA.search(text):
        return True
    kanji = [one for one in text if "\u3400" <= one <= "\u9fff"]
    common = sum(1 for one in kanji if 0x88 <= one.encode("cp932", errors="replace")[0] <= 0x97)
    return encoding == "cp932" and bool(kanji) and common >= _LEAST_COMMON * len(kanji)


def is_likely_japanese(text: str) -> bool:
    """Whether text that is not all ASCII looks like Japanese, and not like bytes of another encoding."""
    foreign = [place for place, one in enumerate(text) if ord(one) > 127]
    around = (text[max(place - 1, 0) : place] + text[place + 1 : place + 2] for place in foreign)
    alone = sum(1 for neighbours in around if any(one.isascii() and one.isalpha() for one in neighbours))
    usual = sum(1 for place in foreign if _USUAL_JAPANESE.match(text[place]))
    return alone <= _MOST_ALONE * len(foreign) and usual >= _LEAST_USUAL * len(foreign)


def detected_separator(text: str, expected: Collection[str]) -> str | None:
    """What stands between the cells of the first line; None where it has more than one usual mark and nothing tells which separates.

    A line that a person declared as the name of a column is one cell, and a mark between declared names separates. Lines below tell nothing: one
    record could change what they tell.
    """
    header = next(iter(text.splitlines()), "")
    declared = set(map(normal_name, expected))
    if normal_name(header) in declared:
        return ","
    bare = re.sub(r'"[^"]*"', "", header)
    present = [mark for mark in SEPARATORS if mark in bare]
    if len(present) < 2:
        return present[0] if present else ","
    naming = [mark for mark in present if declared and declared <= set(map(normal_name, header.split(mark)))]
    return naming[0] if len(naming) == 1 else None


def cells_of(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """The cells of every line that is not empty; none from a line on whose cells are beyond all measure."""
    try:
        yield from filter(None, csv.reader(lines, delimiter=separator))
    except csv.Error:
        return


def detected_decimal_point(text: str, separator: str, *, is_cut: bool = False) -> str | None:
    """A comma where cells show one and none has a point or marks between thousands; None where some have. A point where commas separate cells.

    The last line of a text that `is_cut` tells nothing: of a date such as 24.12.2026 only 24.12 may be there.
    """
    if separator == ",":
        return "."
    lines = list(cells_of(io.StringIO(text), separator))
    cells = [cell for line in (lines[:-1] if is_cut else lines) for cell in line]
    if not any(map(_DECIMAL_COMMA.fullmatch, cells)):
        return "."
    return None if any(map(_POINT_OR_THOUSANDS.fullmatch, cells)) else ","


def why_no_number(cells: Collection[str]) -> tuple[str, str] | None:
    """How cells of a column of numbers are written that cannot be read as such, and what to do; None where nothing usual shows."""
    for cell in cells:
        bare = cell.strip()
        if not cell.isascii() and re.fullmatch(r"[-+]?[0-9.]+", bare):
            return (
                "with blanks around them",
                "Say so: --csv tidy=yes, or sudare.frames.CsvFile(path, tidy=True) in Python.",
            )
        if re.fullmatch(r"[-+]?\d{1,3}([,' \u00a0\u202f]\d{3})+([.,]\d+)?", bare):
            mark = next(one for one in bare if not one.isdigit() and one not in "-+")
            named = mark if mark in THOUSANDS_MARKS else " "
            return (
                "with marks between thousands",
                f'Say so: --csv "thousands={named}", or sudare.frames.CsvFile(path, thousands="{named}") in Python.',
            )
        if _DATE.match(bare):
            return (
                "that are dates or times",
                'Declare them: kind = "date", with first, last and, unless they are ISO 8601, format.',
            )
        if any(one.isdigit() and not one.isascii() for one in bare):
            return (
                "with full-width or other figures than 0 to 9",
                "Say so: --csv tidy=yes, or sudare.frames.CsvFile(path, tidy=True) in Python.",
            )
        if re.fullmatch(r"[-+]?\d+,\d+", bare):
            return (
                "with a decimal comma",
                'Say so: --csv "decimal=,", or sudare.frames.CsvFile(path, decimal=",") in Python.',
            )
        if re.fullmatch(r"[-+]?[¥$€£￥]?\s*[\d.,]+\s*[¥$€£￥%％円年歳]?", bare) and not re.fullmatch(
            r"[-+]?[\d.]+", bare
        ):
            return "with a unit or currency mark", "Write the number alone."
    return None


def described_table(
    place: str | os.PathLike[str], has_header: bool | None, encoding: str | None, csv: Sequence[str]
) -> str | os.PathLike[str]:
    """The table at a place, with what a person said about its first line, its encoding, and how its cells are written."""
    said = csv_facts(csv)
    is_plain = has_header is None and encoding is None and not said
    return place if is_plain else CsvFile(place, has_header, encoding, **said)


def csv_facts(texts: Sequence[str]) -> dict[str, Any]:
    """What NAME=VALUE texts say of a CSV file. Raise InvalidParameter where one says nothing known."""
    said: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in ("separator", "decimal", "thousands", "tidy") or (name == "tidy" and value not in ("yes", "no")):
            raise InvalidParameter(
                "--csv has something other than separator=, decimal=, thousands= or tidy=yes.",
                'Use for example --csv thousands=, or --csv "separator=;" or --csv separator=tab.',
            )
        said[name] = value == "yes" if name == "tidy" else "\t" if value == "tab" else value
    return said

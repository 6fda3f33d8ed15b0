"""CSV files in batches: types as declared, words for missing values, and errors that name columns and no value."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sudare.errors import SourceUnreadable, SudareError, WrongType
from sudare.frames.csv_blocks import CsvBlocks
from sudare.frames.csv_dialects import CsvDialect, CsvFile, dialect_of, why_no_number
from sudare.frames.csv_header_detection import first_lines, public_names, refuse_doubtful_header
from sudare.frames.file_discovery import DataFile, is_read_by_python, opened_stream
from sudare.frames.wanted_columns import pieces, unreadable, wanted_columns
from sudare.schema import Date, DatePart, Label, Number, Schema
from sudare.schema.table_from_any_frame import Table, attempt, unique_names

# Arrow holds about thirty blocks that nobody asked for yet; a line of a file is no longer than one.
CSV_BLOCK_BYTES = 2**20
CSV_TYPES = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_()}
MISSING_WORDS: tuple[str, ...] = tuple(pyarrow.csv.ConvertOptions().null_values)


def csv_batches(
    file: DataFile, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None, said: CsvFile
) -> Iterator[Table]:
    expected = {*(columns or ()), *(() if schema is None else schema.source_columns)}
    dialect = dialect_of(file, said, expected)
    opened = csv_as_written(file, expected, said.has_header, dialect)
    written = opened.names
    read_as = dict(zip(unique_names(public_names(written, said.has_header)), written, strict=True))
    names = wanted_columns(list(read_as), columns, schema)
    types = {name: kind for name, kind in declared_types(schema).items() if name in names}
    if schema is not None:
        # A type that was guessed from all values would let one record change how the others are read.
        types = {name: types.get(name, pa.string()) for name in names}
    rewritten = rewritten_types(types, names, read_as, opened, dialect)
    options = pyarrow.csv.ConvertOptions(
        include_columns=[read_as[name] for name in names],
        column_types={
            read_as[name]: pa.string() if name in rewritten else kind for name, kind in {**rewritten, **types}.items()
        },
        # The words 1 and 0 are numbers, not booleans.
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
        decimal_point=dialect.decimal_point,
    )
    with csv_reader(file, options, written if said.has_header is False else None, dialect) as reader:
        for batch in reader:
            table = pa.Table.from_batches([batch]).rename_columns(names)
            if dialect.rewrites_numbers:
                table = tidied(table, rewritten, dialect)
            yield from pieces(Table(with_missing_words(table, schema)), batch_rows)


def csv_types(file: DataFile, expected: Collection[str], said: CsvFile) -> pa.Schema:
    """The names of the columns of a CSV file, and the types its first block suggests."""
    opened = csv_as_written(file, expected, said.has_header, dialect_of(file, said, expected))
    return pa.schema(list(zip(unique_names(public_names(opened.names, said.has_header)), opened.types, strict=True)))


def csv_as_written(
    file: DataFile, expected: Collection[str], has_header: bool | None, dialect: CsvDialect
) -> pa.Schema:
    """Names as the CSV file spells them (made up where it has none), and types.

    Raise DataError where the first line may be a record, and nobody said whether it is.
    """
    lines = attempt(lambda: first_lines(file, dialect))
    if lines is None:
        raise unreadable(file, "CSV")
    refuse_doubtful_header(lines, has_header, expected, file)
    names = public_names(lines[0], has_header) if lines and has_header is False else None
    options = pyarrow.csv.ConvertOptions(decimal_point=dialect.decimal_point)
    types = attempt(lambda: csv_reader(file, options, names, dialect).schema)
    # Names that cannot be decoded fail when they are asked for.
    if types is None or attempt(lambda: types.names) is None:
        raise _ragged(file) if any(len(line) != len(lines[0]) for line in lines) else unreadable(file, "CSV")
    return with_numbers(types, lines[has_header is not False :], dialect) if dialect.rewrites_numbers else types


def with_numbers(types: pa.Schema, lines: Sequence[Sequence[str]], dialect: CsvDialect) -> pa.Schema:
    """The types with numbers in place of text where all cells of the first lines can be read as numbers."""
    fields = []
    for place, each in enumerate(types):
        cells = [line[place] for line in lines if place < len(line) and line[place].strip()]
        is_number = (
            pa.types.is_string(each.type) and bool(cells) and numbers_of_text(cells, pa.float64(), dialect) is not None
        )
        fields.append(pa.field(each.name, pa.float64()) if is_number else each)
    return pa.schema(fields)


def rewritten_types(
    types: Mapping[str, Any], names: Sequence[str], read_as: Mapping[str, str], opened: pa.Schema, dialect: CsvDialect
) -> dict[str, Any]:
    """The columns that are read as text and then made numbers, with the types they get."""
    if not dialect.rewrites_numbers:
        return {}
    # A name may occur twice in a file; such a file was refused before.
    kinds = {name: types.get(name, opened.field(read_as[name]).type) for name in names}
    return {name: kind for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_integer(kind)}


def tidied(table: pa.Table, rewritten: Mapping[str, Any], dialect: CsvDialect) -> pa.Table:
    """The table with numbers made of text, and without blanks around other text. Raise WrongType where some are no numbers."""
    for position, name in enumerate(table.column_names):
        column = table.column(name)
        if name in rewritten:
            made = numbers_of_text(column, rewritten[name], dialect)
            if made is None:
                raise WrongType(
                    f"Column {name!r} is declared to hold numbers, or begins with them, and holds some that cannot be read as such.",
                    "Correct the file, say how numbers are written (--csv), or change the declaration in the schema.",
                )
            table = table.set_column(position, name, made)
        elif dialect.tidy and pa.types.is_string(column.type):
            table = table.set_column(position, name, pc.utf8_trim_whitespace(column))
    return table


def numbers_of_text(cells: Any, kind: Any, dialect: CsvDialect) -> Any:
    """Cells as numbers of this Arrow type, words for missing as null; None where one cannot be read."""
    texts = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([pa.array(cells, pa.string())])
    texts = pc.utf8_trim_whitespace(pc.utf8_normalize(texts, form="NFKC") if dialect.tidy else texts)
    texts = pc.if_else(pc.is_in(texts, value_set=pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), texts)
    mark, point = dialect.thousands, re.escape(dialect.decimal_point)
    if mark is not None:
        between = "[ \u00a0\u202f]" if mark == " " else "['\u2019]" if mark == "'" else re.escape(mark)
        has_marks = pc.match_substring_regex(texts, rf"^[-+]?[0-9]{{1,3}}({between}[0-9]{{3}})+({point}[0-9]*)?$")
        texts = pc.if_else(has_marks, pc.replace_substring_regex(texts, between, ""), texts)
    if dialect.decimal_point == ",":
        has_comma = pc.match_substring_regex(texts, "^[-+]?[0-9]*,[0-9]*$")
        texts = pc.if_else(has_comma, pc.replace_substring(texts, ",", "."), texts)
    return attempt(lambda: texts.cast(kind))


def csv_reader(file: DataFile, options: Any, names: Sequence[str] | None, dialect: CsvDialect) -> Any:
    """The rows of a CSV file; without names its first line has them."""
    if dialect.encoding != "utf-8" or is_read_by_python(file):
        stream = opened_stream(file)
        return CsvBlocks(stream, dialect.encoding, names, dialect.separator, options, CSV_BLOCK_BYTES)
    return pyarrow.csv.open_csv(
        file if isinstance(file, Path) else opened_stream(file),
        read_options=pyarrow.csv.ReadOptions(
            block_size=CSV_BLOCK_BYTES, column_names=None if names is None else list(names)
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=dialect.separator),
        convert_options=options,
    )


def declared_types(schema: Schema | None) -> dict[str, Any]:
    """The Arrow types in which the columns of a schema are read from text; identifiers of persons stay text."""
    if schema is None:
        return {}
    types = {
        name: pa.string()
        if isinstance(facts, Date | DatePart)
        else pa.float64()
        if isinstance(facts, Number)
        else CSV_TYPES[facts.value_kind]
        for name, facts in schema.columns.items()
    }
    return types | ({schema.person.column: pa.string()} if schema.person else {})


def with_missing_words(table: pa.Table, schema: Schema | None) -> pa.Table:
    """The table with null where a declared text column has a word for missing that is not one of its values."""
    for position, name in enumerate(table.column_names):
        words = words_for_missing(name, schema)
        if words:
            column = table.column(name)
            is_missing = pc.is_in(column, value_set=pa.array(words, type=column.type))
            table = table.set_column(position, name, pc.if_else(is_missing, pa.scalar(None, column.type), column))
    return table


def words_for_missing(name: str, schema: Schema | None) -> list[str]:
    """The words that mean missing in a column that is declared as text; none in other columns."""
    if schema is not None and schema.person is not None and name == schema.person.column:
        return [""]
    facts = schema.columns.get(name) if schema is not None else None
    if isinstance(facts, Date | DatePart):
        return list(MISSING_WORDS)
    if facts is None or isinstance(facts, Number) or facts.value_kind != "text":
        return []
    return [word for word in MISSING_WORDS if word not in facts.levels]


def _ragged(file: DataFile) -> SourceUnreadable:
    return SourceUnreadable(
        f"A line of {os.fspath(file)!r} has another number of fields than its first line.",
        "Correct it; a field that holds the separator stands in double quotes.",
    )


def unreadable_csv(error: Exception, file: DataFile, schema: Schema | None, said: CsvFile) -> SudareError:
    """What to say of a CSV file that failed; a column is named if the schema declares it."""
    # With a single thread Arrow names the row as well.
    found = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error", str(error))
    if not found:
        return _ragged(file) if re.search(r"Expected \d+ columns, got \d+", str(error)) else unreadable(file, "CSV")
    expected = declared_types(schema)
    place, name = int(found[1]), csv_types(file, expected, said).names[int(found[1])]
    if name not in expected:
        return SourceUnreadable(
            f"A column of {os.fspath(file)!r} changes its type after the beginning of the file.",
            "Give schema=…, so that types are declared and not guessed.",
        )
    facts = schema.columns.get(name) if schema else None
    is_number = isinstance(facts, Number)
    # Whole numbers that are categories are written like numbers.
    is_read_as_number = is_number or getattr(facts, "value_kind", "") == "integer"
    lines = first_lines(file, dialect_of(file, said, expected))[1:] if is_read_as_number else []
    why = why_no_number([line[place] for line in lines if place < len(line)])
    if is_number:
        written, remedy = why or (
            "in a way that cannot be read as numbers",
            "Correct the file (figures, a point in decimals, and an empty field where a value is missing), or change the declaration in the schema.",
        )
        return WrongType(f"Column {name!r} is declared to hold numbers, and holds some {written}.", remedy)
    kind = "classes" if isinstance(facts, Label) else "categories"
    if why is not None:
        return WrongType(
            f"Column {name!r} is declared to hold {kind} that are whole numbers, and holds some {why[0]}.", why[1]
        )
    return WrongType(
        f"Column {name!r} is declared to hold {kind}, and holds a field that cannot be read as that type.",
        "Correct the file, say its encoding (--encoding), or change the declaration in the schema.",
    )

"""CSV bytes that Python decodes are parsed in the calling thread, in blocks that end where a line ends."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from sudare.frames.csv_blocks import CsvBlocks, utf8_blocks
from sudare.frames.csv_dialects import CsvFile
from sudare.frames.sources import batches

NAMES = "支店,貸付額\n"
LINES = NAMES + "".join(f"{'東京大阪'[place % 4]}店,{place}\n" for place in range(500))

ABANDONED = """
import sys
from sudare.frames.csv_dialects import CsvFile
from sudare.frames.sources import batches
rows = batches(CsvFile(sys.argv[1], encoding="cp932"))
next(rows)
"""


def read(text: str, encoding: str, block_bytes: int, names: list[str] | None = None) -> pa.Table:
    with CsvBlocks(
        io.BytesIO(text.encode(encoding)), encoding, names, ",", pyarrow.csv.ConvertOptions(), block_bytes
    ) as reader:
        return pa.Table.from_batches(reader, reader.schema)


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "utf-16", "iso2022_jp", "utf-8"])
@pytest.mark.parametrize("block_bytes", [64, 1001, 2**20])
def test_blocks_of_any_size_give_the_same_table(encoding: str, block_bytes: int) -> None:
    table = read(LINES, encoding, block_bytes)
    assert table.column_names == ["支店", "貸付額"]
    assert table.column("貸付額").to_pylist() == list(range(500))


def test_names_that_are_given_are_not_in_the_first_line() -> None:
    table = read("一,1\n二,2\n", "cp932", 8, ["名", "数"])
    assert table.to_pydict() == {"名": ["一", "二"], "数": [1, 2]}


def test_a_type_that_changes_after_the_first_block_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="CSV column #1"):
        read(LINES + "京都,x\n", "cp932", 64)


def test_bytes_of_another_encoding_are_refused() -> None:
    with pytest.raises(UnicodeError):
        list(utf8_blocks(io.BytesIO("café\n".encode("cp1252")), "utf-16", 64))


def test_a_line_longer_than_a_block_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        list(utf8_blocks(io.BytesIO(b"a" * 1000), "cp932", 64))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_usual_way(end: str) -> None:
    assert read(LINES.replace("\n", end), "cp932", 67).column("貸付額").to_pylist() == list(range(500))


def test_a_process_that_reads_part_of_a_file_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    table = tmp_path / "large.csv"
    table.write_bytes((NAMES + "東京,1\n" * 600_000).encode("cp932"))
    assert next(iter(batches(CsvFile(table, encoding="cp932")))).rows > 0
    done = subprocess.run([sys.executable, "-c", ABANDONED, table], timeout=120, check=False, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")

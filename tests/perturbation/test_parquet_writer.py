"""The Parquet file of perturbed rows: other readers see what we wrote, we read it without a decoder, and there is one spelling."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.perturbation import (
    LaplacePerturbation,
    PerturbedTable,
    RetainReplace,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from sudare.perturbation import (
    parquet_writer as parquet,
)
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.perturbation.parquet_columns import PlainNumbers, Positions, Ticks, column_code
from sudare.perturbation.parquet_writer import FileLayout
from sudare.perturbation.thrift_compact_writer import varint
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise

KINDS: dict[str, Perturbation] = {
    "age": LaplacePerturbation((17, 90), epsilon=1.0),
    "wave": SquareWave((0, 9.5), epsilon=2.0),
    "far away": LaplacePerturbation((1e15, 1e15 + 1), epsilon=1.0),
    "sex": RetainReplace(("Female", "Mäle"), epsilon=1.0),
    "whole": RetainReplace((3, -5, 2**62), epsilon=1.0),
    "truth": RetainReplace((True, False), epsilon=1.0),
    "mixed": RetainReplace((1, 2), epsilon=1.0, missing="none"),
    "many": RetainReplace(tuple(range(300)), epsilon=1.0),
    "ticks": UnaryEncoding(tuple(f"town {number}" for number in range(30)), epsilon=1.0),
    "set": SubsetSelection((False, True), epsilon=1.0),
}


def table_of(rows: int, kinds: dict[str, Perturbation] = KINDS, seed: int = 0) -> PerturbedTable:
    """A perturbed table with every kind of column."""
    generator, source, stored = np.random.default_rng(seed), SeededNoise(seed), {}
    for name, each in kinds.items():
        column: Any = (
            generator.uniform(*each.bounds, rows)
            if isinstance(each, NumberPerturbation)
            else generator.integers(0, each.output_count, rows)
        )
        stored[name] = each.drawn(column, source)
    return PerturbedTable(kinds, stored, Guarantee(1.0, notion="local"), 1.0, 1, True, rows)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 400, 30_001])
def test_other_readers_see_the_same_rows(rows: int) -> None:
    table = table_of(rows)
    file = b"".join(table.parquet())
    assert len(file) == table.layout.size
    read = pq.read_table(io.BytesIO(file))
    assert read.equals(table.arrow())
    assert pl.read_parquet(io.BytesIO(file)).to_arrow().cast(read.schema).equals(read)
    for name, each in KINDS.items():
        if isinstance(each, NumberPerturbation):
            # To the last bit: the noise is in whole steps, and a step is one float.
            assert read.column(name).to_numpy().tobytes() == table.column(name).tobytes()


def test_nothing_leaves_but_declared_columns_and_values(tmp_path: Path) -> None:
    """No metadata of pandas or Arrow, no statistics, no order of rows or groups, one group; the list of values is public."""
    table = table_of(400)
    (tmp_path / "rows.parquet").write_bytes(b"".join(table.parquet()))
    facts = pq.ParquetFile(tmp_path / "rows.parquet")
    assert facts.metadata.metadata is None
    assert facts.schema_arrow.metadata is None
    assert facts.metadata.num_row_groups == 1
    assert facts.metadata.created_by == "sudare"
    for number in range(facts.metadata.num_columns):
        column = facts.metadata.row_group(0).column(number)
        assert column.statistics is None
        assert not column.has_offset_index
        assert column.compression == "UNCOMPRESSED"
    other = table_of(400, seed=1)
    for (start, own), (_, others) in zip(table.layout.fixed_pieces(), other.layout.fixed_pieces(), strict=True):
        assert own == others, start


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 400, 30_001])
def test_we_read_what_we_wrote(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(rows)
    file = np.frombuffer(b"".join(table.parquet()), np.uint8)
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 64)
    assert b"".join(table.parquet()) == file.tobytes()
    assert table.layout.holds(file)
    for name, stored in table.stored.items():
        assert np.array_equal(table.layout.column(file, name), stored)


def test_there_is_one_spelling() -> None:
    """Whichever byte of a small file is changed in whichever bit, it is refused or is the file of other rows."""
    kinds = {name: KINDS[name] for name in ("sex", "truth", "whole", "set")}
    table = table_of(9, kinds)
    file = np.frombuffer(b"".join(table.parquet()), np.uint8)
    meant = 0
    for place in range(len(file)):
        for bit in range(8):
            other = file.copy()
            other[place] ^= 1 << bit
            if not table.layout.holds(other):
                continue
            stored = {name: table.layout.column(other, name) for name in kinds}
            assert b"".join(table.layout.chunks(stored)) == other.tobytes()
            meant += 1
    # Nine truths, nine times two ticks, one bit of each sex; and of a position among three two bits, or one of them.
    assert meant == 9 + 18 + 9 + 9 + int((table.stored["whole"] == 0).sum())


@settings(max_examples=40, deadline=None)
@given(low=st.floats(-1e9, 1e9), width=st.floats(1e-3, 1e9), epsilon=st.floats(0.05, 8), rows=st.integers(1, 60))
def test_numbers_come_back_whatever_their_bounds(low: float, width: float, epsilon: float, rows: int) -> None:
    """Plain numbers where their steps can be told apart, positions otherwise."""
    for kind in (LaplacePerturbation, SquareWave):
        each: NumberPerturbation = kind((low, low + width), epsilon=epsilon)
        code = column_code("x", each, rows)
        stored = (
            np.random.default_rng(0).integers(0, each.output_count, rows).astype(each.packed(np.zeros(1, int)).dtype)
        )
        page = np.frombuffer(code.written(stored, 0), np.uint8)
        read = code.read([page], rows)
        assert read is not None
        assert np.array_equal(read, stored)


def test_the_shorter_code_is_taken() -> None:
    age = KINDS["age"]
    assert isinstance(column_code("age", age, 400), PlainNumbers)
    assert isinstance(column_code("age", age, 400_000), Positions)
    assert isinstance(column_code("far away", KINDS["far away"], 400), Positions)
    assert isinstance(column_code("truth", KINDS["truth"], 400), Ticks)
    with pytest.raises(TypeError):
        column_code("x", object(), 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a file that the layout holds"):
        table_of(8).layout.column(np.full(table_of(8).layout.size, 255, np.uint8), "sex")


def test_sizes_are_known_without_building_anything() -> None:
    """A layout of 2⁴⁰ rows costs nothing, so a forged number of rows costs nothing."""
    layout = FileLayout.of(KINDS, 2**40)
    assert layout.size > 2**42
    assert layout.largest_page > parquet.LARGEST_PAGE_BYTES


def test_varint() -> None:
    assert [varint(number).hex() for number in (0, 1, 127, 128, 300)] == ["00", "01", "7f", "8001", "ac02"]

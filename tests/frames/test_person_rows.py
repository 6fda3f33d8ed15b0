"""Rows of persons who have many: the same ones from every source and in every order, with no name in any file. Proof: proofs/persons.md."""

from __future__ import annotations

import sqlite3
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import ColumnMissing, DataError, MissingValue
from sudare.frames import PersonJoin, kept_persons, person_buckets, read
from sudare.frames import row_spool as spool
from sudare.frames.person_buckets import PersonCounts, RowChoice, RowLimits
from sudare.frames.person_rows import KeptRows, PersonRows, kept_count
from sudare.frames.sources import SqlSource
from sudare.schema import Category, Number, Person, Schema

KEY = bytes(range(32))
SCHEMA = Schema({"dose": Number(0, 1), "drug": Category(("a", "b"))}, Person("who", 3))


def visits(rows=600, seed=0):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": generator.zipf(1.6, rows) % 40 + 1,
            "dose": generator.integers(0, 5, rows) / 4,
            "drug": generator.choice(["a", "b"], rows),
        }
    )


def sources(table, folder):
    table.to_parquet(folder / "visits.parquet", row_group_size=70)
    table.to_csv(folder / "visits.csv", index=False)
    with sqlite3.connect(folder / "visits.db") as database:
        table.to_sql("visits", database, index=False)
    return {
        "pandas": table,
        "polars": pl.DataFrame(table.to_dict("list")),
        "lazy": pl.LazyFrame(table.to_dict("list")),
        "arrow": pa.Table.from_pandas(table),
        "columns": table.to_dict("list"),
        "floats": table.assign(who=table.who.astype(float)),
        "texts": table.assign(who=table.who.astype(str)),
        "parquet": folder / "visits.parquet",
        "csv": str(folder / "visits.csv"),
        "database": SqlSource(f"sqlite:///{folder / 'visits.db'}", "visits"),
        "batches": (table[start : start + 77] for start in range(0, len(table), 77)),
    }


def rows_of(source):
    table = read(source, ["dose", "drug"], SCHEMA).arrow
    return list(zip(*(table[name].to_pylist() for name in ("dose", "drug")), strict=True))


@pytest.mark.parametrize("room", [0, 2**27])
def test_every_source_keeps_the_same_rows_in_the_same_order(room, tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", room)
    table = visits()
    found = {name: kept_persons(source, SCHEMA, KEY) for name, source in sources(table, tmp_path).items()}
    expected = int(table.groupby("who").size().clip(upper=3).sum())
    assert {each.cut for each in found.values()} == {len(table) - expected}
    kept = {name: rows_of(each.source) for name, each in found.items()}
    assert len(kept["pandas"]) == expected
    assert all(rows == kept["pandas"] for rows in kept.values())
    # And a second pass gives them again.
    assert rows_of(found["parquet"].source) == rows_of(found["batches"].source) == kept["pandas"]
    assert kept_count(tmp_path / "visits.parquet", SCHEMA) == expected


@given(st.permutations(range(40)), st.integers(1, 4))
def test_the_order_of_rows_does_not_matter(order, most_rows):
    table = visits(40)
    schema = Schema(SCHEMA.columns, Person("who", most_rows))
    one, other = (kept_persons(each, schema, KEY).source for each in (table, table.iloc[list(order)]))
    assert Counter(one.itertuples(index=False, name=None)) == Counter(other.itertuples(index=False, name=None))


@pytest.mark.parametrize("seed", range(3))
def test_small_and_large_buckets_keep_the_same_rows(seed, monkeypatch):
    table = visits(3000, seed)
    expected = kept_persons(table, SCHEMA, KEY).source
    # Every chunk goes to a file, and every part is one bucket of rows.
    monkeypatch.setattr(person_buckets, "CHUNK_ROWS", 100)
    monkeypatch.setattr(person_buckets, "HELD_BYTES", 0)
    pd.testing.assert_frame_equal(kept_persons(table, SCHEMA, KEY).source, expected)
    batches = (table[start : start + 90] for start in range(0, len(table), 90))
    assert rows_of(kept_persons(batches, SCHEMA, KEY).source) == rows_of(expected)


@pytest.mark.parametrize("chunk_rows", [2**18, 100])
@pytest.mark.parametrize("limits", [RowLimits(2, 4, 5), RowLimits(3, 3, 9), RowLimits(1, 7, 7), RowLimits(5, 6, 40)])
def test_of_persons_with_many_rows_more_are_kept_and_always_the_first_in_the_same_order(
    limits, chunk_rows, monkeypatch
):
    monkeypatch.setattr(person_buckets, "CHUNK_ROWS", chunk_rows)
    table = visits()
    rows = PersonRows.of(table, SCHEMA, KEY)
    kept, few, many = (rows.within(each) for each in (limits, *map(RowLimits.equal, (limits.few, limits.many))))
    sizes, of_each = table.groupby("who").size(), kept.source.groupby("who").size()
    assert of_each.to_dict() == {who: limits.kept(size) for who, size in sizes.items()}
    assert kept.cut == len(table) - len(kept.source)
    busy = sizes.index[sizes >= limits.many_from]
    both = few.source[~few.source.who.isin(busy)], many.source[many.source.who.isin(busy)]
    pd.testing.assert_frame_equal(kept.source, pd.concat(both).sort_index())


def test_rows_that_differ_in_a_column_beside_the_schema_are_chosen_whatever_their_order(tmp_path):
    schema = Schema({"c": Category(("a", "b"))}, Person("p", 1))
    persons = np.repeat(np.arange(20), 2)
    table = pd.DataFrame({"p": persons, "c": "a", "code": ["x", "y"] * 20})
    kept = set()
    for rows in (table, table[::-1]):
        rows.to_csv(tmp_path / "rows.csv", index=False)
        for source in (rows, tmp_path / "rows.csv", iter([rows[:7], rows[7:]])):
            found = read(kept_persons(source, schema, KEY, beside=["code"]).source, ["c", "code"], schema)
            kept.add("".join(found["code"] if rows is table else found["code"][::-1]))
    assert len(kept) == 1
    assert {len(each) for each in kept} == {20}


def test_targets_beside_the_table_are_cut_with_it():
    table = visits()
    kept = kept_persons(table, SCHEMA, KEY, table.index.to_numpy())
    np.testing.assert_array_equal(kept.y, kept.source.index)
    with pytest.raises(DataError, match="600 rows and 5 targets"):
        kept_persons(table, SCHEMA, KEY, np.arange(5))


def test_nothing_is_touched_where_nobody_has_too_many():
    table, y = visits().drop_duplicates("who"), object()
    kept = kept_persons(table, SCHEMA, KEY, y)
    assert kept.source is table
    assert (kept.y, kept.cut) == (y, 0)
    assert kept_persons(table, Schema(SCHEMA.columns)).source is table
    with pytest.raises(ValueError, match="no person"):
        PersonRows.of(table, Schema(SCHEMA.columns))


@pytest.mark.parametrize("gap", [None, float("nan"), "", " ", "\u3000 "])
def test_rows_of_nobody_are_refused(gap, tmp_path):
    table = visits().astype({"who": object})
    table["who"] = table["who"].astype(str).astype(object)
    table.loc[3, "who"] = gap
    for source in (table, table.to_dict("list"), (table[start : start + 9] for start in range(0, 600, 9))):
        with pytest.raises(MissingValue, match="'who'"):
            kept_persons(source, SCHEMA, KEY)
    table.to_csv(tmp_path / "visits.csv", index=False)
    with pytest.raises(MissingValue, match="'who'"):
        kept_persons(tmp_path / "visits.csv", SCHEMA, KEY)
    with pytest.raises(ColumnMissing):
        kept_persons(table.drop(columns="who"), SCHEMA, KEY)


def test_a_source_that_changes_after_the_choice_is_refused(tmp_path):
    path = tmp_path / "visits.parquet"
    visits().to_parquet(path)
    kept = kept_persons(path, SCHEMA, KEY).source
    assert isinstance(kept, KeptRows)
    assert (kept.row_count(), kept.types(()).names) == (len(rows_of(kept)), ["who", "dose", "drug"])
    # The same number of rows, of other persons: somebody would have more than three.
    visits().assign(who=1).to_parquet(path)
    with pytest.raises(DataError, match="other rows"):
        read(kept, schema=SCHEMA)
    for rows in (599, 700):
        visits(rows).to_parquet(path)
        with pytest.raises(DataError, match="other rows"):
            read(kept, schema=SCHEMA)
    waiting = PersonRows.of(path, SCHEMA, KEY)
    visits(10).to_parquet(path)
    with pytest.raises(DataError, match="other rows"):
        waiting.at_most(3)


def test_no_person_is_written_to_a_file(tmp_path, monkeypatch):
    import tempfile

    written = []

    def named(**options):
        file = tempfile.NamedTemporaryFile(dir=tmp_path, delete=False)  # noqa: SIM115 - looked into below
        written.append(file)
        return file

    monkeypatch.setattr(spool.tempfile, "TemporaryFile", named)
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", 0)
    monkeypatch.setattr(person_buckets, "HELD_BYTES", 0)
    table = visits().assign(who=[f"Xylander-{row % 7}" for row in range(600)])
    kept_persons((table[start : start + 50] for start in range(0, 600, 50)), SCHEMA, KEY)
    join = PersonJoin(table[["who", "dose"]], table[["who", "drug"]], SCHEMA, (2, 2))
    assert read(join, schema=SCHEMA).rows == 28
    contents = []
    for file in written:
        file.flush()
        contents.append((tmp_path / file.name).read_bytes())
    assert sum(map(len, contents)) > 10_000
    assert not any(b"ylander" in content for content in contents)


def test_a_full_disk_is_told(monkeypatch):
    class Full:
        def __init__(self, **options):
            pass

        def seek(self, *place):
            return 0

        def write(self, content):
            raise OSError(28, "No space left on device")

        closed = False

    monkeypatch.setattr(spool.tempfile, "TemporaryFile", Full)
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", 0)
    with pytest.raises(DataError, match="temporary file"):
        kept_persons(iter([visits()]), SCHEMA, KEY)


@pytest.mark.parametrize("most_rows", [1, 2, 5])
def test_tags_that_agree_in_a_word_by_chance_are_told_apart(most_rows):
    generator = np.random.default_rng(3)
    # Persons have one first word of two, and rows few own tags: everything is a tie.
    persons = generator.integers(0, 2, (400, 2), dtype=np.uint64) << np.uint64(63) | np.uint64(7)
    rows = generator.integers(0, 5, 400, dtype=np.uint64) << np.uint64(60)
    choice, counts = RowChoice(bytes(16)), PersonCounts()
    for start in range(0, 400, 90):
        choice.append(persons[start : start + 90], rows[start : start + 90])
        counts.append(persons[start : start + 90])
    kept = np.unpackbits(choice.kept(RowLimits.equal(most_rows)))[:400].astype(bool)
    of_each = {who: np.flatnonzero((persons == who).all(axis=1)) for who in map(tuple, persons)}
    assert len(of_each) == 4
    assert all(kept[places].sum() == most_rows for places in of_each.values())
    assert counts.most() == max(map(len, of_each.values()))
    assert counts.kept(RowLimits.equal(most_rows)) == kept.sum() == 4 * most_rows
    # The same rows in another order: as many copies of each are kept.
    again, order = RowChoice(bytes(16)), generator.permutation(400)
    again.append(persons[order], rows[order])
    kept_again = np.unpackbits(again.kept(RowLimits.equal(most_rows)))[:400].astype(bool)
    first, second = (
        Counter(zip(map(tuple, who), own, strict=True))
        for who, own in ((persons[kept], rows[kept]), (persons[order][kept_again], rows[order][kept_again]))
    )
    assert first == second

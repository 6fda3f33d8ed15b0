"""Addresses as text: what they stand for, and that what is shown of them holds no secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sudare.errors import InvalidParameter, SourceUnreadable
from sudare.frames import CsvFile, column_types
from sudare.frames.databases import SqlSource
from sudare.frames.table_addresses import ObjectAddress, TableAddress, parsed
from sudare.privacy.source_identity import given_source


@pytest.mark.parametrize(
    ("text", "shown", "connection"),
    [
        ("s3://bucket/a/b.parquet", "s3://bucket/a/b.parquet", "s3://bucket"),
        ("s3a://bucket//a/./b.parquet", "s3://bucket/a/b.parquet", "s3://bucket"),
        ("S3://bucket:0/a%20b", "s3://bucket/a b", "s3://bucket:0"),
        ("s3://key:secret@bucket/a", "s3://bucket/a", "s3://key:secret@bucket"),
        (
            "s3://k:s%2Ft@bucket/a@b?region=eu&scheme=http",
            "s3://bucket/a@b",
            "s3://k:s%2Ft@bucket?region=eu&scheme=http",
        ),
        ("s3://bucket/year=2026/*.parquet", "s3://bucket/year=2026/*.parquet", "s3://bucket"),
        ("s3://bucket/part-?.parquet", "s3://bucket/part-?.parquet", "s3://bucket"),
        ("s3://bucket", "s3://bucket", "s3://bucket"),
        ("gcs://bucket/a", "gs://bucket/a", "gs://bucket"),
        ("abfs://box/a", "abfs://box/a", "abfs://box"),
        ("az://box/a", "abfs://box/a", "abfs://box"),
        ("abfss://box@clinic.dfs.core.windows.net/a", "abfs://box/a", "abfss://box@clinic.dfs.core.windows.net"),
        ("abfs://clinic:key@box/a", "abfs://box/a", "abfs://clinic:key@box"),
        (
            "abfs://:key@clinic.blob.core.windows.net/box/a",
            "abfs://box/a",
            "abfs://:key@clinic.blob.core.windows.net/box",
        ),
        ("memory:///box/a.parquet", "memory://box/a.parquet", "memory://box"),
    ],
)
def test_objects(text: str, shown: str, connection: str) -> None:
    address = parsed(text)
    assert isinstance(address, ObjectAddress)
    assert str(address) == shown
    assert repr(address) == f"ObjectAddress({shown!r})"
    assert address.connection == connection
    assert address.has_secrets == ("@" in connection or "?" in connection)


def test_other_texts() -> None:
    assert parsed("delta:folder/table") == TableAddress("delta", "folder/table")
    assert parsed("Iceberg:/folder") == TableAddress("iceberg", "/folder")
    assert str(parsed("delta:s3://bucket/table")).startswith(
        "TableAddress(form='delta', root=ObjectAddress('s3://bucket/table'"
    )
    assert parsed("sqlite:///x.db  visits ") == SqlSource("sqlite:///x.db", "visits")
    assert parsed("duckdb:///x.duckdb SELECT * FROM visits") == SqlSource("duckdb:///x.duckdb", "SELECT * FROM visits")
    for path in ("table.parquet", "a:b.csv", "delta: a name", "./delta:x", "./s3:/x", "/a:/x.csv"):
        assert parsed(path) == path
    for mistyped in (" s3://x/y", "file:/x.csv", "/folder/s3:/K:gehe1m@b"):
        with pytest.raises(SourceUnreadable, match="looks like an address") as told:
            parsed(mistyped)
        assert "gehe1m" not in str(told.value)


@pytest.mark.parametrize("scheme", ["http", "HTTPS", "ftp", "sftp", "hdfs"])
def test_places_that_hold_no_tables_are_named(scheme: str) -> None:
    for text in (f"{scheme}://host/visits.csv", f"{scheme}://host/visits.csv visits"):
        with pytest.raises(SourceUnreadable, match="not read from http://"):
            parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://key:hidden/word@bucket/a",
        "abfs://clinic:hidden/word@box/a",
        "s3:///hidden",
        "delta:postgresql://user:hidden@host/db",
        "postgresql://user:hidden@host/db",
        "file:///hidden.csv",
        "https://user:hidden@host/visits.csv",
    ],
)
def test_what_cannot_be_told_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(SourceUnreadable) as refusal:
        parsed(text)
    assert "hidden" not in str(refusal.value)


def test_a_path_in_another_encoding_is_refused_in_words(tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + "/来院.csv".encode("shift_jis"))
    Path(place).write_text("age\n3\n")
    for given in (place, Path(place), CsvFile(place)):
        with pytest.raises(InvalidParameter, match="UTF-8"):
            column_types(given)
        with pytest.raises(InvalidParameter, match="UTF-8"):
            given_source(given)

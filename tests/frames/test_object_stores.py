"""Tables in object stores: read as those on this machine, by addresses whose credentials nobody sees again.

The store is a small server of the S3 protocol on this machine, which checks who asks.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

from sudare.errors import DataError, InvalidParameter, SourceMismatch, SourceTaken, SourceUnreadable
from sudare.frames import batches, checked_rows, column_types, read, row_count, source
from sudare.frames.sources import CsvFile
from sudare.privacy import Ledger
from sudare.privacy.source_identity import given_source
from sudare.schema import Number, Schema
from sudare.statistics import PrivateStandardScaler
from tests.source_kinds import library

KEY, SECRET = "AKIAHIDDENKEY", "hidden/secret+word"
ESCAPED = SECRET.replace("/", "%2F").replace("+", "%2B")
AGES = Schema({"age": Number(0, 100)})


class Store(ThreadingHTTPServer):
    """A server that has objects of buckets, by their path."""

    objects: dict[str, bytes]
    asked_by: set[str]
    daemon_threads = True


class Answers(BaseHTTPRequestHandler):
    server: Store
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        path, asked = unquote(place.path).lstrip("/"), parse_qs(place.query, keep_blank_values=True)
        key = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        self.server.asked_by.add(key)
        if key != KEY:
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if "list-type" in asked:
            return self.answer(200, self.listed(path.strip("/"), asked))
        if path not in self.server.objects:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>" if self.command == "GET" else b"")
        content, part = self.server.objects[path], self.headers.get("Range", "").removeprefix("bytes=")
        if not part:
            return self.answer(200, content)
        start, _, end = part.partition("-")
        last = min(int(end or len(content) - 1), len(content) - 1)
        return self.answer(206, content[int(start) : last + 1], f"bytes {start}-{last}/{len(content)}")

    def listed(self, bucket: str, asked: dict[str, list[str]]) -> bytes:
        prefix, delimiter = (asked.get(name, [""])[0] for name in ("prefix", "delimiter"))
        keys, folders = [], set()
        for path, content in sorted(self.server.objects.items()):
            key = path.removeprefix(f"{bucket}/")
            if path.startswith(f"{bucket}/") and key.startswith(prefix):
                rest = key.removeprefix(prefix)
                if delimiter and delimiter in rest:
                    folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                else:
                    keys.append(
                        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                        f"<Size>{len(content)}</Size><ETag>x</ETag></Contents>"
                    )
        inside = "".join(keys) + "".join(
            f"<CommonPrefixes><Prefix>{each}</Prefix></CommonPrefixes>" for each in folders
        )
        return (
            f'<?xml version="1.0"?><ListBucketResult><Name>{bucket}</Name><Prefix>{prefix}</Prefix>'
            f"<KeyCount>{len(keys) + len(folders)}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{inside}</ListBucketResult>"
        ).encode()

    def answer(self, status: int, content: bytes, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


def packed(table: pa.Table) -> bytes:
    stream = pa.BufferOutputStream()
    pyarrow.parquet.write_table(table, stream)
    return stream.getvalue().to_pybytes()


def ages(start: int = 0, rows: int = 100) -> pa.Table:
    return pa.table({"age": np.arange(start, start + rows, dtype=np.float64) % 100})


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    server = Store(("127.0.0.1", 0), Answers)
    text = pa.BufferOutputStream()
    pyarrow.csv.write_csv(ages(), text)
    server.objects = {
        "clinic/visits/2026-01.parquet": packed(ages()),
        "clinic/visits/2026-02.parquet": packed(ages(100, 50)),
        "clinic/visits/notes.txt": b"not data",
        "clinic/plain/ages.csv": text.getvalue().to_pybytes(),
        "clinic/broken/ages.parquet": b"hidden content",
    }
    server.asked_by = set()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def address(store: Store) -> Any:
    end = f"?endpoint_override=127.0.0.1:{store.server_port}&scheme=http&region=local"
    return lambda key: f"s3://{KEY}:{ESCAPED}@clinic/{key}{end}"


def assert_tells_nothing(text: str) -> None:
    for word in (KEY, SECRET, ESCAPED, "endpoint_override", "127.0.0.1"):
        assert word not in text


def test_a_file_a_folder_and_a_pattern(store: Store, address: Any) -> None:
    expected = np.concatenate([ages()["age"].to_numpy(), ages(100, 50)["age"].to_numpy()])
    for key in ("visits", "visits/", "visits/2026-*.parquet", "visits/2026-0[12].p*"):
        np.testing.assert_array_equal(read(address(key), schema=AGES)["age"], expected)
        assert row_count(address(key)) == 150
    assert read(address("visits/2026-02.parquet")).rows == 50
    assert read(address("plain/ages.csv")).rows == 100
    assert read(CsvFile(address("plain/ages.csv"), has_header=True, encoding="utf-8"), schema=AGES).rows == 100
    assert column_types(address("visits")).names == ["age"]
    assert KEY in store.asked_by


def test_rows_are_read_again_at_every_pass_and_a_change_is_noticed(store: Store, address: Any) -> None:
    store.objects["clinic/changing/a.parquet"] = packed(ages())
    rows = checked_rows(address("changing"), lambda table: (table["age"],), AGES)
    assert all(len(rows.together()[0]) == 100 for _ in range(2))
    store.objects["clinic/changing/b.parquet"] = packed(ages())
    with pytest.raises(DataError, match="was changed while it was read"):
        rows.together()


@pytest.mark.parametrize("key", ["nowhere", "nowhere/*.parquet", "visits/notes.txt", "broken/ages.parquet"])
def test_what_cannot_be_read_is_told_without_credentials(address: Any, key: str) -> None:
    with pytest.raises(SourceUnreadable) as refusal:
        list(batches(address(key)))
    assert_tells_nothing(str(refusal.value))
    assert "hidden" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None


def test_who_is_not_let_in_is_told_without_credentials(store: Store) -> None:
    closed = f"s3://OTHER:{ESCAPED}@clinic/visits?endpoint_override=127.0.0.1:{store.server_port}&scheme=http&region=x"
    with pytest.raises(SourceUnreadable, match=r"'s3://clinic/visits' cannot be reached \(\w+\)") as refusal:
        read(closed)
    assert_tells_nothing(str(refusal.value))


def test_ledgers_and_tables_hold_no_credentials(address: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.account("visits", epsilon=3.0, source=address("visits"))
    assert account.terms.source == "s3://clinic/visits"
    PrivateStandardScaler(0.5, schema=AGES, account=account).fit(address("visits"))
    PrivateStandardScaler(0.5, schema=AGES, account=account).fit(address("visits/2026-01.parquet"))
    table = read(address("visits"))
    PrivateStandardScaler(0.5, schema=AGES, account=account).fit(table)
    assert account.spent().epsilon == pytest.approx(1.5)
    with pytest.raises(SourceMismatch) as mismatch:
        PrivateStandardScaler(0.5, schema=AGES, account=account).fit(address("plain/ages.csv"))
    assert_tells_nothing(str(mismatch.value))
    with pytest.raises(SourceTaken):
        ledger.account("more visits", epsilon=3.0, source="s3a://clinic/visits/2026-*.parquet")
    named = ledger.account("patients", epsilon=1.0)
    with pytest.raises(SourceTaken):
        PrivateStandardScaler(0.5, schema=AGES, account=named).fit(address("visits"))
    for text in (repr(given_source(table)), repr(source(address("visits")).origin), repr(pickle.dumps(table))):
        assert_tells_nothing(text)
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir()).decode(errors="replace")
    assert_tells_nothing(content)


def test_file_systems_of_others(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    pyarrow.parquet.write_table(ages(), tmp_path / "ages.parquet")
    memory = fsspec.filesystem("memory")
    with memory.open("/box/ages.parquet", "wb") as file:
        file.write((tmp_path / "ages.parquet").read_bytes())
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for path, filesystem in (
        (str(tmp_path / "ages.parquet"), pyarrow.fs.LocalFileSystem()),
        (tmp_path / "ages.parquet", fsspec.filesystem("file")),
        ("ages.parquet", below),
    ):
        opened = source(path, filesystem=filesystem)
        assert read(opened).rows == 100
        assert given_source(opened) == given_source(tmp_path / "ages.parquet")
    for path in ("box/ages.parquet", "/box/ages.parquet", "memory://box/ages.parquet", "box"):
        assert read(source(path, filesystem=memory)).rows == 100
    found = given_source(source("box/ages.parquet", filesystem=memory))
    assert found is not None
    assert found.text == "memory://box/ages.parquet"
    dataset = pyarrow.dataset.dataset("/box", filesystem=memory, format="parquet")
    assert given_source(dataset) is not None
    assert given_source(dataset).text == found.text  # type: ignore[union-attr]
    with pytest.raises(SourceUnreadable, match="kind of file system is not known"):
        source("x.parquet", filesystem=fsspec.filesystem("reference", fo={}))
    with pytest.raises(SourceUnreadable, match="not one of pyarrow"):
        source("x.parquet", filesystem=7)
    for data in (ages(), "sqlite:///x.db t"):
        with pytest.raises(InvalidParameter, match="no path"):
            source(data, filesystem=memory)


def test_delta_tables_in_a_store(store: Store, address: Any, tmp_path: Path) -> None:
    deltalake = library("deltalake")
    deltalake.write_deltalake(str(tmp_path / "table"), ages())
    for file in (tmp_path / "table").rglob("*"):
        if file.is_file():
            store.objects[f"clinic/table/{file.relative_to(tmp_path / 'table')}"] = file.read_bytes()
    assert read(f"delta:{address('table')}", schema=AGES).rows == 100
    found = given_source(f"delta:{address('table')}")
    assert found is not None
    assert found.text == "s3://clinic/table"
    with pytest.raises(SourceUnreadable) as refusal:
        read(f"delta:{address('visits')}")
    assert_tells_nothing(str(refusal.value))
    with pytest.raises(SourceUnreadable, match="cannot be opened with what its address holds"):
        read("delta:gs://anonymous@bucket/table")

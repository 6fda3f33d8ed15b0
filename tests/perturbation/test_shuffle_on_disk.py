"""Shuffling on disk: every order equally likely, nothing left behind or readable, and memory that does not grow with the rows."""

from __future__ import annotations

import gc
import itertools
import os
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from scipy import stats

from sudare.errors import DataError, InvalidParameter
from sudare.perturbation import RecordPerturbation, RetainReplace, SubsetSelection
from sudare.perturbation import record_perturbation as release
from sudare.perturbation import shuffle_on_disk as spool
from sudare.perturbation import two_pass_source as source
from sudare.perturbation.shuffle_on_disk import Buckets, shuffled_on_disk
from sudare.perturbation.uniform_shuffle import bucket_count, rows_as_bytes
from sudare.privacy import Account, Ledger
from sudare.privacy.noise import SeededNoise, SystemNoise
from tests.perturbation.test_perturbed_table import SCHEMA, people

# What a test of uniformity may be: a true shuffle fails it once in a thousand million times.
SMALLEST_P = 1e-9
WHOLE = RetainReplace(tuple(range(256)), epsilon=1.0)
WIDE = RetainReplace(tuple(range(4096)), epsilon=1.0)
TICKS = SubsetSelection(tuple(range(11)), epsilon=1.0)


def in_parts(column: np.ndarray, size: int) -> Any:
    return ({"x": column[start : start + size]} for start in range(0, len(column), size))


def test_all_orders_are_equally_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square on the 24 orders of four rows that come in two parts and go into two buckets, 2,400 times."""
    numbers = np.arange(4, dtype=np.uint8)
    seen = Counter(
        tuple(shuffled_on_disk({"x": WHOLE}, 4, in_parts(numbers, 3), SystemNoise())["x"].tolist())
        for _ in range(2_400)
    )
    assert set(seen) == set(itertools.permutations(range(4)))
    assert stats.chisquare(list(seen.values())).pvalue > SMALLEST_P


def test_many_rows_lose_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row ends up says nothing about where it began: a chi-square of 16 × 16 blocks; and no row is lost."""
    monkeypatch.setattr(spool, "BUCKET_BYTES", 2**13)
    numbers = np.arange(2**16)
    stored = {"low": (numbers & 255).astype(np.uint8), "high": (numbers >> 8).astype(np.uint8)}
    parts = (
        {name: column[start : start + 3_000] for name, column in stored.items()} for start in range(0, 2**16, 3_000)
    )
    found = shuffled_on_disk({"low": WHOLE, "high": WHOLE}, 2**16, parts, SystemNoise())
    drawn = found["low"].astype(np.int64) + 256 * found["high"].astype(np.int64)
    assert np.array_equal(np.sort(drawn), numbers)
    table = np.zeros((16, 16))
    np.add.at(table, (numbers >> 12, drawn >> 12), 1)
    assert stats.chi2_contingency(table).pvalue > SMALLEST_P


def test_an_order_that_buckets_keep_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: rows are thrown, but not shuffled inside their buckets. The same gate refuses it."""
    monkeypatch.setattr(spool, "shuffled", lambda rows, source: rows)
    numbers = np.arange(4, dtype=np.uint8)
    seen = Counter(
        tuple(shuffled_on_disk({"x": WHOLE}, 4, in_parts(numbers, 3), SystemNoise())["x"].tolist()) for _ in range(400)
    )
    counts = [seen.get(order, 0) for order in itertools.permutations(range(4))]
    assert stats.chisquare(counts).pvalue < SMALLEST_P


def test_rows_stay_whole() -> None:
    rng = np.random.default_rng(0)
    kinds = {"a": WIDE, "t": TICKS, "b": WHOLE}
    codes = rng.integers(0, 256, 1_003)
    stored = {
        "a": (codes * 16).astype(np.uint16),
        "t": np.column_stack([codes, codes & 7]).astype(np.uint8),
        "b": codes.astype(np.uint8),
    }
    assert rows_as_bytes(list(stored.values())).shape == (1_003, 5)
    found = shuffled_on_disk(kinds, 1_003, iter([stored]), SeededNoise(0))
    b = found["b"].astype(np.int64)
    assert not np.array_equal(b, codes)
    assert np.array_equal(np.sort(b), np.sort(codes))
    assert np.array_equal(found["a"], b * 16)
    assert np.array_equal(found["t"], np.column_stack([b, b & 7]))


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """Every temporary file that is made from now on."""
    files: list[IO[bytes]] = []
    make = tempfile.TemporaryFile

    def noted(*arguments: Any, **options: Any) -> IO[bytes]:
        files.append(make(*arguments, **options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    return files


def test_what_is_on_disk_has_no_name_and_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = opened_files(monkeypatch)
    rows = np.tile(np.frombuffer(b"a secret ordering of rows", np.uint8), (4_000, 1))
    with Buckets(25, 4, SystemNoise()) as buckets:
        buckets.scatter(rows)
        contents = b""
        for file in files:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
            assert os.fstat(file.fileno()).st_nlink == 0
            file.flush()
            contents += os.pread(file.fileno(), 2**20, 0)
        assert list(tmp_path.iterdir()) == []
        assert len(contents) == rows.size
        assert b"secret" not in contents
        assert stats.chisquare(np.bincount(np.frombuffer(contents, np.uint8), minlength=256)).pvalue > SMALLEST_P
        assert np.array_equal(np.concatenate(list(buckets.emptied())), rows)
    assert all(file.closed for file in files)


@pytest.mark.parametrize("stage", ["scatter", "shuffled", "write_at"])
def test_nothing_is_left_behind_by_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = opened_files(monkeypatch)

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Buckets if stage == "scatter" else spool, stage, fail)
    with pytest.raises(DataError, match=r"shuffled on disk \(No space left on device\)"):
        shuffled_on_disk({"x": WHOLE}, 4, in_parts(np.arange(4, dtype=np.uint8), 2), SystemNoise())
    assert files
    assert all(file.closed for file in files)
    assert list(tmp_path.iterdir()) == []


def test_no_room_is_noticed_before_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account: Account = Ledger(tmp_path / "ledger.db").account("people", epsilon=30.0)
    people().to_parquet(tmp_path / "people.parquet")
    monkeypatch.setattr(release, "HELD_BYTES", 0)
    full = os.statvfs_result((4_096, 4_096, 10**6, 0, 0, 10**6, 10**6, 10**6, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda folder: full)
    with pytest.raises(InvalidParameter, match="there is room for 0"):
        RecordPerturbation(SCHEMA, epsilon=1.0, account=account).fit(tmp_path / "people.parquet")
    assert account.spent().epsilon == 0


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.parquet"
    people(100).to_parquet(path)

    def look_then_change(*given: Any) -> Any:
        seen = source.checked_records(*given)
        people(99).to_parquet(path)
        return seen

    monkeypatch.setattr(release, "HELD_BYTES", 0)
    monkeypatch.setattr(release, "checked_records", look_then_change)
    with pytest.raises(DataError, match="was changed while it was read"):
        RecordPerturbation(SCHEMA, epsilon=1.0).fit(path)


def test_buckets_are_a_power_of_two_that_a_byte_can_choose() -> None:
    assert [bucket_count(size, spool.BUCKET_BYTES) for size in (1, 2**23, 2**24, 2**40)] == [2, 2, 4, 256]


def test_memory_does_not_grow_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the rows, 3 MiB of them: what Python and numpy hold grows by the buffers of further files at most."""
    monkeypatch.setattr(spool, "BUCKET_BYTES", 2**16)
    parts = {"x": np.zeros(2**14, np.uint8), "y": np.zeros(2**14, np.uint16)}
    peaks = []
    for count in (16, 16, 64):
        gc.collect()
        tracemalloc.start()
        found = shuffled_on_disk({"x": WHOLE, "y": WIDE}, count * 2**14, (parts for _ in range(count)), SystemNoise())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(found["x"]) == count * 2**14
    further_files, further_bytes = 64 - 16, 48 * 2**14 * 3
    assert peaks[2] - peaks[1] < further_files * 2**14 < further_bytes / 2


BIG = """
import sys, threading, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from sudare.perturbation import RecordPerturbation
from sudare.schema import Number, Schema
folder, rows = sys.argv[1], int(sys.argv[2])
schema = Schema({name: Number(0, 100) for name in "abcd"})
numbers = np.random.default_rng(0)
with pq.ParquetWriter(f"{folder}/big.parquet", pa.schema([(name, pa.float32()) for name in "abcd"])) as writer:
    for _ in range(rows >> 19):
        writer.write_table(pa.table({name: pa.array(numbers.uniform(0, 100, 2**19).astype("f4")) for name in "abcd"}))
most = 0
def watch():
    global most
    while True:
        _, resident, shared, *_ = map(int, open("/proc/self/statm").read().split())
        most = max(most, (resident - shared) * 4)
        time.sleep(0.01)
threading.Thread(target=watch, daemon=True).start()
model = RecordPerturbation(schema, epsilon=4.0).fit(f"{folder}/big.parquet")
with open(f"{folder}/rows.parquet", "wb") as file:
    file.writelines(model.table_.parquet())
print(model.n_rows_, most)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_a_table_larger_than_its_memory(tmp_path: Path) -> None:
    """Three times the rows (216 MiB perturbed) take hardly more of the process's own memory than one time."""
    held = []
    for rows in (9 << 20, 27 << 20):
        done = subprocess.run(
            [sys.executable, "-c", BIG, str(tmp_path), str(rows)],
            capture_output=True,
            text=True,
            check=True,
            timeout=1_800,
        )
        count, most = map(int, done.stdout.split())
        assert count == rows
        held.append(most)
        (tmp_path / "rows.parquet").unlink()
    # Kilobytes; the perturbed rows alone grow by 147,456 of them, and the source by twice that.
    assert held[1] - held[0] < 60_000

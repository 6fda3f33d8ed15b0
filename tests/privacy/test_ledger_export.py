"""What others than the ledger's own tools are shown of an entry: nothing that depends on the bytes of a table."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from sudare.errors import SourceTaken
from sudare.privacy import Ledger
from sudare.privacy import ledger_tables as tables
from sudare.privacy import source_identity as sources
from sudare.privacy.ledger_chain import FIRST_PREVIOUS, Entry
from sudare.privacy.ledger_export import to_be_shown, without_file_states


def test_files_and_the_digest_of_their_bytes_are_left_out() -> None:
    body = {"what": "mean", "files": ["1:2:3:4"], "slice": {"partition": "ab" * 32, "where": {"ward": "a"}}}
    assert without_file_states(body) == {"what": "mean", "slice": {"where": {"ward": "a"}}}
    assert without_file_states({"slice": "none"}) == {"slice": "none"}
    entry = Entry(0, FIRST_PREVIOUS, "now", "a", "charge", body, "hash")
    assert to_be_shown(entry) == Entry(0, FIRST_PREVIOUS, "now", "a", "charge", without_file_states(body), "hash")
    assert entry.body == body


def test_a_ledger_with_sizes_opens_compares_and_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 3 wrote device, inode, size and time of change in the clear."""
    table = Path(os.path.realpath(tmp_path)) / "a.parquet"
    pd.DataFrame({"age": [20.0, 30.0]}).to_parquet(table)
    with monkeypatch.context() as older:
        older.setattr(tables, "FORMAT", 3)
        older.setattr(sources, "_fingerprint", lambda s: f"{s.st_dev}:{s.st_ino}:{s.st_size}:{s.st_mtime_ns}")
        Ledger(tmp_path / "ledger.db").account("a", epsilon=1.0, source=table)
    ledger = Ledger(tmp_path / "ledger.db", create=False)
    (kept,) = ledger.account("a").terms.files
    assert kept.split(":")[2] == str(table.stat().st_size)
    ledger.account("a", source=table)
    table.rename(tmp_path / "b.parquet")
    with pytest.raises(SourceTaken):
        ledger.account("b", epsilon=1.0, source=tmp_path / "b.parquet")
    ledger.raise_budget("a", epsilon=2.0, reason="more")
    assert ledger.verify() == ledger.head()
    assert Ledger(tmp_path / "ledger.db").account("a").terms.files == (kept,)

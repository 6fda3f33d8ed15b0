"""Dry runs: the same steps, on a copy of the ledger that is thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sudare.privacy import Ledger


@contextmanager
def ledger_or_copy(address: str, dry_run: bool, *, create: bool = False) -> Iterator[Ledger]:
    """The ledger itself; in a dry run a copy, or a new one where there is none and one may be created."""
    from sudare.privacy import Ledger

    if not dry_run:
        yield Ledger(address, create=create)
        return
    with tempfile.TemporaryDirectory(prefix="sudare-dry-run-") as folder:
        copy = Path(folder) / "ledger.db"
        if not create or Path(address).exists():
            Ledger(address, create=False).backup(copy)
        yield Ledger(copy)

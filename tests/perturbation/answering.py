"""What tests of repeated answers share: persons, a schema, an account, and collections."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sudare.perturbation import RecordPerturbation
from sudare.privacy import Account, Ledger
from sudare.schema import Category, Number, Person, Schema

EPSILON = 1.0
SCHEMA = Schema({"age": Number(0, 100), "heating": Category(("gas", "oil", "other"))}, Person("id", 1))


def people(ids: Sequence[int], age: float = 40.0, heating: str = "gas") -> pd.DataFrame:
    """A row for each person, all with the same values."""
    return pd.DataFrame({"id": list(ids), "age": age, "heating": heating})


def account_in(folder: Path, epsilon: float = 5.0, name: str = "people") -> Account:
    return Ledger(folder / "ledger.db").account(name, epsilon, unit="person")


def collected(account: Account, table: Any, memory: Path, **changes: Any) -> RecordPerturbation:
    """A collection in the order of the table."""
    given = {"epsilon": EPSILON, "memory": memory, "shuffle": False, **changes}
    return RecordPerturbation(given.pop("schema", SCHEMA), account=account, **given).fit(table)


def rows(model: RecordPerturbation) -> Any:
    """What is released, a row a person."""
    stored = [model.table_.stored[name].reshape(model.n_rows_, -1) for name in model.table_.names]
    return np.hstack(stored).astype(np.float64)

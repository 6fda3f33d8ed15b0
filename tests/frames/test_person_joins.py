"""Two tables about the same persons as one source: every pair of kept rows, from any sources. Proof: proofs/persons.md."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.errors import InvalidParameter, SchemaError
from sudare.frames import PersonJoin, read
from sudare.frames import row_spool as spool
from sudare.schema import Number, Person, Schema
from tests.frames.test_person_rows import KEY, SCHEMA, rows_of, visits


def prescriptions():
    generator = np.random.default_rng(1)
    return pd.DataFrame({"who": generator.integers(20, 60, 400).astype(str), "drug": generator.choice(["a", "b"], 400)})


@pytest.mark.parametrize("room", [0, 2**27])
def test_a_join_has_every_pair_of_kept_rows(room, tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", room)
    left, right = visits()[["who", "dose"]], prescriptions()
    left.to_parquet(tmp_path / "left.parquet")
    right.to_csv(tmp_path / "right.csv", index=False)
    joined = PersonJoin(left, right, SCHEMA, (2, 3), key=KEY)
    stored = PersonJoin(tmp_path / "left.parquet", tmp_path / "right.csv", SCHEMA, (2, 3), key=KEY)
    assert stored.origins == (tmp_path / "left.parquet", tmp_path / "right.csv")
    assert joined.types(()).names == ["who", "dose", "drug"]
    sizes = pd.concat(
        [
            left.groupby("who").size().clip(upper=2),
            right.assign(who=right.who.astype(int)).groupby("who").size().clip(upper=3),
        ],
        axis=1,
    ).dropna()
    whole = Schema(SCHEMA.columns, Person("who", 100))
    table = read(joined, schema=whole)
    assert table.rows == int((sizes[0] * sizes[1]).sum())
    assert len(set(table.arrow["who"].to_pylist())) == len(sizes)
    assert rows_of(joined) == rows_of(stored) == rows_of(joined)
    assert [part.rows <= 7 for part in joined.batches(None, 7, whole)].count(False) == 0
    assert joined.joined_schema.person == Person("who", 3)
    assert PersonJoin(left, right, whole, (2, 3)).joined_schema.person == Person("who", 6)


def test_joins_that_cannot_be_made_say_why():
    left, right = visits()[["who", "dose"]], prescriptions()
    for schema, tables, bounds, problem, message in [
        (Schema(SCHEMA.columns), (left, right), (1, 1), SchemaError, "declares the person"),
        (SCHEMA, (left, right), (1, 0), InvalidParameter, "two whole numbers"),
        (SCHEMA, (left, right), 3, InvalidParameter, "two whole numbers"),
        (SCHEMA, (left, right.rename(columns={"who": "name"})), (1, 1), SchemaError, "not in both"),
        (SCHEMA, (left, right.assign(dose=0.0)), (1, 1), SchemaError, "'dose' is in both"),
        (SCHEMA, (left, right.drop(columns="drug")), (1, 1), SchemaError, "'drug' is in neither"),
        (Schema({"dose": Number(0, 1)}, Person("who", 2)), (left, right), (1, 1), SchemaError, "no column of one"),
    ]:
        with pytest.raises(problem, match=message):
            PersonJoin(*tables, schema, bounds)

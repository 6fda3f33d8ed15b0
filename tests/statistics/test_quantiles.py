"""Quantiles of columns: any source, intervals that hold, one charge, release and load, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.base import clone

from sudare.errors import InvalidParameter, ReleaseMalformed
from sudare.privacy import Ledger, Release
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import PrivateQuantiles

SCHEMA = Schema(
    {
        "age": Number(0, 100, bins=tuple(range(1, 100))),
        "pay": Number(0, 1000, missing="centre"),
        "town": Category(("a", "b")),
    }
)
KEY = Ed25519PrivateKey.generate()
DECILES = [place / 10 for place in range(1, 10)]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": np.floor(generator.uniform(18, 90, 4000)),
            "pay": np.where(generator.random(4000) < 0.02, np.nan, generator.gamma(4, 80, 4000)),
            "town": ["a"] * 4000,
        }
    )


def test_with_next_to_no_noise_they_are_the_quantiles(people: pd.DataFrame) -> None:
    model = PrivateQuantiles(1e6, quantiles=DECILES, intervals=False, schema=SCHEMA, random_state=0).fit(people)
    ages = np.quantile(people.age, DECILES, method="inverted_cdf")
    np.testing.assert_array_equal(model.quantiles_["age"], ages + 0.5)
    pay = np.quantile(np.clip(people.pay.fillna(500), 0, 1000), DECILES, method="inverted_cdf")
    np.testing.assert_allclose(model.quantiles_["pay"], pay, atol=0.7)
    assert list(model.table()) == ["column", "quantile", "value"]


@pytest.mark.parametrize("neighbours", [pytest.param("replace-one", marks=pytest.mark.long), "add-remove"])
def test_intervals_hold_as_often_as_they_say(people: pd.DataFrame, neighbours: str) -> None:
    true = np.quantile(np.clip(people.pay.fillna(500), 0, 1000), [0.25, 0.5, 0.75], method="inverted_cdf")
    held = []
    for seed in range(40):
        model = PrivateQuantiles(
            1.0,
            quantiles=[0.25, 0.5, 0.75],
            quantile_of=["pay"],
            schema=SCHEMA,
            neighbours=neighbours,
            random_state=seed,
        )
        found = model.fit(people).table()
        held.append((found["value_low"] <= true) & (true <= found["value_high"]))
        assert (np.array(found["value_low"]) <= found["value"]).all()
    # 120 intervals: five standard deviations of a share of .95 are .1.
    assert np.mean(held) >= 0.85


def test_every_source_gives_the_same_bits(people: pd.DataFrame, tmp_path: Path) -> None:
    people.to_parquet(tmp_path / "people.parquet")
    people.to_csv(tmp_path / "people.csv", index=False)
    sources = [
        people,
        pl.from_pandas(people),
        pa.Table.from_pandas(people),
        {name: people[name].to_list() for name in people},
        tmp_path / "people.parquet",
        tmp_path / "people.csv",
        iter([people[:1000], people[1000:]]),
    ]
    tables = [PrivateQuantiles(1.0, schema=SCHEMA, random_state=4).fit(source).table() for source in sources]
    assert all(table == tables[0] for table in tables)


def test_arrays_have_bounds() -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    model = PrivateQuantiles(5.0, bounds=(-6, 6), random_state=0).fit(rows)
    np.testing.assert_allclose([model.quantiles_[name][0] for name in ("x0", "x1")], np.median(rows, axis=0), atol=0.1)
    assert model.clipped_ == {"x0": 0, "x1": 0}


@pytest.mark.parametrize("parameters", [{}, {"intervals": False, "quantiles": [0.9]}, {"neighbours": "add-remove"}])
def test_one_charge_release_and_load(people: pd.DataFrame, tmp_path: Path, parameters: dict) -> None:
    account = Ledger(tmp_path / "ledger.db").account("people", 2.0, source="people")
    model = PrivateQuantiles(0.5, schema=SCHEMA, quantile_of=["pay"], account=account, **parameters)
    quote = model.price(people)
    model.fit(people)
    assert account.remaining() == quote.left_after
    Release.of(model).save(tmp_path / "q.sudare", KEY)
    loaded = Release.load(tmp_path / "q.sudare", trusted=[KEY.public_key()]).model()
    assert loaded.table() == model.table()
    assert loaded.noise_scale_ == model.noise_scale_
    assert (model.release_content().parameters["rows"] is None) == (parameters.get("neighbours") == "add-remove")


def test_a_release_with_cells_that_are_not_there_is_refused(people: pd.DataFrame) -> None:
    model = PrivateQuantiles(1.0, schema=SCHEMA, quantile_of=["age"], random_state=0).fit(people)
    content = model.release_content()
    for place, cell in ((0, -1), (0, 100), (1, -2), (2, 101)):
        tensors = {"cells": content.tensors["cells"].copy()}
        tensors["cells"][place] = cell
        with pytest.raises(ReleaseMalformed):
            model.check_numbers(type(content)(content.parameters, tensors, content.grids))


def test_persons_pay_for_all_their_rows(people: pd.DataFrame) -> None:
    schema = Schema(dict(SCHEMA.columns), Person("who", 4))
    owned = people.assign(who=np.arange(4000) // 4)
    one = PrivateQuantiles(schema=SCHEMA, random_state=0).fit(people)
    four = PrivateQuantiles(schema=schema, random_state=0).fit(owned)
    assert four.noise_scale_ == pytest.approx(4 * one.noise_scale_)
    assert four.guarantee_.unit == "person"


def test_some_columns_of_a_file_with_persons(tmp_path: Path, people: pd.DataFrame) -> None:
    schema = Schema(dict(SCHEMA.columns), Person("who", 2))
    owned = people.assign(who=np.arange(4000) // 4)
    owned.to_parquet(tmp_path / "people.parquet")
    model = PrivateQuantiles(schema=schema, quantile_of=["age"], random_state=0)
    assert clone(model).fit(tmp_path / "people.parquet").table() == clone(model).fit(owned).table()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"quantiles": [2]}, "between 0 and 1"),
        ({"delta": 1e-6}, "pure"),
        ({"quantile_of": ["town"]}, "number columns"),
        ({"quantile_of": []}, "number columns"),
        ({"quantile_of": ["age", "age"]}, "number columns"),
        ({"intervals": 1}, "True or False"),
        ({"neighbours": "other"}, "neighbours"),
    ],
)
def test_what_is_refused_before_a_charge(people: pd.DataFrame, tmp_path: Path, parameters: dict, says: str) -> None:
    account = Ledger(tmp_path / "ledger.db").account("people", 1.0, 1e-3, source="people")
    with pytest.raises(InvalidParameter, match=says):
        PrivateQuantiles(**{"schema": SCHEMA, "account": account, **parameters}).fit(people)
    assert account.spent().epsilon == 0

"""`sudare show`: numbers of released statistics with labels and intervals."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.conftest import FIT_MEAN, Sudare


@pytest.fixture
def table(house: Path, sudare: Sudare) -> Path:
    words = ("fit", "table", *FIT_MEAN[2:], "-o", "table.sudare", "--key", "key.pem")
    assert sudare(*words, "--by", "smoker", "--mean-of", "age").exit_code == 0
    return house / "table.sudare"


def test_a_table_by_group(table: Path, house: Path, sudare: Sudare) -> None:
    told = sudare("show", "table.sudare", "--trusted", "key-public.pem", "--csv", "table.csv")
    assert told.exit_code == 0, told.stderr
    for word in ("smoker", "mean_age", " to ", "probability 0.95", "Wrote table.csv"):
        assert word in told.stdout
    assert "NOT CHECKED" not in told.stdout
    assert "NOT CHECKED" in sudare("show", "table.sudare").stdout
    values = sudare("show", "table.sudare", "--json").values
    with (house / "table.csv").open() as file:
        assert [row["smoker"] for row in csv.DictReader(file)] == values["table"]["smoker"]
    assert sudare("show", "table.sudare", "--csv", "table.csv").exit_code == 10
    assert sudare("show", "table.sudare", "--level", 2).exit_code == 10
    assert sudare("show", "table.sudare", "--by", "age").exit_code == 10


def test_means(house: Path, sudare: Sudare) -> None:
    values = sudare("show", "mean.sudare", "--json").values
    assert (values["learner"], values["table"]["column"]) == ("PrivateMean", ["age"])
    (low,), (mean,), (high,) = (values["table"][name] for name in ("mean_low", "mean", "mean_high"))
    assert low <= mean <= high
    wider = sudare("show", "mean.sudare", "--level", 0.999, "--json").values["table"]
    assert wider["mean_low"][0] <= low
    assert sudare("show", "mean.sudare", "--by", "age").exit_code == 10


def test_what_has_no_table(house: Path, sudare: Sudare) -> None:
    words = ("fit", "scaler", *FIT_MEAN[2:], "-o", "scaler.sudare", "--key", "key.pem")
    assert sudare(*words).exit_code == 0
    refused = sudare("show", "scaler.sudare")
    assert refused.exit_code == 10
    assert "sudare inspect" in refused.stderr

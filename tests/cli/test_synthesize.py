"""A hospital hands on rows of nobody: synthesize, inspect and sample from the shell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sudare.errors import SudareError
from sudare.privacy import Ledger
from tests.cli.conftest import FIT_MEAN, SCHEMA, Sudare

SCHEMA_WITH_LABEL = f"""{SCHEMA}
[columns.ill]
kind = "label"
classes = [0, 1]
"""
BASE = ("synthesize", "visits.parquet", "--schema", "visits.toml", "--epsilon", 2)
PAY = ("--budget", 5, "--budget-delta", 1e-5, "--key", "key.pem", "-o", "visits.sudare")


@pytest.fixture
def hospital(house: Path) -> Path:
    """The house with a table of 3,000 patients, of whom smokers are ill; one is older than anybody."""
    random = np.random.default_rng(1)
    smoker = random.random(3_000) < 0.4
    ill = random.random(3_000) < np.where(smoker, 0.8, 0.1)
    age = random.normal(50, 15, 3_000)
    age[0] = 200.0
    pd.DataFrame({"age": age, "smoker": np.where(smoker, "yes", "no"), "ill": ill.astype(int)}).to_parquet(
        house / "visits.parquet"
    )
    (house / "visits.toml").write_text(SCHEMA_WITH_LABEL)
    return house


@pytest.mark.parametrize(
    "options",
    [(), ("--delta", 1e-6), ("--pair", "age=smoker"), ("--engine", "microaggregation", "--groups", 5)],
    ids=str,
)
def test_rows_of_nobody(hospital: Path, sudare: Sudare, options: tuple[object, ...]) -> None:
    made = sudare(*BASE, *options, *PAY)
    assert made.exit_code == 0, made.stderr
    assert "Wrote visits.sudare: ε = 2" in made.stdout
    assert "Account 'visits' has ε = " in made.stdout
    values_outside = "values lay outside the bounds and were clipped; only you see this."
    assert values_outside in made.stdout
    account = Ledger("ledger.db", create=False).account("visits")
    assert account.spent().epsilon == 2
    shown = sudare("inspect", "visits.sudare", "--trusted", "key-public.pem")
    assert shown.exit_code == 0, shown.stderr
    assert "PrivateSynthesizer" in shown.stdout
    drawn = sudare("sample", "visits.sudare", "--rows", 2000, "--seed", 1, "-o", "rows.parquet")
    assert drawn.exit_code == 0, drawn.stderr
    assert "Wrote rows.parquet: 2,000 synthetic rows; ε = 2" in drawn.stdout
    assert "NOT CHECKED" in drawn.stdout
    rows = pd.read_parquet("rows.parquet")
    assert list(rows) == ["age", "smoker", "ill"]
    ill = rows.groupby("smoker")["ill"].mean()
    assert ill["yes"] > 0.6
    assert ill["no"] < 0.3


def test_answers_in_json(hospital: Path, sudare: Sudare) -> None:
    made = sudare(*BASE, "--pair", "age=smoker", *PAY, "--json").values
    assert made["pairs"] == [["age", "smoker"]]
    assert made["guarantee"]["epsilon"] == 2
    assert made["remaining"]["epsilon"] == 3
    assert made["clipped"]["age"] >= 1
    drawn = sudare("sample", "visits.sudare", "-o", "rows.parquet", "--trusted", "key-public.pem", "--json").values
    assert drawn["columns"] == ["age", "smoker", "ill"]
    assert drawn["signature"] == "trusted"
    assert drawn["rows"] == len(pd.read_parquet("rows.parquet"))
    assert drawn["guarantee"]["neighbours"] == "replace-one"


def test_errors_of_pairs_and_rows_with_given_values(hospital: Path, sudare: Sudare) -> None:
    made = sudare(*BASE, "--engine", "adaptive", *PAY)
    assert made.exit_code == 0, made.stderr
    assert "`sudare show visits.sudare`" in made.stdout
    shown = sudare("show", "visits.sudare", "--level", 0.8, "--json").values["table"]
    assert {frozenset(pair) for pair in zip(shown["first"], shown["second"], strict=True)} == {
        frozenset(pair) for pair in (("age", "smoker"), ("age", "ill"), ("smoker", "ill"))
    }
    assert all(low <= high <= 1 for low, high in zip(shown["distance"], shown["bound"], strict=True))
    assert "probability 0.8" in sudare("show", "visits.sudare", "--level", 0.8).stdout
    words = ("sample", "visits.sudare", "--rows", 500, "--seed", 1)
    drawn = sudare(*words, "--given", "smoker=yes", "--given", "age=40", "-o", "rows.parquet")
    assert drawn.exit_code == 0, drawn.stderr
    rows = pd.read_parquet("rows.parquet")
    assert {*rows["smoker"]} == {"yes"}
    assert {*rows["age"]} == {40.0}
    assert rows["ill"].mean() > 0.6
    for wrong in ("smoker", "nobody=1", "age=old", "smoker=maybe"):
        assert sudare(*words, "--given", wrong, "-o", "other.parquet").exit_code == 10
    assert not Path("other.parquet").exists()


def test_dry_runs_spend_nothing(hospital: Path, sudare: Sudare) -> None:
    told = sudare(*BASE, "--dry-run")
    assert told.exit_code == 0, told.stderr
    assert "This would cost ε = 2" in told.stdout
    assert "nothing was counted, charged or written" in told.stdout
    quoted = sudare(*BASE, "--dry-run", "--budget", 5, "--json").values
    assert quoted["admitted"]
    assert quoted["left_after"]["epsilon"] == 3
    small = sudare(*BASE, "--dry-run", "--budget", 1)
    assert "it would be refused" in small.stdout
    with pytest.raises(SudareError):
        Ledger("ledger.db", create=False).account("visits")
    assert not (hospital / "visits.sudare").exists()


@pytest.mark.parametrize("most_rows", ["3", '"auto"\nlargest = 8'])
@pytest.mark.parametrize("engine", ["marginals", "adaptive", "microaggregation"])
def test_dry_runs_price_what_a_run_costs_where_persons_have_more_rows(
    hospital: Path, sudare: Sudare, engine: str, most_rows: str
) -> None:
    table = pd.read_parquet("visits.parquet")
    table["patient"] = np.arange(len(table)) % 300
    table.to_parquet("visits.parquet")
    (hospital / "visits.toml").write_text(
        f"{SCHEMA_WITH_LABEL}\n[person]\ncolumn = 'patient'\nmost_rows = {most_rows}\n"
    )
    words = (*BASE, "--engine", engine, "--json")
    told = sudare(*words, "--dry-run", "--budget", 5, "--budget-delta", 1e-5)
    assert told.exit_code == 0, told.stderr
    made = sudare(*words, *PAY)
    assert made.exit_code == 0, made.stderr
    assert told.values["guarantee"] == made.values["guarantee"]
    assert told.values["guarantee"]["unit"] == "person"
    assert told.values["left_after"] == made.values["remaining"]


def test_what_is_wrong(hospital: Path, sudare: Sudare) -> None:
    for words in (
        (*BASE, *PAY, "--pair", "age"),
        (*BASE, *PAY, "--pair", "age=name"),
        (*BASE, *PAY, "--label", "name"),
        (*BASE, *PAY, "--groups", 1),
        (*BASE, "--budget", 5),
    ):
        told = sudare(*words)
        assert told.exit_code != 0
        assert "InvalidParameter" in told.stderr
    assert not (hospital / "visits.sudare").exists()
    assert sudare(*FIT_MEAN, "-o", "other.sudare", "--key", "key.pem").exit_code == 0
    wrong = sudare("sample", "other.sudare", "-o", "rows.parquet")
    assert "NotReleasable: 'other.sudare' holds a PrivateMean, not a synthetic table." in wrong.stderr
    assert sudare(*BASE, *PAY).exit_code == 0
    (hospital / "rows.parquet").write_text("kept")
    assert "InvalidParameter" in sudare("sample", "visits.sudare", "-o", "rows.parquet").stderr
    assert (hospital / "rows.parquet").read_text() == "kept"
    assert "InvalidParameter" in sudare("sample", "visits.sudare", "-o", "new.parquet", "--rows", 0).stderr


def test_a_file_called_csv_is_one(hospital: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--pair", "age=smoker", *PAY).exit_code == 0
    drawn = sudare("sample", "visits.sudare", "--rows", 50, "--seed", 1, "-o", "rows.csv")
    assert drawn.exit_code == 0, drawn.stderr
    assert sudare("sample", "visits.sudare", "--rows", 50, "--seed", 1, "-o", "rows.parquet").exit_code == 0
    rows = pd.read_csv("rows.csv")
    assert list(rows) == ["age", "smoker", "ill"]
    assert rows["smoker"].tolist() == pd.read_parquet("rows.parquet")["smoker"].tolist()
    assert sudare("sample", "visits.sudare", "-o", "rows.xlsx").exit_code == 10


@pytest.mark.parametrize("written", ['format = "%d.%m.%Y"', ""], ids=["declared", "ISO 8601"])
def test_dates_of_synthetic_rows_are_written_as_the_schema_reads_them(
    hospital: Path, sudare: Sudare, written: str
) -> None:
    days = pd.Series(pd.date_range("2025-01-01", periods=300)).dt.strftime("%d.%m.%Y" if written else "%Y-%m-%d")
    pd.DataFrame({"day": days}).to_csv("visits.csv", index=False)
    Path("days.toml").write_text(
        f'[columns.day]\nkind = "date"\nfirst = "2025-01-01"\nlast = "2025-12-31"\n{written}\n'
    )
    asked = ("visits.csv", "--schema", "days.toml", "--epsilon", 2, "--account", "days")
    assert sudare("synthesize", *asked, *PAY).exit_code == 0
    assert sudare("sample", "visits.sudare", "--rows", 20, "-o", "rows.csv").exit_code == 0
    checked = sudare("schema", "check", "rows.csv", "--schema", "days.toml")
    assert checked.exit_code == 0, checked.stderr
    assert "20 rows match the schema." in checked.stdout


def test_what_the_schema_says_cannot_be_is_in_no_row(hospital: Path, sudare: Sudare) -> None:
    """Smokers are ill by declaration, though the table has others; the code follows the answer."""
    rows = pd.read_parquet("visits.parquet")
    rows.assign(code=0).to_parquet("visits.parquet")
    schema = (
        SCHEMA_WITH_LABEL
        + """
[columns.code]
kind = "number"
low = 0
high = 9
determined_by = "smoker"

[maps.code]
no = 0.5
yes = 7

[[impossible]]
smoker = "yes"
ill = 0
"""
    )
    Path("visits.toml").write_text(schema)
    assert sudare("schema", "check", "visits.parquet", "--schema", "visits.toml").exit_code == 0
    assert sudare(*BASE, "--dry-run").exit_code == 10
    made = sudare(*BASE, "--engine", "adaptive", *PAY)
    assert made.exit_code == 0, made.stderr
    words = ("sample", "visits.sudare", "--rows", 2000, "-o", "rows.parquet")
    for given in ((), ("--given", "code=7"), ("--given", "ill=1")):
        assert sudare(*words, *given).exit_code == 0
        drawn = pd.read_parquet("rows.parquet")
        Path("rows.parquet").unlink()
        assert not ((drawn["smoker"] == "yes") & (drawn["ill"] == 0)).any()
        assert (drawn["code"] == drawn["smoker"].map({"no": 0.5, "yes": 7})).all()
    assert sudare(*words, "--given", "code=0").exit_code == 10
    Path("visits.toml").write_text(schema.replace("yes = 7", ""))
    refused = sudare(*BASE, "--engine", "adaptive", "--dry-run")
    assert refused.exit_code == 11
    assert "no value for 'smoker' = 'yes'" in refused.stderr

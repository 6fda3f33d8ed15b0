"""Every kind of release from the shell: `sudare fit KIND`."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import pytest

from sudare.cli.fit import FITTED
from tests.cli.conftest import FIT_MEAN, Sudare

SIGN = ("-o", "new.sudare", "--key", "key.pem")
MODELS = {
    "logistic": ("--target", "smoker", "--no-fit-intercept"),
    "svc": ("--target", "smoker", "--smoothing", "0.25"),
    "ridge": ("--target", "age", "--regularization", "0.1"),
    "gibbs": ("--target", "smoker", "--delta", "1e-7"),
    "network": ("--target", "age", "--delta", "1e-7", "--hidden-layer-size", "4", "--max-iter", "2", "--encode-as", "scaled"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_becomes_a_release(house: Path, sudare: Sudare, kind: str) -> None:
    words = ("fit", kind, *FIT_MEAN[2:], *MODELS[kind])
    planned = sudare(*words, "--dry-run", "--json")
    assert planned.exit_code == 0, planned.stdout
    assert planned.values["asked"]["epsilon"] == 0.5
    assert planned.values["expected_errors"][0]["size"] is None
    made = sudare(*words, *SIGN, "--json")
    assert made.exit_code == 0, made.stdout
    assert made.values["remaining"]["epsilon"] == 1.0
    assert sudare("inspect", "new.sudare", "--trusted", "key-public.pem", "--json").exit_code == 0


def test_a_dry_run_tells_account_cost_strength_error_and_rest(house: Path, sudare: Sudare) -> None:
    told = sudare("fit", "histogram", *FIT_MEAN[2:], "--dry-run").stdout
    assert "would cost ε = 0.5 (strong) of account 'patients', which has ε = 1.5 left; ε = 1.0 would be left." in told
    assert "Typical error, by the noise alone: counts ±" in told
    values = sudare("fit", "histogram", *FIT_MEAN[2:], "--dry-run", "--json").values
    (error,) = values["expected_errors"]
    assert error["what"] == "counts"
    assert error["size"] > 1


def test_without_an_account_the_one_named_like_the_table_pays(house: Path, sudare: Sudare) -> None:
    words = ("fit", "mean", *FIT_MEAN[2:7])
    nobody = sudare(*words, "--dry-run")
    assert nobody.exit_code == 0, nobody.stderr
    assert "none is called like the table" in nobody.stdout
    assert sudare(*words, *SIGN).exit_code == 35
    opened = (*words, "--budget", 1, "--ledger", "own.db")
    assert "of account 'table'" in sudare(*opened, "--dry-run").stdout
    assert sudare(*opened, *SIGN).exit_code == 0
    assert "of account 'table'" in sudare(*words, "--ledger", "own.db", "--dry-run").stdout


def test_lists_can_be_written_with_commas(house: Path, sudare: Sudare) -> None:
    words = ("fit", "quantiles", *FIT_MEAN[2:], "--quantile-of", "age", "--no-intervals")
    assert sudare(*words, "--quantile", "0.25,0.75", *SIGN).exit_code == 0
    shown = sudare("show", "new.sudare", "--json").values["table"]
    assert shown["quantile"] == [0.25, 0.75]


def test_every_kind_has_help_of_its_own(sudare: Sudare) -> None:
    listed = sudare("fit", "--help").stdout
    assert all(kind in listed for kind in FITTED)
    assert "--by" not in sudare("fit", "mean", "--help").stdout
    assert sudare("fit", "magic").exit_code == 2


def test_an_additive_model_is_also_called_boosted(sudare: Sudare) -> None:
    assert "--monotone" in sudare("fit", "boosted", "--help").stdout
    assert "additive, boosted" in sudare("fit", "--help").stdout


def test_a_dry_run_expects_the_error_of_the_rows_that_are_kept_of_persons(sudare: Sudare, tmp_path: Path) -> None:
    """60 persons, of whom one has 901 rows and two of them are kept."""
    rows = [f"p{number}" for number in range(60)] + ["p0"] * 900
    pd.DataFrame({"pid": rows, "age": 30.0}).to_csv(tmp_path / "visits.csv", index=False)
    column = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 110\n'
    (tmp_path / "visits.toml").write_text(f'{column}[person]\ncolumn = "pid"\nmost_rows = 2\n')
    words = ("fit", "mean", tmp_path / "visits.csv", "--schema", tmp_path / "visits.toml", "--epsilon", 1)
    told = sudare(*words, "--budget", 5, "--ledger", tmp_path / "new.db", "--dry-run", "--json")
    (error,) = told.values["expected_errors"]
    # Laplace noise of scale 2/ε on the mean of 61 rows in a range of 110, exceeded by a third of its weight above log 3.
    assert error["size"] == pytest.approx(2 * 110 / 61 * math.log(3), rel=0.05)


def test_names_and_units_of_columns_are_the_same_in_dry_runs_and_in_numbers(
    house: Path, sudare: Sudare, tmp_path: Path
) -> None:
    """Somebody's own words are never translated, not even those that sudare says itself elsewhere."""
    rows = pd.DataFrame({"days kept": [3.0] * 400, "ward": ["a", "b"] * 200})
    rows.to_csv(tmp_path / "stays.csv", index=False)
    (tmp_path / "stays.toml").write_text(
        '[columns."days kept"]\nkind = "number"\nlow = 0\nhigh = 30\nunit = "days"\n'
        '[columns.ward]\nkind = "category"\nvalues = ["a", "b"]\n'
    )
    table = (tmp_path / "stays.csv", "--schema", tmp_path / "stays.toml", "--by", "ward", "--mean-of", "days kept")
    words = ("fit", "table", *table, "--epsilon", 1, "--budget", 2, "--ledger", tmp_path / "new.db")
    told = sudare("--lang", "ja", *words, "--dry-run").stdout
    assert re.search(r"days kept の各平均 ±[\d.]+ days。", told)
    assert re.search(r"件数 ±[\d.]+ レコード", told)
    (counts, means, _) = sudare(*words, "--dry-run", "--json").values["expected_errors"]
    assert (counts["what"], means["what"], means["unit"]) == ("counts", "means of days kept", "days")
    assert sudare(*words, *SIGN).exit_code == 0
    assert "days kept の平均 (days)" in " ".join(sudare("--lang", "ja", "show", "new.sudare").stdout.split())


def test_help_says_which_kinds_take_slices(sudare: Sudare) -> None:
    assert "Not for this kind" not in sudare("fit", "table", "--help").stdout
    assert "Not for this kind" in sudare("fit", "additive", "--help").stdout


PERSONS = {
    "mean": (), "histogram": (), "scaler": (), "quantiles": ("--quantile-of", "age"),
    "table": ("--by", "smoker", "--mean-of", "age", "--delta", "1e-7"),
    "logistic": ("--target", "smoker"), "svc": ("--target", "smoker"), "ridge": ("--target", "age"),
    "gibbs": ("--target", "smoker", "--delta", "1e-7"), "additive": ("--target", "smoker"),
    "network": ("--target", "age", "--delta", "1e-7", "--hidden-layer-size", "4", "--max-iter", "2", "--encode-as", "scaled"),
}  # fmt: skip


@pytest.mark.parametrize("most_rows", ["3", '"auto"\nlargest = 8'])
@pytest.mark.parametrize("kind", PERSONS)
def test_a_dry_run_does_to_persons_what_the_run_does(house: Path, sudare: Sudare, kind: str, most_rows: str) -> None:
    """Where the run is paid for the dry run names its price; where it is refused the dry run is, with the same error."""
    rows = pd.DataFrame({"age": [20.0 + number % 60 for number in range(600)], "smoker": ["yes", "no", "no"] * 200})
    rows["pid"] = [f"p{number % 100}" for number in range(600)]
    rows.to_csv("visits.csv", index=False)
    declared = Path("schema.toml").read_text()
    Path("visits.toml").write_text(f'{declared}\n[person]\ncolumn = "pid"\nmost_rows = {most_rows}\n')
    words = ("fit", kind, "visits.csv", "--schema", "visits.toml", "--epsilon", 1, *PERSONS[kind], "--budget", 3)
    paid = (*words, "--budget-delta", 1e-5, "--ledger", "new.db", "--json")
    told, made = sudare(*paid, "--dry-run"), sudare(*paid, *SIGN)
    assert told.exit_code == made.exit_code, (told.stdout, made.stdout)
    refused = kind == "network" or (kind == "gibbs" and "auto" in most_rows)
    assert bool(made.exit_code) == refused, made.stdout
    if refused:
        assert told.values["error"] == made.values["error"]
    else:
        assert told.values["left_after"] == made.values["remaining"]
        assert made.values["remaining"]["epsilon"] <= 2


def test_quantiles_have_no_delta_and_say_so(house: Path, sudare: Sudare) -> None:
    assert "--delta" not in sudare("fit", "quantiles", "--help").stdout
    assert "columns that nobody declared" in " ".join(sudare("fit", "table", "--help").stdout.split())


def test_remedies_are_in_words_of_the_shell(house: Path, sudare: Sudare) -> None:
    words = ("fit", "quantiles", *FIT_MEAN[2:], "--dry-run")
    assert "Give for example --quantile 0.25." in sudare(*words, "--quantile", 1.5).stderr
    refused = sudare("fit", "mean", *FIT_MEAN[2:], *SIGN, "--epsilon", 1000)
    assert "Use --epsilon <= " in refused.stderr

"""`sudare show`: numbers of released statistics with labels and intervals."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from sudare.languages import LANGUAGES
from sudare.report.fonts import drawn_language
from tests.cli.conftest import FIT_MEAN, Sudare


@pytest.fixture
def table(house: Path, sudare: Sudare) -> Path:
    words = ("fit", "table", *FIT_MEAN[2:], "-o", "table.sudare", "--key", "key.pem")
    assert sudare(*words, "--by", "smoker", "--mean-of", "age").exit_code == 0
    return house / "table.sudare"


def test_a_table_by_group(table: Path, house: Path, sudare: Sudare) -> None:
    told = sudare("show", "table.sudare", "--trusted", "key-public.pem", "--csv", "table.csv")
    assert told.exit_code == 0, told.stderr
    for word in ("smoker", "mean of age", " – ", "probability 0.95", "Wrote table.csv"):
        assert word in told.stdout
    assert "NOT CHECKED" not in told.stdout
    assert "NOT CHECKED" in sudare("show", "table.sudare").stdout
    values = sudare("show", "table.sudare", "--json").values
    with (house / "table.csv").open() as file:
        assert [row["smoker"] for row in csv.DictReader(file)] == values["table"]["smoker"]
    assert sudare("show", "table.sudare", "--csv", "table.csv").exit_code == 10
    assert sudare("show", "table.sudare", "--level", 2).exit_code == 10
    assert sudare("show", "table.sudare", "--by", "age").exit_code == 10


def test_a_negative_count_is_said_to_be_noise_and_its_interval_begins_at_zero(house: Path, sudare: Sudare) -> None:
    # That none of 60 empty cells has negative noise has probability 2⁻⁶⁰ about.
    names = ", ".join(f'"t{place}"' for place in range(60))
    (house / "many.toml").write_text(
        (house / "schema.toml").read_text().replace('"no", "yes"', f'"no", "yes", {names}')
    )
    words = ("table.parquet", "--schema", "many.toml", "--epsilon", 0.1, "--account", "patients", "--key", "key.pem")
    for kind, options in (("histogram", ()), ("table", ("--by", "smoker", "--mean-of", "age"))):
        made = sudare("fit", kind, *words, *options, "-o", f"{kind}.sudare")
        assert made.exit_code == 0, made.stderr
        values = sudare("show", f"{kind}.sudare", "--json").values
        assert min(values["table"]["count"]) < 0
        assert min(values["table"]["count_low"]) == 0
        assert min(values["table"]["count_high"]) >= 0
        assert "A count below 0 is noise" in sudare("show", f"{kind}.sudare").stdout
        assert "0 未満の件数はノイズ" in sudare("show", f"{kind}.sudare", "--lang", "ja").stdout
        assert sudare("show", f"{kind}.sudare", "--csv", f"{kind}.csv").exit_code == 0
    # Ages are never negative, so no sum of them is.
    assert min(values["table"]["sum_age"]) < 0
    assert min(values["table"]["sum_age_low"]) == 0
    assert min(values["table"]["sum_age_high"]) >= 0
    assert "A sum below 0 of numbers that are none is noise" in sudare("show", "table.sudare").stdout
    assert "負にならない数値の合計" in sudare("show", "table.sudare", "--lang", "ja").stdout
    assert "A sum below 0" not in sudare("show", "histogram.sudare").stdout


def test_means(house: Path, sudare: Sudare) -> None:
    values = sudare("show", "mean.sudare", "--json").values
    assert (values["learner"], values["table"]["column"]) == ("PrivateMean", ["age"])
    (low,), (mean,), (high,) = (values["table"][name] for name in ("mean_low", "mean", "mean_high"))
    assert low <= mean <= high
    wider = sudare("show", "mean.sudare", "--level", 0.999, "--json").values["table"]
    assert wider["mean_low"][0] <= low
    assert sudare("show", "mean.sudare", "--by", "age").exit_code == 10


KINDS = {
    "scaler": ((), {"column", "mean", "standard_deviation"}),
    "logistic": (("--target", "smoker"), {"class", "term", "coefficient"}),
    "ridge": (("--target", "age"), {"term", "coefficient"}),
    "gibbs": (("--target", "smoker", "--delta", "1e-7"), {"class", "term", "coefficient"}),
    "network": (
        ("--target", "smoker", "--delta", "1e-7", "--hidden-layer-size", "4", "--max-iter", "2"),
        {"layer", "inputs", "neurons", "parameters"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_something_to_show(house: Path, sudare: Sudare, kind: str) -> None:
    options, columns = KINDS[kind]
    made = sudare("fit", kind, *FIT_MEAN[2:], *options, "-o", "new.sudare", "--key", "key.pem")
    assert made.exit_code == 0, made.stderr
    values = sudare("show", "new.sudare", "--json").values
    assert set(values["table"]) == columns
    assert sudare("show", "new.sudare").exit_code == 0
    drawn = sudare("show", "new.sudare", "--plot", "new.png")
    assert drawn.exit_code == (10 if kind == "network" else 0), drawn.stderr
    if kind == "scaler":
        told = sudare("show", "new.sudare").stdout
        assert "no intervals are shown: with probability 0.95 the noise of a mean is about " in told
        assert "区間は示していません" in sudare("show", "new.sudare", "--lang", "ja").stdout
    if kind == "logistic":
        assert values["table"]["term"] == ["(intercept)", "age"]
    if kind == "network":
        assert values["table"]["neurons"] == [4, 2]
        told = sudare("show", "new.sudare", "--csv", "net.csv", "--plot", "net.png")
        assert (told.exit_code, (house / "net.csv").exists(), (house / "net.png").exists()) == (0, True, False)
        assert "No picture was written" in told.stderr


def test_records_and_synthetic_tables(house: Path, sudare: Sudare) -> None:
    signed = ("--account", "patients", "--key", "key.pem")
    words = ("table.parquet", "--schema", "schema.toml", "--epsilon", 0.5, *signed)
    assert sudare("perturb", *words, "-o", "records.sudare").exit_code == 0
    assert sudare("synthesize", *words, "-o", "synthetic.sudare").exit_code == 0
    records = sudare("show", "records.sudare", "--json").values
    assert records["table"]["column"] == ["age", "smoker"]
    assert sum(records["table"]["epsilon"]) <= 0.5
    assert "sudare reconstruct" in sudare("show", "records.sudare").stdout
    assert sudare("show", "synthetic.sudare", "--json").values["table"] == {"first": ["age"], "second": ["smoker"]}


def test_numbers_as_parquet_and_picture(table: Path, house: Path, sudare: Sudare) -> None:
    told = sudare("show", "table.sudare", "--parquet", "table_of.parquet", "--plot", "table.svg", "--json")
    assert told.exit_code == 0, told.stdout
    assert pd.read_parquet(house / "table_of.parquet").to_dict("list") == told.values["table"]
    assert b"<svg" in (house / "table.svg").read_bytes()
    assert sudare("show", "table.sudare", "--plot", "table.svg").exit_code == 10
    assert sudare("show", "table.sudare", "--plot", "table.pdf").exit_code == 10


def test_a_picture_says_in_words_what_it_shows(table: Path, sudare: Sudare, house: Path) -> None:
    titles = {"en": "Counts, means, variances and quantiles by group", "ja": "グループ別の件数、平均、分散、分位点"}
    for language in LANGUAGES:
        assert sudare("show", "table.sudare", "--plot", f"{language}.svg", "--lang", language).exit_code == 0
        drawn = (house / f"{language}.svg").read_text()
        assert "GroupedTable" not in drawn
        # Without a font for Japanese it is drawn in English, and that is said.
        assert titles[drawn_language(language)] in drawn
        assert "ε = 0.5, δ = 0" in drawn


def test_units_of_the_schema_are_shown(house: Path, sudare: Sudare) -> None:
    schema = house / "units.toml"
    schema.write_text((house / "schema.toml").read_text().replace("high = 110", 'high = 110\nunit = "years"'))
    words = ("table.parquet", "--schema", "units.toml", "--epsilon", 0.2, "--account", "patients", "--key", "key.pem")
    made = sudare("fit", "table", *words, "--by", "smoker", "--mean-of", "age", "-o", "units.sudare")
    assert made.exit_code == 0, made.stderr
    assert "mean of age (years)" in sudare("show", "units.sudare").stdout
    assert sudare("fit", "mean", *words, "-o", "means.sudare").exit_code == 0
    assert sudare("show", "means.sudare", "--json").values["table"]["unit"] == ["years"]
    assert "mean of age ±" in sudare("fit", "mean", *words, "--dry-run").stdout


def test_quantiles(house: Path, sudare: Sudare) -> None:
    words = ("fit", "quantiles", *FIT_MEAN[2:], "-o", "q.sudare", "--key", "key.pem", "--quantile-of", "age")
    made = sudare(*words, "--quantile", 0.75, "--quantile", 0.25)
    assert made.exit_code == 0, made.stderr
    values = sudare("show", "q.sudare", "--json").values
    assert (values["learner"], values["table"]["quantile"]) == ("PrivateQuantiles", [0.25, 0.75])
    assert values["table"]["value_low"][0] <= values["table"]["value"][0] <= values["table"]["value_high"][0]
    assert "may lie in that gap" in sudare("show", "q.sudare").stdout.replace("\n", " ")
    refused = sudare("show", "q.sudare", "--level", 0.9)
    assert refused.exit_code == 10
    assert "drawn with them" in refused.stderr


def test_a_table_with_variances_and_quantiles(house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    # Headings are broken where a line is short, and how long numbers are depends on the noise.
    monkeypatch.setenv("COLUMNS", "240")
    words = ("fit", "table", *FIT_MEAN[2:], "-o", "t.sudare", "--key", "key.pem", "--by", "smoker")
    made = sudare(*words, "--variance-of", "age", "--quantile-of", "age", "--quantile", 0.9)
    assert made.exit_code == 0, made.stderr
    told = sudare("show", "t.sudare").stdout
    assert all(word in told for word in ("variance of age", "0.9 quantile of age", "mean of age"))


def test_a_table_of_groups_that_nobody_declared(house: Path, sudare: Sudare) -> None:
    (house / "ages.toml").write_text('[columns.age]\nkind = "number"\nlow = 0.0\nhigh = 110.0\n')
    words = (
        "fit",
        "table",
        "table.parquet",
        "--schema",
        "ages.toml",
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--account",
        "groups",
    )
    words = (*words, "--budget", 2, "--budget-delta", 1e-5, "-o", "g.sudare", "--key", "key.pem")
    made = sudare(*words, "--key-column", "smoker", "--mean-of", "age", "--ledger", "groups.db")
    assert made.exit_code == 0, made.stderr
    assert sudare("show", "g.sudare", "--json").values["table"]["smoker"] == ["no", "yes", None]
    told = sudare("show", "g.sudare", "--csv", "g.csv").stdout
    assert "(all others)" in told
    assert "(missing)" not in told
    with (house / "g.csv").open() as file:
        assert [row["smoker"] for row in csv.DictReader(file)] == ["no", "yes", "(all others)"]


@pytest.mark.parametrize(
    "words",
    [("mean", "--by", "smoker"), ("mean", "--quantile", 0.5), ("histogram", "--quantile-of", "age"), ("quantiles", "--variance-of", "age")],
)  # fmt: skip
def test_options_of_another_statistic_are_refused(house: Path, sudare: Sudare, words: tuple[str, ...]) -> None:
    refused = sudare("fit", words[0], *FIT_MEAN[2:], "-o", "no.sudare", "--key", "key.pem", *words[1:])
    assert refused.exit_code == 10
    assert "table" in refused.stderr
    assert not (house / "no.sudare").exists()


def test_rows_of_persons_that_were_left_out_are_told(house: Path, sudare: Sudare) -> None:
    words = ("--epsilon", "1", "--account", "visits", "--budget", "9", "--key", "key.pem")
    people = pd.read_parquet(house / "table.parquet")
    people.assign(patient=np.arange(len(people)) // 4).to_csv(house / "visits.csv", index=False)
    declared = (house / "schema.toml").read_text() + '[person]\ncolumn = "patient"\n'
    for name, facts in {"two": "most_rows = 2\n", "auto": 'most_rows = "auto"\nlargest = 4\n'}.items():
        (house / f"{name}.toml").write_text(declared + facts)
        made = sudare("fit", "mean", "visits.csv", "--schema", f"{name}.toml", *words, "-o", f"{name}.sudare")
        assert made.exit_code == 0, made.stderr
    for command in ("show", "inspect"):
        assert "at most 2 rows a person" in sudare(command, "two.sudare").stdout
        assert "chosen privately; noise has ε = 0.07 less" in sudare(command, "auto.sudare").stdout
    assert "exact number of the kept records" in sudare("show", "two.sudare").stdout
    assert "at most 2 rows" in sudare("show", "two.sudare", "--json").values["computed from"]


def test_no_heading_of_a_csv_file_is_a_formula() -> None:
    from sudare.cli.show import _csv_text
    from sudare.dossier.released_numbers import ReleasedNumbers

    text = _csv_text(ReleasedNumbers({"=cmd()": [1.0], "@x": ["+y"]}))
    assert not text.startswith("=")
    assert all(cell[0] not in "=@+-" for line in text.split() for cell in line.split(","))


def dated_release(house: Path, sudare: Sudare) -> None:
    people = pd.read_parquet(house / "table.parquet")
    people["seen"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(people)) % 300, unit="D")
    people.to_parquet(house / "dated.parquet")
    schema = (house / "schema.toml").read_text()
    (house / "dated.toml").write_text(
        f'{schema}\n[columns.seen]\nkind = "date"\nfirst = "2026-01-01"\nlast = "2026-12-31"\n'
    )
    words = (
        "dated.parquet",
        "--schema",
        "dated.toml",
        "--epsilon",
        1,
        "--account",
        "dated",
        "--budget",
        2,
        "--ledger",
        "dated.db",
    )
    made = sudare("fit", "mean", *words, "--key", "key.pem", "-o", "dated.sudare")
    assert made.exit_code == 0, made.stderr


def test_dates_are_dates_in_parquet(house: Path, sudare: Sudare) -> None:
    dated_release(house, sudare)
    told = sudare("show", "dated.sudare", "--parquet", "dated_numbers.parquet", "--json")
    assert told.exit_code == 0, told.stderr
    found = pq.read_table(house / "dated_numbers.parquet")
    assert str(found.schema.field("mean_date").type) == "date32[day]"
    assert str(found.schema.field("mean_date_low").type) == "date32[day]"
    shown = dict(zip(told.values["table"]["column"], told.values["table"]["mean"], strict=True))
    rows = {row["column"]: row for row in found.to_pylist()}
    assert (rows["seen"]["mean"], str(rows["seen"]["mean_date"])) == (None, shown["seen"])
    assert (rows["age"]["mean"], rows["age"]["mean_date"]) == (shown["age"], None)


def test_all_files_are_written_or_none(house: Path, sudare: Sudare) -> None:
    (house / "there.parquet").write_bytes(b"")
    refused = sudare("show", "mean.sudare", "--csv", "first.csv", "--parquet", "there.parquet", "--plot", "p.png")
    assert refused.exit_code == 10
    assert not (house / "first.csv").exists()
    assert not (house / "p.png").exists()


def test_counts_of_text_numbers_and_yes_and_no_go_into_one_file_of_each_kind(house: Path, sudare: Sudare) -> None:
    pd.DataFrame({"ward": ["a", "b"] * 50, "beds": [1, 2] * 50, "open": [True, False] * 50}).to_parquet(
        house / "wards.parquet"
    )
    (house / "wards.toml").write_text(
        '[columns.ward]\nkind = "category"\nvalues = ["a", "b"]\n[columns.beds]\nkind = "category"\nvalues = [1, 2]\n'
        '[columns.open]\nkind = "category"\nvalues = [false, true]\n'
    )
    words = ("wards.parquet", "--schema", "wards.toml", "--epsilon", 1, "--budget", 1, "--key", "key.pem")
    assert sudare("fit", "histogram", *words, "-o", "wards.sudare").exit_code == 0
    shown = sudare("show", "wards.sudare", "--parquet", "wards.pq", "--csv", "wards.csv", "--plot", "wards.svg")
    assert shown.exit_code == 0, shown.stderr
    labels = ["a", "b", "1", "2", "false", "true"]
    assert pq.read_table(house / "wards.pq")["value"].to_pylist() == labels
    with (house / "wards.csv").open() as file:
        assert [row["value"] for row in csv.DictReader(file)] == labels


def test_quantiles_of_whole_columns_are_whole(house: Path, sudare: Sudare) -> None:
    generator = np.random.default_rng(0)
    pd.DataFrame({"teeth": generator.integers(0, 33, 3000), "ward": ["a", "b"] * 1500}).to_parquet(
        house / "mouths.parquet"
    )
    (house / "mouths.toml").write_text(
        '[columns.teeth]\nkind = "number"\nlow = 0\nhigh = 32\nwhole = true\n[columns.ward]\nkind = "category"\nvalues = ["a", "b"]\n'
    )
    words = ("mouths.parquet", "--schema", "mouths.toml", "--epsilon", 1, "--budget", 2, "--key", "key.pem")
    assert sudare("fit", "quantiles", *words, "-o", "q.sudare").exit_code == 0
    by_ward = ("--by", "ward", "--quantile-of", "teeth", "--mean-of", "teeth")
    assert sudare("fit", "table", *words, *by_ward, "-o", "t.sudare").exit_code == 0
    for file, base in (("q.sudare", "value"), ("t.sudare", "median_teeth")):
        table = sudare("show", file, "--json", "--parquet", f"{base}.parquet").values["table"]
        assert all(type(number) is int for end in ("", "_low", "_high") for number in table[f"{base}{end}"])
    assert type(table["mean_teeth"][0]) is float


def test_numbers_that_no_picture_holds_are_refused_in_words(house: Path, sudare: Sudare) -> None:
    (house / "wide.toml").write_text('[columns.age]\nkind = "number"\nlow = 0\nhigh = 1.7e308\n')
    words = ("table.parquet", "--schema", "wide.toml", "--epsilon", 0.1, "--account", "patients", "--key", "key.pem")
    assert sudare("fit", "mean", *words, "-o", "wide.sudare").exit_code == 0
    told = sudare("show", "wide.sudare", "--plot", "wide.png")
    assert (told.exit_code, "A picture shows no numbers beyond 10¹⁰⁰." in told.stderr) == (10, True)
    assert not (house / "wide.png").exists()

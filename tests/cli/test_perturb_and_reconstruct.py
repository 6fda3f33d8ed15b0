"""A city counts without knowing: perturb, inspect, reconstruct and crosstab from the shell."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sudare.cli.reconstruct import _number_lines
from sudare.languages import translated
from sudare.perturbation import record_perturbation as record_release
from sudare.perturbation import release_format as released
from sudare.privacy import Ledger
from sudare.schema import Category, Date, Schema
from tests.cli.conftest import SCHEMA, Sudare

SCHEMA_WITH_TOWN = f"""{SCHEMA}
[columns.town]
kind = "category"
values = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
"""
BASE = ("perturb", "people.parquet", "--schema", "people.toml")
PAY = ("--budget", 20, "--key", "key.pem", "-o", "people.sudare")


@pytest.fixture
def town(house: Path) -> Path:
    """The house with a table of 3,000 people: the ages of two groups, and a habit that goes with the town."""
    rng = np.random.default_rng(1)
    town = rng.choice(list("abcdefghijkl"), 3_000, p=np.array([30, 20, 10, 8, 8, 6, 5, 4, 3, 3, 2, 1]) / 100)
    smoker = np.where(rng.random(3_000) < np.where(town == "a", 0.8, 0.2), "yes", "no")
    age = np.concatenate([rng.normal(30, 5, 1_500), rng.normal(65, 5, 1_500)])
    age[0] = 200.0
    pd.DataFrame({"age": age, "smoker": smoker, "town": town}).to_parquet(house / "people.parquet")
    (house / "people.toml").write_text(SCHEMA_WITH_TOWN)
    return house


def test_a_city_counts_without_knowing(town: Path, sudare: Sudare) -> None:
    made = sudare(*BASE, "--k", 2, *PAY)
    assert made.exit_code == 0, made.stderr
    assert "Wrote people.sudare: 3,000 perturbed rows in a random order." in made.stdout
    assert "nobody can link a row to a given record with probability above 1/2" in made.stdout
    assert "Local: ε = 4.00302 for every record" in made.stdout
    assert "Central, after shuffling: ε = " in made.stdout
    assert "1 values lay outside the bounds and were clipped; only you see this." in made.stdout
    account = Ledger("ledger.db", create=False).account("people")
    assert account.spent().epsilon == pytest.approx(0.5 * np.log(2999))
    shown = sudare("inspect", "people.sudare", "--trusted", "key-public.pem")
    assert "local ε = 4.00" in shown.stdout
    assert "Linking: nobody can link a row" in shown.stdout
    values = sudare("inspect", "people.sudare", "--json").values
    assert values["statement"]["k"] == pytest.approx(2)
    assert "tensors" not in values


@pytest.mark.parametrize("most_rows", ["3", '"auto"\nlargest = 8'])
@pytest.mark.parametrize("amount", [("--k", 2), ("--epsilon", 1)])
def test_dry_runs_price_what_a_run_costs_where_persons_have_more_rows(
    town: Path, sudare: Sudare, amount: tuple[str, int], most_rows: str
) -> None:
    people = pd.read_parquet("people.parquet")
    people["who"] = np.arange(len(people)) % 300
    people.to_parquet("people.parquet")
    (town / "people.toml").write_text(f"{SCHEMA_WITH_TOWN}\n[person]\ncolumn = 'who'\nmost_rows = {most_rows}\n")
    told = sudare(*BASE, *amount, "--budget", 100, "--dry-run", "--json")
    assert told.exit_code == 0, told.stdout
    made = sudare(*BASE, *amount, "--budget", 100, *PAY[2:], "--json")
    assert made.exit_code == 0, made.stdout
    assert made.values["rows"] == (900 if most_rows == "3" else 2400)
    assert told.values["statement"] == made.values["statement"]
    assert told.values["left_after"] == made.values["remaining"]


@pytest.mark.long
def test_reconstructing_numbers(town: Path, sudare: Sudare) -> None:
    assert (
        sudare(*BASE, "--epsilon", 9, "--split", "age=7", "--split", "smoker=1", "--split", "town=1", *PAY).exit_code
        == 0
    )
    words = ("reconstruct", "people.sudare", "--column", "age", "--bins", 11, "--trusted", "key-public.pem")
    found = sudare(*words, "--plot", "age.png", "--parquet", "rows.parquet", "--json")
    assert found.exit_code == 0, found.stderr
    shares = np.array(found.values["probabilities"])
    assert shares.sum() == pytest.approx(1.0, abs=1e-6)
    # Half of the people are about 30, half about 65, and nearly nobody is about 50.
    assert shares[2:4].sum() > 0.35
    assert shares[5:8].sum() > 0.35
    assert shares[4] < 0.12
    assert found.values["signature"] == "trusted"
    assert found.values["statement"]["local"]["epsilon"] == 9
    assert (town / "age.png").read_bytes().startswith(b"\x89PNG")
    rows = pd.read_parquet(town / "rows.parquet")
    assert list(rows) == ["age", "smoker", *(f"town={letter}" for letter in "abcdefghijkl")]
    told = sudare(*words)
    assert "median" in told.stdout
    assert "Linking:" in told.stdout
    assert "NOT CHECKED" not in told.stdout


def test_reconstructing_categories(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 9, *PAY).exit_code == 0
    found = sudare("reconstruct", "people.sudare", "--column", "town", "--plot", "town.svg", "--json").values
    assert found["values"] == list("abcdefghijkl")
    assert found["probabilities"][0] == pytest.approx(0.3, abs=0.06)
    assert found["method"] == "shrinkage"
    assert (town / "town.svg").read_bytes().startswith(b"<?xml")
    named = sudare("reconstruct", "people.sudare", "--column", "town", "--method", "inversion")
    assert "±" in named.stdout
    assert "NOT CHECKED against a key you trust" in named.stdout


def test_cross_tables(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 15, *PAY).exit_code == 0
    found = sudare("crosstab", "people.sudare", "smoker", "town", "--json").values
    shares = np.array(found["probabilities"])
    assert shares.shape == (2, 12)
    # In town a four of five smoke, elsewhere one of five.
    assert shares[1, 0] / shares[:, 0].sum() > 0.65
    assert shares[1, 1:].sum() / shares[:, 1:].sum() < 0.35
    told = sudare("crosstab", "people.sudare", "smoker", "town", "--method", "inversion")
    assert "smoker" in told.stdout
    assert "Central, after shuffling" in told.stdout


def test_cross_tables_of_numbers_and_categories(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 15, *PAY).exit_code == 0
    found = sudare("crosstab", "people.sudare", "smoker", "age", "--second-edges", "0,18,65,110", "--json").values
    assert found["rows"] == ["no", "yes"]
    assert found["columns"] == [[0, 18], [18, 65], [65, 110]]
    assert np.array(found["probabilities"]).shape == (2, 3)
    assert np.sum(found["probabilities"]) == pytest.approx(1)
    told = sudare("crosstab", "people.sudare", "age", "smoker", "--bins", 2)
    assert "0 – 55" in told.stdout
    assert "Central, after shuffling" in told.stdout


def test_the_cost_is_shown_first(town: Path, sudare: Sudare) -> None:
    before = {path.name: path.read_bytes() for path in town.iterdir()}
    told = sudare(*BASE, "--k", 2, "--dry-run")
    assert told.exit_code == 0, told.stderr
    assert "This would cost ε = 4.00" in told.stdout
    assert "square-wave (noise scale" in told.stdout
    assert "Dry run: nothing was perturbed, charged or written." in told.stdout
    priced = sudare(*BASE, "--k", 2, "--dry-run", "--budget", 5, "--json").values
    assert priced["admitted"]
    assert priced["account"] == "people"
    assert priced["left_after"]["epsilon"] == pytest.approx(5 - 0.5 * np.log(2999))
    assert priced["perturbations"]["age"]["kind"] == "square-wave"
    assert priced["clipped"] == {"age": 1}
    refused = sudare(*BASE, "--k", 2, "--dry-run", "--budget", 3)
    assert "it would be refused" in refused.stdout
    assert {path.name: path.read_bytes() for path in town.iterdir()} == before


def test_the_key_may_be_named_by_the_surroundings(town: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_KEY", "key.pem")
    assert sudare(*BASE, "--k", 2, "--budget", 20, "-o", "people.sudare", "--method", "age=square-wave").exit_code == 0
    again = sudare(*BASE, "--k", 2, "-o", "again.sudare", "--json").values
    assert again["remaining"]["epsilon"] == pytest.approx(20 - np.log(2999))
    assert again["rows"] == 3_000


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        (("--k", 1, *PAY), 10, "k must be a whole number from 2"),
        (("--k", 3_000, *PAY), 10, "cannot be reached among 3,000 records"),
        (("--k", 2, "--n-records", 3_001, *PAY), 20, "more than the 3,000 rows"),
        (("--k", 2, "--epsilon", 1, *PAY), 10, "either epsilon or k"),
        (PAY, 10, "either epsilon or k"),
        (("--epsilon", 1, "--split", "age=2", *PAY), 10, "every declared column a weight"),
        (("--epsilon", 1, "--split", "age", *PAY), 10, "COLUMN=VALUE"),
        (("--epsilon", 1, "--split", "age=much", *PAY), 10, "not a number"),
        (("--epsilon", 1, "--method", "age=unary", *PAY), 10, "cannot be perturbed by 'unary'"),
        (("--epsilon", 1, "--method", "age=laplace", "--method", "age=laplace", *PAY), 10, "every column once"),
        (("--epsilon", 1, "--budget", 20), 10, "needs --output and --key"),
        (("--epsilon", 1, "--key", "key.pem", "-o", "people.sudare"), 35, "people"),
        (("--epsilon", 25, *PAY), 31, "20 of 20 is left"),
        (("--epsilon", 1, "--schema", "schema.toml", *PAY), 20, "1 columns that the schema does not declare"),
    ],
)
def test_refusals_before_anything_is_charged(
    town: Path, sudare: Sudare, words: tuple[object, ...], exit_code: int, says: str
) -> None:
    refused = sudare(*BASE, *words)
    assert refused.exit_code == exit_code, refused.stderr
    assert says in refused.stderr
    assert not (town / "people.sudare").exists()
    accounts = {account.name: account for account in Ledger("ledger.db").accounts()}
    assert "people" not in accounts or accounts["people"].spent().epsilon == 0


def test_refusals_of_readers(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 9, *PAY).exit_code == 0
    read = ("reconstruct", "people.sudare")
    for words, exit_code, says in (
        (("reconstruct", "mean.sudare", "--column", "age"), 54, "holds a PrivateMean, not perturbed records"),
        ((*read, "--column", "name"), 12, "lacks 'name'"),
        ((*read, "--column", "age", "--plot", "age.gif"), 10, ".png or a .svg"),
        ((*read, "--column", "town", "--plot", "key.pem.svg", "--trusted", "other-public.pem"), 52, "not trusted"),
        ((*read, "--column", "town", "--method", "guess"), 10, "method must be one of"),
        ((*read, "--parquet", "people.parquet"), 55, "exists already"),
        (read, 10, "Which column is wanted was not said"),
        ((*read, "--parquet", "new.parquet", "--plot", "new.png"), 10, "Which column is wanted was not said"),
        (("crosstab", "people.sudare", "age", "town", "--first-edges", "0,x"), 10, "numbers with commas"),
        (("crosstab", "people.sudare", "age", "town", "--first-edges", "9,0"), 10, "must rise"),
        (("crosstab", "people.sudare", "age", "town", "--second-edges", "0,9"), 10, "has no bins"),
        (
            ("crosstab", "people.sudare", "age", "town", "--method", "inversion"),
            10,
            "method must be one of auto, bayes",
        ),
        (("crosstab", "people.sudare", "town", "town"), 10, "two different columns"),
        (("crosstab", "people.sudare", "town", "name"), 12, "lacks 'name'"),
    ):
        refused = sudare(*words)
        assert refused.exit_code == exit_code, (words, refused.stderr)
        assert says in refused.stderr
        assert refused.stdout == ""


def test_a_picture_is_never_written_over_another_file(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 9, *PAY).exit_code == 0
    (town / "there.png").write_bytes(b"kept")
    refused = sudare("reconstruct", "people.sudare", "--column", "town", "--plot", "there.png")
    assert refused.exit_code == 10
    assert (town / "there.png").read_bytes() == b"kept"


def test_rows_beside_a_large_release(town: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are more than a release holds leave in a file beside it, which belongs to it and to no other."""
    monkeypatch.setattr(released, "LARGEST_FILE_BYTES", released.LARGEST_HEADER_BYTES + 2**11)
    monkeypatch.setattr(record_release, "HELD_BYTES", 0)
    told = sudare(*BASE, "--epsilon", 9, *PAY)
    assert told.exit_code == 0, told.stderr
    assert "The rows are in people.rows.parquet, which belongs to it: pass on both." in told.stdout
    assert sudare("inspect", "people.sudare").exit_code == 0
    assert sudare("reconstruct", "people.sudare", "--column", "town").exit_code == 0
    written = sudare("reconstruct", "people.sudare", "--parquet", "rows.parquet")
    assert "perturbed rows to rows.parquet" in written.stdout
    assert (town / "rows.parquet").read_bytes() == (town / "people.rows.parquet").read_bytes()
    (town / "people.rows.parquet").unlink()
    assert "cannot be read" in sudare("reconstruct", "people.sudare", "--column", "town").stderr
    (town / "people.rows.parquet").write_bytes((town / "rows.parquet").read_bytes()[:-1])
    assert "not the file of rows" in sudare("crosstab", "people.sudare", "age", "town").stderr
    (town / "people.sudare").unlink()
    refused = sudare(*BASE, "--epsilon", 9, *PAY)
    assert refused.exit_code == 10
    assert "Large tables leave their rows there" in refused.stderr


def test_without_bins_a_number_is_cut_at_round_numbers(town: Path, sudare: Sudare) -> None:
    """From 15 on for adults from 17: the first bin reaches beyond the bounds, and nobody is in that part of it."""
    bounds = SCHEMA_WITH_TOWN.replace("low = 0", "low = 17").replace("high = 110", "high = 90")
    (town / "people.toml").write_text(bounds)
    assert sudare(*BASE, "--k", 2, *PAY).exit_code == 0
    told = sudare("reconstruct", "people.sudare", "--column", "age", "--plot", "age.svg", "--json").values
    assert told["edges"] == [5.0 * number for number in range(3, 19)]
    assert sum(told["probabilities"]) == pytest.approx(1.0)
    assert len(sudare("reconstruct", "people.sudare", "--column", "age", "--bins", 7, "--json").values["edges"]) == 8


def test_one_column_a_record_is_told_and_refuses_pairs(town: Path, sudare: Sudare) -> None:
    told = sudare(*BASE, "--epsilon", 9, "--one-column", *PAY)
    assert told.exit_code == 0, told.stderr
    assert "every row answers one of" in told.stdout
    assert "every row answers one of" in sudare("inspect", "people.sudare").stdout
    assert sudare("reconstruct", "people.sudare", "--column", "smoker").exit_code == 0
    refused = sudare("crosstab", "people.sudare", "smoker", "town")
    assert refused.exit_code == 10
    assert "answers one column only" in refused.stderr


def test_a_cross_table_is_drawn_with_its_errors(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 9, *PAY).exit_code == 0
    drawn = sudare("crosstab", "people.sudare", "smoker", "town", "--plot", "pair.svg")
    assert drawn.exit_code == 0, drawn.stderr
    assert " ± " in drawn.stdout
    assert "Independent of each other: p = " in drawn.stdout
    assert (town / "pair.svg").read_bytes().startswith(b"<?xml")
    values = sudare("crosstab", "people.sudare", "smoker", "town", "--json").values
    assert 0 <= values["independence"]["p_value"] <= 1
    assert 0 <= values["dependence"] <= 1


def test_names_with_blanks_leave_no_english_in_japanese(house: Path, sudare: Sudare) -> None:
    pd.DataFrame(
        {"length of stay": [1.0, 2.0] * 200, "喫煙": ["はい", "いいえ"] * 200, "own car": [True, False] * 200}
    ).to_parquet(house / "people.parquet")
    (house / "people.toml").write_text(
        '[columns."length of stay"]\nkind = "number"\nlow = 0\nhigh = 4\n[columns."喫煙"]\nkind = "category"\n'
        'values = ["はい", "いいえ"]\n[columns."own car"]\nkind = "category"\nvalues = [false, true]\n'
    )
    assert sudare(*BASE, "--epsilon", 3, *PAY).exit_code == 0
    planned = sudare(*BASE, "--epsilon", 1, "--dry-run", "--lang", "ja").stdout
    assert "\n  喫煙            ε = " in planned
    assert "\n  length of stay  ε = " in planned
    crossed = sudare("crosstab", "people.sudare", "喫煙", "own car", "--lang", "ja").stdout
    assert crossed.startswith("喫煙（行）と own car、全 400 レコードに占める割合")
    assert re.search(r"^いいえ  0", crossed, re.MULTILINE)
    assert re.search(r"^はい    0", crossed, re.MULTILINE)
    card = sudare("inspect", "people.sudare", "--lang", "ja").stdout
    assert "数値 400 個（「length of stay」）; 数値 400 個（「喫煙」）; 数値 400 個（「own car」）" in card
    assert "numbers" not in card
    synthetic = ("synthesize", "people.parquet", "--schema", "people.toml", "--epsilon", 1, "--account", "people")
    assert "everyone" not in sudare(*synthetic, "--dry-run", "--lang", "ja").stdout
    asked = ("people.parquet", "--schema", "people.toml", "--epsilon", 1, "--account", "people", "--dry-run")
    refused = sudare("fit", "table", *asked, "--by", "stay", "--lang", "ja")
    assert "スキーマにある列：'length of stay', '喫煙', 'own car'" in refused.stderr


def test_several_releases_of_one_column_are_taken_together(town: Path, sudare: Sudare) -> None:
    assert sudare(*BASE, "--epsilon", 4, *PAY).exit_code == 0
    again = [*BASE, "--epsilon", 5, *PAY]
    again[again.index("people.sudare")] = "again.sudare"
    assert sudare(*again).exit_code == 0
    files = ("people.sudare", "again.sudare")
    found = sudare("reconstruct", *files, "--column", "town", "--plot", "town.svg", "--json").values
    assert found["records"] == 6000
    assert [release["file"] for release in found["releases"]] == list(files)
    assert [release["statement"]["local"]["epsilon"] for release in found["releases"]] == [4, 5]
    told = sudare("reconstruct", *files, "--column", "age", "--method", "smooth").stdout
    assert all(f"{file}:" in told for file in files)
    assert "no bands: several releases were taken together" in told
    refused = sudare("reconstruct", *files, "--parquet", "rows.parquet")
    assert refused.exit_code == 10
    assert "--parquet writes the rows of one release, and 2 were given." in refused.stderr


def test_a_release_that_does_not_go_with_others_is_named(town: Path, sudare: Sudare) -> None:
    """It lacks the column, or the column is a number in one release and a category in another."""
    table = pd.DataFrame({"age": ["young", "old"] * 10})
    table.to_csv("ages.csv", index=False)
    Schema({"age": Category(("old", "young"))}).save("ages.toml")
    assert sudare(*BASE, "--epsilon", 4, *PAY).exit_code == 0
    ages = ("perturb", "ages.csv", "--schema", "ages.toml", "--epsilon", 1)
    assert sudare(*ages, *PAY[:-1], "ages.sudare").exit_code == 0
    lacking = sudare("reconstruct", "people.sudare", "ages.sudare", "--column", "town")
    assert lacking.exit_code == 12
    assert "ages.sudare: The table lacks 'town'" in lacking.stderr
    for files in (("people.sudare", "ages.sudare"), ("ages.sudare", "people.sudare")):
        other = sudare("reconstruct", *files, "--column", "age")
        assert other.exit_code == 10
        assert "a number in one and a category in another" in other.stderr


def test_bins_of_dates_are_told_as_dates_and_no_english_is_left_in_japanese() -> None:
    band = {"level": 0.9, "low": [0.0, 0.1], "high": [0.5, 1.0], "reason": None}
    values = {
        "edges": [0.0, 31.0, 59.0],
        "probabilities": [0.25, 0.75],
        "band": band,
        "mean": 31.5,
        "quartiles": [1.0, 30.9, 40.0],
    }
    lines = _number_lines(values, Date(first="2026-01-01", last="2026-12-31"))
    assert lines[0].split() == ["2026-01-01", "–", "2026-02-01", "0.2500", "(0.0000", "–", "0.5000)"]
    assert lines[2:] == ["mean 2026-02-01, median 2026-01-31", "90% bands in brackets"]
    plain = _number_lines(values, None)
    assert plain[1].split()[:3] == ["31.0", "–", "59.0"]
    assert [translated(line, "ja") for line in plain[2:]] == ["平均 31.5、中央値 30.9", "括弧の中は 90% の信頼帯"]


def test_persons_answer_as_before_in_later_collections(town: Path, sudare: Sudare) -> None:
    """Two months at the price of one: the dry run writes nothing, the release says what is not protected, and months are not taken together."""
    pd.DataFrame({"id": range(3_000)}).join(pd.read_parquet("people.parquet")).to_parquet("people.parquet")
    (town / "people.toml").write_text(f'{SCHEMA_WITH_TOWN}\n[person]\ncolumn = "id"\nmost_rows = 1\n')
    asked = (*BASE, "--epsilon", 4, "--memory", "answers.memory")
    priced = sudare(*asked, "--dry-run")
    assert priced.exit_code == 0, priced.stderr
    assert "Who takes part in which one is not protected" in priced.stdout
    assert not Path("answers.memory").exists()
    first = sudare(*asked, "--budget", 4, "--key", "key.pem", "-o", "1.sudare")
    assert first.exit_code == 0, first.stderr
    assert "3,000 persons answered for the first time, all others as before (collection 1)." in first.stdout
    assert "Linking: no statement; answers are given again in other releases" in first.stdout
    table = pd.read_parquet("people.parquet")
    pd.concat([table[100:], table[:50].assign(id=range(3_000, 3_050))], ignore_index=True).to_parquet("people.parquet")
    later = sudare(*asked, "--account", "people", "--key", "key.pem", "-o", "2.sudare", "--json")
    assert later.exit_code == 0, later.stderr
    second = later.values
    assert (second["repeated"]["collection"], second["repeated"]["first"]) == (2, 50)
    assert Ledger("ledger.db", create=False).account("people").spent().epsilon == 4
    card = sudare("inspect", "2.sudare").stdout
    assert "not protected" in card
    assert "50 of 2,950 persons answered for the first time" in " ".join(card.split())
    japanese = sudare("inspect", "2.sudare", "--lang", "ja").stdout
    assert "保護されません" in japanese
    shown = sudare("budget", "show", "people").stdout
    assert "first answers=collection 2" in shown
    for files in (("1.sudare", "2.sudare"), ("2.sudare", "2.sudare")):
        together = sudare("reconstruct", *files, "--column", "town")
        assert together.exit_code == 10
        assert "Releases of one memory give the same answers again" in together.stderr
    assert sudare("reconstruct", "2.sudare", "--column", "town").exit_code == 0
    Path("answers.memory").unlink()
    refused = sudare(*asked, "--account", "people", "--key", "key.pem", "-o", "3.sudare")
    assert refused.exit_code != 0
    assert "0 of 4 is left" in refused.stderr
    assert sudare("budget", "verify").exit_code == 0


def test_kept_answers_need_persons_and_one_epsilon(town: Path, sudare: Sudare) -> None:
    for asked in (("--epsilon", 1), ("--k", 2)):
        refused = sudare(*BASE, *asked, "--memory", "answers.memory", *PAY)
        assert refused.exit_code == 10, refused.stderr
        assert not Path("answers.memory").exists()

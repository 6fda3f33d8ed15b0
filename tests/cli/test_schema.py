"""`sudare schema`: drafts that copy nothing from the data, and checks for the owner."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sudare.errors import DataError, InvalidParameter, ReleaseExists, SourceUnreadable
from tests.cli.conftest import SCHEMA, Sudare


def test_a_draft_asks_and_copies_nothing(house: Path, sudare: Sudare) -> None:
    draft = sudare("schema", "draft", "table.parquet").stdout
    assert "[columns.age]" in draft
    assert 'high = "?"' in draft
    assert "200" not in draft
    assert sudare("schema", "draft", "table.parquet", "--json").values["draft"] == draft.removesuffix("\n")


def test_a_draft_explains_itself_in_japanese_and_asks_the_same(house: Path, sudare: Sudare) -> None:
    english, japanese = (sudare("schema", "draft", "table.parquet", "--lang", each).stdout for each in ("en", "ja"))
    explained = [line for line in japanese.splitlines() if line.startswith("#")]
    assert len(explained) > 9
    assert all(re.search("[ぁ-ん]|値", line) for line in explained)
    assert [line for line in english.splitlines() if not line.startswith("#")] == [
        line for line in japanese.splitlines() if not line.startswith("#")
    ]


def test_a_draft_into_a_file_is_refused_until_it_is_answered(house: Path, sudare: Sudare) -> None:
    assert sudare("schema", "draft", "table.parquet", "-o", "draft.toml").exit_code == 0
    assert sudare("schema", "check", "table.parquet", "--schema", "draft.toml").exit_code == 11
    assert sudare("schema", "draft", "table.parquet", "-o", "draft.toml").exit_code == 10


def test_check_counts_for_the_owner(house: Path, sudare: Sudare) -> None:
    told = sudare("schema", "check", "table.parquet", "--schema", "schema.toml")
    assert "300 rows match the schema" in told.stdout
    assert "age 2" in told.stdout
    assert "Only you see this" in told.stdout
    values = sudare("schema", "check", "table.parquet", "--schema", "schema.toml", "--json").values
    assert values == {
        "rows": 300,
        "columns": ["age", "smoker"],
        "problems": [],
        "clipped": {"age": 2},
        "cut_rows": 0,
        "ignored": values["ignored"],
        "person_like": [],
        "for": "the owner only",
    }


def test_check_names_the_column_and_no_value(house: Path, sudare: Sudare) -> None:
    pd.DataFrame({"age": [50.0], "smoker": ["secretly"]}).to_parquet("other.parquet")
    refused = sudare("schema", "check", "other.parquet", "--schema", "schema.toml")
    assert refused.exit_code == 14
    assert "'smoker' holds 1 values that the schema does not list" in refused.stdout
    assert "secretly" not in refused.stdout + refused.stderr
    pd.DataFrame({"age": [50.0]}).to_parquet("narrow.parquet")
    assert sudare("schema", "check", "narrow.parquet", "--schema", "schema.toml").exit_code == 12


def test_check_tells_all_problems_at_once(house: Path, sudare: Sudare) -> None:
    (house / "bad.csv").write_text("Age,smoker,patient_id\n31,perhaps,7\n500,no,7\n32,,8\n")
    found = sudare("schema", "check", "bad.csv", "--schema", "schema.toml")
    assert found.exit_code == 12
    for text in (
        "3 problems",
        "Did you mean 'Age'",
        "'smoker' holds",
        "ignored: Age, patient_id",
        "'patient_id' looks as if",
    ):
        assert text in " ".join(found.stdout.split())
    problems = sudare("schema", "check", "bad.csv", "--schema", "schema.toml", "--json").values["problems"]
    assert problems[0]["error"] == "ColumnMissing"


def test_check_looks_at_label_and_persons(house: Path, sudare: Sudare) -> None:
    text = (house / "schema.toml").read_text()
    extra = '\n[columns.ill]\nkind = "label"\nclasses = [0, 1]\n\n[person]\ncolumn = "who"\nmost_rows = 2\n'
    (house / "full.toml").write_text(text + extra)
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "smoker": ["no"] * 3, "ill": [0, 1, 0], "who": ["a", "a", "b"]})
    table.to_csv("people.csv", index=False)
    assert sudare("schema", "check", "people.csv", "--schema", "full.toml").exit_code == 0
    table.assign(who="a").to_csv("one.csv", index=False)
    crowded = sudare("schema", "check", "one.csv", "--schema", "full.toml")
    assert crowded.exit_code == 0
    assert "persons have more than are kept: 1." in crowded.stdout
    table.assign(ill=7).to_csv("label.csv", index=False)
    assert sudare("schema", "check", "label.csv", "--schema", "full.toml").exit_code == 14


@pytest.mark.parametrize("said", [(), ("--header",), ("--no-header",)])
def test_a_table_without_a_header(house: Path, sudare: Sudare, said: tuple[str, ...]) -> None:
    (house / "visits.csv").write_text("61,no\n42,yes\n38,no\n")
    drafted = sudare("schema", "draft", "visits.csv", *said)
    if not said:
        assert drafted.exit_code == DataError.exit_code
        assert "--no-header" in drafted.stderr
        assert "61" not in drafted.stdout + drafted.stderr
        return
    assert drafted.exit_code == 0, drafted.stderr
    assert ("[columns.column_1]" if said == ("--no-header",) else "[columns.61]") in drafted.stdout
    if said == ("--no-header",):
        schema = SCHEMA.replace("age", "column_1").replace("smoker", "column_2")
        (house / "visits.toml").write_text(schema)
        checked = sudare("schema", "check", "visits.csv", "--schema", "visits.toml", *said)
        assert "3 rows match the schema." in checked.stdout
        pay = ("--epsilon", 1, "--account", "visits", "--budget", 1, "--key", "key.pem", "-o", "visits.sudare")
        assert sudare("fit", "mean", "visits.csv", "--schema", "visits.toml", *pay, *said).exit_code == 0
        assert "from “column_1”\n" in sudare("inspect", "visits.sudare").stdout


def test_a_table_in_another_encoding(house: Path, sudare: Sudare) -> None:
    (house / "visits.csv").write_bytes("age;smoker\n61,5;sí\n42;no\n".encode("cp1252"))
    (house / "visits.toml").write_text(SCHEMA.replace('"yes"', '"sí"'))
    refused = sudare("schema", "check", "visits.csv", "--schema", "visits.toml")
    assert refused.exit_code == SourceUnreadable.exit_code
    assert "--encoding" in refused.stderr
    checked = sudare("schema", "check", "visits.csv", "--schema", "visits.toml", "--encoding", "cp1252")
    assert "2 rows match the schema." in checked.stdout
    wrong = sudare("schema", "check", "visits.csv", "--schema", "visits.toml", "--encoding", "none")
    assert wrong.exit_code == InvalidParameter.exit_code


def test_a_charged_draft_is_rehearsed_charged_and_written(house: Path, sudare: Sudare) -> None:
    pd.DataFrame({"age": range(3000), "of": ["a"] * 3000}).to_parquet("drafts.parquet")
    asked = ("schema", "draft", "drafts.parquet", "--epsilon", "2", "--delta", "0", "--budget", "5")
    rehearsed = sudare(*asked, "--dry-run", "--json").values
    assert rehearsed["asked"]["epsilon"] == 2
    assert rehearsed["admitted"]
    written = sudare(*asked, "-o", "found.toml", "--json").values
    assert written["guarantee"]["epsilon"] == 2
    assert "found with ε" in Path("found.toml").read_text("utf-8")
    assert sudare(*asked, "-o", "found.toml").exit_code == ReleaseExists.exit_code
    left = sudare("budget", "show", "--json").stdout
    assert '"drafts"' in left


@pytest.mark.parametrize(
    "options", [("--drop", "age"), ("--dry-run",), ("--account", "a"), ("--epsilon", "1", "--person", "age")]
)
def test_options_that_do_not_belong_together_are_refused(house: Path, sudare: Sudare, options: tuple[str, ...]) -> None:
    assert sudare("schema", "draft", "table.parquet", *options).exit_code == InvalidParameter.exit_code


def test_a_table_is_read_as_it_is_said_to_be_written(house: Path, sudare: Sudare) -> None:
    (house / "wide.csv").write_text("age,smoker\n５０, no\n61,yes \n", "utf-8")
    refused = sudare("schema", "check", "wide.csv", "--schema", "schema.toml")
    assert "--csv tidy=yes" in refused.stdout
    assert sudare("schema", "check", "wide.csv", "--schema", "schema.toml", "--csv", "tidy=yes").exit_code == 0
    for wrong in ("tidy=perhaps", "quote=x", "thousands"):
        told = sudare("schema", "check", "wide.csv", "--schema", "schema.toml", "--csv", wrong)
        assert told.exit_code == InvalidParameter.exit_code


def test_a_draft_leaves_rows_of_persons_out_and_tells_a_missing_delta(house: Path, sudare: Sudare) -> None:
    visits = pd.DataFrame({"who": np.arange(200) // 10, "age": np.arange(200) % 90, "ward": ["a", "b"] * 100})
    visits.to_parquet(house / "many.parquet")
    asked = ("schema", "draft", "many.parquet", "--epsilon", "2", "--person", "who", "--most-rows", "5")
    told = sudare(*asked, "--budget", "5", "--dry-run").stdout
    for said in ("δ = 1e-6", "δ = 0 left", "refused because of δ alone", "--budget-delta"):
        assert said in " ".join(told.split())
    enough = (*asked, "--budget", "5", "--budget-delta", "1e-5")
    assert sudare(*enough, "--dry-run", "--json").values["admitted"]
    made = sudare(*enough)
    assert made.exit_code == 0, made.stderr
    assert "most_rows = 5" in made.stdout

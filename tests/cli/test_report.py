"""`sudare report`: one page of an account and of releases, without a private value."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sudare.errors import InvalidParameter, LedgerMissing
from sudare.linear import PrivateLogisticRegression
from sudare.privacy import Ledger, Release
from sudare.statistics import GroupedTable, PrivateMean
from tests.cli.conftest import invoked
from tests.release_kit import KEY, SCHEMA, table


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with an account that paid for three releases and a disclosure, and was raised once."""
    folder = tmp_path_factory.mktemp("house")
    ledger = Ledger(folder / "ledger.db")
    account = ledger.account("patients", epsilon=4.0)
    models: dict[str, Any] = {
        "mean": PrivateMean(1.0, schema=SCHEMA, account=account),
        "table": GroupedTable(1.0, schema=SCHEMA, by=["smoker"], account=account),
        "model": PrivateLogisticRegression(5.0, schema=SCHEMA, account=account),
    }
    for name, model in models.items():
        if name == "model":
            ledger.raise_budget("patients", epsilon=9.0, reason="a model for the ward")
        Release.of(model.fit(table())).save(folder / f"{name}.sudare", key=KEY)
    account.disclose("exact sums of a <b>training</b>", "the members", 12, purpose="patterns")
    return folder


def test_an_account(house: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    told = invoked("report", "--account", "patients", "--ledger", str(house / "ledger.db"), "-o", str(page), "--json")
    assert told.exit_code == 0, told.output
    assert told.values["account"]["spent"]["epsilon"] == 7.0
    assert told.values["account"]["chain"] == "intact"
    text = page.read_text("utf-8")
    for said in (
        "ε = 2.0 is left", "Means of all declared number columns", "strong", "weak", "none: exact values were shown", "the members",
        "3 charges, 3 files, 1 disclosures", "is intact", "a model for the ward", "data:image/svg+xml",
        "exact sums of a &lt;b&gt;training",
    ):  # fmt: skip
        assert said in text, said
    assert not re.search(r"https?:", re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))
    assert "<script" not in text


def test_chosen_releases(house: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    files = [str(house / f"{name}.sudare") for name in ("mean", "table", "model")]
    told = invoked("report", *files, "--output", str(page))
    assert told.exit_code == 0, told.output
    assert "NOT CHECKED" in told.stdout
    text = page.read_text("utf-8")
    assert text.count('class="card') >= 3
    assert "The numbers (" in text
    # What a release is stands in the words of the page, and not as the name of a class.
    assert "Counts, means, variances and quantiles by group (entry " in text
    assert ">GroupedTable (" not in text
    assert "A model: parameters learned from many records, with noise." in text
    assert "Intervals hold the exact number" in text
    values = invoked("report", *files, "--json").values
    assert [each["kind"] for each in values["releases"]] == ["statistics", "statistics", "model"]
    assert values["releases"][2]["numbers"]["term"][0] == "(intercept)"
    assert "A coefficient is what a column adds to the score" in text
    assert values["releases"][0]["numbers"]["mean"]
    assert values["output"] is None


def test_nothing_private_is_on_the_page(house: Path, tmp_path: Path) -> None:
    """What the owner is told of a fit (how many values were clipped) has no way here: the page is made of ledger and files."""
    page = tmp_path / "report.html"
    told = invoked(
        "report",
        str(house / "mean.sudare"),
        "--account",
        "patients",
        "--ledger",
        str(house / "ledger.db"),
        "-o",
        str(page),
    )
    assert told.exit_code == 0, told.output
    assert "clipped" not in page.read_text("utf-8")


class Open(HTMLParser):
    """Checks that every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_in_both_languages(house: Path, tmp_path: Path) -> None:
    for language in ("en", "ja"):
        page = tmp_path / f"{language}.html"
        told = invoked("report", str(house / "table.sudare"), "-o", str(page), "--lang", language)
        assert told.exit_code == 0, told.output
        text = page.read_text("utf-8")
        assert f'<html lang="{language}">' in text
        assert not Open(text.removeprefix("<!doctype html>")).open


def test_refusals(house: Path, tmp_path: Path) -> None:
    file, ledger = str(house / "mean.sudare"), str(house / "ledger.db")
    mine = tmp_path / "mine.html"
    mine.write_text("mine", "utf-8")
    assert invoked("report", "-o", str(tmp_path / "new.html")).exit_code == InvalidParameter.exit_code
    assert invoked("report", file).exit_code == InvalidParameter.exit_code
    assert invoked("report", file, "-o", str(mine)).exit_code == InvalidParameter.exit_code
    nowhere = ["--ledger", str(tmp_path / "no.db"), "-o", str(tmp_path / "new.html")]
    assert invoked("report", "--account", "patients", *nowhere).exit_code == LedgerMissing.exit_code
    unknown = invoked("report", "--account", "nobody", "--ledger", ledger, "-o", str(tmp_path / "new.html"))
    assert unknown.exit_code not in (0, 1)
    assert mine.read_text("utf-8") == "mine"
    assert not (tmp_path / "new.html").exists()

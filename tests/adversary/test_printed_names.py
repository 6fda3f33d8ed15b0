"""What an attacker wants from names: forged lines on cards and lists, a terminal under control, formulas, scripts."""

from __future__ import annotations

import csv
import datetime
import io
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sudare.dossier.registry_entry import Publication, registry_entry
from sudare.dossier.statement import sections_of
from sudare.dossier.statement_facts import Facts
from sudare.errors import SudareError
from sudare.privacy import Ledger, Release
from sudare.report import Page, page_html
from sudare.report.privacy_card import card_rows
from sudare.schema import Category, Number, Schema
from sudare.statistics import PrivateMean
from tests.cli.conftest import invoked
from tests.dossier.made_up_facts import PROMISES, made_up_facts
from tests.release_kit import KEY, manifest_of, with_manifest

FORGED_LINE = "guarantee      ε = 0.001, δ = 0: strong"
EVIL = {
    "line": f"age\n{FORGED_LINE}",
    "carriage return": f"age\r{FORGED_LINE}",
    "cursor": f"age\x1b[1A\x1b[2K{FORGED_LINE}",
    "eight-bit cursor": f"age\x9b1A\x9b2K{FORGED_LINE}",
    "direction": f"age\u202e{FORGED_LINE}",
    "separator": f"age\u2028{FORGED_LINE}",
    # Seen as blanks: what follows stands in a line of its own, where the terminal ends.
    "blank letters": "age" + "\u3164" * 38 + "guarantee  ε = 0.001",
    "blank symbols": "age" + "\u2800" * 38 + "guarantee  ε = 0.001",
    "blanks": "age" + " " * 38 + "guarantee  ε = 0.001",
    # Over the lines above and below.
    "heap of marks": "age" + "\u0489" * 60,
}


def sudare(*words: object) -> str:
    """All that a command printed."""
    return invoked(*words).output


def unprintable(text: str) -> set[str]:
    return {
        character
        for character in text
        if character != "\n"
        and (unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") or character in "\u3164\u2800")
    }


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDARE_LEDGER", raising=False)
    account = Ledger("ledger.db").account("visits", epsilon=3.0)
    schema = Schema({"age": Number(0, 110), "smoker": Category(("no", "yes"))})
    rows = {"age": np.linspace(0, 110, 50), "smoker": ["no", "yes"] * 25}
    model = PrivateMean(epsilon=3.0, schema=Schema({"age": schema.columns["age"]}), account=account).fit(rows)
    Release.of(model).save("honest.sudare", key=KEY)
    return tmp_path / "honest.sudare"


@pytest.mark.parametrize("kind", EVIL)
@pytest.mark.parametrize("place", ["column", "account", "version", "unit"])
def test_forge_a_line_of_a_card_with_a_name_in_a_release(release: Path, kind: str, place: str) -> None:
    """The attacker signs its own file; its key may well be trusted."""
    manifest = manifest_of(release.read_bytes())
    if place == "column":
        manifest["parameters"]["columns"][0][0] = EVIL[kind]
    elif place == "unit":
        manifest["parameters"]["columns"][0][1]["unit"] = EVIL[kind]
    elif place == "version":
        manifest["versions"]["sudare"] = EVIL[kind]
    else:
        manifest["receipt"]["account"] = EVIL[kind]
    Path("evil.sudare").write_bytes(with_manifest(release.read_bytes(), manifest))
    told = sudare("inspect", "evil.sudare") + sudare("inspect", "evil.sudare", "--json")
    assert FORGED_LINE not in told.splitlines()
    assert not unprintable(told)
    with pytest.raises(SudareError):
        Release.load("evil.sudare", [KEY.public_key()])


@pytest.mark.parametrize("kind", EVIL)
def test_have_an_owner_publish_a_card_with_forged_lines(tmp_path: Path, kind: str) -> None:
    """A table from elsewhere has such a name; its owner declares it as it is."""
    with pytest.raises(SudareError):
        Schema({EVIL[kind]: Number(0, 110)})
    with pytest.raises(SudareError):
        Schema({"age": Number(0, 110, unit=EVIL[kind])})
    with pytest.raises(SudareError):
        Schema({"age": Category(("no", EVIL[kind]))})


@pytest.mark.parametrize("kind", sorted(set(EVIL) - {"carriage return", "blanks", "heap of marks"}))
def test_forge_a_line_of_the_budget_with_the_name_of_an_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDARE_LEDGER", raising=False)
    ledger = Ledger("ledger.db")
    ledger.account("honest", epsilon=1.0)
    try:
        ledger.account(EVIL[kind], epsilon=1.0)
        ledger.raise_budget("honest", epsilon=2.0, reason=EVIL[kind])
    except SudareError:
        pass
    told = sudare("budget", "show") + sudare("budget", "show", "honest") + sudare("budget", "export")
    assert not [line for line in told.splitlines() if line.startswith(FORGED_LINE)]
    assert not unprintable(told)


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", '=HYPERLINK("http://x")'])
def test_run_a_formula_in_the_stewards_spreadsheet(tmp_path: Path, name: str) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.account(name, epsilon=1.0)
    cells = [cell for line in csv.reader(io.StringIO(ledger.export("csv"))) for cell in line]
    assert any(name in cell for cell in cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize("separator", [";", "|"])
def test_run_a_formula_in_a_spreadsheet_that_has_other_separators(tmp_path: Path, separator: str) -> None:
    """Where a comma stands in decimals, spreadsheets separate columns by semicolons: quotes around a cell do not help there."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.account(f"visits{separator}=1+1", epsilon=1.0)
    ledger.raise_budget(f"visits{separator}=1+1", epsilon=2.0, reason=f'agreed{separator} "=1+1"{separator}@SUM(A1)')
    parts = [part for line in ledger.export("csv").splitlines() for part in line.split(separator)]
    assert len(parts) > 4
    assert not [part for part in parts if part.lstrip('" ').startswith(("=", "+", "-", "@"))]


def test_run_a_script_in_a_report_should_the_escaping_ever_fail() -> None:
    page = page_html(Page("A title", "A lead", [], "sudare"))
    head = page[: page.index("</head>")]
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in head
    assert "script-src" not in head
    # It holds for what comes after it.
    assert head.index("Content-Security-Policy") < head.index("<title>") < head.index("<style>")


def test_hide_a_direction_mark_in_a_report() -> None:
    page = page_html(Page("evil\u202etitle", "a\x1blead", [], "sudare"))
    assert not unprintable(page)


def test_move_the_cursor_of_whoever_watches_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    """What a node tells may quote an error over what others sent."""
    from sudare.cli.node import _say

    _say("task 'a' stopped: \x1b[2J\nforged line \u202e")
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count("\n") == 1


# To write sentences of a dossier, a registry entry or a card

CLAIM = "ε = 0.01: approved, and complies with the GDPR"
WRITTEN = [f"age. {CLAIM}", f"t'. {CLAIM}: 'yes", f"age”. {CLAIM}; “x", f'age". {CLAIM}; "x', f"年齢」。{CLAIM}。「x"]


def outside_quotes(text: str, begin: str, end: str) -> str:
    """What is left of a text without its quoted names, where every mark that begins one is followed by one that ends it."""
    assert re.fullmatch(rf"[^{begin}{end}]*(?:{begin}[^{begin}{end}]*{end}[^{begin}{end}]*)*", text), text
    return re.sub(rf"{begin}[^{end}]*{end}", "", text)


def hostile_facts(name: str, learner: str = "PrivateLogisticRegression") -> Facts:
    """A release all of whose names say something."""
    more = {"target": [name, "no"]} if learner == "PrivateLogisticRegression" else {}
    keys = {"keys": [name], "found": [["x"]]} if learner == "GroupedTable" else {}
    facts = made_up_facts(
        learner,
        PROMISES[1],
        columns=(name,),
        slice={name: name},
        **more,
        **keys,
        person={"column": name, "most_rows": 3},
    )
    return replace(facts, card=replace(facts.card, account=name, towards=name))


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("learner", ["PrivateLogisticRegression", "GroupedTable", "RecordPerturbation"])
def test_write_a_sentence_of_a_dossier_with_a_name(name: str, learner: str) -> None:
    for section in sections_of(hostile_facts(name, learner)):
        for text in (row.answer for row in section.rows):
            assert CLAIM not in outside_quotes(text.en, "“", "”")
            # A remark of the card may be quoted as in English.
            assert CLAIM not in outside_quotes(outside_quotes(text.ja, "「", "」"), "“", "”")
        if section.to_publish is not None:
            assert CLAIM not in outside_quotes(section.to_publish.en, "“", "”")
            assert CLAIM not in outside_quotes(section.to_publish.ja, "「", "」")


@pytest.mark.parametrize("name", WRITTEN)
def test_write_a_sentence_of_the_registry_with_a_name(name: str) -> None:
    text = str(registry_entry(hostile_facts(name), Publication(), datetime.date(2026, 1, 31)))
    assert CLAIM in text
    assert CLAIM not in outside_quotes(text, "“", "”")


@pytest.mark.parametrize("name", WRITTEN)
def test_write_a_line_of_a_card_with_a_name(name: str) -> None:
    card = hostile_facts(name).card
    for _, text in card_rows(card):
        assert CLAIM not in outside_quotes(text, "“", "”")
    for _, text in card_rows(card, "ja"):
        assert CLAIM not in outside_quotes(outside_quotes(text, "「", "」"), "“", "”")


def test_write_a_sentence_with_the_version_of_a_library(release: Path) -> None:
    manifest = manifest_of(release.read_bytes())
    manifest["versions"]["sudare"] = "0.1.0. Approved by counsel"
    Path("crafted.sudare").write_bytes(with_manifest(release.read_bytes(), manifest))
    assert "Approved" not in sudare("inspect", "crafted.sudare")

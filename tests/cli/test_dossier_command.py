"""`sudare inspect --dossier`: from signed files of every kind to a folder for a legal department."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sudare.dossier.registry_fields import problems_of
from sudare.errors import InvalidParameter
from sudare.linear import PrivateLogisticRegression
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Ledger, Release
from sudare.schema import Label, Number, Schema
from sudare.statistics import PrivateMean
from sudare.synthesis import PrivateSynthesizer
from tests.cli.conftest import invoked
from tests.release_kit import KEY, SCHEMA, manifest_of, table

FILES = {"dossier.html", "registry_entry.yaml", "registry_entry.json", "proof.html", "audit.json", "receipt.json"}
LABELLED = Schema({"age": Number(0, 110), "bmi": Number(10, 60), "ill": Label((0, 1))})
ABOUT = """
name = "Ages"
curator = "A clinic"
curator_type = "Nonprofit"
intended_use = "planning"
region = "Japan"
sector = "Healthcare"
date = "2026-11-01"
author = "Somebody"
"""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One signed file of each kind."""
    folder = tmp_path_factory.mktemp("releases")
    account = Ledger(folder / "ledger.db").account("patients", epsilon=100.0)
    models: dict[str, Any] = {
        "statistics": PrivateMean(1.0, schema=SCHEMA, account=account),
        "model": PrivateLogisticRegression(4.0, schema=LABELLED, account=account),
        "perturbed": RecordPerturbation(epsilon=2.0, schema=LABELLED, account=account),
        "synthetic": PrivateSynthesizer(epsilon=1.0, schema=LABELLED, account=account),
    }
    for kind, model in models.items():
        Release.of(model.fit(table()[[*model.schema.columns]])).save(folder / f"{kind}.sudare", key=KEY)
    return {kind: folder / f"{kind}.sudare" for kind in models}


@pytest.mark.parametrize("kind", ["statistics", "model", "perturbed", "synthetic"])
def test_a_dossier_of_each_kind(kind: str, releases: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "dossier"
    told = invoked("inspect", str(releases[kind]), "--dossier", str(folder), "--json")
    assert told.exit_code == 0, told.output
    assert told.values["kind"] == kind
    assert {path.name for path in folder.iterdir()} == FILES == set(told.values["files"])
    manifest = manifest_of(releases[kind].read_bytes())
    assert json.loads((folder / "receipt.json").read_text("utf-8")) == manifest["receipt"]
    entry = yaml.safe_load((folder / "registry_entry.yaml").read_text("utf-8"))
    assert entry == json.loads((folder / "registry_entry.json").read_text("utf-8"))
    assert problems_of(entry) == []
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == manifest["guarantee"]["epsilon"]
    page = (folder / "dossier.html").read_text("utf-8")
    assert "not legal advice" in page
    assert page.index('<article id="en"') < page.index('<article id="ja"')
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    assert ("第43条第3項及び第4項。" in page) == (kind == "perturbed")
    evidence = json.loads((folder / "audit.json").read_text("utf-8"))
    assert evidence["learner"] == manifest["learner"]
    assert evidence["claimed"]["epsilon"] == manifest["guarantee"]["epsilon"]


def test_japanese_comes_first_where_it_is_asked_for(
    releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDARE_LANG")
    for name, arguments, environment in (("option", ["--lang", "ja"], "C"), ("locale", [], "ja_JP.UTF-8")):
        monkeypatch.setenv("LC_ALL", environment)
        told = invoked("inspect", str(releases["model"]), "--dossier", str(tmp_path / name), *arguments)
        assert told.exit_code == 0, told.output
        page = (tmp_path / name / "dossier.html").read_text("utf-8")
        assert page.index('<article id="ja"') < page.index('<article id="en"')
        assert '<html lang="ja">' in page
        assert "弱い" in page


def test_what_a_person_says_is_in_the_entry(releases: dict[str, Path], tmp_path: Path) -> None:
    about = tmp_path / "about.toml"
    about.write_text(ABOUT, "utf-8")
    folder = tmp_path / "dossier"
    told = invoked("inspect", str(releases["statistics"]), "--dossier", str(folder), "--about", str(about), "--json")
    assert told.values["to_fill_in"] == []
    text = (folder / "registry_entry.yaml").read_text("utf-8")
    assert yaml.safe_load(text)["deployment"]["basic"]["data_curators"] == [
        {"data_curator_name": "A clinic", "data_curator_type": "Nonprofit"}
    ]
    assert "TO BE FILLED IN" not in text


def test_an_unchecked_signature_is_said_in_both_languages(releases: dict[str, Path], tmp_path: Path) -> None:
    told = invoked("inspect", str(releases["statistics"]), "--dossier", str(tmp_path / "dossier"))
    assert "NOT CHECKED" in told.stdout
    page = (tmp_path / "dossier" / "dossier.html").read_text("utf-8")
    assert "NOT CHECKED" in page
    assert "鍵は確認されていません" in page


def test_refusals(releases: dict[str, Path], tmp_path: Path) -> None:
    file, taken = str(releases["statistics"]), tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine", "utf-8")
    wrong, missing = tmp_path / "wrong.toml", tmp_path / "missing.toml"
    wrong.write_text("name = [", "utf-8")
    for arguments in (
        ["--dossier", str(taken)],
        ["--dossier", str(taken / "mine.txt")],
        ["--about", str(wrong)],
        ["--dossier", str(tmp_path / "new"), "--about", str(wrong)],
        ["--dossier", str(tmp_path / "new"), "--about", str(missing)],
    ):
        assert invoked("inspect", file, *arguments).exit_code == InvalidParameter.exit_code, arguments
    assert [path.name for path in taken.iterdir()] == ["mine.txt"]
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_a_dossier_of_every_learner(tmp_path: Path) -> None:
    from tests.guarantees.test_every_fit import CASES

    ledger = Ledger(tmp_path / "ledger.db")
    for number, case in enumerate(CASES):
        unit = case.fields()["unit"]
        account = ledger.account(f"a{number}", epsilon=1e6, delta=0.5, unit=unit)
        path = tmp_path / f"{number}.sudare"
        Release.of(case.made(account).fit(case.X(), case.y())).save(path, key=KEY)
        told = invoked("inspect", str(path), "--dossier", str(tmp_path / str(number)), "--json")
        assert told.exit_code == 0, (str(case), told.output)
        entry = yaml.safe_load((tmp_path / str(number) / "registry_entry.yaml").read_text("utf-8"))
        assert problems_of(entry) == [], str(case)

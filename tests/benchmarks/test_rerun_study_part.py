"""A part of a study that is computed again takes the old one's place, and no other."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from benchmarks import rerun_study_part
from benchmarks.study_pages import committed_result
from sudare.papers import load_study
from sudare.papers.study import Figure, ResultTable, StudyResult


@pytest.mark.parametrize("name", rerun_study_part.MODULES)
def test_every_part_is_one_of_the_study(name):
    parts = rerun_study_part.import_module(rerun_study_part.MODULES[name]).PARTS
    assert parts
    assert committed_result(name)["settings"]["quick"] is False


def test_tables_and_figures_keep_their_places(monkeypatch, tmp_path):
    old = {
        "tables": [{"title": "a"}, {"title": "b"}],
        "figures": [{"label": "1"}, {"label": "2"}],
        "name": "003",
        "errata": ["old"],
    }
    (tmp_path / "003.json").write_text(json.dumps(old), "utf-8")
    found = StudyResult([ResultTable("b", ("x",), [(1,)], "new")], [Figure("1", "new", [])])
    monkeypatch.setattr(rerun_study_part, "RESULTS", tmp_path)
    monkeypatch.setattr(
        rerun_study_part, "import_module", lambda name: SimpleNamespace(PARTS={"some": lambda *_: found})
    )
    monkeypatch.setattr(sys, "argv", ["rerun_study_part", "003", "some"])
    rerun_study_part.main()
    written = json.loads((tmp_path / "003.json").read_text("utf-8"))
    assert [table.get("says") for table in written["tables"]] == [None, "new"]
    assert [figure.get("caption") for figure in written["figures"]] == ["new", None]
    assert written["errata"] == [asdict(erratum) for erratum in load_study("003").errata]


def test_what_has_no_place_is_refused():
    with pytest.raises(LookupError, match="run the whole study"):
        rerun_study_part.with_part(
            {"tables": [], "figures": []}, {"tables": [{"title": "c"}], "figures": [], "errata": []}
        )

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
from sudare.papers.diffprivlib_models import NOT_RUN
from sudare.papers.study import Figure, ResultTable, StudyResult


@pytest.mark.parametrize("name", rerun_study_part.MODULES)
def test_every_part_is_one_of_the_study(name):
    parts = rerun_study_part.import_module(rerun_study_part.MODULES[name]).PARTS
    assert parts
    assert committed_result(name)["settings"]["quick"] is False


def test_tables_and_figures_keep_their_places(monkeypatch, tmp_path):
    old = {
        "tables": [{"title": "a"}, {"title": "b", "columns": ["x"], "rows": [[1]], "says": "old"}],
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


def test_what_has_no_place_comes_last_where_it_is_allowed():
    committed = {"tables": [{"title": "a"}], "figures": [], "errata": []}
    part = {"tables": [{"title": "c"}, {"title": "a", "says": "new"}], "figures": [{"label": "1"}], "errata": []}
    added = rerun_study_part.with_part(committed, part, add=True)
    assert added["tables"] == [{"title": "a", "says": "new"}, {"title": "c"}]
    assert added["figures"] == [{"label": "1"}]


def peer_table(says, cell, first=0.1):
    return {"title": "a", "columns": ["ε", "ours", "diffprivlib, best C"], "rows": [[first, 1, cell]], "says": says}


def test_numbers_of_diffprivlib_are_kept_where_it_is_not_there():
    old = peer_table("Then. diffprivlib 0.6.6: its best; 5 repetitions.", 0.7)
    new = peer_table(f"Now. {NOT_RUN}", None)
    new["rows"][0][1] = 2
    kept = rerun_study_part.with_diffprivlib_kept(old, new)
    assert kept["rows"] == [[0.1, 2, 0.7]]
    assert kept["says"] == "Now. diffprivlib 0.6.6: its best; 5 repetitions."
    part = {"tables": [new], "figures": [], "errata": []}
    assert rerun_study_part.with_part({"tables": [old], "figures": []}, part)["tables"] == [kept]
    again = peer_table("Now. diffprivlib 0.6.6: its best; 9 repetitions.", 0.9)
    assert rerun_study_part.with_diffprivlib_kept(old, again) == again
    assert rerun_study_part.with_diffprivlib_kept(new, new) == new
    with pytest.raises(LookupError, match="other columns or rows"):
        rerun_study_part.with_diffprivlib_kept(peer_table(old["says"], 0.7, first=0.5), new)


@pytest.mark.parametrize("name", ["000", "001", "002"])
def test_committed_tables_tell_of_diffprivlib_as_the_command_expects(name):
    """Its sentence is the last one, so that it can be put in the place of the one that says that diffprivlib was not run."""
    tables = [
        each for each in committed_result(name)["tables"] if any("diffprivlib" in column for column in each["columns"])
    ]
    assert tables
    for table in tables:
        assert table["says"].count("diffprivlib 0.6.6: ") == 1
        assert table["says"].rpartition(" repetitions.")[2] == ""


def estimate(value, error=0.5):
    return {"value": value, "standard_error": error, "repeats": 3}


def result_of(*rows, title="a"):
    table = {"title": title, "columns": ["x", "y"], "rows": [list(row) for row in rows], "says": ""}
    return {"tables": [table], "figures": []}


def test_comparing_tells_how_far_numbers_are_from_the_committed_ones():
    committed = result_of(("one", estimate(2.0)), ("two", 7), ("three", None))
    (same,) = rerun_study_part.differences(committed, committed)
    assert same == "a: numbers differ by 0 at most, 0 standard errors; 0 other cells differ"
    (other,) = rerun_study_part.differences(committed, result_of(("one", estimate(1.0)), ("zwei", 7.5), ("three", 4)))
    assert other == "a: numbers differ by 1 at most, 2 standard errors; 2 other cells differ"
    assert rerun_study_part.differences(committed, result_of(("one", 1)))[0].endswith("other rows or columns")
    assert rerun_study_part.differences(committed, result_of(title="b"))[0].endswith("not in the committed result")


def test_means_of_fewer_repetitions_are_compared_by_how_far_they_may_be():
    """Two of ten: √(10/2 − 1) = 2 standard errors of the ten."""
    committed = result_of(("one", {"value": 2.0, "standard_error": 0.5, "repeats": 10}))
    fewer = result_of(("one", {"value": 5.0, "standard_error": 9.0, "repeats": 2}))
    assert "3 at most, 3 standard errors" in rerun_study_part.differences(committed, fewer)[0]


def test_fewer_repetitions_are_never_written(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rerun_study_part", "003", "private", "--repeats", "2"])
    with pytest.raises(SystemExit):
        rerun_study_part.main()
    assert "--compare" in capsys.readouterr().err


def test_comparing_leaves_out_diffprivlib_where_it_is_not_there():
    old, new = peer_table("Then. diffprivlib 0.6.6: its best; 5 repetitions.", 0.7), peer_table(NOT_RUN, None)
    old["says"] = "Now. diffprivlib 0.6.6: its best; 5 repetitions."
    new["says"] = f"Now. {NOT_RUN}"
    committed = {"tables": [old], "figures": []}
    (line,) = rerun_study_part.differences(committed, {"tables": [new], "figures": []})
    assert line.endswith("0 other cells differ")
    (line,) = rerun_study_part.differences(committed, {"tables": [peer_table("With it.", 0.9)], "figures": []})
    assert line.startswith("a: numbers differ by 0.2 at most")


def test_comparing_tells_of_texts_and_captions():
    committed = result_of((1, 2)) | {"figures": [{"label": "1", "caption": "old"}, {"label": "2", "caption": "old"}]}
    table = {**committed["tables"][0], "says": "Other words."}
    part = {"tables": [table], "figures": [{"label": "1", "caption": "old"}, {"label": "2", "caption": "new"}]}
    text, caption = rerun_study_part.differences(committed, part)
    assert text.endswith("; 0 other cells differ; the text differs")
    assert caption == "2: the caption differs"


def test_comparing_writes_nothing(monkeypatch, tmp_path, capsys):
    text = json.dumps({"tables": [{"title": "b", "columns": ["x"], "rows": [[2]], "says": ""}], "figures": []})
    (tmp_path / "003.json").write_text(text, "utf-8")
    found = StudyResult([ResultTable("b", ("x",), [(1,)], "new")], [])
    monkeypatch.setattr(rerun_study_part, "RESULTS", tmp_path)
    monkeypatch.setattr(
        rerun_study_part, "import_module", lambda name: SimpleNamespace(PARTS={"some": lambda *_: found})
    )
    monkeypatch.setattr(sys, "argv", ["rerun_study_part", "003", "some", "--compare"])
    rerun_study_part.main()
    assert (tmp_path / "003.json").read_text("utf-8") == text
    line, told = capsys.readouterr().out.splitlines()
    assert line == "b: numbers differ by 1 at most, 0 standard errors; 0 other cells differ; the text differs"
    assert told == "compared some of 003.json: 0 s"

"""The study of paper 004 is registered."""

from __future__ import annotations

import json
from pathlib import Path

from sudare.papers import load_study
from sudare.papers.p004_reconstruction import NEVER_SHORT, QUICK_HOW
from sudare.papers.study import Figure, ResultTable, StudyResult


def test_the_study_is_registered():
    study = load_study("004")
    assert study.paper.startswith("004")
    assert study.repeats >= 10
    assert study.settings(quick=True).repeats == 2
    assert len({erratum.place for erratum in study.errata}) == len(study.errata)


def test_a_quick_run_says_so_where_it_is_shorter():
    committed = json.loads((Path(__file__).parents[3] / "docs" / "papers" / "004.json").read_text("utf-8"))
    found = StudyResult(
        [ResultTable(table["title"], ["a"], [[1]], "Says.") for table in committed["tables"]],
        [Figure(figure["label"], "Shows.", []) for figure in committed["figures"]],
    ).marked_quick(QUICK_HOW, NEVER_SHORT)
    unmarked = [table.title for table in found.tables if "Quick run" not in table.says]
    assert [title[:12] for title in unmarked] == ["Table 1: hei", "One column o"]
    assert [figure.label for figure in found.figures if not figure.differs] == ["Figure 1", "Reconstructions"]

"""Study 003 as a whole, in its quick form."""

from __future__ import annotations

import pytest

from sudare.papers.p003_decentralised import STUDY, in_the_chapters_order
from sudare.papers.study import Figure, ResultTable, StudyResult, result_values
from sudare.papers.study_page import study_page_html


def test_figures_come_in_the_order_of_the_chapter_and_then_ours():
    labels = ["Figure 1.9", "Lost and late messages", "Figure 1.8", "A hard case"]
    found = in_the_chapters_order(
        StudyResult(
            [ResultTable(f"{label}: a table", ("",), [], "") for label in labels],
            [Figure(label, "", []) for label in labels],
        )
    )
    ordered = ["Figure 1.8", "Figure 1.9", "Lost and late messages", "A hard case"]
    assert [figure.label for figure in found.figures] == ordered
    assert [table.title for table in found.tables] == [f"{label}: a table" for label in ordered]


@pytest.mark.long
def test_every_figure_of_the_chapter_is_made_and_every_table_is_whole():
    settings = STUDY.settings(quick=True)
    result = STUDY.run(lambda _: None, settings)
    labels = [figure.label for figure in result.figures]
    assert [f"Figure 1.{number}" for number in range(1, 10)] == sorted(label for label in labels if "Figure" in label)
    assert len(set(labels)) == len(labels)
    for table in result.tables:
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
    assert result_values("003", STUDY, result, settings)["settings"] == {"repeats": 2, "quick": True}
    assert "Figure 1.9" in study_page_html(STUDY, result, settings)

"""Study 003 as a whole, in its quick form."""

from __future__ import annotations

import pytest

from sudare.papers.p003_decentralised import STUDY
from sudare.papers.study import result_values
from sudare.papers.study_page import study_page_html


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

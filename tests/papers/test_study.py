"""What a study writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sudare.errors import InvalidParameter, UnknownName
from sudare.papers import (
    STUDIES,
    Erratum,
    Estimate,
    Figure,
    ResultTable,
    Study,
    StudyResult,
    load_study,
    write_result,
)
from sudare.papers.study import cell_text
from sudare.report.plots import Series, curves

PANEL = curves([1, 2], [Series("ours", [1, 2])], x_label="x", y_label="y")
RESULT = StudyResult(
    [ResultTable("t", ("a", "b", "c", "d"), [(1, 0.5, Estimate.of([1.0, 2.0, 3.0]), None)], "replace-one, δ = 0")],
    [Figure("Figure 7", "Ours against x.", [PANEL, PANEL], differs="ten rows instead of 100")],
)
ERRATUM = Erratum("eq. 3", "1 < 0", "0 < 1", "tests/papers/test_study.py::test_files_hold_every_number")
STUDY = Study("A <study>", "paper 0", 3, lambda tell, settings: RESULT, errata=[ERRATUM])
SETTINGS = STUDY.settings()


def test_estimates_are_means_with_standard_errors() -> None:
    samples = np.random.default_rng(0).normal(size=100)
    estimate = Estimate.of(samples)
    assert estimate.value == pytest.approx(samples.mean())
    assert estimate.standard_error == pytest.approx(samples.std(ddof=1) / 10)
    assert estimate.repeats == 100


@pytest.mark.parametrize("samples", [[], [1.0], [[1.0, 2.0], [3.0, 4.0]]])
def test_one_repetition_has_no_standard_error(samples: list[object]) -> None:
    with pytest.raises(InvalidParameter, match="at least two"):
        Estimate.of(samples)  # type: ignore[arg-type]


def test_cells_for_people() -> None:
    row = RESULT.tables[0].rows[0]
    assert [cell_text(cell) for cell in row] == ["1", "0.5", "2.0 ± 0.6", "–"]


def test_files_hold_every_number(tmp_path: Path) -> None:
    numbers, page = write_result("tiny", STUDY, RESULT, SETTINGS, tmp_path / "new" / "folder")
    written = json.loads(numbers.read_text("utf-8"))
    assert written["title"] == "A <study>"
    assert written["settings"] == {"repeats": 3, "quick": False}
    assert written["figures"] == [
        {"label": "Figure 7", "caption": "Ours against x.", "differs": "ten rows instead of 100"}
    ]
    assert written["errata"][0]["place"] == "eq. 3"
    (table,) = written["tables"]
    assert table["says"] == "replace-one, δ = 0"
    assert table["rows"][0][2] == {"value": 2.0, "standard_error": pytest.approx(3**-0.5), "repeats": 3}
    html = page.read_text("utf-8")
    for text in (
        "A &lt;study&gt;",
        "Figure 7",
        "ten rows instead of 100",
        "2.0 ± 0.6",
        "1 &lt; 0",
        "data:image/svg+xml",
    ):
        assert text in html
    assert write_result("tiny", STUDY, RESULT, SETTINGS, tmp_path / "new" / "folder") == [numbers, page]


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameter, match="cannot be written"):
        write_result("tiny", STUDY, RESULT, SETTINGS, tmp_path / "file")


def test_every_registered_study_loads() -> None:
    for name in STUDIES:
        study = load_study(name)
        assert study.title
        assert study.paper
        assert study.repeats >= 10


def test_an_unknown_study_lists_those_there_are() -> None:
    with pytest.raises(UnknownName, match="core"):
        load_study("nothing")


def test_equal_numbers_have_no_standard_error() -> None:
    assert Estimate.of([0.764] * 30).standard_error == 0

"""What a study writes, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import import_module
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
from sudare.papers.study import cell_text, number_of, range_text
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


def test_a_quick_run_says_so_everywhere_but_where_it_is_as_a_full_one() -> None:
    table, figure = RESULT.tables[0], RESULT.figures[0]
    drawn = replace(figure, differs="")
    found = StudyResult.joined(
        [RESULT, StudyResult([replace(table, title="t: more"), replace(table, title="Table 7: u")], [drawn])]
    )
    assert [each.title for each in found.tables] == ["t", "t: more", "Table 7: u"]
    quick = found.marked_quick("two rows", ("t", "Table 7:"))
    assert [each.says for each in quick.tables] == [table.says, f"Quick run: two rows. {table.says}", table.says]
    assert [each.differs for each in quick.figures] == [
        f"Quick run: two rows. {figure.differs}",
        "Quick run: two rows.",
    ]
    assert [each.differs for each in found.marked_quick("two rows", ("Figure 7",)).figures] == [figure.differs, ""]


@pytest.mark.parametrize("name", ["000", "001", "002", "003", "004"])
def test_what_a_quick_run_leaves_as_it_is_has_names_that_a_study_makes(name: str) -> None:
    """A name that nothing has any more would mark what is not shorter."""
    module = import_module(load_study(name).run.__module__)
    committed = json.loads((Path(__file__).parents[2] / "docs" / "papers" / f"{name}.json").read_text("utf-8"))
    names = [each["title"] for each in committed["tables"]] + [each["label"] for each in committed["figures"]]
    for each in getattr(module, "NEVER_SHORT", ()):
        assert any(known == each or (each.endswith(":") and known.startswith(each)) for known in names), each


def test_equal_numbers_have_no_standard_error() -> None:
    assert Estimate.of([0.764] * 30).standard_error == 0


def test_ranges_in_words():
    assert range_text([2.0, 1.234, 10_344.0]) == "1.23 to 10,300"
    assert range_text([19.12, 19.13]) == "19.1"
    assert [number_of(cell) for cell in (1, 0.5, Estimate(2.0, 0.1, 3))] == [1.0, 0.5, 2.0]
    assert math.isnan(number_of(None))
    assert math.isnan(number_of("–"))

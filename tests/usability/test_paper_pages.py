"""Pages about the papers: every object they name exists, every figure is made, every table is that of a committed result."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks import accuracy, addend_proofs
from benchmarks.study_pages import DOCS, RESULTS, committed_result, filled, study_table
from sudare.papers import load_study

ROOT = DOCS.parent
COVERAGE_PAGES = [RESULTS / f"{paper}.md" for paper in ("000", "001", "002", "003", "004")]
HEADING = "| item | where | how | why |"
HOW = {"faithful", "corrected", "cited", "cannot"}
# What the papers number: equations up to these, and everything else by its name. Figure 4 of 002 is a gap in its numbers.
EQUATIONS = {
    "000": [*map(str, range(1, 26)), *(f"A.{number}" for number in range(1, 13))],
    "001": [str(number) for number in range(1, 46)],
    "002": [str(number) for number in range(1, 27)],
    "003": [f"1.{number}" for number in range(1, 90)],
    "004": [str(number) for number in range(1, 23)],
}
NUMBERED = {
    "000": "Definition 2.1|Proposition 2.1|Proposition 4.1|Theorem 2.1|Theorem 2.2|Theorem 3.1|Theorem 4.1|Theorem A.2.1|Algorithm 1|Algorithm 2"
    "|Figure 1|Figure 2|Figure 3|Figure 4|Figure 5|Table 1|Table 2",
    "001": "Definition 1|Theorem 2|Theorem 3|Theorem 4|Assumption 5|Assumption 6|Assumption 7|Theorem 8|Theorem 9|Corollary 10|Corollary 11|Theorem 12|Theorem 13",
    "002": "Definition 1|Definition 2|Theorem 1|Theorem 2|Theorem 3|Theorem 4|Lemma 1|Lemma 2|Figure 1|Figure 2|Figure 3|Figure 4|Figure 5",
    "003": "Theorem 1.1|Theorem 1.2|Algorithm 1|Algorithm 2|Algorithm 3|Figure 1.1|Figure 1.2|Figure 1.3|Figure 1.4|Figure 1.5|Figure 1.6|Figure 1.7|Figure 1.8|Figure 1.9",
    "004": "Algorithm 1|Algorithm 2|Figure 1|Figure 2|Table 1|Table 2",
}


def coverage_rows(page: Path) -> list[list[str]]:
    """Cells of the table of what is where."""
    lines = page.read_text("utf-8").splitlines()
    assert HEADING in lines, f"{page.name} has no table {HEADING}"
    rows = []
    for line in lines[lines.index(HEADING) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def equations_of(item: str) -> list[str]:
    """Numbers of the equations that an item is about: those after "eq.", or in brackets at its beginning."""
    number = r"\(?(?:A\.|1\.)?\d+\)?"
    found = re.search(rf"(?:eqs?\. |^(?=\())({number}(?:(?:, | and ){number})*)", item)
    return re.findall(r"(?:A\.|1\.)?\d+", found[1]) if found else []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute (of an attribute …) of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", COVERAGE_PAGES, ids=lambda page: page.stem)
def test_every_object_and_figure_that_a_coverage_page_names_is_there(page: Path) -> None:
    result = committed_result(page.stem)
    made = [figure["label"] for figure in result["figures"]] + [table["title"] for table in result["tables"]]
    for item, where, how, why in coverage_rows(page):
        assert how in HOW, f"{item}: {how}"
        assert why or how == "faithful", f"{item}: says {how} and not why"
        names = re.findall(r"`([^`]+)`", where)
        assert names or how in ("cited", "cannot"), f"{item}: nowhere"
        for name in names:
            if name.startswith("sudare."):
                assert exists(name), f"{item}: there is no {name}"
            elif "/" in name:
                assert (ROOT / name.partition("#")[0]).exists(), f"{item}: there is no {name}"
            else:
                assert any(each.startswith(name) for each in made), f"{item}: the study makes no {name!r}, only {made}"


@pytest.mark.parametrize("page", COVERAGE_PAGES, ids=lambda page: page.stem)
def test_a_coverage_page_has_everything_that_its_paper_numbers(page: Path) -> None:
    items = [item for item, *_ in coverage_rows(page)]
    covered = {number for item in items for number in equations_of(item)}
    assert not [number for number in EQUATIONS[page.stem] if number not in covered]
    for name in NUMBERED[page.stem].split("|"):
        whole = re.compile(rf"{re.escape(name)}(?![\d.]*\d)")
        assert any(whole.search(item) for item in items), f"{page.name} has no {name}"


def test_numbers_of_equations_are_read_off_items() -> None:
    assert equations_of("eqs. (A.6), (A.7)") == ["A.6", "A.7"]
    assert equations_of("(1.12), π") == ["1.12"]
    assert equations_of("Theorem 8, eq. 15") == ["15"]
    assert equations_of("eqs. 14 and 15, N_k and L in it") == ["14", "15"]
    assert equations_of("Theorem 1.1") == equations_of("the recipe of [10] that section 5 runs") == []


@pytest.mark.parametrize("page", COVERAGE_PAGES, ids=lambda page: page.stem)
def test_committed_results_are_of_the_printed_setting_and_have_all_errata(page: Path) -> None:
    result, study = committed_result(page.stem), load_study(page.stem)
    assert result["settings"] == {"repeats": study.repeats, "quick": False}
    assert [erratum["place"] for erratum in result["errata"]] == [erratum.place for erratum in study.errata]
    for erratum in study.errata:
        path, _, name = erratum.test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{erratum.place}: there is no test {erratum.test}"


def test_tables_of_the_pages_are_those_of_the_committed_results() -> None:
    stale = [path.name for path in sorted(DOCS.rglob("*.md")) if filled(text := path.read_text("utf-8")) != text]
    assert not stale, f"Run python -m benchmarks.study_pages: {stale}"


def test_some_rows_of_a_table_are_those_that_begin_alike() -> None:
    title, only = "Adult at one ε for records", "synthetic rows, then logistic regression"
    rows = [line for line in study_table("002", title, only).splitlines() if line.startswith(f"| {only}")]
    assert len(rows) == 5
    assert set(rows) < set(study_table("002", title).splitlines())
    with pytest.raises(LookupError, match="no row 'nobody'"):
        study_table("002", title, "nobody")


def test_costs_of_proofs_on_their_page_are_those_of_the_committed_file(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(addend_proofs.PAGE.read_text("utf-8"), "utf-8")
    addend_proofs.write_page(json.loads(addend_proofs.RESULTS.read_text("utf-8")), page)
    assert page.read_text("utf-8") == addend_proofs.PAGE.read_text("utf-8")


def test_reconstructed_proportions_on_their_page_are_those_of_the_committed_file() -> None:
    assert accuracy.table(json.loads(accuracy.RESULTS.read_text("utf-8"))) in accuracy.PAGE.read_text("utf-8")

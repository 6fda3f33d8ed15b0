"""Pages about the papers: every object they name exists, every figure is made, every number is in a committed result."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks import accuracy, addend_proofs
from benchmarks.study_pages import DOCS, ERRATA, RESULTS, TABLE, committed_result, filled, study_table
from sudare.papers import load_study

ROOT = DOCS.parent
COVERAGE_PAGES = [RESULTS / f"{paper}.md" for paper in ("000", "001", "002", "003", "004")]
HEADING = "| item | where | how | why |"
HOW = {"faithful", "corrected", "cited", "cannot"}
MEASURED_PAGES = [*COVERAGE_PAGES, DOCS / "studies.md"]
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
OTHER_PAGES = sorted(
    path
    for path in (*DOCS.glob("*.md"), *(ROOT / "proofs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if path not in MEASURED_PAGES
)
LABEL = re.compile(
    r"(?i)(figures?|tables?|sections?|theorems?|lemmas?|eq\.|§|version|license|CC BY|Python) ?\d+(\.\d+)*(( to |–|, | and |-)\d+(\.\d+)*)*"
)
# Not a factor of a formula, as in 2.1e^(−x).
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?![\w.]*\d|e\^)")
# What commands write into pages, from files that tests compare with them.
WRITTEN_PART = re.compile(r"<!-- (?!end of )[^\n]*? -->\n.*?<!-- end of [^\n]*? -->", re.DOTALL)
# A number with one of these behind it, or in a line about accuracy, was measured by somebody.
MEASURED_UNIT = re.compile(r"^\s?(ms|µs|s|seconds|minutes|kB|MB|GB)\b")
MEASURED_LINE = re.compile(r"(?i)accurac|\bAUC\b|macro-F1|±|\bmeasured\b|\btook\b")


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


@pytest.mark.parametrize("page", MEASURED_PAGES, ids=lambda page: page.stem)
def test_numbers_in_prose_are_in_a_result_that_the_page_names(page: Path) -> None:
    missing = not_in(named_results(page), decimals(prose(page)))
    assert not missing, f"{page.name}: no committed result that it names has {missing}"


@pytest.mark.parametrize("page", OTHER_PAGES, ids=lambda page: page.stem)
def test_measured_numbers_of_other_pages_are_in_a_result_that_the_page_names(page: Path) -> None:
    missing = not_in(named_results(page), measured_decimals(page))
    assert not missing, f"{page.name}: let a command write {missing} from a file that the page names, or leave it out"


def test_numbers_of_linear_models_stand_where_they_were_measured() -> None:
    """Among so many numbers in their files any three digits are found: here it counts which."""
    page = (DOCS / "linear.md").read_text("utf-8")
    noise, boosting = (
        json.loads((ROOT / "benchmarks" / f"{name}.json").read_text("utf-8"))
        for name in ("objective_noise", "additive_boosting")
    )
    accuracy_at = {
        (row["table"], row["epsilon"]): [short(row[way]["accuracy"], 3) for way in ("product", "euclidean")]
        for row in noise
    }
    adult, means = boosting["adult"], boosting["tuning"]["means"]
    area = {name: short(found["ε = 1"][1], 4) for name, found in boosting["schemas"].items()}
    finer = adult["additive, finer bins, ε = 1, δ = 1e-06"]
    plain, chosen = means["logistic, binned"], means["chosen"]
    beside = {table: f" against {accuracy_at[table, 1.0][1]} " for table in ("breast cancer", "pima")}
    sentences = [
        f"accuracy {accuracy_at['breast cancer', 1.0][0]}{beside['breast cancer']}with Euclidean noise on breast cancer",
        f"{accuracy_at['pima', 1.0][0]}{beside['pima']}on Pima",
        "{} against {} with 40 made columns".format(*accuracy_at["made, 40 columns", 1.0]),
        f"{accuracy_at['made, 10 columns', 1.0][0]} with either for 10 made columns",
        "At ε = .1 breast cancer has {} against {}".format(
            *(short(float(each), 2) for each in accuracy_at["breast cancer", 0.1])
        ),
        f"its AUC of {short(finer['mean'][1], 4)} (deviation of a seed {short(finer['deviation'][1], 4)})",
        f"({short(adult['additive, ε = 3, δ = 1e-06']['mean'][1], 4)} at ε = 3)",
        f"mean AUC is {short(plain[1], 3)} against {short(chosen[1], 3)}, at log losses of {short(plain[2], 3)} and {short(chosen[2], 3)}",
        f"a rate of .3 (AUC {short(means['rate .3'][1], 3)}, log loss {short(means['rate .3'][2], 3)})",
        f"20 steps ({short(means['20 steps'][1], 3)}, {short(means['20 steps'][2], 3)})",
        f"AUC {area['capital gains by hundreds, education by its number']}, against {area['eleven columns']} of the first",
        f"every 250 dollars have {area['fine capital gains too']}, finer ages {area['finer ages too']} and hours {area['finer hours too']}",
        f"the country ({area['country too']}), the weight of sampling ({area['weights of sampling too']})",
        f"all fourteen attributes ({area['all fourteen']}; with gains by hundreds {area['capital gains by hundreds, all fourteen']})",
    ]
    assert not [sentence for sentence in sentences if sentence not in page]


def test_tables_of_additive_and_joint_models_are_those_of_their_files() -> None:
    boosting, joint = (
        json.loads((ROOT / "benchmarks" / f"{name}.json").read_text("utf-8"))
        for name in ("additive_boosting", "joint_models")
    )
    rows = [
        f"| {epsilon} | {delta} | "
        + " | ".join(
            f"{number:.4f}"
            for way in ("additive", "additive, finer bins", "logistic, binned")
            for number in boosting["adult"][f"{way}, ε = {epsilon}, δ = {delta}"]["mean"]
        )
        for epsilon, delta in (("0.1", "1e-06"), ("0.5", "1e-06"), ("1", "1e-06"), ("3", "1e-06"), ("1", "0"))
    ]
    assert not [row for row in rows if f"{row} |\n" not in (DOCS / "linear.md").read_text("utf-8")]
    lines = (DOCS / "consortium-learning.md").read_text("utf-8").splitlines()
    start = lines.index("| | accuracy | AUC |") + 2
    shown = [tuple(float(cell) for cell in line.split("|")[2:4]) for line in lines[start : start + 4]]
    assert shown == [tuple(found["mean"][:2]) for found in joint["found"].values()]


def short(number: float, digits: int) -> str:
    """As pages write a share: .784, a half rounded up."""
    return f"{number + 1e-9:.{digits}f}".removeprefix("0")


def test_a_number_of_another_page_is_no_excuse(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    number = next(token for token in decimals(committed_text("003")) if not_in([RESULTS / "001.json"], [token]))
    page.write_text(f"Accuracy was {number} (`sudare study 001`).", "utf-8")
    assert not_in(named_results(page), measured_decimals(page)) == [number]
    page.write_text(f"Accuracy was {number} (`sudare study 003`).", "utf-8")
    assert not not_in(named_results(page), measured_decimals(page))


def test_a_table_about_accuracy_is_measured_in_all_its_rows(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| ε | AUC |\n| --- | --- |\n| 0.5 | 0.8127 |\n\n| ε | rows |\n| --- | --- |\n| 0.25 | 0.3 |\n", "utf-8"
    )
    assert measured_decimals(page) == ["0.5", "0.8127"]


def committed_text(name: str) -> str:
    """A committed result as it is written."""
    return (RESULTS / f"{name}.json").read_text("utf-8")


def named_results(page: Path) -> list[Path]:
    """Committed results that a page names: its own paper's, those of studies and tables in it, and those of benchmarks whose command or file it gives."""
    text = page.read_text("utf-8")
    studies = re.findall(r"(?:<!-- (?:study|errata) |sudare study |papers/)(\w+)", text)
    files = [RESULTS / f"{name}.json" for name in (page.stem, *studies)]
    for name in re.findall(r"benchmarks[./]((?:panel[./])?\w+)", text):
        files += [(ROOT / "benchmarks" / name.replace(".", "/")).with_suffix(ending) for ending in (".json", ".jsonl")]
    if re.search(r"make bench\b|python -m benchmarks(?!\.)", text):
        files.append(ROOT / "benchmarks" / "results.json")
    return sorted({file for file in files if file.is_file()})


def not_in(files: list[Path], tokens: list[str]) -> list[str]:
    """Tokens to which no number of the files rounds."""
    known = " ".join(file.read_text("utf-8") for file in files)
    numbers = [float(number) for number in set(re.findall(r"-?\d+\.\d+(?:e-?\d+)?", known))]
    return [token for token in tokens if not any(same(token, number) for number in numbers)]


def measured_decimals(page: Path) -> list[str]:
    """Decimal numbers that look measured: with a unit of time or memory, in a line about accuracy, or in a table whose headings are."""
    text = page.read_text("utf-8")
    for left_out in (WRITTEN_PART, re.compile(r"```.*?```", re.DOTALL), re.compile(r"`[^`]*`|\]\([^)]*\)")):
        text = left_out.sub(" ", text)
    found, headings = [], ""
    for line in text.splitlines():
        headings = (headings or line) if line.startswith("|") else ""
        is_measured = MEASURED_LINE.search(line) or MEASURED_LINE.search(headings)
        for number in DECIMAL.finditer(LABEL.sub(" ", line)):
            if is_measured or MEASURED_UNIT.match(number.string[number.end() :]):
                found.append(number[0])
    return found


def prose(page: Path) -> str:
    """A page without made tables, code, links' addresses and the table of what is where."""
    text = page.read_text("utf-8")
    for made in (
        TABLE,
        ERRATA,
        re.compile(r"```.*?```", re.DOTALL),
        re.compile(r"`[^`]*`"),
        re.compile(r"\]\([^)]*\)"),
    ):
        text = made.sub(" ", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


def decimals(text: str) -> list[str]:
    """Numbers with a decimal point, but no numbers of figures, sections and versions."""
    return DECIMAL.findall(LABEL.sub(" ", text))


def same(token: str, number: float) -> bool:
    """Whether a number rounds to what is written."""
    digits = len(token.partition(".")[2])
    return abs(abs(number) - float(token)) <= 0.5 * 10**-digits * 1.000001

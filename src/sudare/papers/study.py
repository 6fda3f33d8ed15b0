"""What a study is and what it gives: tables with standard errors, figures, errata, and one file of numbers and one page of all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sudare.errors import InvalidParameter
from sudare.report.number_formatting import nearest
from sudare.report.plots import Panel

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions with its standard error."""

    value: float
    standard_error: float
    repeats: int

    @classmethod
    def of(cls, samples: ArrayLike) -> Estimate:
        """The mean of independent repetitions, of which there are at least two."""
        values = np.asarray(samples, dtype=np.float64)
        if values.ndim != 1 or len(values) < 2:
            raise InvalidParameter("A standard error needs at least two repetitions.", "Use for example --repeats 20.")
        # The mean of equal numbers is rounded, and they would seem to differ from it.
        deviation = float(values.std(ddof=1)) if np.ptp(values) > 0 else 0.0
        return cls(float(values.mean()), deviation / math.sqrt(len(values)), len(values))

    def __str__(self) -> str:
        return f"{nearest(self.value, 3)} ± {nearest(self.standard_error, 1)}"


Cell = str | int | float | Estimate | None


def number_of(cell: Cell) -> float:
    """The number in a cell; not a number where there is none."""
    if isinstance(cell, Estimate):
        return cell.value
    return float(cell) if isinstance(cell, int | float) else math.nan


def range_text(numbers: Sequence[float]) -> str:
    """The least and the greatest of some numbers to three digits, or the one that they round to: "1.2 to 34"."""
    low, high = (f"{float(f'{end:.3g}'):,.10g}" for end in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class ResultTable:
    """Our numbers beside those of others. `says` names neighbours and δ, and what is to be seen."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    says: str


@dataclass(frozen=True)
class Figure:
    """One figure of a report. `label` is the paper's own ("Figure 4") where it prints one, else a short title.

    `caption` says what is drawn, what the bars are and which numbers the paper's text prints; `differs` names the settings
    that are not the printed ones.
    """

    label: str
    caption: str
    panels: Sequence[Panel]
    differs: str = ""


@dataclass(frozen=True)
class Erratum:
    """What a paper prints at some place, what holds instead, and the test (path::name) that shows it."""

    place: str
    printed: str
    holds: str
    test: str


@dataclass(frozen=True)
class StudySettings:
    """How often to repeat, and whether minutes are to do: fewer rows, epochs or values of ε, as each figure then says."""

    repeats: int
    quick: bool = False


@dataclass(frozen=True)
class StudyResult:
    """Tables and figures."""

    tables: Sequence[ResultTable]
    figures: Sequence[Figure]

    @classmethod
    def joined(cls, parts: Iterable[StudyResult]) -> StudyResult:
        """All tables and all figures of the parts, in their order."""
        found = list(parts)
        return cls([each for part in found for each in part.tables], [each for part in found for each in part.figures])

    def marked_quick(self, how: str, unchanged: Sequence[str] = ()) -> StudyResult:
        """The same, each table and figure saying that it is of a quick run and how that is shorter.

        `unchanged` names those that are as in a full run, by title or label, or by how these begin where a name ends with a colon.
        """
        note = f"Quick run: {how}."

        def is_shorter(name: str) -> bool:
            return not any(name == each or (each.endswith(":") and name.startswith(each)) for each in unchanged)

        return StudyResult(
            [
                replace(table, says=f"{note} {table.says}") if is_shorter(table.title) else table
                for table in self.tables
            ],
            [
                replace(figure, differs=f"{note} {figure.differs}".strip()) if is_shorter(figure.label) else figure
                for figure in self.figures
            ],
        )


@dataclass(frozen=True)
class Study:
    """Figures and tables of a paper, repeated. `run` takes a way to tell progress, and settings."""

    title: str
    paper: str
    repeats: int
    run: Callable[[Tell, StudySettings], StudyResult]
    quick_repeats: int = 2
    errata: Sequence[Erratum] = ()

    def settings(self, repeats: int | None = None, *, quick: bool = False) -> StudySettings:
        """Settings with the study's own number of repetitions where none is given."""
        return StudySettings(repeats or (self.quick_repeats if quick else self.repeats), quick)


def cell_text(cell: Cell) -> str:
    """A cell for people."""
    if cell is None:
        return "–"
    return nearest(cell) if isinstance(cell, float) else str(cell)


def result_values(name: str, study: Study, result: StudyResult, settings: StudySettings) -> dict[str, Any]:
    """Everything that was found, in plain values."""
    return {
        "name": name,
        "title": study.title,
        "paper": study.paper,
        "settings": asdict(settings),
        "tables": [
            {
                "title": table.title,
                "says": table.says,
                "columns": list(table.columns),
                "rows": [[asdict(cell) if is_dataclass(cell) else cell for cell in row] for row in table.rows],
            }
            for table in result.tables
        ],
        "figures": [
            {"label": figure.label, "caption": figure.caption, "differs": figure.differs} for figure in result.figures
        ],
        "errata": [asdict(erratum) for erratum in study.errata],
    }


def write_result(name: str, study: Study, result: StudyResult, settings: StudySettings, folder: Path) -> list[Path]:
    """NAME.json and NAME.html in the folder, which is made if needed; an earlier result of the study is replaced."""
    # The page needs templates and pictures: who only lists studies need not load them.
    from sudare.papers.study_page import study_page_html

    numbers, page = folder / f"{name}.json", folder / f"{name}.html"
    values = result_values(name, study, result, settings)
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    html = study_page_html(study, result, settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        numbers.write_text(text + "\n", "utf-8")
        page.write_text(html, "utf-8")
    except OSError as error:
        raise InvalidParameter(
            f"Results cannot be written to '{folder}' ({error.strerror}).", "Choose another --output."
        ) from None
    return [numbers, page]

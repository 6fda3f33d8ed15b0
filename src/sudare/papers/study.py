"""What a study is and what it gives: tables with standard errors, a picture, and files of both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sudare.errors import InvalidParameter
from sudare.report.numbers import nearest
from sudare.report.plots import Panel, rendered

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
        return cls(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))), len(values))

    def __str__(self) -> str:
        return f"{nearest(self.value, 3)} ± {nearest(self.standard_error, 1)}"


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class ResultTable:
    """Our numbers beside those of others. `says` names neighbours and δ, and what is to be seen."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    says: str


@dataclass(frozen=True)
class StudyResult:
    """Tables, and panels of one picture."""

    tables: Sequence[ResultTable]
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Study:
    """A figure or table of a paper, repeated. `run` takes a way to tell progress and the number of repetitions."""

    title: str
    paper: str
    repeats: int
    run: Callable[[Tell, int], StudyResult]


def cell_text(cell: Cell) -> str:
    """A cell for people."""
    if cell is None:
        return "–"
    return nearest(cell) if isinstance(cell, float) else str(cell)


def result_values(name: str, study: Study, result: StudyResult) -> dict[str, Any]:
    """Everything that was found, in plain values."""
    return {
        "name": name,
        "title": study.title,
        "paper": study.paper,
        "tables": [
            {
                "title": table.title,
                "says": table.says,
                "columns": list(table.columns),
                "rows": [[asdict(cell) if is_dataclass(cell) else cell for cell in row] for row in table.rows],
            }
            for table in result.tables
        ],
    }


def write_result(name: str, study: Study, result: StudyResult, folder: Path) -> list[Path]:
    """NAME.json and NAME.png in the folder, which is made if needed; an earlier result of the study is replaced."""
    numbers, picture = folder / f"{name}.json", folder / f"{name}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(result_values(name, study, result), indent=2, ensure_ascii=False, allow_nan=False)
        numbers.write_text(text + "\n", "utf-8")
        picture.write_bytes(rendered(result.panels, "png", columns=2))
    except OSError as error:
        raise InvalidParameter(
            f"Results cannot be written to '{folder}' ({error.strerror}).", "Choose another --output."
        ) from None
    return [numbers, picture]

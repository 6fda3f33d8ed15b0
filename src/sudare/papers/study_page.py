"""A study as one self-contained page: its figures, its tables, and where the paper's print does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from sudare import __version__
from sudare.papers.study import Erratum, Figure, ResultTable, Study, StudyResult, StudySettings, cell_text
from sudare.report import Page, PageTable, Part, page_html
from sudare.report.plots import picture

QUICK_NOTE = (
    "A quick run: smaller than the printed setting, for a look. What captions conclude was seen in the full run. "
    "Run it without --quick for numbers to cite."
)
MADE_BY = f"sudare study, version {__version__}"


def study_page_html(study: Study, result: StudyResult, settings: StudySettings) -> str:
    """The whole page: figures first, then tables, then errata."""
    parts = [*map(figure_part, result.figures), *map(table_part, result.tables)]
    if study.errata:
        parts.append(errata_part(study.errata))
    lead = f"Paper {study.paper}. {QUICK_NOTE if settings.quick else f'{settings.repeats} repetitions where a figure or table says nothing else.'}"
    return page_html(Page(title=study.title, lead=lead, parts=parts, made_by=MADE_BY, is_report=True))


def figure_part(figure: Figure) -> Part:
    """A figure with its caption, and in which settings it differs from the print."""
    differs = [f"Not as printed: {figure.differs}"] if figure.differs else []
    drawn = picture(figure.panels, f"{figure.label}. {figure.caption}")
    return Part(figure.label, figure.caption, [drawn], differs)


def table_part(table: ResultTable) -> Part:
    """A table, and what it says."""
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    return Part(table.title, "", [PageTable(table.columns, rows)], [table.says])


def errata_part(errata: Sequence[Erratum]) -> Part:
    """What is printed, and what holds."""
    rows = [(erratum.place, erratum.printed, erratum.holds) for erratum in errata]
    return Part(
        "Errata",
        "Where the print does not hold, or leaves out what it needs.",
        [PageTable(("where", "printed", "what holds"), rows)],
        ["Each line has a test in the repository that shows what holds."],
    )

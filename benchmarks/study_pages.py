"""Tables of the documentation that come from committed results of studies.

    sudare study 000 --output docs/papers
    python -m benchmarks.study_pages

A page asks for a table by a line `<!-- study 000: TITLE OF THE TABLE -->`, and for the errata of a paper by `<!-- errata 000 -->`; everything from
there to `<!-- end of study -->` or `<!-- end of errata -->` is written anew from docs/papers/000.json.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final

from benchmarks.peers import ROOT
from sudare.papers.study import Cell, Estimate, cell_text

DOCS: Final = ROOT / "docs"
RESULTS: Final = DOCS / "papers"
TABLE: Final = re.compile(r"(<!-- study (?P<name>\w+): (?P<title>.+?) -->\n).*?(<!-- end of study -->)", re.DOTALL)
ERRATA: Final = re.compile(r"(<!-- errata (?P<name>\w+) -->\n).*?(<!-- end of errata -->)", re.DOTALL)


@cache
def committed_result(name: str) -> dict[str, Any]:
    """What the study of that name found when it was last committed."""
    values: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return values


def markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    """A table; bars and line ends within cells are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def study_table(name: str, title: str) -> str:
    """A table of a committed result, with what it says below it. Raise LookupError unless the result has one of that title."""
    tables = {table["title"]: table for table in committed_result(name)["tables"]}
    if title not in tables:
        raise LookupError(f"docs/papers/{name}.json has no table {title!r}; it has {sorted(tables)}.")
    table = tables[title]
    rows = [[cell_text(committed_cell(cell)) for cell in row] for row in table["rows"]]
    return f"{markdown_table(table['columns'], rows)}\n\n{table['says']}"


def committed_cell(cell: Any) -> Cell:
    """A cell as it was before it was written to JSON."""
    return Estimate(**cell) if isinstance(cell, dict) else cell


def errata_table(name: str) -> str:
    """Where the paper's print does not hold, and the test that shows it."""
    rows = [
        [erratum["place"], erratum["printed"], erratum["holds"], f"`{erratum['test'].partition('::')[2]}`"]
        for erratum in committed_result(name)["errata"]
    ]
    return markdown_table(["where", "printed", "what holds", "shown by"], rows)


def filled(page: str) -> str:
    """The page with all its tables as the committed results have them."""
    page = TABLE.sub(lambda found: f"{found[1]}\n{study_table(found['name'], found['title'])}\n\n{found[4]}", page)
    return ERRATA.sub(lambda found: f"{found[1]}\n{errata_table(found['name'])}\n\n{found[3]}", page)


def main() -> None:
    """Write the tables of every page."""
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text("utf-8")
        if (written := filled(page)) != page:
            path.write_text(written, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""Results as files: results.json, and the table in docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Result
from benchmarks.peers import ROOT

RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results: written by `make bench` -->", "<!-- end of results -->"


def write_results(results: Sequence[Result], path: Path = RESULTS) -> None:
    """All lines as JSON."""
    lines = [result.to_dict() for result in results]
    path.write_text(json.dumps(lines, indent=2, ensure_ascii=False) + "\n", "utf-8")


def ratio_text(ratio: float | None) -> str:
    """A ratio in two or three digits, or that the peer was not there."""
    if ratio is None:
        return "peer not there"
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}"


def markdown(results: Sequence[Result]) -> str:
    """The table for the page."""
    rows = [f"| {result.name} | {result.peer} | {ratio_text(result.ratio)} |" for result in results]
    return "\n".join(["| benchmark | peer | peer's time ÷ ours |", "| --- | --- | --- |", *rows])


def write_page(results: Sequence[Result], page: Path = PAGE) -> None:
    """Replace the part between the marks; a page without marks gets them at its end."""
    text = page.read_text("utf-8")
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}", "utf-8")

"""Tables of the documentation that come from committed results of studies.

    sudare study 000 --output docs/papers
    python -m benchmarks.study_pages

A page asks for a table by a line `<!-- study 000: TITLE OF THE TABLE -->`, for those of its rows that begin with a text by `<!-- study 000: TITLE OF THE TABLE, only "TEXT" -->`,
and for the errata of a paper by `<!-- errata 000 -->`; everything from there to `<!-- end of study -->` or `<!-- end of errata -->` is written anew from docs/papers/000.json.
Steps on a GPU are those of benchmarks/gpu_results.jsonl, those of networks with convolutions those of benchmarks/gpu_images.jsonl, and what such networks learn is in benchmarks/network_images.json.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final

from benchmarks.page_parts import with_part
from benchmarks.peers import ROOT
from sudare.papers.study import Cell, Estimate, cell_text

DOCS: Final = ROOT / "docs"
RESULTS: Final = DOCS / "papers"
GPU_STEPS: Final = ROOT / "benchmarks" / "gpu_results.jsonl"
GPU_PART: Final = "steps on a GPU"
GPU_IMAGES: Final = ROOT / "benchmarks" / "gpu_images.jsonl"
GPU_IMAGES_PART: Final = "steps with convolutions on a GPU"
NETWORK_IMAGES: Final = ROOT / "benchmarks" / "network_images.json"
NETWORK_IMAGES_PART: Final = "images"
TABLE: Final = re.compile(
    r'(<!-- study (?P<name>\w+): (?P<title>[^\n]+?)(, only "(?P<only>[^\n]+?)")? -->\n).*?(<!-- end of study -->)',
    re.DOTALL,
)
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


def study_table(name: str, title: str, only: str | None = None) -> str:
    """A table of a committed result, or those of its rows whose first cell is `only`, with what it says below it.

    Raise LookupError unless the result has one of that title, and such rows.
    """
    tables = {table["title"]: table for table in committed_result(name)["tables"]}
    if title not in tables:
        raise LookupError(f"docs/papers/{name}.json has no table {title!r}; it has {sorted(tables)}.")
    table = tables[title]
    rows = [[cell_text(committed_cell(cell)) for cell in row] for row in table["rows"] if only in (None, row[0])]
    if not rows:
        raise LookupError(f"docs/papers/{name}.json has no row {only!r} in its table {title!r}.")
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
    page = TABLE.sub(
        lambda found: f"{found[1]}\n{study_table(found['name'], found['title'], found['only'])}\n\n{found[6]}", page
    )
    page = ERRATA.sub(lambda found: f"{found[1]}\n{errata_table(found['name'])}\n\n{found[3]}", page)
    for part, table in (
        (GPU_PART, gpu_table),
        (GPU_IMAGES_PART, gpu_image_table),
        (NETWORK_IMAGES_PART, network_image_table),
    ):
        if f"<!-- {part}: " in page:
            page = with_part(page, part, table())
    return page


def gpu_table() -> str:
    """The steps that were last measured on a GPU; the first line of the file names the device."""
    _, *steps = map(json.loads, GPU_STEPS.read_text("utf-8").splitlines())
    rows = [
        [step["hidden"], f"{step['batch']:,}", *(f"{step[key]:.3g}" for key in ("ordinary_ms", "private_ms", "ratio"))]
        for step in steps
    ]
    return markdown_table(
        ["hidden layers", "batch", "ordinary step, ms", "private step, ms", "private ÷ ordinary"], rows
    )


def gpu_image_table() -> str:
    """Steps of a network with convolutions: ours, and then Opacus's on the same images; a line that names the device comes before each."""
    steps = [step for step in map(json.loads, GPU_IMAGES.read_text("utf-8").splitlines()) if "batch" in step]
    theirs = {(step["side"], step["batch"]): step for step in steps if "hooks_ms" in step}
    rows = []
    for step in (each for each in steps if "private_ms" in each):
        peer = theirs[step["side"], step["batch"]]
        shown = (step["ordinary_ms"], step["private_ms"], peer["hooks_ms"], peer["ghost_ms"])
        least = min(peer["hooks_ms"], peer["ghost_ms"]) / step["private_ms"]
        rows.append([f"{step['side']}×{step['side']}", f"{step['batch']:,}", *(f"{ms:.3g}" for ms in (*shown, least))])
    heads = [
        "images",
        "batch",
        "ordinary step, ms",
        "private step, ms",
        "Opacus, hooks, ms",
        "Opacus, ghost clipping, ms",
    ]
    return markdown_table([*heads, "its quicker one ÷ ours"], rows)


def network_image_table() -> str:
    """What small networks with convolutions learn of images, and how long Opacus's steps take beside ours."""
    found = json.loads(NETWORK_IMAGES.read_text("utf-8"))
    rows = [
        [
            f"{images} of 8×8",
            f"{each['epsilon']:g}",
            *(f"{each[way]:.3f}" for way in ("convolutions", "fully_connected")),
        ]
        for images, name in (("digits, 1,437", "digits"), ("generated bars, 4,800", "bars"))
        for each in found[name]
    ]
    heads = ["images", "ε, δ = 1e-5", "two convolutions and a layer of 32", "`PrivateMLPClassifier((32,))`"]
    times = {
        (side, peer): step["ratio"]
        for step in found["steps"]
        for side in ("8×8", "28×28")
        for peer in ("hooks", "ghost")
        if f" {side} " in step["name"] and peer in step["peer"]
    }
    return (
        f"{markdown_table(heads, rows)}\n\nAccuracy on the last fifth, replace-one, means of two seeds, public rule, nothing tuned. Convolutions need not help: with so few digits they lose. "
        f"A step on 256 images takes {times['8×8', 'hooks']} times the processor time with Opacus's hooks and {times['8×8', 'ghost']} times with its ghost clipping on 8×8; "
        f"{times['28×28', 'hooks']} and {times['28×28', 'ghost']} times on 28×28. "
        "Measured side by side, one thread each, on a busy machine with 512-bit vectors: `python -m benchmarks.network_images`."
    )


def main() -> None:
    """Write the tables of every page."""
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text("utf-8")
        if (written := filled(page)) != page:
            path.write_text(written, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

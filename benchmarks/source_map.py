"""How large the house is: modules, lines, imports between rooms and depth of inheritance, at an older commit and now.

    python -m benchmarks.source_map [--base COMMIT] [--commit COMMIT]

Everything is read from the sources of both, nothing is imported. Writes benchmarks/source_map.json, and from it the table between the marks of docs/source-map.md.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "source-map.md"
RESULTS: Final = ROOT / "benchmarks" / "source_map.json"
BEGIN, END = "<!-- source map -->", "<!-- end of source map -->"
DEFAULT_BASE: Final = "3621ff7"
# Rooms that hold what the papers print, before and after.
PAPERS: Final = ("papers", "studies")


@dataclass(frozen=True)
class SourceMap:
    """Counts over one state of src/sudare; rooms are its folders, modules beside them are the room "."."""

    modules: Counter[str]
    lines: Counter[str]
    product_code_lines: int
    crossings: int
    deepest: tuple[str, ...]

    @property
    def product_lines(self) -> int:
        """Lines outside of the papers' rooms."""
        return sum(count for room, count in self.lines.items() if room not in PAPERS)


def source_map(sources: Mapping[str, str]) -> SourceMap:
    """The map of sources: path below src → text."""
    modules: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    product_code_lines = 0
    crossings: set[tuple[str, str]] = set()
    parents: dict[str, list[str]] = {}
    rooms = set(map(room_of, sources)) - {"."}
    for path, text in sources.items():
        room = room_of(path)
        modules[room] += 1
        lines[room] += text.count("\n")
        tree = ast.parse(text)
        product_code_lines += 0 if room in PAPERS else code_lines(text, tree)
        for name in imported(tree):
            if name.split(".")[1] in rooms - {room}:
                crossings.add((path, name))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                parents[node.name] = [base.id for base in map(unsubscripted, node.bases) if isinstance(base, ast.Name)]
    deepest = max((longest_chain(name, parents) for name in parents), key=len, default=())
    return SourceMap(modules, lines, product_code_lines, len(crossings), deepest)


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(1 for number, line in lines if line and not line.startswith("#") and number not in documented)


def room_of(path: str) -> str:
    """The folder below sudare/ that a module is in; "." for modules beside the rooms."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "."


def imported(tree: ast.Module) -> Iterator[str]:
    """Modules of the package that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sudare."):
            yield f"{node.module}.{node.names[0].name}"


def unsubscripted(base: ast.expr) -> ast.expr:
    """A base class without its type parameters."""
    return base.value if isinstance(base, ast.Subscript) else base


def longest_chain(name: str, parents: Mapping[str, list[str]]) -> tuple[str, ...]:
    """The longest chain of classes of the package from this one upwards."""
    above = (longest_chain(parent, parents) for parent in parents[name] if parent in parents and parent != name)
    return (name, *max(above, key=len, default=()))


def committed_sources(commit: str) -> dict[str, str]:
    """src/sudare of a commit: path below src → text."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        files = {member.name: packed.extractfile(member) for member in packed if member.name.endswith(".py")}
        return {name.removeprefix("src/"): file.read().decode() for name, file in files.items() if file is not None}


def maps_read(found: Mapping[str, Any]) -> tuple[SourceMap, SourceMap]:
    """Both maps of a committed result."""
    before, after = (
        SourceMap(**{**found[when], "modules": Counter(found[when]["modules"]), "lines": Counter(found[when]["lines"])})
        for when in ("before", "after")
    )
    return before, after


def table(before: SourceMap, after: SourceMap) -> str:
    """Markdown: a row for each room, then sums."""
    rows = ["| room | modules before | lines before | modules | lines |", "| --- | ---: | ---: | ---: | ---: |"]
    for room in sorted(before.modules | after.modules):
        counts = (before.modules[room], before.lines[room], after.modules[room], after.lines[room])
        rows.append(f"| `{room}` | " + " | ".join(f"{count:,}" if count else "" for count in counts) + " |")
    for title, get in (
        ("**product** (without papers)", lambda each: ("", f"{each.product_lines:,}")),
        ("of these without docstrings, comments and blanks", lambda each: ("", f"{each.product_code_lines:,}")),
        ("**all**", lambda each: (f"{sum(each.modules.values()):,}", f"{sum(each.lines.values()):,}")),
        ("imports from another room", lambda each: (f"{each.crossings:,}", "")),
        ("classes above the deepest one", lambda each: (str(len(each.deepest) - 1), "")),
    ):
        rows.append(f"| {title} | " + " | ".join((*get(before), *get(after))) + " |")
    return "\n".join(rows)


def main() -> None:
    """Print the table and write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=DEFAULT_BASE, help="the commit to compare with")
    parser.add_argument("--commit", default="HEAD", help="the commit to look at")
    arguments = parser.parse_args()
    before, after = (source_map(committed_sources(commit)) for commit in (arguments.base, arguments.commit))
    found = {"before": vars(before), "after": vars(after), "commits": [arguments.base, arguments.commit]}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    text = table(before, after)
    print(text, f"\ndeepest before: {' → '.join(before.deepest)}\ndeepest now: {' → '.join(after.deepest)}")
    page = PAGE.read_text("utf-8")
    opening, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{opening}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()

"""The table of docs/audits.md: what the attacks of tests/adversary want, and how many tests there are of each.

python -m benchmarks.attack_tests
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from benchmarks.page_parts import write_part
from benchmarks.peers import ROOT
from benchmarks.study_pages import DOCS, markdown_table

ATTACKS: Final = ROOT / "tests" / "adversary"
PAGE: Final = DOCS / "audits.md"
PART: Final = "attacks"


def attack_row(path: Path) -> list[str]:
    """The file, what its attacks are about (the first line of its docstring), and its number of test functions."""
    tree = ast.parse(path.read_text("utf-8"))
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return [f"`{path.relative_to(ROOT)}`", (ast.get_docstring(tree) or "").partition("\n")[0], str(len(tests))]


def table() -> str:
    """One row for each file."""
    return markdown_table(
        ["file", "what is attacked", "tests"], [attack_row(path) for path in sorted(ATTACKS.glob("test_*.py"))]
    )


def main() -> None:
    """Write the table."""
    write_part(PAGE, PART, table())


if __name__ == "__main__":
    main()

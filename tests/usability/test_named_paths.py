"""Files and Python names that the documentation names are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# The changelog tells old names, and the page on mutation those of the commit that was mutated.
PAGES = [
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("proofs/*.md"))
    if page.name not in ("CHANGELOG.md", "mutation.md")
]
FILES = {path.name for folder in ("src", "tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")}
# Files of Flower, whose protocol is described beside ours, and the checker of the registry of deployments.
FOREIGN = re.compile(r"secagg|secure_aggregation/|crypto/symmetric_encryption\.py|^(scripts/)?check\.py$")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    named = {path for path in re.findall(r"`([\w/]+\.py)(?:::\w+)?`", text) if not FOREIGN.search(path)}
    missing = {path for path in named if not is_there(path)}
    missing |= {path for path in re.findall(r"\btests/[\w/]+", text) if not (is_there(path) or is_there(f"{path}.py"))}
    assert missing - {"tests/expected_skips"} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_names_that_a_page_tells_exist(page: Path) -> None:
    named = set(re.findall(r"\bsudare(?:\.\w+)+", page.read_text("utf-8")))
    assert {name for name in named if not is_importable(name)} == set()


def is_there(path: str) -> bool:
    """Whether there is such a path, from the root or from the package, or a file of that name."""
    return (ROOT / path).exists() or (ROOT / "src" / "sudare" / path).exists() or ("/" not in path and path in FILES)


def is_importable(name: str) -> bool:
    """Whether this is a module, or a name within one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False

"""Parts of pages that commands write: between `<!-- NAME: written by COMMAND -->` and `<!-- end of NAME -->`."""

from __future__ import annotations

import re
from pathlib import Path


def with_part(page: str, name: str, part: str) -> str:
    """The page with the part of that name replaced. Raise LookupError unless it has one."""
    marks = re.compile(rf"(<!-- {re.escape(name)}: .*? -->\n).*?(<!-- end of {re.escape(name)} -->)", re.DOTALL)
    written, count = marks.subn(lambda found: f"{found[1]}\n{part}\n\n{found[2]}", page)
    if count != 1:
        raise LookupError(f"The page has {count} parts {name!r}.")
    return written


def write_part(path: Path, name: str, part: str) -> None:
    """Replace a part of a page on disk."""
    path.write_text(with_part(path.read_text("utf-8"), name, part), "utf-8")

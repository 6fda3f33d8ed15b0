"""What a scenario gives to the demo: lines for the terminal and parts for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sudare.report import Part

Tell = Callable[[str], None]
# An empty folder to work in, and a way to tell progress.
Play = Callable[[Path, Tell], "Scene"]


class ResultLine(NamedTuple):
    """One ✓ line: who, and what came out."""

    who: str
    what: str


@dataclass(frozen=True)
class Scene:
    """A played scenario."""

    lines: Sequence[ResultLine]
    parts: Sequence[Part]
    notes: Sequence[str]

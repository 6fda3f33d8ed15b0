"""What a scenario gives to the demo: lines for the terminal and parts for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sudare.privacy import Release
from sudare.report import Part
from sudare.report.card import Card, card_of

Tell = Callable[[str], None]
# An empty folder to work in, and a way to tell progress.
Play = Callable[[Path, Tell], "Scene"]


class Line(NamedTuple):
    """One ✓ line: who, and what came out."""

    who: str
    what: str


@dataclass(frozen=True)
class Scene:
    """A played scenario."""

    lines: Sequence[Line]
    parts: Sequence[Part]
    notes: Sequence[str]


def trusted_card(release: Release) -> Card:
    """The card of a release whose signature was checked."""
    sizes = {name: int(tensor.size) for name, tensor in release.content.tensors.items()}
    return card_of(release.manifest(), sizes, signature="trusted", signed_by=release.signed_by, digest=release.digest)

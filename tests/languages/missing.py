"""`python -m tests.languages.missing [ROOM…]`: texts that have no Japanese yet, as the skeleton of a catalogue for each room; and entries that nothing says any more."""

from __future__ import annotations

import json
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.languages.source_texts import SOURCE, SourceText, source_texts

CATALOGUES: Final = SOURCE / "languages" / "ja"


def catalogue_of(file: Path) -> dict[str, str]:
    """The entries of one catalogue."""
    entries: dict[str, str] = tomllib.loads(file.read_text("utf-8"))
    return entries


def catalogues() -> dict[str, dict[str, str]]:
    """The entries of all catalogues, by the room that a catalogue is named after."""
    return {file.stem: catalogue_of(file) for file in sorted(CATALOGUES.glob("*.toml"))}


def missing_texts() -> dict[str, list[SourceText]]:
    """By room, each text that no catalogue has, where it is first said."""
    known = {text for entries in catalogues().values() for text in entries}
    found: dict[str, list[SourceText]] = defaultdict(list)
    for text in source_texts():
        if text.template not in known:
            known.add(text.template)
            found[text.room].append(text)
    return found


def stale_entries() -> dict[str, list[str]]:
    """By catalogue, entries that nothing in the source says."""
    said = {text.template for text in source_texts()}
    unsaid = {room: [text for text in entries if text not in said] for room, entries in catalogues().items()}
    return {room: texts for room, texts in unsaid.items() if texts}


def main(rooms: list[str]) -> None:
    """Print the skeletons."""
    for room, texts in missing_texts().items():
        if not rooms or room in rooms:
            print(f"# languages/ja/{room}.toml: {len(texts)} missing")
            for text in texts:
                print(f"# {text.file}:{text.line}")
                print(f'{json.dumps(text.template, ensure_ascii=False)} = ""')
    for room, entries in stale_entries().items():
        if not rooms or room in rooms:
            print(f"# languages/ja/{room}.toml: nothing says these any more")
            for entry in entries:
                print(f"# {json.dumps(entry, ensure_ascii=False)}")


if __name__ == "__main__":
    main(sys.argv[1:])

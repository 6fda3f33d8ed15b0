"""The format of a member's state folder: one of an earlier version of sudare is brought to the present one, one of a later is refused untouched."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.document_fields import parsed_json, whole
from sudare.errors import ConsortiumError
from sudare.files import read_text, write_atomically

FORMAT: Final = 3
FORMAT_FILE: Final = "format.json"
_FIRST: Final = 1


def _to_second(folder: Path) -> None:
    """Format 2 has `agreement.json`, which the node writes when it starts: nothing that format 1 has is read otherwise."""


def _to_third(folder: Path) -> None:
    """Checkpoints of format 3 have an envelope with a digest: those of format 2 are read as they are, and have one once they are written anew."""


MIGRATIONS: Final[Mapping[int, Callable[[Path], None]]] = {1: _to_second, 2: _to_third}


def migrate_state(folder: Path, migrations: Mapping[int, Callable[[Path], None]] = MIGRATIONS) -> int:
    """The format that the folder had, which is now the present one: steps are done one by one, each before its number is written.

    Raise ConsortiumError, and touch nothing, where a later version of sudare has written it.
    """
    path = folder / FORMAT_FILE
    # Folders from before there were formats have no number.
    found = _FIRST if not path.exists() else _number_in(path)
    present = max(migrations, default=0) + 1
    if found > present:
        raise ConsortiumError(
            f"The state folder has format {found}; this version of sudare knows formats up to {present}.",
            "Upgrade sudare. Nothing was touched.",
        )
    for number in range(found, present):
        migrations[number](folder)
        write_atomically(path, json.dumps({"format": number + 1}).encode())
    return found


def _number_in(path: Path) -> int:
    document = parsed_json(read_text(path, "The format of the state folder"), "The format of the state folder")
    return int(document.built(dict[str, int], {"format": whole(1)})["format"])

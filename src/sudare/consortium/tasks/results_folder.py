"""The folder of a task's results, marked with the version of the agreement that they are of: those of an earlier version are kept, and never taken for later ones."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sudare.errors import SudareError
from sudare.files import read_text, set_aside, write_atomically

# Where what was in the place of a result before is kept.
EARLIER: Final = "earlier"
# Of the agreement that the files in the folder came of, its digest.
_MARK: Final = "agreement.sha256"
# A member's own release is put in its place before the others' are there; whoever makes it looks whose it is.
_OWN: Final = "own.sudare"
# What is written only once a task is finished here; a release of each member may come before.
_LAST: Final = ("model.sudare", "scaler.sudare", "dictionary.json", "combination.json", "census.json")


def agreement_of(folder: Path) -> str | None:
    """The digest of the agreement under which the results in a folder were written; None where that is not told, as by earlier versions of sudare."""
    path = folder / _MARK
    try:
        return read_text(path, "The mark of the results").strip() if path.exists() else None
    except SudareError:
        return None


def is_finished(folder: Path, agreement: str) -> bool:
    """Whether a folder shows that the task of the agreement with this digest was finished here. Where it does not, the task may have been all the same."""
    return agreement_of(folder) == agreement and any((folder / name).is_file() for name in _LAST)


def make_room(folder: Path, agreement: str) -> None:
    """Make a folder ready for the results of a task of the agreement with this digest: those of another one are moved to a folder inside it."""
    if agreement_of(folder) == agreement:
        return
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name not in (_OWN, _MARK):
            set_aside(path, EARLIER)
    write_atomically(folder / _MARK, f"{agreement}\n".encode())

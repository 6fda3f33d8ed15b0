"""Messages that name something of Python: it can be imported from where the message says, or from the room that says it."""

from __future__ import annotations

import importlib
import pathlib
import re
from typing import Final

from tests.languages.source_texts import source_texts

# `sudare.frames.CsvFile(…)` with its module, and `Ledger(…)` without one.
_WITH_MODULE: Final = re.compile(r"\bsudare(?:\.[A-Za-z_]\w*)+")
_ALONE: Final = re.compile(r"(?<![\w.…\"'])[A-Z][a-z]+(?:[A-Z][a-z]+)*(?=\()")


def found(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Names in messages, with the files that say them."""
    return sorted({(name, text.file) for text in source_texts() for name in pattern.findall(text.template)})


def is_there(dotted: str) -> bool:
    """Whether a module, or a public name of one, is called so."""
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return name in importlib.import_module(module).__all__
    return True


def is_near(name: str, file: str) -> bool:
    """Whether a name without a module is public in the room of the file that says it, or above it."""
    rooms = ("sudare", f"sudare.{file.partition('/')[0]}")
    return hasattr(pathlib, name) or any(is_there(f"{room}.{name}") for room in rooms)


def test_names_with_their_module_can_be_imported() -> None:
    assert [each for each in found(_WITH_MODULE) if not is_there(each[0])] == []


def test_names_without_a_module_are_public_in_their_room_or_above_it() -> None:
    assert [each for each in found(_ALONE) if not is_near(*each)] == []


def test_there_are_such_names() -> None:
    assert ("sudare.frames.CsvFile", "frames/csv_dialects.py") in found(_WITH_MODULE)
    assert ("Ledger", "privacy/private_estimator.py") in found(_ALONE)
    assert not is_there("sudare.frames.NoSuchName")
    assert not is_near("NoSuchName", "frames/csv_dialects.py")

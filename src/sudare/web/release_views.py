"""A release as pages show it: its card, its numbers with intervals, and a picture of them. All of it follows from the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sudare.errors import InvalidParameter, ReleaseUntrusted, SudareError
from sudare.privacy import Release
from sudare.privacy.release import audited, read
from sudare.privacy.release_file import Parsed, parsed, verify_signature
from sudare.report.numbers import nearest
from sudare.report.privacy_card import Signature, Strength, card_rows, card_strength
from sudare.safe_text import escaped_for_terminal
from sudare.web.pictures import IntervalPicture, interval_picture

_READING: Final = threading.Lock()

SUFFIX: Final = ".sudare"
MOST_FILES: Final = 500
MOST_ROWS: Final = 200
MOST_DRAWN: Final = 24
# Building a table of more numbers than this would keep a reader waiting.
MOST_NUMBERS: Final = 200_000
ALL_OTHERS: Final = "(all others)"


@dataclass(frozen=True)
class NumberTable:
    """Released numbers under headings; intervals stand in the cell of their number."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    rows_in_all: int


@dataclass(frozen=True)
class ReleaseView:
    """What there is to see of one release."""

    learner: str
    account: str
    entry: int
    ledger: str
    fingerprint: str
    is_trusted: bool
    epsilon: float
    delta: float
    strength: Strength
    rows: Sequence[tuple[str, str]]
    table: NumberTable | None
    picture: IntervalPicture | None


@dataclass(frozen=True)
class ListedFile:
    """A file of the folder: what is in it, or why it cannot be read."""

    name: str
    path: Path
    modified: float
    size: int
    view: ReleaseView | None
    problem: SudareError | None


def trusted_keys(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """The public keys in PEM files, as raw bytes. Raise InvalidParameter where a file is none."""
    found = []
    for path in paths:
        try:
            key = load_pem_public_key(path.read_bytes())
        except (OSError, ValueError):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidParameter(
                f"'{path.name}' is not an Ed25519 public key in PEM form.", "Correct trusted_keys in the settings."
            )
        found.append(key.public_bytes_raw())
    return tuple(found)


def listed_files(folder: Path, trusted: tuple[bytes, ...]) -> list[ListedFile]:
    """The releases in a folder, the newest first."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries if _is_release(entry)]
    except OSError as error:
        raise InvalidParameter(
            f"The folder of releases cannot be read ({error.strerror}).", "Correct `releases` in the settings."
        ) from None
    newest = sorted(found, key=lambda each: (-each[1].st_mtime_ns, each[0]))[:MOST_FILES]
    # One reads what is new, and the others wait for it, rather than all reading the same files.
    with _READING:
        return [
            _listed(folder / name, status.st_mtime_ns, status.st_size, status.st_ino, trusted)
            for name, status in newest
        ]


def file_named(folder: Path, name: str, trusted: tuple[bytes, ...]) -> ListedFile | None:
    """The release of that name in the folder; None where it has none. Names are compared with what is there, never joined."""
    return next((each for each in listed_files(folder, trusted) if each.name == name), None)


def _is_release(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(SUFFIX) and entry.is_file()


@lru_cache(maxsize=2 * MOST_FILES)
def _listed(path: Path, modified: int, size: int, inode: int, trusted: tuple[bytes, ...]) -> ListedFile:
    """What is in a file, kept while it stays as it is."""
    try:
        view, problem = view_of(read(path), trusted), None
    except SudareError as error:
        view, problem = None, error
    return ListedFile(path.name, path, modified / 1e9, size, view, problem)


def received_view(content: bytes, trusted: tuple[bytes, ...]) -> tuple[ReleaseView, Release]:
    """What there is to see of a file that somebody sent. Raise SudareError where it is damaged, or its signature is wrong."""
    file = parsed(content)
    return view_of(file, trusted), audited(file)


def view_of(file: Parsed, trusted: tuple[bytes, ...]) -> ReleaseView:
    """What there is to see of a parsed file whose own key has signed it. Raise ReleaseUntrusted where it has not."""
    verify_signature(file, [Ed25519PublicKey.from_public_bytes(file.public_key)])
    is_trusted = _is_trusted(file, trusted)
    release = audited(file)
    signature: Signature = "trusted" if is_trusted else "unchecked"
    card = release.card(signature)
    found = _numbers(release)
    return ReleaseView(
        learner=release.learner,
        account=release.receipt.account,
        entry=release.receipt.position,
        ledger=release.receipt.ledger,
        fingerprint=release.signed_by or "",
        is_trusted=is_trusted,
        epsilon=release.guarantee.epsilon,
        delta=release.guarantee.delta,
        strength=card_strength(card),
        rows=[row for row in card_rows(card) if row[0] != "signature"],
        table=None if found is None else number_table(found),
        picture=None if found is None else _picture(found),
    )


def _is_trusted(file: Parsed, trusted: tuple[bytes, ...]) -> bool:
    try:
        verify_signature(file, [Ed25519PublicKey.from_public_bytes(key) for key in trusted])
    except ReleaseUntrusted:
        return False
    return True


def _numbers(release: Release) -> dict[str, list[Any]] | None:
    """The table of a released statistic; None for what has none, or a very large one."""
    if sum(tensor.size for tensor in release.content.tensors.values()) > MOST_NUMBERS:
        return None
    try:
        model = release.model()
        table: dict[str, list[Any]] | None = model.table() if hasattr(model, "table") else None
    except SudareError:
        return None
    return table


def number_table(found: Mapping[str, list[Any]]) -> NumberTable:
    """Columns as rows of text, at most so many."""
    ends = _ends(found)
    columns: dict[str, list[str]] = {}
    for name, values in found.items():
        if name in ends:
            continue
        shown = [_cell(value) for value in values[:MOST_ROWS]]
        if f"{name}_low" in ends:
            low, high = ([_cell(value) for value in found[f"{name}_{end}"][:MOST_ROWS]] for end in ("low", "high"))
            shown = [f"{each} ({a} – {b})" for each, a, b in zip(shown, low, high, strict=True)]
        columns[name] = shown
    rows_in_all = max((len(values) for values in found.values()), default=0)
    headings = [escaped_for_terminal(name) for name in columns]
    return NumberTable(headings, list(zip(*columns.values(), strict=True)), rows_in_all)


def _picture(found: Mapping[str, list[Any]]) -> IntervalPicture | None:
    """The first number that has intervals, row by row; None where there is none, or there are too many rows."""
    ends = _ends(found)
    name = next((name for name in found if f"{name}_low" in ends), None)
    if name is None or not 0 < len(found[name]) <= MOST_DRAWN:
        return None
    values, lows, highs = (found[each] for each in (name, f"{name}_low", f"{name}_high"))
    if not all(isinstance(value, int | float) for value in (*values, *lows, *highs)):
        return None
    labels = [column for column in found if column not in ends and f"{column}_low" not in ends]
    named = [
        ", ".join(_cell(found[label][row]) for label in labels) if labels else str(row + 1)
        for row in range(len(values))
    ]
    return interval_picture(named, values, lows, highs)


def _ends(found: Mapping[str, list[Any]]) -> set[str]:
    return {f"{name}_{end}" for name in found for end in ("low", "high") if f"{name}_low" in found} & set(found)


def _cell(value: object) -> str:
    if value is None:
        return ALL_OTHERS
    return nearest(value, 5) if isinstance(value, float) else escaped_for_terminal(str(value))

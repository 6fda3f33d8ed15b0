"""A release as pages show it: its card, its numbers with intervals, and a picture of them. All of it follows from the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sudare.dossier.number_table import NumberTable, measured_rows, number_table
from sudare.dossier.released_numbers import ReleasedNumbers, numbers_or_none
from sudare.errors import InvalidParameter, ReleaseUntrusted, SudareError
from sudare.privacy import Release
from sudare.privacy.release import audited, read
from sudare.privacy.release_file import Parsed, parsed, verify_signature
from sudare.report.privacy_card import Signature, Strength, card_rows, card_strength
from sudare.web.pictures import IntervalPicture, interval_picture

_READING: Final = threading.Lock()

SUFFIX: Final = ".sudare"
MOST_FILES: Final = 500
MOST_ROWS: Final = 200
MOST_DRAWN: Final = 24
# Building a table of more numbers than this would keep a reader waiting.
MOST_NUMBERS: Final = 200_000


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
    notes: Sequence[str]


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
        table=None if found is None else number_table(found, MOST_ROWS),
        picture=None if found is None else _picture(found),
        notes=() if found is None else found.notes,
    )


def _is_trusted(file: Parsed, trusted: tuple[bytes, ...]) -> bool:
    try:
        verify_signature(file, [Ed25519PublicKey.from_public_bytes(key) for key in trusted])
    except ReleaseUntrusted:
        return False
    return True


def _numbers(release: Release) -> ReleasedNumbers | None:
    """The numbers of a release; None where they are very many, or cannot be made here."""
    if sum(tensor.size for tensor in release.content.tensors.values()) > MOST_NUMBERS:
        return None
    return numbers_or_none(release)


def _picture(numbers: ReleasedNumbers) -> IntervalPicture | None:
    """The first number that has intervals, row by row; None where there is none, or there are too many rows."""
    rows = measured_rows(numbers)
    if rows is None or not rows.has_intervals or not 0 < len(rows.values) <= MOST_DRAWN:
        return None
    return interval_picture(rows.labels, rows.values, rows.lows, rows.highs)

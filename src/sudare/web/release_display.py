"""A release as pages show it: its card, its numbers with intervals, and a picture of them. All of it follows from the file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sudare.dossier.number_table import NumberTable, measured_rows, number_table
from sudare.dossier.released_numbers import ReleasedNumbers, numbers_or_none
from sudare.errors import InvalidParameter, ReleaseMalformed, ReleaseUntrusted, SudareError
from sudare.files import is_in_utf8
from sudare.languages import Language
from sudare.privacy import Release
from sudare.privacy.release import audited, read
from sudare.privacy.release_file import Parsed, parsed, verify_signature
from sudare.report.privacy_card import Card, Signature, Strength, card_rows, card_strength
from sudare.requests.request_kinds import title_of
from sudare.requests.steward_settings import signing_key_in
from sudare.web.settings import PageSettings
from sudare.web.svg_coordinates import IntervalPicture, interval_picture

_READING: Final = threading.Lock()

SUFFIX: Final = ".sudare"
MOST_FILES: Final = 500
MOST_ROWS: Final = 200
MOST_DRAWN: Final = 24
MOST_PICTURES: Final = 12
# Building a table of more numbers than this would keep a reader waiting.
MOST_NUMBERS: Final = 200_000


@dataclass(frozen=True)
class ReleaseView:
    """What there is to see of one release."""

    # What kind of release it is, in a few words of ours.
    title: str
    account: str
    entry: int
    ledger: str
    fingerprint: str
    is_trusted: bool
    # Signed by the key that this page itself signs with.
    is_own: bool
    epsilon: float
    delta: float
    strength: Strength
    card: Card
    numbers: ReleasedNumbers | None
    # The SHA-256 of the rows that left beside it, where they did.
    rows_digest: str | None

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said beside the numbers."""
        return () if self.numbers is None else self.numbers.notes

    def card_rows(self, language: Language) -> list[tuple[str, str]]:
        """The card, without the line about a signature: the page says itself which keys it trusts."""
        return card_rows(replace(self.card, signature=None), language)

    def table(self, language: Language) -> NumberTable | None:
        """The first rows of numbers; None where they are very many, or cannot be made here."""
        return None if self.numbers is None else number_table(self.numbers, language, MOST_ROWS)

    def pictures(self, language: Language) -> list[IntervalPicture]:
        """Every number that has intervals; none where there are too many rows."""
        drawn = [] if self.numbers is None else measured_rows(self.numbers, language, MOST_DRAWN)
        return [
            interval_picture(rows)
            for rows in drawn[:MOST_PICTURES]
            if rows.has_intervals and 0 < len(rows.values) <= MOST_DRAWN
        ]


@dataclass(frozen=True)
class ListedFile:
    """A file of the folder: what is in it, or why it cannot be read."""

    name: str
    path: Path
    modified: float
    size: int
    view: ReleaseView | None
    problem: SudareError | None

    @property
    def has_page(self) -> bool:
        """Whether an address can name it: only a name in UTF-8 stands in one."""
        return is_in_utf8(self.name)


@dataclass(frozen=True)
class TrustedKeys:
    """Public keys as raw bytes: those of `senders`, and the page's `own`, None where it signs nothing."""

    senders: tuple[bytes, ...] = ()
    own: bytes | None = None


def trusted_keys(settings: PageSettings) -> TrustedKeys:
    """The keys that a page trusts. Raise InvalidParameter where a file that the settings name is no public key."""
    found = []
    for path in settings.trusted_keys:
        try:
            key = load_pem_public_key(path.read_bytes())
        except (OSError, ValueError):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidParameter(
                f"'{path.name}' is not an Ed25519 public key in PEM form.", "Correct trusted_keys in the settings."
            )
        found.append(key.public_bytes_raw())
    return TrustedKeys(tuple(found), _own_key(settings))


def _own_key(settings: PageSettings) -> bytes | None:
    """The public half of the key that the page signs with; None where there is none, or it does not open, which the start of the page tells."""
    path = settings.signing_key
    try:
        return None if path is None else _public_half(path, settings.passphrase_file, path.stat().st_mtime_ns)
    except (OSError, SudareError):
        return None


@lru_cache(maxsize=8)
def _public_half(path: Path, passphrase_file: Path | None, modified: int) -> bytes:
    """Kept while the file stays as it is: a key under a passphrase takes time to open."""
    return signing_key_in(path, passphrase_file).public_key().public_bytes_raw()


def listed_files(folder: Path, trusted: TrustedKeys) -> list[ListedFile]:
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


def file_named(folder: Path, name: str, trusted: TrustedKeys) -> ListedFile | None:
    """The release of that name in the folder; None where it has none. Names are compared with what is there, never joined."""
    return next((each for each in listed_files(folder, trusted) if each.name == name), None)


def rows_beside(file: ListedFile) -> Path | None:
    """The rows that left beside a release: the file that the release names by its SHA-256, whatever else lies there under that name; None without one."""
    from sudare.perturbation.perturbed_table import ROWS_SUFFIX

    digest, path = None if file.view is None else file.view.rows_digest, file.path.with_suffix(ROWS_SUFFIX)
    if digest is None or not path.is_file():
        return None
    status = path.stat()
    return path if _digest(path, status.st_mtime_ns, status.st_size, status.st_ino) == digest else None


@lru_cache(maxsize=MOST_FILES)
def _digest(path: Path, modified: int, size: int, inode: int) -> str:
    """The SHA-256 of a file, kept while it stays as it is."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_release(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(SUFFIX) and entry.is_file()


@lru_cache(maxsize=2 * MOST_FILES)
def _listed(path: Path, modified: int, size: int, inode: int, trusted: TrustedKeys) -> ListedFile:
    """What is in a file, kept while it stays as it is."""
    view: ReleaseView | None = None
    problem: SudareError | None = None
    try:
        if not is_in_utf8(path.name):
            raise ReleaseMalformed("The name of this file is not written in UTF-8.", "Rename it.")
        with _told_as_unshowable():
            view = view_of(read(path), trusted)
    except SudareError as error:
        problem = error
    return ListedFile(path.name, path, modified / 1e9, size, view, problem)


@contextlib.contextmanager
def _told_as_unshowable() -> Iterator[None]:
    """What nobody planned for in a file of whoever sent it is told of that file: it must not keep others from being shown."""
    try:
        yield
    except SudareError:
        raise
    except Exception:  # noqa: BLE001 - the text may hold what is in the file
        raise ReleaseMalformed("This release cannot be shown here.", ReleaseMalformed.help) from None


def received_view(content: bytes, trusted: TrustedKeys) -> tuple[ReleaseView, Release]:
    """What there is to see of a file that somebody sent. Raise SudareError where it is damaged, or its signature is wrong."""
    file = parsed(content)
    with _told_as_unshowable():
        return view_of(file, trusted), audited(file)


def view_of(file: Parsed, trusted: TrustedKeys) -> ReleaseView:
    """What there is to see of a parsed file whose own key has signed it. Raise ReleaseUntrusted where it has not."""
    verify_signature(file, [Ed25519PublicKey.from_public_bytes(file.public_key)])
    is_own = trusted.own is not None and _is_signed_by(file, (trusted.own,))
    is_trusted = is_own or _is_signed_by(file, trusted.senders)
    release = audited(file)
    signature: Signature = "trusted" if is_trusted else "unchecked"
    card = release.card(signature)
    return ReleaseView(
        title=title_of(release.learner),
        account=release.receipt.account,
        entry=release.receipt.position,
        ledger=release.receipt.ledger,
        fingerprint=release.signed_by or "",
        is_trusted=is_trusted,
        is_own=is_own,
        epsilon=release.guarantee.epsilon,
        delta=release.guarantee.delta,
        strength=card_strength(card),
        card=card,
        numbers=_numbers(release),
        rows_digest=release.beside_digest,
    )


def _is_signed_by(file: Parsed, keys: tuple[bytes, ...]) -> bool:
    try:
        verify_signature(file, [Ed25519PublicKey.from_public_bytes(key) for key in keys])
    except ReleaseUntrusted:
        return False
    return True


def _numbers(release: Release) -> ReleasedNumbers | None:
    """The numbers of a release; None where they are very many, or cannot be made here."""
    if sum(tensor.size for tensor in release.content.tensors.values()) > MOST_NUMBERS:
        return None
    return numbers_or_none(release)

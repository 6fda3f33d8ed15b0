"""How the consortium's files are read and written: bounded, whole or not at all, and private ones seen by their owner only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sudare.errors import AgreementError, ConsortiumError, IdentityError

LARGEST_DOCUMENT_BYTES: Final = 2**22
PRIVATE_MODE: Final = 0o600
SHARED_MODE: Final = 0o644
# Whoever is neither owner nor in the group, and a group that may write. A group that may read is how secrets are mounted.
_TOO_OPEN: Final = stat.S_IRWXO | stat.S_IWGRP


def read_text(path: Path, what: str) -> str:
    """The UTF-8 text of a small file; `what` names it in errors, which never quote it."""
    content = _read(path, what)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise AgreementError(f"{what} '{path.name}' is not UTF-8 text.", "Give the TOML file.") from None


def read_private(path: Path, what: str) -> bytes:
    """The bytes of a small file that nobody else may read: a key or a passphrase."""
    with _opened(path, what, IdentityError) as handle:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & _TOO_OPEN:
            raise IdentityError(
                f"{what} '{path.name}' is open to others (mode {mode:03o}).", f"Run: chmod 600 {path.name}"
            )
        return _bounded(handle, path, what)


def is_open_to_others(path: Path) -> bool:
    """Whether somebody outside the owner's group may read the file, or the group may write it."""
    return bool(path.stat().st_mode & _TOO_OPEN)


def write_new(path: Path, content: bytes, mode: int = PRIVATE_MODE) -> None:
    """A file that was not there, durable and complete, or none; `FileExistsError` if there is one."""
    temporary = _written_beside(path, content, mode)
    try:
        # Unlike a renaming, a link never replaces a file that appeared meanwhile.
        os.link(temporary, path)
    finally:
        os.unlink(temporary)
    _make_name_durable(path)


def write_atomically(path: Path, content: bytes, mode: int = PRIVATE_MODE) -> None:
    """The file replaced: whoever reads meanwhile, or after a crash, sees the old one or the new one."""
    temporary = _written_beside(path, content, mode)
    try:
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    _make_name_durable(path)


def write_document(path: Path, content: bytes) -> None:
    """A shared document replaced: agreements and statements."""
    try:
        write_atomically(path, content, SHARED_MODE)
    except OSError as error:
        raise _unwritable(path, error) from None


def make_private_folder(path: Path) -> None:
    """The folder, for its owner only if it was not there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConsortiumError(
            f"The folder '{path}' cannot be written ({error.strerror}).", "Check the path, its rights and the space."
        ) from None


def new_private_folder(parent: Path | None, prefix: str) -> Path:
    """A new folder for its owner only, with a name that cannot be guessed; in the machine's temporary folder if `parent` is None."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def remove_folder(folder: Path) -> None:
    """Remove a folder and what is in it, as far as that can be done; a link in its place is removed, and not followed."""
    if folder.is_symlink():
        folder.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def changed_by_one(path: Path) -> Iterator[None]:
    """Wait until nobody else changes the file: reading, changing and writing it back then loses nobody's change."""
    try:
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, SHARED_MODE)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def held_alone(path: Path) -> Iterator[bool]:
    """Whether this process is the only one that holds the file's lock; let go of at the end, also by a crash."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> AgreementError:
    return AgreementError(
        f"'{path}' cannot be written ({error.strerror}).", "Use a folder that is there and that you may write to."
    )


def _read(path: Path, what: str) -> bytes:
    with _opened(path, what) as handle:
        return _bounded(handle, path, what)


@contextlib.contextmanager
def _opened(path: Path, what: str, refusal: type[ConsortiumError] = AgreementError) -> Iterator[int]:
    try:
        # A pipe that nobody writes to would otherwise be waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise refusal(f"{what} '{path}' cannot be read ({reason}).", "Check the path.") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise refusal(f"{what} '{path}' is not a file.", "Check the path.")
        yield handle
    finally:
        os.close(handle)


def _bounded(handle: int, path: Path, what: str) -> bytes:
    content = os.read(handle, LARGEST_DOCUMENT_BYTES + 1)
    if len(content) > LARGEST_DOCUMENT_BYTES:
        raise AgreementError(
            f"{what} '{path.name}' is larger than {LARGEST_DOCUMENT_BYTES >> 20} MiB.", "Give the right file."
        )
    return content


def _written_beside(path: Path, content: bytes, mode: int) -> str:
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _make_name_durable(path: Path) -> None:
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_keeping_old(path: Path, new: Path, kept: Path) -> None:
    """The new file under the old one's name, and the old one kept under a name that was not there."""
    if not kept.exists():
        os.link(path, kept)
    os.replace(new, path)
    _make_name_durable(path)

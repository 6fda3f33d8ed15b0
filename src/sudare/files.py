"""How files are read and written: bounded, whole or not at all, and private ones seen by their owner only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sudare.errors import AgreementError, ConsortiumError, IdentityError, SudareError

LARGEST_DOCUMENT_BYTES: Final = 2**22
PRIVATE_MODE: Final = 0o600
SHARED_MODE: Final = 0o644
# Whoever is not the owner.
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ROOT: Final = 0


def is_in_utf8(path: str) -> bool:
    """Whether a path was written in UTF-8: other bytes in it are halves of characters here, which no text that is kept or shown can have."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_text(path: Path, what: str, refusal: type[SudareError] = AgreementError) -> str:
    """The UTF-8 text of a small file; `what` names it in errors, which never quote it and are of the class `refusal`."""
    with _opened(path, what, refusal) as handle:
        content = _bounded(handle, path, what, refusal)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refusal(f"{what} '{path.name}' is not UTF-8 text.", "Give the TOML file.") from None


def read_private(path: Path, what: str, unreadable: type[SudareError] = IdentityError) -> bytes:
    """The bytes of a small file that nobody else may read or replace: a key or a passphrase.

    Raises `IdentityError` where others may, `unreadable` where there is no such file.
    """
    with _opened(path, what, unreadable) as handle:
        _check_private(os.fstat(handle), path, what)
        return _bounded(handle, path, what)


def check_private(path: Path, what: str) -> None:
    """Raise `IdentityError` unless nobody else may read or replace the file, for a secret that another program opens."""
    with _opened(path, what, IdentityError) as handle:
        _check_private(os.fstat(handle), path, what)


def is_open_to_others(place: Path | int) -> bool:
    """Whether anybody but its owner may read or change the file, or what was opened under a number; where root mounted it for a group, anybody outside of that."""
    status = os.stat(place)
    return bool(status.st_mode & _forbidden(status))


def _check_private(status: os.stat_result, path: Path, what: str) -> None:
    """Raise `IdentityError` unless the file is this user's or root's, closed to others, and nobody can put another in its place.

    What was opened is looked at, so a link counts as what it leads to.
    """
    mode = stat.S_IMODE(status.st_mode)
    if mode & _forbidden(status):
        raise IdentityError(
            f"{what} '{path.name}' is open to others (mode {mode:03o}).", f"Run: chmod 600 {shlex.quote(str(path))}"
        )
    _check_irreplaceable(status, path, what)


def _check_irreplaceable(status: os.stat_result, path: Path, what: str) -> None:
    """Raise `IdentityError` where the file or folder is neither this user's nor root's, or everybody can put another in its place."""
    right = "700" if stat.S_ISDIR(status.st_mode) else "600"
    if status.st_uid not in (_ROOT, os.geteuid()):
        raise IdentityError(
            f"{what} '{path.name}' belongs to another user, who can change it.",
            f"Use one of your own: copy it, then chmod {right} {shlex.quote(str(path))}",
        )
    for folder in {*path.absolute().parents, *path.resolve().parents}:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise IdentityError(
                f"{what} '{path.name}' lies in '{folder}', where everybody can replace it (mode {mode:03o}).",
                f"Run: chmod o-w {shlex.quote(str(folder))}; or keep it elsewhere, then chmod {right}.",
            )


def _forbidden(status: os.stat_result) -> int:
    """Mode bits that a secret may not have. That a group may read is how root mounts secrets for a service."""
    is_mounted = status.st_uid == _ROOT and os.geteuid() != _ROOT
    return _OTHERS & ~stat.S_IRGRP if is_mounted else _OTHERS


def write_new(path: Path, content: bytes | Iterable[bytes], mode: int = PRIVATE_MODE) -> None:
    """Write a file that was not there, durable and complete, or none. Raise FileExistsError if there is one.

    Content may come in pieces; an error on the way leaves nothing.
    """
    temporary = _written_beside(path, content, mode)
    try:
        # Unlike a renaming, a link never replaces a file that appeared meanwhile.
        os.link(temporary, path)
    finally:
        _remove(temporary)
    try:
        _make_name_durable(path)
    except OSError:
        os.unlink(path)
        raise


def is_taken(path: Path) -> bool:
    """Whether something has this name, be it a link that leads nowhere. Raise OSError where no file can have it."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except ValueError:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None
    return True


@contextlib.contextmanager
def space_kept(folder: Path, byte_count: int) -> Iterator[None]:
    """Hold so many bytes of the folder's disk, and give them back at the end. Raise OSError where there are not so many."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, byte_count)
        yield


def write_atomically(path: Path, content: bytes, mode: int = PRIVATE_MODE) -> None:
    """Replace the file: whoever reads meanwhile, or after a crash, sees the old one or the new one."""
    temporary = _written_beside(path, content, mode)
    try:
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    _make_name_durable(path)


def write_document(path: Path, content: bytes, mode: int = SHARED_MODE) -> None:
    """A shared document replaced: agreements and statements."""
    try:
        write_atomically(path, content, mode)
    except OSError as error:
        raise _unwritable(path, error) from None


def make_private_folder(path: Path) -> None:
    """The folder, for its owner only if it was not there; so are those above it that were not."""
    try:
        for folder in reversed([path, *path.parents]):
            # `parents=True` would make those above with the usual rights.
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConsortiumError(
            f"The folder '{path}' cannot be written ({error.strerror}).", "Check the path, its rights and the space."
        ) from None


def check_unshared(path: Path, what: str, opened: int | None = None) -> None:
    """Raise `IdentityError` where everybody on this machine may write, or put another in its place, or another user owns it: what decides for a member must be the member's.

    Where it was `opened`, that is looked at, whatever has taken its place since.
    """
    status = path.stat() if opened is None else os.fstat(opened)
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IWOTH:
        raise IdentityError(
            f"{what} '{path}' can be changed by everybody on this machine (mode {mode:03o}).",
            f"Run: chmod o-w {shlex.quote(str(path))}; then look whether somebody did.",
        )
    _check_irreplaceable(status, path, what)


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
def changed_by_one(path: Path, mode: int = SHARED_MODE) -> Iterator[None]:
    """Wait until nobody else changes the file: reading, changing and writing it back then loses nobody's change. Whoever may open the lock can hold it."""
    try:
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, mode)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class FileLock:
    """The lock of a file, which one process at a time can take. Let go of with this object, also by a crash; a forked process does not hold it."""

    def __init__(self, path: Path) -> None:
        self._process: int | None = None
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
        self._closed = weakref.finalize(self, os.close, self._handle)

    @property
    def place(self) -> tuple[int, int]:
        """Which file it is, whatever path leads to it."""
        found = os.fstat(self._handle)
        return found.st_dev, found.st_ino

    @property
    def is_held(self) -> bool:
        """Whether this process took the lock by this object."""
        return self._process == os.getpid()

    def take(self) -> bool:
        """Take the lock; False where somebody else holds it."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self._process = os.getpid()
        return True

    def release(self) -> None:
        """Let go."""
        self._process = None
        self._closed()


@contextlib.contextmanager
def held_alone(path: Path) -> Iterator[bool]:
    """Whether this process is the only one that holds the file's lock; let go of at the end, also by a crash."""
    lock = FileLock(path)
    try:
        yield lock.take()
    finally:
        lock.release()


class LogFile:
    """A file that lines are added to, each at once and whole; None takes all and keeps nothing. Nothing is kept back for later.

    Threads may still add lines when it was closed: they get an OSError, and whatever file was given its number since is left alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._handle = os.open("/dev/null" if path is None else path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._is_torn = False
        self._lock = threading.Lock()

    def write(self, text: str, /) -> None:
        """Add a line; after one that was cut off, on a line of its own. Raise OSError where there is no room for it, or it was closed."""
        with self._lock:
            content = (f"\n{text}" if self._is_torn else text).encode()
            written = os.write(self._handle, content)
            self._is_torn = written < len(content)
            is_cut_off = self._is_torn
        if is_cut_off:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        """Nothing is kept back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
            os.close(handle)


def _unwritable(path: Path, error: OSError) -> AgreementError:
    return AgreementError(
        f"'{path}' cannot be written ({error.strerror}).", "Use a folder that is there and that you may write to."
    )


@contextlib.contextmanager
def _opened(path: Path, what: str, refusal: type[SudareError] = AgreementError) -> Iterator[int]:
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


def _bounded(handle: int, path: Path, what: str, refusal: type[SudareError] = AgreementError) -> bytes:
    content = os.read(handle, LARGEST_DOCUMENT_BYTES + 1)
    if len(content) > LARGEST_DOCUMENT_BYTES:
        raise refusal(
            f"{what} '{path.name}' is larger than {LARGEST_DOCUMENT_BYTES >> 20} MiB.", "Give the right file."
        )
    return content


def _written_beside(path: Path, content: bytes | Iterable[bytes], mode: int) -> str:
    """The name of a temporary file in the same folder, with the content forced to disk."""
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=".sudare-", suffix=".partial")
    try:
        with open(handle, "wb") as stream:
            os.fchmod(handle, mode)
            for piece in [content] if isinstance(content, bytes) else content:
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def _remove(temporary: str) -> None:
    """Remove a partial file. One that cannot be removed is litter; it must not make a file that is there look as if it were not."""
    with contextlib.suppress(OSError):
        os.unlink(temporary)


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """The number of an opened folder, for calls about what lies in it. Raise OSError where it cannot be opened."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield number
    finally:
        os.close(number)


def _make_name_durable(path: Path) -> None:
    with opened_folder(path.absolute().parent) as folder:
        os.fsync(folder)


def replace_keeping_old(path: Path, new: Path, kept: Path) -> None:
    """The new file under the old one's name, and the old one kept under a name that was not there."""
    if not kept.exists():
        os.link(path, kept)
    os.replace(new, path)
    _make_name_durable(path)


def move_into(folder: Path, path: Path) -> None:
    """Move a file into a folder that is there, under its own name; one of that name is replaced."""
    os.replace(path, folder / path.name)
    _make_name_durable(folder / path.name)


def set_aside(path: Path, folder_name: str) -> None:
    """Make room for a new file: the one that is there is kept in a folder beside it, under a number."""
    folder = path.parent / folder_name
    make_private_folder(folder)
    number = 1 + sum(1 for _ in folder.iterdir())
    os.replace(path, folder / f"{number:03d}-{path.name}")
    _make_name_durable(path)

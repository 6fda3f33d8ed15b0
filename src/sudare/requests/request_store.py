"""Where requests are kept: one file each in a folder that only its owner reads, replaced whole.

Whoever changes one holds the folder's lock from reading to writing, so that of two who decide at once the second sees the first one's decision.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sudare.errors import RequestError, UnknownName
from sudare.files import changed_by_one, held_alone, make_private_folder, write_atomically, write_new
from sudare.parsing import bounded_bytes
from sudare.requests.request import IDENTITY, Request, parsed_request, requiring

_SUFFIX: Final = ".json"
_PROGRESS: Final = ".progress"
_RUN: Final = ".run"


class RequestStore:
    """The requests in a folder. Whatever is written there, at least `people` must approve each."""

    def __init__(self, folder: Path, people: int = 1) -> None:
        self.folder, self.people = folder, people

    def requests(self) -> list[Request]:
        """All requests that can be read, newest first."""
        return self.readable_and_damaged()[0]

    def readable_and_damaged(self) -> tuple[list[Request], list[str]]:
        """All requests that can be read, newest first, and the names of those whose file is damaged: one of them stops no other."""
        found: list[Request] = []
        damaged: list[str] = []
        for name in sorted(path.stem for path in self.folder.glob(f"*{_SUFFIX}") if IDENTITY.fullmatch(path.stem)):
            try:
                found.append(self.request(name))
            except UnknownName:
                continue  # It was taken away meanwhile.
            except RequestError:
                damaged.append(name)
        return sorted(found, key=lambda request: (request.when, request.identity), reverse=True), damaged

    def request(self, identity: str) -> Request:
        """One request. Raise UnknownName where there is none."""
        if IDENTITY.fullmatch(identity):
            with contextlib.suppress(FileNotFoundError):
                return requiring(parsed_request(self._read(self._path(identity)), identity), self.people)
        raise UnknownName("There is no such request.", "`sudare request list` names those there are.")

    def new_identity(self) -> str:
        """A name that no request has."""
        return uuid.uuid4().hex[:8]

    def add(self, request: Request) -> None:
        """Keep a new request."""
        make_private_folder(self.folder)
        with self._explained():
            write_new(self._path(request.identity), request.to_text().encode())

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Let nobody else change a request meanwhile."""
        make_private_folder(self.folder)
        with changed_by_one(self.folder / "requests"):
            yield

    def replace(self, request: Request) -> None:
        """Keep a request as it is now; within `changing`."""
        with self._explained():
            write_atomically(self._path(request.identity), request.to_text().encode())

    @contextlib.contextmanager
    def running(self, identity: str) -> Iterator[bool]:
        """Whether this process is the only one that runs a request; a crash ends that."""
        make_private_folder(self.folder)
        with held_alone(self.folder / f"{identity}{_RUN}") as is_alone:
            yield is_alone

    def is_running(self, identity: str) -> bool:
        """Whether a process runs the request now; no request has a name that is none."""
        if not IDENTITY.fullmatch(identity) or not (self.folder / f"{identity}{_RUN}").exists():
            return False
        with held_alone(self.folder / f"{identity}{_RUN}") as is_alone:
            return not is_alone

    def was_left(self, request: Request) -> bool:
        """Whether a request was begun and no process runs it any more: it can be gone on with."""
        return request.state == "running" and not self.is_running(request.identity)

    def tell_progress(self, identity: str, step: str) -> None:
        """Keep how far a run is, if that can be written: a run does not end for it."""
        with contextlib.suppress(OSError):
            write_atomically(self.folder / f"{identity}{_PROGRESS}", step.encode())

    def progress(self, identity: str) -> str:
        """How far a run is; empty where nothing was told."""
        try:
            return bounded_bytes(self.folder / f"{identity}{_PROGRESS}").decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def run_folder(self, identity: str) -> Path:
        """Returns the folder in which a run keeps what it needs to go on after it was killed."""
        folder = self.folder / f"{identity}-run"
        make_private_folder(folder)
        return folder

    def _path(self, identity: str) -> Path:
        return self.folder / f"{identity}{_SUFFIX}"

    def _read(self, path: Path) -> bytes:
        try:
            return bounded_bytes(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unusable(error) from None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _unusable(error) from None


def _unusable(error: OSError) -> RequestError:
    return RequestError(
        f"The folder of requests cannot be used ({error.strerror}).", "Check the path, its rights and the space."
    )

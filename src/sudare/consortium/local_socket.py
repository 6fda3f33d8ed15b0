"""A socket in the member's private state folder: over it the page and commands of the same user ask the node that runs here what it does now.

Each end has the operating system tell the user of the other one (SO_PEERCRED) before anything is said. One line of JSON goes each way. What is asked for
becomes the same file that commands leave, so that there is one way in and a node that is killed loses nothing. No decision of a steward passes here, and no data.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import socket
import socketserver
import stat
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.node_control_files import (
    ask_running_node,
    check_is_own_node,
    is_of_another_member,
    is_states_document,
)
from sudare.errors import ConsortiumError, IdentityError, InvalidParameter, SudareError
from sudare.files import PRIVATE_MODE, check_unshared, is_open_to_others, opened_folder
from sudare.parsing import LARGEST_BYTES, NotParsed, parsed_json

SOCKET: Final = "node.sock"
MOST_CONNECTIONS: Final = 8
MOST_REQUEST_BYTES: Final = 4096
# Who asks when so many are heard waits for one of them to end, which takes milliseconds, or a little at most where they say nothing.
MOST_WAITING: Final = 128
WAIT_SECONDS: Final = 0.2
SERVER_SECONDS: Final = 2.0
CLIENT_SECONDS: Final = 1.0
_ROOT: Final = 0
# Process, user and group, as the system gives them.
_CREDENTIALS: Final = struct.Struct("=iII")
_NOT_UNDERSTOOD: Final = {"error": "not understood"}
NO_SOCKET: Final = "Another thing stands in the place of the node's local socket, which is not used: shown is what the node last wrote into its files."
OTHER_USER: Final = (
    "The node's local socket is another user's and is not used: shown is what the node last wrote into its files."
)
OTHER_MEMBER: Final = "Another member's node answers at the local socket, and what it tells is not shown: each member needs a state folder of its own."
NO_ANSWER: Final = "The node's local socket does not answer: shown is what the node last wrote into its files."
Facts = Callable[[], Mapping[str, Any] | None]


@dataclass(frozen=True)
class LiveStates:
    """What a running node has told of itself just now, as `node.json` has it; without a document, why it has not, or nothing where there is no socket."""

    document: Mapping[str, Any] | None = None
    turned_seconds_ago: float = 0.0
    refusal: str = ""


class _Refused(Exception):
    """The socket is not used, for this reason."""


# The client


def live_states(member: Member) -> LiveStates:
    """What the member's node says now, where it has a socket that answers within a second and is this user's or root's."""
    try:
        told = _asked(member, {"ask": "states"})
    except FileNotFoundError:
        return LiveStates()
    except OSError:
        return LiveStates(refusal=NO_ANSWER)
    except _Refused as refused:
        return LiveStates(refusal=str(refused))
    seconds = told.get("turned_seconds_ago")
    if not is_states_document(told.get("states")) or type(seconds) is not float or seconds < 0.0:
        return LiveStates(refusal=NO_ANSWER)
    if is_of_another_member(told["states"], member):
        return LiveStates(refusal=OTHER_MEMBER)
    return LiveStates(told["states"], seconds)


def ask_node(member: Member, task: str, *, withdraw: bool = False, cancel: bool = False) -> None:
    """Ask the running node to run, withdraw or cancel a task: over its socket where that takes it, else by a file, as `ask_running_node` does."""
    check_is_own_node(member)
    if not withdraw:
        with contextlib.suppress(OSError, _Refused):
            if _asked(member, {"ask": "cancel" if cancel else "run", "task": task}).get("taken") is True:
                return
    ask_running_node(member, task, withdraw=withdraw, cancel=cancel)


def _asked(member: Member, request: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the node's socket. Raise FileNotFoundError where there is none, OSError where the folder cannot be looked into, _Refused where it is not used."""
    if not is_offered():
        raise FileNotFoundError(SOCKET)
    end = time.monotonic() + CLIENT_SECONDS
    with opened_folder(member.state_folder) as folder:
        found = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISSOCK(found.st_mode):
            raise _Refused(NO_SOCKET)
        if not _is_trusted(found.st_uid):
            raise _Refused(OTHER_USER)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(CLIENT_SECONDS)
                line.connect(_short_path(folder))
                if not _is_trusted(peer_user(line)):
                    raise _Refused(OTHER_USER)
                line.sendall(json.dumps(request).encode() + b"\n")
                answer = parsed_json(_received_line(line, LARGEST_BYTES, end))
        except (OSError, NotParsed):
            raise _Refused(NO_ANSWER) from None
    if not isinstance(answer, dict):
        raise _Refused(NO_ANSWER)
    return answer


# The server


def check_is_offered() -> None:
    """Raise InvalidParameter where the system does not tell which user is at the other end of a socket."""
    if not is_offered():
        raise InvalidParameter(
            "This system does not tell which user asks at a local socket, so the node offers none.",
            "Leave `--socket` out: the page and commands read the files in the state folder.",
        )


def is_offered() -> bool:
    """Whether the system tells which user is at the other end of a socket."""
    return hasattr(socket, "SO_PEERCRED")


class LocalSocket:
    """The node's end: bound at once, so that what is in its way is told of before anything starts, and answering from `serve` on."""

    def __init__(self, member: Member) -> None:
        """Raise IdentityError where the state folder is another user's or open to others, ConsortiumError where something is in the socket's place, InvalidParameter where the system has none."""
        check_is_offered()
        self._member = member
        self._thread: threading.Thread | None = None
        with contextlib.ExitStack() as opened:
            self._folder = opened.enter_context(opened_folder(member.state_folder))
            # What was opened is looked at: from then on nobody else can put a link where the socket is made.
            _check_private(self._folder, member.state_folder)
            _remove_stale(self._folder)
            self._server = opened.enter_context(_Server(_short_path(self._folder)))
            try:
                # It does not listen yet: until it is for its owner only, nobody can connect.
                self._server.server_bind()
                os.chmod(SOCKET, PRIVATE_MODE, dir_fd=self._folder)
                self._place = self._found_place()
            except OSError as error:
                raise _not_opened(error) from None
            self._opened = opened.pop_all()

    def serve(self, states: Facts) -> None:
        """Answer from now on, in a thread of its own; `states` is called there. Raise ConsortiumError where the system does not let it."""
        try:
            self._server.states, self._server.member = states, self._member
            self._server.server_activate()
        except OSError as error:
            raise _not_opened(error) from None
        thread = threading.Thread(target=self._server.serve_forever, name="local-socket", daemon=True)
        thread.start()
        self._thread = thread

    def close(self) -> None:
        """Answer nobody any more, and remove the socket if it is still this one."""
        if self._thread is not None:
            self._server.shutdown()
        with contextlib.suppress(OSError):
            if self._found_place() == self._place:
                os.unlink(SOCKET, dir_fd=self._folder)
        self._opened.close()

    def _found_place(self) -> tuple[int, int]:
        found = os.stat(SOCKET, dir_fd=self._folder, follow_symlinks=False)
        return found.st_dev, found.st_ino


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A thread for each connection of this user or root, and for so many at once; others are closed unheard."""

    daemon_threads = True
    request_queue_size = MOST_WAITING
    member: Member
    states: Facts

    def __init__(self, path: str) -> None:
        super().__init__(path, _Exchange, bind_and_activate=False)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.taking = threading.Lock()

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError:
            # A process without a free number for one more file would ask for it again at once, and compute nothing else.
            time.sleep(WAIT_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        try:
            return _is_trusted(peer_user(request))
        except OSError:
            return False

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(timeout=WAIT_SECONDS):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who went away, or said half of a request, is not told of."""


class _Exchange(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        line: socket.socket = self.request
        content = _received_line(line, MOST_REQUEST_BYTES, time.monotonic() + SERVER_SECONDS)
        answer = json.dumps(self._answer(content)).encode() + b"\n"
        line.settimeout(SERVER_SECONDS)
        line.sendall(answer)

    def _answer(self, content: bytes) -> Mapping[str, Any]:
        try:
            asked = parsed_json(content, largest_bytes=MOST_REQUEST_BYTES, largest_nesting=1, most_entries=2)
        except NotParsed:
            return _NOT_UNDERSTOOD
        match asked:
            case {"ask": "states", **rest} if not rest:
                return self.server.states() or {"error": "not yet"}
            case {"ask": "run" | "cancel" as wish, "task": str(task), **rest} if not rest:
                return {"taken": self._is_taken(task, is_cancelled=wish == "cancel")}
        return _NOT_UNDERSTOOD

    def _is_taken(self, task: str, *, is_cancelled: bool) -> bool:
        """Whether the request lies where the node takes it from; not where the agreement has no such task, the folder cannot be written, or nobody waits for the answer.

        Who has given up has left the file without this, and may have changed its mind since.
        """
        with self.server.taking:
            if _has_gone(self.request):
                return False
            try:
                ask_running_node(self.server.member, task, cancel=is_cancelled)
            except (SudareError, OSError):
                return False
        return True


def _check_private(opened: int, folder: Path) -> None:
    """Raise IdentityError unless the opened state folder is this user's or root's, and closed to others."""
    if is_open_to_others(opened):
        raise IdentityError(
            "The state folder is open to others, and the node's local socket would lie in it.",
            f"Run: chmod 700 {shlex.quote(str(folder))}",
        )
    check_unshared(folder, "The state folder", opened)


def _remove_stale(folder: int) -> None:
    """Remove the socket of a node that was killed. Raise ConsortiumError where another process answers there, or it is no socket of this user or root."""
    try:
        found = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or not _is_trusted(found.st_uid):
        raise ConsortiumError(
            f"Another thing stands where the node's local socket would be ('{SOCKET}' in the state folder).",
            "Look what it is, and remove it.",
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(CLIENT_SECONDS)
        try:
            line.connect(_short_path(folder))
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=folder)
            return
        except OSError as error:
            if not isinstance(error, TimeoutError | BlockingIOError):
                raise _not_opened(error) from None
    raise ConsortiumError(
        f"Another process answers at the node's local socket ('{SOCKET}' in the state folder).",
        "Look which one it is, and end it.",
    )


# Both ends


def peer_user(line: socket.socket) -> int:
    """The number of the user at the other end of a connection, as the system saw it when that was opened. Raise OSError where it does not tell."""
    _, user, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(user)


def _has_gone(line: socket.socket) -> bool:
    """Whether the other end has closed the connection, as far as the system knows; not where it has said all and still listens."""
    watch = select.poll()
    # The end of a line and errors are told without being asked for.
    watch.register(line, 0)
    return bool(watch.poll(0))


def _is_trusted(user: int) -> bool:
    return user in (os.geteuid(), _ROOT)


def _received_line(line: socket.socket, most_bytes: int, end: float) -> bytes:
    """The first line that comes, without its end. Raise NotParsed where it is longer or cut off, OSError where it is not there in time."""
    content = bytearray()
    while b"\n" not in content:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        piece = line.recv(min(1 << 16, most_bytes + 1 - len(content)))
        content += piece
        if not piece or (len(content) > most_bytes and b"\n" not in content):
            raise NotParsed("it is not JSON")
    return bytes(content.partition(b"\n")[0])


def _short_path(folder: int) -> str:
    """The socket's path by the number of its opened folder: a system takes no more than about a hundred bytes, however deep the folder is."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


def _not_opened(error: OSError) -> ConsortiumError:
    return ConsortiumError(
        f"The node's local socket cannot be opened in the state folder ({error.strerror}).",
        "Leave `--socket` out, or keep the state folder on a disk of this machine that takes sockets and has room.",
    )

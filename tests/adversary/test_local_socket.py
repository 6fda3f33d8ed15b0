"""Attacks by way of a node's local socket: to begin what the steward did not approve, to hold the node up, to show a steward what is not so."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium import local_socket as module
from sudare.consortium.local_socket import OTHER_USER, SOCKET, LiveStates, LocalSocket, live_states
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import states_of
from sudare.errors import IdentityError
from tests.cli.conftest import invoked
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)


def _connected(member: Member) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(5.0)
    with contextlib.suppress(OSError):
        line.connect(str(member.state_folder / SOCKET))
    return line


def _answer(member: Member, request: dict[str, str]) -> bytes:
    with _connected(member) as line, contextlib.suppress(OSError):
        line.sendall(json.dumps(request).encode() + b"\n")
        return line.recv(1 << 16)
    return b""


def _state(member: Member) -> str:
    return str(states_of(member, live=live_states(member).document).get("risk", {}).get("state"))


def _wait_for(member: Member, state: str) -> None:
    end = time.monotonic() + 20.0
    while _state(member) != state:
        assert time.monotonic() < end, _state(member)
        time.sleep(0.05)


@contextlib.contextmanager
def _running(node: Node, local: LocalSocket) -> Iterator[None]:
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def work() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            node.run(stay=True)

    node.check_stop = check
    local.serve(node.live_states)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        local.close()
        node.transport.close()


def test_whoever_may_ask_there_approves_nothing_and_holds_nothing_up(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK, approval=frozenset({"learning"}))[0]
    node = node_of(member, LocalHub())
    with _running(node, LocalSocket(member)):
        assert json.loads(_answer(member, {"ask": "run", "task": "risk"})) == {"taken": True}
        _wait_for(member, "waits for the steward")
        for word in ("approve", "approved", "decide", "withdraw", "deny", "stop"):
            assert b"not understood" in _answer(member, {"ask": word, "task": "risk"})
        held = [_connected(member) for _ in range(60)]
        began, longest = time.monotonic(), 0.0
        while time.monotonic() - began < 2.0:
            for line in held:
                with contextlib.suppress(OSError):
                    line.send(b"[")
            longest = max(longest, node.loop.seconds_since_turn())
        for line in held:
            line.close()
        assert longest < 10.0
        _wait_for(member, "waits for the steward")
        assert member.account(member.agreement()).spent().epsilon == 0.0


def test_another_user_who_gets_at_the_socket_learns_and_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where somebody has opened the folder and the socket to all."""
    member = founded(tmp_path, RISK)[0]
    node = node_of(member, LocalHub())
    with _running(node, LocalSocket(member)):
        member.state_folder.chmod(0o755)
        (member.state_folder / SOCKET).chmod(0o666)
        monkeypatch.setattr(module, "peer_user", lambda _: 2**31)
        assert _answer(member, {"ask": "states"}) == b""
        assert _answer(member, {"ask": "cancel", "task": "risk"}) == b""
        assert not (member.state_folder / "requests").exists()
        # And a server that is another user's shows a steward nothing.
        assert live_states(member) == LiveStates(refusal=OTHER_USER)
    assert node.task_runs == {}


def test_nothing_is_made_in_a_state_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who owns it would put a link in the socket's place before that is made private, and a file of the node's user would be."""
    member = founded(tmp_path, RISK)[0]
    member.state_folder.mkdir(mode=0o700)
    own = os.fstat

    def theirs(number: int) -> os.stat_result:
        found = own(number)
        return os.stat_result([*found[:4], os.geteuid() + 1, *found[5:]])

    monkeypatch.setattr(os, "fstat", theirs)
    with pytest.raises(IdentityError, match="belongs to another user"):
        LocalSocket(member)
    assert list(member.state_folder.iterdir()) == []


def test_a_server_that_changes_places_with_the_node_hears_nothing_and_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the socket and the connection: who is at the other end is known from the connection."""
    member = founded(tmp_path, RISK)[0]
    member.state_folder.mkdir(mode=0o700)
    theirs = tmp_path / "theirs.sock"
    said: list[bytes] = []
    stop = threading.Event()
    known = module.peer_user
    # Both are this process: another user's is told by where the line leads.
    monkeypatch.setattr(
        module, "peer_user", lambda line: 2**31 if str(line.getpeername()).endswith("theirs.sock") else known(line)
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(theirs))
        listener.listen(64)
        listener.settimeout(0.1)

        def answer() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    line, _ = listener.accept()
                    with line:
                        line.settimeout(1.0)
                        line.sendall(json.dumps(live(["theirs"])).encode() + b"\n")
                        said.append(line.recv(100))

        def live(present: list[str]) -> dict[str, object]:
            states = {"agreement": member.agreement().digest, "process": 1, "present": present, "tasks": {}}
            return {"states": states, "turned_seconds_ago": 0.1}

        def change() -> None:
            system, exchange = ctypes.CDLL(None), 2
            place = os.fsencode(member.state_folder / SOCKET)
            while not stop.is_set():
                system.renameat2(-100, os.fsencode(theirs), -100, place, exchange)
                time.sleep(0.001)

        with contextlib.closing(LocalSocket(member)) as local:
            local.serve(lambda: live(["ours"]))
            threads = [threading.Thread(target=work) for work in (answer, change)]
            for thread in threads:
                thread.start()
            found: list[LiveStates] = []
            try:
                began = time.monotonic()
                while (passed := time.monotonic() - began) < 20.0:
                    found.append(live_states(member))
                    if passed > 1.0 and said and any(each.document is not None for each in found):
                        break
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    refusals = {each.refusal for each in found}
    assert OTHER_USER in refusals
    assert {tuple(each.document["present"]) for each in found if each.document is not None} == {("ours",)}
    assert set(said) <= {b""}


def test_hostile_words_of_a_node_forge_no_line_in_the_shell(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    member.state_folder.mkdir(mode=0o700)
    hostile = "\x1b[31m\u202eeast\nPresent: all.\r"
    task = {"state": hostile, "round": 1, "error": hostile, "files": [hostile]}
    states = {"agreement": member.agreement().digest, "process": 1, "present": [hostile], "tasks": {"risk": task}}
    with contextlib.closing(LocalSocket(member)) as local:
        local.serve(lambda: {"states": states, "turned_seconds_ago": 0.1})
        for agreement in (states["agreement"], hostile):
            states["agreement"] = agreement
            said = invoked("status", "--member", member.folder / "member.toml").stdout
            assert "Told by the running node itself" in said
            assert not {"\x1b", "\u202e", "\r"} & set(said)
            assert not any(line.startswith("Present: all.") for line in said.split("\n"))

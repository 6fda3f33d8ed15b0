"""Attacks by way of a node's local socket: to begin what the steward did not approve, to hold the node up, to show a steward what is not so."""

from __future__ import annotations

import contextlib
import json
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

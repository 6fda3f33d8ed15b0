"""The socket of a node: who asks is known before anything is heard, and so is who answers; what is not its own is never used."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium import local_socket as module
from sudare.consortium.local_socket import (
    MOST_CONNECTIONS,
    MOST_REQUEST_BYTES,
    NO_ANSWER,
    NO_SOCKET,
    OTHER_MEMBER,
    OTHER_USER,
    SOCKET,
    LiveStates,
    LocalSocket,
    ask_node,
    live_states,
)
from sudare.consortium.node_control_files import (
    REQUESTS,
    STATES,
    agreement_of_running_node,
    ask_running_node,
    present_members,
    reaches_relay,
    states_of,
)
from sudare.errors import AgreementError, ConsortiumError, IdentityError, InvalidParameter, TaskStopped
from sudare.files import held_alone
from tests.cli.conftest import invoked
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)
ANOTHER_USER = 2**31


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Member:
    # A machine that does much else answers late; how long is waited has a test of its own.
    monkeypatch.setattr(module, "CLIENT_SECONDS", 20.0)
    found = founded(tmp_path, RISK)[0]
    found.state_folder.mkdir(mode=0o700)
    return found


def told_of(member: Member, **changes: Any) -> dict[str, Any]:
    task = {"state": "running", "round": 3, "error": None, "files": []}
    document = {
        "agreement": member.agreement().digest,
        "process": 1,
        "present": ["east", "west"],
        "tasks": {"risk": task},
    }
    return {"states": {**document, **changes}, "turned_seconds_ago": 0.2}


@contextlib.contextmanager
def served(member: Member, told: Any) -> Iterator[LocalSocket]:
    local = LocalSocket(member)
    try:
        local.serve(lambda: told)
        yield local
    finally:
        local.close()


def path_of(member: Member) -> Path:
    return member.state_folder / SOCKET


def said(member: Member, content: bytes, *, is_ended: bool = False) -> bytes:
    """What the socket answers to these bytes, until it closes."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10.0)
        line.connect(str(path_of(member)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(content)
            if is_ended:
                line.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := line.recv(4096):
                answer += piece
        return answer


def test_a_node_tells_what_it_does_and_takes_requests(member: Member) -> None:
    node = node_of(member, LocalHub())
    local = LocalSocket(member)
    try:
        local.serve(node.live_states)
        # It has not looked yet, and there is nothing that it could tell.
        assert live_states(member) == LiveStates(refusal=NO_ANSWER)
        node._poll(stay=True)
        found = live_states(member)
        assert found.document == json.loads((member.state_folder / STATES).read_bytes())
        assert (found.refusal, present_members(member, found.document)) == ("", ["east"])
        ask_node(member, "risk")
        assert [path.name for path in (member.state_folder / REQUESTS).iterdir()] == ["risk.run"]
        node._looked_at = float("-inf")
        node._poll(stay=True)
        live = live_states(member).document
        assert states_of(member, live=live)["risk"]["state"] == node.task_runs["risk"].state
        assert agreement_of_running_node(member, live) == member.agreement().digest
        ask_node(member, "risk", cancel=True)
        node._looked_at = float("-inf")
        node._poll(stay=True)
        assert states_of(member, live=live_states(member).document)["risk"]["ended_by"] == "cancel"
        node._write_states(is_running=False)
        live = live_states(member).document
        assert (present_members(member, live), reaches_relay(member, live)) == (None, None)
    finally:
        local.close()
        node.transport.close()


def test_what_cannot_be_written_is_told_all_the_same(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(member, LocalHub())
    node._poll(stay=True)

    def full(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("sudare.consortium.node.write_atomically", full)
    with contextlib.closing(LocalSocket(member)) as local:
        local.serve(node.live_states)
        node.ask("risk")
        node._write_states()
        assert "risk" in states_of(member, live=live_states(member).document)
        assert "risk" not in states_of(member)
    node.transport.close()


def test_a_process_that_this_one_cannot_see_is_there_when_it_answers(member: Member) -> None:
    """As a node in a container of its own, whose process has another number here."""
    told = told_of(member, process=2**22 + 1)
    (member.state_folder / STATES).write_text(json.dumps(told["states"]))
    assert present_members(member) is None
    with served(member, told):
        assert present_members(member, live_states(member).document) == ["east", "west"]


def test_only_the_owner_can_open_it_whatever_the_umask_is(member: Member) -> None:
    before = os.umask(0)
    try:
        with served(member, told_of(member)):
            found = path_of(member).lstat()
    finally:
        os.umask(before)
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600


def test_a_state_folder_that_others_can_look_into_is_refused(member: Member) -> None:
    member.state_folder.chmod(0o755)
    with pytest.raises(IdentityError, match="chmod 700"):
        LocalSocket(member)
    assert not path_of(member).exists()


def test_the_folder_that_was_opened_is_looked_at_and_not_what_took_its_place(member: Member, tmp_path: Path) -> None:
    with module.opened_folder(member.state_folder) as opened:
        member.state_folder.rename(tmp_path / "moved")
        member.state_folder.mkdir(mode=0o700)
        (tmp_path / "moved").chmod(0o755)
        with pytest.raises(IdentityError, match="chmod 700"):
            module._check_private(opened, member.state_folder)


def test_nobody_listens_before_it_serves_and_nothing_is_there_after_it(member: Member) -> None:
    assert live_states(member) == LiveStates()
    local = LocalSocket(member)
    assert live_states(member) == LiveStates(refusal=NO_ANSWER)
    local.serve(lambda: told_of(member))
    assert live_states(member).turned_seconds_ago == 0.2
    local.close()
    assert not path_of(member).exists()
    assert live_states(member) == LiveStates()


def test_a_folder_may_lie_deeper_than_the_paths_of_sockets_are_long(tmp_path: Path) -> None:
    folder = tmp_path / ("long-name-" * 12)
    folder.mkdir()
    member = founded(folder, RISK)[0]
    member.state_folder.mkdir(mode=0o700)
    assert len(str(path_of(member))) > 108
    with served(member, told_of(member)):
        assert live_states(member).document is not None


@pytest.mark.parametrize("user", [ANOTHER_USER, None])
def test_another_user_is_not_heard(member: Member, monkeypatch: pytest.MonkeyPatch, user: int | None) -> None:
    """Nor one whom the system does not name."""

    def credentials(_: socket.socket) -> int:
        if user is None:
            raise OSError("no credentials")
        return user

    with served(member, told_of(member)):
        assert said(member, b'{"ask": "states"}\n')
        with monkeypatch.context() as patch:
            patch.setattr(module, "peer_user", credentials)
            assert said(member, b'{"ask": "states"}\n') == b""
            assert said(member, b'{"ask": "run", "task": "risk"}\n') == b""
        assert not (member.state_folder / REQUESTS).exists()
        # Who was refused has taken nobody's place.
        assert said(member, b'{"ask": "states"}\n')


def test_root_is_heard(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "peer_user", lambda _: 0)
    with served(member, told_of(member)):
        assert live_states(member).document is not None


def test_nothing_is_said_to_another_users_server(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path_of(member)))
        listener.listen(4)
        monkeypatch.setattr(module, "peer_user", lambda _: ANOTHER_USER)
        assert live_states(member) == LiveStates(refusal=OTHER_USER)
        ask_node(member, "risk")
        for _ in range(2):
            line, _ = listener.accept()
            with line:
                assert line.recv(100) == b""
    assert (member.state_folder / REQUESTS / "risk.run").exists()


def test_another_users_socket_is_not_even_connected_to(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path_of(member)))
        listener.listen(1)
        listener.settimeout(0.2)
        monkeypatch.setattr(module, "_is_trusted", lambda _: False)
        assert live_states(member) == LiveStates(refusal=OTHER_USER)
        with pytest.raises(TimeoutError):
            listener.accept()
        # A node does not take it away either.
        with pytest.raises(ConsortiumError, match="Another thing stands where"):
            LocalSocket(member)


def test_another_thing_in_its_place_is_neither_used_nor_removed(member: Member, tmp_path: Path) -> None:
    path, elsewhere = path_of(member), tmp_path / "other.sock"
    makers: list[Callable[[], object]] = [
        lambda: path.write_text("kept"),
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to(tmp_path / "nowhere"),
        lambda: path.symlink_to(elsewhere),
    ]
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(elsewhere))
        other.listen(1)
        other.settimeout(0.2)
        for number, make in enumerate(makers):
            make()
            before = path.lstat()
            assert live_states(member) == LiveStates(refusal=NO_SOCKET)
            with pytest.raises(ConsortiumError, match="Another thing stands where"):
                LocalSocket(member)
            assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
            path.rename(tmp_path / f"moved-{number}")
        with pytest.raises(TimeoutError):
            other.accept()


def test_the_socket_of_a_killed_node_is_replaced_and_one_that_answers_is_not(member: Member) -> None:
    program = (
        "import sys, time; from sudare.consortium import Member; from sudare.consortium.local_socket import LocalSocket\n"
        "LocalSocket(Member.load(sys.argv[1])).serve(lambda: None); print('ready', flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", program, str(member.folder / "member.toml")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(ConsortiumError, match="Another process answers"):
                LocalSocket(member)
        finally:
            process.send_signal(signal.SIGKILL)
    assert path_of(member).is_socket()
    assert live_states(member) == LiveStates(refusal=NO_ANSWER)
    with served(member, told_of(member)):
        assert live_states(member).document is not None
    assert not path_of(member).exists()


def test_a_socket_that_took_its_place_is_left_alone(member: Member) -> None:
    with served(member, told_of(member)):
        path_of(member).unlink()
        path_of(member).write_text("another")
    assert path_of(member).read_text() == "another"


NO_REQUESTS = [
    b"\n",
    b"[]\n",
    b"null\n",
    b"1e999\n",
    b"\xff\xfe\n",
    b"[" * 2000 + b"\n",
    b'{"ask": ["states"]}\n',
    b'{"ask": "approve", "task": "risk"}\n',
    b'{"ask": "states", "task": "risk"}\n',
    b'{"ask": "states", "ask": "states"}\n',
    b'{"ask": "run"}\n',
    b'{"ask": "run", "task": null}\n',
    b'{"ask": "withdraw", "task": "risk"}\n',
    b'{"ask": "run", "task": "risk", "reason": "x"}\n',
    b'{"ask": "run", "task": "\\ud800"}\n',
]


def test_what_is_no_request_is_answered_so_and_changes_nothing(member: Member) -> None:
    with served(member, told_of(member)):
        for content in NO_REQUESTS:
            assert json.loads(said(member, content)) == {"error": "not understood"}, content
        assert live_states(member).document is not None
    assert not (member.state_folder / REQUESTS).exists()


def test_what_has_no_end_is_not_answered(member: Member) -> None:
    with served(member, told_of(member)):
        for content in (b"x" * (MOST_REQUEST_BYTES + 1), b"x" * 1_000_000, b'{"ask": "states"', b""):
            assert said(member, content, is_ended=True) == b"", content[:20]
        assert live_states(member).document is not None


def test_a_task_that_there_is_not_is_not_taken(member: Member) -> None:
    with served(member, told_of(member)):
        for task in ("other", "../risk", "risk.run", "", "risk\x00", "r" * 3000):
            answer = said(member, json.dumps({"ask": "run", "task": task}).encode() + b"\n")
            assert json.loads(answer) == {"taken": False}, task
            with pytest.raises(AgreementError):
                ask_node(member, task)
    assert not (member.state_folder / REQUESTS).exists()


def test_a_request_whose_sender_has_given_up_is_not_taken_later(member: Member) -> None:
    """A node that stood still would else cancel a task that was asked for again since."""
    with contextlib.closing(LocalSocket(member)) as local:
        local._server.server_activate()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(path_of(member)))
            line.sendall(b'{"ask": "cancel", "task": "risk"}\n')
        ask_running_node(member, "risk")
        local.serve(lambda: told_of(member))
        wait_until_it_answers(member)
    assert [path.name for path in (member.state_folder / REQUESTS).iterdir()] == ["risk.run"]


def test_who_has_said_all_and_still_listens_has_not_given_up(member: Member) -> None:
    """As commands that send what they are given and then end their half of the line."""
    with contextlib.closing(LocalSocket(member)) as local:
        local._server.server_activate()
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10.0)
            line.connect(str(path_of(member)))
            line.sendall(b'{"ask": "run", "task": "risk"}\n')
            line.shutdown(socket.SHUT_WR)
            local.serve(lambda: told_of(member))
            assert json.loads(line.recv(100)) == {"taken": True}
    assert (member.state_folder / REQUESTS / "risk.run").exists()


def test_who_has_said_more_than_a_request_and_gone_has_given_up(member: Member) -> None:
    with contextlib.closing(LocalSocket(member)) as local:
        local._server.server_activate()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(path_of(member)))
            line.sendall(b'{"ask": "cancel", "task": "risk"}\nmore')
        local.serve(lambda: told_of(member))
        wait_until_it_answers(member)
    assert not (member.state_folder / REQUESTS).exists()


def test_many_who_ask_at_once_are_all_answered(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the readers of a page, of whom each takes a millisecond."""
    # A machine that does much else lets them wait.
    monkeypatch.setattr(module, "WAIT_SECONDS", 10.0)
    found: list[LiveStates] = []
    barrier = threading.Barrier(40)

    def work() -> None:
        barrier.wait()
        for _ in range(5):
            found.append(live_states(member))

    with served(member, told_of(member)):
        threads = [threading.Thread(target=work) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {each.refusal for each in found} == {""}
    assert len(found) == 200


def test_a_process_that_can_open_no_more_files_does_not_ask_for_one_all_the_time(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def none_left(_: object) -> None:
        tries.append(1)
        raise OSError(errno.EMFILE, "too many")

    with served(member, told_of(member)), socket.socket(socket.AF_UNIX) as line:
        with monkeypatch.context() as patch:
            patch.setattr(socketserver.UnixStreamServer, "get_request", none_left)
            line.connect(str(path_of(member)))
            time.sleep(1.0)
        assert 1 <= len(tries) <= 10
        wait_until_it_answers(member)


def test_another_members_node_in_the_same_folder_is_not_taken_for_ones_own(member: Member) -> None:
    """Nor what it wrote: two members of one agreement would else show each other's tasks."""
    told = told_of(member)
    told["states"]["member"] = "west"
    (member.state_folder / STATES).write_text(json.dumps(told["states"]))
    assert (states_of(member), present_members(member), agreement_of_running_node(member)) == ({}, None, None)
    with served(member, told):
        assert live_states(member) == LiveStates(refusal=OTHER_MEMBER)
        for ask in (ask_node, ask_running_node):
            with pytest.raises(ConsortiumError, match="is another member's"):
                ask(member, "risk")
        assert not (member.state_folder / REQUESTS).exists()
        told["states"]["member"] = member.name
        assert live_states(member).document is not None


def test_connections_beyond_the_most_are_closed_and_half_requests_end_soon(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERVER_SECONDS", 1.5)
    with served(member, told_of(member)), contextlib.ExitStack() as opened:
        held = []
        for _ in range(MOST_CONNECTIONS):
            line = opened.enter_context(socket.socket(socket.AF_UNIX))
            line.settimeout(10.0)
            line.connect(str(path_of(member)))
            line.sendall(b'{"ask":')
            held.append(line)
        began = time.monotonic()
        assert said(member, b'{"ask": "states"}\n') == b""
        assert live_states(member) == LiveStates(refusal=NO_ANSWER)
        for line in held:
            assert line.recv(100) == b""
        assert time.monotonic() - began < 10.0
        for _ in range(100):
            with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(BlockingIOError):
                line.connect(str(path_of(member)))
        wait_until_it_answers(member)


def wait_until_it_answers(member: Member) -> None:
    end = time.monotonic() + 10.0
    while live_states(member).document is None:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_who_says_a_byte_now_and_then_is_not_waited_for(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERVER_SECONDS", 0.4)
    with served(member, told_of(member)), socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path_of(member)))
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10.0:
                line.sendall(b" ")
                time.sleep(0.02)
        assert time.monotonic() - began < 5.0


NO_ANSWERS = [
    b"",
    b"\n",
    b"[]\n",
    b"{}\n",
    b"\xff\n",
    b"[" * 100_000 + b"\n",
    b'{"states": {}, "turned_seconds_ago": 0.1}\n',
    b'{"states": null, "turned_seconds_ago": 0.1}\n',
    b"x" * (2 << 20),
    b"late",
]


def test_an_answer_that_is_none_or_comes_late_is_not_used(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_SECONDS", 0.5)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path_of(member)))
        listener.listen(1)

        def work() -> None:
            for answer in NO_ANSWERS:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(4096)
                    if answer == b"late":
                        time.sleep(4.0)
                    connection.sendall(answer)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        for answer in NO_ANSWERS:
            began = time.monotonic()
            assert live_states(member) == LiveStates(refusal=NO_ANSWER), answer[:20]
            assert time.monotonic() - began < 3.5
        thread.join()


def test_states_without_their_time_are_not_used(member: Member) -> None:
    told = told_of(member)
    with served(member, told):
        for seconds in (None, -1.0, "1", True):
            told["turned_seconds_ago"] = seconds
            assert live_states(member) == LiveStates(refusal=NO_ANSWER)


def test_a_system_that_does_not_tell_who_asks_has_none(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with pytest.raises(InvalidParameter, match="does not tell which user asks"):
        LocalSocket(member)
    assert live_states(member) == LiveStates()


def test_a_folder_that_takes_no_socket_is_told_of(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_short_path", lambda folder: "/proc/nowhere/node.sock")
    with pytest.raises(ConsortiumError, match="cannot be opened in the state folder"):
        LocalSocket(member)


def test_status_says_what_the_node_told_or_why_it_was_not_asked(member: Member) -> None:
    words = ("status", "--member", member.folder / "member.toml")
    values = invoked(*words, "--json").values
    assert (values["told_over_socket"], values["socket_refused"]) == (False, None)
    assert values["turned_seconds_ago"] is None
    assert "socket" not in invoked(*words).stdout
    with served(member, told_of(member)):
        values = invoked(*words, "--json").values
        assert (values["told_over_socket"], values["present"], values["tasks"][0]["round"]) == (
            True,
            ["east", "west"],
            3,
        )
        assert values["turned_seconds_ago"] == 0.2
        said_so = "Told by the running node itself, over its local socket. Its loop last came round 0.2 seconds ago."
        assert said_so in invoked(*words).stdout
    path_of(member).write_text("")
    assert NO_SOCKET in " ".join(invoked(*words).stdout.split())
    assert invoked(*words, "--json").values["socket_refused"] == NO_SOCKET


def test_a_node_that_is_seen_by_its_socket_alone_can_be_told_to_end_a_task(member: Member) -> None:
    """As from another container, or where the disk is full and `node.json` is an old one."""
    words = ("run", "risk", "--cancel", "--member", member.folder / "member.toml")
    assert "No node of this member is running" in invoked(*words).stderr
    with served(member, told_of(member)):
        assert invoked(*words).exit_code == 0
    assert (member.state_folder / REQUESTS / "risk.cancel").exists()


def test_a_command_that_waits_is_told_over_the_socket_how_a_task_ended(member: Member) -> None:
    """As where the disk is full, and what the node last wrote is an old state."""
    task = {"state": "failed", "round": None, "error": "TaskStopped: The disk is full. Make room.", "files": []}
    old = told_of(member)["states"]
    (member.state_folder / STATES).write_text(json.dumps(old))
    words = ("run", "risk", "--member", member.folder / "member.toml", "--wait-seconds", "20")
    with held_alone(member.state_folder / "node.lock"), served(member, told_of(member, tasks={"risk": task})):
        outcome = invoked(*words)
    assert outcome.exit_code == TaskStopped.exit_code
    assert "The disk is full. Make room." in outcome.stderr

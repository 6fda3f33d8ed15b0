"""A node that is told to stop, in every phase of a task: others know at once, nothing is lost, nothing is paid twice."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import Approvals, LearningTask, Member
from sudare.consortium.network.transport.base import Announcement, Packet, Transport
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import STATES, present_members
from sudare.privacy.release import Release
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of
from tests.consortium.local_transport import LocalHub
from tests.consortium.test_node import TRUSTED, until
from tests.e2e.test_walkthrough import free_port

RISK = LearningTask("risk", "one-sum", 1.0)


@dataclass
class InterruptedTransport:
    """A member's way to the others until a condition holds: then the process is told to stop, in the middle of its loop."""

    beneath: Transport
    is_time: Callable[[], bool]

    def __post_init__(self) -> None:
        self.name, self.drops = self.beneath.name, self.beneath.drops

    def send(self, receiver: str, content: bytes) -> None:
        self.beneath.send(receiver, content)

    def announce(self, announcement: Announcement, receivers: object) -> None:
        self.beneath.announce(announcement, receivers)  # type: ignore[arg-type]

    def reaches_relay(self) -> bool:
        return self.beneath.reaches_relay()

    def receive(self, timeout_seconds: float) -> Packet | None:
        if self.is_time():
            raise KeyboardInterrupt
        return self.beneath.receive(min(timeout_seconds, 0.02))

    def close(self) -> None:
        self.beneath.close()


@dataclass
class Running:
    """A node in a thread of its own."""

    node: Node
    log: io.StringIO
    interrupted: bool = False

    @classmethod
    def started(
        cls, member: Member, hub: LocalHub, state: str | None = None, is_time: Callable[[], bool] = lambda: True
    ) -> Running:
        """Interrupted when its task is in a state and the condition holds; what is computed beside the loop in this state lasts until then."""
        log = io.StringIO()
        node = node_of(member, hub, log)
        found = cls(node, log)
        if state is not None:
            node.transport = InterruptedTransport(
                node.transport, lambda: node.task_runs["risk"].state == state and is_time()
            )
            found.hold_workers(state)
        found.thread = threading.Thread(target=found._run)
        found.thread.start()
        return found

    def _run(self) -> None:
        try:
            self.node.run(["risk"], most_seconds=100.0)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.node.transport.close()

    def hold_workers(self, state: str) -> None:
        """What is computed beside the loop lasts until the signal, if that comes in its middle, and ends with the process."""

        def held(work: Callable[..., Any]) -> Callable[..., Any]:
            def wait(*arguments: object) -> object:
                while self.node.task_runs["risk"].state == state and not self.interrupted:
                    time.sleep(0.01)
                if self.interrupted:
                    raise SystemExit
                return work(*arguments)

            return wait

        self.node._prepared, self.node._results_of = held(self.node._prepared), held(self.node._results_of)  # type: ignore[method-assign]

    def events(self) -> list[tuple[str, ...]]:
        found = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [tuple(str(each.get(name, "")) for name in ("event", "peer", "kind")) for each in found]


PHASES = [
    pytest.param("waits for the steward", marks=pytest.mark.long),
    pytest.param("preparing", marks=pytest.mark.long),
    "running",
    pytest.param("writing results", marks=pytest.mark.long),
]


@pytest.fixture(autouse=True)
def settles_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is alone in the end waits less long for others to acknowledge what they know already."""
    monkeypatch.setattr("sudare.consortium.node._SETTLE_SECONDS", 3.0)


@pytest.mark.parametrize("phase", PHASES)
def test_a_node_that_is_told_to_stop_says_farewell_and_goes_on_later(phase: str, tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    if phase == "waits for the steward":
        members[2] = replace(members[2], policy=replace(members[2].policy, approval=frozenset({"learning"})))
    hub = LocalHub()
    others = [Running.started(member, hub) for member in members[:2]]
    west = Running.started(members[2], hub, phase, lambda: all("west" in other.node.peers.present for other in others))
    west.thread.join()
    assert west.interrupted
    assert west.events()[-1][0] == "stopped"
    # Whoever has its results needs this member no more, and may have stopped.
    for other in others if phase != "writing results" else ():
        until(lambda other=other: ("disconnected", "west", "farewell") in other.events())
    assert json.loads((members[2].state_folder / STATES).read_text())["process"] is None
    assert present_members(members[2]) is None
    if phase == "waits for the steward":
        agreement = members[2].agreement()
        Approvals(members[2].state_folder).decide(agreement, agreement.task("risk"), "approved", "")
    again = Running.started(members[2], hub)
    for each in (*others, again):
        each.thread.join()
        assert each.node.task_runs["risk"].state == "finished", each.node.task_runs["risk"].error
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [1.0] * 3
    models = [Release.load(member.folder / "results/risk/model.sudare", TRUSTED) for member in members]
    assert len({model.content.digest() for model in models}) == 1


@pytest.mark.long
def test_a_node_that_is_told_to_stop_while_it_waits_or_when_all_is_done_says_farewell(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub = LocalHub()
    east, north = (Running.started(member, hub) for member in members[:2])
    waiting = node_of(members[2], hub)
    waiting.transport = InterruptedTransport(
        waiting.transport, lambda: all("west" in other.node.peers.present for other in (east, north))
    )
    with pytest.raises(KeyboardInterrupt):
        waiting.run(stay=True, most_seconds=100.0)
    waiting.transport.close()
    until(lambda: ("disconnected", "west", "farewell") in east.events())
    settling = Running.started(members[2], hub, "finished")
    for each in (east, north, settling):
        each.thread.join()
        assert each.node.task_runs["risk"].state == "finished"
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [1.0] * 3


@pytest.mark.long
def test_a_service_that_is_stopped_is_known_to_be_so_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between processes, through a relay: the farewell comes although the line is closed right after it."""
    pytest.importorskip("nvflare")
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", "only for these tests")
    for member in founded(tmp_path, RISK):
        IDENTITIES[member.name].save(member.key_path, b"only for these tests")
    port = free_port()
    write_kits(tmp_path / "kits", "localhost", NAMES)
    program = [sys.executable, "-c", "from sudare.cli.main import app; app()"]
    relay = [*program, "relay", "--kit", "kits/relay", "--listen", f"localhost:{port}"]
    started = [subprocess.Popen(relay, cwd=tmp_path, stderr=subprocess.DEVNULL)]
    try:
        for name in NAMES[:2]:
            options = ["--member", f"{name}/member.toml", "--kit", f"kits/{name}", "--relay", f"localhost:{port}"]
            started.append(subprocess.Popen([*program, "node", *options, "--log", f"{name}.log"], cwd=tmp_path))
        log = tmp_path / "east.log"
        until(lambda: log.exists() and '"connected","peer":"north"' in log.read_text())
        started[2].send_signal(signal.SIGTERM)
        assert started[2].wait(100) == 0
        until(lambda: '"disconnected","peer":"north","kind":"farewell"' in log.read_text())
        started[0].kill()
        until(lambda: '"relay-lost"' in log.read_text())
        started[0] = subprocess.Popen(relay, cwd=tmp_path, stderr=subprocess.DEVNULL)
        until(lambda: log.read_text().count('"relay-reached"') == 2)
    finally:
        for each in started:
            each.kill()
            each.wait()

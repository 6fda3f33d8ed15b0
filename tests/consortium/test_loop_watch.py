"""A node whose ledger another program holds, or whose loop stands still, says so, and goes on once it can."""

from __future__ import annotations

import io
import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium.health_endpoint import HealthEndpoint
from sudare.consortium.ledger_rollback import remembered_head
from sudare.consortium.loop_watch import UNHEALTHY_SECONDS
from sudare.consortium.node_control_files import states_of
from sudare.errors import LedgerMissing
from tests.consortium.clinics import founded, node_of, run_together
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)


@contextmanager
def held(member: Member) -> Iterator[None]:
    """The member's ledger is held, as a backup or a shell of SQLite does."""
    database = sqlite3.connect(member.folder / "ledger.db", isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        database.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.node.LOOP_LEDGER_SECONDS", 0.05)
    monkeypatch.setattr("sudare.consortium.loop_watch._ASK_AGAIN_SECONDS", 0.2)


def answer(endpoint: HealthEndpoint) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/health", timeout=10) as found:
            return found.status, json.loads(found.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_loop_that_stands_still_is_told_with_503(tmp_path: Path) -> None:
    member, now = founded(tmp_path, RISK)[0], [0.0]
    node = node_of(member, LocalHub())
    node.clock = lambda: now[0]
    node._poll(stay=True)
    endpoint = HealthEndpoint(0, node.health)
    try:
        now[0] = UNHEALTHY_SECONDS
        status, facts = answer(endpoint)
        assert (status, facts["turned_seconds_ago"], facts["problem"]) == (200, UNHEALTHY_SECONDS, None)
        now[0] += 1.0
        status, facts = answer(endpoint)
        assert (status, facts["turned_seconds_ago"]) == (503, 31.0)
        assert "has not turned for 31 s" in facts["problem"]
        assert "ledger" not in facts["problem"]
        with held(member):
            assert "another process holds the ledger" in answer(endpoint)[1]["problem"]
        node._poll(stay=True)
        assert answer(endpoint)[0] == 200
    finally:
        endpoint.close()
        node.transport.close()


@pytest.mark.usefixtures("quick")
def test_a_ledger_that_another_program_holds_keeps_a_task_waiting_and_the_loop_turning(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub, log, told = LocalHub(), io.StringIO(), []
    nodes = [node_of(members[0], hub, log), *(node_of(member, hub) for member in members[1:])]
    node, now = nodes[0], [0.0]
    node.tell, node.clock = told.append, lambda: now[0]
    with held(members[0]):
        node.ask("risk")
        for _ in range(8):
            now[0] += 5.0
            node._poll(stay=True)
            assert node.health()["turned_seconds_ago"] == 0.0
        assert node.task_runs["risk"].state == states_of(members[0])["risk"]["state"] == "waits for the ledger"
        assert "held the ledger for 35 s" in node.health()["problem"]
    (of_ledger,) = [text for text in told if "ledger" in text]
    assert "another process holds the ledger" in of_ledger
    node.clock = time.monotonic
    node._looked_at = node.loop._asks_at = float("-inf")
    run_together(nodes, ["risk"])
    assert {states_of(member)["risk"]["state"] for member in members} == {"finished"}
    assert node.health()["problem"] is None
    events = [json.loads(line)["event"] for line in log.getvalue().splitlines()]
    assert (events.count("ledger-held"), events.count("ledger-free")) == (1, 1)
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [1.0] * 3


@pytest.mark.usefixtures("quick")
def test_the_last_point_of_a_ledger_that_was_held_is_kept_later_and_nobody_is_told_to_make_room(tmp_path: Path) -> None:
    member, told, now = founded(tmp_path, RISK)[0], [], [0.0]
    node = node_of(member, LocalHub())
    node.tell, node.clock = told.append, lambda: now[0]
    member.account(member.agreement())
    before = remembered_head(member)
    with held(member):
        node._remember_head()
    assert remembered_head(member) == before != member.ledger().head()
    assert not any("make room" in text for text in told)
    now[0] += 10.0
    node._poll(stay=True)
    assert remembered_head(member) == member.ledger().head()
    node.transport.close()


@pytest.mark.usefixtures("quick")
def test_a_cancelled_task_leaves_no_fault_behind(tmp_path: Path) -> None:
    member, now = founded(tmp_path, RISK)[0], [0.0]
    node = node_of(member, LocalHub())
    node.clock = lambda: now[0]
    with held(member):
        node.ask("risk")
        node._poll(stay=True)
        assert node.loop.held_since is not None
        node._cancel("risk")
    for _ in range(3):
        now[0] += 10.0
        node._poll(stay=True)
    assert node.health()["problem"] is None
    node.transport.close()


def test_a_ledger_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    node = node_of(member, LocalHub())
    before = remembered_head(member)
    (member.folder / "ledger.db").unlink()
    with pytest.raises(LedgerMissing):
        node._remember_head()
    assert remembered_head(member) == before
    assert not (member.folder / "ledger.db").exists()
    node.transport.close()

"""Faults that an operator meets, told by the nodes of three clinics in words that a person can act on; nothing lost, nothing paid twice.

The table in docs/operations.md names a test for each of them, here or elsewhere.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import itertools
import json
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sudare import files
from sudare.consortium import Agreement, Deadlines, LearningTask, Member, signature_status
from sudare.consortium.certificate_expiry import expiry_lines
from sudare.consortium.health_endpoint import HealthEndpoint
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import ask_running_node, states_of
from sudare.consortium.tasks import task_results
from sudare.errors import AgreementMismatch, NotConnected
from tests.cli.conftest import invoked
from tests.consortium.clinics import founded, node_of, patients, run_together
from tests.consortium.local_transport import LocalHub
from tests.consortium.test_node import staying

RISK = LearningTask("risk", "one-sum", 1.0)
ROOT = Path(__file__).resolve().parents[2]


def run(members: list[Member], log: io.StringIO | None = None) -> dict[str, dict[str, Any]]:
    """How the task stands at each after it was run; `log` is that of the last."""
    hub = LocalHub()
    run_together([node_of(member, hub, log if member is members[-1] else None) for member in members], ["risk"])
    return {member.name: states_of(member).get("risk", {}) for member in members}


def spent(members: list[Member]) -> list[float]:
    return [member.account(member.agreement()).spent().epsilon for member in members]


def full_disk(part: str, after: int, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Whatever is written below a folder with this in its path fails, after so many files that were written there."""
    written = itertools.count()

    def write(path: Path, content: bytes, mode: int = files.PRIVATE_MODE) -> None:
        if part in str(path) and next(written) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        files.write_atomically(path, content, mode)

    for module in modules:
        monkeypatch.setattr(f"sudare.consortium.{module}.write_atomically", write)


@pytest.mark.long
@pytest.mark.parametrize("after", [0, 4])
def test_a_full_disk_at_the_state_stops_the_task_and_it_goes_on_when_there_is_room(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members, log = founded(tmp_path, RISK), io.StringIO()
    with monkeypatch.context() as full:
        full_disk("west/state", after, full, "tasks.checkpoints", "node")
        found = run(members, log)
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert ("not-written", "state") in {(each["event"], each.get("kind")) for each in events}
    assert events[-1]["event"] == "stopped"
    for name in ("east", "north"):
        assert found[name]["error"].startswith("TaskStopped: 'west' stopped the task.")
    assert {each["state"] for each in run(members).values()} == {"finished"}
    assert spent(members) == [1.0] * 3


def test_a_checkpoint_on_a_full_disk_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sudare.consortium.tasks.checkpoints import CheckpointStore
    from sudare.errors import ConsortiumError

    store = CheckpointStore(tmp_path / "state")
    store.save("sum-0", b"before")
    full_disk("state", 0, monkeypatch, "tasks.checkpoints")
    with pytest.raises(ConsortiumError, match=r"No space left on device.*Make room, then run the task again"):
        store.save("sum-0", b"after")
    assert store.load("sum-0") == b"before"


def test_status_is_right_soon_after_a_full_disk_has_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member, now = founded(tmp_path, RISK)[0], [0.0]
    node = node_of(member, LocalHub())
    node.clock = lambda: now[0]
    node._poll(stay=True)
    node.ask("risk")
    with monkeypatch.context() as full:
        full_disk("state", 0, full, "node", "ledger_rollback")
        node._cancel("risk")
        now[0] += 1.0
        node._poll(stay=True)
        assert states_of(member) == {}
    now[0] += 1.0
    node._poll(stay=True)
    # Nothing has changed since but the disk.
    assert states_of(member)["risk"]["state"] == "failed"
    node.transport.close()


def test_a_full_disk_at_the_results_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members, write = founded(tmp_path, RISK), task_results.write_results

    def written(task: Any, activity: Any, here: Any) -> list[Path]:
        if here.member.name == "west":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(task, activity, here)

    with monkeypatch.context() as full:
        full.setattr(task_results, "write_results", written)
        found = run(members)
    assert {name: each["state"] for name, each in found.items()} == dict(
        zip(("east", "north", "west"), ("finished", "finished", "failed"), strict=True)
    )
    assert "results of task 'risk' cannot be written (No space left on device). Make room" in found["west"]["error"]
    again = node_of(members[2], LocalHub())
    monkeypatch.setattr("sudare.consortium.node._SETTLE_SECONDS", 0.1)
    assert again.run(["risk"], most_seconds=60.0)
    assert states_of(members[2])["risk"]["state"] == "finished"
    assert (tmp_path / "west/results/risk/model.sudare").exists()
    assert spent(members) == [1.0] * 3


def test_a_value_that_is_missing_stops_the_task_with_the_column_named_and_nobody_pays(tmp_path: Path) -> None:
    tables = [patients(seed) for seed in range(3)]
    tables[2].loc[5, "age"] = float("nan")
    members = founded(tmp_path, RISK, tables=tables)
    found = run(members)
    assert "MissingValue: Column 'age' lacks a value" in found["west"]["error"]
    assert {found[name]["error"].partition(":")[0] for name in ("east", "north")} == {"TaskStopped"}
    assert spent(members) == [0.0] * 3


def test_a_task_that_one_member_stopped_goes_on_at_all_once_that_member_runs_it_again(tmp_path: Path) -> None:
    """Whoever else asks again before is told once more, and nobody has to ask in the same moment as the others."""
    tables = [patients(seed) for seed in range(3)]
    tables[2].loc[5, "age"] = float("nan")
    members = founded(tmp_path, RISK, tables=tables)
    hub = LocalHub()
    nodes = {member.name: node_of(member, hub) for member in members}
    is_over = threading.Event()

    def check_stop() -> None:
        if is_over.is_set():
            raise KeyboardInterrupt

    def work(node: Node) -> None:
        node.check_stop = check_stop
        with contextlib.suppress(KeyboardInterrupt):
            node.run(stay=True, most_seconds=200.0)
        node.transport.close()

    def wait_for(state: str) -> None:
        """Until the task, begun again or not, is so at all."""
        for _ in range(1000):
            runs = [node.task_runs.get("risk") for node in nodes.values()]
            if all(each is not None and each.state == state for each in runs):
                return
            time.sleep(0.1)
        raise AssertionError([each and (each.state, str(each.error)) for each in runs])

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes.values()]
    for thread in threads:
        thread.start()
    try:
        ask_running_node(members[0], "risk")
        wait_for("failed")
        first = nodes["east"].task_runs["risk"]
        ask_running_node(members[0], "risk")
        while nodes["east"].task_runs.get("risk") is first:
            time.sleep(0.05)
        wait_for("failed")
        patients(2).to_csv(tmp_path / "west/patients.csv", index=False)
        ask_running_node(members[2], "risk")
        wait_for("finished")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert spent(members) == [1.0] * 3


def test_a_task_goes_on_once_a_member_that_was_away_too_long_runs_it_again(tmp_path: Path) -> None:
    """That the others had given up is what it hears first; it is the past."""
    members, hub = founded(tmp_path, RISK, deadlines=Deadlines(2.0, 300.0)), LocalHub()

    def until(*expected: str) -> None:
        for _ in range(600):
            found = [states_of(member).get("risk", {}).get("state") for member in members]
            if found[: len(expected)] == list(expected):
                return
            time.sleep(0.1)
        raise AssertionError([states_of(member).get("risk") for member in members])

    with staying(*(node_of(member, hub) for member in members[:2])):
        with staying(node_of(members[2], hub)):
            time.sleep(2.0)
        ask_running_node(members[0], "risk")
        until("failed", "failed")
        with staying(node_of(members[2], hub)):
            # It hears of the task from who asked for it, and that both have given up.
            until("failed", "failed", "failed")
            ask_running_node(members[2], "risk")
            until("finished", "finished", "finished")
    assert spent(members) == [1.0] * 3


@pytest.mark.long
@pytest.mark.parametrize("value", [1e300, -1e308, float("inf")])
def test_huge_values_count_as_the_declared_bounds(value: float, tmp_path: Path) -> None:
    tables = [patients(seed) for seed in range(3)]
    tables[2].loc[5, "age"] = value
    members = founded(tmp_path, RISK, tables=tables)
    assert {each["state"] for each in run(members).values()} == {"finished"}
    assert spent(members) == [1.0] * 3


def test_a_clock_that_steps_by_a_day_while_a_task_runs_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deadlines are counted by a clock that cannot be set; times of day are for people to read."""
    days = itertools.count()

    def stepping() -> str:
        now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=next(days))
        return now.isoformat(timespec="seconds")

    monkeypatch.setattr("sudare.privacy.ledger._now", stepping)
    members = founded(tmp_path, RISK)
    assert {each["state"] for each in run(members).values()} == {"finished"}
    assert spent(members) == [1.0] * 3
    for member in members:
        times = [entry.time for entry in member.ledger().entries()]
        assert times == sorted(times, reverse=True)
        member.ledger().verify([])


@pytest.mark.parametrize("days", [-1, 1])
def test_a_kit_opens_the_line_where_a_clock_is_a_day_wrong_and_else_the_clock_is_asked_about(
    days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography import x509

    kit = write_kits(tmp_path / "kits", "localhost", ["east"])[1]
    certificate = x509.load_pem_x509_certificate((kit / "startup/client.crt").read_bytes())
    wrong = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    assert certificate.not_valid_before_utc < wrong < certificate.not_valid_after_utc
    assert expiry_lines(kit, "client") == []
    early = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=9)
    (line,) = expiry_lines(kit, "client", early)
    assert "is not valid before" in line
    assert "clock" in line


def test_an_agreement_that_was_changed_after_it_was_signed_is_not_worked_under(tmp_path: Path) -> None:
    members, told = founded(tmp_path, RISK), []
    running = node_of(members[0], LocalHub())
    running.tell = told.append
    path = tmp_path / "agreement.toml"
    path.write_text(path.read_text().replace("epsilon = 1.0", "epsilon = 2.0"))
    changed = Agreement.load(path)
    assert not signature_status(changed, members[0].statements()).is_in_force
    with pytest.raises(AgreementMismatch, match="sign"):
        node_of(members[1], LocalHub())
    shown = invoked("status", "--member", tmp_path / "east/member.toml")
    assert "not in force: no signature that counts by east, north, west" in " ".join(shown.stdout.split())
    # The node that was started under what all signed goes on with that, and says so.
    running._poll(stay=True)
    running._looked_at = float("-inf")
    running._poll(stay=True)
    assert [text for text in told if "agreement's file was changed" in text] == [
        f"the agreement's file was changed: this node goes on with what all have signed ({running.agreement.digest[:12]}), until it is started again"
    ]
    assert running.agreement.task("risk").cost[0] == 1.0


def test_a_health_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(NotConnected, match=rf"cannot listen on port {port} .*Choose another port"):
            HealthEndpoint(port, dict)


def documented_rows() -> list[str]:
    text = (ROOT / "docs/operations.md").read_text("utf-8")
    table = text.partition("## When something goes wrong")[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_every_fault_of_the_documented_table_names_a_test_that_exists() -> None:
    rows = documented_rows()
    assert len(rows) >= 14
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert re.search(rf"def {test}\(", (ROOT / file).read_text("utf-8")), (file, test)


def test_every_fault_has_a_row() -> None:
    text = " ".join(documented_rows()).lower()
    for fault in (
        "sigterm", "killed", "relay", "never comes", "clock", "ledger", "state", "results", "two nodes", "schema", "missing",
        "huge", "port", "certificate", "agreement changed",
    ):  # fmt: skip
        assert fault in text, fault

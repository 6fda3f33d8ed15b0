"""A relay that collects, and nodes of three clinics: tasks with sums and without, what it refuses, what ends it, and the same between processes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sudare.consortium import DictionaryTask, Identity, LearningTask, Member, ModelsTask, Revocation, Statements, Task
from sudare.consortium.agreement.agreement import Deadlines
from sudare.consortium.agreement.signed_statements import now
from sudare.consortium.collector_node import RelayNode, relay_task_folder
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.message_dispatch import STOP, Envelope
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node_control_files import ask_running_node, states_of
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.relay_sum_collector import RelayedSums
from sudare.consortium.tasks.release_exchange import FETCH, RELEASE, WITHDRAW
from sudare.consortium.tasks.sum_participant import SUM
from sudare.consortium.tasks.task_activities import activity_of
from sudare.errors import AgreementMismatch, IdentityError, InvalidParameter, KeyRevoked
from sudare.privacy.release import audited, read
from sudare.schema import Schema
from sudare.sums.context import RELAY_NAME
from tests.consortium.clinics import IDENTITIES, NAMES, SCHEMA, founded, node_of, patients, run_together
from tests.consortium.local_transport import LocalHub
from tests.e2e.test_walkthrough import free_port

RELAY = Identity.generated()
RISK = LearningTask("risk", "one-sum", 1.0)
MODELS = ModelsTask("models", "PrivateLogisticRegression", 1.0)
NUMBERS = Schema({name: SCHEMA.columns[name] for name in ("age", "pressure", "ill")})
TASKS: tuple[Task, ...] = (
    MODELS,
    DictionaryTask("patterns", 2, True, parameters={"family": "diagonal_gaussian", "search": False, "max_iter": 3}),
    RISK,
)
PASSPHRASE = "only for these tests"


def clinics(folder: Path, *tasks: Task) -> list[Member]:
    tables = [patients(seed, rows=150).drop(columns="smoker") for seed in range(3)]
    return founded(folder, *tasks, schema=NUMBERS, tables=tables, relay=RELAY)


def relay_of(folder: Path, identity: Identity = RELAY, **given: object) -> RelayNode:
    log = EventLog(io.StringIO(), RELAY_NAME)
    return RelayNode(folder / "agreement.toml", identity, folder / "relay-state", log, **given)  # type: ignore[arg-type]


@contextmanager
def running(relay: RelayNode, hub: LocalHub) -> Iterator[None]:
    """The relay in a thread, to the end of the block."""
    is_over, transport = threading.Event(), hub.join(RELAY_NAME)
    thread = threading.Thread(target=relay.run, args=(transport, is_over.is_set))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        transport.close()


def check_results(members: list[Member]) -> None:
    results = [member.folder / "results" for member in members]
    assert len({audited(read(result / "risk/model.sudare")).content.digest() for result in results}) == 1
    dictionaries = [json.loads((result / "patterns/dictionary.json").read_text()) for result in results]
    patterns = [each["patterns"] for each in dictionaries]
    assert {each["guarantee"]["towards"] for each in dictionaries} == {members[0].agreement().sums_seen_by}
    entries = [entry for member in members for entry in member.account(member.agreement()).entries()]
    seen_by = [entry.body["guarantee"]["towards"] for entry in entries if entry.kind == "disclosure"]
    assert seen_by == ["the 3 members of clinics and the relay"] * 3
    assert patterns[0] == patterns[1] == patterns[2]
    assert {member.account(member.agreement()).spent().epsilon for member in members} == {2.0}


def test_tasks_with_and_without_sums_end_with_the_same_at_every_member(tmp_path: Path) -> None:
    members, hub = clinics(tmp_path, *TASKS), LocalHub()
    said: list[str] = []
    relay = relay_of(tmp_path, tell=said.append)
    with running(relay, hub):
        nodes = [node_of(member, hub) for member in members]
        run_together(nodes, [task.name for task in TASKS])
    check_results(members)
    # The relay counts as no member; others may have said farewell already.
    assert nodes[0].health()["present"] <= 3
    # It takes part in sums only.
    assert set(relay.tasks) == {"patterns", "risk"}
    assert relay.health()["sums"].keys() == {"patterns", "risk"}
    # Where a task stands is said as well, if that lasts on a slow machine.
    begun = sorted(line for line in said if line.startswith("collecting"))
    assert begun == ["collecting the sums of task 'patterns'", "collecting the sums of task 'risk'"]
    assert {each.parent.name for each in (tmp_path / "relay-state").rglob("keys")} == {"patterns", "risk"}


def test_tasks_that_nobody_speaks_of_are_not_kept_in_memory(tmp_path: Path) -> None:
    members, hub = clinics(tmp_path, RISK), LocalHub()
    relay = relay_of(tmp_path)
    with running(relay, hub):
        run_together([node_of(member, hub) for member in members], ["risk"])
    task, present = relay.tasks["risk"], frozenset(NAMES)
    before, last = task.situation(present), task._heard_at
    task.tick(last + 59.0, present)
    assert (task.finished, relay.dispatcher.is_working) == (False, True)
    task.tick(last + 61.0, present)
    assert (task.finished, relay.dispatcher.is_working, task._sums) == (True, False, {})
    assert task.situation(present) == before
    # Without the lock: another process could collect with this store.
    assert CheckpointStore(relay_task_folder(tmp_path / "relay-state", relay.agreement, "risk")).opened_alone()
    # A word of the task lets it be read again, and nothing is sent that was sent before.
    assert task.receive("east", Envelope("risk", SUM, task.iteration, 0, b"late"), last + 100.0)
    assert (task.finished, sorted(task._sums)) == (False, [task.iteration - 1, task.iteration])
    assert task.posts() == []
    assert task.failure is None
    assert task.situation(present) == before


@pytest.mark.long
def test_sums_go_on_where_the_relay_rests_after_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.tasks.relay_sum_collector._REST_SECONDS", 0.0)
    members, hub = clinics(tmp_path, *TASKS), LocalHub()
    with running(relay_of(tmp_path), hub):
        run_together([node_of(member, hub) for member in members], [task.name for task in TASKS])
    check_results(members)


@pytest.mark.long
def test_a_member_that_never_came_online_is_left_out_after_a_deadline(tmp_path: Path) -> None:
    tables = [patients(seed, rows=150).drop(columns="smoker") for seed in range(3)]
    members = founded(
        tmp_path, RISK, schema=NUMBERS, tables=tables, relay=RELAY, deadlines=Deadlines(round_seconds=1.0)
    )
    hub = LocalHub()
    with running(relay_of(tmp_path), hub):
        run_together([node_of(member, hub) for member in members[:2]], ["risk"])
    models = [audited(read(each.folder / "results/risk/model.sudare")).content.digest() for each in members[:2]]
    assert len(set(models)) == 1


def test_a_relay_without_its_key_part_or_signatures_is_refused(tmp_path: Path) -> None:
    clinics(tmp_path, RISK)
    for identity in (IDENTITIES["east"], Identity.generated()):
        with pytest.raises(IdentityError, match="not the one that stands for relay"):
            relay_of(tmp_path, identity)
    Statements().save(tmp_path / "agreement.toml")
    with pytest.raises(AgreementMismatch, match="not signed by east"):
        relay_of(tmp_path)
    (tmp_path / "without").mkdir()
    founded(tmp_path / "without", RISK)
    with pytest.raises(InvalidParameter, match="does not let the relay collect"):
        relay_of(tmp_path / "without")


def test_a_key_that_is_revoked_ends_the_collecting(tmp_path: Path) -> None:
    clinics(tmp_path, RISK)
    said: list[str] = []
    relay = relay_of(tmp_path, tell=said.append)
    path = tmp_path / "agreement.toml"
    statements, key = Statements.load(path), IDENTITIES["east"].public_key.hex()
    gone = Revocation(key, now(), "lost").signed_by(IDENTITIES["east"])
    Statements(statements.signatures, (), (gone,)).save(path)
    relay.run(LocalHub().join(RELAY_NAME), lambda: False)
    assert said == [
        "nothing is collected any more: The key of east no longer counts. " + said[0].partition("counts. ")[2]
    ]
    # Nor where an older file is put back, and the relay started again.
    statements.save(path)
    with pytest.raises(KeyRevoked, match="east"):
        relay_of(tmp_path)


def test_a_task_whose_sums_could_not_be_collected_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinics(tmp_path, RISK)
    said: list[str] = []
    clock = iter(range(0, 1_000_000, 16))
    relay = relay_of(tmp_path, tell=said.append, clock=lambda: float(next(clock)))
    relay._start("risk", 0.0)
    first = relay.tasks["risk"]
    monkeypatch.setattr(RelayedSums, "_look_around", lambda *_: 1 / 0)
    first.tick(1.0, frozenset())
    monkeypatch.undo()
    assert {receiver for receiver, envelope in first.posts() if envelope.kind == STOP} == set(NAMES)
    assert first.receive("east", Envelope("risk", "ask"), 1.0)
    assert first.posts() == [("east", Envelope("risk", STOP))]
    relay.run(LocalHub().join(RELAY_NAME), lambda: relay.tasks["risk"] is not first)
    assert relay.tasks["risk"].failure is None
    assert "ZeroDivisionError" in said[1]


def test_a_relay_says_what_it_does_and_once_what_a_task_waits_for(tmp_path: Path) -> None:
    clinics(tmp_path, RISK)
    said: list[str] = []
    times = iter(range(1_000_000))
    relay = relay_of(tmp_path, tell=said.append, clock=lambda: float(next(times)))
    assert "collects the sums of clinics (" in relay.introduction
    assert "tasks risk; 2 of 3 members are needed" in relay.introduction
    assert str(tmp_path / "relay-state") in relay.introduction
    relay._start("risk", 0.0)
    for _ in range(20):
        assert not relay._poll()
    assert said == [
        "collecting the sums of task 'risk'",
        "risk: the first sum waits until 1 of 3 members ask for the same; so far: nobody.",
    ]


# What a relay cannot do


def test_a_relay_starts_no_task_and_stops_no_exchange_of_releases(tmp_path: Path) -> None:
    members, hub = clinics(tmp_path, *TASKS), LocalHub()
    node = node_of(members[0], hub)
    environment = node._environment
    assert set(environment.signing_keys) == set(NAMES)
    exchange = activity_of(MODELS, environment)
    exchange.begin(0.0)
    exchange.posts()
    for envelope in (
        Envelope("models", STOP),
        Envelope("models", WITHDRAW),
        Envelope("models", FETCH),
        Envelope("models", RELEASE, body=b"x"),
        Envelope("models", "noise", body=b"x"),
    ):
        assert exchange.receive(RELAY_NAME, envelope, 1.0)
    assert exchange.failure is None
    assert not exchange.posts()
    node.dispatcher._held = {"risk": {1: (type("Delivery", (), {"sender": RELAY_NAME})(), Envelope("risk", "sum"))}}
    assert node.dispatcher.wanted(node.agreement.member_names) == frozenset()
    assert node.dispatcher.wanted([RELAY_NAME]) == {"risk"}


# Between processes


@pytest.mark.long
@pytest.mark.parametrize("is_killed", [False, True], ids=["all is well", "the relay is killed and restarted"])
def test_the_same_between_processes_with_flare(tmp_path: Path, is_killed: bool) -> None:
    pytest.importorskip("nvflare")
    tables = [patients(seed, rows=150).drop(columns="smoker") for seed in range(3)]
    members = founded(tmp_path, *TASKS, schema=NUMBERS, tables=tables, relay=RELAY)
    for member in members:
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        text = (member.folder / "member.toml").read_text()
        (member.folder / "member.toml").write_text(text + "\n[policy]\napproval = []\n")
    RELAY.save(tmp_path / "relay.pem", PASSPHRASE.encode())
    write_kits(tmp_path / "kits", "localhost", NAMES, RELAY_NAME)
    address = f"localhost:{free_port()}"
    sudare = [sys.executable, "-c", "from sudare.cli.main import app; app()"]
    collects = ["--agreement", "agreement.toml", "--key", "relay.pem", "--state", "relay-state"]
    relay = [*sudare, "relay", "--kit", "kits/relay", "--listen", address, *collects]
    processes: list[subprocess.Popen[bytes]] = []

    def start(program: list[str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SUDARE_PASSPHRASE": PASSPHRASE}
        with open(tmp_path / "processes.log", "ab") as log:
            processes.append(subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=log, stderr=log))
        return processes[-1]

    try:
        collecting = start(relay)
        for name in NAMES:
            place = ["--member", f"{name}/member.toml", "--kit", f"kits/{name}", "--relay", address]
            start([*sudare, "node", *place])
        for task in TASKS:
            ask_running_node(members[0], task.name)
            end = time.monotonic() + 600.0
            while not all(states_of(each).get(task.name, {}).get("state") == "finished" for each in members):
                assert time.monotonic() < end, (tmp_path / "processes.log").read_text()
                if is_killed and list((tmp_path / "relay-state").rglob("sum-1")):
                    is_killed = False
                    collecting.kill()
                    collecting.wait()
                    collecting = start(relay)
                time.sleep(0.05)
        check_results(members)
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()

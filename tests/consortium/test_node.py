"""Nodes of three clinics in one process: tasks of every kind, the steward's say, ledgers, health."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy

from sudare.consortium import (
    Approvals,
    CensusTask,
    DictionaryTask,
    LearningTask,
    ModelsTask,
    ScalerTask,
)
from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.approvals import permit
from sudare.consortium.agreement.member_settings import Data, Member
from sudare.consortium.health_endpoint import HealthEndpoint
from sudare.consortium.network.message_dispatch import Envelope, drive
from sudare.consortium.node import Node
from sudare.consortium.node_connection import transport_of
from sudare.consortium.node_control_files import ask_running_node, present_members, states_of
from sudare.consortium.node_metrics import node_metrics
from sudare.consortium.node_restart_on_change import tasks_under_way
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.definitions import Task
from sudare.consortium.tasks.sum_script_runner import SumRunner
from sudare.consortium.tasks.task_account import Permission
from sudare.consortium.tasks.task_activities import activity_of
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.errors import ConsortiumError, InvalidParameter, LedgerRolledBack, NotApproved, TaskStopped
from sudare.files import held_alone
from sudare.frames import read
from sudare.privacy import Guarantee
from sudare.privacy.accounting import pure_cost
from sudare.privacy.release import Release
from sudare.schema import Person, Schema
from tests.consortium.clinics import IDENTITIES, NAMES, SCHEMA, founded, node_of, patients, run_together
from tests.consortium.local_transport import LocalHub

PATTERNS = DictionaryTask(
    "patterns", 2, consent=True, parameters={"family": "diagonal_gaussian", "search": False, "max_iter": 3}
)
RISK = LearningTask("risk", "one-sum", 1.0)
SCALES = ScalerTask("scales", 1.0)
MODELS = ModelsTask("models", "PrivateLogisticRegression", 2.0)
CENSUS = CensusTask("census", ("age", "smoker"), 4.0)


TRUSTED = [identity.signing_key.public_key() for identity in IDENTITIES.values()]


def test_a_consortium_wide_model_is_the_same_at_all_and_charged_at_each(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK, SCALES)
    nodes = [node_of(member, hub) for hub in [LocalHub()] for member in members]
    run_together(nodes, ["risk", "scales"])
    for name in ("risk/model.sudare", "scales/scaler.sudare"):
        releases = [Release.load(member.folder / "results" / name, TRUSTED) for member in members]
        assert len({release.content.digest() for release in releases}) == 1
        assert all(release.guarantee.epsilon == 1.0 for release in releases)
        assert len({release.receipt.ledger for release in releases}) == 3
    for member in members:
        account = member.account(member.agreement())
        assert account.spent().epsilon == 2.0
    model = Release.load(members[0].folder / "results/risk/model.sudare", TRUSTED).model()
    table = read(patients(9), schema=SCHEMA)
    assert np.mean(model.predict(table) == SCHEMA.decode_label(SCHEMA.encode_target(table))) > 0.7


def test_a_dictionary_is_disclosed_before_it_is_trained(tmp_path: Path) -> None:
    schema = type(SCHEMA)({"age": SCHEMA.columns["age"], "pressure": SCHEMA.columns["pressure"]})
    members = founded(tmp_path, PATTERNS, schema=schema)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["patterns"])
    found = [json.loads((member.folder / "results/patterns/dictionary.json").read_text()) for member in members]
    assert found[0]["patterns"] == found[1]["patterns"] == found[2]["patterns"]
    for member in members:
        entries = member.account(member.agreement()).entries()
        assert [entry.kind for entry in entries if entry.kind in ("charge", "disclosure")] == ["disclosure"]


WEAR = DictionaryTask(
    "wear", 2, epsilon=2.0, delta=1e-6, parameters={"family": "diagonal_gaussian", "private_iterations": 2}
)


def test_a_private_dictionary_is_charged_and_not_disclosed_and_has_a_card(tmp_path: Path) -> None:
    """Three members, no consent."""
    members = founded(tmp_path, WEAR)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["wear"])
    found = [json.loads((member.folder / "results/wear/dictionary.json").read_text()) for member in members]
    assert found[0]["patterns"] == found[1]["patterns"] == found[2]["patterns"]
    for member, document in zip(members, found, strict=True):
        account = member.account(member.agreement())
        charge, kinds = account.entries()[-1], [entry.kind for entry in account.entries()]
        assert kinds == ["open", "charge"]
        assert (charge.body["guarantee"]["epsilon"], charge.body["guarantee"]["delta"]) == (2.0, 1e-6)
        assert charge.body["purpose"].startswith(f"task 'wear' of agreement {member.agreement().digest[:16]}, run ")
        assert document["guarantee"] == charge.body["guarantee"]
        assert document["receipt"]["hash"] == charge.hash
        assert document["sums"] == 4
        card = (member.folder / "results/wear/card.txt").read_text()
        assert "28 noisy totals in 3 sums" in card
        assert "ε = 2.0, δ = 1e-6: moderate" in card
        assert "3, each with a share of the noise; 2 of the shares may be known" in card
        assert "own_weights" in card
        assert f"account “{member.account_name}”, entry {charge.position}" in card
        assert "from “age”, “pressure”" in card
        assert states_of(member)["wear"]["files"] == ["results/wear/dictionary.json", "results/wear/card.txt"]


def test_tasks_that_were_over_are_told_after_a_restart(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    told = states_of(members[0])
    again = node_of(members[0], LocalHub())
    again.run(stay=True, most_seconds=0.1)
    again._write_states()
    assert states_of(members[0]) == told
    path = members[0].state_folder / "node.json"
    path.write_text(path.read_text().replace('"finished"', '"running"'))
    again._write_states()
    assert states_of(members[0]) == {}


def test_who_cannot_pay_for_a_private_dictionary_stops_it_for_all_and_nobody_pays(tmp_path: Path) -> None:
    members = founded(tmp_path, WEAR)
    poor = members[1].account(members[1].agreement())
    poor.charge(Guarantee(9.0), pure_cost(9.0), "something else")
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["wear"])
    states = {member.name: states_of(member)["wear"] for member in members}
    assert {state["state"] for state in states.values()} == {"failed"}
    assert states["north"]["error"].startswith("BudgetExceeded: pattern dictionary of 3 members asks for ε = 2")
    assert [states[name]["error"].split(":")[0] for name in ("east", "west")] == ["TaskStopped", "TaskStopped"]
    spent = [member.account(member.agreement()).spent().epsilon for member in members]
    assert spent == [0.0, 9.0, 0.0]


def test_a_private_dictionary_keeps_no_more_rows_of_a_person_than_agreed(tmp_path: Path) -> None:
    schema = Schema(
        {"age": SCHEMA.columns["age"], "pressure": SCHEMA.columns["pressure"]}, Person("patient", most_rows=2)
    )
    tables = [patients(seed, rows=60).assign(patient=np.arange(60) // 2) for seed in range(3)]
    members = founded(tmp_path, WEAR, schema=schema, tables=tables)
    place = node_of(members[0], LocalHub())._environment
    runner = activity_of(WEAR, place)
    assert isinstance(runner, SumRunner)
    private = runner._script._private
    assert (private.rows_per_unit, private.colluders, private.iterations) == (2, 2, 2)
    assert runner._script._entrance._guarantee.unit == "person"
    tables[0].assign(patient=np.arange(60) // 3).to_csv(members[0].folder / "patients.csv", index=False)
    again = [activity_of(WEAR, place)._script._records for _ in range(2)]
    assert [records.rows for records in again] == [40, 40]
    # A member that starts again sends sums over the same rows.
    first, second = (records.of_blocks(lambda block: block.tolist()) for records in again)
    assert first == second
    assert [entry.kind for entry in place.account.entries()] == ["open"]


@pytest.mark.parametrize("task", [PATTERNS, WEAR], ids=["exact", "private"])
def test_a_dictionary_of_records_in_a_database(task: DictionaryTask, tmp_path: Path) -> None:
    members = founded(tmp_path, task)
    table, address = patients(0, rows=50), f"sqlite:///{tmp_path / 'clinic.db'}"
    table.to_sql("visits", sqlalchemy.create_engine(address), index=False)
    member = replace(members[0], data=Data(url=address, query="visits"))
    runner = activity_of(task, node_of(member, LocalHub())._environment)
    assert isinstance(runner, SumRunner)
    _, words = runner._script.begun()
    assert ADDENDS.decode(words).tolist() == [50 / 2**32]


def test_models_are_published_verified_and_combined(tmp_path: Path) -> None:
    members = founded(tmp_path, MODELS)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["models"])
    for member in members:
        folder = member.folder / "results/models"
        assert sorted(path.name for path in folder.glob("*.sudare")) == [
            *(f"{name}.sudare" for name in NAMES[:2]),
            "own.sudare",
            "west.sudare",
        ]
        weights = json.loads((folder / "combination.json").read_text())["weights"]
        assert set(weights) == set(NAMES)
        assert sum(weights.values()) == pytest.approx(1.0)
        assert member.account(member.agreement()).spent().epsilon == 2.0
    files = {(member.folder / "results/models/east.sudare").read_bytes() for member in members}
    assert len(files) == 1


def test_a_withdrawn_model_is_forgotten_by_all_and_stays_paid(tmp_path: Path) -> None:
    members = founded(tmp_path, MODELS)
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    waiting = threading.Event()

    def stay(node: Node) -> None:
        drive(node.dispatcher, node.transport, lambda: node._poll(stay=True) or waiting.is_set(), 120.0)

    threads = [threading.Thread(target=stay, args=(node,)) for node in nodes]
    nodes[0].ask("models")
    for thread in threads:
        thread.start()
    until(lambda: all(states_of(member).get("models", {}).get("state") == "finished" for member in members))
    ask_running_node(members[1], "models", withdraw=True)
    until(lambda: not any((member.folder / "results/models/north.sudare").exists() for member in members))
    until(lambda: all("north" not in combination(member) for member in (members[0], members[2])))
    waiting.set()
    for thread in threads:
        thread.join()
    assert members[1].account(members[1].agreement()).spent().epsilon == 2.0


def test_a_release_that_is_to_be_withdrawn_is_so_after_a_restart(tmp_path: Path) -> None:
    """It is asked for while the task waits for another member, and the node ends before that one has come."""
    members = founded(tmp_path, MODELS)
    hub = LocalHub()
    with staying(*(node_of(member, hub) for member in members[:2])):
        ask_running_node(members[0], "models", withdraw=True)
        until(lambda: {state_at(member, "models") for member in members[:2]} == {"running"})
        until(lambda: not list((members[0].state_folder / "requests").iterdir()))
    with staying(*(node_of(member, hub) for member in members)):
        until(lambda: {state_at(member, "models") for member in members} == {"finished"})
        until(lambda: not any((member.folder / "results/models/east.sudare").exists() for member in members))
        until(lambda: "withdrawing" not in states_of(members[0])["models"])
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [2.0] * 3


def release_at(member: Member) -> Path:
    """Where a member has the first one's release."""
    return member.folder / "results/models/east.sudare"


def test_a_release_is_deleted_also_by_nodes_that_were_started_since_the_task_ended(tmp_path: Path) -> None:
    """They wrote the other results anew, and left the file that the process before them had written."""
    members = founded(tmp_path, MODELS)
    hub = LocalHub()
    logs = [io.StringIO() for _ in members]
    with staying(node_of(members[0], hub, logs[0])):
        with staying(*(node_of(member, hub) for member in members[1:])):
            ask_running_node(members[0], "models")
            until(lambda: {state_at(member, "models") for member in members} == {"finished"})
        with staying(*(node_of(member, hub, log) for member, log in zip(members[1:], logs[1:], strict=True))):
            ask_running_node(members[0], "models", withdraw=True)
            until(lambda: not any(release_at(member).exists() for member in members))
            until(lambda: all('"release-withdrawn"' in log.getvalue() for log in logs))
            until(lambda: all("east" not in combination(member) for member in members[1:]))


def test_a_member_that_was_away_learns_of_a_withdrawal_also_from_the_next_life_of_the_node(tmp_path: Path) -> None:
    members = founded(tmp_path, MODELS)
    hub = LocalHub()
    with staying(*(node_of(member, hub) for member in members)):
        ask_running_node(members[0], "models")
        until(lambda: {state_at(member, "models") for member in members} == {"finished"})
    with staying(*(node_of(member, hub) for member in members[:2])):
        ask_running_node(members[0], "models", withdraw=True)
        until(lambda: not any(release_at(member).exists() for member in members[:2]))
        # It is over here, and holds no new version of the agreement back.
        assert states_of(members[0])["models"]["withdrawing"]
        assert not tasks_under_way(members[0], members[0].agreement())
    assert release_at(members[2]).exists()
    with staying(*(node_of(member, hub) for member in members)):
        until(lambda: not release_at(members[2]).exists())
        until(lambda: "withdrawing" not in states_of(members[0])["models"])
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [2.0] * 3


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_node_that_ended_before_it_deleted_a_withdrawn_release_does_so_when_it_is_started_again(
    is_damaged: bool, tmp_path: Path
) -> None:
    members = founded(tmp_path, MODELS)
    hub = LocalHub()
    with staying(*(node_of(member, hub) for member in members)):
        ask_running_node(members[0], "models")
        until(lambda: {state_at(member, "models") for member in members} == {"finished"})
    # It was told and has acknowledged it, and was killed then.
    folder = members[1].task_folder(members[1].agreement(), "models")
    CheckpointStore(folder).save("release-east", b"withdrawn")
    if is_damaged:
        content = (folder / "release-east").read_bytes()
        (folder / "release-east").write_bytes(content[:-1] + b"?")
    with staying(node_of(members[1], hub)):
        if is_damaged:
            until(lambda: present_members(members[1]) is not None)
            assert state_at(members[1], "models") == "finished"
        else:
            until(lambda: not release_at(members[1]).exists())
    assert release_at(members[0]).exists()


def test_a_withdrawal_from_a_sum_is_no_wish_that_is_never_fulfilled(tmp_path: Path) -> None:
    """It was kept for ever, and with it every new version of the agreement was held back."""
    members = founded(tmp_path, RISK)
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    with staying(*nodes):
        ask_running_node(members[0], "risk", withdraw=True)
        until(lambda: {state_at(member, "risk") for member in members} == {"finished"})
        assert nodes[0].task_runs["risk"].is_over
    assert "withdrawing" not in states_of(members[0])["risk"]


def combination(member: Member) -> dict[str, float]:
    return json.loads((member.folder / "results/models/combination.json").read_text())["weights"]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 100.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextlib.contextmanager
def staying(*nodes: Node) -> Iterator[None]:
    """The nodes run, each in a thread of its own, until they are told to stop."""
    is_over = threading.Event()

    def check_stop() -> None:
        if is_over.is_set():
            raise KeyboardInterrupt

    def work(node: Node) -> None:
        node.check_stop = check_stop
        with contextlib.suppress(KeyboardInterrupt):
            node.run(stay=True, most_seconds=200.0)
        node.transport.close()

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def state_at(member: Member, task: str) -> str | None:
    return states_of(member).get(task, {}).get("state")


def test_what_was_begun_goes_on_where_all_nodes_were_stopped_and_started_again(tmp_path: Path) -> None:
    """Nobody is left to remind the others, and what waits for the steward was told to nobody yet."""
    members = founded(tmp_path, RISK, SCALES, approval=frozenset({"scaler"}))
    hub = LocalHub()
    with staying(*(node_of(member, hub) for member in members[:2])):
        ask_running_node(members[0], "risk")
        ask_running_node(members[1], "scales")
        until(lambda: {state_at(member, "risk") for member in members[:2]} == {"running"})
        until(lambda: state_at(members[1], "scales") == "waits for the steward")
    with staying(*(node_of(member, hub) for member in members)):
        until(lambda: {state_at(member, "risk") for member in members} == {"finished"})
        assert state_at(members[1], "scales") == "waits for the steward"
        assert state_at(members[0], "scales") is None
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [1.0] * 3


def test_a_task_that_cannot_begin_here_is_stopped_at_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not wait for its deadline."""
    members, save = founded(tmp_path, MODELS), CheckpointStore.save

    def full(store: CheckpointStore, name: str, content: bytes) -> None:
        if name == "release-west" and "west" in str(store._folder):
            raise ConsortiumError("The state folder cannot be written.", "Make room.")
        save(store, name, content)

    hub = LocalHub()
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", full)
        run_together([node_of(member, hub) for member in members], ["models"])
    assert [state_at(member, "models") for member in members] == ["failed"] * 3
    assert states_of(members[0])["models"]["error"].startswith("TaskStopped: 'west' stopped the task.")
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["models"])
    assert [state_at(member, "models") for member in members] == ["finished"] * 3
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [2.0] * 3


def test_an_unknown_task_or_a_foreign_error_does_not_end_the_node(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    (tmp_path / "west/patients.csv").write_text("not,a,table\n")
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    nodes[0].dispatcher.session.post("north", Envelope("unheard-of", "sum").to_bytes())
    run_together(nodes, ["risk"])
    assert [node.task_runs["risk"].state for node in nodes] == ["failed"] * 3
    assert isinstance(nodes[0].task_runs["risk"].error, TaskStopped)
    (tmp_path / "west/patients.csv").write_text((tmp_path / "east/patients.csv").read_text())
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    run_together(nodes, ["risk"])
    assert [node.task_runs["risk"].state for node in nodes] == ["finished"] * 3


def test_a_census_is_collected_and_reconstructed(tmp_path: Path) -> None:
    members = founded(tmp_path, CENSUS)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["census"])
    found = [json.loads((member.folder / "results/census/census.json").read_text()) for member in members]
    assert found[0] == found[1] == found[2]
    assert found[0]["records"] == 1200
    truth = np.mean([np.mean(patients(seed)["age"]) for seed in range(3)])
    assert abs(found[0]["columns"]["age"]["mean"] - truth) < 10


def test_a_task_waits_for_the_steward_and_others_wait_with_it(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    slow = replace(members[1], policy=replace(members[1].policy, approval=frozenset({"learning"})))
    hub = LocalHub()
    nodes = [node_of(members[0], hub), node_of(slow, hub), node_of(members[2], hub)]

    def approve() -> None:
        approvals, agreement = Approvals(slow.state_folder), slow.agreement()
        while approvals.state(agreement, agreement.task("risk")).state != "pending":
            time.sleep(0.05)
        assert not any((member.folder / "results/risk/model.sudare").exists() for member in members)
        approvals.decide(agreement, agreement.task("risk"), "approved", "")

    steward = threading.Thread(target=approve)
    steward.start()
    run_together(nodes, ["risk"])
    steward.join()
    assert [node.task_runs["risk"].error for node in nodes] == [None] * 3
    assert all(node.task_runs["risk"].state == "finished" for node in nodes)


def test_an_approval_between_the_question_and_the_answer_denies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steward approves just after it was seen that nothing had been decided."""
    members = founded(tmp_path, RISK, approval=frozenset({"learning"}))
    hub, times = LocalHub(), 0

    def approved_meanwhile(member: Member, agreement: Agreement, task: Task) -> Permission:
        nonlocal times
        try:
            return permit(member, agreement, task)
        except NotApproved:
            times += 1
            Approvals(member.state_folder).decide(agreement, task, "approved", "")
            raise

    monkeypatch.setattr("sudare.consortium.agreement.approvals.permit", approved_meanwhile)
    nodes = [node_of(member, hub) for member in members]
    run_together(nodes, ["risk"])
    assert [node.task_runs["risk"].error for node in nodes] == [None] * 3
    assert times == 3


def test_a_denied_task_stops_everywhere_and_only_the_denier_knows_why(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    strict = replace(members[2], policy=replace(members[2].policy, most_epsilon=0.1))
    hub, logs = LocalHub(), [io.StringIO() for _ in members]
    nodes = [node_of(member, hub, log) for member, log in zip([*members[:2], strict], logs, strict=True)]
    run_together(nodes, ["risk"])
    errors = [node.task_runs["risk"].error for node in nodes]
    assert [type(error) for error in errors] == [TaskStopped, TaskStopped, NotApproved]
    assert any(str(error).startswith("'west' stopped the task.") for error in errors[:2])
    for error in errors[:2]:
        # Who hears of the other one first hears that it was not who began.
        assert re.match("'west' stopped the task[.]|'(east|north)' stopped the task, by its word because", str(error))
        assert "0.1" not in str(error)
    for member in members:
        assert member.account(member.agreement()).spent().epsilon == 0
    assert all("policy" not in log.getvalue() for log in logs)


def test_a_node_joins_a_task_that_others_ask_for_or_that_is_requested_beside_it(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    ask_running_node(members[0], "risk")
    run_together(nodes, [])
    assert all(states_of(member)["risk"]["state"] == "finished" for member in members)
    with pytest.raises(InvalidParameter, match="no task"):
        nodes[0]._add_run("other")


def test_an_older_ledger_is_refused_before_anything_is_said(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    ledger = tmp_path / "east" / "ledger.db"
    members[0].account(members[0].agreement())
    old = ledger.read_bytes()
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    ledger.write_bytes(old)
    for beside in ledger.parent.glob("ledger.db-*"):
        beside.unlink()
    with pytest.raises(LedgerRolledBack):
        node_of(members[0], LocalHub())


def test_logs_are_lines_without_data(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub, log = LocalHub(), io.StringIO()
    run_together([node_of(members[0], hub, log), *(node_of(member, hub) for member in members[1:])], ["risk"])
    events = [json.loads(line)["event"] for line in log.getvalue().splitlines()]
    assert {"started", "connected", "task-requested", "task-started", "task-finished", "stopped"} <= set(events)


def test_health_tells_states_and_nothing_else(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    node = node_of(members[0], LocalHub())
    endpoint = HealthEndpoint(0, node.health)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/health", timeout=10) as answer:
            facts = json.loads(answer.read())
        states = {"member", "agreement", "version", "up_seconds", "members", "present", "tasks"}
        assert set(facts) == states | {"dropped", "held_bytes", "relay_reached", "turned_seconds_ago", "problem"}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/results", timeout=10)
        # As a browser asks that a foreign site has told its own name is this machine's.
        for path in ("health", "metrics", "results"):
            rebound = urllib.request.Request(
                f"http://127.0.0.1:{endpoint.port}/{path}", headers={"Host": f"evil.example:{endpoint.port}"}
            )
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(rebound, timeout=10)
        named = urllib.request.Request(f"http://127.0.0.1:{endpoint.port}/health", headers={"Host": "LOCALHOST:9999"})
        assert urllib.request.urlopen(named, timeout=10).status == 200
    finally:
        endpoint.close()


def test_metrics_are_those_that_the_page_on_operations_names(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    run_together(nodes, ["risk"])
    endpoint = HealthEndpoint(0, nodes[0].health, lambda: node_metrics(nodes[0]))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=10) as answer:
            kind, text = answer.headers["Content-Type"], answer.read().decode()
    finally:
        endpoint.close()
    assert kind.startswith("text/plain; version=0.0.4")
    lines = text.splitlines()
    assert {"sudare_node_members 3", "sudare_node_relay_reached 1", "sudare_node_epsilon_left 9"} <= set(lines)
    assert 'sudare_node_tasks{task="risk",state="finished"} 1' in lines
    assert 'sudare_node_rounds_total{task="risk"} 2' in lines
    named = set(
        re.findall(r"`(sudare_node_\w+)`", (Path(__file__).parents[2] / "docs/operations.md").read_text("utf-8"))
    )
    assert set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) == named - {"sudare_node_certificate_days_left"}


def test_a_member_file_without_a_way_to_the_others_says_what_to_add(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    with pytest.raises(InvalidParameter, match="how to reach"):
        transport_of("east", members[0].transport)


def test_killed_between_charge_and_result_a_member_goes_on_without_paying_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = founded(tmp_path, MODELS)
    place = node_of(members[0], LocalHub())._environment

    def killed(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as power_cut:
        power_cut.setattr("sudare.privacy.private_estimator.enter_result", killed)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                activity_of(MODELS, place)
    activity_of(MODELS, place)
    assert [entry.kind for entry in place.account.entries()] == ["open", "charge", "result", "release"]
    # With its release a member can go on, and withdraw it, whatever became of the state.
    shutil.rmtree(members[0].state_folder)
    activity_of(MODELS, place)
    members[0].own_release("models").unlink()
    with pytest.raises(NotApproved, match="run already"):
        activity_of(MODELS, place)
    assert place.account.spent().epsilon == MODELS.epsilon


def test_a_second_node_of_a_member_does_not_run_beside_the_first(tmp_path: Path) -> None:
    """Both would begin the same sum with the same secrets, and whoever collects could open what each hides."""
    member = founded(tmp_path, RISK)[0]
    node = node_of(member, LocalHub())
    with held_alone(member.state_folder / "run.lock") as alone:
        assert alone
        with pytest.raises(InvalidParameter, match="Another node or job of this member"):
            node.run(["risk"], most_seconds=1.0)
    assert node.task_runs == {}
    node.transport.close()

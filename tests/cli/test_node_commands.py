"""`sudare node`, `sudare run` and `sudare relay`: what they ask for, what they refuse, and what a running node is left to do."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.cli.stop_signals import StopSignals
from sudare.consortium import Agreement, Identity, LearningTask, ModelsTask, Relay, Statements
from sudare.consortium.local_socket import SOCKET
from sudare.consortium.network.transport.certificates import collector_kit, common_name, write_kits
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import REQUESTS, STATES
from sudare.errors import ConsortiumError, InvalidParameter, NotApproved, NotConnected
from sudare.files import held_alone
from sudare.sums.context import RELAY_NAME
from tests.cli.conftest import invoked
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of
from tests.consortium.local_transport import LocalHub
from tests.e2e.test_walkthrough import free_port

PASSPHRASE = "only for these tests"


@pytest.fixture
def clinics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    monkeypatch.chdir(tmp_path)
    for member in founded(tmp_path, LearningTask("risk", "one-sum", 1.0)):
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        text = (member.folder / "member.toml").read_text()
        (member.folder / "member.toml").write_text(text + "\n[policy]\napproval = []\n")
    return tmp_path


@pytest.mark.parametrize("command", [("node",), ("run", "risk")])
def test_without_a_way_to_the_others_they_say_what_to_give(clinics: Path, command: tuple[str, ...]) -> None:
    outcome = invoked(*command, "--member", "east/member.toml")
    assert outcome.exit_code == InvalidParameter.exit_code
    assert "--kit and --relay" in outcome.stderr


@pytest.mark.parametrize("task", ["risk", "models"])
def test_nothing_is_begun_or_paid_for_to_take_back_a_release_that_there_is_not(
    task: str, clinics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a new version of the agreement the task of that name would be run, and paid for, once more."""
    agreement = Agreement.load(clinics / "agreement.toml")
    changed = replace(agreement, tasks=(*agreement.tasks, ModelsTask("models", "PrivateMean", 1.0)))
    changed.save(clinics / "agreement.toml")
    statements = Statements()
    for name in NAMES:
        statements = statements.signed(changed, name, IDENTITIES[name])
    statements.save(clinics / "agreement.toml")
    outcome = invoked("run", task, "--withdraw", "--member", "east/member.toml")
    assert outcome.exit_code == InvalidParameter.exit_code
    assert {"risk": "no release of one member", "models": "no release of this member under version 1"}[
        task
    ] in outcome.stderr
    assert not (clinics / "east/state/requests").exists()
    # What is under way or was paid for can be.
    monkeypatch.setattr(
        "sudare.consortium.task_review.states_of", lambda *_: {"models": {"state": "running"}, "risk": {}}
    )
    outcome = invoked("run", "models", "--withdraw", "--member", "east/member.toml")
    assert "--kit and --relay" in outcome.stderr


def test_an_unknown_task_is_refused_before_anything_is_opened(clinics: Path) -> None:
    outcome = invoked("run", "other", "--member", "east/member.toml")
    assert outcome.exit_code == ConsortiumError.exit_code + 1
    assert "risk" in outcome.stderr


@pytest.mark.parametrize("command", [("node",), ("run", "risk")])
@pytest.mark.parametrize("module", ["ledger_rollback", "state_format", "agreement.taken_versions"])
def test_a_node_that_cannot_start_on_a_full_disk_says_so_in_words(
    clinics: Path, command: tuple[str, ...], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes, mode: int = 0) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"sudare.consortium.{module}.write_atomically", full)
    monkeypatch.setattr("sudare.consortium.node_connection.transport_of", lambda *_, **__: LocalHub().join("east"))
    outcome = invoked(*command, "--member", "east/member.toml", "--kit", "kit", "--relay", "localhost:1")
    assert outcome.exit_code == ConsortiumError.exit_code
    assert "cannot be written (No space left on device). Make room" in outcome.stderr.replace("\n", " ")


def test_a_kit_that_this_user_may_not_read_is_named(clinics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network drive, where it is another user's: no room that is made would help."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "kit/startup/rootCA.pem")

    monkeypatch.setattr("sudare.consortium.node_connection.transport_of", refused)
    outcome = invoked("node", "--member", "east/member.toml", "--kit", "kit", "--relay", "localhost:1")
    assert outcome.exit_code == ConsortiumError.exit_code
    told = outcome.stderr.replace("\n", " ")
    assert "may not read or write 'kit/startup/rootCA.pem' (Permission denied). Give it to the user" in told


def test_a_second_node_of_a_member_is_refused(clinics: Path) -> None:
    (clinics / "east/state").mkdir(mode=0o700)
    with held_alone(clinics / "east/state/node.lock") as alone:
        assert alone
        outcome = invoked("node", "--member", "east/member.toml", "--kit", "kit", "--relay", "localhost:1")
    assert outcome.exit_code == ConsortiumError.exit_code
    assert "already running" in outcome.stderr


def note_waiting(clinics: Path) -> Path:
    """As a node that runs leaves it of a task that waits for the steward."""
    home = clinics / "east/state"
    home.mkdir(mode=0o700)
    document = {"state": "waits for the steward", "error": None, "files": []}
    told = {"agreement": founded_digest(clinics), "process": None, "present": [], "tasks": {"risk": document}}
    (home / STATES).write_text(json.dumps(told))
    return home


def test_run_says_that_the_steward_is_waited_for_and_ends_as_not_approved(clinics: Path) -> None:
    with held_alone(note_waiting(clinics) / "node.lock"):
        outcome = invoked("run", "risk", "--member", "east/member.toml", "--wait-seconds", 2)
    assert outcome.exit_code == NotApproved.exit_code
    assert outcome.stderr.count("task 'risk' needs the steward's approval: sudare approve risk") == 1
    assert "Task 'risk' waits for the steward. Run: sudare approve risk" in outcome.stderr.replace("\n", " ")


def test_run_that_is_stopped_by_a_signal_says_that_the_node_goes_on(
    clinics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(stop: StopSignals) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StopSignals, "check", check)
    with held_alone(note_waiting(clinics) / "node.lock"):
        outcome = invoked("run", "risk", "--member", "east/member.toml")
    assert outcome.exit_code == NotConnected.exit_code
    assert "The node that runs here goes on with task 'risk'" in outcome.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("state", "error", "exit_code", "says"),
    [
        ("finished", None, 0, ""),
        ("failed", None, 96, "has not ended (failed)"),
        ("failed", "StatementsContradict: Two totals. Ask who it was.", 86, "stopped task 'risk': Two totals."),
        ("denied", "NotApproved: No. Ask.", 95, "stopped task 'risk': No. Ask."),
        ("failed", "OfAnotherVersion: Something.", 97, "stopped task 'risk': Something."),
    ],
)
def test_run_leaves_the_work_to_a_node_that_is_running_and_tells_why_it_stopped(
    clinics: Path, state: str, error: str | None, exit_code: int, says: str
) -> None:
    home = clinics / "east/state"
    home.mkdir(mode=0o700)
    digest = founded_digest(clinics)

    def answer() -> None:
        request = home / REQUESTS / "risk.run"
        while not request.exists():
            time.sleep(0.02)
        document = {"state": state, "error": error, "files": ["results/risk/model.sudare"]}
        (home / STATES).write_text(
            json.dumps({"agreement": digest, "process": None, "present": [], "tasks": {"risk": document}})
        )

    with held_alone(home / "node.lock"):
        worker = threading.Thread(target=answer)
        worker.start()
        outcome = invoked("run", "risk", "--member", "east/member.toml", "--wait-seconds", 60, "--json")
        worker.join()
    assert outcome.exit_code == exit_code
    if state == "finished":
        assert outcome.values["files"] == ["results/risk/model.sudare"]
    else:
        told = outcome.values["error"]
        assert says in f"{told['problem']} {told['remedy']}"


def founded_digest(folder: Path) -> str:
    from sudare.consortium import Agreement

    return Agreement.load(folder / "agreement.toml").digest


def test_run_takes_part_and_tells_where_the_result_is(clinics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sudare.consortium import Member

    hub = LocalHub()
    monkeypatch.setattr("sudare.consortium.node_connection.transport_of", lambda name, settings, **_: hub.join(name))
    others = [node_of(Member.load(clinics / name / "member.toml"), hub) for name in NAMES[1:]]
    threads = [threading.Thread(target=take_part, args=(node,)) for node in others]
    for thread in threads:
        thread.start()
    outcome = invoked(
        "run", "risk", "--member", "east/member.toml", "--wait-seconds", 120, "--json", "--log", "east.log"
    )
    for thread in threads:
        thread.join()
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.values["files"] == ["results/risk/model.sudare"]
    events = [json.loads(line)["event"] for line in (clinics / "east.log").read_text().splitlines()]
    assert events[0] == "started"
    assert events[-1] == "stopped"
    assert "task-finished" in events


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_node_that_is_told_to_stop_ends_well(clinics: Path, number: signal.Signals) -> None:
    pytest.importorskip("nvflare")
    invoked("relay", "kits", "agreement.toml", "-o", "kits")
    program = [sys.executable, "-c", "from sudare.cli.main import app; app()", "node"]
    options = ["--member", "east/member.toml", "--kit", "kits/east", "--relay", "localhost:1", "--log", "east.log"]
    log = clinics / "east.log"
    node = subprocess.Popen([*program, *options], stderr=subprocess.PIPE, text=True)
    try:
        while node.poll() is None and not (log.exists() and '"started"' in log.read_text()):
            time.sleep(0.1)
        node.send_signal(number)
        _, said = node.communicate(timeout=120)
    finally:
        node.kill()
    assert node.returncode == 0, said
    assert "goes on when the node is started again" in said
    assert json.loads(log.read_text().splitlines()[-1])["event"] == "stopped"


def test_a_node_answers_at_its_socket_only_where_it_is_told_to_and_until_it_ends(clinics: Path) -> None:
    pytest.importorskip("nvflare")
    invoked("relay", "kits", "agreement.toml", "-o", "kits")
    program = [sys.executable, "-c", "from sudare.cli.main import app; app()", "node", "--socket"]
    options = ["--member", "east/member.toml", "--kit", "kits/east", "--relay", "localhost:1"]
    status, path = ("status", "--member", "east/member.toml", "--json"), clinics / "east/state" / SOCKET
    node = subprocess.Popen([*program, *options], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 120.0
        while not invoked(*status).values["told_over_socket"]:
            assert node.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        assert invoked(*status).values["present"] == ["east"]
        cancelled = invoked("run", "risk", "--cancel", "--member", "east/member.toml")
        assert cancelled.exit_code == 0
        while not invoked(*status).values["tasks"][0]["error"]:
            assert time.monotonic() < end
            time.sleep(0.1)
        node.send_signal(signal.SIGTERM)
        _, said = node.communicate(timeout=120)
    finally:
        node.kill()
    assert node.returncode == 0, said
    assert not path.exists()
    assert invoked(*status).values["told_over_socket"] is False


def test_a_socket_that_cannot_be_there_is_told_of_before_anything_starts(clinics: Path) -> None:
    (clinics / "east/state").mkdir(mode=0o700)
    (clinics / "east/state" / SOCKET).write_text("")
    words = ("node", "--member", "east/member.toml", "--kit", "kit", "--relay", "localhost:1")
    refused = invoked(*words, "--socket", "--log", "east.log")
    assert refused.exit_code == ConsortiumError.exit_code
    assert "Another thing stands where the node's local socket would be" in " ".join(refused.stderr.split())
    assert not (clinics / "east.log").exists()


def take_part(node: Node) -> None:
    node.run(["risk"], most_seconds=120.0)
    node.transport.close()


def test_a_relay_needs_its_certificates() -> None:
    outcome = invoked("relay")
    assert outcome.exit_code == InvalidParameter.exit_code
    assert "sudare relay kits" in outcome.stderr


def test_a_relay_that_collects_needs_an_agreement_that_lets_it_and_its_key(clinics: Path) -> None:
    pytest.importorskip("nvflare")
    alone = invoked("relay", "--kit", "kits/relay", "--agreement", "agreement.toml")
    assert "needs the key that the agreement names" in alone.stderr
    invoked("relay", "kits", "agreement.toml", "-o", "kits")
    invoked("key", "new", "relay.pem")
    address = f"localhost:{free_port()}"
    words = ("relay", "--kit", "kits/relay", "--listen", address, "--agreement", "agreement.toml", "--key", "relay.pem")
    without = invoked(*words)
    assert without.exit_code == NotConnected.exit_code
    assert "The kit 'collector' has no startup" in without.stderr
    write_kits(clinics / "more", "localhost", [], RELAY_NAME)
    refused = invoked(*words[:2], "more/relay", *words[3:])
    assert refused.exit_code == InvalidParameter.exit_code
    assert "does not let the relay collect" in refused.stderr


def test_kits_for_a_relay_that_collects_have_a_certificate_to_connect_with(clinics: Path) -> None:
    agreement = Agreement.load("agreement.toml")
    replace(agreement, relay=Relay(Identity.generated().public_key.hex())).save("agreement.toml")
    assert invoked("relay", "kits", "agreement.toml", "-o", "kits").exit_code == 0
    assert common_name(clinics / "kits/relay", "server") == "localhost"
    assert common_name(collector_kit(clinics / "kits/relay"), "client") == "relay"


def test_kits_are_made_for_the_relay_and_every_member(clinics: Path) -> None:
    outcome = invoked("relay", "kits", "agreement.toml", "-o", "kits", "--host", "relay.example.org", "--json")
    assert outcome.exit_code == 0
    assert set(outcome.values["members"]) == set(NAMES)
    assert (clinics / "kits/relay/startup/server.key").is_file()
    assert (clinics / "kits/east/startup/client.crt").is_file()
    again = invoked("relay", "kits", "agreement.toml", "-o", "kits")
    assert again.exit_code == InvalidParameter.exit_code


def test_status_says_whether_a_node_runs_and_who_is_there_and_watches(
    clinics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, home = ("status", "--member", "east/member.toml"), clinics / "east/state"
    assert "No node of this member is running here: sudare node" in invoked(*status).stdout
    home.mkdir(mode=0o700, exist_ok=True)
    told = {"agreement": founded_digest(clinics), "process": None, "present": ["east", "north"], "relay_reached": False}
    told["tasks"] = {"risk": {"state": "running", "error": None, "files": [], "round": 2}}
    (home / STATES).write_text(json.dumps(told))
    assert "Begun and not ended: risk. It goes on when the node is started again." in invoked(*status).stdout
    (home / STATES).write_text(json.dumps({**told, "process": os.getpid()}))
    shown = invoked(*status).stdout
    assert "Present: east, north. Not there: west." in shown
    assert "The relay is not reached" in shown

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sudare.cli.approvals.time.sleep", interrupt)
    watched = invoked(*status, "--watch", "--json")
    assert watched.exit_code == 0
    assert (watched.values["absent"], watched.values["relay_reached"]) == (["west"], False)

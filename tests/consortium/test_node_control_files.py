"""Notes between a node and the commands of its member: damaged ones are none, and stop neither."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import LearningTask
from sudare.consortium.node_control_files import (
    REQUESTS,
    STATES,
    agreement_of_running_node,
    ask_running_node,
    is_damaged,
    present_members,
    reaches_relay,
    states_of,
)
from sudare.errors import ConsortiumError
from tests.cli.conftest import invoked
from tests.consortium.clinics import founded, node_of
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)
TASK: dict[str, Any] = {"state": "finished", "round": None, "error": None, "files": ["results/x"], "ended_by": None}
PUT: list[object] = [None, [], {}, "x", 5, -1, 1e300, True, [[]], {"x": {}}]


def _places(document: dict[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = [(*before, name) for name in document]
    return inner + [
        place for name, each in document.items() if isinstance(each, dict) for place in _places(each, (*before, name))
    ]


def test_what_the_node_wrote_is_read_and_damaged_files_are_none_whatever_is_wrong(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    member.state_folder.mkdir(mode=0o700)
    path = member.state_folder / STATES
    whole = {
        "agreement": member.agreement().digest,
        "process": os.getpid(),
        "present": ["east"],
        "relay_reached": True,
        "tasks": {"risk": TASK},
    }
    path.write_text(json.dumps(whole))
    assert states_of(member) == {"risk": TASK}
    assert (present_members(member), reaches_relay(member), is_damaged(member)) == (["east"], True, False)
    damaged = 0
    for place in _places(whole):
        for new in [*PUT, "removed"]:
            document = copy.deepcopy(whole)
            inner: Any = document
            for name in place[:-1]:
                inner = inner[name]
            inner[place[-1]] = new
            if new == "removed":
                del inner[place[-1]]
            path.write_text(json.dumps(document))
            found = states_of(member)
            present_members(member), reaches_relay(member)
            damaged += is_damaged(member)
            for each in found.values():
                assert isinstance(each["state"], str)
                assert all(isinstance(file, str) for file in each["files"])
    assert damaged > 40


def test_a_node_that_runs_under_another_version_is_not_said_to_be_absent(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    node = node_of(member, LocalHub())
    node._poll(stay=True)
    was = member.agreement()
    assert agreement_of_running_node(member) == was.digest
    replace(was, tasks=(replace(RISK, epsilon=0.5),)).save(member.agreement_path)
    assert (agreement_of_running_node(member), present_members(member)) == (was.digest, None)
    outcome = invoked("status", "--member", member.folder / "member.toml")
    assert f"The node that runs here works under {was.digest[:12]}, not under" in " ".join(outcome.stdout.split())
    assert "No node of this member" not in outcome.stdout
    values = invoked("status", "--member", member.folder / "member.toml", "--json").values
    assert (values["node_running"], values["node_agreement"], values["present"]) == (True, was.digest, None)
    path = member.state_folder / STATES
    path.write_text(json.dumps({**json.loads(path.read_text()), "process": 0}))
    assert agreement_of_running_node(member) is None
    assert "No node of this member" in invoked("status", "--member", member.folder / "member.toml").stdout


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b'"x"', b"1e999", b"[" * 100_000, b"{}", b"\xff", None])
def test_a_node_sets_a_damaged_note_aside_and_starts_and_status_answers(tmp_path: Path, content: bytes | None) -> None:
    member = founded(tmp_path, RISK)[0]
    member.state_folder.mkdir(mode=0o700)
    path = member.state_folder / STATES
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    outcome = invoked("status", "--member", member.folder / "member.toml")
    assert (outcome.exit_code, "No node of this member is running" in outcome.stdout) == (0, True)
    node = node_of(member, LocalHub())
    node._poll(stay=True)
    assert not is_damaged(member)
    assert len(list((member.state_folder / "damaged").iterdir())) == 1
    # Damaged while the node runs, it is written anew.
    path.write_text("[]")
    node._looked_at = float("-inf")
    node._poll(stay=True)
    assert present_members(member) == ["east"]
    node.transport.close()


def test_a_folder_in_the_place_of_a_request_stops_nothing_and_is_told_of_once(tmp_path: Path) -> None:
    member, told = founded(tmp_path, RISK)[0], []
    node = node_of(member, LocalHub())
    node.tell = told.append
    (member.state_folder / REQUESTS / "risk.run").mkdir(parents=True)
    for _ in range(3):
        node._looked_at = float("-inf")
        node._poll(stay=True)
    assert node.task_runs == {}
    assert len([text for text in told if "the request 'risk.run' cannot be taken" in text]) == 1
    with pytest.raises(ConsortiumError, match=r"'risk\.run' cannot be left for the node"):
        ask_running_node(member, "risk")
    (member.state_folder / REQUESTS / "risk.run").rmdir()
    ask_running_node(member, "risk")
    node._looked_at = float("-inf")
    node._poll(stay=True)
    assert "risk" in node.task_runs
    node.transport.close()


@pytest.mark.parametrize(
    "wishes", [["run", "cancel"], ["withdraw", "cancel"], ["cancel", "run"], ["cancel", "withdraw"]]
)
def test_of_two_requests_that_the_node_has_not_taken_yet_the_last_counts(tmp_path: Path, wishes: list[str]) -> None:
    """Also where a name comes before the other in the folder."""
    member = founded(tmp_path, RISK)[0]
    for wish in wishes:
        ask_running_node(
            member, "risk", **{"run": {}, "cancel": {"cancel": True}, "withdraw": {"withdraw": True}}[wish]
        )
    assert [path.name for path in (member.state_folder / REQUESTS).iterdir()] == [f"risk.{wishes[-1]}"]

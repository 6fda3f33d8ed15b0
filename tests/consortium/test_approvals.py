"""The steward's say: bound to agreement and task, durable, and never undone by a request or a broken file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sudare.consortium import Agreement, Approvals, permit, required
from sudare.consortium.approvals import parsed_event
from sudare.errors import AgreementError, ConsortiumError, InvalidParameter, NotApproved
from tests.consortium.house import DOCUMENT, MEMBER, member_in

AGREEMENT = Agreement.from_dict(DOCUMENT)
RISK = AGREEMENT.task("risk")
OTHER = Agreement.from_dict({**DOCUMENT, "deadlines": {"round_seconds": 31.0}})


def test_every_kind_needs_approval_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    assert all(required(member_in(tmp_path), task) for task in AGREEMENT.tasks)
    some = member_in(tmp_path, MEMBER + '\n[policy]\napproval = ["models"]\n')
    assert [task.name for task in AGREEMENT.tasks if required(some, task)] == ["models"]
    none = member_in(tmp_path, MEMBER + "\n[policy]\napproval = []\n")
    for task in AGREEMENT.tasks:
        permit(none, AGREEMENT, task)
    assert not (tmp_path / "state").exists()


def test_a_task_waits_then_runs_then_is_stopped(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    approvals = Approvals(member.state_folder)
    assert approvals.state(AGREEMENT, RISK).state == "none"
    for _ in range(2):
        with pytest.raises(NotApproved, match="waits for the steward"):
            permit(member, AGREEMENT, RISK)
    assert len(approvals.history()) == 1, "one question is asked once"
    approvals.decide(AGREEMENT, RISK, "approved", "looks right", who="dr-hayashi")
    permit(member, AGREEMENT, RISK)
    approvals.decide(AGREEMENT, RISK, "denied", "not this month", who="dr-hayashi")
    with pytest.raises(NotApproved, match=r"denied task 'risk' \(not this month\)"):
        permit(member, AGREEMENT, RISK)
    states = [(event.state, event.who, event.reason) for event in approvals.history()]
    assert states == [
        ("pending", "node", ""),
        ("approved", "dr-hayashi", "looks right"),
        ("denied", "dr-hayashi", "not this month"),
    ]
    assert all(event.when for event in approvals.history())


def test_an_approval_is_for_one_agreement_and_one_task_as_it_stands(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    Approvals(member.state_folder).decide(AGREEMENT, RISK, "approved", "")
    with pytest.raises(NotApproved):
        permit(member, OTHER, OTHER.task("risk"))
    with pytest.raises(NotApproved):
        permit(member, AGREEMENT, AGREEMENT.task("scale"))
    with pytest.raises(NotApproved):
        permit(member, AGREEMENT, type(RISK)("risk", "descent", 1.5, 1e-6, 2))


def test_above_the_most_epsilon_no_approval_helps(tmp_path: Path) -> None:
    member = member_in(tmp_path, MEMBER + "\n[policy]\napproval = []\nmost_epsilon = 0.9\n")
    Approvals(member.state_folder).decide(AGREEMENT, RISK, "approved", "")
    with pytest.raises(NotApproved, match=r"costs ε = 1; this member's policy has at most 0\.9"):
        permit(member, AGREEMENT, RISK)
    permit(member, AGREEMENT, AGREEMENT.task("models"))


def test_a_late_request_does_not_undo_a_decision(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    approvals.decide(AGREEMENT, RISK, "denied", "no", who="steward")
    approvals._enter(AGREEMENT, RISK, "pending", "node", "")
    assert approvals.state(AGREEMENT, RISK).state == "denied"


def test_decisions_made_at_once_are_all_kept(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: approvals.decide(AGREEMENT, RISK, "denied", f"no {number}"), range(16)))
    assert {event.reason for event in approvals.history()} == {f"no {number}" for number in range(16)}
    assert not list(tmp_path.rglob("*.partial"))


def test_who_and_why(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    with pytest.raises(InvalidParameter, match="needs a reason"):
        approvals.decide(AGREEMENT, RISK, "denied", " ")
    with pytest.raises(AgreementError, match="`reason`"):
        approvals.decide(AGREEMENT, RISK, "approved", "two\nlines")
    assert approvals.decide(AGREEMENT, RISK, "approved", "").who
    assert approvals.history() == [approvals.state(AGREEMENT, RISK)]


def test_files_are_private_and_a_broken_one_stops_the_task(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    Approvals(member.state_folder).decide(AGREEMENT, RISK, "approved", "")
    (event,) = (tmp_path / "state").rglob("*.json")
    assert event.stat().st_mode & 0o777 == 0o600
    assert event.parent.stat().st_mode & 0o777 == 0o700
    values = json.loads(event.read_text())
    for text in (
        "",
        "{",
        "[]",
        json.dumps({**values, "state": "yes"}),
        json.dumps({**values, "more": 1}),
        "[" * 10_000,
    ):
        event.write_text(text)
        with pytest.raises(AgreementError):
            permit(member, AGREEMENT, RISK)
    # A decision copied from another agreement's folder does not count here.
    event.write_text(json.dumps({**values, "agreement": OTHER.digest}))
    with pytest.raises(NotApproved):
        permit(member, AGREEMENT, RISK)
    assert parsed_event(json.dumps(values)).state == "approved"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "approvals").write_text("a file where a folder should be")
    with pytest.raises(ConsortiumError, match="cannot be written"):
        Approvals(tmp_path).decide(AGREEMENT, RISK, "approved", "")

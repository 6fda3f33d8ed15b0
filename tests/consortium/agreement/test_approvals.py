"""The steward's say: bound to agreement and task, durable, and never undone by a request or a broken file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sudare.consortium import Agreement, Approvals, permit, required
from sudare.consortium.agreement.approvals import parsed_event
from sudare.consortium.task_review import task_values
from sudare.errors import AgreementError, ConsortiumError, InvalidParameter, NotApproved
from sudare.privacy.account_balance import Amount
from tests.consortium.documents import DOCUMENT, MEMBER, member_in

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
        permit(member, AGREEMENT, type(RISK)("risk", "descent", 1.5, 1e-6))


def test_above_the_most_epsilon_no_approval_helps(tmp_path: Path) -> None:
    member = member_in(tmp_path, MEMBER + "\n[policy]\napproval = []\nmost_epsilon = 0.9\n")
    Approvals(member.state_folder).decide(AGREEMENT, RISK, "approved", "")
    with pytest.raises(NotApproved, match=r"costs ε = 1; this member's policy has at most 0\.9"):
        permit(member, AGREEMENT, RISK)
    permit(member, AGREEMENT, AGREEMENT.task("models"))


def test_a_bound_on_delta_likewise(tmp_path: Path) -> None:
    member = member_in(tmp_path, MEMBER + "\n[policy]\napproval = []\nmost_delta = 1e-7\n")
    with pytest.raises(NotApproved, match=r"costs δ = 1e-06; this member's policy has at most 1e-07"):
        permit(member, AGREEMENT, RISK)
    assert permit(member, AGREEMENT, AGREEMENT.task("models")).delta == 0.0
    none = member_in(tmp_path, MEMBER + "\n[policy]\napproval = []\nmost_delta = 0\n")
    with pytest.raises(NotApproved, match="δ"):
        permit(none, AGREEMENT, AGREEMENT.task("wear"))


def test_exact_sums_wait_for_the_steward_wherever_there_is_a_bound(tmp_path: Path) -> None:
    exact = AGREEMENT.task("patterns")
    for bound in ("most_epsilon = 100.0", "most_delta = 0.5"):
        member = member_in(tmp_path, MEMBER + f"\n[policy]\napproval = []\n{bound}\n")
        assert [task.name for task in AGREEMENT.tasks if required(member, task)] == ["patterns"]
    with pytest.raises(NotApproved, match="waits for the steward"):
        permit(member, AGREEMENT, exact)
    Approvals(member.state_folder).decide(AGREEMENT, exact, "approved", "seen")
    assert permit(member, AGREEMENT, exact).epsilon == 0.0


def test_an_approval_is_for_what_the_run_was_planned_to_cost(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    approvals = Approvals(member.state_folder)
    for cost, enough in (
        (Amount(0.9, 1e-6), False),
        (Amount(1.0, 1e-7), False),
        (Amount(1.0, 1e-6), True),
        (None, True),
    ):
        approvals.decide(AGREEMENT, RISK, "approved", "", cost=cost)
        if enough:
            found = permit(member, AGREEMENT, RISK)
            assert (found.epsilon, found.delta) == RISK.cost
        else:
            with pytest.raises(NotApproved, match="would cost ε = 1, δ = 1e-06; the steward approved"):
                permit(member, AGREEMENT, RISK)
    Approvals(tmp_path / "state").decide(AGREEMENT, AGREEMENT.task("models"), "approved", "")
    asked = approvals.history()
    assert [event.epsilon for event in asked if event.task == "risk"] == [0.9, 1.0, 1.0, None]


def test_a_request_says_what_the_run_would_cost(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    with pytest.raises(NotApproved):
        permit(member, AGREEMENT, RISK)
    (asked,) = Approvals(member.state_folder).history()
    assert (asked.epsilon, asked.delta) == RISK.cost


def test_decisions_of_earlier_versions_name_no_cost() -> None:
    values = {"agreement": "a" * 64, "task": "risk", "task_digest": "b" * 64, "state": "approved"}
    text = json.dumps({**values, "who": "x", "when": "now", "reason": ""})
    assert parsed_event(text).epsilon is None
    for wrong in (-1.0, "1", float("inf"), True):
        with pytest.raises(AgreementError):
            parsed_event(json.dumps({**json.loads(text), "epsilon": wrong, "delta": 0.0}))


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


def test_a_denial_counts_where_no_approval_is_needed(tmp_path: Path) -> None:
    member = member_in(tmp_path, MEMBER + '\n[policy]\napproval = ["models"]\n')
    approvals = Approvals(member.state_folder)
    permit(member, AGREEMENT, RISK)
    approvals.decide(AGREEMENT, RISK, "denied", "the board forbids it")
    with pytest.raises(NotApproved, match="the board forbids it"):
        permit(member, AGREEMENT, RISK)
    assert task_values(member, AGREEMENT, "risk")["state"] == "denied"
    approvals.decide(AGREEMENT, RISK, "approved", "it allows it again")
    permit(member, AGREEMENT, RISK)
    assert task_values(member, AGREEMENT, "risk")["state"] == "not needed"

"""Schedules: runs are tasks of their own, their costs add up, and nodes begin them on their day."""

from __future__ import annotations

import datetime
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import (
    Agreement,
    Budget,
    LearningTask,
    Member,
    MemberEntry,
    ModelsTask,
    ScalerTask,
    Task,
)
from sudare.consortium.agreement.amendments import Amendment, adopt_proposal, amended, history_folder
from sudare.consortium.agreement.approvals import Approvals, is_paid_in_another_version, permit
from sudare.consortium.agreement.consortium_setup_steps import schedule_from_words
from sudare.consortium.agreement.schedules import Schedule
from sudare.consortium.agreement.taken_versions import take_version
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import ask_running_node
from sudare.consortium.sum_terms import budget_lines, schedule_lines, schedule_values
from sudare.consortium.task_review import decide_task, task_values
from sudare.consortium.tasks.task_account import mark_of
from sudare.consortium.tasks.task_costs import check_plannable
from sudare.errors import AgreementError, BudgetExceeded, NotApproved, SudareError, TaskStopped
from sudare.privacy import Guarantee, Ledger
from sudare.privacy.account_balance import Amount
from sudare.privacy.accounting import pure_cost
from tests.consortium.agreement.test_amendments import proposed
from tests.consortium.clinics import IDENTITIES, NAMES, SCHEMA, founded, node_of, patients
from tests.consortium.documents import DOCUMENT, agreement_of, signed_by_all, three_identities
from tests.consortium.local_transport import LocalHub

MONTHLY = {"task": "scale", "every": "month", "first": "2026-12-01", "runs": 6}


def scheduled(**changes: Any) -> Agreement:
    return Agreement.from_dict({**DOCUMENT, "schedules": {"monthly": {**MONTHLY, **changes}}})


def test_every_run_is_a_task_of_its_own() -> None:
    agreement = scheduled()
    names = [f"scale-{month}-01" for month in ("2026-12", "2027-01", "2027-02", "2027-03", "2027-04", "2027-05")]
    assert [name for name in (task.name for task in agreement.tasks) if name in agreement.run_names] == names
    assert agreement.task(names[0]) == replace(agreement.task("scale"), name=names[0])
    assert set(agreement.to_dict()["tasks"]) == set(DOCUMENT["tasks"])
    assert Agreement.from_toml(agreement.to_toml()) == agreement
    assert agreement.digest != scheduled(runs=5).digest != Agreement.from_dict(DOCUMENT).digest
    assert replace(agreement, name="others").tasks == agreement.tasks


@pytest.mark.parametrize(
    ("every", "day", "due"),
    [
        ("month", "2026-11-30", None),
        ("month", "2026-12-01", "scale-2026-12-01"),
        ("month", "2027-01-31", "scale-2027-01-01"),
        ("month", "2027-06-01", None),
        ("week", "2026-12-09", "scale-2026-12-08"),
        ("day", "2026-12-06", "scale-2026-12-06"),
        ("day", "2026-12-07", None),
    ],
)
def test_a_run_is_due_from_its_day_to_the_next(every: str, day: str, due: str | None) -> None:
    assert Schedule("s", "scale", every, "2026-12-01", 6).due(datetime.date.fromisoformat(day)) == due


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"every": "year"}, "one of day, week, month"),
        ({"first": "2026-12-31"}, "every month has"),
        ({"first": "1.12.2026"}, "a day"),
        ({"runs": 400}, "from 1 to 366"),
        ({"task": "other"}, "no task of the agreement"),
        ({"runs": 9}, r"cost ε = 2\.25"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_by_its_path(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AgreementError, match=message):
        scheduled(**changes)


def test_what_a_year_costs_is_told() -> None:
    weekly = scheduled(every="week", runs=8)
    (values,) = schedule_values(weekly)
    assert (values["epsilon"], values["year_epsilon"], values["last"]) == (2.0, 2.0, "2027-01-19")
    assert "8 times from 2026-12-01" in schedule_lines(weekly)[0]
    assert schedule_from_words("monthly task=scale every=month first=2026-12-01 runs=6") == scheduled().schedules[0]


def priced(epsilon: float, budgets: list[float], *, runs: int) -> Agreement:
    """Members with these budgets, a task at this price, and so many runs of it."""
    tasks = {"scale": {"kind": "scaler", "epsilon": epsilon, "delta": 0.0}}
    monthly = {"task": "scale", "every": "month", "first": "2026-12-01", "runs": runs}
    found = agreement_of(three_identities(), tasks=tasks, schedules={"monthly": monthly})
    members = [replace(each, budget=Budget(budget)) for each, budget in zip(found.members, budgets, strict=True)]
    return Agreement.from_dict(replace(found, members=tuple(members)).to_dict())


def test_costs_of_runs_add_up_as_their_texts_say_them() -> None:
    """In floating point three times 0.1 is more than 0.3, and twelve times more than 1.2."""
    priced(0.1, [0.3, 0.3, 0.3], runs=3)
    (values,) = schedule_values(priced(0.1, [2.0, 2.0, 2.0], runs=12))
    assert (values["epsilon"], values["year_epsilon"]) == (1.2, 1.2)


def test_members_whose_budget_does_not_hold_all_that_is_agreed_on_are_named() -> None:
    (line,) = budget_lines(priced(0.1, [1.3, 1.2, 1.25], runs=12))
    assert line.startswith("All tasks and runs together cost ε 1.3, δ 0 at every member")
    assert "more than the budget of north, west:" in line
    assert budget_lines(priced(0.1, [1.3, 1.3, 1.3], runs=12)) == []


def test_a_budget_that_lacks_a_hair_is_told_as_the_ledger_refuses_the_last_run(tmp_path: Path) -> None:
    """As floating point has it, the sum of these runs is the budget."""
    cost, budget, runs = 0.04105263157894737, 0.78, 19
    with pytest.raises(AgreementError, match="holds less"):
        priced(cost, [budget] * 3, runs=runs)
    priced(cost, [budget] * 3, runs=runs - 1)
    account = Ledger(tmp_path / "ledger.db").account("east", epsilon=budget)
    for _ in range(runs - 1):
        account.charge(Guarantee(cost), pure_cost(cost), "a run")
    with pytest.raises(BudgetExceeded):
        account.charge(Guarantee(cost), pure_cost(cost), "a run")


def test_the_price_of_a_schedule_is_what_its_runs_are_charged() -> None:
    """A promise for added or removed records costs twice on the accounts that members open."""
    keys = three_identities()
    counts = {"kind": "models", "learner": "PrivateHistogram", "epsilon": 0.1, "delta": 0.0}
    counts["parameters"] = {"neighbours": "add-remove"}
    tasks = {**DOCUMENT["tasks"], "counts": counts}
    weekly = {"task": "counts", "every": "week", "first": "2026-12-01", "runs": 4}
    agreement = agreement_of(keys, tasks=tasks, schedules={"weekly": weekly})
    (values,) = schedule_values(agreement)
    assert (values["epsilon"], values["year_epsilon"]) == (0.8, 0.8)


def test_budgets_hold_what_all_runs_are_charged_and_no_less() -> None:
    """Costs are added as the ledger adds them, and a run is charged what it is planned to, whatever ε stands in the text."""

    def agreed(task: Task, runs: int, epsilon: float) -> Agreement:
        members = tuple(MemberEntry(name, IDENTITIES[name].public_key.hex(), Budget(epsilon, 0.0)) for name in NAMES)
        schedules = (Schedule("monthly", task.name, "month", "2026-12-01", runs),)
        return Agreement("clinics", SCHEMA, members=members, tasks=(task,), schedules=schedules)

    for runs, budget in ((3, 0.3), (6, 0.6), (7, 0.7), (12, 1.2)):
        check_plannable(agreed(ScalerTask("scale", 0.1, 0.0), runs, budget))
        with pytest.raises(AgreementError, match="holds less"):
            agreed(ScalerTask("scale", 0.1, 0.0), runs + 1, budget)
    twice = ModelsTask("counts", "PrivateHistogram", 0.2, parameters={"neighbours": "add-remove"})
    check_plannable(agreed(twice, 6, 2.4))
    with pytest.raises(AgreementError, match=r"cost ε = 4\.8, δ = 0 in all"):
        check_plannable(agreed(twice, 12, 2.4))


def test_versions_change_schedules() -> None:
    keys = three_identities()
    first = agreement_of(keys, schedules={"monthly": MONTHLY})
    statements = signed_by_all(first, keys)
    longer = amended(first, statements, Amendment(schedules=(Schedule("monthly", "scale", "month", "2027-06-01", 3),)))
    assert sorted(longer.run_names) == ["scale-2027-06-01", "scale-2027-07-01", "scale-2027-08-01"]
    assert len(longer.tasks) == len(DOCUMENT["tasks"]) + 3
    assert amended(first, statements, Amendment(without_schedules=frozenset({"monthly"}))).run_names == frozenset()


def test_a_node_begins_a_run_on_its_day_and_cancels_what_waits(tmp_path: Path) -> None:
    member = founded(tmp_path, LearningTask("risk", "one-sum", 0.5), approval=frozenset({"learning"}))[0]
    schedule = Schedule("daily", "risk", "day", "2026-12-01", 3)
    agreement = replace(member.agreement(), schedules=(schedule,))
    agreement.save(member.agreement_path)
    signed_by_all(agreement, {name: IDENTITIES[name] for name in NAMES}).save(member.agreement_path)
    node = node_of(member, LocalHub())
    day = [datetime.date(2026, 11, 30)]
    node.today = lambda: day[0]
    for expected in ([], ["risk-2026-12-01"], ["risk-2026-12-01", "risk-2026-12-02"]):
        node._looked_at = float("-inf")
        node._poll(stay=True)
        assert sorted(node.task_runs) == expected
        day[0] += datetime.timedelta(days=1)
    assert node.task_runs["risk-2026-12-01"].state == "waits for the steward"
    ask_running_node(member, "risk-2026-12-01", cancel=True)
    node._take_requests()
    assert node.task_runs["risk-2026-12-01"].state == "failed"
    assert isinstance(node.task_runs["risk-2026-12-01"].error, TaskStopped)
    assert node.task_runs["risk-2026-12-02"].state == "waits for the steward"


def test_a_snapshot_in_the_same_place_is_the_same_source_and_one_elsewhere_is_refused(tmp_path: Path) -> None:
    member = founded(tmp_path, LearningTask("risk", "one-sum", 0.5))[0]
    agreement = member.agreement()
    account = member.account(agreement)
    account.charge(Guarantee(0.5), pure_cost(0.5), "a model")
    patients(7).to_csv(tmp_path / "east/patients.csv", index=False)
    assert member.account(agreement).spent().epsilon == 0.5
    patients(8).to_csv(tmp_path / "east/december.csv", index=False)
    elsewhere = replace(member, data=replace(member.data, source="december.csv"))
    with pytest.raises(SudareError):
        elsewhere.account(agreement)
    other = replace(elsewhere, account_name="east-december")
    assert other.account(agreement).spent().epsilon == 0.0


def daily(folder: Path, approval: str = "learning") -> Member:
    """East, under an agreement with a task of ε = 0.5 on three days."""
    member = founded(folder, LearningTask("risk", "one-sum", 0.5), approval=frozenset({approval}))[0]
    save_signed(member, replace(member.agreement(), schedules=(Schedule("daily", "risk", "day", "2026-12-01", 3),)))
    return member


def save_signed(member: Member, agreement: Agreement) -> None:
    agreement.save(member.agreement_path)
    signed_by_all(agreement, {name: IDENTITIES[name] for name in NAMES}).save(member.agreement_path)


def test_one_decision_is_for_all_runs_until_another_one_and_one_about_a_run_goes_before_it(tmp_path: Path) -> None:
    member = daily(tmp_path)
    agreement, approvals = member.agreement(), Approvals(member.state_folder)
    first, second, third = (agreement.task(name) for name in agreement.schedules[0].run_names)
    with pytest.raises(NotApproved, match="waits for the steward"):
        permit(member, agreement, first)
    assert decide_task(member, "daily", "approved", "as agreed", dry_run=True).runs == 3
    assert approvals.state(agreement, second).state == "none"
    decided = decide_task(member, "daily", "approved", "as agreed")
    assert (decided.runs, decided.cost.epsilon, decided.before) == (3, 0.5, "none")
    assert [permit(member, agreement, task).epsilon for task in (first, second, third)] == [0.5] * 3
    decide_task(member, second.name, "denied", "holiday")
    with pytest.raises(NotApproved, match="holiday"):
        permit(member, agreement, second)
    decide_task(member, "daily", "denied", "enough")
    for task in (first, third):
        with pytest.raises(NotApproved, match="enough"):
            permit(member, agreement, task)
    decide_task(member, third.name, "approved", "this one")
    assert permit(member, agreement, third).epsilon == 0.5
    assert [each.state for each in approvals.history() if each.task == "daily"] == ["approved", "denied"]
    # The task that the schedule repeats is not one of its runs, nor is what another agreement calls so.
    assert approvals.state(agreement, agreement.task("risk")).state == "none"
    other = replace(agreement, schedules=(Schedule("daily", "risk", "day", "2026-12-01", 4),))
    assert approvals.state(other, other.task(first.name)).state == "none"


def test_a_decision_about_a_schedule_is_for_what_a_run_cost_then(tmp_path: Path) -> None:
    member = daily(tmp_path)
    agreement = member.agreement()
    Approvals(member.state_folder).decide(agreement, agreement.schedules[0], "approved", "", cost=Amount(0.4, 0.0))
    with pytest.raises(NotApproved, match="approved"):
        permit(member, agreement, agreement.task("risk-2026-12-01"))


@pytest.mark.parametrize(
    ("day", "expected"),
    [("2026-11-30", "early"), ("2026-12-01", "now"), ("2026-12-02", "now"), ("2026-12-03", "over")],
)
def test_a_run_is_begun_neither_before_its_day_nor_after_its_time(day: str, expected: str) -> None:
    schedule = Schedule("daily", "risk", "day", "2026-12-01", 3)
    assert schedule.time_of("risk-2026-12-01", datetime.date.fromisoformat(day)) == expected


def test_a_member_that_asks_for_all_runs_at_once_gets_none_of_them(tmp_path: Path) -> None:
    """All of them would be of the records of one day, and would hold back the next version of the agreement."""
    member = daily(tmp_path, "models")
    node = node_of(member, LocalHub())
    node.today = lambda: datetime.date(2026, 12, 3)
    for name in node.agreement.run_names:
        node.dispatcher._note_asked("west", name)
    node._poll(stay=False)
    # Of the first the time is over: it is denied. The second and the third are begun; there is no fourth.
    states = {name: run.state for name, run in node.task_runs.items()}
    assert states["risk-2026-12-01"] == "denied"
    assert states["risk-2026-12-02"] == states["risk-2026-12-03"] == "preparing"
    node = node_of(member, LocalHub())
    node.today = lambda: datetime.date(2026, 11, 30)
    for name in node.agreement.run_names:
        node.dispatcher._note_asked("west", name)
    node._poll(stay=False)
    assert node.task_runs == {}


def test_a_new_version_repeats_no_run_that_was_paid_for(tmp_path: Path) -> None:
    member = daily(tmp_path, "models")
    agreement, name = member.agreement(), "risk-2026-12-01"
    member.account(agreement).charge(Guarantee(0.5), pure_cost(0.5), "a sum", f"{mark_of(agreement, name)}, run 1")
    assert not is_paid_in_another_version(member, agreement, agreement.task(name))
    following = amended(agreement, member.statements(), Amendment())
    save_signed(member, following)
    assert is_paid_in_another_version(member, following, following.task(name))
    node = node_of(member, LocalHub())
    node.today = lambda: datetime.date(2026, 12, 1)
    node._poll(stay=True)
    assert node.task_runs == {}
    with pytest.raises(NotApproved, match="another version"):
        permit(member, following, following.task(name))
    # The steward sees it, and is asked for nothing.
    assert [task_values(member, following, each)["used"] for each in (name, "risk-2026-12-02")] == [True, False]
    with pytest.raises(NotApproved, match="another version"):
        decide_task(member, name, "approved", "once more")
    assert permit(member, following, following.task("risk-2026-12-02")).epsilon == 0.5
    # What is no run of a schedule is another task in another version, as before.
    assert permit(member, following, following.task("risk")).epsilon == 0.5


def test_a_run_paid_two_versions_ago_is_not_paid_again_where_the_versions_between_are_lost(tmp_path: Path) -> None:
    """The third version names only the second. Whether the ledger's run is of the first or of another consortium nobody can tell then, until the versions are back."""
    member = daily(tmp_path, "models")
    agreement, paid, unpaid = member.agreement(), "risk-2026-12-01", "risk-2026-12-02"
    take_version(member, agreement)
    member.account(agreement).charge(Guarantee(0.5), pure_cost(0.5), "a sum", f"{mark_of(agreement, paid)}, run 1")
    for _ in range(2):
        agreement = amended(agreement, member.statements(), Amendment())
        proposed(member.agreement_path, agreement, {name: IDENTITIES[name] for name in NAMES})
        assert adopt_proposal(member.agreement_path) == agreement
        take_version(member, agreement)
    with pytest.raises(NotApproved, match="under another version"):
        permit(member, agreement, agreement.task(paid))
    history = history_folder(member.agreement_path)
    shutil.copytree(history, tmp_path / "of another member")
    shutil.rmtree(history)
    shutil.rmtree(member.state_folder)
    assert agreement.version == 3
    with pytest.raises(NotApproved, match="may be a version of this one"):
        permit(member, agreement, agreement.task(paid))
    node = look(member, datetime.date(2026, 12, 1))
    assert node.task_runs[paid].state == "denied"
    assert "agreement.history" in str(node.task_runs[paid].error)
    assert permit(member, agreement, agreement.task(unpaid)).epsilon == 0.5
    shutil.copytree(tmp_path / "of another member", history)
    with pytest.raises(NotApproved, match="under another version"):
        permit(member, agreement, agreement.task(paid))
    # With all versions at hand, what another consortium has paid for is not this one's.
    other = replace(agreement, name="others")
    member.account(agreement).charge(Guarantee(0.5), pure_cost(0.5), "a sum", f"{mark_of(other, unpaid)}, run 1")
    assert permit(member, agreement, agreement.task(unpaid)).epsilon == 0.5


def test_a_schedule_that_needs_no_approval_is_denied_all_the_same(tmp_path: Path) -> None:
    member = daily(tmp_path, "models")
    agreement = member.agreement()
    run = agreement.task("risk-2026-12-01")
    assert permit(member, agreement, run).epsilon == 0.5
    decide_task(member, "daily", "denied", "never")
    with pytest.raises(NotApproved, match="never"):
        permit(member, agreement, run)
    assert permit(member, agreement, agreement.task("risk")).epsilon == 0.5


def look(member: Member, day: datetime.date, node: Node | None = None) -> Node:
    """A node, or a new one, that has looked once on this day and written what it knows."""
    found = node_of(member, LocalHub()) if node is None else node
    found.today = lambda: day
    found._looked_at = float("-inf")
    found._poll(stay=True)
    return found


def test_a_run_that_was_cancelled_does_not_come_back_by_itself(tmp_path: Path) -> None:
    member, name = daily(tmp_path), "risk-2026-12-01"
    save_signed(member, replace(member.agreement(), schedules=(Schedule("m", "risk", "month", "2026-12-01", 2),)))
    first, second = datetime.date(2026, 12, 1), datetime.date(2026, 12, 2)
    node = look(member, first)
    ask_running_node(member, name, cancel=True)
    assert look(member, second, node).task_runs[name].state == "failed"
    assert look(member, first, node).task_runs[name].state == "failed"
    node._write_states(is_running=False)
    again = look(member, second)
    assert again.task_runs == {}
    ask_running_node(member, name)
    assert look(member, second, again).task_runs[name].state == "waits for the steward"


def test_a_run_that_was_cancelled_does_not_begin_by_itself_under_the_next_version(tmp_path: Path) -> None:
    member, name = daily(tmp_path), "risk-2026-12-01"
    save_signed(member, replace(member.agreement(), schedules=(Schedule("m", "risk", "month", "2026-12-01", 2),)))
    node = look(member, datetime.date(2026, 12, 1))
    ask_running_node(member, name, cancel=True)
    look(member, datetime.date(2026, 12, 2), node)._write_states(is_running=False)
    save_signed(member, amended(member.agreement(), member.statements(), Amendment()))
    again = look(member, datetime.date(2026, 12, 3))
    assert (again.agreement.version, again.task_runs) == (2, {})
    # Others that ask for it are told that it is stopped here; started once more the node knows it from what it has written.
    again._join(name)
    assert (again.task_runs[name].state, again.task_runs[name].ended_by) == ("failed", "cancel")
    again._write_states(is_running=False)
    once_more = look(member, datetime.date(2026, 12, 4))
    assert once_more.task_runs == {}
    ask_running_node(member, name)
    assert look(member, datetime.date(2026, 12, 4), once_more).task_runs[name].state == "waits for the steward"


def test_a_clock_that_jumps_loses_no_run(tmp_path: Path) -> None:
    member, name = daily(tmp_path), "risk-2026-12-01"
    right, wrong = datetime.date(2026, 12, 1), datetime.date(2027, 12, 1)
    node = look(member, wrong, look(member, right))
    assert node.task_runs[name].state == "denied"
    assert look(member, right, node).task_runs[name].state == "waits for the steward"
    look(member, wrong, node)._write_states(is_running=False)
    assert look(member, right).task_runs[name].state == "waits for the steward"


def test_a_task_with_the_name_of_a_run_is_refused() -> None:
    declared = {**DOCUMENT["tasks"], "scale-2027-01-01": DOCUMENT["tasks"]["scale"]}
    with pytest.raises(AgreementError, match="name of a run"):
        Agreement.from_dict({**DOCUMENT, "tasks": declared, "schedules": {"monthly": MONTHLY}})
    keys = three_identities()
    first = agreement_of(keys, schedules={"monthly": MONTHLY})
    task = LearningTask("scale-2027-01-01", "one-sum", 0.001)
    with pytest.raises(AgreementError, match="name of a run"):
        amended(first, signed_by_all(first, keys), Amendment(tasks=(task,)))

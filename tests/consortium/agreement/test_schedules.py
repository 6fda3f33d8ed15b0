"""Schedules: runs are tasks of their own, their costs add up, and nodes begin them on their day."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import Agreement, LearningTask
from sudare.consortium.agreement.amendments import Amendment, amended
from sudare.consortium.agreement.membership import schedule_from_words
from sudare.consortium.agreement.schedules import Schedule
from sudare.consortium.node_request_files import ask_running_node
from sudare.consortium.sum_terms import schedule_lines, schedule_values
from sudare.errors import AgreementError, SudareError, TaskStopped
from sudare.privacy import Guarantee
from sudare.privacy.accounting import pure_cost
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of, patients
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

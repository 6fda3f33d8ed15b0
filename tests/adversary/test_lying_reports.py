"""A member that lies in its report wants nobody to find out, or somebody else to be accused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import Budget, DictionaryTask, Identity, LearningTask, Member, ScalerTask, Statements
from sudare.consortium.agreement.amendments import Amendment, adopt_proposal, amended, proposal_path
from sudare.consortium.member_report import report_values, signed_report
from sudare.consortium.node_restart_on_change import adopt_by_hand
from sudare.consortium.report_comparison import Finding, compared
from sudare.schema import Schema
from tests.consortium.clinics import IDENTITIES, SCHEMA, founded, node_of, patients, run_together
from tests.consortium.documents import signed_by_all
from tests.consortium.local_transport import LocalHub
from tests.consortium.test_report_comparison import following, listing, three_days_later

RISK, NEVER = LearningTask("risk", "one-sum", 1.0), LearningTask("never", "one-sum", 1.0)
EXACT = DictionaryTask("patterns", 2, True, parameters={"family": "diagonal_gaussian", "search": False, "max_iter": 2})
Report = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clinics")
    members = founded(path, NEVER, RISK)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    return path


@pytest.fixture(scope="module")
def reports(folder: Path) -> dict[str, Report]:

    return {
        name: three_days_later(report_values(Member.load(folder / name / "member.toml")))
        for name in ("east", "north", "west")
    }


def accusations(first: Report, second: Report, key: str | None = None) -> list[Finding]:
    """What is found of west's report beside east's."""
    return compared(
        signed_report(first, IDENTITIES[key or first["member"]]), signed_report(second, IDENTITIES[second["member"]])
    ).findings


def test_an_end_that_only_the_liar_tells_of_accuses_nobody_else(reports: dict[str, Report]) -> None:
    west = copy.deepcopy(reports["west"])
    never, risk = sorted(west["tasks"], key=lambda each: str(each["task"]))
    never.update(
        entries=copy.deepcopy(risk["entries"]), finished_at=risk["finished_at"], results={"release": "ab" * 32}
    )
    never["entries"][0]["position"] = 1
    west["accounts"]["west"]["left"]["epsilon"] -= 1.0
    (found,) = accusations(west, reports["east"])
    assert found.by == ("west", "east")
    assert found.text.startswith("never: west reports that it was finished")


def test_a_proposal_that_never_came_into_force_accuses_nobody_who_signed_it(
    reports: dict[str, Report], folder: Path
) -> None:

    east = Member.load(folder / "east" / "member.toml")
    first = east.agreement(), east.statements()
    proposal = amended(*first, Amendment(budgets={"east": Budget(20.0, 1e-4)}))
    by_east = Statements().signed(proposal, "east", IDENTITIES["east"])
    of_west = listing(reports["west"], [first, (proposal, by_east)])
    of_east = listing(reports["east"], [first, *following(*first, 2)])
    assert not [each for each in accusations(of_west, of_east) if "leaves it out" in each.text]


def test_a_text_with_a_key_of_the_liar_in_another_name_accuses_nobody(reports: dict[str, Report], folder: Path) -> None:
    """West makes a version in which all have keys of its own, and signs for all of them."""
    east = Member.load(folder / "east" / "member.toml")
    first = east.agreement(), east.statements()
    chain = [first, *following(*first, 2)]
    made_up = {name: Identity.generated() for name in IDENTITIES}
    second = chain[1][0]
    forged = replace(
        second, members=tuple(replace(each, key=made_up[each.name].public_key.hex()) for each in second.members)
    )
    of_west = listing(reports["west"], [(forged, signed_by_all(forged, made_up))])
    of_east = listing(reports["east"], [first, chain[2]])
    assert not [each for each in accusations(of_west, of_east) if each.text.startswith("east signed")]


def test_a_task_that_no_agreement_has_is_found_at_who_lists_it_alone(reports: dict[str, Report]) -> None:
    west = copy.deepcopy(reports["west"])
    west["tasks"].append({**copy.deepcopy(west["tasks"][0]), "task": "bogus", "entries": [], "results": {}})
    found = accusations(west, reports["east"])
    assert {(each.about, each.by) for each in found} == {("forged", ("west",))}


def test_a_report_under_anothers_key_is_not_said_to_have_an_earlier_one(reports: dict[str, Report]) -> None:
    found = compared(
        signed_report(reports["west"], IDENTITIES["north"]), signed_report(reports["east"], IDENTITIES["east"])
    )
    assert {each.about for each in found.findings} == {"signer"}
    assert found.notes == []


def test_a_version_that_nobody_signed_is_told_and_found_where_something_was_paid_under_it(
    reports: dict[str, Report], folder: Path
) -> None:

    east = Member.load(folder / "east" / "member.toml")
    first = east.agreement(), east.statements()
    proposal = amended(*first, Amendment(tasks=(LearningTask("extra", "one-sum", 1.0),)))
    of_east = listing(reports["east"], [first])
    of_west = listing(reports["west"], [first, (proposal, Statements())])
    told = compared(signed_report(of_west, IDENTITIES["west"]), signed_report(of_east, IDENTITIES["east"]))
    assert told.findings == []
    assert told.notes == [
        "version 2 of clinics in the report of west has no signature that counts by east, north, west"
    ]
    of_west["tasks"][-1]["entries"] = next(each for each in reports["west"]["tasks"] if each["entries"])["entries"]
    assert {(each.about, each.by) for each in accusations(of_west, of_east)} == {("agreement", ("west",))}


@pytest.fixture(scope="module")
def of_two_versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Reports after a second version, under which all have learned a scaler; under the first they have learned, and shown exact sums."""
    path = tmp_path_factory.mktemp("clinics")
    schema = Schema({name: SCHEMA.columns[name] for name in ("age", "pressure", "ill")})
    tables = [patients(seed, rows=150).drop(columns="smoker") for seed in range(3)]
    members = founded(path, EXACT, RISK, schema=schema, tables=tables)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["patterns", "risk"])
    agreement_path = members[0].agreement_path
    proposal = proposal_path(agreement_path)
    second = amended(members[0].agreement(), members[0].statements(), Amendment(tasks=(ScalerTask("drift", 0.5, 0.0),)))
    second.save(proposal)
    signed_by_all(second, IDENTITIES).save(proposal)
    adopt_proposal(agreement_path)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["drift"])
    return {member.name: three_days_later(report_values(member)) for member in members}


def told_of(report: Report, name: str) -> Report:
    """What a report tells of a task under the first version that has it."""
    return next(each for each in report["tasks"] if each["task"] == name)


def test_leave_the_last_version_and_what_was_paid_under_it_out_of_the_report(
    of_two_versions: dict[str, Report],
) -> None:
    east, west = of_two_versions["east"], copy.deepcopy(of_two_versions["west"])
    assert accusations(west, east) == []
    last = west["agreements"].pop()["digest"]
    west["tasks"] = [each for each in west["tasks"] if each["agreement"] != last]
    west["accounts"]["west"]["left"]["epsilon"] += 0.5
    (found,) = accusations(west, east)
    assert (found.about, found.by) == ("entry", ("east", "west"))
    assert "drift: east reports that it was finished with all members under version 2" in found.text
    # By its date it may be from before the end of the task: that is told.
    west["made_at"] = told_of(east, "risk")["finished_at"]
    found = compared(signed_report(west, IDENTITIES["west"]), signed_report(east, IDENTITIES["east"]))
    assert found.findings == []
    assert found.notes == [
        "the report of west does not list version 2 of clinics yet, which it has signed with all others; ask for a later one"
    ]


@pytest.mark.parametrize(
    ("about", "lie"),
    [
        ("entry", lambda report: told_of(report, "patterns")["entries"][0].update(exact_numbers=1)),
        ("entry", lambda report: told_of(report, "patterns")["entries"][0].update(exact_numbers=None)),
        ("entry", lambda report: told_of(report, "risk")["entries"][0].update(exact_numbers=7)),
        ("forged", lambda report: told_of(report, "risk").update(results={"model": "0" * 64})),
        ("forged", lambda report: told_of(report, "risk").update(results={})),
        ("forged", lambda report: told_of(report, "risk").update(finished_at=None)),
        ("forged", lambda report: report["agreements"][1].update(changed=[])),
        ("forged", lambda report: report["agreements"][0].update(changed=["tasks.risk.epsilon"])),
    ],
)
def test_say_less_than_was_shown_or_hold_another_result_under_another_name(
    about: str, lie: Callable[[Report], object], of_two_versions: dict[str, Report]
) -> None:
    west = copy.deepcopy(of_two_versions["west"])
    lie(west)
    assert {(each.about, each.by) for each in accusations(west, of_two_versions["east"])} == {(about, ("west",))}


def test_tell_of_the_end_of_a_task_and_hide_what_was_paid_for_it(of_two_versions: dict[str, Report]) -> None:
    """Also where members may leave, so that others say nothing about who was there."""
    west = copy.deepcopy(of_two_versions["west"])
    told_of(west, "risk").update(entries=[])
    found = {(each.about, each.by) for each in accusations(west, west)}
    assert found == {("entry", ("west",)), ("entry", ("west", "west"))}


def test_have_an_honest_member_leave_a_version_out_by_putting_an_older_agreement_in_its_place(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    node_of(member, LocalHub())
    first, statements, proposal = member.agreement(), member.statements(), proposal_path(member.agreement_path)
    second = amended(first, statements, Amendment())
    second.save(proposal)
    signed_by_all(second, IDENTITIES).save(proposal)
    adopt_by_hand(member)
    member.account(second)
    first.save(member.agreement_path)
    statements.save(member.agreement_path)
    found = report_values(member)["agreements"]
    assert [(each["version"], each["signed"]) for each in found] == [
        (number, ["east", "north", "west"]) for number in (1, 2)
    ]

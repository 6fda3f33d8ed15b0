"""Two reports: what cannot be true in both, or in one, is found; honest ones of different dates contradict nothing."""

from __future__ import annotations

import copy
import datetime
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sudare.consortium import Agreement, Budget, LearningTask, Member, MemberEntry, ModelsTask
from sudare.consortium.agreement.agreement import differences
from sudare.consortium.agreement.amendments import Amendment, amended, history_folder, keep_version
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.signed_statements import Revocation, Rotation, Statements, signature_status
from sudare.consortium.member_report import SignedReport, agreed_values, agreement_values, report_values, signed_report
from sudare.consortium.report_comparison import Comparison, compared
from sudare.errors import AgreementError
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of, run_together
from tests.consortium.documents import signed_by_all
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)
MODELS = ModelsTask("models", "PrivateLogisticRegression", 1.0)
Edit = Callable[[dict[str, Any]], object]
Report = dict[str, Any]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Reports of three clinics that have learned together, and one of east from before that, under `early`."""
    members = founded(tmp_path_factory.mktemp("clinics"), RISK)
    members[0].account(members[0].agreement())
    early = report_values(members[0])
    early["made_at"] = "2020-01-01T00:00:00+00:00"
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    return {"early": early, **{member.name: three_days_later(report_values(member)) for member in members}}


def three_days_later(values: Report) -> Report:
    """A report as it is made of the same ledger three days later: by no clock from before the end of a task in it."""
    made = datetime.datetime.fromisoformat(values["made_at"]) + datetime.timedelta(days=3)
    return {**values, "made_at": made.isoformat()}


def edited(values: Report, edit: Edit) -> Report:
    found = copy.deepcopy(values)
    edit(found)
    return found


def signed(values: Report) -> SignedReport:
    return signed_report(values, IDENTITIES[values["member"]])


def comparison(first: Report, second: Report) -> Comparison:
    return compared(signed(first), signed(second))


def abouts(first: Report, second: Report) -> set[str]:
    """What is found, which must be the same the other way round."""
    found = [{each.about for each in comparison(*pair).findings} for pair in ((first, second), (second, first))]
    assert found[0] == found[1]
    return found[0]


def test_honest_reports_contradict_nothing_also_of_one_member_at_two_times(reports: dict[str, Report]) -> None:
    for first in reports.values():
        for second in reports.values():
            assert comparison(first, second).findings == []


def test_a_report_from_before_a_task_is_told_to_be_one(reports: dict[str, Report]) -> None:
    assert comparison(reports["east"], reports["north"]).notes == []
    (note,) = comparison(reports["early"], reports["north"]).notes
    assert "report of east was made before the end" in note
    late = edited(reports["early"], lambda values: values.update(made_at=reports["north"]["made_at"]))
    assert abouts(late, reports["north"]) == {"entry"}


@pytest.mark.parametrize("days", [-0.9, 0.9, 1.9])
def test_a_report_from_before_a_task_by_a_clock_that_is_wrong_accuses_nobody(
    reports: dict[str, Report], days: float
) -> None:
    """East's report is from before the end, and its clock a day fast, or that and north's a day slow."""
    end = datetime.datetime.fromisoformat(reports["north"]["tasks"][0]["finished_at"])
    made = (end + datetime.timedelta(days=days)).isoformat()
    fast = edited(reports["early"], lambda values: values.update(made_at=made))
    for pair in ((fast, reports["north"]), (reports["north"], fast)):
        found = comparison(*pair)
        assert found.findings == []
        assert ["so soon after it that a wrong clock can be all" in each for each in found.notes] == [True]


@pytest.mark.parametrize(
    ("about", "edit"),
    [
        ({"agreement", "forged"}, lambda values: values["agreements"][0].update(digest="0" * 64)),
        ({"forged"}, lambda values: values["agreements"][0]["signed"].remove("west")),
        ({"forged"}, lambda values: values["agreements"][0].update(not_signed=["west"])),
        ({"forged"}, lambda values: values["agreements"][0]["keys"].update(west="0" * 64)),
        ({"forged"}, lambda values: values["agreements"][0].update(keys={})),
        ({"forged"}, lambda values: values["agreements"][0].update(all_must_stay=False)),
        ({"result"}, lambda values: values["tasks"][0]["results"].update(release="0" * 64)),
        ({"cost"}, lambda values: values["tasks"][0]["entries"][0]["guarantee"].update(epsilon=0.5)),
        ({"left"}, lambda values: values["tasks"][0]["entries"][0]["cost"].update(epsilon="2")),
        ({"cost"}, lambda values: values["tasks"][0]["entries"][0]["cost"].update(epsilon="1/2")),
        ({"entry"}, lambda values: values["tasks"][0]["entries"].clear()),
        ({"task"}, lambda values: values["tasks"].clear()),
        ({"agreement"}, lambda values: values.update(agreements=[], tasks=[])),
        ({"forged", "task"}, lambda values: values["tasks"][0].update(agreed={"epsilon": 1e-9, "delta": 0})),
        ({"forged", "task"}, lambda values: values["tasks"][0].update(kind="census")),
        ({"entry"}, lambda values: values["tasks"][0]["entries"][0].update(kind="disclosure")),
        ({"form", "left", "ledger"}, lambda values: values["tasks"].append(values["tasks"][0])),
        ({"left"}, lambda values: values["accounts"]["north"]["left"].update(epsilon=9.5)),
        ({"left"}, lambda values: values.update(accounts={})),
        ({"left"}, lambda values: values["tasks"][0]["entries"][0].update(account="another")),
        ({"ledger"}, lambda values: values["tasks"][0]["entries"][0].update(position=10**6)),
        ({"cost"}, lambda values: values["tasks"][0]["entries"][0]["guarantee"].update(epsilon=-1.0)),
        (
            {"ledger", "left", "cost"},
            lambda values: values["tasks"][0]["entries"].append(values["tasks"][0]["entries"][0]),
        ),
        ({"date"}, lambda values: values.update(made_at="2020-01-01T00:00:00+00:00")),
        (
            {"date", "entry"},
            lambda values: values["tasks"][0]["entries"].clear() or values.update(made_at="2020-01-01T00:00:00+00:00"),
        ),
        ({"signer"}, lambda values: values.update(member="east")),
        ({"unverifiable"}, lambda values: values.update(format=1)),
    ],
)
def test_what_cannot_be_true_is_found(reports: dict[str, Report], about: set[str], edit: Edit) -> None:
    ours, theirs = reports["west"], edited(reports["north"], edit)
    forged = signed_report(theirs, IDENTITIES["north"])
    for pair in ((signed(ours), forged), (forged, signed(ours))):
        assert {each.about for each in compared(*pair).findings} == about


@pytest.mark.parametrize("may_leave", [False, True])
def test_a_finished_task_without_sums_of_which_a_ledger_knows_nothing_is_found(tmp_path: Path, may_leave: bool) -> None:
    """Everybody's release is in what came of it, also where members may leave sums. That a member has made its own release says nothing about others."""
    members = founded(tmp_path, MODELS, relay=Identity.generated() if may_leave else None)
    for member in members:
        member.account(member.agreement())
    earlier = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    before = edited(report_values(members[1]), lambda values: values.update(made_at=earlier.isoformat()))
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["models"])
    east, north = (three_days_later(report_values(member)) for member in members[:2])
    assert comparison(east, north) == ([], [])
    hidden = edited(north, lambda values: values["tasks"][0].update(entries=[], results={}, finished_at=None))
    assert abouts(east, hidden) == {"entry"}
    assert [each.text for each in comparison(east, hidden).findings] == [
        "models: east reports that it was finished with all members, and north that its ledger has no entry of it"
    ]
    # East's report was made a minute after north's, and its releases were there before.
    later = (datetime.datetime.fromisoformat(east["made_at"]) + datetime.timedelta(minutes=1)).isoformat()
    assert abouts(edited(east, lambda values: values.update(made_at=later)), hidden) == {"entry"}
    # It names a cheaper guarantee, or calls the charge a disclosure, and has more left.
    cheap = edited(north, lambda values: values["tasks"][0]["entries"][0]["guarantee"].update(epsilon=0.01))
    cheap["tasks"][0]["entries"][0]["cost"]["epsilon"] = "1/100"
    called = edited(north, lambda values: values["tasks"][0]["entries"][0].update(kind="disclosure"))
    for lie, about in ((cheap, "cost"), (called, "entry")):
        lie["accounts"]["north"]["left"]["epsilon"] = 9.9
        assert {(each.about, each.by) for each in comparison(east, lie).findings} == {(about, ("north",))}
    (note,) = comparison(east, before).notes
    assert "report of north was made before the end" in note
    assert comparison(east, before).findings == []
    # East has made and paid for its release, and waits for those of others.
    waiting = edited(east, lambda values: values["tasks"][0].update(results={}))
    late = edited(before, lambda values: values.update(made_at=east["made_at"]))
    assert comparison(waiting, late) == ([], [])


def test_a_budget_above_the_agreed_one_is_told(reports: dict[str, Report]) -> None:
    raised = edited(
        reports["north"],
        lambda values: (
            values["accounts"]["north"]["budget"].update(epsilon="50"),
            values["accounts"]["north"]["left"].update(epsilon=49.0),
        ),
    )
    found = comparison(reports["east"], raised)
    assert found.findings == []
    assert found.notes == ["the account of north has a larger budget than version 1 of the agreement gives it"]


def with_statements(values: Report, statements: Statements, member: Member) -> Report:
    """The report of a member whose file of statements is this one."""
    statements.save(member.agreement_path)
    return {**report_values(member), "tasks": values["tasks"]}


def test_rotations_and_revocations_between_two_reports_accuse_nobody_and_two_successors_do(
    reports: dict[str, Report], tmp_path: Path
) -> None:
    members = founded(tmp_path, RISK)
    for member in members:
        member.account(member.agreement())
    before = members[0].statements()
    first, second = (Rotation.made(IDENTITIES["west"], Identity.generated()) for _ in range(2))
    plain = report_values(members[0])
    rotated = {each: with_statements(plain, replace(before, rotations=(each,)), members[1]) for each in (first, second)}
    assert abouts(plain, rotated[first]) == set()
    other = with_statements(plain, replace(before, rotations=(second,)), members[0])
    assert abouts(other, rotated[first]) == {"key"}
    revocation = Revocation(IDENTITIES["west"].public_key.hex(), "2026-01-01", "lost").signed_by(IDENTITIES["west"])
    revoked = with_statements(plain, replace(before, revocations=(revocation,)), members[1])
    assert abouts(plain, revoked) == set()
    # A member whose key was handed over since has signed with the one before.
    by_earlier = with_statements(
        plain, replace(before, rotations=(Rotation.made(IDENTITIES["east"], Identity.generated()),)), members[0]
    )
    assert comparison(by_earlier, report_values(members[1])).notes == [
        "the report of east is signed with an earlier key of it"
    ]


def following(agreement: Agreement, statements: Statements, count: int) -> list[tuple[Agreement, Statements]]:
    """So many versions after this one, each signed by all."""
    found = []
    for number in range(count):
        agreement = amended(agreement, statements, Amendment(budgets={"east": Budget(11.0 + number, 1e-4)}))
        statements = signed_by_all(agreement, IDENTITIES)
        found.append((agreement, statements))
    return found


def listing(values: Report, chain: list[tuple[Agreement, Statements]]) -> Report:
    """A report with these versions, under which no task was run."""
    agreements = [
        {
            **agreement_values(version, signature_status(version, statements)),
            "changed": [] if before is None else list(differences(before[0], version)),
            "text": version.to_toml(),
            "statements": statements.to_toml(),
        }
        for before, (version, statements) in zip([None, *chain[:-1]], chain, strict=True)
    ]
    tasks = [
        {**agreed_values(version, task), "entries": [], "finished_at": None, "results": {}}
        for version, _ in chain
        for task in version.tasks
    ]
    return {**copy.deepcopy(values), "agreements": agreements, "tasks": tasks}


def test_a_report_that_leaves_out_a_version_which_its_member_signed_is_found(
    reports: dict[str, Report], tmp_path: Path
) -> None:
    """Of what is later than all that it lists a member may not have known when it made its report; and what others say that it signed counts for nothing."""
    members = founded(tmp_path, RISK)
    for member in members:
        member.account(member.agreement())
    first = members[0].agreement(), members[0].statements()
    chain = [first, *following(*first, 2)]
    of_north = listing(report_values(members[1]), chain)
    of_east = listing(report_values(members[0]), [chain[0], chain[2]])
    found = comparison(of_east, of_north).findings
    assert ("agreement", ("east", "north")) in {(each.about, each.by) for each in found}
    assert any("east signed version 2 of clinics with all others" in each.text for each in found)
    # It may not have known the last one.
    assert abouts(listing(report_values(members[0]), chain[:2]), of_north) == set()
    # Without the texts nobody can tell who signed.
    ours, theirs = ({**reports[name], "format": 1} for name in NAMES[:2])
    (version,) = ours["agreements"]
    earlier = {**version, "version": 0, "digest": "0" * 64}
    for agreements in (
        [earlier, version],
        [{**earlier, "signed": ["east"]}, version],
        [version, {**earlier, "version": 2}],
    ):
        assert abouts({**ours, "agreements": agreements}, theirs) == {"unverifiable"}


def test_a_ledger_that_was_put_back_is_found_in_two_reports_of_one_member(reports: dict[str, Report]) -> None:
    later = reports["east"]
    forgotten = edited(
        later, lambda values: (values["tasks"][0]["entries"].clear(), values["ledger"].update(position=9))
    )
    assert "ledger" in abouts(later, forgotten)
    hidden = edited(
        later,
        lambda values: (
            values["tasks"][0].update(entries=[], results={}, finished_at=None),
            values["ledger"].update(position=values["ledger"]["position"] - 1, hash="0" * 64),
            values.update(made_at="2020-01-01T00:00:00+00:00"),
        ),
    )
    assert abouts(later, hidden) == {"ledger"}
    for edit, text in (
        (lambda values: values["ledger"].update(hash="0" * 64), "end differently"),
        (lambda values: values["ledger"].update(ledger="0" * 32), "two different ledgers"),
    ):
        assert text in comparison(later, edited(later, edit)).findings[0].text


def test_texts_that_cannot_be_read_and_reports_without_their_parts_are_refused(reports: dict[str, Report]) -> None:
    values = reports["east"]
    for edit, text in (
        (lambda each: each.update(tasks=[{}]), "lacks parts"),
        (lambda each: each["agreements"][0].update(text="no TOML ["), "cannot be read"),
        (lambda each: each["accounts"]["east"].update(left="much"), "lacks parts"),
        (lambda each: each["accounts"]["east"]["left"].update(epsilon=True), "lacks parts"),
        (
            lambda each: each["ledger"].update(position=10**30),
            "report of east has a position in its ledger that is none",
        ),
        (lambda each: each["ledger"].update(position="99"), "has a position in its ledger that is none"),
        (lambda each: each["ledger"].update(position=True), "has a position in its ledger that is none"),
        (lambda each: each["tasks"][0]["entries"][0].update(position=-1), "has a position in its ledger that is none"),
        (lambda each: each["tasks"][0].update(finished_at="nonsense"), "has a date that is none"),
        (lambda each: each["tasks"][0]["entries"][0].update(time="2026-01-01"), "has a date that is none"),
        (lambda each: each.update(made_at="2026-01-01T00:00:00"), "has a date that is none"),
        (lambda each: each.update(decisions=[{"x": "<script>"}]), "has a decision that is none"),
        (lambda each: each.update(decisions=["approved"]), "has a decision that is none"),
    ):
        with pytest.raises(AgreementError, match=text):
            comparison(values, edited(values, edit))


def test_neither_report_alone_says_what_is_compared(reports: dict[str, Report]) -> None:
    """Whoever says that a task had no sums, or that members might leave, is held to what the other says."""
    ours, theirs = reports["east"], reports["north"]
    cheap = edited(theirs, lambda values: values["tasks"][0]["entries"][0]["guarantee"].update(epsilon=0.01))
    cheap["tasks"][0]["has_sums"] = False
    unpaid = edited(theirs, lambda values: values["tasks"][0]["entries"].clear())
    unpaid["agreements"][0]["all_must_stay"] = False
    assert abouts(ours, cheap) == {"task", "cost", "forged"}
    assert abouts(ours, unpaid) == {"entry", "forged"}


def test_a_report_of_one_account_is_read_as_before(reports: dict[str, Report]) -> None:
    """Of format 2: entries of the account that the member had then, without its name."""
    earlier = edited(reports["north"], lambda values: values.update(format=2, **values.pop("accounts")["north"]))
    for task in earlier["tasks"]:
        for entry in task["entries"]:
            del entry["account"]
    assert comparison(earlier, reports["east"]) == ([], [])
    earlier["left"]["epsilon"] = 9.5
    assert abouts(earlier, reports["east"]) == {"left"}


def test_a_member_that_left_and_one_that_joined_later_are_noted_and_not_accused(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    east, west, south = members[0], members[2], Identity.generated()
    for member in (east, west):
        member.account(member.agreement())
    entry = MemberEntry("south", south.public_key.hex(), Budget(10.0, 1e-5))
    following = amended(east.agreement(), east.statements(), Amendment(frozenset({"west"}))).with_member(entry)
    path = tmp_path / "south" / "agreement.toml"
    shutil.copytree(east.folder, path.parent)
    following.save(path)
    keys = {"east": IDENTITIES["east"], "north": IDENTITIES["north"], "south": south}
    signed_by_all(following, keys).save(path)
    joined = replace(east, name="south", folder=path.parent, agreement_path=path, state_folder=path.parent / "state")
    of_west, of_south = signed(report_values(west)), signed_report(report_values(joined), south)
    for pair in ((of_west, of_south), (of_south, of_west)):
        found = compared(*pair)
        assert found.findings == []
        (note,) = found.notes
        assert "in the report of west end before those in the report of south begin" in note
    # The text of the next version says which one was before it.
    (tmp_path / "others").mkdir()
    other = founded(tmp_path / "others", replace(RISK, epsilon=2.0))[2]
    other.account(other.agreement())
    nothing = edited(of_west.values, lambda values: values.update(agreements=[], tasks=[]))
    for values in (report_values(other), nothing):
        for pair in ((signed(values), of_south), (of_south, signed(values))):
            assert {each.about for each in compared(*pair).findings} == {"agreement"}


def test_a_member_that_joined_after_a_task_is_not_accused_of_having_no_entry_of_it(tmp_path: Path) -> None:
    """Its report lists the versions before, from the history that it was given, and their tasks were not its own."""
    members = founded(tmp_path, RISK, MODELS, names=("east", "north"))
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk", "models"])
    east, west = members[0], tmp_path / "west"
    first, path = east.agreement(), west / "agreement.toml"
    entry = MemberEntry("west", IDENTITIES["west"].public_key.hex(), Budget(10.0, 1e-5))
    following = amended(first, east.statements(), Amendment()).with_member(entry)
    west.mkdir()
    keep_version(history_folder(path), first, east.statements())
    following.save(path)
    signed_by_all(following, {name: IDENTITIES[name] for name in NAMES}).save(path)
    joined = replace(east, name="west", folder=west, agreement_path=path, state_folder=west / "state")
    joined = replace(joined, ledger_address=f"sqlite:///{west}/ledger.db", account_name="west")
    joined.account(following)
    of_west, of_east = three_days_later(report_values(joined)), three_days_later(report_values(east))
    assert [each["version"] for each in of_west["agreements"]] == [1, 2]
    for pair in ((of_west, of_east), (of_east, of_west)):
        found = comparison(*pair)
        assert found.findings == []
        (note,) = found.notes
        assert "the report of east does not list version 2" in note
    # Nor was the report too early for them, by whichever clock.
    assert not any("made before the end" in note for note in comparison(report_values(joined), of_east).notes)

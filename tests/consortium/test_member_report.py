"""Reports for a regulator: what is in them, that a changed one is noticed, and that two that cannot both be true are."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import Agreement, Approvals, DictionaryTask, LearningTask, Member, ModelsTask
from sudare.consortium.agreement.amendments import Amendment, adopt_proposal, amended, history_folder, proposal_path
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.signed_statements import Revocation, Rotation, Statements
from sudare.consortium.agreement.taken_versions import take_version
from sudare.consortium.member_report import (
    SignedReport,
    read_report,
    report_values,
    signed_report,
    signer_problem,
    versions_before,
    write_report,
)
from sudare.consortium.member_report_page import report_page
from sudare.consortium.report_comparison import compared
from sudare.errors import AgreementError
from sudare.report.html_page import page_html
from sudare.schema import Schema
from tests.cli.conftest import invoked
from tests.consortium.clinics import IDENTITIES, SCHEMA, founded, node_of, patients, run_together
from tests.consortium.documents import signed_by_all
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Member]:
    """Three clinics that have learned together; one steward has said why."""
    members = founded(tmp_path_factory.mktemp("clinics"), RISK)
    agreement = members[0].agreement()
    Approvals(members[0].state_folder).decide(
        agreement, agreement.task("risk"), "approved", "the board's wish", who="ann"
    )
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    return members


def test_a_report_tells_what_was_agreed_run_revealed_paid_and_decided(members: list[Member]) -> None:
    found = report_values(members[0])
    (agreement,), (task,) = found["agreements"], found["tasks"]
    assert agreement["digest"] == members[0].agreement().digest
    assert agreement["signed"] == ["east", "north", "west"]
    (entry,) = task["entries"]
    assert (entry["kind"], entry["guarantee"]["epsilon"]) == ("charge", 1.0)
    assert set(task["results"]) == {"release"}
    assert [(each["who"], each["reason"]) for each in found["decisions"]] == [("ann", "the board's wish")]
    assert found["ledger"] == vars(members[0].ledger().head())
    assert found["accounts"]["east"]["left"]["epsilon"] == 9.0
    assert report_values(members[0], with_decisions=False)["decisions"] is None


def test_a_changed_report_and_one_of_another_key_are_noticed(members: list[Member], tmp_path: Path) -> None:
    values = report_values(members[0])
    write_report(tmp_path / "east.json", signed_report(values, IDENTITIES["east"]))
    found, agreed = read_report(tmp_path / "east.json"), (members[1].agreement(), members[1].statements())
    assert found.values == values
    assert signer_problem(found, *agreed) is None
    stranger = signed_report(values, Identity.generated())
    assert "not the one that stands for east" in str(signer_problem(stranger, *agreed))
    # A key that was handed over since signed the report when it was the member's.
    rotation = Rotation.made(IDENTITIES["east"], Identity.generated())
    assert signer_problem(found, agreed[0], replace(agreed[1], rotations=(rotation,))) is None
    nobody = SignedReport({**values, "member": "south"}, found.public_key, found.signature)
    assert "no member" in str(signer_problem(nobody, *agreed))
    text = (tmp_path / "east.json").read_text()
    (tmp_path / "changed.json").write_text(text.replace('"position": ', '"position": 1'))
    with pytest.raises(AgreementError, match="changed after it was signed"):
        read_report(tmp_path / "changed.json")
    for content in ("", "{}", "[1]", '{"report": {}, "public_key": "", "signature": ""}', "null"):
        (tmp_path / "none.json").write_text(content)
        with pytest.raises(AgreementError, match="not a member's report"):
            read_report(tmp_path / "none.json")
    with pytest.raises(AgreementError, match=r"There is no file 'gone\.json'"):
        read_report(tmp_path / "gone.json")
    with pytest.raises(AgreementError, match="cannot be written"):
        write_report(tmp_path / "east.json", found)


def test_the_page_says_the_same_in_both_languages(members: list[Member]) -> None:
    page = report_page(signed_report(report_values(members[0]), IDENTITIES["east"]))
    english, japanese = page_html(page), page_html(page, "ja")
    for text in (english, japanese):
        assert members[0].agreement().digest in text
        assert "the board&#39;s wish" in text
    assert "Who decided, and why" in english
    assert "Who decided, and why" not in japanese


def adopted(path: Path, change: Amendment, keys: dict[str, Identity]) -> None:
    """The next version, signed by these keys and put in place."""
    following = amended(Agreement.load(path), Statements.load(path), change)
    following.save(proposal_path(path))
    signed_by_all(following, keys).save(proposal_path(path))
    adopt_proposal(path)


@pytest.fixture
def later(members: list[Member], tmp_path: Path) -> list[Member]:
    """The same clinics, in a copy of their folders."""
    shutil.copytree(members[0].folder.parent, tmp_path / "clinics")
    return [
        replace(Member.load(tmp_path / "clinics" / each.name / "member.toml"), policy=each.policy) for each in members
    ]


def test_another_account_for_other_records_hides_nothing_that_was_paid_before(
    members: list[Member], later: list[Member]
) -> None:
    before, north = (signed_report(report_values(each), IDENTITIES[each.name]) for each in members[:2])
    patients(9, rows=5).to_csv(later[0].folder / "others.csv", index=False)
    other = replace(later[0], account_name="east-2027", data=replace(later[0].data, source="others.csv"))
    other.account(other.agreement())
    values = report_values(other)
    assert {name: each["left"]["epsilon"] for name, each in values["accounts"].items()} == {
        "east": 9.0,
        "east-2027": 10.0,
    }
    now = signed_report(values, IDENTITIES["east"])
    assert compared(before, now).findings == compared(now, north).findings == []
    (note,) = compared(now, north).notes
    assert "east paid from 2 accounts" in note


def test_results_of_an_earlier_version_are_compared_by_what_the_ledger_has(later: list[Member]) -> None:
    adopted(later[0].agreement_path, Amendment(), IDENTITIES)
    values = [report_values(member) for member in later[:2]]
    assert [set(task["results"]) for task in values[0]["tasks"]] == [{"release"}, set()]
    values[1]["tasks"][0]["results"]["release"] = "0" * 64
    lie = compared(*(signed_report(each, IDENTITIES[each["member"]]) for each in values))
    assert [each.about for each in lie.findings] == ["result"]


def test_results_of_an_earlier_version_are_not_taken_for_those_of_a_later_one(tmp_path: Path) -> None:
    """East has paid for both tasks of the second version and waits; what lies in its folders is of the first. Later it is set aside, and the others' is not accused."""
    models = ModelsTask("models", "PrivateLogisticRegression", 1.0)
    options = {"family": "diagonal_gaussian", "search": False, "max_iter": 2}
    patterns = DictionaryTask("patterns", 2, True, parameters=options)
    schema = Schema({name: SCHEMA.columns[name] for name in ("age", "pressure", "ill")})
    tables = [patients(seed, rows=150).drop(columns="smoker") for seed in range(3)]
    members, names = founded(tmp_path, models, patterns, schema=schema, tables=tables), ["models", "patterns"]
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], names)
    first = report_values(members[0])
    assert [set(task["results"]) for task in first["tasks"]] == [{"east", "north", "west"}, {"patterns"}]
    adopted(members[0].agreement_path, Amendment(), IDENTITIES)
    alone = node_of(members[0], LocalHub())
    for name in names:
        alone._prepared(alone.agreement.task(name))
    waiting = report_values(members[0])
    assert [bool(task["entries"]) for task in waiting["tasks"]] == [True] * 4
    assert [set(task["results"]) for task in waiting["tasks"]] == [set()] * 4
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], names)
    second = [signed_report(report_values(member), IDENTITIES[member.name]) for member in members]
    assert [set(task["results"]) for task in second[0].values["tasks"][2:]] == [{"east", "north", "west"}, {"patterns"}]
    for report in (second[1], second[2], signed_report(waiting, IDENTITIES["east"])):
        assert compared(second[0], report).findings == []
    kept = {path.name[4:] for name in names for path in (members[0].results_folder(name) / "earlier").iterdir()}
    assert kept == {f"{name}.sudare" for name in ("own", "east", "north", "west")} | {
        "combination.json",
        "dictionary.json",
    }


def test_a_report_signed_before_a_rotation_and_by_one_that_has_left_counts_under_later_versions(
    later: list[Member],
) -> None:
    path, old, new = later[0].agreement_path, IDENTITIES["east"], Identity.generated()
    reports = [signed_report(report_values(member), IDENTITIES[member.name]) for member in later]
    rotation = Rotation.made(old, new)
    replace(Statements.load(path), rotations=(rotation,)).with_sum_keys(Agreement.load(path), "east", new).save(path)
    adopted(path, Amendment(frozenset({"west"})), {"east": new, "north": IDENTITIES["north"]})
    agreement, statements = Agreement.load(path), Statements.load(path)
    earlier = list(versions_before(agreement, path))
    assert agreement.member("east").key == new.public_key.hex()
    assert [signer_problem(each, agreement, statements, earlier) for each in reports] == [None] * 3
    assert "no member" in str(signer_problem(reports[2], agreement, statements))
    stranger = signed_report(reports[0].values, Identity.generated())
    as_another = signed_report(reports[0].values, IDENTITIES["north"])
    for each in (stranger, as_another):
        assert "not the one" in str(signer_problem(each, agreement, statements, earlier))
    # A key that was revoked, or handed over twice, signs nothing that counts, whenever that was.
    revocation = Revocation(old.public_key.hex(), "2026-01-01", "stolen").signed_by(old)
    twice = (*statements.rotations, Rotation.made(old, Identity.generated()))
    for known in (replace(statements, revocations=(revocation,)), replace(statements, rotations=twice)):
        assert "not the one" in str(signer_problem(reports[0], agreement, known, earlier))


def test_what_is_done_to_the_shared_history_is_not_in_the_report(later: list[Member]) -> None:
    east = later[0]
    take_version(east, east.agreement())
    adopted(east.agreement_path, Amendment(), IDENTITIES)
    take_version(east, east.agreement())
    honest = report_values(east)
    assert [each["signed"] for each in honest["agreements"]] == [["east", "north", "west"]] * 2
    history = history_folder(east.agreement_path)
    (statements,) = history.glob("*.statements")
    statements.unlink()
    assert report_values(east)["agreements"] == honest["agreements"]
    assert statements.exists(), "it is put back"
    statements.write_text("no statements [")
    (history / "0001-other.toml").write_text(
        Agreement.load(next(history.glob("*.toml"))).to_toml().replace("30.0", "31.0")
    )
    (history / "0002-none.toml").write_text("no agreement [")
    east.agreement_path.with_suffix(".statements").unlink()
    assert report_values(east)["agreements"] == honest["agreements"]


def test_the_commands(members: list[Member], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", "only for these tests")
    monkeypatch.chdir(tmp_path)
    for member in members[:2]:
        IDENTITIES[member.name].save(member.key_path, b"only for these tests")
        words = (
            "--member",
            member.folder / "member.toml",
            "-o",
            f"{member.name}.json",
            "--html",
            f"{member.name}.html",
        )
        outcome = invoked("consortium", "report", *words)
        assert outcome.exit_code == 0, outcome.stderr
        assert f"signed by {member.name}" in outcome.stdout
        assert Path(f"{member.name}.html").read_text().startswith("<!")
    named = ("--agreement", members[2].agreement_path)
    assert invoked("consortium", "compare", "east.json", "north.json", *named).exit_code == 0
    assert "NOT CHECKED" in invoked("consortium", "compare", "east.json", "north.json").stdout
    values = json.loads(Path("north.json").read_text())["report"]
    values["tasks"][0]["results"]["release"] = "0" * 64
    write_report(tmp_path / "lie.json", signed_report(values, IDENTITIES["north"]))
    told = invoked("consortium", "compare", "east.json", "lie.json", *named, "--json")
    assert told.exit_code == 86
    assert told.values["contradictions"] == [
        {"about": "result", "text": "risk: they hold different results (release)", "by": ["east", "north"]}
    ]
    # A name in a report begins no line of its own.
    lie = {**values, "member": "north\nNothing in the reports of east and north contradicts the other."}
    write_report(tmp_path / "lines.json", signed_report(lie, IDENTITIES["north"]))
    shown = invoked("consortium", "compare", "east.json", "lines.json").stdout
    assert not any(line.startswith("Nothing") for line in shown.splitlines())
    write_report(tmp_path / "stranger.json", signed_report(values, Identity.generated()))
    assert invoked("consortium", "compare", "east.json", "stranger.json", *named).exit_code == 93

"""`sudare key`, `sudare consortium`, `sudare approve`, `deny` and `status`: from nothing to an agreement in force."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import (
    Agreement,
    Approvals,
    Budget,
    CensusTask,
    DictionaryTask,
    Identity,
    Member,
    MemberEntry,
    ModelsTask,
    Relay,
    Statements,
    Sums,
    permit,
    signature_status,
)
from sudare.consortium.agreement.amendments import Amendment, amended
from sudare.consortium.agreement.consortium_setup_steps import NewMember, joined, signed
from sudare.consortium.agreement.taken_versions import take_version
from sudare.consortium.ledger_rollback import remember_head
from sudare.errors import AgreementError, NotApproved
from sudare.privacy import Guarantee
from sudare.privacy.accounting import gaussian_cost, pure_cost
from tests.cli.conftest import Sudare
from tests.consortium.documents import agreement_of, signed_by_all, three_identities
from tests.languages.english_left import english_left

PASSPHRASE = "correct horse battery"
SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 110

[columns.ill]
kind = "label"
classes = [0, 1]
"""
NEW = (
    "consortium", "new", "agreement.toml", "--name", "two-clinics", "--schema", "schema.toml",
    "--task", "risk learning method=one-sum epsilon=0.5 parameters.fit_intercept=true",
    "--task", "scales scaler epsilon=0.25",
)  # fmt: skip


# Scrypt is slow on purpose; that it is as slow as it should be is tested where keys are.
EASY_SCRYPT = ("sudare.consortium.agreement.identity._SCRYPT_COST", 16)


@pytest.fixture(autouse=True)
def easy_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*EASY_SCRYPT)


def join(sudare: Sudare, name: str, *words: object):  # type: ignore[no-untyped-def]
    return sudare(
        "consortium", "join", "agreement.toml", "--name", name, "--folder", name, "--data", f"{name}.parquet",
        "--epsilon", 2, "--delta", 1e-6, *words,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built_consortium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members that have joined and signed."""
    from tests.cli.conftest import invoked

    folder = tmp_path_factory.mktemp("consortium")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
        patch.setattr(*EASY_SCRYPT)
        (folder / "schema.toml").write_text(SCHEMA)
        assert invoked(*NEW).exit_code == 0
        for name in ("east", "north"):
            assert join(invoked, name).exit_code == 0
        for name in ("east", "north"):
            signed = invoked("consortium", "sign", "--member", f"{name}/member.toml")
            assert signed.exit_code == 0, signed.stderr
    return folder


JAPANESE = (
    ("status",), ("approve", "risk", "--dry-run"), ("approve", "risk"), ("deny", "risk", "--reason", "no"),
    ("deny", "scales", "--reason", "no", "--dry-run"), ("status",), ("consortium", "sign", "--dry-run"),
    ("consortium", "blame", "risk"), ("run", "risk"), ("approve", "nothing"), ("consortium", "check", "agreement.toml"),
    (*NEW[:2], "other.toml", *NEW[3:]), (*NEW[:2], "third.toml", *NEW[3:], "--threshold", "1"),
)  # fmt: skip


def test_what_is_told_of_a_consortium_is_japanese(consortium: Path, sudare: Sudare) -> None:
    left = {}
    for words in JAPANESE:
        takes_member = words[0] != "consortium" or words[1] in ("sign", "blame")
        member = ("--member", "east/member.toml") if takes_member else ()
        told = sudare("--lang", "ja", *words, *member).output
        assert re.search("[ぁ-んァ-ヶ]", told), words
        if found := english_left(told):
            left[words] = found
    assert left == {}


@pytest.fixture
def consortium(built_consortium: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy; commands run in it, and the passphrase stands in the environment."""
    folder = tmp_path / "consortium"
    shutil.copytree(built_consortium, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    monkeypatch.delenv("SUDARE_MEMBER", raising=False)
    return folder


def test_an_agreement_takes_the_relay_s_key(tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    key = sudare("key", "new", "relay.pem", "--public", "relay.pub", "--json").values["public_key"]
    assert "Give a --threshold" in sudare(*NEW, "--relay-key", "relay.pub").stderr
    made = sudare(*NEW, "--relay-key", "relay.pub", "--threshold", 3)
    assert made.exit_code == 0, made.stderr
    agreement = Agreement.load("agreement.toml")
    assert (agreement.relay, agreement.relay_collects) == (Relay(key), True)
    assert "'relay'" in join(sudare, "relay").stderr
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "east").mkdir()
    shutil.copy("relay.pem", "east/key.pem")
    assert "the public key of 'east'" in join(sudare, "east").stderr
    assert "is not an Ed25519 public key" in sudare(*NEW, "--relay-key", "schema.toml", "--threshold", 3).stderr


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_agreement_says_how_many_may_leave_and_how_many_may_be_dishonest(
    tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    made = sudare(*NEW, "--threshold", 5, "--dishonest", 2)
    assert made.exit_code == 0, made.stderr
    sums = Agreement.load("agreement.toml").sums
    assert (sums.threshold, sums.dishonest) == (5, 2)
    assert sudare(*NEW, "--dishonest", -1).exit_code == 2


# Keys


def test_a_new_key_asks_twice_and_shows_again(tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDARE_PASSPHRASE", raising=False)
    typed = f"{PASSPHRASE}\n{PASSPHRASE}\n"
    made = sudare("key", "new", "key.pem", "--public", "public.pem", "--json", typed=typed)
    assert made.exit_code == 0, made.stderr
    shown = sudare("key", "show", "key.pem", "--json", typed=f"{PASSPHRASE}\n")
    # The runner's stand-in for a hidden answer leaves an empty line on standard output.
    assert json.loads(shown.stdout) == json.loads(made.stdout)
    told = sudare("key", "show", "key.pem", typed=f"{PASSPHRASE}\n")
    assert (tmp_path / "public.pem").read_text() in told.stdout
    assert PASSPHRASE not in made.stdout + made.stderr + told.stdout + told.stderr
    wrong = sudare("key", "show", "key.pem", typed="something else\n")
    assert wrong.exit_code == 93
    again = sudare("key", "new", "key.pem", typed=typed)
    assert again.exit_code == 93
    (tmp_path / "key.pem").chmod(0o644)
    assert sudare("key", "show", "key.pem", typed=f"{PASSPHRASE}\n").exit_code == 93


def test_a_passphrase_from_a_file(tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDARE_PASSPHRASE", raising=False)
    (tmp_path / "phrase").write_text(PASSPHRASE + "\n")
    (tmp_path / "phrase").chmod(0o600)
    assert sudare("key", "new", "key.pem", "--passphrase-file", "phrase").exit_code == 0
    Identity.load(tmp_path / "key.pem", PASSPHRASE.encode())
    (tmp_path / "phrase").write_text("short")
    assert sudare("key", "new", "other.pem", "--passphrase-file", "phrase").exit_code == 10
    assert not (tmp_path / "other.pem").exists()


def test_rotation_keeps_the_agreement_in_force(consortium: Path, sudare: Sudare) -> None:
    before = files(consortium)
    rehearsed = sudare("key", "rotate", "--member", "east/member.toml", "--dry-run", "--json")
    assert rehearsed.exit_code == 0
    assert files(consortium) == before
    rotated = sudare("key", "rotate", "--member", "east/member.toml", "--json")
    assert rotated.exit_code == 0, rotated.stderr
    assert rotated.values["old"] == rehearsed.values["old"] != rotated.values["new"]
    checked = sudare("consortium", "check", "agreement.toml", "--json")
    assert checked.exit_code == 0
    assert checked.values["keys"]["east"] == rotated.values["new"]
    member = Member.load("east/member.toml")
    assert member.identity(PASSPHRASE.encode()).fingerprint == rotated.values["new"]
    assert Identity.load(rotated.values["kept"], PASSPHRASE.encode()).fingerprint == rotated.values["old"]
    again = sudare("key", "rotate", "--member", "east/member.toml", "--json")
    assert again.values["old"] == rotated.values["new"]


@pytest.mark.parametrize("crash", ["before the statement", "before the exchange of files"])
def test_a_rotation_that_was_cut_short_is_finished_by_the_next(
    crash: str, consortium: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if crash == "before the statement":
            patch.setattr("sudare.consortium.agreement.signed_statements.Statements.save", fail)
        else:
            patch.setattr("sudare.consortium.agreement.consortium_setup_steps.replace_keeping_old", fail)
        sudare("key", "rotate", "--member", "east/member.toml")
    finished = sudare("key", "rotate", "--member", "east/member.toml", "--json")
    assert finished.exit_code == 0, finished.stdout
    checked = sudare("consortium", "check", "agreement.toml", "--json")
    assert checked.values["keys"]["east"] == finished.values["new"]
    assert len(Statements.load("agreement.toml").rotations) == 1
    assert not (consortium / "east" / "key.pem.next").exists()


def test_revoking_the_own_key_counts_at_once(consortium: Path, sudare: Sudare) -> None:
    before = files(consortium)
    words = ("key", "revoke", "--member", "east/member.toml", "--reason", "laptop lost")
    assert sudare(*words, "--dry-run").exit_code == 0
    assert files(consortium) == before
    told = sudare(*words, "--json")
    assert told.values["counts"] is True
    checked = sudare("consortium", "check", "agreement.toml", "--json")
    assert checked.exit_code == 94
    assert checked.values["revoked"] == ["east"]
    assert "key revoked" in sudare("consortium", "check", "agreement.toml").stdout
    assert sudare("consortium", "sign", "--member", "east/member.toml").exit_code == 94
    assert sudare("key", "rotate", "--member", "east/member.toml").exit_code == 94
    assert sudare(*words, "--json").values["member"] == "east"


def test_others_revoke_together(consortium: Path, sudare: Sudare) -> None:
    assert join(sudare, "west").exit_code == 0
    for name in ("east", "north", "west"):
        assert sudare("consortium", "sign", "--member", f"{name}/member.toml").exit_code == 0
    words = ("key", "revoke", "--of", "west", "--reason", "does not answer", "--json")
    first = sudare(*words, "--member", "east/member.toml")
    assert (first.values["counts"], first.values["signatures"]) == (False, 1)
    assert sudare("consortium", "check", "agreement.toml").exit_code == 0
    second = sudare(*words, "--member", "north/member.toml")
    assert (second.values["counts"], second.values["signatures"]) == (True, 2)
    assert sudare("consortium", "check", "agreement.toml").exit_code == 94
    assert sudare(*words, "--member", "north/member.toml").values["already_revoked"] is True
    assert sudare("key", "revoke", "--of", "south", "--reason", "?", "--member", "east/member.toml").exit_code == 91


# Agreements


def test_from_nothing_to_in_force(consortium: Path, sudare: Sudare) -> None:
    checked = sudare("consortium", "check", "agreement.toml", "--json")
    assert checked.exit_code == 0
    assert checked.values["in_force"] is True
    assert checked.values["signed"] == ["east", "north"]
    told = sudare("consortium", "check", "agreement.toml").stdout
    assert "In force: all have signed." in told
    assert checked.values["keys"]["east"] in told
    agreement = Agreement.load("agreement.toml")
    assert agreement.digest == checked.values["digest"]
    assert agreement.task("risk").parameters == {"fit_intercept": True}
    assert agreement.task("risk").cost == (0.5, 0.0)
    assert (agreement.member("east").budget.epsilon, agreement.member("east").budget.delta) == (2.0, 1e-6)
    member = Member.load("north/member.toml")
    assert member.source() == str(consortium / "north" / ".." / "north.parquet")
    assert (consortium / "north" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert (consortium / "north").stat().st_mode & 0o777 == 0o700


def test_what_is_signed_is_what_was_checked_before_the_passphrase_was_asked_for(
    consortium: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement, opened = Path("agreement.toml"), Member.identity

    def slowly(member: Member, passphrase: bytes) -> Identity:
        agreement.write_text(agreement.read_text().replace('name = "two-clinics"', 'name = "two-others"'))
        return opened(member, passphrase)

    statements = Path("agreement.statements").read_bytes()
    monkeypatch.setattr(Member, "identity", slowly)
    told = sudare("consortium", "sign", "--member", "east/member.toml")
    assert told.exit_code == 91
    assert "The agreement was changed meanwhile" in told.stderr
    assert Path("agreement.statements").read_bytes() == statements


def test_dry_runs_change_nothing(consortium: Path, sudare: Sudare) -> None:
    before = files(consortium)
    other = ("consortium", "new", "other.toml", *NEW[3:])
    assert sudare(*other, "--dry-run", "--json").values["dry_run"] is True
    assert join(sudare, "west", "--dry-run").exit_code == 0
    assert sudare("consortium", "sign", "--member", "east/member.toml", "--dry-run").exit_code == 0
    shutil.copy("agreement.statements", "theirs")
    assert sudare("consortium", "check", "agreement.toml", "--add", "theirs", "--dry-run").exit_code == 0
    Path("theirs").unlink()
    assert sudare("approve", "risk", "--member", "east/member.toml", "--dry-run").exit_code == 0
    assert files(consortium) == before


def test_an_agreement_is_not_overwritten_and_tasks_are_read_strictly(consortium: Path, sudare: Sudare) -> None:
    assert sudare(*NEW).exit_code == 91
    for task in (
        "risk",
        "risk magic",
        "risk learning method=one-sum",
        "risk learning epsilon",
        "Risk dictionary patterns=1",
    ):
        refused = sudare(
            "consortium", "new", "x.toml", "--name", "x", "--schema", "schema.toml", "--task", task, "--json"
        )
        assert refused.exit_code in (10, 91), task
    assert not Path("x.toml").exists()


def test_a_third_member_makes_all_sign_again(consortium: Path, sudare: Sudare) -> None:
    before = Agreement.load("agreement.toml")
    told = unwrapped(join(sudare, "west").stdout)
    assert "All members had signed this agreement" in told
    assert "take [members.west] out of the file again" in told
    # The way back that it tells.
    joined = Agreement.load("agreement.toml")
    before.save("agreement.toml")
    assert sudare("consortium", "check", "agreement.toml").exit_code == 0
    joined.save("agreement.toml")
    again = join(sudare, "west", "--json")
    assert again.values["members"] == ["east", "north", "west"]
    assert "had signed" not in join(sudare, "west").stdout
    checked = sudare("consortium", "check", "agreement.toml", "--json")
    assert checked.exit_code == 92
    assert (checked.values["missing"], checked.values["invalid"]) == (["west"], ["east", "north"])
    assert "signed something else" in sudare("consortium", "check", "agreement.toml").stdout


def test_nobody_joins_under_another_members_name(consortium: Path, sudare: Sudare) -> None:
    shutil.rmtree("east")
    before = files(consortium)
    refused = join(sudare, "east")
    assert refused.exit_code == 91
    assert "with another key" in refused.stderr
    assert files(consortium) == before


def test_who_has_joined_can_join_again_with_the_same_key(consortium: Path, sudare: Sudare) -> None:
    digest = Agreement.load("agreement.toml").digest
    assert join(sudare, "east", "--json").values["digest"] == digest


def test_joining_again_says_what_the_member_s_own_file_has_otherwise(consortium: Path, sudare: Sudare) -> None:
    """Words of a command that is repeated are not taken for what the file says: the node would work by the file."""
    before = files(consortium)
    words = ("consortium", "join", "agreement.toml", "--epsilon", 2, "--delta", 1e-6, "--folder", "east", "--name")
    for more, wrong in (
        (("east", "--data", "east.parquet", "--encoding", "cp932"), "data.encoding"),
        (("east", "--data", "other.csv", "--no-header"), "data.source, data.has_header"),
        (("west", "--data", "east.parquet"), "name"),
        (("east", "--data", "sqlite:///x.db", "--query", "people", "--dry-run"), "data.url, data.query"),
    ):
        refused = sudare(*words, *more)
        assert refused.exit_code == 91
        assert f"'east/member.toml' is there already and says otherwise: {wrong}." in unwrapped(refused.stderr)
        assert files(consortium) == before
    shutil.copy("agreement.toml", "second.toml")
    other = sudare(*words[:2], "second.toml", *words[3:], "east", "--data", "east.parquet")
    assert "says otherwise: agreement." in unwrapped(other.stderr)
    Path("elsewhere").symlink_to(consortium)
    file = Path("east/member.toml")
    file.write_text(file.read_text() + 'encoding = "cp932"\n')
    assert sudare(*words, "east", "--data", consortium / "elsewhere/east.parquet", "--encoding", "cp932").exit_code == 0
    assert sudare(*words, "east", "--data", "east.parquet").exit_code == 0


@pytest.mark.parametrize("words", [("--epsilon", 0.1), ("--epsilon", -1), ("--delta", 2), ("--name", "West Clinic")])
def test_what_does_not_fit_leaves_no_key_behind(words: tuple[str, object], consortium: Path, sudare: Sudare) -> None:
    before = files(consortium)
    assert join(sudare, "west", *words).exit_code == 91
    assert files(consortium) == before


def test_which_field_differs(consortium: Path, sudare: Sudare) -> None:
    text = Path("agreement.toml").read_text()
    Path("theirs.toml").write_text(text.replace("epsilon = 0.5", "epsilon = 0.75"))
    told = sudare("consortium", "check", "agreement.toml", "--with", "theirs.toml", "--json")
    assert told.exit_code == 92
    assert "tasks.risk.epsilon differs" in told.values["error"]["problem"]
    shutil.copy("agreement.toml", "same.toml")
    assert sudare("consortium", "check", "agreement.toml", "--with", "same.toml").exit_code == 0


def test_members_who_sign_copies_of_their_own_exchange_statements(consortium: Path, sudare: Sudare) -> None:
    Path("agreement.statements").unlink()
    for name in ("east", "north"):
        shutil.copy("agreement.toml", f"{name}/agreement.toml")
        member = Path(name) / "member.toml"
        member.write_text(member.read_text().replace("../agreement.toml", "agreement.toml"))
        assert sudare("consortium", "sign", "--member", member).exit_code == 0
    theirs = "north/agreement.statements"
    assert sudare("consortium", "check", "east/agreement.toml").exit_code == 92
    assert sudare("consortium", "check", "east/agreement.toml", "--add", theirs).exit_code == 0
    assert sudare("consortium", "check", "east/agreement.toml").exit_code == 0
    added = sudare(
        "consortium", "sign", "--member", "north/member.toml", "--add", "east/agreement.statements", "--json"
    )
    assert added.values["in_force"] is True


def test_where_members_may_leave_a_check_names_who_has_not_signed_its_keys_for_sums(
    tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    identities = three_identities()
    agreement = agreement_of(identities)
    agreement.save("agreement.toml")
    signed_all = signed_by_all(agreement, identities)
    sum_keys = {name: each for name, each in signed_all.sum_keys.items() if name != "north"}
    replace(signed_all, sum_keys=sum_keys).save("agreement.toml")
    told = sudare("consortium", "check", "agreement.toml")
    assert told.exit_code == 92
    assert "Without keys for sums: north." in unwrapped(told.stdout)
    assert "they sign again with `sudare consortium sign`" in unwrapped(told.stdout)
    assert "signed, without keys for sums" in told.stdout
    values = sudare("consortium", "check", "agreement.toml", "--json").values
    assert (values["in_force"], values["without_sum_keys"]) == (False, ["north"])
    signed_all.save("agreement.toml")
    assert sudare("consortium", "check", "agreement.toml").exit_code == 0


def test_changes_made_at_once_are_all_kept(consortium: Path) -> None:
    """Members who share a folder may join and sign at the same moment."""
    names = [f"clinic-{number}" for number in range(6)]

    def joins(name: str) -> None:
        joining = NewMember(name, consortium / name, {"source": "table.csv"}, Budget(2.0, 1e-6))
        joined(consortium / "agreement.toml", joining, PASSPHRASE.encode())

    def signs(name: str) -> None:
        member = Member.load(consortium / name / "member.toml")
        signed(member, member.identity(PASSPHRASE.encode()))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(joins, names))
        list(pool.map(signs, ["east", "north", *names]))
    agreement = Agreement.load("agreement.toml")
    assert agreement.member_names == (*names, "east", "north")
    assert signature_status(agreement, Statements.load("agreement.toml")).is_in_force


# The steward


def test_status_says_what_keeps_a_node_from_starting(consortium: Path, sudare: Sudare) -> None:
    """An earlier agreement was put back, and an older ledger: a node would end with 91 and 42."""
    member, status = Member.load("east/member.toml"), ("status", "--member", "east/member.toml")
    first, statements = member.agreement(), member.statements()
    take_version(member, first)
    ledger = member.account(first).ledger
    remember_head(member, ledger)
    assert sudare(*status, "--json").values["problems"] == []
    second = amended(first, statements, Amendment())
    (member.state_folder / "agreement.json").write_text(json.dumps({"version": 2, "digest": second.digest}))
    (member.state_folder / "ledger.head").write_text(json.dumps({**vars(ledger.head()), "position": 9}))
    shown = sudare(*status).stdout
    assert "No node would start here: This is version 1 of the agreement; this member has taken version 2" in shown
    assert "No node would start here: The ledger once confirmed entry 9" in shown
    assert len(sudare(*status, "--json").values["problems"]) == 2


def test_approve_deny_status(consortium: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_MEMBER", "east/member.toml")
    member, agreement = Member.load("east/member.toml"), Agreement.load("agreement.toml")
    risk = agreement.task("risk")
    with pytest.raises(NotApproved):
        permit(member, agreement, risk)
    told = sudare("status", "--json").values
    assert (told["member"], told["in_force"], told["budget"]) == ("east", True, None)
    by_task = {each["task"]: each for each in told["tasks"]}
    assert (by_task["risk"]["state"], by_task["scales"]["state"]) == ("pending", "none")
    approved = sudare("approve", "risk", "--reason", "seen by the board", "--json").values
    assert (approved["before"], approved["after"]) == ("pending", "approved")
    permit(member, agreement, risk)
    assert Approvals(member.state_folder).state(agreement, risk).reason == "seen by the board"
    denied = sudare("deny", "risk", "--reason", "not now")
    assert "risk: approved → denied." in denied.stdout
    with pytest.raises(NotApproved):
        permit(member, agreement, risk)
    shown = sudare("status")
    assert "not now" in shown.stdout
    assert "in force" in shown.stdout
    assert "No account yet." in shown.stdout
    member.account(agreement)
    assert sudare("status", "--json").values["budget"] == {"epsilon": 2.0, "delta": 1e-6}
    assert "Left of the budget: ε 2, δ 1e-06." in sudare("status").stdout
    assert "ε 0.25" in sudare("approve", "scales").stdout
    assert {each["node"] for each in sudare("status", "--json").values["tasks"]} == {""}
    told = {"agreement": agreement.digest, "process": None, "present": []}
    (member.state_folder / "node.json").write_text(
        json.dumps({**told, "tasks": {"risk": {"state": "running", "files": []}}})
    )
    assert {each["task"]: each["node"] for each in sudare("status", "--json").values["tasks"]}["risk"] == "running"
    stopped = {"state": "failed", "error": "MembersMissing: 'north' is gone. Run it again.", "files": []}
    (member.state_folder / "node.json").write_text(json.dumps({**told, "tasks": {"risk": stopped}}))
    assert "risk stopped: MembersMissing: 'north' is gone. Run it again." in sudare("status").stdout


def test_states_of_tasks_are_told_in_japanese_and_names_stay(consortium: Path, sudare: Sudare) -> None:
    member = ("--member", "east/member.toml")
    assert sudare("approve", "risk", *member, "--reason", "approved").exit_code == 0
    file = Path("east/member.toml")
    file.write_text(file.read_text() + '\n[policy]\napproval = ["learning"]\n')
    rows = sudare("--lang", "ja", "status", *member).stdout.splitlines()
    (risk,) = (row.split() for row in rows if row.startswith("risk "))
    (scales,) = (row.split() for row in rows if row.startswith("scales "))
    # The reason is what the steward wrote.
    assert (risk[-3], risk[-1]) == ("承認", "approved")
    assert scales[-1] == "不要"


def test_the_steward_is_told_what_is_wrong(consortium: Path, sudare: Sudare) -> None:
    assert sudare("approve", "none", "--member", "east/member.toml").exit_code == 91
    assert sudare("deny", "risk", "--reason", " ", "--member", "east/member.toml").exit_code == 10
    assert sudare("status", "--member", "none.toml").exit_code == 91
    assert sudare("deny", "risk", "--member", "east/member.toml").exit_code == 2
    Path("agreement.statements").unlink()
    found = sudare("status", "--member", "east/member.toml", "--json").values
    assert (found["in_force"], found["unsigned"]) == (False, ["east", "north"])


def test_the_commands_standing_is_the_librarys(consortium: Path, sudare: Sudare) -> None:
    found = signature_status(Agreement.load("agreement.toml"), Statements.load("agreement.toml"))
    assert sudare("consortium", "check", "agreement.toml", "--json").values["in_force"] == found.is_in_force


def test_a_private_dictionary_from_its_words_to_the_status(
    sudare: Sudare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two members, no consent: its price is told when it is written, approved and looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    task = "wear dictionary patterns=2 epsilon=1.5 delta=1e-6 parameters.private_iterations=8"
    new = ("consortium", "new", "agreement.toml", "--name", "two-plants", "--schema", "schema.toml", "--task")
    assert "`tasks.wear.delta` is missing" in sudare(*new, "wear dictionary patterns=2 epsilon=1.5").stderr
    assert "wear (dictionary, ε 1.5, δ 1e-06)" in sudare(*new, task).stdout
    for name in ("east", "north"):
        assert join(sudare, name).exit_code == 0
    signed = sudare("consortium", "sign", "--member", "east/member.toml")
    assert signed.exit_code == 0, signed.stderr
    words = ("--member", "east/member.toml")
    approved = sudare("approve", "wear", *words, "--dry-run").stdout
    assert "It costs at most ε 1.5, δ 1e-6." in approved
    assert (
        "In sums all 2 members must stay. None of them may be dishonest. The noise counts on 1 share of 2."
        in unwrapped(approved)
    )
    told = "ε 1.5, δ 1e-6 in all, towards everyone"
    assert f"{told}; not charged yet." in unwrapped(sudare("status", *words).stdout)
    assert "exact" not in sudare("status", *words).stdout

    own = Member.load("east/member.toml")
    agreement = own.agreement()
    mark = f"task 'wear' of agreement {agreement.digest[:16]}, run 0123"
    cost = gaussian_cost(1.5, 1e-6)
    own.account(agreement).charge(Guarantee(1.5, 1e-6), cost, "pattern dictionary of 2 members", mark)
    (tmp_path / "east/results/wear").mkdir(parents=True)
    (tmp_path / "east/results/wear/dictionary.json").write_text('{"numbers": 1234, "sums": 10}')
    assert f"{told}; charged; 1,233 noisy totals in 9 sums." in unwrapped(sudare("status", *words).stdout)
    (noisy,) = sudare("status", *words, "--json").values["noisy"]
    assert noisy == {
        "task": "wear", "epsilon": 1.5, "delta": 1e-6, "charges": 1, "sums": 10, "numbers": 1234,
    }  # fmt: skip


def test_who_must_stay_who_may_lie_and_what_the_noise_counts_on_is_said(consortium: Path, sudare: Sudare) -> None:
    words = ("--member", "east/member.toml")
    two = "In sums all 2 members must stay. None of them may be dishonest. The noise counts on 1 share of 2."
    numbers = {"members": 2, "threshold": 2, "dishonest": 0, "colluders": 1, "collector": None}
    commands: list[tuple[str, ...]] = [
        ("consortium", "check", "agreement.toml"),
        ("consortium", "sign", *words, "--dry-run"),
        ("status", *words),
        ("approve", "risk", *words, "--dry-run"),
    ]
    for command in commands:
        assert two in unwrapped(sudare(*command).stdout)
        assert sudare(*command, "--json").values["sums"] == numbers

    agreement = Agreement.load("agreement.toml")
    more = tuple(
        MemberEntry(name, Identity.generated().public_key.hex(), Budget(2.0, 1e-6)) for name in ("south", "west")
    )
    four = replace(agreement, members=(*agreement.members, *more), sums=Sums(threshold=3, dishonest=1))
    four.save("agreement.toml")
    line = "In sums 3 of 4 members must stay. 1 of them may be dishonest. Members collect by turns. The noise counts on 1 share of 4."
    for command in commands:
        assert line in unwrapped(sudare(*command).stdout)

    relay = Relay(Identity.generated().public_key.hex())
    replace(four, sums=replace(four.sums, collector="relay"), relay=relay).save("agreement.toml")
    for command in commands:
        assert line.replace("Members collect by turns", "The relay collects, and sees totals") in unwrapped(
            sudare(*command).stdout
        )
        assert sudare(*command, "--json").values["sums"]["collector"] == "relay"
    checked = sudare("consortium", "check", "agreement.toml")
    assert re.search(r"\(the relay\) +[0-9a-f]{4} .* collects sums", checked.stdout)

    exact = DictionaryTask("patterns", 2, consent=True)
    replace(four, tasks=(exact, *four.tasks)).save("agreement.toml")
    approved = unwrapped(sudare("approve", "patterns", *words, "--dry-run").stdout)
    assert "In sums 3 of 4 members must stay. 1 of them may be dishonest. Members collect by turns." in approved
    replace(four, tasks=(CensusTask("ages", ("age",), 0.5),)).save("agreement.toml")
    assert "In sums" not in sudare("consortium", "check", "agreement.toml").stdout
    assert sudare("approve", "ages", *words, "--dry-run", "--json").values["sums"] is None


def test_sums_whose_numbers_do_not_fit_are_told_before_anybody_signs(consortium: Path, sudare: Sudare) -> None:
    agreement = Agreement.load("agreement.toml")
    replace(agreement, sums=Sums(dishonest=1)).save("agreement.toml")
    found = sudare("status", "--member", "east/member.toml")
    assert "Sums cannot be made as things are: `sums.dishonest`: 1 dishonest among 2 members" in unwrapped(found.stdout)
    assert sudare("status", "--member", "east/member.toml", "--json").values["sums"]["colluders"] is None


def test_a_task_that_counts_shares_itself_is_told_where_that_is_said_now(sudare: Sudare, tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    new = (
        "consortium",
        "new",
        tmp_path / "agreement.toml",
        "--name",
        "clinics",
        "--schema",
        tmp_path / "schema.toml",
        "--task",
    )
    refused = sudare(*new, "risk learning method=one-sum epsilon=0.5 tolerance=2")
    assert refused.exit_code != 0
    assert "`tasks.risk.tolerance` is no field of a task any more" in unwrapped(refused.stderr)
    assert "`dishonest` of [sums]" in unwrapped(refused.stderr)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_the_planned_cost_is_shown_where_the_text_says_another(
    consortium: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_MEMBER", "east/member.toml")
    agreement = Agreement.load("agreement.toml")
    counts = ModelsTask("counts", "PrivateHistogram", 0.5, parameters={"neighbours": "add-remove"})
    replace(agreement, tasks=(*agreement.tasks, counts)).save("agreement.toml")
    told = "counts charges ε 1 for a record (of 1,000); its text says ε 0.5."
    checked = sudare("consortium", "check", "agreement.toml")
    assert told in checked.stdout
    assert sudare("consortium", "check", "agreement.toml", "--json").values["plans"]["counts"] == {
        "epsilon": 1.0,
        "delta": 0.0,
    }
    shown = sudare("status")
    assert "counts charges ε 1.0, δ 0 for a record; the agreement's text says ε 0.5, δ 0." in shown.stdout
    row = next(each for each in sudare("status", "--json").values["tasks"] if each["task"] == "counts")
    assert (row["epsilon"], row["agreed_epsilon"], row["is_planned"], row["used"]) == (1.0, 0.5, True, False)
    approved = sudare("approve", "counts")
    assert "It costs at most ε 1.0, δ 0. The agreement says ε 0.5, δ 0" in approved.stdout
    member, agreement = Member.load("east/member.toml"), Agreement.load("agreement.toml")
    assert permit(member, agreement, agreement.task("counts")).epsilon == 1.0


def test_a_task_that_was_run_and_whose_state_is_gone_is_not_approved_again(
    consortium: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_MEMBER", "east/member.toml")
    member, agreement = Member.load("east/member.toml"), Agreement.load("agreement.toml")
    mark = f"task 'risk' of agreement {agreement.digest[:16]}, run 1"
    member.account(agreement).charge(Guarantee(0.1), pure_cost(0.1), "a model", mark)
    refused = sudare("approve", "risk")
    assert (refused.exit_code, "was run already" in refused.stderr) == (95, True)
    assert "was run already" in sudare("status").stdout
    assert sudare("deny", "risk", "--reason", "it was run").exit_code == 0


def test_a_task_that_cannot_be_planned_is_told(consortium: Path, sudare: Sudare) -> None:
    agreement = Agreement.load("agreement.toml")
    net = ModelsTask("net", "PrivateMLPClassifier", 0.1, 1e-6, parameters={"momentum": 2.0})
    replace(agreement, tasks=(net,)).save("agreement.toml")
    assert (
        "net cannot run as it stands: momentum must be a number"
        in sudare("consortium", "check", "agreement.toml").stdout
    )
    assert "net cannot be planned as things are" in sudare("status", "--member", "east/member.toml").stdout


def test_what_can_never_be_signed_is_neither_written_nor_joined_nor_signed(consortium: Path, sudare: Sudare) -> None:
    wrong = "net models learner=PrivateMLPClassifier epsilon=0.1"
    refused = sudare("consortium", "new", "other.toml", "--name", "other", "--schema", "schema.toml", "--task", wrong)
    assert refused.exit_code == AgreementError.exit_code
    assert "tasks.net.delta" in refused.stderr
    assert not Path("other.toml").exists()
    agreement = Agreement.load("agreement.toml")
    replace(agreement, tasks=(ModelsTask("net", "PrivateMLPClassifier", 0.1),)).save("agreement.toml")
    before = files(consortium)
    assert join(sudare, "west").exit_code == AgreementError.exit_code
    assert files(consortium) == before
    momentum = ModelsTask("net", "PrivateMLPClassifier", 0.1, 1e-6, parameters={"momentum": 2.0})
    replace(agreement, tasks=(momentum,)).save("agreement.toml")
    before = files(consortium)
    refused = sudare("consortium", "sign", "--member", "east/member.toml")
    assert refused.exit_code == AgreementError.exit_code
    assert "`tasks.net` cannot run as it stands: momentum must be a number" in unwrapped(refused.stderr)
    assert files(consortium) == before


def test_a_member_comes_and_another_goes_by_new_versions(consortium: Path, sudare: Sudare) -> None:
    """From an agreement of two to one of three, and back to two: the versions are kept, and each follows the one before."""
    first = Agreement.load("agreement.toml")
    change = (
        "consortium",
        "amend",
        "agreement.toml",
        "--budget",
        "east epsilon=3",
        "--task",
        "age census columns=['age'] epsilon=0.5",
    )
    dry = sudare(*change, "--dry-run", "--json")
    assert dry.exit_code == 0, dry.stderr
    too_many = sudare("consortium", "amend", "agreement.toml", "--threshold", 3, "--dry-run")
    assert "Sums cannot be made as things are: `sums.threshold`" in unwrapped(too_many.stdout)
    assert not Path("agreement.next.toml").exists()
    made = sudare(*change, "--json")
    assert made.values["changed"] == dry.values["changed"]
    assert "members.east.budget.epsilon" in made.values["changed"]
    assert (made.values["version"], made.values["previous"]) == (2, first.digest)
    assert "exists already" in sudare(*change).stderr
    joined_next = sudare(
        "consortium", "join", "agreement.next.toml", "--name", "west", "--folder", "west", "--data", "west.parquet",
        "--epsilon", 2, "--delta", 1e-6,
    )  # fmt: skip
    assert joined_next.exit_code == 0, joined_next.stderr
    assert "sudare consortium sign --next --member west/member.toml" in unwrapped(joined_next.stdout)
    assert sudare("consortium", "adopt", "--member", "east/member.toml").exit_code == 92
    for name in ("east", "north", "west"):
        outcome = sudare("consortium", "sign", "--next", "--member", f"{name}/member.toml", "--json")
        assert outcome.exit_code == 0, outcome.stderr
    assert outcome.values["version"] == 2
    assert sudare("consortium", "check", "agreement.next.toml").exit_code == 0
    assert sudare("consortium", "check", "agreement.toml").exit_code == 0
    told = unwrapped(sudare("status", "--member", "east/member.toml").stdout)
    assert "is signed by all. A node takes it here at once, or: sudare consortium adopt" in told
    shown = sudare("consortium", "adopt", "--member", "east/member.toml", "--dry-run")
    assert "would be in the agreement's place" in shown.stdout
    taken = sudare("consortium", "adopt", "--member", "east/member.toml", "--json")
    assert (taken.exit_code, taken.values["version"], taken.values["ended"]) == (0, 2, [])
    assert Member.load("west/member.toml").agreement().member_names == ("east", "north", "west")
    early = sudare("consortium", "adopt", "--member", "west/member.toml")
    assert (early.exit_code, "needs no adoption" in unwrapped(early.stderr)) == (91, True)
    west = Member.load("west/member.toml")
    west.account(west.agreement())
    take_version(west, west.agreement())
    before = files(Path())
    late = join(sudare, "south")
    assert (late.exit_code, "put it out of force" in unwrapped(late.stderr)) == (91, True)
    assert files(Path()) == before
    assert sudare("consortium", "amend", "agreement.toml", "--remove", "west").exit_code == 0
    for name in ("east", "north"):
        assert sudare("consortium", "sign", "--next", "--member", f"{name}/member.toml").exit_code == 0
    assert "no member of that name" in sudare("consortium", "adopt", "--member", "west/member.toml").stderr
    assert sudare("consortium", "adopt", "--agreement", "agreement.toml").exit_code == 0
    # Who has left goes on seeing, and showing, what it did.
    left = sudare("status", "--member", "west/member.toml")
    assert left.exit_code == 0, left.stderr
    assert "west is no member of the agreement as the others have it now. This is version 2" in unwrapped(left.stdout)
    shown = sudare("consortium", "report", "--member", "west/member.toml", "-o", "west.json", "--json")
    assert shown.exit_code == 0, shown.stderr
    listed = sudare("consortium", "history", "agreement.toml", "--json").values["versions"]
    assert [each["members"] for each in listed] == [["east", "north"], ["east", "north", "west"], ["east", "north"]]
    assert [each["signed"] for each in listed] == [each["members"] for each in listed]
    assert [each["previous"] for each in listed[1:]] == [each["digest"] for each in listed[:-1]]
    # Names of fields are told whole in a narrow terminal.
    lines = sudare("consortium", "history", "agreement.toml").stdout.splitlines()
    assert "…" not in "".join(lines)
    assert "members.east.budget.epsilon" in "".join(line[lines[0].index("changed") :].strip() for line in lines)


def test_who_joins_an_agreement_in_force_is_told_before_that_it_would_be_another_one(
    consortium: Path, sudare: Sudare
) -> None:
    """Nobody knows yet whether tasks were run under a first version: it is told, not refused."""
    before = files(Path())
    shown = join(sudare, "south", "--dry-run")
    assert (shown.exit_code, files(Path())) == (0, before)
    assert "joining makes it another one, which all sign again" in unwrapped(shown.stdout)
    assert "joining makes it" not in unwrapped(join(sudare, "east", "--dry-run").stdout)
    assert "now it is another one, which all sign again" in unwrapped(join(sudare, "south").stdout)


def test_a_version_waits_for_what_was_paid_for_unless_the_steward_gives_it_up(consortium: Path, sudare: Sudare) -> None:
    from sudare.consortium.tasks.task_account import mark_of

    own = Member.load("east/member.toml")
    agreement = own.agreement()
    mark = f"{mark_of(agreement, 'risk')}, run 1"
    own.account(agreement).charge(Guarantee(0.5), pure_cost(0.5), "a model", mark)
    status = ("status", "--member", "east/member.toml")
    assert sudare(*status, "--json").values["proposed"] is None
    assert sudare("consortium", "amend", "agreement.toml", "--remove-task", "scales").exit_code == 0
    for name in ("east", "north"):
        assert sudare("consortium", "sign", "--next", "--member", f"{name}/member.toml").exit_code == 0
        if name == "east":
            shown = unwrapped(sudare(*status).stdout)
            assert re.search(
                r"Version 2 of the agreement \(\w{12}\) is proposed; it is not signed yet by: north\.", shown
            )
    shown = unwrapped(sudare(*status).stdout)
    assert re.search(r"Version 2 of the agreement \(\w{12}\) is signed by all\. It is taken here after: risk\.", shown)
    assert not english_left(sudare("--lang", "ja", *status).output)
    proposed = sudare(*status, "--json").values["proposed"]
    assert (proposed["version"], proposed["unsigned"]) == (2, [])
    assert proposed["waits_for"] == {"risk": "paid for, not finished"}
    text = Path("agreement.next.toml").read_text()
    Path("agreement.next.toml").write_text("not an agreement")
    assert sudare(*status, "--json").values["proposed"] is None
    Path("agreement.next.toml").write_text(text)
    held = sudare("consortium", "adopt", "--member", "east/member.toml")
    assert held.exit_code == NotApproved.exit_code
    assert "risk (paid for, not finished)" in held.stderr
    ended = sudare("consortium", "adopt", "--member", "east/member.toml", "--end-tasks", "--json")
    assert (ended.exit_code, ended.values["ended"]) == (0, ["risk"])
    # North uses the same file, and takes what stands there.
    assert sudare("consortium", "adopt", "--member", "north/member.toml").exit_code == 91
    take_version(Member.load("north/member.toml"), agreement)
    shown = sudare("consortium", "adopt", "--member", "north/member.toml", "--dry-run", "--json")
    taken = sudare("consortium", "adopt", "--member", "north/member.toml", "--json")
    assert shown.values["version"] == taken.values["version"] == 2


def test_what_was_signed_is_signed_otherwise_and_left_only_where_that_is_said(consortium: Path, sudare: Sudare) -> None:
    sign = ("consortium", "sign", "--next", "--member")
    kept: dict[str, dict[Path, bytes]] = {}
    for task in ("scales", "risk"):
        assert sudare("consortium", "amend", "agreement.toml", "--remove-task", task).exit_code == 0
        if kept:
            refused = sudare(*sign, "east/member.toml")
            assert refused.exit_code == 91
            assert "has signed another version 2" in unwrapped(refused.stderr)
        for name in ("east", "north"):
            signed_again = sudare(*sign, f"{name}/member.toml", *(["--instead"] if kept else []))
            assert signed_again.exit_code == 0, signed_again.stderr
            assert ("cannot take that back" in unwrapped(signed_again.stdout)) == bool(kept)
        files_of = [Path(f"agreement.next{ending}") for ending in (".toml", ".statements")]
        kept[task] = {path: path.read_bytes() for path in files_of}
        if task == "scales":
            for path in files_of:
                path.unlink()
    adopt = ("consortium", "adopt", "--member", "east/member.toml", "--json")
    assert sudare(*adopt).exit_code == 0
    for path, content in kept["scales"].items():
        path.write_bytes(content)
    assert sudare(*adopt).exit_code == 91
    changed = sudare(*adopt, "--instead")
    assert changed.exit_code == 0, changed.stderr
    assert [task.name for task in Member.load("east/member.toml").agreement().tasks] == ["risk"]


def test_a_check_counts_what_a_member_has_seen_whatever_the_file_forgets(consortium: Path, sudare: Sudare) -> None:
    own, older = Member.load("east/member.toml"), Path("agreement.statements").read_bytes()
    assert sudare("key", "revoke", "--member", "north/member.toml", "--reason", "lost").exit_code == 0
    take_version(own, own.agreement())
    Path("agreement.statements").write_bytes(older)
    assert sudare("consortium", "check", "agreement.toml").exit_code == 0
    assert sudare("consortium", "check", "agreement.toml", "--member", "east/member.toml").exit_code == 94
    assert sudare("status", "--member", "east/member.toml", "--json").values["revoked"] == ["north"]


@pytest.mark.parametrize("text", ["east", "east epsilon=much", "east gamma=2"])
def test_a_budget_of_an_amendment_is_an_amount(text: str, consortium: Path, sudare: Sudare) -> None:
    assert "is not an amount" in sudare("consortium", "amend", "agreement.toml", "--budget", text).stderr

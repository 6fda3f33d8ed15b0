"""A node takes new versions, keys, certificates and settings while it runs, when nothing is under way; two versions never meet in a sum."""

from __future__ import annotations

import datetime
import errno
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import (
    Agreement,
    Budget,
    Identity,
    LearningTask,
    Member,
    MemberEntry,
    Revocation,
    Rotation,
    Statements,
)
from sudare.consortium.agreement.amendments import Amendment, adopt_proposal, amended, proposal_path
from sudare.consortium.agreement.approvals import Approvals
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.transport.base import Packet
from sudare.consortium.network.transport.certificates import days_left, is_usable, write_kits
from sudare.consortium.node import Node
from sudare.consortium.node_control_files import ask_running_node
from sudare.consortium.node_restart_on_change import (
    NodeReload,
    adopt_by_hand,
    adopt_following_version,
    tasks_under_way,
)
from sudare.consortium.tasks.results_folder import make_room
from sudare.consortium.tasks.task_account import mark_of
from sudare.errors import AgreementError, AgreementMismatch, InvalidParameter, KeyRevoked
from sudare.files import write_atomically
from sudare.privacy import Guarantee
from sudare.privacy.accounting import pure_cost
from tests.consortium.agreement.test_amendments import proposed
from tests.consortium.agreement.test_schedules import daily
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of, run_together
from tests.consortium.documents import signed_by_all
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)
KEYS = {name: IDENTITIES[name] for name in NAMES}


def renewable(member: Member, hub: LocalHub | None = None) -> Node:
    """A node that looks at the files that it was started from."""
    node = node_of(member, LocalHub() if hub is None else hub)
    path = member.folder / "member.toml"
    node.reload = NodeReload(member, path, lambda: replace(Member.load(path), policy=member.policy))
    return node


def amendment_of(member: Member, change: Amendment | None = None) -> Agreement:
    return amended(member.agreement(), member.statements(), Amendment() if change is None else change)


def test_a_node_with_nothing_under_way_takes_a_version_once_all_have_signed(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    node = renewable(member)
    assert not node._poll(stay=True)
    second = amendment_of(member)
    proposed(member.agreement_path, second, {name: KEYS[name] for name in NAMES[:2]})
    node._looked_at = float("-inf")
    assert not node._poll(stay=True)
    proposed(member.agreement_path, second, KEYS)
    assert node.run(stay=True, most_seconds=60.0)
    assert node.renewed_for == "agreement"
    assert adopt_following_version(member, node.agreement) == second
    assert renewable(member).agreement == second


def test_what_was_paid_for_is_finished_before_or_given_up_by_the_steward(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    agreement, node = member.agreement(), renewable(member)
    mark = f"{mark_of(agreement, 'risk')}, run 1"
    member.account(agreement).charge(Guarantee(1.0), pure_cost(1.0), "a sum", mark)
    assert tasks_under_way(member, agreement) == {"risk": "paid for, not finished"}
    proposed(member.agreement_path, amendment_of(member), KEYS)
    assert not node.run(stay=True, most_seconds=0.7)
    # As `sudare consortium adopt --end-tasks` does.
    adopt_by_hand(member)
    node = renewable(member)
    assert (node.agreement.version, tasks_under_way(member, node.agreement)) == (2, {})
    assert member.account(node.agreement).spent().epsilon == 1.0


def test_results_show_that_a_task_was_finished_where_the_note_of_it_was_lost(tmp_path: Path) -> None:
    """`state/node.json` may be damaged, and is set aside then: a new version waits for nothing that has ended."""
    member = founded(tmp_path, RISK)[0]
    agreement = member.agreement()
    member.account(agreement).charge(Guarantee(1.0), pure_cost(1.0), "a sum", f"{mark_of(agreement, 'risk')}, run 1")
    folder = member.results_folder("risk")
    folder.mkdir(parents=True)
    make_room(folder, "0" * 64)
    (folder / "model.sudare").write_bytes(b"of an earlier version")
    assert tasks_under_way(member, agreement) == {"risk": "paid for, not finished"}
    make_room(folder, agreement.digest)
    assert tasks_under_way(member, agreement) == {"risk": "paid for, not finished"}
    (folder / "model.sudare").write_bytes(b"of this one")
    assert tasks_under_way(member, agreement) == {}


def look(node: Node) -> bool:
    node._looked_at = node._weighed_at = float("-inf")
    return node._poll(stay=True)


def test_what_was_paid_for_is_finished_also_where_another_member_of_the_same_file_has_taken_the_version(
    tmp_path: Path,
) -> None:
    """East has nothing under way and puts the version in the place of the file that all use; west goes on under the one before, and is so after a restart."""
    east, _, west = founded(tmp_path, RISK)
    first, told = west.agreement(), list[str]()
    west.account(first).charge(Guarantee(1.0), pure_cost(1.0), "a sum", f"{mark_of(first, 'risk')}, run 1")
    node = renewable(west)
    node.tell = told.append
    second = amendment_of(east)
    proposed(east.agreement_path, second, KEYS)
    assert adopt_following_version(east, first) == second
    assert not look(node)
    assert not [text for text in told if "not signed" in text or "cannot be used" in text]
    assert [text for text in told if "waits for tasks that were paid for: risk" in text]
    # Commands of west are about the version that its node works under, those of east about the other.
    assert (west.agreement(), east.agreement()) == (first, second)
    again = renewable(west)
    assert again.agreement == first
    assert tasks_under_way(west, first) == {"risk": "paid for, not finished"}
    assert not look(again)
    # A version later the way leads through the one between.
    third = amendment_of(east)
    proposed(east.agreement_path, third, KEYS)
    assert adopt_following_version(east, second) == third
    assert not look(again)
    # As its node writes when the task is finished.
    ended = {"state": "finished", "files": []}
    finished = {"agreement": first.digest, "process": None, "present": [], "tasks": {"risk": ended}}
    write_atomically(west.state_folder / "node.json", json.dumps(finished).encode())
    assert tasks_under_way(west, first) == {}
    assert look(again)
    assert again.renewed_for == "agreement"
    assert adopt_following_version(west, first) == third == renewable(west).agreement == west.agreement()


def test_a_steward_gives_up_what_was_paid_for_under_a_version_that_another_one_has_replaced(tmp_path: Path) -> None:
    east, _, west = founded(tmp_path, RISK)
    first = west.agreement()
    west.account(first).charge(Guarantee(1.0), pure_cost(1.0), "a sum", f"{mark_of(first, 'risk')}, run 1")
    node = renewable(west)
    proposed(east.agreement_path, amendment_of(east), KEYS)
    second = adopt_following_version(east, first)
    assert not look(node)
    assert adopt_by_hand(west) == second == west.agreement()
    assert look(node)
    assert node.renewed_for == "agreement"
    assert renewable(west).agreement == second
    assert west.account(second).spent().epsilon == 1.0


def test_a_version_that_came_into_force_while_no_node_ran_is_taken(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    proposed(member.agreement_path, amendment_of(member), KEYS)
    node = renewable(member)
    assert look(node)
    assert node.renewed_for == "agreement"


def test_a_node_finishes_an_adoption_that_was_cut_off_between_its_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = founded(tmp_path, RISK)[0]
    second = amendment_of(member)
    proposed(member.agreement_path, second, KEYS)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Statements, "save", full)
        with pytest.raises(OSError, match="No space"):
            adopt_following_version(member, member.agreement())
    assert Agreement.load(member.agreement_path) == second
    assert renewable(member).agreement == second
    assert not list(tmp_path.glob("agreement.next*"))


def test_a_member_that_was_taken_out_is_told_and_keeps_its_files(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[2]
    second = amendment_of(member, Amendment(frozenset({"west"})))
    proposed(member.agreement_path, second, {name: KEYS[name] for name in NAMES[:2]})
    with pytest.raises(AgreementError, match="'west' is no member of it"):
        adopt_following_version(member, member.agreement())
    assert member.agreement().version == 1


def test_a_version_that_one_member_signed_with_a_puppet_ends_no_node(tmp_path: Path) -> None:
    member, puppet, told, log = founded(tmp_path, RISK)[0], Identity.generated(), list[str](), io.StringIO()
    node = renewable(member)
    node.tell, node.log = told.append, EventLog(log, "east")
    entry = MemberEntry("puppet", puppet.public_key.hex(), Budget(4.0, 1e-5))
    theirs = amendment_of(member, Amendment(frozenset({"east", "north"}))).with_member(entry)
    for place in (proposal_path(member.agreement_path), member.agreement_path):
        theirs.save(place)
        signed_by_all(theirs, {"west": KEYS["west"], "puppet": puppet}).save(place)
        for _ in range(2):
            node._looked_at = float("-inf")
            assert not node._poll(stay=True)
    refused = [json.loads(line) for line in log.getvalue().splitlines() if "version-refused" in line]
    assert [(each["agreement"], each["error"]) for each in refused] == [(theirs.digest, "AgreementError")] * 2
    assert len([text for text in told if "is signed by puppet, west, and 'east' is no member of it" in text]) == 2
    assert node.agreement.version == 1
    with pytest.raises(AgreementError, match="no member of it"):
        adopt_following_version(member, node.agreement)


def test_a_version_that_cannot_follow_is_told_once_and_settings_are_still_taken(tmp_path: Path) -> None:
    member, log = founded(tmp_path, RISK)[0], io.StringIO()
    node = renewable(member)
    node.log = EventLog(log, "east")
    proposed(member.agreement_path, replace(amendment_of(member), version=5), KEYS)
    assert not node._poll(stay=True)
    assert log.getvalue().count('"version-refused"') == 1
    (member.folder / "member.toml").open("a").write('\n[transport]\nrelay = "relay.example:8002"\n')
    assert node.run(stay=True, most_seconds=60.0)
    assert node.renewed_for == "settings"


def test_a_run_that_was_asked_for_before_its_day_holds_no_version_back(tmp_path: Path) -> None:
    member = daily(tmp_path, "models")
    node = renewable(member)
    node.today = lambda: datetime.date(2026, 11, 1)
    ask_running_node(member, "risk-2026-12-01")
    assert not node._poll(stay=True)
    assert node.task_runs["risk-2026-12-01"].state == "asked for"
    assert tasks_under_way(member, node.agreement, node.today()) == {}
    proposed(member.agreement_path, amendment_of(member), KEYS)
    node._looked_at = float("-inf")
    assert node._poll(stay=True)
    assert node.renewed_for == "agreement"
    # On its day it does.
    assert tasks_under_way(member, node.agreement, datetime.date(2026, 12, 1)) == {"risk-2026-12-01": "asked for"}


@pytest.mark.long
def test_two_versions_never_meet_in_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """East stays with the first version, the others have taken the second: nothing is sent, nothing is paid."""
    monkeypatch.setattr("sudare.consortium.node._SETTLE_SECONDS", 0.5)
    members = founded(tmp_path, RISK)
    for name in NAMES:
        for file in tmp_path.glob("agreement.*"):
            shutil.copy(file, tmp_path / name)
    members = [replace(each, agreement_path=each.folder / "agreement.toml") for each in members]
    for member in members[1:]:
        proposed(member.agreement_path, amendment_of(member), KEYS)
        adopt_proposal(member.agreement_path)
    hub = LocalHub()
    nodes = [node_of(member, hub) for member in members]
    run_together(nodes, ["risk"])
    assert [node.task_runs["risk"].state for node in nodes] == ["failed"] * 3
    error = nodes[0].task_runs["risk"].error
    assert isinstance(error, AgreementMismatch)
    assert "previous" in str(error)
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [0.0] * 3


@pytest.mark.long
def test_ledgers_go_on_under_the_next_version(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    proposed(members[0].agreement_path, amendment_of(members[0]), KEYS)
    adopt_proposal(members[0].agreement_path)
    hub = LocalHub()
    run_together([node_of(member, hub) for member in members], ["risk"])
    for member in members:
        assert member.account(member.agreement()).spent().epsilon == 2.0
        assert len(list((member.results_folder("risk") / "earlier").iterdir())) >= 1


def test_a_rotated_key_is_taken_while_the_node_runs(tmp_path: Path) -> None:
    member, new = founded(tmp_path, RISK)[0], Identity.generated()
    node = renewable(member)
    rotation = Rotation.made(IDENTITIES["north"], new)
    replace(member.statements(), rotations=(rotation,)).save(member.agreement_path)
    assert node.run(stay=True, most_seconds=60.0)
    assert node.renewed_for == "keys"


def waiting_node(folder: Path) -> Node:
    """East's, with a task that waits for its steward."""
    member = founded(folder, RISK, approval=frozenset({"learning"}))[0]
    node = renewable(member)
    node.ask("risk")
    assert not node._poll(stay=True)
    node._looked_at = float("-inf")
    assert node.task_runs["risk"].state == "waits for the steward"
    return node


def revoke(member: Member, name: str) -> None:
    revocation = Revocation(IDENTITIES[name].public_key.hex(), "2026-11-18", "stolen").signed_by(IDENTITIES[name])
    replace(member.statements(), revocations=(revocation,)).save(member.agreement_path)


def test_a_rotated_key_is_taken_while_a_task_waits_for_the_steward(tmp_path: Path) -> None:
    node = waiting_node(tmp_path)
    rotation = Rotation.made(IDENTITIES["north"], Identity.generated())
    replace(node.member.statements(), rotations=(rotation,)).save(node.member.agreement_path)
    assert node._poll(stay=True)
    assert node.renewed_for == "keys"


def test_a_revocation_does_not_end_the_nodes_of_others_and_tasks_that_wait_go_on_waiting(tmp_path: Path) -> None:
    node, told, log = waiting_node(tmp_path), list[str](), io.StringIO()
    node.tell, node.log, member = told.append, EventLog(log, "east"), node.member
    revoke(member, "west")
    assert not node._poll(stay=True)
    assert node.task_runs["risk"].state == "waits for the steward"
    assert [text for text in told if "amend --remove" in text]
    assert '"key-revoked"' in log.getvalue()
    # Approved meanwhile, it does not begin: the agreement is not in force.
    Approvals(member.state_folder).decide(node.agreement, node.agreement.task("risk"), "approved", "")
    node._looked_at = float("-inf")
    assert not node._poll(stay=True)
    assert node.task_runs["risk"].state == "waits for the steward"
    # Of the thief nothing is heard, and nothing is sent to it.
    session = node.dispatcher.session
    assert session.receive(Packet("west", b"anything"), 0.0) is None
    assert session.drops.counts()["west", "not-admitted"] == 1
    session.post("west", b"anything")
    assert session.is_settled()
    # Other settings are not what it waits for; a version without the thief is.
    (member.folder / "member.toml").open("a").write("\n")
    second = amendment_of(member, Amendment(without_members=frozenset({"west"})))
    proposed(member.agreement_path, second, {name: KEYS[name] for name in NAMES[:2]})
    node._looked_at = float("-inf")
    assert node._poll(stay=True)
    assert node.renewed_for == "agreement"
    assert adopt_following_version(member, node.agreement).member_names == NAMES[:2]
    assert renewable(member).agreement == second


def test_what_is_under_way_is_stopped_by_a_revocation_and_what_was_paid_for_does_not_hold_the_next_version(
    tmp_path: Path,
) -> None:
    member = founded(tmp_path, RISK)[0]
    node = renewable(member)
    node.ask("risk")
    while node.task_runs["risk"].state != "running":
        node._looked_at = float("-inf")
        assert not node._poll(stay=True)
    mark = f"{mark_of(node.agreement, 'risk')}, run 1"
    member.account(node.agreement).charge(Guarantee(1.0), pure_cost(1.0), "a sum", mark)
    revoke(member, "west")
    second = amendment_of(member, Amendment(without_members=frozenset({"west"})))
    proposed(member.agreement_path, second, {name: KEYS[name] for name in NAMES[:2]})
    node._looked_at = float("-inf")
    assert node._poll(stay=True)
    assert isinstance(node.task_runs["risk"].error, KeyRevoked)
    assert node.renewed_for == "agreement"


def test_a_node_that_is_started_while_a_key_is_revoked_waits_for_the_version_without_it(tmp_path: Path) -> None:
    member, log = founded(tmp_path, RISK)[0], io.StringIO()
    revoke(member, "west")
    with pytest.raises(KeyRevoked):
        node_of(member, LocalHub())
    path = member.folder / "member.toml"
    reload = NodeReload(member, path, lambda: replace(Member.load(path), policy=member.policy))
    node = Node(member, KEYS["east"], LocalHub().join("east"), EventLog(log, "east"), reload=reload)
    node.ask("risk")
    assert not node._poll(stay=True)
    assert node.task_runs["risk"].state == "asked for"
    assert '"key-revoked","peer":"west"' in log.getvalue()
    assert node.dispatcher.session.receive(Packet("west", b"anything"), 0.0) is None
    assert node.dispatcher.session.drops.counts()["west", "not-admitted"] == 1
    second = amendment_of(member, Amendment(without_members=frozenset({"west"})))
    proposed(member.agreement_path, second, {name: KEYS[name] for name in NAMES[:2]})
    node._looked_at = float("-inf")
    assert node._poll(stay=True)
    assert node.renewed_for == "agreement"
    own = founded(fresh(tmp_path / "own"), RISK)[2]
    revoke(own, "west")
    with pytest.raises(KeyRevoked, match="west"):
        Node(own, KEYS["west"], LocalHub().join("west"), EventLog(log, "west"), reload=reload)


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_whose_own_key_was_revoked_ends(tmp_path: Path) -> None:
    node = waiting_node(tmp_path)
    revoke(node.member, "east")
    with pytest.raises(KeyRevoked, match="east"):
        node._poll(stay=True)


def test_other_settings_are_taken_and_broken_ones_are_not(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    node, file = renewable(member), tmp_path / "east/member.toml"
    text = file.read_text()
    write_atomically(file, b"not [ toml")
    assert node.reload is not None
    assert node.reload.reason() is None
    write_atomically(file, f'{text}\n[transport]\nrelay = "relay.example:8002"\n'.encode())
    assert node.run(stay=True, most_seconds=60.0)
    assert node.renewed_for == "settings"


def test_certificates_are_renewed_under_one_authority(tmp_path: Path) -> None:
    authority = tmp_path / "authority.key"
    first, second = tmp_path / "first", tmp_path / "second"
    write_kits(first, "localhost", ["east"], authority_path=authority)
    write_kits(second, "relay.example", ["east", "north"], authority_path=authority)
    assert is_usable(first / "east", "client")
    # A kit of which one half is new is one that is just being copied.
    shutil.copy(second / "east/startup/client.crt", first / "east/startup/client.crt")
    assert not is_usable(first / "east", "client")
    shutil.copy(second / "east/startup/client.key", first / "east/startup/client.key")
    assert is_usable(first / "east", "client")
    assert days_left(first / "east", "client") > 350
    (tmp_path / "other.key").write_bytes(b"nothing")
    (tmp_path / "other.key").chmod(0o600)
    with pytest.raises(InvalidParameter, match="not the key of an authority"):
        write_kits(tmp_path / "third", "localhost", ["east"], authority_path=tmp_path / "other.key")


def test_new_certificates_begin_another_life(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    authority = tmp_path / "authority.key"
    for folder in ("first", "second"):
        write_kits(tmp_path / folder, "localhost", ["east"], authority_path=authority)
    kit = tmp_path / "first/east"
    settled = replace(member, transport=replace(member.transport, kit=kit))
    reload = NodeReload(settled, member.folder / "member.toml", lambda: settled)
    assert reload.reason() is None
    for name in ("client.crt", "client.key"):
        shutil.copy(tmp_path / "second/east/startup" / name, kit / "startup" / name)
    assert reload.reason() == "settings"


def test_statements_of_a_proposal_do_not_touch_those_in_force(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    before = Statements.load(member.agreement_path)
    proposed(member.agreement_path, amendment_of(member), KEYS)
    assert Statements.load(member.agreement_path) == before
    assert proposal_path(member.agreement_path).name == "agreement.next.toml"

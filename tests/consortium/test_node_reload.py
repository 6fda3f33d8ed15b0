"""A node takes new versions, keys, certificates and settings while it runs, when nothing is under way; two versions never meet in a sum."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import Agreement, Identity, LearningTask, Member, Rotation, Statements
from sudare.consortium.agreement.amendments import Amendment, adopt_proposal, amended, proposal_path
from sudare.consortium.network.transport.certificates import days_left, is_usable, write_kits
from sudare.consortium.node import Node
from sudare.consortium.node_reload import NodeReload, adopt_following_version, tasks_under_way
from sudare.consortium.tasks.task_account import mark_of
from sudare.errors import AgreementError, AgreementMismatch, InvalidParameter
from sudare.files import write_atomically
from sudare.privacy import Guarantee
from sudare.privacy.accounting import pure_cost
from tests.consortium.agreement.test_amendments import proposed
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of, run_together
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
    adopt_proposal(member.agreement_path)
    node = renewable(member)
    assert (node.agreement.version, tasks_under_way(member, node.agreement)) == (2, {})
    assert member.account(node.agreement).spent().epsilon == 1.0


def test_a_member_that_was_taken_out_is_told_and_keeps_its_files(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[2]
    second = amendment_of(member, Amendment(frozenset({"west"})))
    proposed(member.agreement_path, second, {name: KEYS[name] for name in NAMES[:2]})
    with pytest.raises(AgreementError, match="'west' is no member of it"):
        adopt_following_version(member, member.agreement())
    assert member.agreement().version == 1


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

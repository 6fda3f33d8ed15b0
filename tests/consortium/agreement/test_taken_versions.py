"""Versions that a node has taken: what is put in their place by hand is held to them, and their history does not go missing unnoticed."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import Agreement, Budget, Identity, LearningTask, Member, Revocation, Rotation, keys_in_force
from sudare.consortium.agreement.amendments import (
    Amendment,
    adopt_proposal,
    amended,
    check_comes_after,
    history_folder,
    keep_version,
    proposal_path,
    versions,
)
from sudare.consortium.agreement.approvals import is_paid_in_another_version
from sudare.consortium.agreement.consortium_setup_steps import signed
from sudare.consortium.agreement.taken_versions import remember_statements, take_version, version_digests
from sudare.consortium.event_log import EventLog
from sudare.consortium.member_report import report_values
from sudare.consortium.node import Node
from sudare.consortium.node_restart_on_change import adopt_by_hand
from sudare.consortium.tasks.task_account import mark_of
from sudare.errors import AgreementError, IdentityError, KeyRevoked
from sudare.privacy import Guarantee
from sudare.privacy.accounting import pure_cost
from tests.consortium.agreement.test_amendments import proposed
from tests.consortium.agreement.test_schedules import daily, save_signed
from tests.consortium.clinics import IDENTITIES, NAMES, founded, node_of
from tests.consortium.documents import signed_by_all
from tests.consortium.local_transport import LocalHub

RISK = LearningTask("risk", "one-sum", 1.0)
KEYS = {name: IDENTITIES[name] for name in NAMES}
STAYING = {name: KEYS[name] for name in ("east", "north")}


def adopted(member: Member, change: Amendment | None = None) -> Agreement:
    following = amended(member.agreement(), member.statements(), Amendment() if change is None else change)
    proposed(member.agreement_path, following, KEYS)
    return adopt_proposal(member.agreement_path)


def test_a_new_budget_is_entered_once_and_an_older_version_is_refused(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    first = member.agreement()
    take_version(member, first)
    account = member.account(first)
    account.charge(Guarantee(9.5), pure_cost(9.5), "something")
    second = adopted(member, Amendment(budgets={"east": Budget(12.0, 1e-5)}))
    for _ in range(2):
        assert take_version(member, second) == []
    assert account.remaining().epsilon == 2.5
    raised = [entry for entry in account.entries() if entry.kind == "raise"]
    assert [entry.body["reason"] for entry in raised] == [f"version 2 of agreement clinics ({second.digest[:16]})"]
    with pytest.raises(AgreementError, match="has taken version 2"):
        take_version(member, first)


def test_versions_by_hand_are_checked_one_after_the_other(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    first = member.agreement()
    take_version(member, first)
    lower = tuple(replace(each, budget=Budget(2.0, 1e-5)) for each in first.members)
    save_signed(member, replace(first, members=lower, version=2, previous=first.digest))
    with pytest.raises(AgreementError, match="smaller than before"):
        take_version(member, member.agreement())
    second = replace(first, version=2, previous=first.digest)
    third = replace(second, version=3, previous=second.digest)
    save_signed(member, third)
    with pytest.raises(AgreementError, match="are not all here"):
        node_of(member, LocalHub())
    # With the version between them in the history, of which the first is lacking, it is taken.
    save_signed(member, second)
    adopted(member)
    for path in history_folder(member.agreement_path).glob("0001-*"):
        path.unlink()
    assert take_version(member, member.agreement()) == [1]
    assert [each.agreement.version for each in versions(member.agreement_path)] == [1, 2, 3]


def test_another_version_of_the_same_number_is_refused(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    first = member.agreement()
    take_version(member, first)
    second = adopted(member)
    take_version(member, second)
    save_signed(member, replace(second, tasks=(*second.tasks, LearningTask("more", "one-sum", 1.0))))
    with pytest.raises(AgreementError, match="another version 2"):
        take_version(member, member.agreement())


def test_a_member_leaves_its_line_of_versions_for_the_one_that_all_others_hold(tmp_path: Path) -> None:
    """Both were signed by all. What was paid for under the one that is left stays known, and budgets are not made smaller."""
    member = founded(tmp_path, RISK)[0]
    first, signed = member.agreement(), member.statements()
    take_version(member, first)
    ours = adopted(member)
    take_version(member, ours)
    theirs = amended(first, signed, Amendment(tasks=(LearningTask("more", "one-sum", 1.0),)))
    following = amended(theirs, signed_by_all(theirs, KEYS), Amendment())
    save_signed(member, theirs)
    with pytest.raises(AgreementError, match="adopt --instead"):
        take_version(member, theirs)
    save_signed(member, ours)
    proposed(member.agreement_path, theirs, KEYS)
    with pytest.raises(AgreementError, match="another version 2"):
        adopt_by_hand(member)
    assert member.agreement() == ours
    assert adopt_by_hand(member, instead=True) == theirs == node_of(member, LocalHub()).agreement
    assert version_digests(member, theirs) == {first.digest, ours.digest, theirs.digest}
    assert [each.agreement for each in versions(member.agreement_path)] == [first, theirs]
    # From there it goes on as for all others.
    proposed(member.agreement_path, following, KEYS)
    assert adopt_by_hand(member) == following == node_of(member, LocalHub()).agreement


def test_what_was_revoked_stays_so_whatever_the_files_beside_the_agreement_forget(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    first = member.agreement()
    gone = Revocation(KEYS["west"].public_key.hex(), "2026-11-17", "stolen").signed_by(KEYS["west"])
    replace(member.statements(), revocations=(gone,)).save(member.agreement_path)
    take_version(member, first)
    save_signed(member, replace(first, version=2, previous=first.digest))
    with pytest.raises(KeyRevoked, match="west"):
        take_version(member, member.agreement())
    assert member.known_statements(first).revocations == (gone,)


def test_a_history_that_was_removed_is_put_back_and_told(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    take_version(member, member.agreement())
    second = adopted(member)
    take_version(member, second)
    shutil.rmtree(history_folder(member.agreement_path))
    told = list[str]()
    Node(member, IDENTITIES["east"], LocalHub().join("east"), EventLog(io.StringIO(), "east"), told.append)
    assert told == ["the history lacked versions of the agreement that this member has taken (1): they are put back"]
    assert [each.agreement.version for each in versions(member.agreement_path)] == [1, 2]
    shutil.rmtree(history_folder(member.agreement_path))
    assert take_version(member, second) == [1]
    assert take_version(member, second) == []
    shutil.rmtree(history_folder(member.agreement_path))
    member.ledger()
    assert [each["version"] for each in report_values(member)["agreements"]] == [1, 2]


def test_runs_that_another_consortium_paid_for_from_the_same_ledger_are_not_this_ones(tmp_path: Path) -> None:
    """Two consortia with schedules alike: each has its own runs, and both pay from one account, because the records are the same."""
    member = daily(tmp_path, "models")
    agreement, run = member.agreement(), "risk-2026-12-01"
    other = replace(agreement, name="others")
    account = member.account(agreement)
    account.charge(Guarantee(0.5), pure_cost(0.5), "a model", f"{mark_of(other, run)}, run 1")
    assert not is_paid_in_another_version(member, agreement, agreement.task(run))
    assert account.spent().epsilon == 0.5
    take_version(member, agreement)
    account.charge(Guarantee(0.5), pure_cost(0.5), "a model", f"{mark_of(agreement, run)}, run 1")
    second = adopted(member)
    assert version_digests(member, second) == {agreement.digest, second.digest}
    assert is_paid_in_another_version(member, second, second.task(run))


def three_versions(member: Member, last: Amendment) -> tuple[Agreement, Agreement, Agreement]:
    """The version that a member has taken, one that all signed, and a third one; then the key of west is revoked, which the member's file of the first says."""
    first = member.agreement()
    take_version(member, first)
    second = amended(first, member.statements(), Amendment())
    third = amended(second, signed_by_all(second, KEYS), last)
    gone = Revocation(KEYS["west"].public_key.hex(), "2026-11-17", "stolen").signed_by(KEYS["west"])
    replace(member.statements(), revocations=(gone,)).save(member.agreement_path)
    return first, second, third


@pytest.mark.parametrize("place", ["proposed", "in the agreement's place"])
def test_a_member_held_back_takes_a_later_version_also_where_a_key_of_one_between_was_revoked(
    place: str, tmp_path: Path
) -> None:
    """It was paid for under the first when the second came into force; then a key was lost, and the third left it out."""
    member = founded(tmp_path, RISK)[0]
    first, second, third = three_versions(member, Amendment(without_members=frozenset({"west"})))
    member.account(first).charge(Guarantee(1.0), pure_cost(1.0), "something", purpose=mark_of(first, "risk"))
    proposed(member.agreement_path, third, STAYING)
    with pytest.raises(AgreementError, match="are not all here"):
        adopt_by_hand(member)
    keep_version(history_folder(member.agreement_path), second, signed_by_all(second, KEYS))
    if place == "proposed":
        check_comes_after(first, member.statements(), third, member.agreement_path)
        assert adopt_by_hand(member) == third
    else:
        known = member.statements().revocations
        third.save(member.agreement_path)
        replace(signed_by_all(third, STAYING), revocations=known).save(member.agreement_path)
        proposal_path(member.agreement_path).unlink()
    assert node_of(member, LocalHub()).agreement == third
    assert [each.agreement.version for each in versions(member.agreement_path)] == [1, 2, 3]


def test_no_version_between_brings_a_revoked_key_back(tmp_path: Path) -> None:
    """Not even one that all have signed, this member too, and whose files say nothing of the revocation."""
    member = founded(tmp_path, RISK)[0]
    first, second, third = three_versions(member, Amendment())
    remember_statements(member, first, member.statements())
    keep_version(history_folder(member.agreement_path), second, signed_by_all(second, KEYS))
    for under, text in (("west", third), ("south", renamed(third, "west", "south"))):
        proposed(member.agreement_path, text, {**STAYING, under: KEYS["west"]})
        with pytest.raises(KeyRevoked, match="no longer counts"):
            adopt_by_hand(member)
        with pytest.raises(KeyRevoked, match="no longer counts"):
            check_comes_after(first, member.statements(), text, member.agreement_path)
        with pytest.raises(KeyRevoked, match="no longer counts"):
            take_version(member, text)


def test_a_version_between_that_not_all_have_signed_leads_nowhere(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    _, second, third = three_versions(member, Amendment(without_members=frozenset({"west"})))
    proposed(member.agreement_path, third, STAYING)
    keep_version(history_folder(member.agreement_path), second, signed_by_all(second, STAYING))
    with pytest.raises(AgreementError, match="not signed by all"):
        adopt_by_hand(member)


def test_a_version_that_was_signed_before_the_key_was_handed_over_is_signed_again_and_taken(tmp_path: Path) -> None:
    """Where the state folder knows nothing of the first signature: it was made at another desk, or the folder is from a backup."""
    member, new = founded(tmp_path, RISK)[0], Identity.generated()
    first = member.agreement()
    take_version(member, first)
    second = amended(first, member.statements(), Amendment())
    proposed(member.agreement_path, second, KEYS)
    handed_over = Rotation.made(KEYS["east"], new)
    replace(member.statements(), rotations=(handed_over,)).save(member.agreement_path)
    with pytest.raises(AgreementError, match="sign --next"):
        adopt_by_hand(member)
    signer = replace(member, agreement_path=proposal_path(member.agreement_path))
    with pytest.raises(IdentityError, match="not the one that stands"):
        signed(signer, KEYS["east"])
    signed(signer, new)
    assert adopt_by_hand(member) == second
    assert keys_in_force(second, member.statements())["east"] == new.public_key


def test_a_damaged_list_of_signed_versions_keeps_no_member_from_a_version_that_its_key_signed(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    take_version(member, member.agreement())
    second = amended(member.agreement(), member.statements(), Amendment())
    proposed(member.agreement_path, second, KEYS)
    (member.state_folder / "signed.json").write_text("{")
    assert adopt_by_hand(member) == second == node_of(member, LocalHub()).agreement


def renamed(agreement: Agreement, name: str, other: str) -> Agreement:
    return replace(
        agreement,
        members=tuple(replace(each, name=other) if each.name == name else each for each in agreement.members),
    )

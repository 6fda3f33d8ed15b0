"""New versions of an agreement: what can follow, what is kept, and that two versions never meet in a sum."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import Agreement, Budget, Identity, LearningTask, MemberEntry, Revocation, Rotation, Statements
from sudare.consortium.agreement.amendments import (
    Amendment,
    Known,
    adopt_following,
    adopt_proposal,
    amended,
    changes_in_short,
    check_follows,
    finish_adoption,
    following_version,
    history_folder,
    path_after_adoption,
    proposal_path,
    versions,
)
from sudare.consortium.agreement.signed_statements import signature_status
from sudare.errors import AgreementError, AgreementMismatch, KeyRevoked, SudareError
from tests.consortium.documents import agreement_of, signed_by_all, three_identities

KEYS = three_identities()
FIRST = agreement_of(KEYS)
SIGNED = signed_by_all(FIRST, KEYS)
RISK = LearningTask("risk", "one-sum", 1.0)


def proposed(path: Path, following: Agreement, keys: dict[str, Identity]) -> None:
    following.save(proposal_path(path))
    signed_by_all(following, keys).save(proposal_path(path))


def test_a_version_names_the_one_before_and_has_another_digest_whatever_it_changes() -> None:
    second = amended(FIRST, SIGNED, Amendment())
    assert (second.version, second.previous) == (2, FIRST.digest)
    third = amended(second, signed_by_all(second, KEYS), Amendment())
    assert len({FIRST.digest, second.digest, third.digest}) == 3
    assert Agreement.from_toml(third.to_toml()) == third
    # Masks, votes and channels come from keys that are derived from the digest.
    publics = {KEYS["east"].member_keys(bytes.fromhex(each.digest)).public for each in (FIRST, second, third)}
    assert len(publics) == 3


def test_agreements_of_one_version_keep_the_hash_under_which_they_were_signed() -> None:
    assert "version" not in FIRST.to_dict()
    assert Agreement.from_dict({**FIRST.to_dict(), "version": 1}).digest == FIRST.digest


@pytest.mark.parametrize("fields", [{"version": 2}, {"previous": "00" * 32}, {"version": 1, "previous": "00" * 32}])
def test_number_and_previous_hash_belong_together(fields: dict[str, object]) -> None:
    with pytest.raises(AgreementError, match="do not fit"):
        Agreement.from_dict({**FIRST.to_dict(), **fields})


def test_signatures_of_one_version_do_not_count_for_another() -> None:
    second = amended(FIRST, SIGNED, Amendment())
    assert signature_status(second, SIGNED).lacking == ("east", "north", "west")


def test_members_tasks_and_budgets_are_changed() -> None:
    change = Amendment(frozenset({"west"}), {"east": Budget(5.0, 1e-5)}, (RISK,), frozenset({"models"}))
    second = amended(FIRST, SIGNED, change)
    assert second.member_names == ("east", "north")
    assert second.member("east").budget.epsilon == 5.0
    assert second.task("risk") == RISK
    assert "models" not in {task.name for task in second.tasks}
    for unknown in (Amendment(frozenset({"south"})), Amendment(without_tasks=frozenset({"other"}))):
        with pytest.raises(AgreementError, match="has no"):
            amended(FIRST, SIGNED, unknown)


def test_what_cannot_follow_is_refused() -> None:
    second = amended(FIRST, SIGNED, Amendment())
    smaller = second.with_member(replace(second.member("east"), budget=Budget(1.5, 1e-5)))
    with pytest.raises(AgreementError, match="only ever raised"):
        check_follows(FIRST, SIGNED, smaller)
    for other in (replace(second, version=3), replace(second, previous="00" * 32), replace(second, name="others")):
        with pytest.raises(AgreementError, match="not the version that follows"):
            check_follows(FIRST, SIGNED, other)
    with pytest.raises(AgreementMismatch, match="not signed by west"):
        amended(FIRST, replace(SIGNED, signatures={**SIGNED.signatures} | {"west": "00" * 64}), Amendment())


def test_rotated_keys_are_pinned_and_revoked_ones_never_again() -> None:
    new = Identity.generated()
    rotated = replace(SIGNED, rotations=(Rotation.made(KEYS["east"], new),)).with_sum_keys(FIRST, "east", new)
    second = amended(FIRST, rotated, Amendment())
    assert second.member("east").key == new.public_key.hex()
    gone = Revocation(KEYS["west"].public_key.hex(), "2026-11-17", "stolen").signed_by(KEYS["west"])
    revoked = replace(SIGNED, revocations=(gone,))
    with pytest.raises(KeyRevoked, match="west"):
        amended(FIRST, revoked, Amendment())
    third = amended(FIRST, revoked, Amendment(frozenset({"west"})))
    with pytest.raises(KeyRevoked, match="west"):
        check_follows(FIRST, revoked, third.with_member(FIRST.member("west")))
    stolen = MemberEntry("south", KEYS["west"].public_key.hex(), Budget(4.0, 1e-5))
    with pytest.raises(KeyRevoked, match="south"):
        check_follows(FIRST, SIGNED, amended(FIRST, SIGNED, Amendment(frozenset({"west"}))).with_member(stolen))
    check_follows(FIRST, revoked, third.with_member(replace(FIRST.member("west"), key=new.public_key.hex())))


@pytest.mark.parametrize("how", ["revoked by others", "handed over twice"])
def test_a_key_that_does_not_count_is_not_named_again_when_its_member_has_left(how: str, tmp_path: Path) -> None:
    path, stolen, new = tmp_path / "agreement.toml", KEYS["west"], Identity.generated()
    staying = {"east": KEYS["east"], "north": KEYS["north"]}
    statements = replace(SIGNED, rotations=(Rotation.made(KEYS["east"], new),)).with_sum_keys(FIRST, "east", new)
    if how == "revoked by others":
        # The key of one who revoked it is rotated, so that the next version pins another.
        gone = Revocation(stolen.public_key.hex(), "2026-11-17", "stolen")
        for identity in staying.values():
            gone = gone.signed_by(identity)
        statements, staying["east"] = replace(statements, revocations=(gone,)), new
    else:
        stolen = Identity.generated()
        rotations = tuple(Rotation.made(KEYS["west"], each) for each in (stolen, Identity.generated()))
        statements = replace(SIGNED, rotations=rotations)
    FIRST.save(path)
    statements.save(path)
    second = amended(FIRST, statements, Amendment(frozenset({"west"}), without_tasks=frozenset({"patterns"})))
    proposed(path, second, staying)
    adopt_proposal(path)
    third = amended(second, Statements.load(path), Amendment())
    again = third.with_member(MemberEntry("west", stolen.public_key.hex(), Budget(4.0, 1e-5)))
    proposed(path, again, {**staying, "west": stolen})
    with pytest.raises(KeyRevoked, match="west"):
        check_follows(second, Statements.load(path), again, [FIRST])
    with pytest.raises(KeyRevoked, match="west"):
        adopt_proposal(path)
    fresh = MemberEntry("west", Identity.generated().public_key.hex(), Budget(4.0, 1e-5))
    check_follows(second, Statements.load(path), third.with_member(fresh), [FIRST])


def test_a_version_takes_its_place_once_all_have_signed_and_the_old_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "agreement.toml"
    FIRST.save(path)
    SIGNED.save(path)
    with pytest.raises(AgreementError, match=r"agreement\.next\.toml"):
        adopt_proposal(path)
    second = amended(FIRST, SIGNED, Amendment(tasks=(RISK,)))
    proposed(path, second, {name: KEYS[name] for name in ("east", "north")})
    assert following_version(FIRST, path) is None
    with pytest.raises(AgreementMismatch, match="not signed by west"):
        adopt_proposal(path)
    assert Agreement.load(path) == FIRST
    proposed(path, second, KEYS)
    assert following_version(FIRST, path) == second
    assert adopt_proposal(path) == Agreement.load(path) == second
    assert signature_status(second, Statements.load(path)).is_in_force
    assert not list(tmp_path.glob("agreement.next*"))
    assert following_version(FIRST, path) == second
    listed = versions(path)
    assert [each.agreement.version for each in listed] == [1, 2]
    assert listed[0].status.is_in_force
    assert "previous" in listed[1].changed
    kept = next(history_folder(path).glob("*.toml"))
    kept.write_text(kept.read_text().replace("three-clinics", "two-clinics"))
    with pytest.raises(AgreementError, match="does not follow"):
        versions(path)


@pytest.mark.parametrize("written", ["history", "agreement", "statements"])
def test_taking_a_version_goes_on_after_a_crash(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agreement.toml"
    FIRST.save(path)
    SIGNED.save(path)
    second = amended(FIRST, SIGNED, Amendment())
    proposed(path, second, KEYS)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    broken = {"history": (Agreement, "save"), "agreement": (Statements, "save"), "statements": (Path, "unlink")}
    with monkeypatch.context() as patch:
        patch.setattr(*broken[written], crash)
        with pytest.raises(KeyboardInterrupt):
            adopt_proposal(path)
    assert following_version(FIRST, path) == second
    # As a node does when it starts, or whoever adopts it again.
    finish_adoption(path)
    if written == "history":
        assert adopt_proposal(path) == second
    assert signature_status(second, Statements.load(path)).is_in_force
    assert [each.agreement.version for each in versions(path)] == [1, 2]


def test_revocations_made_while_a_version_is_proposed_hold_under_it(tmp_path: Path) -> None:
    path = tmp_path / "agreement.toml"
    FIRST.save(path)
    second = amended(FIRST, SIGNED, Amendment())
    proposed(path, second, KEYS)
    gone = Revocation(KEYS["west"].public_key.hex(), "2026-11-17", "stolen").signed_by(KEYS["west"])
    replace(SIGNED, revocations=(gone,)).save(path)
    with pytest.raises(KeyRevoked):
        adopt_proposal(path)
    with pytest.raises(SudareError):
        following_version(FIRST, path)


def test_a_new_member_has_no_earlier_version(tmp_path: Path) -> None:
    path, south = tmp_path / "agreement.toml", Identity.generated()
    second = amended(FIRST, SIGNED, Amendment(threshold=3)).with_member(
        MemberEntry("south", south.public_key.hex(), Budget(4.0, 1e-5))
    )
    proposed(path, second, {**KEYS, "south": south})
    assert path_after_adoption(proposal_path(path)) == path_after_adoption(path) == path
    assert adopt_proposal(path) == second


def test_a_version_that_was_put_in_place_by_hand_is_held_to_what_may_follow(tmp_path: Path) -> None:
    """Whoever may write the file: budgets are not lowered, and a key that was revoked does not come back, also where the statements forget it."""
    path = tmp_path / "agreement.toml"
    cheaper = tuple(replace(each, budget=Budget(0.99 * each.budget.epsilon, 1e-5)) for each in FIRST.members)
    lower = replace(FIRST, members=cheaper, version=2, previous=FIRST.digest)
    lower.save(path)
    signed_by_all(lower, KEYS).save(path)
    with pytest.raises(AgreementError, match="smaller than before"):
        following_version(FIRST, path)
    second = replace(FIRST, version=2, previous=FIRST.digest)
    second.save(path)
    signed_by_all(second, KEYS).save(path)
    assert following_version(FIRST, path, Known(SIGNED)) == second
    gone = Revocation(KEYS["west"].public_key.hex(), "2026-11-17", "stolen").signed_by(KEYS["west"])
    with pytest.raises(KeyRevoked, match="west"):
        following_version(FIRST, path, Known(replace(SIGNED, revocations=(gone,))))


def test_members_of_one_machine_take_a_version_in_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / "agreement.toml"
    FIRST.save(path)
    SIGNED.save(path)
    second = amended(FIRST, SIGNED, Amendment())
    proposed(path, second, KEYS)
    together = threading.Barrier(4)

    def take(_: int) -> Agreement:
        together.wait()
        return adopt_following(FIRST, path, lambda following: None)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(take, range(4))) == [second] * 4
    assert signature_status(second, Statements.load(path)).is_in_force
    with pytest.raises(AgreementError, match=r"agreement\.next\.toml"):
        adopt_proposal(path)


def test_another_line_of_versions_takes_the_place_of_the_present_one_only_if_that_is_said(tmp_path: Path) -> None:
    """As a relay that collects is given it, which has no member."""
    path = tmp_path / "agreement.toml"
    FIRST.save(path)
    SIGNED.save(path)
    ours = amended(FIRST, SIGNED, Amendment())
    proposed(path, ours, KEYS)
    adopt_proposal(path)
    theirs = amended(FIRST, SIGNED, Amendment(tasks=(RISK,)))
    third = amended(theirs, signed_by_all(theirs, KEYS), Amendment())
    proposed(path, third, KEYS)
    with pytest.raises(AgreementError, match="not here"):
        adopt_proposal(path, instead=True)
    proposed(path, theirs, KEYS)
    with pytest.raises(AgreementError, match="not the version that follows"):
        adopt_proposal(path)
    assert adopt_proposal(path, instead=True) == theirs
    assert [each.agreement for each in versions(path)] == [FIRST, theirs]
    assert [Agreement.load(each) for each in (history_folder(path) / "left").glob("*.toml")] == [ours]
    # Nobody goes back to a lower number.
    proposed(path, third, KEYS)
    adopt_proposal(path)
    proposed(path, ours, KEYS)
    with pytest.raises(AgreementError, match="it is earlier"):
        adopt_proposal(path, instead=True)


def test_what_comes_and_goes_is_told_once_and_not_by_each_of_its_fields() -> None:
    removed = FIRST.tasks[0].name
    member = FIRST.members[0]
    change = Amendment(
        budgets={member.name: Budget(member.budget.epsilon + 1.0, member.budget.delta)},
        tasks=(LearningTask("later", "one-sum", 0.5),),
        without_tasks=frozenset({removed}),
    )
    told = changes_in_short(FIRST, amended(FIRST, SIGNED, change))
    assert sorted(told) == sorted(["+tasks.later", f"-tasks.{removed}", f"members.{member.name}.budget.epsilon"])

"""Signatures, rotations and revocations: what counts, who can make it count, and what nobody can forge."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from sudare.consortium import Identity, Revocation, Rotation, Statements, keys_in_force, signature_status
from sudare.consortium.agreement.signed_statements import (
    _SUMMING,
    _sum_keys_text,
    check_is_key_of,
    keys_for_sums,
    now,
    statements_path,
)
from sudare.errors import AgreementError, AgreementMismatch, IdentityError, KeyRevoked
from sudare.privacy.ledger_chain import canonical_json
from tests.consortium.documents import DOCUMENT, agreement_of, signed_by_all, three_identities

IDENTITIES = three_identities()
EAST, NORTH, WEST = (IDENTITIES[name] for name in ("east", "north", "west"))
AGREEMENT = agreement_of(IDENTITIES)
SIGNED = signed_by_all(AGREEMENT, IDENTITIES)
STRANGER = Identity.generated()


def with_(
    statements: Statements, *, rotations: tuple[Rotation, ...] = (), revocations: tuple[Revocation, ...] = ()
) -> Statements:
    return replace(
        statements,
        rotations=(*statements.rotations, *rotations),
        revocations=(*statements.revocations, *revocations),
    )


def revocation_of(identity: Identity, *signers: Identity, reason: str = "laptop lost") -> Revocation:
    statement = Revocation(identity.public_key.hex(), "2026-11-15T00:00:00+00:00", reason)
    for signer in signers:
        statement = statement.signed_by(signer)
    return statement


# Signing


def test_in_force_once_all_have_signed() -> None:
    statements = Statements()
    for number, (name, identity) in enumerate(IDENTITIES.items(), start=1):
        with pytest.raises(AgreementMismatch, match="is not signed by"):
            keys_in_force(AGREEMENT, statements)
        statements = statements.signed(AGREEMENT, name, identity)
        assert len(signature_status(AGREEMENT, statements).signed) == number
    assert keys_in_force(AGREEMENT, statements) == {name: each.public_key for name, each in IDENTITIES.items()}


def test_signatures_over_another_agreement_do_not_count() -> None:
    other = agreement_of(IDENTITIES, deadlines={"round_seconds": 1.0})
    assert signature_status(other, SIGNED).invalid == ("east", "north", "west")
    with pytest.raises(AgreementMismatch, match=r"is not signed by east, north, west\."):
        keys_in_force(other, SIGNED)
    # Signing the other one drops what was said about the first.
    assert set(SIGNED.signed(other, "east", EAST).signatures) == {"east"}


def test_a_signature_of_one_does_not_count_for_another() -> None:
    swapped = Statements({**SIGNED.signatures, "north": SIGNED.signatures["east"]})
    assert signature_status(AGREEMENT, swapped).invalid == ("north",)
    strange = Statements({**SIGNED.signatures, "north": STRANGER.sign("agreement", AGREEMENT.digest.encode()).hex()})
    assert signature_status(AGREEMENT, strange).invalid == ("north",)


def test_members_that_are_none_do_not_matter() -> None:
    more = replace(SIGNED, signatures={**SIGNED.signatures, "stranger": SIGNED.signatures["east"]})
    assert signature_status(AGREEMENT, more).is_in_force


def test_only_the_right_key_signs() -> None:
    with pytest.raises(IdentityError, match="not the one that stands for north"):
        SIGNED.signed(AGREEMENT, "north", EAST)
    with pytest.raises(AgreementError, match="no member of that name"):
        SIGNED.signed(AGREEMENT, "south", EAST)


def test_what_is_not_complete_is_not_signed() -> None:
    alone = agreement_of({"east": EAST}, sums={"hidden_by": "masks"})
    with pytest.raises(AgreementError, match="1 of at least 2"):
        Statements().signed(alone, "east", EAST)
    with pytest.raises(AgreementError, match="1 of at least 2"):
        keys_in_force(alone, Statements())


# Keys for sums


def test_with_the_agreement_members_sign_their_keys_for_sums() -> None:
    expected = {name: each.member_keys(bytes.fromhex(AGREEMENT.digest)).public for name, each in IDENTITIES.items()}
    assert keys_for_sums(AGREEMENT, SIGNED) == expected
    assert len({each.exchange for each in expected.values()}) == 3
    without = Statements(SIGNED.signatures)
    assert "sum_keys" not in without.to_toml()
    assert keys_for_sums(AGREEMENT, without) == {}


@pytest.mark.parametrize("threshold", [2, 3])
def test_where_members_may_leave_an_agreement_is_in_force_once_all_have_signed_their_keys_for_sums(
    threshold: int,
) -> None:
    agreement = agreement_of(IDENTITIES, sums={**DOCUMENT["sums"], "threshold": threshold})
    signed = signed_by_all(agreement, IDENTITIES)
    lacks_north = replace(signed, sum_keys={name: each for name, each in signed.sum_keys.items() if name != "north"})
    found = signature_status(agreement, lacks_north)
    if threshold == 3:
        # Nobody may leave: members show them when they meet.
        assert found.is_in_force
        return
    assert (found.is_in_force, found.without_sum_keys, found.lacking) == (False, ("north",), ("north",))
    with pytest.raises(
        AgreementMismatch, match=r"no keys for sums that are signed by north\..*`sudare consortium sign`"
    ):
        keys_in_force(agreement, lacks_north)
    keys_in_force(agreement, lacks_north.signed(agreement, "north", NORTH))


def test_keys_for_sums_that_somebody_else_signed_or_under_another_agreement_do_not_count() -> None:
    other = agreement_of(IDENTITIES, deadlines={"round_seconds": 1.0})
    assert keys_for_sums(other, SIGNED) == {}
    assert SIGNED.signed(other, "east", EAST).sum_keys.keys() == {"east"}
    changed = SIGNED.sum_keys["north"][:-2] + ("01" if SIGNED.sum_keys["north"].endswith("00") else "00")
    for forged in (SIGNED.sum_keys["east"], "00" * 128, changed):
        swapped = replace(SIGNED, sum_keys={**SIGNED.sum_keys, "north": forged, "stranger": forged})
        assert keys_for_sums(AGREEMENT, swapped).keys() == {"east", "west"}
        assert keys_for_sums(AGREEMENT, swapped.merged(SIGNED, AGREEMENT)).keys() == {"east", "north", "west"}
        assert keys_for_sums(AGREEMENT, SIGNED.merged(swapped, AGREEMENT)) == keys_for_sums(AGREEMENT, SIGNED)


def test_a_member_that_signs_two_keys_for_sums_is_named() -> None:
    other = NORTH.member_keys(b"another").public
    keys = (other.exchange + other.signing).hex()
    text = canonical_json({"agreement": AGREEMENT.digest, "keys": keys}).encode()
    lie = replace(SIGNED, sum_keys={"north": keys + NORTH.sign("keys for sums", text).hex()})
    assert keys_for_sums(AGREEMENT, lie) == {"north": other}
    for one, another in ((SIGNED, lie), (lie, SIGNED)):
        with pytest.raises(IdentityError, match="north has signed two different keys"):
            one.merged(another, AGREEMENT)


def test_keys_for_sums_go_with_the_key_that_signed_them() -> None:
    new = Identity.generated()
    rotated = replace(SIGNED, rotations=(Rotation.made(NORTH, new),))
    assert keys_for_sums(AGREEMENT, rotated).keys() == {"east", "west"}
    anew = rotated.with_sum_keys(AGREEMENT, "north", new)
    assert keys_for_sums(AGREEMENT, anew)["north"] == new.member_keys(bytes.fromhex(AGREEMENT.digest)).public
    assert keys_for_sums(AGREEMENT, SIGNED.merged(anew, AGREEMENT)) == keys_for_sums(AGREEMENT, anew)


@pytest.mark.parametrize("keys", ["copied", "of small order"])
def test_keys_for_sums_that_no_sum_can_be_made_with_are_not_merged(keys: str) -> None:
    content = SIGNED.sum_keys["east"][:128] if keys == "copied" else "00" * 32 + "01" + "00" * 31
    signature = WEST.sign(_SUMMING, _sum_keys_text(AGREEMENT, content)).hex()
    others = replace(SIGNED, sum_keys={name: each for name, each in SIGNED.sum_keys.items() if name != "west"})
    with pytest.raises(IdentityError, match="cannot be used"):
        others.merged(replace(SIGNED, sum_keys={**SIGNED.sum_keys, "west": content + signature}), AGREEMENT)


# Merging


def test_merging_collects_signatures_whatever_the_order() -> None:
    parts = [Statements().signed(AGREEMENT, name, identity) for name, identity in IDENTITIES.items()]
    for order in permutations(parts):
        merged = Statements()
        for part in order:
            merged = merged.merged(part, AGREEMENT)
        assert merged == SIGNED


def test_a_bad_signature_from_elsewhere_does_not_displace_a_good_one() -> None:
    bad = Statements(dict.fromkeys(IDENTITIES, "00" * 64))
    assert SIGNED.merged(bad, AGREEMENT) == SIGNED
    assert bad.merged(SIGNED, AGREEMENT) == SIGNED


def test_a_revocation_collects_signatures_when_merged() -> None:
    one, other = (Statements(revocations=(revocation_of(WEST, signer),)) for signer in (EAST, NORTH))
    merged = with_(SIGNED).merged(one, AGREEMENT)
    assert signature_status(AGREEMENT, merged).is_in_force
    assert signature_status(AGREEMENT, merged.merged(other, AGREEMENT)).revoked == ("west",)


# Rotation


def test_a_rotated_key_stands_for_the_member_and_the_signature_stays() -> None:
    new, newer = Identity.generated(), Identity.generated()
    statements = with_(SIGNED, rotations=(Rotation.made(new, newer), Rotation.made(NORTH, new)))
    with pytest.raises(AgreementMismatch, match="no keys for sums that are signed by north"):
        keys_in_force(AGREEMENT, statements)
    statements = statements.with_sum_keys(AGREEMENT, "north", newer)
    assert keys_in_force(AGREEMENT, statements)["north"] == newer.public_key
    check_is_key_of(AGREEMENT, statements, "north", newer.public_key)
    for old in (NORTH, new):
        with pytest.raises(IdentityError):
            check_is_key_of(AGREEMENT, statements, "north", old.public_key)
    signed_anew = statements.signed(AGREEMENT, "north", newer)
    assert signature_status(AGREEMENT, signed_anew).is_in_force


def test_a_rotation_needs_both_keys() -> None:
    good = Rotation.made(NORTH, STRANGER)
    assert good.is_valid()
    forged = [
        replace(good, signature_by_old=good.signature_by_new),
        replace(good, signature_by_new=good.signature_by_old),
        replace(good, time=now() + " "),
        replace(good, old=EAST.public_key.hex()),
        replace(good, new=WEST.public_key.hex()),
        replace(Rotation.made(STRANGER, Identity.generated()), old=NORTH.public_key.hex()),
    ]
    for each in forged:
        assert not each.is_valid()
        assert keys_in_force(AGREEMENT, with_(SIGNED, rotations=(each,)))["north"] == NORTH.public_key


def test_a_key_handed_over_twice_or_in_a_circle_counts_no_more() -> None:
    new = Identity.generated()
    twice = with_(SIGNED, rotations=(Rotation.made(NORTH, new), Rotation.made(NORTH, STRANGER)))
    cycle = with_(SIGNED, rotations=(Rotation.made(NORTH, new), Rotation.made(new, NORTH)))
    for statements in (twice, cycle):
        assert signature_status(AGREEMENT, statements).revoked == ("north",)
        assert "north" not in signature_status(AGREEMENT, statements).keys
        with pytest.raises(KeyRevoked, match="north"):
            keys_in_force(AGREEMENT, statements)


def test_a_key_does_not_follow_itself() -> None:
    with pytest.raises(IdentityError):
        Rotation.made(NORTH, NORTH)


# Revocation


def test_a_key_gives_itself_up_at_once() -> None:
    statements = with_(SIGNED, revocations=(revocation_of(NORTH, NORTH),))
    found = signature_status(AGREEMENT, statements)
    assert (found.revoked, found.is_in_force) == (("north",), False)
    with pytest.raises(KeyRevoked, match="north"):
        keys_in_force(AGREEMENT, statements)
    with pytest.raises(KeyRevoked):
        statements.signed(AGREEMENT, "north", NORTH)


def test_as_many_others_as_the_threshold_revoke_a_key() -> None:
    assert AGREEMENT.threshold == 2
    assert signature_status(AGREEMENT, with_(SIGNED, revocations=(revocation_of(NORTH, EAST),))).is_in_force
    two = with_(SIGNED, revocations=(revocation_of(NORTH, EAST, WEST),))
    assert signature_status(AGREEMENT, two).revoked == ("north",)


def test_where_all_must_stay_all_others_revoke() -> None:
    agreement = agreement_of(IDENTITIES, sums={"hidden_by": "masks"})
    signed = signed_by_all(agreement, IDENTITIES)
    assert agreement.threshold == 3
    assert signature_status(agreement, with_(signed, revocations=(revocation_of(NORTH, EAST),))).is_in_force
    assert signature_status(agreement, with_(signed, revocations=(revocation_of(NORTH, EAST, WEST),))).revoked == (
        "north",
    )


def test_strangers_and_repeats_do_not_add_up() -> None:
    new = Identity.generated()
    rotation = Rotation.made(EAST, new)
    cases = [
        revocation_of(NORTH, STRANGER, EAST),
        revocation_of(NORTH, STRANGER, Identity.generated()),
        # Two keys of one member are one voice.
        revocation_of(NORTH, EAST, new),
        replace(
            revocation_of(NORTH, EAST), signatures={EAST.public_key.hex(): "00" * 64, WEST.public_key.hex(): "11" * 64}
        ),
        # Signatures are over the reason and the key.
        replace(revocation_of(NORTH, EAST, WEST), reason="another reason"),
        replace(revocation_of(STRANGER, EAST, WEST), key=NORTH.public_key.hex()),
    ]
    for each in cases:
        assert not signature_status(AGREEMENT, with_(SIGNED, rotations=(rotation,), revocations=(each,))).revoked
    # One member's voice is one, however often and for whatever reasons it says so.
    apart = (revocation_of(NORTH, EAST, reason="lost"), revocation_of(NORTH, EAST, reason="sold"))
    assert signature_status(AGREEMENT, with_(SIGNED, revocations=apart)).is_in_force


def test_members_revoke_a_key_together_each_for_a_reason_of_its_own() -> None:
    apart = (revocation_of(NORTH, EAST, reason="lost"), revocation_of(NORTH, WEST, reason="sold"))
    assert signature_status(AGREEMENT, with_(SIGNED, revocations=apart)).revoked == ("north",)


def test_a_revoked_key_cannot_hand_over() -> None:
    """A thief who rotates before or after the owner revokes gets nothing."""
    for rotation in (Rotation.made(NORTH, STRANGER), Rotation.made(NORTH, Identity.generated())):
        statements = with_(SIGNED, rotations=(rotation,), revocations=(revocation_of(NORTH, NORTH),))
        assert signature_status(AGREEMENT, statements).revoked == ("north",)


def test_revoking_the_newest_key_revokes_the_member() -> None:
    new = Identity.generated()
    statements = with_(SIGNED, rotations=(Rotation.made(NORTH, new),), revocations=(revocation_of(new, new),))
    assert signature_status(AGREEMENT, statements).revoked == ("north",)


# As a file


def everything() -> Statements:
    return with_(SIGNED, rotations=(Rotation.made(NORTH, STRANGER),), revocations=(revocation_of(WEST, EAST, NORTH),))


def test_survives_being_written(tmp_path: Path) -> None:
    statements = everything()
    assert Statements.from_toml(statements.to_toml()) == statements
    path = tmp_path / "agreement.toml"
    assert Statements.load(path) == Statements()
    statements.save(path)
    assert Statements.load(path) == statements
    assert statements_path(path).name == "agreement.statements"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "`format`"),
        ("format = 1", "format = 1\nmore = 1", "unknown field `more`"),
        ('east = "', 'east = "00', r"`signatures\.east` is not 128"),
        ('[sum_keys]\neast = "', '[sum_keys]\neast = "00', r"`sum_keys\.east` is not 256"),
        ('reason = "', 'reason = "\\u001b', r"`revocations\[0\]\.reason`"),
        ("[[rotations]]", "[[rotations]]\nwhy = 1", r"`rotations\[0\]` has the unknown field"),
        ('new = "', 'new = "G', r"`rotations\[0\]\.new`"),
        ("[[revocations]]", "[[revocations]]\nsignatures = 1", "TOML|signatures"),
    ],
)
def test_a_file_of_another_form_is_refused(old: str, new: str, message: str) -> None:
    text = everything().to_toml()
    assert old in text
    with pytest.raises(AgreementError, match=message):
        Statements.from_toml(text.replace(old, new, 1))


# The relay's key

RELAY = Identity.generated()
RELAYED = agreement_of(
    IDENTITIES, relay={"key": RELAY.public_key.hex()}, sums={**DOCUMENT["sums"], "collector": "relay"}
)
SIGNED_RELAYED = signed_by_all(RELAYED, IDENTITIES)


def test_the_relay_signs_nothing_and_its_key_counts() -> None:
    found = signature_status(RELAYED, SIGNED_RELAYED)
    assert (found.is_in_force, found.signed) == (True, ("east", "north", "west"))
    assert keys_in_force(RELAYED, SIGNED_RELAYED)["relay"] == RELAY.public_key
    with pytest.raises(AgreementMismatch, match="not signed by west"):
        keys_in_force(
            RELAYED, Statements({name: each for name, each in SIGNED_RELAYED.signatures.items() if name != "west"})
        )


def test_the_relay_s_key_is_revoked_by_itself_or_by_members_and_revokes_nobody() -> None:
    for signers in ((RELAY,), (EAST, WEST)):
        statements = with_(SIGNED_RELAYED, revocations=(revocation_of(RELAY, *signers),))
        assert signature_status(RELAYED, statements).revoked == ("relay",)
        with pytest.raises(KeyRevoked, match="relay"):
            keys_in_force(RELAYED, statements)
    for key, signers in ((RELAY, (EAST,)), (NORTH, (EAST, RELAY))):
        statements = with_(SIGNED_RELAYED, revocations=(revocation_of(key, *signers),))
        assert signature_status(RELAYED, statements).is_in_force


def test_a_member_that_takes_the_relay_s_key_stands_for_nobody() -> None:
    statements = with_(SIGNED_RELAYED, rotations=(Rotation.made(NORTH, RELAY),))
    assert signature_status(RELAYED, statements).revoked == ("north", "relay")


def test_a_revocation_that_no_member_signed_or_of_nobodys_key_is_not_merged() -> None:
    newcomer, rotated = Identity.generated(), Identity.generated()
    rotation = Rotation.made(EAST, rotated)
    for signer, is_kept in ((STRANGER, False), (NORTH, True), (WEST, True), (rotated, True)):
        given = Statements(rotations=(rotation,), revocations=(revocation_of(NORTH, signer),))
        assert bool(SIGNED.merged(given, AGREEMENT).revocations) == is_kept
    for signer in (STRANGER, newcomer, WEST):
        given = Statements(revocations=(revocation_of(newcomer, signer),))
        assert SIGNED.merged(given, AGREEMENT) == SIGNED
    # Of a member that has left it is known by the version that named it.
    before = agreement_of({**IDENTITIES, "north": newcomer})
    given = Statements(revocations=(revocation_of(newcomer, newcomer),))
    assert SIGNED.merged(given, AGREEMENT, [before]).revocations == given.revocations


def test_of_what_one_member_can_say_for_ever_as_much_is_merged_as_matters() -> None:
    """Other reasons for one revocation, other dates and heirs of one key, chains without end."""
    reasons = tuple(revocation_of(NORTH, EAST, reason=str(number)) for number in range(5))
    merged = SIGNED.merged(Statements(revocations=reasons), AGREEMENT)
    assert len(merged.revocations) == 1
    both = merged.merged(Statements(revocations=(revocation_of(NORTH, WEST), *reasons)), AGREEMENT)
    assert len(both.revocations) == 2
    assert signature_status(AGREEMENT, both).revoked == ("north",)
    heirs = tuple(Rotation.made(EAST, Identity.generated()) for _ in range(4))
    torn = SIGNED.merged(Statements(rotations=heirs), AGREEMENT)
    assert len(torn.rotations) == 2
    assert signature_status(AGREEMENT, torn).revoked == ("east",)


def test_the_rotations_of_one_member_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.agreement.signed_statements._MOST_ROTATIONS", 3)
    keys = [EAST, *(Identity.generated() for _ in range(6))]
    chain = tuple(Rotation.made(old, new) for old, new in pairwise(keys))
    merged = SIGNED.merged(Statements(rotations=chain), AGREEMENT)
    assert set(merged.rotations) == set(chain[:3])


def test_what_was_known_counts_on_where_the_file_forgets_it() -> None:
    new = Identity.generated()
    rotated = with_(SIGNED, rotations=(Rotation.made(EAST, new),)).with_sum_keys(AGREEMENT, "east", new)
    found = SIGNED.with_known(rotated, AGREEMENT)
    assert signature_status(AGREEMENT, found).keys["east"] == new.public_key
    assert signature_status(AGREEMENT, found).is_in_force
    assert signature_status(AGREEMENT, Statements().with_known(SIGNED, AGREEMENT)).is_in_force
    junk = Statements(
        dict.fromkeys(SIGNED.signatures, "00" * 64), sum_keys=dict.fromkeys(SIGNED.signatures, "00" * 128)
    )
    assert signature_status(AGREEMENT, junk.with_known(SIGNED, AGREEMENT)).is_in_force

"""Masks: they cancel, everything that they hang on changes them, and shares open one half of a member's secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums import masks
from sudare.sums.context import Participant, Roster, SumContext, bitmap
from sudare.sums.keys import MemberKeys
from sudare.sums.masks import (
    MaskKey,
    add_pair_masks,
    commitment,
    dealt,
    fresh_pair_seed,
    lasting_pair_seed,
    mask_of,
    mask_secret,
    opened_box,
    pair_seed,
    self_seed,
    take_self_masks,
)
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.shamir import seed_or_none
from sudare.sums.statements import KINDS, stated
from tests.sums.montgomery import ENCODINGS_OF_SMALL_ORDER, translated
from tests.sums.parties import SPARSE, context, participants, random_words, secrets_from

EVERYONE = bitmap(range(10), 10)


# They cancel


@given(st.integers(1, 9), st.integers(1, 5))
def test_pairwise_masks_cancel_over_all_members(members, length):
    words, where = random_words(members, length), participants(context(members))
    hidden = [row.copy() for row in words]
    for row, participant in zip(hidden, where, strict=True):
        add_pair_masks(
            row,
            participant.position,
            {o: lasting_pair_seed(participant, o) for o in range(members) if o != participant.position},
        )
    np.testing.assert_array_equal(np.sum(hidden, axis=0, dtype=np.uint64), words.sum(axis=0, dtype=np.uint64))
    if members > 1:
        assert not any(np.array_equal(row, plain) for row, plain in zip(hidden, words, strict=True))


@given(st.integers(3, 8), st.data())
def test_any_set_of_members_is_opened_with_its_self_seeds_and_the_keys_of_the_others(members, data):
    where = participants(context(members, members - 1))
    words = random_words(members, 2)
    keys = [MaskKey.of(mask_secret(participant)) for participant in where]

    def seeds(member: int, others: set[int]) -> dict[int, bytes]:
        return {
            o: fresh_pair_seed(where[0].context, member, keys[member], o, keys[o].public) for o in others - {member}
        }

    everyone = set(range(members))
    included = data.draw(st.sets(st.integers(0, members - 1), min_size=1))
    total = np.zeros(2, dtype=np.uint64)
    for member in included:
        hidden = words[member] + mask_of(self_seed(where[member]), 2)
        add_pair_masks(hidden, member, seeds(member, everyone))
        total += hidden
    take_self_masks(total, [self_seed(where[member]) for member in included])
    for left in everyone - included:
        add_pair_masks(total, left, seeds(left, included))
    np.testing.assert_array_equal(total, words[sorted(included)].sum(axis=0, dtype=np.uint64))


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1000])
def test_a_mask_is_aes_in_counter_mode(count):
    """AES-GCM with a nonce of zeros counts from two."""
    seed = b"s" * 32
    encryptor = Cipher(algorithms.AES(seed), modes.CTR(bytes(15) + b"\x02")).encryptor()
    np.testing.assert_array_equal(mask_of(seed, count), np.frombuffer(encryptor.update(bytes(8 * count)), dtype="<u8"))


def test_the_lower_of_two_adds_their_mask_and_the_higher_subtracts_it():
    words = random_words(1, 4)[0]
    seeds = {0: b"a" * 32, 5: b"c" * 32}
    hidden = words.copy()
    add_pair_masks(hidden, 2, seeds)
    np.testing.assert_array_equal(hidden, words - mask_of(seeds[0], 4) + mask_of(seeds[5], 4))


def test_both_ends_of_a_pair_have_its_seed():
    where = participants(context(4, 3))
    keys = [MaskKey.of(mask_secret(participant)) for participant in where]
    for one in range(4):
        for other in set(range(4)) - {one}:
            assert lasting_pair_seed(where[one], other) == lasting_pair_seed(where[other], one)
            ends = (
                fresh_pair_seed(where[0].context, one, keys[one], other, keys[other].public),
                fresh_pair_seed(where[0].context, other, keys[other], one, keys[one].public),
            )
            assert ends[0] == ends[1]


# What they hang on

MEMBERS = 40
HOOD = Neighbourhood(12, 9)


def secret(number: int, kind: str) -> bytes:
    return hashlib.sha256(f"{kind} of {number}".encode()).digest()


@cache
def member_keys(exchange: int, signing: int, root: int) -> MemberKeys:
    """The keys whose parts are of these numbers."""
    return MemberKeys(secret(exchange, "exchange"), secret(signing, "signing"), secret(root, "root"))


def bound_context(kind: type[SumContext] = SumContext, **changed: object) -> tuple[SumContext, MemberKeys]:
    """A sum and the keys of member 0. `changed` names fields, or as name_5, exchange_5 and signing_5 parts of the roster."""
    fields: dict[str, object] = {
        "agreement": "agreement",
        "task": "task",
        "iteration": 4,
        "attempt": 2,
        "threshold": 36,
        "dishonest": 3,
        "history": bytes(32),
        "neighbourhood": HOOD,
    }
    names = [f"member-{place}" for place in range(MEMBERS)]
    numbers = [{"exchange": place, "signing": place, "root": place} for place in range(MEMBERS)]
    for name, value in changed.items():
        part, _, place = name.partition("_")
        if part == "name":
            names[int(place)] = str(value)
        elif part in ("exchange", "signing"):
            numbers[int(place)][part] = int(str(value))
        else:
            fields[name] = value
    owned = [member_keys(**each) for each in numbers]
    roster = Roster(tuple(names), tuple(each.public for each in owned))
    return kind(roster=roster, **fields), owned[0]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fixed_secrets() -> Callable[[SumContext, MemberKeys], dict[str, object]]:
    """What member 0 derives for a sum; where one value enters another it is held fixed, so that each shows its own binding."""

    def values(where: SumContext, own: MemberKeys) -> dict[str, object]:
        participant = Participant(where, 0, own)
        other = MaskKey.of(secret(0, "mask key"))
        present = bitmap(range(MEMBERS), MEMBERS)
        found: dict[str, object] = {
            "lasting pair seed": lasting_pair_seed(participant, 1),
            "fresh pair seed": fresh_pair_seed(where, 0, MaskKey.of(secret(1, "mask key")), 1, other.public),
            "self-seed": self_seed(participant),
            "key for masks": mask_secret(participant),
            "commitment": commitment(where, bytes(32)),
            "box key out": masks._channel_key(participant, present, 0, 1),
            "box key in": masks._channel_key(participant, present, 1, 0),
            "choice of neighbours": participant.out_neighbours,
            **{f"signature on {kind}": stated(participant, kind, b"content").signature for kind in KINDS},
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masks, "self_seed", lambda participant: bytes(32))
            patch.setattr(masks, "mask_secret", lambda participant: bytes(32))
            shares, boxes = dealt(participant, present, (1,))
            found["share polynomial"] = shares.of_self_seed.tobytes()
            found["box"] = boxes[1]
        return found

    return values


CHANGES: dict[str, st.SearchStrategy[object]] = {
    "agreement": st.text(max_size=20).filter(lambda each: each != "agreement"),
    "task": st.text(max_size=20).filter(lambda each: each != "task"),
    "iteration": st.integers(0, 2**40).filter(lambda each: each != 4),
    "attempt": st.integers(0, 2**40).filter(lambda each: each != 2),
    "threshold": st.integers(22, 39).filter(lambda each: each != 36),
    "dishonest": st.sampled_from([0, 1, 2, 4, 5, 31]),
    "history": st.binary(min_size=32, max_size=32).filter(any),
    "neighbourhood": st.sampled_from([Neighbourhood(12, 8), Neighbourhood(12, 10), Neighbourhood(13, 9)]),
    "name": st.text(min_size=1, max_size=8).filter(lambda each: not each.startswith("member-")),
    "exchange": st.integers(MEMBERS, 2 * MEMBERS),
    "signing": st.integers(MEMBERS, 2 * MEMBERS),
}


def changes(data: st.DataObject, field: str) -> dict[str, object]:
    place = data.draw(st.sampled_from([0, 1, 2, MEMBERS - 1])) if field in ("name", "exchange", "signing") else None
    return {field if place is None else f"{field}_{place}": data.draw(CHANGES[field])}


@pytest.mark.parametrize("field", CHANGES)
@given(data=st.data())
def test_every_part_of_a_sum_changes_everything_that_is_derived_for_it(field, data, fixed_secrets):
    before = fixed_secrets(*bound_context())
    after = fixed_secrets(*bound_context(**changes(data, field)))
    assert [name for name, value in before.items() if after[name] == value] == []


class Forgetful(SumContext):
    """The planted bug: a digest that leaves one field away."""

    forgotten = ""

    @cached_property
    def digest(self) -> bytes:
        default, _ = bound_context()
        if self.forgotten in ("name", "exchange", "signing"):
            roster = default.roster
            if self.forgotten == "name":
                roster = Roster(roster.members, self.roster.publics)
            else:
                other = "signing" if self.forgotten == "exchange" else "exchange"
                kept = zip(roster.publics, self.roster.publics, strict=True)
                publics = tuple(replace(old, **{other: getattr(new, other)}) for old, new in kept)
                roster = Roster(self.roster.members, publics)
            known = {"roster": roster}
        else:
            known = {self.forgotten: getattr(default, self.forgotten)}
        fields = {name: getattr(self, name) for name in SumContext.__dataclass_fields__}
        return SumContext(**{**fields, **known}).digest


@pytest.mark.parametrize("field", CHANGES)
def test_a_digest_that_forgets_a_part_is_found_out(field, fixed_secrets, monkeypatch):
    monkeypatch.setattr(Forgetful, "forgotten", field)
    values = {"agreement": "x", "task": "x", "iteration": 9, "attempt": 9, "threshold": 35, "dishonest": 2}
    values |= {"history": b"h" * 32, "neighbourhood": Neighbourhood(12, 8), "name": "x"}
    place = "_2" if field in ("name", "exchange", "signing") else ""
    before = fixed_secrets(*bound_context(Forgetful))
    after = fixed_secrets(*bound_context(Forgetful, **{field + place: values.get(field, 77)}))
    same = {name for name, value in before.items() if after[name] == value}
    assert {"fresh pair seed", "self-seed", "key for masks", "box key out", "signature on vote"} <= same


def test_pairs_are_bound_to_both_places_names_and_keys_even_with_one_secret():
    """Two pairs that came to one Diffie–Hellman secret, as by a key that was shown twice, would still have unrelated masks."""
    where, _ = bound_context()
    first, second = (0, secret(0, "public")), (1, secret(1, "public"))
    seeds = {
        pair_seed(where, bytes(32), first, second),
        pair_seed(where, bytes(32), first, (2, second[1])),
        pair_seed(where, bytes(32), first, (1, secret(2, "public"))),
        pair_seed(where, bytes(32), (2, first[1]), second),
        pair_seed(where, bytes(32), (0, secret(2, "public")), second),
        pair_seed(where, bytes(32), (0, second[1]), (1, first[1])),
        pair_seed(where, b"s" * 32, first, second),
    }
    assert len(seeds) == 7
    assert pair_seed(where, bytes(32), second, first) == pair_seed(where, bytes(32), first, second)


def test_secrets_of_one_sum_differ_by_purpose_and_direction(fixed_secrets):
    values = [each for each in fixed_secrets(*bound_context()).values() if isinstance(each, bytes)]
    assert len(set(values)) == len(values)


def test_another_set_of_those_present_gives_other_polynomials_and_box_keys():
    participant, some = participants(context(10, 8))[0], bitmap(range(9), 10)
    (one, boxes), (other, others) = dealt(participant, EVERYONE, (1, 2)), dealt(participant, some, (1, 2))
    assert one.of_self_seed.tolist() != other.of_self_seed.tolist()
    assert all(boxes[place] != others[place] for place in (1, 2))
    with pytest.raises(MessageMalformed):
        opened_box(participants(participant.context)[1], some, 0, boxes[1])


# Keys that lie


@pytest.mark.parametrize("encoding", ENCODINGS_OF_SMALL_ORDER, ids=lambda each: each.hex()[:8] + each.hex()[-4:])
def test_a_mask_key_of_small_order_makes_no_mask(encoding):
    participant = participants(context(4, 3))[0]
    with pytest.raises(InvalidParameter, match="X25519"):
        fresh_pair_seed(participant.context, 0, MaskKey.of(mask_secret(participant)), 1, encoding)


@pytest.mark.parametrize("kind", ["high bit", "order 2", "order 4", "order 8"])
def test_a_reflected_key_plus_a_point_of_small_order_gives_an_unrelated_mask(kind):
    """Member 2 shows the key of member 1, moved so that its bytes differ: member 0's masks with both do not cancel."""
    where = participants(context(4, 3))
    own, victim = (MaskKey.of(mask_secret(where[place])) for place in (0, 1))
    reflected = translated(victim.public, kind)
    seeds = {
        fresh_pair_seed(where[0].context, 0, own, 1, victim.public),
        fresh_pair_seed(where[0].context, 0, own, 2, reflected),
        fresh_pair_seed(where[0].context, 0, own, 2, victim.public),
    }
    assert len(seeds) == 3


# Shares


@pytest.mark.parametrize(("members", "threshold"), [(3, 2), (5, 3), (8, 7)])
def test_dealt_shares_give_the_self_seed_and_the_key_for_masks(members, threshold):
    where = participants(context(members, threshold))
    present = bitmap(range(members), members)
    own, boxes = dealt(where[1], present, where[1].out_neighbours)
    held = {1: own} | {place: opened_box(where[place], present, 1, box) for place, box in boxes.items()}
    holders = list(held)[-threshold:]
    of_self = secrets_from({holder: held[holder].of_self_seed for holder in holders}, threshold)
    of_key = secrets_from({holder: held[holder].of_mask_key for holder in holders}, threshold)
    assert seed_or_none(of_self) == self_seed(where[1])
    assert seed_or_none(of_key) == mask_secret(where[1])


def test_a_few_neighbours_hold_the_shares_of_a_sparse_sum():
    where = participants(context(10, 8, neighbourhood=SPARSE))
    chosen = where[3].out_neighbours
    _, boxes = dealt(where[3], EVERYONE, chosen)
    assert tuple(boxes) == chosen
    held = {place: opened_box(where[place], EVERYONE, 3, boxes[place]).of_self_seed for place in chosen[:4]}
    assert seed_or_none(secrets_from(held, 4)) == self_seed(where[3])


def test_dealing_again_deals_the_same():
    participant = participants(context(10, 8))[2]
    assert dealt(participant, EVERYONE, (0, 1, 3))[1] == dealt(participant, EVERYONE, (0, 1, 3))[1]


def test_boxes_are_for_their_receiver_from_their_sender_in_their_sum():
    where = participants(context(10, 8))
    _, boxes = dealt(where[1], EVERYONE, (2, 3))
    for reader, sender, box in (
        (where[2], 1, boxes[3]),
        (where[3], 2, boxes[3]),
        (participants(context(10, 8))[3], 1, boxes[3]),
        (participants(replace(where[0].context, attempt=1))[3], 1, boxes[3]),
        (where[3], 1, boxes[3][:-1]),
        (where[3], 1, b""),
        (where[3], 1, bytes(96)),
    ):
        with pytest.raises(MessageMalformed, match="does not open"):
            opened_box(reader, EVERYONE, sender, box)


@pytest.mark.parametrize("content", [bytes(79), bytes(81), b"\xff" * 80, b""])
def test_boxes_that_hold_something_else_are_refused(content):
    where = participants(context(10, 8))
    box = AESGCM(masks._channel_key(where[1], EVERYONE, 1, 3)).encrypt(bytes(12), content, where[1].context.digest)
    with pytest.raises(MessageMalformed, match="does not open"):
        opened_box(where[3], EVERYONE, 1, box)

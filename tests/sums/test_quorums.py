"""Certificates: signatures of so many members that no other content has as many."""

from __future__ import annotations

from hashlib import sha256
from math import comb

import pytest

from sudare.sums.context import Participant, Roster, SumContext, least_threshold
from sudare.sums.keys import MemberKeys
from sudare.sums.neighbours import Neighbourhood
from sudare.sums.statements import forget_verified, quorum_holds, signatures_drawn, stated

MEMBERS, DISHONEST, THRESHOLD = 60, 3, 57
# Always the same keys, and so the same samples.
KEYS = [MemberKeys(*(sha256(bytes([kind, member])).digest() for kind in range(3))) for member in range(MEMBERS)]
ROSTER = Roster(tuple(map(str, range(MEMBERS))), tuple(each.public for each in KEYS))


def participants(*, sparse: bool) -> list[Participant]:
    hood = Neighbourhood(8, 5) if sparse else None
    context = SumContext("agreement", "task", 0, 0, ROSTER, THRESHOLD, DISHONEST, neighbourhood=hood)
    return [Participant(context, position, keys) for position, keys in enumerate(KEYS)]


def signatures(all_seats: list[Participant], signers: range, content: bytes = b"content") -> list[bytes]:
    return [stated(all_seats[signer], "vote", content).signature for signer in signers]


@pytest.mark.parametrize("members", [200, 1_000, 10_000, 100_000])
@pytest.mark.parametrize("leaving", [0.01, 0.05, 0.2])
def test_a_sample_misses_too_few_valid_signatures_with_a_probability_that_is_bounded(
    members: int, leaving: float
) -> None:
    named, quorum = int(members * (1 - leaving)), least_threshold(members, members // 20)
    drawn = signatures_drawn(named, quorum, members)
    # All m drawn are among q − 1 valid ones of n: exactly comb(q − 1, m)/comb(n, m).
    assert comb(quorum - 1, drawn) * members * 2**40 <= comb(named, drawn)
    assert drawn < 160


@pytest.mark.parametrize(("named", "quorum"), [(57, 57), (58, 57), (5, 1), (0, 1), (3, 7)])
def test_never_more_are_drawn_than_there_are(named: int, quorum: int) -> None:
    assert 0 <= signatures_drawn(named, quorum, 60) <= named


@pytest.mark.parametrize("sparse", [False, True])
def test_a_certificate_of_t_members_holds(sparse: bool) -> None:
    all_seats, signers = participants(sparse=sparse), range(1, 1 + THRESHOLD)
    right = b"".join(signatures(all_seats, signers))
    forget_verified()
    assert quorum_holds(all_seats[0], "vote", b"content", frozenset(signers), right)
    assert not quorum_holds(all_seats[0], "vote", b"other", frozenset(signers), right)
    assert not quorum_holds(all_seats[0], "heard", b"content", frozenset(signers), right)
    assert not quorum_holds(all_seats[0], "vote", b"content", frozenset(signers) - {5}, right)
    assert not quorum_holds(all_seats[0], "vote", b"content", frozenset(signers) - {5}, right[64:])
    assert not quorum_holds(all_seats[0], "vote", b"content", frozenset(range(THRESHOLD)), right)


def test_where_everyone_is_a_neighbour_every_signature_is_verified() -> None:
    all_seats, signers = participants(sparse=False), range(THRESHOLD)
    each = signatures(all_seats, signers)
    for wrong in (0, 31, THRESHOLD - 1):
        content = b"".join([*each[:wrong], bytes(64), *each[wrong + 1 :]])
        assert not quorum_holds(all_seats[58], "vote", b"content", frozenset(signers), content)


def test_fewer_valid_signatures_than_a_quorum_are_noticed_by_every_member_of_a_sparse_sum() -> None:
    """One fewer than a quorum are right, wherever they stand; each member draws a sample of its own."""
    all_seats, signers = participants(sparse=True), range(THRESHOLD)
    quorum = all_seats[0].context.quorum
    assert signatures_drawn(THRESHOLD, quorum, MEMBERS) < THRESHOLD
    right, wrong = signatures(all_seats, signers), signatures(all_seats, signers, b"another content")
    valid = quorum - 1
    for each in (right[:valid] + wrong[valid:], wrong[: THRESHOLD - valid] + right[THRESHOLD - valid :]):
        content = b"".join(each)
        assert not any(
            quorum_holds(participant, "vote", b"content", frozenset(signers), content) for participant in all_seats
        )


def test_samples_differ_between_members_and_certificates() -> None:
    """With one wrong signature some members notice and others do not, and who does depends on where it stands."""
    all_seats, signers = participants(sparse=True), range(THRESHOLD)
    each = signatures(all_seats, signers)
    noticed = []
    for place in (3, 40):
        content = b"".join([*each[:place], bytes(64), *each[place + 1 :]])
        noticed.append(
            [
                not quorum_holds(participant, "vote", b"content", frozenset(signers), content)
                for participant in all_seats
            ]
        )
    assert all(0 < sum(members) < MEMBERS for members in noticed)
    assert noticed[0] != noticed[1]

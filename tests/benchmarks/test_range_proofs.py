"""The prototype of range proofs: complete, and sound against the changes tried here. In a small group, where nothing is timed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import reduce

import pytest

from benchmarks import range_proofs as rp

# Squares modulo the safe prime 2·ORDER + 1: of prime order, and far too small to protect anything.
ORDER = 2**126 + 4399
MODULUS = 2 * ORDER + 1
BITS, TOGETHER = 4, 4


@dataclass(frozen=True)
class Residue:
    """A scalar."""

    value: int

    def __add__(self, other: Residue) -> Residue:
        return Residue((self.value + other.value) % ORDER)

    def __sub__(self, other: Residue) -> Residue:
        return Residue((self.value - other.value) % ORDER)

    def __mul__(self, other: Residue) -> Residue:
        return Residue(self.value * other.value % ORDER)


@dataclass(frozen=True)
class Square:
    """A point, written additively."""

    value: int

    def __add__(self, other: Square) -> Square:
        return Square(self.value * other.value % MODULUS)


def square_of(packed: bytes) -> Square:
    value = int.from_bytes(packed, "big")
    if not 0 < value < MODULUS or pow(value, ORDER, MODULUS) != 1:
        raise ValueError("not a square")
    return Square(value)


def combined(points: list[Square], scalars: list[Residue]) -> Square:
    powers = (pow(point.value, scalar.value, MODULUS) for point, scalar in zip(points, scalars, strict=True))
    return Square(reduce(lambda one, other: one * other % MODULUS, powers))


SMALL = rp.Group(
    order=ORDER,
    scalar=Residue,
    inverse=lambda scalar: Residue(pow(scalar.value, -1, ORDER)),
    scalar_bytes=lambda scalar: scalar.value.to_bytes(16, "big"),
    hashed=lambda name: Square(pow(int.from_bytes(hashlib.sha256(name).digest(), "big"), 2, MODULUS)),
    combined=combined,
    identity=Square(1),
    point_bytes=lambda point: point.value.to_bytes(16, "big"),
    point_of=square_of,
)
GENERATORS = rp.Generators.hashed(SMALL, BITS, TOGETHER)


def claim_of(own: rp.Committed, context: bytes = b"a member") -> rp.Claim:
    return rp.Claim(own.commitments, rp.proofs_of(SMALL, GENERATORS, own, context), context)


def honest(numbers: list[int], context: bytes = b"a member") -> rp.Claim:
    return claim_of(rp.committed(SMALL, GENERATORS, numbers), context)


def accepted(*claims: rp.Claim) -> bool:
    try:
        rp.check_ranges(SMALL, GENERATORS, claims)
    except rp.NotProved:
        return False
    return True


def accepted_bytes(claim: rp.Claim, packed: bytes) -> bool:
    try:
        proof = rp.RangeProof.unpacked(SMALL, packed)
    except rp.NotProved:
        return False
    return accepted(replace(claim, proofs=[proof]))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_numbers_in_the_range_are_proved(count: int) -> None:
    assert accepted(honest([(7 * place + 15) % 16 for place in range(count)]))


def test_claims_of_several_members_are_checked_together() -> None:
    claims = [honest([0, 15, 8], b"a"), honest([1, 2, 3, 4, 5], b"b"), honest([9], b"c")]
    assert accepted(*claims)
    wrong = claim_of(rp.committed(SMALL, GENERATORS, [0, 16]), b"d")
    assert not accepted(*claims, wrong)
    assert not accepted(wrong, *claims)


@pytest.mark.parametrize("number", [16, 17, -1, 2**64, ORDER - 1, ORDER // 2])
@pytest.mark.parametrize("place", [0, 2])
def test_a_number_out_of_the_range_is_not(number: int, place: int) -> None:
    numbers = [3, 4, 5]
    numbers[place] = number
    assert not accepted(claim_of(rp.committed(SMALL, GENERATORS, numbers)))


@pytest.mark.parametrize("products_are_zero", [False, True])
def test_digits_that_are_not_bits_are_not(products_are_zero: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover whose digits do add up to its number, 40 = 40 · 2⁰, with either condition on bits broken."""

    def digits(group: rp.Group, numbers: list[int], bits: int) -> tuple[list[Residue], list[Residue]]:
        left = [Residue(number if bit == 0 else 0) for number in numbers for bit in range(bits)]
        right = [digit - Residue(1) for digit in left]
        if products_are_zero:
            right = [Residue(0) if digit.value else less for digit, less in zip(left, right, strict=True)]
        return left, right

    monkeypatch.setattr(rp, "_bits_of", digits)
    assert accepted(claim_of(rp.committed(SMALL, GENERATORS, [0, 1])))
    assert not accepted(claim_of(rp.committed(SMALL, GENERATORS, [40, 0])))


def test_a_number_under_a_commitment_to_another_is_not() -> None:
    own = rp.committed(SMALL, GENERATORS, [3, 40, 5])
    assert not accepted(claim_of(replace(own, numbers=[3, 8, 5])))


@pytest.mark.parametrize("field", [field.name for field in fields(rp.RangeProof) if field.name != "rounds"])
def test_a_changed_field_of_a_proof_is_noticed(field: str) -> None:
    claim = honest([1, 2, 3])
    (proof,) = claim.proofs
    value = getattr(proof, field)
    changed = value + (Residue(1) if isinstance(value, Residue) else GENERATORS.G)
    assert not accepted(replace(claim, proofs=[replace(proof, **{field: changed})]))


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("side", [0, 1])
def test_a_changed_round_of_a_proof_is_noticed(place: int, side: int) -> None:
    claim = honest([1, 2, 3])
    (proof,) = claim.proofs
    assert len(proof.rounds) == 4
    rounds = [list(pair) for pair in proof.rounds]
    rounds[place][side] = rounds[place][side] + GENERATORS.U
    assert not accepted(replace(claim, proofs=[replace(proof, rounds=[(L, R) for L, R in rounds])]))


def test_every_changed_byte_of_a_proof_is_noticed() -> None:
    claim = honest([6])
    packed = claim.proofs[0].packed(SMALL)
    for place in range(len(packed)):
        changed = bytearray(packed)
        changed[place] ^= 1
        assert not accepted_bytes(claim, bytes(changed))


@pytest.mark.parametrize("size", [1, 15, 16, 32])
def test_proofs_of_other_lengths_are_refused(size: int) -> None:
    claim = honest([6])
    packed = claim.proofs[0].packed(SMALL)
    assert accepted_bytes(claim, packed)
    for other in (b"", packed[:-size], packed + packed[-size:], packed + packed):
        assert not accepted_bytes(claim, other)


def test_scalars_have_one_spelling() -> None:
    packed = honest([6]).proofs[0].packed(SMALL)
    again = (int.from_bytes(packed[:16], "big") + ORDER).to_bytes(16, "big")
    with pytest.raises(rp.NotProved, match="order"):
        rp.RangeProof.unpacked(SMALL, again + packed[16:])


def test_points_out_of_the_group_are_refused() -> None:
    outside = MODULUS - 1
    with pytest.raises(rp.NotProved, match="not a point"):
        rp.points_of(SMALL, outside.to_bytes(16, "big"))


def test_a_proof_is_for_its_own_member_commitments_and_place() -> None:
    claim = honest([1, 2, 3, 4, 5, 6, 7, 8])
    assert accepted(claim)
    assert not accepted(replace(claim, context=b"another member"))
    assert not accepted(replace(claim, commitments=claim.commitments[4:] + claim.commitments[:4]))
    both = replace(claim, commitments=claim.commitments[4:] + claim.commitments[:4], proofs=claim.proofs[::-1])
    assert not accepted(both)
    assert not accepted(replace(claim, commitments=claim.commitments[:1] * 2 + claim.commitments[2:]))
    assert not accepted(replace(claim, proofs=claim.proofs[:1]))


def test_two_wrong_claims_do_not_cancel() -> None:
    one, other = honest([1], b"a"), honest([1], b"b")
    shifted = [
        replace(one, proofs=[replace(one.proofs[0], tau=one.proofs[0].tau + Residue(1))]),
        replace(other, proofs=[replace(other.proofs[0], tau=other.proofs[0].tau - Residue(1))]),
    ]
    assert not accepted(*shifted)


def test_the_total_is_that_of_the_committed_numbers() -> None:
    members = [rp.committed(SMALL, GENERATORS, numbers) for numbers in ([1, 2, 3], [10, 11, 12], [0, 15, 7])]
    commitments = [member.commitments for member in members]
    blindings = [sum(column[1:], column[0]) for column in zip(*(one.blindings for one in members), strict=True)]
    rp.check_total(SMALL, GENERATORS, commitments, [11, 28, 22], blindings)
    wrong = [
        (commitments, [11, 28, 23], blindings),
        (commitments, [12, 27, 22], blindings),
        (commitments[:2], [11, 28, 22], blindings),
        (commitments, [11, 28, 22], blindings[::-1]),
        (commitments, [11, 28], blindings),
    ]
    for sent, totals, opened in wrong:
        with pytest.raises(rp.NotProved):
            rp.check_total(SMALL, GENERATORS, sent, totals, opened)


def test_commitments_to_equal_numbers_differ() -> None:
    own = rp.committed(SMALL, GENERATORS, [5, 5, 5])
    assert len({point.value for point in own.commitments}) == 3


@pytest.mark.parametrize(("bits", "together"), [(3, 4), (4, 3), (0, 4)])
def test_sizes_are_powers_of_two(bits: int, together: int) -> None:
    with pytest.raises(ValueError, match="powers of two"):
        rp.Generators.hashed(SMALL, bits, together)

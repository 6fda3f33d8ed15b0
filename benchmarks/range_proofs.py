"""Commitments to a member's numbers, and proofs that each lies in [0, 2^bits): a prototype to be measured, no part of the product.

Pedersen commitments in a group of prime order, and the aggregated range proof of Bünz et al., "Bulletproofs" (IEEE S&P 2018), section 4.2,
made non-interactive by Fiat and Shamir's transform over everything that was sent and the context. Some numbers share a proof. Any
number of proofs, of all members, are verified by one multi-exponentiation with random weights (their section 6.1).

It is not written for constant time. Symbols are the paper's, but additive: V commits to a number, A and S to its bits and to their blinding,
T1 and T2 to the polynomial t(X), L and R are the rounds of the inner-product argument.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import Any, Final

# More numbers in one proof make it shorter and dearer: every round of the inner product is over all generators.
TOGETHER: Final = 64
# A false batch passes with probability of about 2 to the minus this.
WEIGHT_BITS: Final = 128

# Points have + and ==, scalars +, - and * by each other, and both come from a library without types.
Point = Any
Scalar = Any


class NotProved(Exception):
    """A proof, a commitment or a total is not what it should be."""


@dataclass(frozen=True)
class Group:
    """A group of prime order in which nobody knows a relation between points that were hashed to."""

    order: int
    scalar: Callable[[int], Scalar]
    inverse: Callable[[Scalar], Scalar]
    scalar_bytes: Callable[[Scalar], bytes]
    hashed: Callable[[bytes], Point]
    combined: Callable[[list[Point], list[Scalar]], Point]
    identity: Point
    point_bytes: Callable[[Point], bytes]
    # Raises ValueError unless the bytes are a point of the group.
    point_of: Callable[[bytes], Point]

    def random(self) -> Scalar:
        """A uniform secret."""
        return self.scalar(secrets.randbelow(self.order))


@dataclass(frozen=True)
class Generators:
    """Points without a known relation: G and H for commitments, U for inner products, one of `left` and of `right` for each bit.

    They are for numbers of `bits` bits of which up to `together` share a proof, both powers of two.
    """

    bits: int
    together: int
    G: Point
    H: Point
    U: Point
    left: list[Point]
    right: list[Point]

    @classmethod
    def hashed(cls, group: Group, bits: int, together: int = TOGETHER) -> Generators:
        """Points that are hashes of their names. Raise ValueError unless both numbers are powers of two."""
        if bits.bit_count() != 1 or together.bit_count() != 1:
            raise ValueError(f"Bits and numbers in a proof must be powers of two; got {bits} and {together}.")
        first = [group.hashed(b"sudare range proof " + name) for name in (b"G", b"H", b"U")]
        sides = (
            [group.hashed(b"sudare range proof %s %d" % (side, place)) for place in range(bits * together)]
            for side in (b"left", b"right")
        )
        return cls(bits, together, *first, *sides)


@dataclass(frozen=True)
class Committed:
    """A member's numbers under commitments. The blindings are the member's secret, as are the numbers."""

    numbers: list[int]
    blindings: list[Scalar]
    commitments: list[Point]


@dataclass(frozen=True)
class RangeProof:
    """That a few committed numbers lie in the range."""

    A: Point
    S: Point
    T1: Point
    T2: Point
    t: Scalar
    tau: Scalar
    mu: Scalar
    rounds: list[tuple[Point, Point]]
    a: Scalar
    b: Scalar

    def packed(self, group: Group) -> bytes:
        """The bytes that are sent."""
        points = [self.A, self.S, self.T1, self.T2, *chain.from_iterable(self.rounds)]
        scalars = [self.t, self.tau, self.mu, self.a, self.b]
        return b"".join([*map(group.scalar_bytes, scalars), *map(group.point_bytes, points)])

    @classmethod
    def unpacked(cls, group: Group, packed: bytes) -> RangeProof:
        """The proof of these bytes. Raise NotProved unless they are scalars and points of the group."""
        scalar_size, point_size = len(group.scalar_bytes(group.scalar(0))), len(group.point_bytes(group.identity))
        split = 5 * scalar_size
        count, rest = divmod(len(packed) - split, point_size)
        if rest or count < 4 or count % 2:
            raise NotProved(f"A proof cannot have {len(packed)} bytes.")
        numbers = [int.from_bytes(packed[at : at + scalar_size], "big") for at in range(0, split, scalar_size)]
        if max(numbers) >= group.order:
            raise NotProved("A scalar of a proof is not below the order of the group.")
        t, tau, mu, a, b = map(group.scalar, numbers)
        A, S, T1, T2, *halves = points_of(group, packed[split:])
        return cls(A, S, T1, T2, t, tau, mu, list(zip(halves[::2], halves[1::2], strict=True)), a, b)


def points_of(group: Group, packed: bytes) -> list[Point]:
    """The points of these bytes. Raise NotProved unless all are points of the group."""
    size = len(group.point_bytes(group.identity))
    try:
        return [group.point_of(packed[at : at + size]) for at in range(0, len(packed), size)]
    except ValueError:
        raise NotProved("What was sent is not a point of the group.") from None


class Transcript:
    """Everything said so far, and challenges that depend on all of it."""

    def __init__(self, group: Group, *said: bytes) -> None:
        self._group, self._state = group, hashlib.sha512(b"sudare range proof").digest()
        self._hear(said)

    def _hear(self, said: Iterable[bytes]) -> None:
        for part in said:
            self._state = hashlib.sha512(self._state + len(part).to_bytes(8, "big") + part).digest()

    def challenge(self, points: Sequence[Point] = (), scalars: Sequence[Scalar] = ()) -> Scalar:
        """A challenge after these were said; never zero."""
        self._hear(map(self._group.point_bytes, points))
        self._hear(map(self._group.scalar_bytes, scalars))
        self._hear([b"challenge"])
        return self._group.scalar(1 + int.from_bytes(self._state, "big") % (self._group.order - 1))


def committed(group: Group, generators: Generators, numbers: Sequence[int]) -> Committed:
    """A commitment to each number, whatever it is."""
    blindings = [group.random() for _ in numbers]
    commitments = [
        group.combined([generators.G, generators.H], [group.scalar(number % group.order), blinding])
        for number, blinding in zip(numbers, blindings, strict=True)
    ]
    return Committed(list(numbers), blindings, commitments)


def proofs_of(group: Group, generators: Generators, own: Committed, context: bytes) -> list[RangeProof]:
    """Proofs that each number lies in [0, 2^bits). Where one does not, they will not verify."""
    return [
        _proof(
            group,
            generators,
            Committed(own.numbers[part], own.blindings[part], own.commitments[part]),
            _context_of(context, place),
        )
        for place, part in enumerate(_parts(len(own.numbers), generators.together))
    ]


def _parts(numbers: int, together: int) -> list[slice]:
    return [slice(first, min(first + together, numbers)) for first in range(0, numbers, together)]


def _context_of(context: bytes, place: int) -> bytes:
    return place.to_bytes(8, "big") + context


def _padded(count: int) -> int:
    """The next power of two: inner products are halved to the end. Places without a number hold zero under no blinding."""
    return 1 << (count - 1).bit_length()


def _powers(one: Scalar, base: Scalar, count: int) -> list[Scalar]:
    return list(accumulate(repeat(base, count - 1), lambda power, factor: power * factor, initial=one))


def _weights(group: Group, z: Scalar, numbers: int, bits: int) -> list[Scalar]:
    """z^(2+j) · 2^k for bit k of number j."""
    twos = [group.scalar(1 << bit) for bit in range(bits)]
    return [power * two for power in _powers(z * z, z, numbers) for two in twos]


def _bits_of(group: Group, numbers: Sequence[int], bits: int) -> tuple[list[Scalar], list[Scalar]]:
    """The lowest bits of each number, and the same less one: their products are zero for bits alone."""
    zero, one = group.scalar(0), group.scalar(1)
    found = [one if number >> bit & 1 else zero for number in numbers for bit in range(bits)]
    return found, [bit - one for bit in found]


def _inner(one: Sequence[Scalar], other: Sequence[Scalar], zero: Scalar) -> Scalar:
    total = zero
    for left, right in zip(one, other, strict=True):
        total = total + left * right
    return total


def _begun(group: Group, context: bytes, bits: int, commitments: Sequence[Point]) -> Transcript:
    sizes = f"{group.order} {bits} {len(commitments)}".encode()
    return Transcript(group, context, sizes, *map(group.point_bytes, commitments))


def _proof(group: Group, generators: Generators, own: Committed, context: bytes) -> RangeProof:
    zero, one, bits = group.scalar(0), group.scalar(1), generators.bits
    count = _padded(len(own.numbers))
    size = bits * count
    left, right, G, H = generators.left[:size], generators.right[:size], generators.G, generators.H
    numbers = own.numbers + [0] * (count - len(own.numbers))
    a_left, a_right = _bits_of(group, numbers, bits)
    s_left, s_right = ([group.random() for _ in range(size)] for _ in range(2))
    alpha, rho, tau1, tau2 = (group.random() for _ in range(4))
    A = group.combined([H, *left, *right], [alpha, *a_left, *a_right])
    S = group.combined([H, *left, *right], [rho, *s_left, *s_right])
    transcript = _begun(group, context, bits, own.commitments)
    y = transcript.challenge([A, S])
    z = transcript.challenge()

    ys, weights = _powers(one, y, size), _weights(group, z, count, bits)
    l0 = [bit - z for bit in a_left]
    r0 = [power * (bit + z) + weight for power, bit, weight in zip(ys, a_right, weights, strict=True)]
    r1 = [power * blinding for power, blinding in zip(ys, s_right, strict=True)]
    t1 = _inner(l0, r1, zero) + _inner(s_left, r0, zero)
    t2 = _inner(s_left, r1, zero)
    T1, T2 = group.combined([G, H], [t1, tau1]), group.combined([G, H], [t2, tau2])
    x = transcript.challenge([T1, T2])

    l_at = [constant + x * slope for constant, slope in zip(l0, s_left, strict=True)]
    r_at = [constant + x * slope for constant, slope in zip(r0, r1, strict=True)]
    t = _inner(l_at, r_at, zero)
    powers = _powers(z * z, z, len(own.blindings))
    tau = tau2 * x * x + tau1 * x + _inner(powers, own.blindings, zero)
    mu = alpha + rho * x
    w = transcript.challenge(scalars=[t, tau, mu])
    # y^-i on the right: the argument is about generators that are so scaled.
    scaled = _powers(one, group.inverse(y), size)
    rounds, a, b = _inner_product_rounds(group, transcript, (left, right, generators.U), (l_at, r_at), scaled, w)
    return RangeProof(A, S, T1, T2, t, tau, mu, rounds, a, b)


def _inner_product_rounds(
    group: Group,
    transcript: Transcript,
    points: tuple[list[Point], list[Point], Point],
    vectors: tuple[list[Scalar], list[Scalar]],
    scaled: list[Scalar],
    w: Scalar,
) -> tuple[list[tuple[Point, Point]], Scalar, Scalar]:
    """The rounds L, R and what is left of both vectors. Generators are not folded: coefficients are, and multi-exponentiation is cheap."""
    left, right, U = points
    a, b = vectors
    zero, size = group.scalar(0), len(left)
    on_left, on_right = [group.scalar(1)] * size, scaled
    rounds: list[tuple[Point, Point]] = []
    while len(a) > 1:
        half = len(a) // 2
        low = [place for place in range(size) if not place & half]
        high = [place for place in range(size) if place & half]

        def crossed(
            a_half: list[Scalar],
            a_places: list[int],
            b_half: list[Scalar],
            b_places: list[int],
            half: int = half,
            on_left: list[Scalar] = on_left,
            on_right: list[Scalar] = on_right,
        ) -> Point:
            inside = half - 1
            return group.combined(
                [U, *(left[place] for place in a_places), *(right[place] for place in b_places)],
                [
                    w * _inner(a_half, b_half, zero),
                    *(a_half[place & inside] * on_left[place] for place in a_places),
                    *(b_half[place & inside] * on_right[place] for place in b_places),
                ],
            )

        L = crossed(a[:half], high, b[half:], low)
        R = crossed(a[half:], low, b[:half], high)
        rounds.append((L, R))
        u = transcript.challenge([L, R])
        v = group.inverse(u)
        a = [u * first + v * second for first, second in zip(a[:half], a[half:], strict=True)]
        b = [v * first + u * second for first, second in zip(b[:half], b[half:], strict=True)]
        on_left = [(u if place & half else v) * factor for place, factor in enumerate(on_left)]
        on_right = [(v if place & half else u) * factor for place, factor in enumerate(on_right)]
    return rounds, a[0], b[0]


@dataclass(frozen=True)
class Claim:
    """What a member sends: commitments and proofs, under a context that names it and the sum."""

    commitments: list[Point]
    proofs: list[RangeProof]
    context: bytes


def check_ranges(group: Group, generators: Generators, claims: Sequence[Claim]) -> None:
    """Raise NotProved unless every commitment of every claim is to a number in [0, 2^bits). Does not say whose is not."""
    zero, size = group.scalar(0), len(generators.left)
    batch = _Batch(zero, zero, zero, [zero] * size, [zero] * size, [], [])
    for claim in claims:
        parts = _parts(len(claim.commitments), generators.together)
        if len(parts) != len(claim.proofs):
            raise NotProved(f"{len(claim.commitments)} commitments need {len(parts)} proofs.")
        for place, (part, proof) in enumerate(zip(parts, claim.proofs, strict=True)):
            _add_equations(
                group, batch, claim.commitments[part], proof, generators.bits, _context_of(claim.context, place)
            )
    total = group.combined(
        [generators.G, generators.H, generators.U, *generators.left, *generators.right, *batch.points],
        [batch.G, batch.H, batch.U, *batch.left, *batch.right, *batch.scalars],
    )
    if total != group.identity:
        raise NotProved("Some committed number is not proved to be in the range.")


@dataclass
class _Batch:
    """Coefficients of all equations so far, each equation times a secret weight; their sum must be the identity."""

    G: Scalar
    H: Scalar
    U: Scalar
    left: list[Scalar]
    right: list[Scalar]
    points: list[Point]
    scalars: list[Scalar]

    def add(self, points: Sequence[Point], scalars: Sequence[Scalar]) -> None:
        """Points of one proof alone."""
        self.points.extend(points)
        self.scalars.extend(scalars)


def _add_equations(
    group: Group, batch: _Batch, commitments: list[Point], proof: RangeProof, bits: int, context: bytes
) -> None:
    one = group.scalar(1)
    count = _padded(len(commitments))
    size = bits * count
    if 1 << len(proof.rounds) != size:
        raise NotProved(f"A proof for {count} numbers of {bits} bits cannot have {len(proof.rounds)} rounds.")
    transcript = _begun(group, context, bits, commitments)
    y = transcript.challenge([proof.A, proof.S])
    z = transcript.challenge()
    x = transcript.challenge([proof.T1, proof.T2])
    w = transcript.challenge(scalars=[proof.t, proof.tau, proof.mu])
    us = [transcript.challenge(pair) for pair in proof.rounds]
    vs = [group.inverse(u) for u in us]
    first, second = (group.scalar(1 + secrets.randbits(WEIGHT_BITS)) for _ in range(2))

    # t·G + τ·H = Σ z^(2+j)·V_j + δ(y, z)·G + x·T1 + x²·T2
    powers = _powers(z * z, z, count)
    delta = (z - z * z) * sum(_powers(one, y, size)[1:], one) - z * group.scalar((1 << bits) - 1) * sum(
        powers[1:], powers[0]
    )
    batch.G = batch.G + first * (delta - proof.t)
    batch.add(commitments, [first * power for power in powers[: len(commitments)]])
    batch.add([proof.T1, proof.T2], [first * x, first * x * x])

    # A + x·S − z·ΣG_i + Σ(z + y^−i·weight_i)·H_i − μ·H + t·w·U + Σ(u²·L + u^−2·R) = Σ a·s_i·G_i + Σ b·s_i^−1·y^−i·H_i + a·b·w·U
    batch.H = batch.H - first * proof.tau - second * proof.mu
    batch.U = batch.U + second * w * (proof.t - proof.a * proof.b)
    batch.add([proof.A, proof.S], [second, second * x])
    for (L, R), u, v in zip(proof.rounds, us, vs, strict=True):
        batch.add([L, R], [second * u * u, second * v * v])
    s = [one]
    for u, v in zip(us, vs, strict=True):
        s = [factor * side for factor in s for side in (v, u)]
    scaled = _powers(second, group.inverse(y), size)
    shift, a = second * z, second * proof.a
    for place, (factor, opposite, power, weight) in enumerate(
        zip(s, reversed(s), scaled, _weights(group, z, count, bits), strict=True)
    ):
        batch.left[place] = batch.left[place] - shift - a * factor
        batch.right[place] = batch.right[place] + shift + power * (weight - proof.b * opposite)


def check_total(
    group: Group,
    generators: Generators,
    commitments: Sequence[Sequence[Point]],
    totals: Sequence[int],
    blindings: Sequence[Scalar],
) -> None:
    """Raise NotProved unless the members' commitments, added up, open to these totals under these added blindings."""
    if any(len(of_one) != len(totals) for of_one in commitments) or len(totals) != len(blindings):
        raise NotProved("A total has another length than the commitments.")
    zero = group.scalar(0)
    sums = [sum(column[1:], column[0]) for column in zip(*commitments, strict=True)]
    weights = [group.scalar(1 + secrets.randbits(WEIGHT_BITS)) for _ in sums]
    opened = _inner(weights, [group.scalar(total % group.order) for total in totals], zero)
    blinding = _inner(weights, blindings, zero)
    found = group.combined([generators.G, generators.H, *sums], [zero - opened, zero - blinding, *weights])
    if found != group.identity:
        raise NotProved("The total is not that of the committed numbers.")


@dataclass(frozen=True)
class Cost:
    """Processor seconds and bytes for each number of each member. A verifier checks the claims of all `members` in one batch."""

    numbers: int
    bits: int
    members: int
    commit_seconds: float
    prove_seconds: float
    # The part of proving that is multi-exponentiation, in the library.
    library_share: float
    verify_alone_seconds: float
    verify_seconds: float
    total_seconds: float
    bytes: float

"""Range proofs in the group G1 of BLS12-381, by arkworks: seconds and bytes. Runs in the peers' environment.

    python -m benchmarks.arkworks_peer '{"numbers": [10, 100], "bits": 16, "members": 10}'

A line of JSON for each number of numbers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import cycle, islice
from typing import TypeVar

from py_arkworks_bls12381 import G1Point, Scalar

from benchmarks import range_proofs as rp

ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
DOMAIN = b"SUDARE-BENCHMARK-BLS12381G1_XMD:SHA-256_SSWU_RO_"
# How many members really prove.
PROVERS = 2

Result = TypeVar("Result")
Message = tuple[bytes, list[bytes], bytes]

# Processor seconds in multi-exponentiation so far.
_in_library = [0.0]


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Processor seconds, and what was returned."""
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def combined(points: list[rp.Point], scalars: list[rp.Scalar]) -> rp.Point:
    """Multi-exponentiation, timed."""
    seconds, point = timed(lambda: G1Point.multiexp_unchecked(points, scalars))
    _in_library[0] += seconds
    return point


def point_of(packed: bytes) -> rp.Point:
    """The point of these bytes. Raise ValueError unless it is in the subgroup of prime order, in its one spelling."""
    point = G1Point.from_compressed_bytes(packed)
    # The library takes any bytes behind the mark of the identity.
    if point == IDENTITY and packed != bytes(IDENTITY.to_compressed_bytes()):
        raise ValueError("The identity has another spelling.")
    return point


IDENTITY = G1Point.identity()
GROUP = rp.Group(
    order=ORDER,
    scalar=lambda number: Scalar.from_le_bytes(number.to_bytes(32, "little")),
    inverse=Scalar.inverse,
    scalar_bytes=lambda scalar: bytes(scalar.to_be_bytes()),
    hashed=lambda name: G1Point.hash_to_curve(name, DOMAIN),
    combined=combined,
    identity=IDENTITY,
    point_bytes=lambda point: bytes(point.to_compressed_bytes()),
    point_of=point_of,
)


def sent(own: rp.Committed, proofs: list[rp.RangeProof], context: bytes) -> Message:
    """A claim as bytes."""
    return b"".join(map(GROUP.point_bytes, own.commitments)), [one.packed(GROUP) for one in proofs], context


def received(message: Message) -> rp.Claim:
    """A claim out of bytes, with every point and scalar checked."""
    commitments, proofs, context = message
    return rp.Claim(rp.points_of(GROUP, commitments), [rp.RangeProof.unpacked(GROUP, one) for one in proofs], context)


def cost(numbers: int, bits: int, members: int) -> rp.Cost:
    """What so many numbers cost a member that proves, and a member that checks so many members."""
    generators = rp.Generators.hashed(GROUP, bits)
    vectors = [[(7919 * place + member) % (1 << bits) for place in range(numbers)] for member in range(PROVERS)]
    commit_seconds, first = timed(lambda: rp.committed(GROUP, generators, vectors[0]))
    before = _in_library[0]
    prove_seconds, proofs = timed(lambda: rp.proofs_of(GROUP, generators, first, b"0"))
    in_library = _in_library[0] - before
    owns, messages = [first], [sent(first, proofs, b"0")]
    for member, vector in enumerate(vectors[1:], 1):
        own, context = rp.committed(GROUP, generators, vector), b"%d" % member
        owns.append(own)
        messages.append(sent(own, rp.proofs_of(GROUP, generators, own, context), context))
    # A claim that is there twice is checked twice, so that a few provers stand for all members.
    owns, messages = (list(islice(cycle(some), members)) for some in (owns, messages))

    def verified(chosen: list[Message]) -> list[rp.Claim]:
        claims = [received(message) for message in chosen]
        rp.check_ranges(GROUP, generators, claims)
        return claims

    verify_alone_seconds, _ = timed(lambda: verified(messages[:1]))
    verify_seconds, claims = timed(lambda: verified(messages))
    totals = [sum(column) for column in zip(*(own.numbers for own in owns), strict=True)]
    blindings = [sum(column[1:], column[0]) for column in zip(*(own.blindings for own in owns), strict=True)]
    commitments = [claim.commitments for claim in claims]
    total_seconds, _ = timed(lambda: rp.check_total(GROUP, generators, commitments, totals, blindings))
    commitments_sent, proofs_sent, _ = messages[0]
    return rp.Cost(
        numbers,
        bits,
        members,
        commit_seconds / numbers,
        prove_seconds / numbers,
        in_library / prove_seconds,
        verify_alone_seconds / numbers,
        verify_seconds / (numbers * members),
        total_seconds / (numbers * members),
        (len(commitments_sent) + sum(map(len, proofs_sent))) / numbers,
    )


def check_refusals() -> None:
    """Raise RuntimeError if a number out of the range, a changed proof or a wrong total passes: then nothing is worth timing."""
    generators = rp.Generators.hashed(GROUP, 4, 2)
    right, wrong = (rp.committed(GROUP, generators, numbers) for numbers in ([15, 0], [16, 0]))
    claim, false_claim = (
        rp.Claim(own.commitments, rp.proofs_of(GROUP, generators, own, b""), b"") for own in (right, wrong)
    )
    changed = replace(claim, proofs=[replace(claim.proofs[0], a=claim.proofs[0].b)])
    commitments = [right.commitments]
    rp.check_ranges(GROUP, generators, [claim])
    rp.check_total(GROUP, generators, commitments, right.numbers, right.blindings)
    for check in (
        lambda: rp.check_ranges(GROUP, generators, [claim, false_claim]),
        lambda: rp.check_ranges(GROUP, generators, [changed]),
        lambda: rp.check_total(GROUP, generators, commitments, wrong.numbers, right.blindings),
    ):
        try:
            check()
        except rp.NotProved:
            continue
        raise RuntimeError("What is false was taken for proved.")


if __name__ == "__main__":
    check_refusals()
    asked = json.loads(sys.argv[1])
    for numbers in asked["numbers"]:
        print(json.dumps(asdict(cost(numbers, asked["bits"], asked["members"]))), flush=True)

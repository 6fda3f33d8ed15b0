"""Signed statements of members about a sum. A signer makes at most one of each kind in a sum: two that differ prove a lie."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sudare.sums.context import Participant
from sudare.sums.neighbour_graph import FAILURE_BITS
from sudare.sums.pseudorandom_streams import permutation

Kind = Literal["keys", "dealers", "included", "vote", "shares", "total", "heard"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SIGNATURE_BYTES: Final = 64
# What a collector says as such. It signs nothing else unless it is a member too.
COLLECTED_KINDS: Final[tuple[Kind, ...]] = ("included", "total")
_PURPOSE: Final = b"sudare statement on a sum\x00"


@dataclass(frozen=True)
class Statement:
    """What one member said, by its position, about the sum whose context has this digest."""

    kind: str
    signer: int
    context: bytes
    content: bytes
    signature: bytes

    @cached_property
    def text(self) -> bytes:
        """The bytes that are signed."""
        return _text(self.kind, self.context, self.signer, hashlib.sha256(self.content).digest())

    @property
    def digest(self) -> str:
        """SHA-256 of it, signature included, so that whoever sees the digest cannot try out what was signed."""
        return hashlib.sha256(self.text + self.signature).hexdigest()

    def is_signed_by(self, signing_key: bytes) -> bool:
        """Whether the owner of this Ed25519 key signed it."""
        return _is_signed(signing_key, self.signature, self.text)


def stated(me: Participant, kind: Kind, content: bytes) -> Statement:
    """A statement of this participant."""
    text = _text(kind, me.context.digest, me.position, hashlib.sha256(content).digest())
    signature = me.keys.signature(text)
    _remember(me.keys.public.signing, signature, text)
    return Statement(kind, me.position, me.context.digest, content, signature)


def holds(me: Participant, statement: Statement, kind: Kind, signer: int) -> bool:
    """Whether this is a statement of that kind by that member about the sum of this participant; of a relay only what collectors say."""
    context = me.context
    return (
        statement.signer == signer
        and statement.kind == kind
        and statement.context == context.digest
        and (signer < len(me.publics) or kind in COLLECTED_KINDS)
        and _is_signed(context.publics[signer].signing, statement.signature, statement.text)
    )


def quorum_holds(me: Participant, kind: Kind, content: bytes, signers: frozenset[int], signatures: bytes) -> bool:
    """Whether t or more members are named, and a quorum of them has signed that content: then no other content has a quorum.

    Where everyone is a neighbour all signatures are verified. On a sparse graph, whose other statements fail with probability 2^−40 as well, so many are drawn
    with this member's secret after they have come that fewer than a quorum of valid ones pass with probability at most 2^−40 / S.
    """
    context, named = me.context, len(signers)
    if named < context.threshold or len(signatures) != SIGNATURE_BYTES * named:
        return False
    drawn = signatures_drawn(named, context.quorum, len(me.publics)) if context.is_sparse else named
    if drawn == named:
        return all_hold(me, kind, content, signers, signatures)
    seed = me.keys.own_seed(b"sample of signatures", context.digest + hashlib.sha256(signatures).digest())
    ordered = sorted(signers)
    chosen = sorted(permutation(seed, named)[:drawn])
    parts = (signatures[SIGNATURE_BYTES * place : SIGNATURE_BYTES * (place + 1)] for place in chosen)
    return all_hold(me, kind, content, frozenset(ordered[place] for place in chosen), b"".join(parts))


def signatures_drawn(named: int, quorum: int, members: int) -> int:
    """How many of the signatures to verify, so that all of them are valid with probability at most 2^−40 / S if fewer than a quorum of all are.

    Drawn without replacement, m are all among the fewer than q valid ones of n with probability at most ((q − 1)/n)^m.
    """
    if quorum <= 1:
        return min(1, named)
    bits = FAILURE_BITS + math.log2(members)
    return min(named, math.ceil(bits / math.log2(named / (quorum - 1)))) if named >= quorum else named


def all_hold(me: Participant, kind: Kind, content: bytes, signers: frozenset[int], signatures: bytes) -> bool:
    """Whether these members have signed that content; signatures are one after the other in the order of members."""
    if len(signatures) != SIGNATURE_BYTES * len(signers):
        return False
    context, publics = me.context.digest, me.publics
    digest = hashlib.sha256(content).digest()
    places = range(0, len(signatures), SIGNATURE_BYTES)
    return all(
        _is_signed(
            publics[signer].signing,
            signatures[place : place + SIGNATURE_BYTES],
            _text(kind, context, signer, digest),
        )
        for signer, place in zip(sorted(signers), places, strict=True)
    )


def _text(kind: str, context: bytes, signer: int, content_digest: bytes) -> bytes:
    return b"".join((_PURPOSE, kind.encode(), b"\x00", context, signer.to_bytes(4, "big"), content_digest))


# Signatures that are known to be right, by key and text. A statement reaches a process by several ways, and all members where they are simulated in one.
_known: dict[tuple[bytes, bytes, bytes], None] = {}
_MOST_KNOWN: Final = 1 << 15


def _is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    if (key, signature, text) in _known:
        return True
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    _remember(key, signature, text)
    return True


def _remember(key: bytes, signature: bytes, text: bytes) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[key, signature, text] = None


def forget_verified() -> None:
    """Forget which signatures are right, so that the next verification is measured as it is."""
    _known.clear()

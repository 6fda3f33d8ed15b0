"""Pairwise masks that cancel in the sum, self-masks that do not, and the shares that repair a sum when members leave.

For every sum each pair of members has a seed from its X25519 secret; the lower member adds the seed's words, the higher one
subtracts them. Where members may leave, each also adds a self-mask. Its seed, and the key of a box with its pairwise
seeds, are shared among all with threshold t. After agreement on who is in the sum, the others open the self-masks of
those who are, or the boxes of those who are not: never both of one member (Bonawitz et al. 2017).

Promise: t − 1 semi-honest colluders learn the sum of the others and nothing else. Proof: proofs/secure_sums.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.shamir import SEED_LIMBS, secrets_from, seed_from_limbs, seed_limbs, shares_of
from sudare.sums.streams import SEED_BYTES, derived, stretched

Words = NDArray[np.uint64]

# Every key below encrypts one message only, so that a fixed nonce is never used twice.
_NONCE: Final = bytes(12)


@dataclass(frozen=True)
class SumContext:
    """Which sum this is. Every mask depends on all of it: another task, iteration, attempt or set of members has other masks.

    Members are named in the order of the agreement, which has `consortium` members in all (these, if not said). With threshold t,
    S − t of these may leave; t = S means that nobody may, and needs no self-masks, shares or votes.
    """

    agreement: str
    task: str
    iteration: int
    attempt: int
    members: tuple[str, ...]
    threshold: int
    consortium: int | None = None

    def __post_init__(self) -> None:
        count = len(self.members)
        if count != len(set(self.members)) or count < 1:
            raise InvalidParameter("The members of a sum are not all different.", "Name each member once.")
        everyone = count if self.consortium is None else self.consortium
        # Any two groups of t among everyone share a member, and nobody votes twice: also over several attempts.
        if not 2 * self.threshold > everyone >= count >= self.threshold:
            raise InvalidParameter(
                f"A threshold of {self.threshold} does not fit a sum over {count} of {everyone} members: two groups could open two totals.",
                f"Use a threshold from {everyone // 2 + 1} to {count}.",
            )

    @property
    def repairable(self) -> bool:
        """Whether members may leave."""
        return self.threshold < len(self.members)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything above."""
        values = [
            self.agreement,
            self.task,
            self.iteration,
            self.attempt,
            list(self.members),
            self.threshold,
            self.consortium,
        ]
        return _digest("sum", values)

    @cached_property
    def input_digest(self) -> bytes:
        """SHA-256 of what names the input: one vector, whatever the attempt."""
        return _digest("input", [self.agreement, self.task, self.iteration])


def _digest(kind: str, values: list[object]) -> bytes:
    return hashlib.sha256(json.dumps([kind, *values], separators=(",", ":")).encode()).digest()


@dataclass(frozen=True)
class Seat:
    """One member's seat in a sum: who it is among the members, its keys, and the others' public keys."""

    context: SumContext
    position: int
    keys: MemberKeys
    publics: tuple[PublicKeys, ...]

    def __post_init__(self) -> None:
        if len(self.publics) != len(self.context.members) or self.publics[self.position] != self.keys.public:
            raise InvalidParameter("Public keys do not match the members.", "Give one for each member, in their order.")

    def pair_seed(self, other: int) -> bytes:
        """The seed of the mask between this member and another, for this sum only."""
        return derived(self.keys.secret_with(self.publics[other]), b"pairwise mask", self.context.digest)

    def self_seed(self) -> bytes:
        """The seed of this member's self-mask."""
        return self.keys.own_seed(b"self-mask", self.context.digest)

    def box_key(self) -> bytes:
        """The key of the box that holds this member's pairwise seeds."""
        return self.keys.own_seed(b"box of pairwise seeds", self.context.digest)

    def channel_key(self, sender: int, receiver: int) -> bytes:
        """The key under which one member sends its shares to another."""
        other = receiver if sender == self.position else sender
        direction = self.context.digest + sender.to_bytes(4, "big") + receiver.to_bytes(4, "big")
        return derived(self.keys.secret_with(self.publics[other]), b"shares", direction)


def masked(seat: Seat, words: Words) -> Words:
    """What may leave: the words under all pairwise masks and, where members may leave, the self-mask."""
    hidden = words.copy()
    room = np.empty(len(words) + 2, dtype="<u8")
    for other in range(len(seat.publics)):
        if other != seat.position:
            apply_pair_mask(hidden, seat.position, other, seat.pair_seed(other), room)
    if seat.context.repairable:
        hidden += stretched(seat.self_seed(), len(words), room)
    return hidden


def apply_pair_mask(hidden: Words, member: int, other: int, seed: bytes, room: Words | None = None) -> None:
    """Add member's side of a pairwise mask in place: plus for the lower of the two, minus for the higher."""
    mask = stretched(seed, len(hidden), room)
    (np.add if member < other else np.subtract)(hidden, mask, out=hidden)


# Shares, dealt before masked values leave


@dataclass(frozen=True)
class Dealing:
    """What one member gives to another: the box with its pairwise seeds, and encrypted shares of box key and self-seed."""

    box: bytes
    shares: bytes


@dataclass(frozen=True)
class HeldShares:
    """What a member keeps of another's dealing: a share of the self-seed and of the box key, at most one of which it ever gives out."""

    box: bytes
    of_self_seed: Words
    of_box_key: Words


def dealings(seat: Seat) -> tuple[HeldShares, dict[int, Dealing]]:
    """This member's own shares and what it deals to each other member: a function of its keys, so a restart deals the same."""
    count = len(seat.publics)
    seeds = b"".join(bytes(SEED_BYTES) if other == seat.position else seat.pair_seed(other) for other in range(count))
    box = AESGCM(seat.box_key()).encrypt(_NONCE, seeds, seat.context.digest)
    secrets = np.concatenate([seed_limbs(seat.self_seed()), seed_limbs(seat.box_key())])
    polynomial = seat.keys.own_seed(b"sharing polynomial", seat.context.digest)
    shares = shares_of(secrets, seat.context.threshold, count, polynomial).astype("<u8")
    dealt = {}
    for other in range(count):
        if other != seat.position:
            key = seat.channel_key(seat.position, other)
            dealt[other] = Dealing(box, AESGCM(key).encrypt(_NONCE, shares[other].tobytes(), seat.context.digest))
    return _held(box, shares[seat.position]), dealt


def opened_dealing(seat: Seat, sender: int, dealing: Dealing) -> HeldShares:
    """The shares that another member dealt to this one."""
    key = seat.channel_key(sender, seat.position)
    content = _decrypted(key, dealing.shares, seat.context.digest)
    if len(content) != 2 * SEED_LIMBS * 8:
        raise MessageMalformed("A dealing does not hold two shares.", "The sender's version differs, or it is damaged.")
    return _held(dealing.box, np.frombuffer(content, dtype="<u8"))


def _held(box: bytes, shares: Words) -> HeldShares:
    return HeldShares(box, shares[:SEED_LIMBS].copy(), shares[SEED_LIMBS:].copy())


def _decrypted(key: bytes, sealed: bytes, context: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(_NONCE, sealed, context)
    except InvalidTag:
        raise MessageMalformed(
            "A dealing or box does not open with its key.", "It is damaged, of another sum, or forged."
        ) from None


def repaired_seed(shares: Mapping[int, Words], threshold: int) -> bytes:
    """The seed or key behind at least t shares."""
    return seed_from_limbs(secrets_from(shares, threshold))


def boxed_seeds(box: bytes, key: bytes, context: SumContext) -> list[bytes]:
    """The pairwise seeds in a box, by member; the owner's own place holds zeros."""
    seeds = _decrypted(key, box, context.digest)
    if len(seeds) != SEED_BYTES * len(context.members):
        raise MessageMalformed("A box holds not one seed for each member.", "The sender's version differs.")
    return [seeds[at : at + SEED_BYTES] for at in range(0, len(seeds), SEED_BYTES)]


def unmasked(
    masked_total: Words,
    included: Sequence[int],
    self_seeds: Mapping[int, bytes],
    pair_seeds: Mapping[int, Sequence[bytes]],
) -> Words:
    """The total over the included members: self-masks taken off, and their masks with each member that is not included."""
    total = masked_total.copy()
    room = np.empty(len(total) + 2, dtype="<u8")
    for member in included:
        total -= stretched(self_seeds[member], len(total), room)
    for left_out, seeds in pair_seeds.items():
        for member in included:
            # What the left-out member would have added undoes the included member's side.
            apply_pair_mask(total, left_out, member, seeds[member], room)
    return total


# Votes on who is in the sum


@dataclass(frozen=True)
class Vote:
    """A member's signed word that it holds the masked total over these members and no other."""

    included: frozenset[int]
    signature: bytes


def vote(seat: Seat, included: frozenset[int]) -> Vote:
    """This member's vote."""
    return Vote(included, seat.keys.signature(_vote_text(seat.context, included)))


def vote_holds(seat: Seat, member: int, cast: Vote) -> bool:
    """Whether the vote is that member's, for this sum."""
    return seat.publics[member].verifies(cast.signature, _vote_text(seat.context, cast.included))


def _vote_text(context: SumContext, included: frozenset[int]) -> bytes:
    bitmap = sum(1 << member for member in included).to_bytes(len(context.members) // 8 + 1, "little")
    return b"sudare vote\x00" + context.digest + bitmap

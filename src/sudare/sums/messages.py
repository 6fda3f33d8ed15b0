"""What members of a sum and its collector say to each other: plain frozen data, with a form as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.errors import MessageMalformed
from sudare.sums.canonical_encoding import MOST_VALUES, packed, unpacked_as
from sudare.sums.context import SumContext
from sudare.sums.masks import MaskKey, commitment
from sudare.sums.shamir import PRIME, SEED_LIMBS
from sudare.sums.statements import Statement

Words = NDArray[np.uint64]
Members = frozenset[int]

_KEY_BYTES: Final = 32
# Of `heard_content`: two digests.
HEARD_BYTES: Final = 64


# To the collector


@dataclass(frozen=True)
class Advertised:
    """A statement "keys": see `SumKeys`. `votes_for` is the bitmap of the only members that the sender can vote for, empty if it has not voted yet.

    It is not signed: a collector that does as if it were another can do no more than include whom it likes.
    """

    keys: Statement
    votes_for: bytes = b""


@dataclass(frozen=True)
class Dealt:
    """A box with shares of the sender's secrets for each of its neighbours."""

    boxes: Mapping[int, bytes]


@dataclass(frozen=True)
class Masked:
    """The sender's vector under its masks, and its statement "dealers": the bitmap of those it was told have dealt."""

    words: Words
    dealers: Statement


@dataclass(frozen=True)
class Voted:
    """A statement "vote": see `vote_content`."""

    vote: Statement


@dataclass(frozen=True)
class Revealed:
    """A statement "shares": see `OpenedShares`."""

    shares: Statement


@dataclass(frozen=True)
class Affirmed:
    """The sender's statement "heard", for all to see where not everyone is a neighbour."""

    heard: Statement


@dataclass(frozen=True)
class Withdrawn:
    """The sender takes no further part in this attempt."""


# To a member


@dataclass(frozen=True)
class Directory:
    """Who is there, as a bitmap, and the statements "keys" of the receiver's neighbours."""

    present: bytes
    keys: Mapping[int, Statement]


@dataclass(frozen=True)
class Delivered:
    """Who has dealt shares, as a bitmap, and the boxes for the receiver by their senders."""

    dealers: bytes
    boxes: Mapping[int, bytes]


@dataclass(frozen=True)
class Included:
    """The collector's statement "included": the bitmap of those whose masked vectors it has added."""

    included: Statement


@dataclass(frozen=True)
class Certified:
    """Votes for that set: who cast them, as a bitmap, and their signatures in the order of members.

    `dealers` are the signatures under statements "dealers" of those in the set whose shares the receiver holds.
    """

    voters: bytes
    signatures: bytes
    dealers: Mapping[int, bytes]


@dataclass(frozen=True)
class Opened:
    """The total, and the collector's statement "total" about it: see `heard_content`."""

    words: Words
    total: Statement


@dataclass(frozen=True)
class Confirmed:
    """Statements "heard" about that total: whose they are, as a bitmap, and their signatures in the order of members."""

    hearers: bytes
    signatures: bytes


@dataclass(frozen=True)
class Passed:
    """A parcel of the dissemination, where there is no collector."""

    round: int
    window: Words | None
    partial: Words | None

    @property
    def values(self) -> int:
        """How many vectors it holds."""
        return (self.window is not None) + (self.partial is not None)


@dataclass(frozen=True)
class Heard:
    """The sender's statement "heard" about the total that it holds, and the collector's statement "total" where there is one."""

    heard: Statement
    total: Statement | None


@dataclass(frozen=True)
class GivenUp:
    """The collector, or where there is none the sender, gives this attempt up."""


ToCollector = Advertised | Dealt | Masked | Voted | Revealed | Affirmed | Withdrawn
ToMember = Directory | Delivered | Included | Certified | Opened | Confirmed | Passed | Heard | GivenUp
Body = ToCollector | ToMember


# What statements say


@dataclass(frozen=True)
class SumKeys:
    """What one member publishes for one sum: the public key for its masks, the commitment to its self-seed, and its choice of neighbours.

    Where everyone is a neighbour, nobody is named.
    """

    mask_key: bytes
    commitment: bytes
    neighbours: tuple[int, ...]

    def to_bytes(self) -> bytes:
        """The content of the statement."""
        return self.mask_key + self.commitment + np.array(self.neighbours, dtype="<u4").tobytes()

    def is_self_seed(self, context: SumContext, seed: bytes) -> bool:
        """Whether this is the self-seed that was committed to."""
        return commitment(context, seed) == self.commitment

    def is_mask_secret(self, secret: bytes) -> bool:
        """Whether this is the private key to the public one for masks."""
        return MaskKey.of(secret).public == self.mask_key

    @classmethod
    def from_bytes(cls, content: bytes, context: SumContext, owner: int) -> SumKeys:
        """What the statement of a member says. Raise MessageMalformed unless its choice of neighbours is one."""
        count = context.neighbourhood.degree if context.neighbourhood is not None and context.is_sparse else 0
        if len(content) != 2 * _KEY_BYTES + 4 * count:
            raise MessageMalformed("Keys for a sum have another size.", "The sender's version differs.")
        chosen = np.frombuffer(content[2 * _KEY_BYTES :], dtype="<u4").tolist()
        ascending = chosen == sorted(set(chosen))
        if not ascending or owner in chosen or (chosen and chosen[-1] >= len(context.roster)):
            raise MessageMalformed("A choice of neighbours is none.", "The sender's version differs.")
        return cls(content[:_KEY_BYTES], content[_KEY_BYTES : 2 * _KEY_BYTES], tuple(chosen))


def vote_content(context: SumContext, dealers: Members, included: Members) -> bytes:
    """A vote on one input: digests of who has dealt and of who is in the sum."""
    return context.input_digest + context.set_digest(dealers) + context.set_digest(included)


def heard_content(context: SumContext, included: Members, words: Words) -> bytes:
    """Which total over whom: a digest of the members and one of the words."""
    return context.set_digest(included) + total_digest(words)


def total_digest(words: Words) -> bytes:
    """SHA-256 of a total."""
    return hashlib.sha256(np.ascontiguousarray(words, dtype="<u8").data).digest()


def history_after(history: bytes, context: SumContext, included: Members, words: Words) -> bytes:
    """The digest of all totals heard so far, with one more."""
    heard = context.iteration.to_bytes(8, "big") + heard_content(context, included, words)
    return hashlib.sha256(b"sudare history\x00" + history + heard).digest()


@dataclass(frozen=True)
class OpenedShares:
    """What a member gives out after the vote: of each owner the share of its self-seed, or of its key for masks."""

    of_self_seeds: Mapping[int, Words]
    of_mask_keys: Mapping[int, Words]

    def to_bytes(self) -> bytes:
        """The content of the statement: how many self-seeds, the owners of both, ascending, and their shares in this order."""
        parts = [np.array([len(self.of_self_seeds)], dtype="<u4").tobytes()]
        both = [sorted(each.items()) for each in (self.of_self_seeds, self.of_mask_keys)]
        parts += [np.array([owner for owner, _ in each], dtype="<u4").tobytes() for each in both]
        parts += [share.astype("<u8", copy=False).tobytes() for each in both for _, share in each]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> OpenedShares:
        """What the statement says. Raise MessageMalformed unless all are shares."""
        count, left_over = divmod(len(content) - 4, 4 + 8 * SEED_LIMBS)
        if count < 0 or left_over:
            raise MessageMalformed("A message of shares has another size.", "The sender's version differs.")
        of_self_seeds, *owners = np.frombuffer(content, dtype="<u4", count=1 + count).tolist()
        shares = np.frombuffer(content[4 + 4 * count :], dtype="<u8").reshape(count, SEED_LIMBS)
        first, second = owners[:of_self_seeds], owners[of_self_seeds:]
        if len(first) != of_self_seeds or first != sorted(set(first)) or second != sorted(set(second)):
            raise MessageMalformed("The owners of shares are not in their order.", "The sender's version differs.")
        if (shares >= np.uint64(PRIME)).any():
            raise MessageMalformed("A message holds a share that is none.", "The sender's version differs.")
        return cls(
            dict(zip(first, shares[:of_self_seeds], strict=True)),
            dict(zip(second, shares[of_self_seeds:], strict=True)),
        )


@dataclass(frozen=True)
class Message:
    """From one member to another, by their positions."""

    sender: int
    receiver: int
    body: Body

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Message:
        """The message of these bytes. Raise MessageMalformed unless they are one, of a size that a sum of members makes."""
        return unpacked_as(cls, content, *MESSAGE_CLASSES, most_values=MOST_VALUES)


def most_message_bytes(length: int, members: int) -> int:
    """No message of a sum of so many members over vectors of this length is larger."""
    # Two vectors, or of each member keys with a choice of neighbours, a box, two shares and a signature.
    return (1 << 12) + 2 * 8 * length + members * (1 << 10) + 4 * members**2


MESSAGE_CLASSES: Final = (Message, Statement, *get_args(Body))

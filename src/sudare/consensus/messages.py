"""What members of a masked sum say to each other and what each remembers: plain frozen data, with a form as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.consensus.sharing.masks import Dealing, HeldShares, Vote
from sudare.errors import MessageMalformed
from sudare.sums import dissemination
from sudare.sums.wire import MOST_VALUES, packed, unpacked

Words = NDArray[np.uint64]
Members = frozenset[int]
Reason = Literal["missing", "second total", "left out"]


@dataclass(frozen=True)
class Dealt:
    """Shares for the repair of a sum, from one member to another."""

    dealing: Dealing


@dataclass(frozen=True)
class Ready:
    """The sender holds everyone's shares."""


@dataclass(frozen=True)
class Passed:
    """A parcel of the dissemination that began after these members had left."""

    left: Members
    round: int
    window: Words | None
    partial: Words | None

    @property
    def values(self) -> int:
        """How many vectors it holds."""
        return (self.window is not None) + (self.partial is not None)


@dataclass(frozen=True)
class Voted:
    """A signed vote on who is in the sum."""

    vote: Vote


@dataclass(frozen=True)
class Revealed:
    """What opens the total over `included`: the sender's self-seed, its shares of those that left, boxes of those left out."""

    included: Members
    self_seed: bytes | None
    shares: Mapping[int, Words]
    boxes: Mapping[int, bytes]


@dataclass(frozen=True)
class Facts:
    """What everybody may know once somebody does: votes, and what was revealed after them. Only ever grows."""

    votes: Mapping[int, Vote] = field(default_factory=dict)
    self_seeds: Mapping[int, bytes] = field(default_factory=dict)
    shares: Mapping[int, Mapping[int, Words]] = field(default_factory=dict)
    boxes: Mapping[int, bytes] = field(default_factory=dict)

    def with_revealed(self, sender: int, revealed: Revealed) -> Facts:
        """With what a member revealed."""
        seeds = self.self_seeds if revealed.self_seed is None else {**self.self_seeds, sender: revealed.self_seed}
        shares = dict(self.shares)
        for member, share in revealed.shares.items():
            shares[member] = {**shares.get(member, {}), sender: share}
        return replace(self, self_seeds=seeds, shares=shares, boxes={**self.boxes, **revealed.boxes})

    def joined(self, other: Facts) -> Facts:
        """Both together; votes are joined elsewhere, because they must be verified."""
        shares = dict(self.shares)
        for member, held in other.shares.items():
            shares[member] = {**held, **shares.get(member, {})}
        seeds, boxes = {**other.self_seeds, **self.self_seeds}, {**other.boxes, **self.boxes}
        return replace(self, self_seeds=seeds, shares=shares, boxes=boxes)


@dataclass(frozen=True)
class Report:
    """Where the sender stands after these members left: which combinations of masked values it holds, and what it knows."""

    left: Members
    rows: Words
    complete: Members | None
    dealers: Members
    facts: Facts


@dataclass(frozen=True)
class Given:
    """The masked total, from one who has it to one who lacks it."""

    left: Members
    included: Members
    total: Words


@dataclass(frozen=True)
class Stopped:
    """The sum cannot be finished."""

    reason: str


Body = Dealt | Ready | Passed | Voted | Revealed | Report | Given | Stopped


def members_named(body: Body) -> frozenset[int]:
    """Every position that a body speaks of, to be checked before it is used."""
    if isinstance(body, Passed):
        return body.left
    if isinstance(body, Given):
        return body.left | body.included
    if isinstance(body, Voted):
        return body.vote.included
    if isinstance(body, Revealed):
        return body.included.union(body.shares, body.boxes)
    if isinstance(body, Report):
        facts = body.facts
        in_votes = (cast.included for cast in facts.votes.values())
        known = frozenset[int]().union(facts.votes, *in_votes, facts.self_seeds, facts.shares, *facts.shares.values())
        return known | body.left | body.dealers | (body.complete or frozenset()) | frozenset(facts.boxes)
    return frozenset()


def most_message_bytes(length: int, members: int) -> int:
    """No message of a sum of so many members over vectors of this length is larger."""
    # Two vectors, or a report: rows over the members, a vote of each, shares of each about each, and a box of each.
    return (1 << 16) + 2 * 8 * length + members * (1 << 12) + members**2 * (1 << 10)


def vectors_in(body: Body) -> list[Words]:
    """The vectors that a body holds."""
    if isinstance(body, Passed):
        return [vector for vector in (body.window, body.partial) if vector is not None]
    return [body.total] if isinstance(body, Given) else []


def shares_in(body: Body) -> list[Words]:
    """The shares that a body holds."""
    if isinstance(body, Revealed):
        return list(body.shares.values())
    if isinstance(body, Report):
        return [share for held in body.facts.shares.values() for share in held.values()]
    return []


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
        found = unpacked(content, *_MESSAGE_CLASSES, most_values=MOST_VALUES)
        if not isinstance(found, cls):
            raise MessageMalformed("These bytes are not a message.", "Ask for them again; nothing was used.")
        return found


@dataclass(frozen=True)
class Missing:
    """News from the member's own surroundings: that member has left, as far as anyone can tell."""

    member: int


Event = Message | Missing


@dataclass(frozen=True)
class InputRecord:
    """What a member remembers of an input for ever: which data it was, and the one set of members it may be summed over."""

    input_digest: bytes
    data_tag: bytes
    settled: tuple[str, ...] | None


@dataclass(frozen=True)
class Relay:
    """A dissemination under way: who takes part, whose masked values it adds, and what each participant's value is made of.

    `rows` is None in the first one, where everybody adds its own masked value.
    """

    participants: tuple[int, ...]
    included: Members
    rows: Words | None
    place: dissemination.State
    came: tuple[dissemination.Parcel, ...]
    waiting: Mapping[int, dissemination.Parcel]


@dataclass(frozen=True)
class SumState:
    """All that a member of a masked sum remembers. Saved before anything is sent, it lets a restart send the same bytes again.

    Where members may leave, `values` are the combinations of masked values that it holds, by `rows`; its own comes first.
    """

    context_digest: bytes
    record: InputRecord
    length: int
    left: Members = frozenset()
    shares: Mapping[int, HeldShares] = field(default_factory=dict)
    ready: Members = frozenset()
    rows: tuple[Words, ...] = ()
    values: tuple[Words, ...] = ()
    relay: Relay | None = None
    decided: bool = False
    reports: Mapping[int, Report] = field(default_factory=dict)
    early: tuple[Message, ...] = ()
    included: Members | None = None
    masked_total: Words | None = None
    facts: Facts = field(default_factory=Facts)
    revealed: Members = frozenset()
    total: Words | None = None
    stopped: str | None = None
    sent: tuple[Message, ...] = ()

    def changed(self, **fields: Any) -> SumState:
        """A copy with other values in some fields, as by dataclasses.replace but several times faster."""
        copied = object.__new__(SumState)
        copied.__dict__.update(self.__dict__, **fields)
        return copied

    def to_bytes(self) -> bytes:
        """The canonical form. It holds secrets of this sum: keep it like a key."""
        return packed(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> SumState:
        """The state of these bytes."""
        found = unpacked(content, *_STATE_CLASSES)
        if not isinstance(found, cls):
            raise MessageMalformed("These bytes are not a saved sum.", "Restore the file that this member saved.")
        return found


_MESSAGE_CLASSES: Final = (
    *(Message, Dealt, Dealing, Ready, Passed, Voted, Vote, Revealed, Report, Facts, Given, Stopped),
)
_STATE_CLASSES: Final = (
    *_MESSAGE_CLASSES,
    *(SumState, InputRecord, Relay, HeldShares, dissemination.State, dissemination.Parcel),
)

"""Which sum this is, and who one member is in it: everything that masks, shares, boxes and signatures depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, Literal, get_args

import numpy as np

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums.keys import MemberKeys, PublicKeys, exchange_point, is_of_small_order, is_signed_for_by_anybody
from sudare.sums.neighbour_graph import Neighbourhood, chosen_neighbours, most_separated, sum_neighbourhood

NO_HISTORY: Final = bytes(32)
RELAY_NAME: Final = "relay"
Collector = Literal["member", "relay"]
COLLECTORS: Final[tuple[Collector, ...]] = get_args(Collector)


@dataclass(frozen=True)
class Roster:
    """All members of a consortium, in the order of the agreement, with their public keys.

    Raise InvalidParameter if two members have one name or one key, or a key is of small order: who shows another's as its own could make masks cancel,
    and whoever has a key for votes by which anybody can sign could say of every lie that somebody else signed it.
    """

    members: tuple[str, ...]
    publics: tuple[PublicKeys, ...]

    def __post_init__(self) -> None:
        if len(self.members) != len(set(self.members)) or not self.members:
            raise InvalidParameter("The members of a sum are not all different.", "Name each member once.")
        if len(self.publics) != len(self.members):
            raise InvalidParameter("Public keys do not match the members.", "Give one for each member, in their order.")
        owners: dict[int | bytes, str] = {}
        for name, keys in zip(self.members, self.publics, strict=True):
            if is_of_small_order(keys.exchange):
                raise InvalidParameter(
                    f"'{name}' shows a key for masks that hides nothing: everybody knows its secrets.",
                    "Nothing was sent. Ask it for its key again.",
                )
            if is_signed_for_by_anybody(keys.signing):
                raise InvalidParameter(
                    f"'{name}' shows a key for votes by which anybody can sign.",
                    "Nothing was sent. Ask it for its key again.",
                )
            for key in (exchange_point(keys.exchange), keys.signing):
                if key in owners:
                    raise InvalidParameter(
                        f"'{owners[key]}' and '{name}' show the same key: one of them shows the other's as its own.",
                        "Nothing was sent. Ask both by telephone which key is theirs.",
                    )
                owners[key] = name

    def __len__(self) -> int:
        return len(self.members)

    def with_relay(self, relay: PublicKeys) -> Roster:
        """Returns the roster with the relay after the last member. Raise InvalidParameter unless its keys are its own; they are looked at once."""
        if relay not in self._with_relays:
            self._with_relays[relay] = Roster((*self.members, RELAY_NAME), (*self.publics, relay))
        return self._with_relays[relay]

    @cached_property
    def _with_relays(self) -> dict[PublicKeys, Roster]:
        return {}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of every member's name and public keys."""
        pairs = zip(self.members, self.publics, strict=True)
        return _digest("keys", [[name, each.exchange.hex(), each.signing.hex()] for name, each in pairs])


@dataclass(frozen=True)
class SumContext:
    """One attempt at one sum among all members of a consortium.

    With threshold t, S − t members may leave, and 2t > S + dishonest: whatever so many members do, a lying collector among them, at
    most one total can be opened. t = S means that nobody may leave. `history` is a digest of all totals that were heard before; without a
    `neighbourhood` everyone is everyone's neighbour.
    """

    agreement: str
    task: str
    iteration: int
    attempt: int
    roster: Roster
    threshold: int
    dishonest: int
    history: bytes = NO_HISTORY
    neighbourhood: Neighbourhood | None = None

    def __post_init__(self) -> None:
        check_threshold(len(self.roster), self.threshold, self.dishonest)

    @property
    def members(self) -> tuple[str, ...]:
        """The names of all members."""
        return self.roster.members

    @cached_property
    def may_leave(self) -> bool:
        """Whether the sum can be finished when members leave."""
        return self.threshold < len(self.roster)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether members choose a few neighbours rather than having everyone as one."""
        return self.neighbourhood is not None and not self.neighbourhood.is_complete(len(self.roster))

    @property
    def share_threshold(self) -> int:
        """How many of a member's share holders open one of its secrets."""
        return self.neighbourhood.threshold if self.neighbourhood is not None and self.is_sparse else self.threshold

    @property
    def quorum(self) -> int:
        """How many members settle what all sign at most once: any two such sets of members share an honest one."""
        return least_threshold(len(self.roster), self.dishonest)

    @property
    def collector(self) -> int:
        """The position of the member that collects this attempt."""
        return (self.iteration + self.attempt) % len(self.roster)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all that sign anything, by position."""
        return self.members

    @cached_property
    def publics(self) -> tuple[PublicKeys, ...]:
        """The public keys of all that sign anything, by position."""
        return self.roster.publics

    @cached_property
    def everyone(self) -> frozenset[int]:
        """The positions of all members."""
        return frozenset(range(len(self.roster)))

    @cached_property
    def bitmap_of_everyone(self) -> bytes:
        """All members as bytes."""
        return self.bitmap(self.everyone)

    def bitmap(self, members: Iterable[int]) -> bytes:
        """A set of members as bytes."""
        return bitmap(members, len(self.roster))

    def members_in(self, content: bytes) -> frozenset[int]:
        """The set behind a bitmap. Raise MessageMalformed unless it is one of these members."""
        return members_in(content, len(self.roster))

    def set_digest(self, members: frozenset[int]) -> bytes:
        """SHA-256 of the bitmap of a set."""
        return set_digest(members, len(self.roster))

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything above."""
        return _digest("sum", self._values)

    @property
    def _values(self) -> list[object]:
        sparse = None if self.neighbourhood is None else [self.neighbourhood.degree, self.neighbourhood.threshold]
        values = [self.agreement, self.task, self.iteration, self.attempt, self.threshold, self.dishonest, sparse]
        return [*values, self.roster.digest.hex(), self.history.hex()]

    @cached_property
    def input_digest(self) -> bytes:
        """SHA-256 of what names the input: one vector, whatever the attempt."""
        return _digest("input", [self.agreement, self.task, self.iteration])


@dataclass(frozen=True)
class RelayedSumContext(SumContext):
    """A sum of which the relay, who is no member, collects every attempt: at the position after the last member.

    It has no addend, holds no shares and casts no vote; it learns the total. Raise InvalidParameter unless members may leave and
    the relay has keys of its own.
    """

    relay: PublicKeys = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.may_leave:
            raise InvalidParameter(
                "A sum that nobody may leave has no collector.", "Lower the threshold, or have no relay collect."
            )
        # The same checks as of members: a key of somebody else, or by which anybody can sign, proves nothing.
        self.roster.with_relay(self.relay)

    @property
    def collector(self) -> int:
        """The position of the relay."""
        return len(self.roster)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The members', and that of the relay."""
        return self.roster.with_relay(self.relay).members

    @cached_property
    def publics(self) -> tuple[PublicKeys, ...]:
        """The members' public keys, and the relay's."""
        return self.roster.with_relay(self.relay).publics

    @property
    def _values(self) -> list[object]:
        return [*super()._values, self.relay.exchange.hex(), self.relay.signing.hex()]


def check_threshold(members: int, threshold: int, dishonest: int) -> None:
    """Raise InvalidParameter unless t = S, or 2t > S + dishonest and t < S; and at least two members are honest where there are two."""
    most = max(members - 2, 0)
    if not 0 <= dishonest <= most:
        raise InvalidParameter(
            f"{dishonest} dishonest among {members} members: a sum of fewer than two honest members hides nothing.",
            f"Expect 0 to {most} dishonest members." if most else "Expect no dishonest member, or have more members.",
        )
    if threshold == members:
        return
    if threshold > members:
        raise InvalidParameter(
            f"A threshold of {threshold} is more than the {members} members there are.",
            f"Use {members} where nobody may leave, or less.",
        )
    if not (2 * threshold > members + dishonest and threshold < members):
        least = (members + dishonest) // 2 + 1
        raise InvalidParameter(
            f"A threshold of {threshold} does not fit {members} members of which {dishonest} may be dishonest: two totals could be opened.",
            f"Use a threshold from {least} to {members}."
            if least < members
            else f"Use the threshold {members} (nobody may leave){', or expect fewer dishonest members' if dishonest else ''}.",
        )


def least_threshold(members: int, dishonest: int) -> int:
    """The smallest threshold that this many dishonest members allow."""
    return min((members + dishonest) // 2 + 1, members)


def usual_dishonest(members: int) -> int:
    """How many members may be dishonest where nobody has said: one, but of two none."""
    return 1 if members > 2 else 0


def most_dishonest(members: int, threshold: int) -> int:
    """How many dishonest members a threshold allows: fewer than 2t − S, or where nobody may leave all but two."""
    most = members - 2 if threshold == members else min(2 * threshold - members - 1, members - 2)
    return max(most, 0)


def noise_colluders(members: int, threshold: int, dishonest: int) -> int:
    """How many members' shares the noise of a sum must not count on. Proof: proofs/noise_shares.md.

    Those who may leave; the dishonest, who may leave their noise out or tell each other their shares; one more member that follows the
    protocol, looks, and knows its own share; and on a sparse graph those whom a lying collector can cut off from what is opened. All but one
    member are always enough: then the share of a row's own member protects it.

    Raise InvalidParameter unless threshold and dishonest fit so many members.
    """
    check_threshold(members, threshold, dishonest)
    leaving, neighbourhood = members - threshold, sum_neighbourhood(members, dishonest, threshold)
    cut_off = (
        0
        if neighbourhood.is_complete(members)
        else most_separated(members, dishonest + 1, leaving, neighbourhood.degree)
    )
    return min(members - 1, leaving + dishonest + 1 + cut_off)


def _digest(kind: str, values: list[object]) -> bytes:
    return hashlib.sha256(json.dumps([kind, *values], separators=(",", ":")).encode()).digest()


@dataclass(frozen=True)
class Participant:
    """Who takes part in a sum, with its keys: a member by its position, or the relay at the position after the last of them."""

    context: SumContext
    position: int
    keys: MemberKeys

    def __post_init__(self) -> None:
        if self.context.publics[self.position] != self.keys.public:
            raise InvalidParameter("This member's keys are not those that the others know.", "Use the same keys.")

    @cached_property
    def publics(self) -> tuple[PublicKeys, ...]:
        """All members' public keys."""
        return self.context.roster.publics

    @cached_property
    def out_neighbours(self) -> tuple[int, ...]:
        """Those who get shares of this member's secrets: chosen by itself at random, or everyone else."""
        neighbourhood, count = self.context.neighbourhood, len(self.publics)
        if neighbourhood is None or not self.context.is_sparse:
            return tuple(other for other in range(count) if other != self.position)
        seed = self.keys.own_seed(b"choice of neighbours", self.context.digest)
        return chosen_neighbours(seed, count, self.position, neighbourhood.degree)

    def has_enough_in(self, members: frozenset[int]) -> bool:
        """Whether at least t_k of those who hold its shares are among these; where everyone is a neighbour, itself included."""
        among = sum(other in members for other in self.out_neighbours)
        itself = 0 if self.context.is_sparse else int(self.position in members)
        return among + itself >= self.context.share_threshold


# Sets of members as bytes


def bitmap(members: Iterable[int], count: int) -> bytes:
    """One bit for each of `count` members, the first in the lowest bit of the first byte."""
    flags = np.zeros(count, dtype=np.uint8)
    flags[list(members)] = 1
    return np.packbits(flags, bitorder="little").tobytes()


@lru_cache(maxsize=16)
def set_digest(members: frozenset[int], count: int) -> bytes:
    """SHA-256 of the bitmap of some of `count` members."""
    return hashlib.sha256(bitmap(members, count)).digest()


@lru_cache(maxsize=16)
def members_in(content: bytes, count: int) -> frozenset[int]:
    """The set behind a bitmap. Raise MessageMalformed unless it is one of `count` members."""
    if len(content) != -(-count // 8):
        raise MessageMalformed("A set of members has another size.", "The sender's version differs.")
    flags = np.unpackbits(np.frombuffer(content, dtype=np.uint8), bitorder="little")
    if flags[count:].any():
        raise MessageMalformed("A set names a member that there is not.", "The sender's version differs.")
    return frozenset(np.flatnonzero(flags).tolist())

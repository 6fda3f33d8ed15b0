"""A consortium under a virtual clock, for tests: identities, a walk whose right answer is known, networks that misbehave."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sudare.array_types import Words
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.network.message_dispatch import MessageDispatcher
from sudare.consortium.network.session import PinnedAgreement, Session
from sudare.consortium.tasks.relay_sum_collector import RelayedSums
from sudare.consortium.tasks.sum_script_runner import SumGroup, SumRunner, Timeouts
from sudare.errors import SudareError
from sudare.joint.sum_script import Finished, Walk
from sudare.sums.canonical_encoding import packed, unpacked
from sudare.sums.context import RELAY_NAME, most_dishonest
from tests.consortium.memory_store import MemoryStore
from tests.consortium.simulated_network import GoodNetwork, SimulatedNetwork

IDENTITIES = [Identity.generated() for _ in range(12)]
RELAY = Identity.generated()


class Killed(BaseException):
    """A member's process ends."""


def names_of(members: int) -> tuple[str, ...]:
    return tuple(f"member-{position:02d}" for position in range(members))


def pins_of(
    members: int, fields: Mapping[str, str] | None = None, keys: Mapping[str, bytes] | None = None
) -> PinnedAgreement:
    fields = {"name": "test", "tasks.joint.epsilon": "0.5"} if fields is None else fields
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).digest()
    known = {name: IDENTITIES[position].public_key for position, name in enumerate(names_of(members))}

    def field_digests(nonce: bytes) -> dict[str, str]:
        return {path: hashlib.sha256(nonce + text.encode()).hexdigest() for path, text in fields.items()}

    return PinnedAgreement(digest, {**known, **(keys or {})}, field_digests)


def session_of(
    position: int, members: int, pins: PinnedAgreement | None = None, identity: Identity | None = None
) -> Session:
    own = IDENTITIES[position] if identity is None else identity
    pins = pins_of(members) if pins is None else pins
    return Session(names_of(members)[position], own, own.member_keys(b"test").public, pins)


@dataclass(frozen=True)
class _At:
    iteration: int
    noise: int


class SteppingWalk:
    """Sums of vectors that depend on the totals before, with a drawn part: right only if every addend was the one sent.

    The result is the list of totals, so that members can be compared bit for bit.
    """

    is_exact = False

    def __init__(self, position: int, sums: int = 4, length: int = 3) -> None:
        self.position, self.sums, self.length = position, sums, length
        self.drawn: dict[int, int] = {}

    def addend(self, iteration: int, basis: int, noise: int) -> Words:
        values = [self.position + 1, iteration, basis % 1000, noise]
        return np.resize(np.array(values, dtype=np.uint64), max(self.length, 4))

    def begun(self) -> tuple[bytes, Words]:
        return self._next(0, 0)

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        at = unpacked(state, _At)
        if at.iteration + 1 == self.sums:
            return state, Finished((at.iteration, included, total.tobytes()))
        return self._next(at.iteration + 1, int(total[0]) + int(total[2]))

    def _next(self, iteration: int, basis: int) -> tuple[bytes, Words]:
        noise = random.SystemRandom().randrange(100)
        self.drawn[iteration] = noise
        return packed(_At(iteration, noise)), self.addend(iteration, basis, noise)


@dataclass
class CrashingStore(MemoryStore):
    """Memory that outlives the member, and ends its process at a chosen save: just before or just after it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    saves: int = 0
    die_at: frozenset[int] = frozenset()
    after: bool = False

    def save(self, name: str, content: bytes) -> None:
        self.saves += 1
        dies = self.saves in self.die_at
        if dies and not self.after:
            raise Killed
        super().save(name, content)
        if dies:
            raise Killed


@dataclass
class RoughNetwork:
    """Delays, loses, repeats, reorders, truncates, damages and replays, by a seed; and stops altogether at times."""

    seed: int
    delay_seconds: tuple[float, float] = (0.001, 0.2)
    lost: float = 0.0
    repeated: float = 0.0
    truncated: float = 0.0
    damaged: float = 0.0
    replayed: float = 0.0
    outages: tuple[tuple[float, float], ...] = ()
    recorded: list[tuple[str, str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def carried(self, sender: str, receiver: str, content: bytes, now: float) -> list[tuple[float, bytes]]:
        draw = self.random
        self.recorded.append((sender, receiver, content))
        if any(start <= now < end for start, end in self.outages) or draw.random() < self.lost:
            return []
        arriving = [content]
        if draw.random() < self.repeated:
            arriving.append(content)
        if draw.random() < self.truncated:
            arriving[0] = content[: draw.randrange(len(content))]
        if draw.random() < self.damaged:
            spot = draw.randrange(len(content))
            arriving[-1] = content[:spot] + bytes([content[spot] ^ (1 << draw.randrange(8))]) + content[spot + 1 :]
        if draw.random() < self.replayed:
            arriving += [old for who, to, old in draw.choices(self.recorded, k=3) if (who, to) == (sender, receiver)]
        return [(now + draw.uniform(*self.delay_seconds), each) for each in arriving]


@dataclass
class Consortium:
    """Members that walk through sums, each with a store that outlives its process."""

    members: int
    threshold: int | None = None
    walks: Callable[[int], Walk] = SteppingWalk
    network: RoughNetwork | GoodNetwork = field(default_factory=GoodNetwork)
    silence_seconds: float = 20.0
    gathering_seconds: float = 60.0
    restart_seconds: float = 1.0
    pins: dict[int, PinnedAgreement] = field(default_factory=dict)
    identities: dict[int, Identity] = field(default_factory=dict)
    dishonest: int | None = None
    relay: type[RelayedSums] | None = None
    # Whether members have signed their keys for sums with the agreement; they have where some may leave.
    signed: bool = False

    def __post_init__(self) -> None:
        self.names = names_of(self.members)
        relays = [] if self.relay is None else [RELAY_NAME]
        self.stores = {name: CrashingStore() for name in (*self.names, *relays)}
        self.runners: dict[str, SumRunner] = {}
        starts = {
            name: lambda now, position=position: self.started(position, now) for position, name in enumerate(self.names)
        }
        starts |= dict.fromkeys(relays, self.relay_started)
        self.simulation = SimulatedNetwork(starts, self.network, self.restart_seconds, Killed)

    def dispatcher_and_group(
        self, name: str, identity: Identity, pins: PinnedAgreement | None = None
    ) -> tuple[MessageDispatcher, SumGroup]:
        """What a participant's process begins with."""
        relay = {} if self.relay is None else {RELAY_NAME: RELAY.public_key}
        pins, keys = pins_of(self.members, keys=relay) if pins is None else pins, identity.member_keys(b"test")
        threshold = self.members if self.threshold is None else self.threshold
        dishonest = min(1, most_dishonest(self.members, threshold)) if self.dishonest is None else self.dishonest
        are_signed = self.signed or threshold < self.members
        signed = {each: IDENTITIES[at].member_keys(b"test").public for at, each in enumerate(self.names) if are_signed}
        counts = threshold, dishonest, self.relay is not None
        group = SumGroup(pins.agreement_digest.hex(), self.names, name, keys, *counts, signed)
        return MessageDispatcher(Session(name, identity, keys.public, pins)), group

    def relay_started(self, now: float) -> MessageDispatcher:
        dispatcher, group = self.dispatcher_and_group(RELAY_NAME, RELAY)
        known = dispatcher.session.known_publics
        assert self.relay is not None
        self.collecting = self.relay("joint", group, self.stores[RELAY_NAME], known, self.silence_seconds)
        dispatcher.start(self.collecting, now)
        return dispatcher

    def started(self, position: int, now: float) -> MessageDispatcher:
        name = self.names[position]
        identity = self.identities.get(position, IDENTITIES[position])
        dispatcher, group = self.dispatcher_and_group(name, identity, self.pins.get(position))
        timeouts = Timeouts(self.silence_seconds, self.gathering_seconds)
        runner = SumRunner(
            "joint", group, self.walks(position), self.stores[name], dispatcher.session.known_publics, timeouts
        )
        self.runners[name] = runner
        dispatcher.start(runner, now)
        return dispatcher

    def done(self, *names: str) -> bool:
        alive = [self.runners.get(name) for name in names or self.names]
        return all(runner is not None and (runner.finished or runner.failure is not None) for runner in alive)

    def run(self, most_seconds: float = 600.0, *names: str) -> bool:
        return self.simulation.run(lambda: self.done(*names), most_seconds)

    def results(self) -> dict[str, object]:
        return {name: runner.result.result for name, runner in self.runners.items() if runner.result is not None}

    def failures(self) -> dict[str, SudareError]:
        return {name: runner.failure for name, runner in self.runners.items() if runner.failure is not None}

"""What members keep of their sums for `sudare consortium blame`: also what came late, of earlier attempts, and before a stop."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import numpy as np
import pytest

from sudare.array_types import Words
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.network.message_dispatch import STOP, Envelope
from sudare.consortium.tasks.sum_participant import SUM
from sudare.consortium.tasks.sum_script_runner import SumGroup, SumRunner
from sudare.joint.sum_script import Finished
from sudare.sums.blame import Transcript, contradictions
from sudare.sums.messages import Heard, Message
from sudare.sums.statements import Statement, stated
from tests.consortium.memory_store import MemoryStore
from tests.consortium.simulated_consortium import Consortium, CrashingStore, RoughNetwork, SteppingWalk

NAMES = ("anna", "east", "north", "south", "west")
KEYS = {name: Identity.generated().member_keys(b"test") for name in NAMES}
PUBLICS = {name: keys.public for name, keys in KEYS.items()}


class Sums:
    """So many sums of constants."""

    is_exact = False

    def __init__(self, count: int) -> None:
        self.count = count

    def begun(self) -> tuple[bytes, Words]:
        return b"", np.ones(3, dtype=np.uint64)

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        state += b"."
        return state, Finished(None) if len(state) == self.count else np.ones(3, dtype=np.uint64)


class Members:
    """Runners that pass each other what `passes` lets through."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.stores = {name: MemoryStore() for name in NAMES}
        self.runners = {name: self.runner(name) for name in NAMES}
        for runner in self.runners.values():
            runner.begin(0.0)

    def runner(self, name: str) -> SumRunner:
        group = SumGroup("agreement", NAMES, name, KEYS[name], 4, 1, signed=PUBLICS)
        return SumRunner("task", group, Sums(self.count), self.stores[name], lambda: PUBLICS)

    def deliver(self, now: float = 0.0, passes: Callable[[str, str], bool] = lambda sender, receiver: True) -> None:
        waiting: list[tuple[str, str, Envelope]] = []
        while posts := [(name, *post) for name, runner in self.runners.items() for post in runner.posts()]:
            early, waiting = waiting, []
            for sender, receiver, envelope in (*early, *posts):
                if passes(sender, receiver) and not self.runners[receiver].receive(sender, envelope, now):
                    waiting.append((sender, receiver, envelope))

    def tick(self, now: float, present: Collection[str] = NAMES) -> None:
        for runner in self.runners.values():
            runner.tick(now, frozenset(present))

    def kept(self, name: str, iteration: int = 0) -> tuple[Statement, ...]:
        content = self.stores[name].load(f"transcript-{iteration:08d}")
        return () if content is None else Transcript.from_bytes(content).statements


def test_each_sum_has_a_transcript_without_contradictions() -> None:
    members = Members(count=3)
    members.deliver()
    assert all(runner.finished for runner in members.runners.values())
    members.tick(1.0)
    contents = [members.stores[name].load(f"transcript-{place:08d}") for name in NAMES for place in range(3)]
    assert contradictions([Transcript.from_bytes(each) for each in contents if each is not None]) == []
    for name in NAMES:
        for iteration in range(3):
            kinds = {each.kind for each in members.kept(name, iteration)}
            assert kinds == {"keys", "dealers", "included", "vote", "shares", "total", "heard"}
            # Also of the last one, who was heard when the total was used already.
            assert {each.signer for each in members.kept(name, iteration) if each.kind == "heard"} == set(range(5))


def test_what_is_signed_after_the_end_is_kept_with_the_rest() -> None:
    members = Members()
    members.deliver()
    runner = members.runners["west"]
    assert runner.finished
    participant = runner._sums[0]._party.participant
    other = stated(type(participant)(participant.context, 1, KEYS["east"]), "heard", b"\x1f" + bytes(32))
    envelope = Envelope("task", SUM, 0, 0, Message(1, 4, Heard(other, None)).to_bytes())
    runner.receive("east", envelope, 1.0)
    members.tick(2.0)
    assert other in members.kept("west")
    found = contradictions([Transcript(participant.context, members.kept("west"))])
    assert {each.liar for each in found} == {"east"}


def test_statements_of_an_earlier_attempt_outlive_the_attempt_and_the_process() -> None:
    """'anna' collects the first attempt and falls silent in the middle of it."""
    members = Members()
    heard_of: list[str] = []

    def until_anna_has_said_enough(sender: str, receiver: str) -> bool:
        heard_of.append(sender)
        return sender != "anna" or heard_of.count("anna") <= 4

    members.deliver(0.0, until_anna_has_said_enough)
    first = members.runners["east"]._sums[0].transcript.context
    present = NAMES[1:]
    for now in range(1, 60):
        members.tick(float(now), present)
    second = members.runners["east"]._sums[0].transcript.context
    assert (first.attempt, second.attempt) == (0, 1)
    assert {each.context for each in members.kept("east")} >= {first.digest}
    members.runners["east"] = members.runner("east")
    members.runners["east"].begin(61.0)
    members.deliver(61.0, lambda sender, receiver: "anna" not in (sender, receiver))
    for now in range(62, 300):
        members.tick(float(now), present)
        members.deliver(float(now), lambda sender, receiver: "anna" not in (sender, receiver))
    assert members.runners["east"].finished, members.runners["east"].failure
    members.tick(301.0, present)
    assert {each.context for each in members.kept("east")} >= {first.digest, second.digest}
    assert contradictions([Transcript(second, members.kept(name)) for name in NAMES[1:]]) == []


def test_what_was_signed_is_kept_when_others_stop_the_task() -> None:
    members = Members()
    sent: list[str] = []

    def a_few(sender: str, receiver: str) -> bool:
        sent.append(sender)
        return len(sent) < 40

    members.deliver(0.0, a_few)
    runner = members.runners["east"]
    for name in ("south", "west"):
        runner.receive(name, Envelope("task", STOP), 1.0)
    assert runner.failure is not None
    assert {each.kind for each in members.kept("east")} >= {"keys"}


def check_that_honest_members_contradict_nobody(seed: int, threshold: int | None) -> int:
    """Members that are killed and restarted on a network that misbehaves; how many statements were looked at."""
    draw = random.Random(seed)
    network = RoughNetwork(seed, lost=0.05, repeated=0.1, replayed=0.1, damaged=0.02)
    consortium = Consortium(5, threshold, lambda position: SteppingWalk(position, 3), network, silence_seconds=5.0)
    for name in draw.sample(consortium.names, 3):
        deaths = frozenset(draw.randrange(2, 40) for _ in range(3))
        consortium.stores[name] = CrashingStore(die_at=deaths, after=draw.random() < 0.5)
    consortium.run(600.0)
    kept = [
        Transcript.from_bytes(content)
        for store in consortium.stores.values()
        for name, content in store.contents.items()
        if name.startswith("transcript-")
    ]
    assert contradictions(kept) == []
    return sum(len(each.statements) for each in kept)


@pytest.mark.parametrize("threshold", [4, None])
def test_honest_members_that_are_killed_and_restarted_contradict_nobody(threshold: int | None) -> None:
    assert sum(check_that_honest_members_contradict_nobody(seed, threshold) for seed in range(4)) > 100


@pytest.mark.long
@pytest.mark.parametrize("threshold", [4, None])
def test_honest_members_that_are_killed_and_restarted_contradict_nobody_for_long(threshold: int | None) -> None:
    assert sum(check_that_honest_members_contradict_nobody(seed, threshold) for seed in range(4, 300)) > 10_000

"""Sums between members of whom one is killed at every packet it sends, for a while or for ever; the collector too; and members that lie.

Time is virtual. Every run ends: those who finish have the same exact totals, and the others a clear error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from sudare.consortium.network.message_dispatch import STOP, Envelope
from sudare.consortium.tasks.sum_participant import Attempt
from sudare.consortium.tasks.sum_script_runner import Checkpoint, IterationStart, Total
from sudare.errors import MembersMissing, NotConnected, TaskStopped
from sudare.sums.blame import Transcript
from sudare.sums.canonical_encoding import packed, unpacked
from sudare.sums.party import PartyState
from tests.consortium.simulated_consortium import IDENTITIES, Consortium, CrashingStore, SteppingWalk
from tests.faults.test_consortium import KillingNetwork, check_everyone_right, check_right

SILENCE_SECONDS = 10.0


@dataclass
class Killing:
    """One member of a consortium is killed at its packet of a number."""

    members: int
    threshold: int | None
    victim: int
    die_at: int
    for_ever: bool = False
    sums: int = 2
    consortium: Consortium = field(init=False)
    network: KillingNetwork = field(init=False)

    def __post_init__(self) -> None:
        name = f"member-{self.victim:02d}"
        self.network = KillingNetwork(name, self.die_at)
        self.consortium = Consortium(
            self.members,
            self.threshold,
            lambda position: SteppingWalk(position, self.sums),
            self.network,
            silence_seconds=SILENCE_SECONDS,
            restart_seconds=math.inf if self.for_ever else 1.0,
        )
        self.staying = [each for each in self.consortium.names if each != name or not self.for_ever]
        self.name = name

    def run(self) -> bool:
        """Whether the victim was killed: it may have had nothing more to say."""
        assert self.consortium.run(1800.0, *self.staying), f"{self}: neither an answer nor an error"
        return self.network.sent >= self.die_at

    def check(self) -> None:
        results, failures = self.consortium.results(), self.consortium.failures()
        finished = [name for name in self.staying if name in results]
        if finished:
            check_right(self.consortium, finished)
        if not self.for_ever:
            check_everyone_right(self.consortium)
            return
        left = [failures[name] for name in self.staying if name not in results]
        assert all(isinstance(each, MembersMissing | TaskStopped | NotConnected) for each in left), left
        if left:
            reasons = [each for each in left if not isinstance(each, TaskStopped)]
            assert any(f"'{self.name}'" in str(each) for each in reasons), left
        if any("Nothing was sent" in str(each) for each in left):
            # It died before all members had come; then the task has not begun anywhere.
            assert not finished
        elif self.threshold is not None:
            # The others cannot go on only where the victim collected a sum and one of them had voted. It may have told one of them the total.
            assert not left or any(map(self.has_voted, self.staying)), left
            assert len(finished) in (0, 1, len(self.staying)), left

    def has_voted(self, name: str) -> bool:
        """Whether a member has voted in a sum that is not over for it."""
        content = self.consortium.stores[name].contents.get(f"sum-{self.consortium.runners[name].iteration % 2}")
        assert content is not None
        checkpoint = unpacked(content, Checkpoint, IterationStart, Attempt)
        return PartyState.from_bytes(checkpoint.attempt.sum_state).record.voted_for is not None


def killings(members: int, threshold: int | None, step: int, *, for_ever: bool) -> Iterator[Killing]:
    """Of every member at every packet (or every few), until it has nothing more to say."""
    for victim in range(members):
        for die_at in range(1 + victim % step, 1000, step):
            killing = Killing(members, threshold, victim, die_at, for_ever)
            yield killing
            if killing.network.sent < die_at:
                break


SIZES = [(3, None), (4, 3)]
LONG_SIZES = [*SIZES, (5, None), (5, 4)]


def check_killings(members: int, threshold: int | None, step: int, *, for_ever: bool) -> None:
    killed = 0
    for killing in killings(members, threshold, step, for_ever=for_ever):
        killed += killing.run()
        killing.check()
    assert killed > members


@pytest.mark.parametrize("for_ever", [False, True], ids=["restarted", "for ever"])
@pytest.mark.parametrize(("members", "threshold"), SIZES)
def test_a_member_killed_at_some_of_its_packets(members: int, threshold: int | None, for_ever: bool) -> None:
    check_killings(members, threshold, 7, for_ever=for_ever)


@pytest.mark.long
@pytest.mark.parametrize("for_ever", [False, True], ids=["restarted", "for ever"])
@pytest.mark.parametrize(("members", "threshold"), LONG_SIZES)
def test_every_member_killed_at_every_packet(members: int, threshold: int | None, for_ever: bool) -> None:
    check_killings(members, threshold, 1, for_ever=for_ever)


# The collector


def check_collector_killed_for_ever(step: int, first: int) -> set[str]:
    """How the others ended: with another collector, or, after one of them had voted, with an error that names the collector."""
    seen = set()
    for die_at in range(first, 1000, step):
        killing = Killing(4, 3, 0, die_at, for_ever=True, sums=1)
        was_killed = killing.run()
        killing.check()
        results = killing.consortium.results()
        if not was_killed:
            return seen
        if set(killing.staying) <= set(results):
            _, included, _ = results[killing.staying[0]]
            seen.add("with another collector" if 0 not in included else "collected")
        else:
            reasons = {str(each) for each in killing.consortium.failures().values()}
            gathering = any("Not all members came in time" in each for each in reasons)
            assert gathering or any(
                "addend is for a total over 4 members; missing: 'member-00'" in each for each in reasons
            )
            seen.add("before the first sum" if gathering else "after a vote")
    raise AssertionError("It never came to an end.")


def test_a_collector_that_is_gone_for_ever_is_replaced_or_named() -> None:
    seen = check_collector_killed_for_ever(2, 3)
    assert {"with another collector", "after a vote", "collected"} <= seen


@pytest.mark.long
def test_a_collector_killed_for_ever_at_every_packet() -> None:
    check_collector_killed_for_ever(1, 1)


def test_a_collector_that_comes_back_after_the_others_voted_finishes_that_sum() -> None:
    """Far beyond the deadline: no total over others was made of the same addends, and none is needed."""
    for die_at in range(3, 60, 9):
        killing = Killing(4, 3, 0, die_at, sums=2)
        killing.consortium.simulation._restart_seconds = 4 * SILENCE_SECONDS
        killing.run()
        killing.check()


# Members that were left out


def test_a_member_that_was_away_is_told_the_totals_and_looks_on() -> None:
    consortium = Consortium(4, 3, lambda position: SteppingWalk(position, 30), silence_seconds=5.0, restart_seconds=7.0)
    consortium.stores[consortium.names[3]] = CrashingStore(die_at=frozenset({9}))
    assert consortium.run()
    check_everyone_right(consortium)
    totals = [
        unpacked(consortium.stores[consortium.names[0]].contents[f"total-{each:08d}"], Total) for each in range(30)
    ]
    # What the walk counts on, such as the number of all records, is of those who were in every sum.
    included = [total.included for total in totals]
    away = included.index({0, 1, 2})
    assert set(map(frozenset, included[:away])) == {frozenset({0, 1, 2, 3})}
    assert set(map(frozenset, included[away:])) == {frozenset({0, 1, 2})}


def test_an_absent_member_is_waited_for_once_and_not_in_every_sum() -> None:
    consortium = Consortium(4, 3, lambda position: SteppingWalk(position, 10), silence_seconds=30.0)
    consortium.stores[consortium.names[3]] = CrashingStore(die_at=frozenset({4}))
    consortium.simulation._restart_seconds = math.inf
    assert consortium.run(600.0, *consortium.names[:3])
    check_right(consortium, list(consortium.names[:3]))
    assert consortium.simulation.now < 30.0 + 30.0


def test_a_member_that_is_there_and_silent_is_not_waited_for_in_every_sum() -> None:
    """Its process lives, and its program says nothing in sums."""
    consortium = Consortium(4, 3, lambda position: SteppingWalk(position, 10), silence_seconds=10.0)

    def fall_silent() -> None:
        runner = consortium.runners[consortium.names[3]]
        runner.receive = lambda sender, envelope, now: True
        runner.tick = lambda now, present: None

    consortium.simulation.at(0.02, fall_silent)
    assert consortium.run(600.0, *consortium.names[:3])
    check_right(consortium, list(consortium.names[:3]))
    # In the sum in which it fell silent, which it may be part of, and in the next.
    assert 20.0 < consortium.simulation.now < 2 * 20.0 + 10 * 2.0


@pytest.mark.parametrize("threshold", [None, 5], ids=["all must stay", "one may leave"])
def test_sums_wait_for_no_deadline_where_all_is_well(threshold: int | None) -> None:
    consortium = Consortium(6, threshold, lambda position: SteppingWalk(position, 10))
    assert consortium.run()
    check_everyone_right(consortium)
    assert consortium.simulation.now < 1.0


@pytest.mark.parametrize("threshold", [None, 3], ids=["all must stay", "one may leave"])
def test_a_member_that_computed_for_long_does_not_take_the_others_for_gone(threshold: int | None) -> None:
    consortium = Consortium(4, threshold, silence_seconds=10.0)
    name = consortium.names[1]
    assert consortium.simulation.run(lambda: "sum-0" in consortium.stores[name].contents, 60.0)
    runner, now = consortium.runners[name], consortium.simulation.now
    runner.tick(now + 100.0, frozenset({name}))
    runner.tick(now + 100.25, frozenset({name}))
    assert runner.failure is None
    for seconds in range(101, 140):
        runner.tick(now + seconds, frozenset({name}))
    assert isinstance(runner.failure, MembersMissing)


# Members that lie


def told(consortium: Consortium, sender: int, *envelopes: Envelope) -> None:
    """Let a member say something to all others."""
    dispatcher = consortium.simulation.dispatcher(consortium.names[sender])
    assert dispatcher is not None
    for receiver in consortium.names:
        for envelope in envelopes if receiver != consortium.names[sender] else ():
            dispatcher.session.post(receiver, envelope.to_bytes())


@pytest.mark.parametrize("position", range(4))
def test_where_members_may_leave_no_single_one_stops_the_task(position: int) -> None:
    consortium = Consortium(4, 3, lambda each: SteppingWalk(each, 4), silence_seconds=5.0)
    for milliseconds in range(1, 40, 2):
        consortium.simulation.at(milliseconds / 1e3, partial(told, consortium, position, Envelope("joint", STOP)))
    others = [name for each, name in enumerate(consortium.names) if each != position]
    assert consortium.run(600.0, *others)
    assert not set(consortium.failures()) & set(others)
    check_right(consortium, others)


def test_more_members_that_stop_than_may_leave_stop_the_task() -> None:
    consortium = Consortium(4, 3, lambda each: SteppingWalk(each, 4))
    reason = NotConnected("Too late.", "Begin earlier.")
    for name in consortium.names[1:3]:
        consortium.simulation.at(0.01, lambda name=name: consortium.runners[name].stop(reason))
    assert consortium.run()
    assert not consortium.results()
    for name in (consortium.names[0], consortium.names[3]):
        failure = consortium.failures()[name]
        assert isinstance(failure, TaskStopped)
        assert "'member-01', 'member-02' stopped the task" in str(failure)


def test_later_attempts_that_one_member_speaks_of_change_nothing() -> None:
    consortium = Consortium(4, 3, lambda each: SteppingWalk(each, 4))
    lies = [Envelope("joint", kind, sum_, 2**40 + sum_) for kind in ("sum", "ask") for sum_ in range(4)]
    for milliseconds in range(1, 40, 2):
        consortium.simulation.at(milliseconds / 1e3, partial(told, consortium, 1, *lies))
    assert consortium.run()
    check_everyone_right(consortium)
    assert consortium.simulation.now < 1.0


def test_a_total_that_one_member_tells_is_not_believed() -> None:
    consortium = Consortium(4, 3, lambda each: SteppingWalk(each, 4))
    walk = SteppingWalk(0)
    lie = packed(Total(walk.addend(0, 0, 99), frozenset({0, 1, 2})))
    heard = [Envelope("joint", "heard", iteration, body=lie) for iteration in range(4)]
    for milliseconds in range(1, 40, 2):
        consortium.simulation.at(milliseconds / 1e3, partial(told, consortium, 1, *heard))
    assert consortium.run()
    check_everyone_right(consortium)


# What is kept


def transcripts_of(consortium: Consortium, position: int) -> dict[str, Transcript]:
    contents = consortium.stores[consortium.names[position]].contents
    return {
        name: Transcript.from_bytes(content) for name, content in contents.items() if name.startswith("transcript-")
    }


def test_transcripts_of_a_long_task_do_not_pile_up() -> None:
    consortium = Consortium(4, 3, lambda each: SteppingWalk(each, 20))
    assert consortium.run()
    kept = transcripts_of(consortium, 0)
    assert sorted(kept) == [f"transcript-{iteration:08d}" for iteration in range(12, 20)]
    assert all(each.iteration == int(name[-8:]) for name, each in kept.items())
    keys = [identity.member_keys(b"test").public.signing for identity in IDENTITIES]
    assert all(said.is_signed_by(keys[said.signer]) for each in kept.values() for said in each.statements)
    assert {each.kind for each in kept["transcript-00000019"].statements} >= {"keys", "vote", "heard", "total"}


def test_the_transcript_of_a_sum_that_needed_another_attempt_stays() -> None:
    killing = Killing(4, 3, 0, 25, for_ever=True, sums=12)
    killing.run()
    killing.check()
    kept = transcripts_of(killing.consortium, 1)
    attempts = {name: len({each.context for each in transcript.statements}) for name, transcript in kept.items()}
    assert attempts["transcript-00000000"] > 1
    assert len([name for name, count in attempts.items() if count == 1]) <= 8


def test_a_sum_that_failed_leaves_its_transcript() -> None:
    consortium = Consortium(3, None, silence_seconds=5.0)
    consortium.stores[consortium.names[2]] = CrashingStore(die_at=frozenset({9}))
    consortium.simulation._restart_seconds = math.inf
    assert consortium.run(600.0, *consortium.names[:2])
    assert any(transcripts_of(consortium, position) for position in (0, 1))

"""Members that are killed, networks that misbehave, strangers and liars: the right answer or a clear error on every side.

Time here is virtual: ten minutes of a consortium pass in a second, and a seed repeats a schedule exactly but for keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sudare.array_types import Words
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.tasks.sum_participant import Attempt
from sudare.consortium.tasks.sum_script_runner import Checkpoint, IterationStart
from sudare.errors import (
    AgreementMismatch,
    MaskReused,
    MembersMissing,
    NotConnected,
    SecondTotalRefused,
    SudareError,
    TaskStopped,
)
from sudare.joint import LearningTerms, LearningWalk, MemberTable, ModelReading
from sudare.privacy import Account, Ledger
from sudare.sums.canonical_encoding import packed, unpacked
from tests.consortium.simulated_consortium import (
    Consortium,
    CrashingStore,
    Killed,
    RoughNetwork,
    SteppingWalk,
    pins_of,
)
from tests.consortium.simulated_network import GoodNetwork


def addends_of(consortium: Consortium, iteration: int) -> dict[int, Words]:
    """What each member saved as its addend of an iteration before it sent anything."""
    found = {}
    for position, name in enumerate(consortium.names):
        checkpoint = checkpoint_in(consortium.stores[name], iteration % 2)
        if checkpoint is not None and checkpoint.start.iteration == iteration:
            found[position] = checkpoint.start.addend
    return found


def checkpoint_in(store: CrashingStore, place: int) -> Checkpoint | None:
    content = store.contents.get(f"sum-{place}")
    return None if content is None else unpacked(content, Checkpoint, IterationStart, Attempt)


def check_right(consortium: Consortium, finished: list[str]) -> None:
    """Every total that anybody holds is the same, and the last two are the sums of what their members saved."""
    for name in finished:
        result = consortium.results()[name]
        assert result == consortium.results()[finished[0]]
    last, included, content = consortium.results()[finished[0]]
    for iteration in range(last + 1):
        held = [consortium.stores[name].contents.get(f"total-{iteration:08d}") for name in consortium.names]
        assert len({each for each in held if each is not None}) == (0 if consortium.threshold is None else 1)
    addends = addends_of(consortium, last)
    if set(included) <= set(addends):
        expected = np.sum([addends[each] for each in sorted(included)], axis=0, dtype=np.uint64)
        assert content == expected.tobytes()
    else:
        assert consortium.threshold is not None


def check_everyone_right(consortium: Consortium) -> None:
    assert consortium.failures() == {}
    assert set(consortium.results()) == set(consortium.names)
    check_right(consortium, list(consortium.names))


# Killed and restarted


def saves_without_trouble(members: int, threshold: int | None, sums: int) -> int:
    consortium = Consortium(members, threshold, lambda position: SteppingWalk(position, sums))
    assert consortium.run()
    return consortium.stores[consortium.names[1]].saves


EVERY_STEP = pytest.mark.parametrize(
    ("members", "threshold", "parity"),
    [
        pytest.param(3, None, None, id="all must stay"),
        pytest.param(4, 3, 0, id="one may leave, before even and after odd saves"),
        pytest.param(4, 3, 1, id="one may leave, after even and before odd saves", marks=pytest.mark.long),
    ],
)


@EVERY_STEP
def test_a_member_killed_at_every_step_takes_up_again_and_all_get_the_same(
    members: int, threshold: int | None, parity: int | None
) -> None:
    saves = saves_without_trouble(members, threshold, 2)
    assert saves >= 7
    kills = [(step, after) for step in range(1, saves + 1) for after in (False, True)]
    for step, after in kills if parity is None else [kill for kill in kills if (kill[0] + kill[1]) % 2 == parity]:
        consortium = Consortium(members, threshold, lambda position: SteppingWalk(position, 2))
        consortium.stores[consortium.names[1]] = CrashingStore(die_at=frozenset({step}), after=after)
        assert consortium.run(), step
        assert consortium.simulation.lives(consortium.names[1]) == 2
        check_everyone_right(consortium)


@dataclass
class KillingNetwork(GoodNetwork):
    """Ends a member's process while it hands over its packet of a number; the packet is lost."""

    victim: str
    die_at: int
    sent: int = 0
    _delay: float = 0.001

    def carried(self, sender: str, receiver: str, content: bytes, now: float) -> list[tuple[float, bytes]]:
        self.sent += sender == self.victim
        if sender == self.victim and self.sent == self.die_at:
            raise Killed
        return super().carried(sender, receiver, content, now)


@pytest.mark.parametrize(
    "threshold", [None, pytest.param(3, marks=pytest.mark.long)], ids=["all must stay", "one may leave"]
)
def test_a_member_killed_at_every_packet_it_sends_takes_up_again(threshold: int | None) -> None:
    for number in range(1, 200):
        network = KillingNetwork("member-01", number)
        members = 3 if threshold is None else 4
        consortium = Consortium(members, threshold, lambda position: SteppingWalk(position, 2), network)
        assert consortium.run()
        check_everyone_right(consortium)
        if network.sent < number:
            assert number > 10
            return
        assert consortium.simulation.lives("member-01") == 2
    pytest.fail("It never came to an end.")


def test_all_members_killed_again_and_again() -> None:
    consortium = Consortium(3, None, lambda position: SteppingWalk(position, 3))
    for number, name in enumerate(consortium.names):
        consortium.stores[name] = CrashingStore(die_at=frozenset(range(3 + number, 60, 7)))
    assert consortium.run()
    assert all(consortium.simulation.lives(name) >= 3 for name in consortium.names)
    check_everyone_right(consortium)


def test_after_a_restart_masked_values_are_the_same_bytes() -> None:
    consortium = Consortium(3, None, lambda position: SteppingWalk(position, 2))
    name = consortium.names[1]
    assert consortium.run()
    first = [checkpoint_in(consortium.stores[name], place) for place in (0, 1)]
    assert None not in first
    again = Consortium(3, None, lambda position: SteppingWalk(position, 2))
    again.stores[name].contents = dict(consortium.stores[name].contents)
    again.started(1, 0.0)
    second = [checkpoint_in(again.stores[name], place) for place in (0, 1)]
    assert [packed(each) for each in second] == [packed(each) for each in first]


# Budgets


def learners(folder: Path) -> tuple[dict[int, Account], Callable[[int], LearningWalk]]:
    """Three members that learn a model together, each with an account of its own."""
    terms = LearningTerms("one-sum", ModelReading.of_arrays(2, 1.0, [0, 1], fit_intercept=False), 1.0, 0.0, 3, 1)
    accounts = {place: Ledger(folder / f"{place}.db").account("rows", 5.0) for place in range(3)}
    rows = {place: np.random.default_rng(place).normal(size=(20, 2)) / 4 for place in range(3)}

    def walk(place: int) -> LearningWalk:
        labels = (rows[place][:, 0] > 0).astype(int)
        return LearningWalk(terms, MemberTable(rows[place], labels), accounts[place], purpose="task 'joint'")

    return accounts, walk


def test_a_member_killed_at_any_step_pays_once(tmp_path: Path) -> None:
    """Also where it dies between the charge and the checkpoint that follows: what it had drawn never left."""
    accounts, walk = learners(tmp_path)
    undisturbed = Consortium(3, None, walk)
    assert undisturbed.run()
    saves = undisturbed.stores[undisturbed.names[1]].saves
    assert [account.spent().epsilon for account in accounts.values()] == [1.0, 1.0, 1.0]
    for step in range(1, saves + 1):
        folder = tmp_path / str(step)
        folder.mkdir()
        accounts, walk = learners(folder)
        consortium = Consortium(3, None, walk)
        consortium.stores[consortium.names[1]] = CrashingStore(die_at=frozenset({step}))
        assert consortium.run()
        assert consortium.failures() == {}
        parameters = {learned.outcome.parameters.tobytes() for learned in consortium.results().values()}
        assert len(parameters) == 1
        assert [account.spent().epsilon for account in accounts.values()] == [1.0, 1.0, 1.0]


def test_a_task_that_is_stopped_before_the_first_noise_costs_nothing(tmp_path: Path) -> None:
    accounts, walk = learners(tmp_path)
    consortium = Consortium(3, None, walk, gathering_seconds=20.0)
    consortium.identities[2] = Identity.generated()
    assert consortium.run()
    assert len(consortium.failures()) == 3
    assert [account.spent().epsilon for account in accounts.values()] == [0.0, 0.0, 0.0]


# The network


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(RoughNetwork(1, delay_seconds=(0.2, 0.2)), id="200 ms delay"),
        pytest.param(RoughNetwork(2, outages=((0.6, 5.6),)), id="relay down for 5 s"),
        pytest.param(RoughNetwork(3, repeated=0.9), id="everything twice"),
        pytest.param(RoughNetwork(4, delay_seconds=(0.001, 2.0)), id="reordered"),
        pytest.param(RoughNetwork(5, replayed=0.9), id="replayed"),
        pytest.param(RoughNetwork(6, truncated=0.3), id="truncated"),
        pytest.param(RoughNetwork(7, damaged=0.3), id="damaged"),
        pytest.param(RoughNetwork(8, lost=0.3), id="lost"),
    ],
)
def test_a_bad_network_changes_nothing_but_the_time(network: RoughNetwork) -> None:
    consortium = Consortium(3, None, network=network)
    assert consortium.run()
    check_everyone_right(consortium)


def test_a_network_that_is_gone_for_good_is_an_error_that_names_the_missing() -> None:
    consortium = Consortium(3, None, network=RoughNetwork(9, outages=((0.0, 1e9),)), gathering_seconds=30.0)
    assert consortium.run()
    for name, failure in consortium.failures().items():
        assert isinstance(failure, NotConnected)
        assert all(f"'{other}'" in str(failure) for other in consortium.names if other != name)
    assert len(consortium.failures()) == 3


# Members that leave


def test_a_member_that_never_returns_stops_a_sum_that_needs_everyone() -> None:
    consortium = Consortium(3, None, network=RoughNetwork(0), silence_seconds=10.0)
    consortium.stores[consortium.names[2]] = CrashingStore(die_at=frozenset({9}))
    consortium.simulation._restart_seconds = float("inf")
    assert consortium.run(600.0, *consortium.names[:2])
    check_all_told(consortium, consortium.names[:2], MembersMissing)
    assert f"'{consortium.names[2]}'" in str(the_reason(consortium, MembersMissing))


def check_all_told(consortium: Consortium, names: Sequence[str], reason: type[SudareError]) -> None:
    """Nobody has a result; whoever noticed first has this error, and it or the others' stop is what the rest have."""
    failures = consortium.failures()
    assert not consortium.results()
    assert set(names) <= set(failures)
    assert {type(failures[name]) for name in names} <= {reason, TaskStopped}
    the_reason(consortium, reason)


def the_reason(consortium: Consortium, reason: type[SudareError]) -> SudareError:
    return next(failure for failure in consortium.failures().values() if isinstance(failure, reason))


@pytest.mark.parametrize("dies_at", [2, 4, 7, 10, 14, 20])
def test_where_members_may_leave_the_others_finish_without_it(dies_at: int) -> None:
    """Member 3 collects none of these sums: one that does may die after the others have voted."""
    consortium = Consortium(4, 3, lambda position: SteppingWalk(position, 3), silence_seconds=10.0)
    consortium.stores[consortium.names[3]] = CrashingStore(die_at=frozenset({dies_at}))
    consortium.simulation._restart_seconds = float("inf")
    staying = consortium.names[:3]
    assert consortium.run(600.0, *staying)
    assert consortium.failures() == {}
    check_right(consortium, list(staying))
    _, included, _ = consortium.results()[staying[0]]
    assert set(included) >= {0, 1, 2}


def test_one_that_was_left_out_and_comes_back_hears_the_totals() -> None:
    consortium = Consortium(4, 3, lambda position: SteppingWalk(position, 3), silence_seconds=5.0, restart_seconds=60.0)
    consortium.stores[consortium.names[2]] = CrashingStore(die_at=frozenset({8}))
    assert consortium.run(600.0)
    check_everyone_right(consortium)
    assert consortium.simulation.lives(consortium.names[2]) == 2


def test_more_missing_than_agreed_is_an_error_for_all_who_stay() -> None:
    consortium = Consortium(4, 3, silence_seconds=10.0)
    for position in (1, 2):
        consortium.stores[consortium.names[position]] = CrashingStore(die_at=frozenset({8}))
    consortium.simulation._restart_seconds = float("inf")
    staying = [consortium.names[0], consortium.names[3]]
    assert consortium.run(600.0, *staying)
    check_all_told(consortium, staying, MembersMissing)


def test_what_was_stopped_goes_on_in_another_attempt_when_all_are_started_again() -> None:
    consortium = Consortium(3, None, lambda position: SteppingWalk(position, 2), silence_seconds=5.0)
    consortium.stores[consortium.names[2]] = CrashingStore(die_at=frozenset({4}))
    consortium.simulation._restart_seconds = float("inf")
    assert consortium.run(600.0, *consortium.names[:2])
    assert set(consortium.failures()) == set(consortium.names[:2])
    consortium.runners.clear()
    for name in consortium.names:
        consortium.simulation.kill(name)
        consortium.simulation.bring_up(name)
    assert consortium.run()
    check_everyone_right(consortium)


# Strangers and liars


def test_a_member_with_another_agreement_is_refused_with_the_field_named() -> None:
    consortium = Consortium(3, None)
    consortium.pins[2] = pins_of(3, {"name": "test", "tasks.joint.epsilon": "1.0"})
    consortium.simulation.run(lambda: len(consortium.failures()) == 3, 120.0)
    failures = consortium.failures()
    assert len(failures) == 3
    assert not consortium.results()
    for name in consortium.names[:2]:
        assert isinstance(failures[name], AgreementMismatch)
        assert "tasks.joint.epsilon" in str(failures[name])
        assert f"'{consortium.names[2]}'" in str(failures[name])
    assert isinstance(failures[consortium.names[2]], AgreementMismatch)
    assert not any("sum-0" in store.contents for store in consortium.stores.values())


def test_a_member_with_another_key_is_refused_on_every_side() -> None:
    consortium = Consortium(3, None, gathering_seconds=20.0)
    consortium.identities[2] = Identity.generated()
    assert consortium.run()
    failures = consortium.failures()
    assert {type(failure) for failure in failures.values()} <= {NotConnected, TaskStopped}
    assert all(f"'{consortium.names[2]}'" in str(failures[name]) for name in consortium.names[:2])
    assert isinstance(failures[consortium.names[2]], NotConnected)
    dispatcher = consortium.simulation.dispatcher(consortium.names[2])
    assert dispatcher is not None
    assert dispatcher.session.refused_by() == set(consortium.names[:2])
    other = consortium.simulation.dispatcher(consortium.names[0])
    assert other is not None
    assert other.session.mistrusted() == {consortium.names[2]}


def test_other_data_under_the_same_mask_are_refused() -> None:
    consortium = Consortium(3, None, lambda position: SteppingWalk(position, 2), silence_seconds=5.0)
    name = consortium.names[1]
    assert consortium.run()
    content = dict(consortium.stores[name].contents)
    checkpoint = checkpoint_in(consortium.stores[name], 1)
    assert checkpoint is not None
    content["sum-1"] = with_other_data(checkpoint)
    again = Consortium(3, None, lambda position: SteppingWalk(position, 2))
    again.stores[name].contents = content
    again.started(1, 0.0)
    assert isinstance(again.failures()[name], MaskReused)
    stops = again.runners[name].posts()
    assert all(envelope.kind != "sum" or envelope.iteration == 0 for _, envelope in stops)


def with_other_data(checkpoint: Checkpoint) -> bytes:
    return packed(replace(checkpoint, start=replace(checkpoint.start, addend=checkpoint.start.addend + np.uint64(1))))


def say(consortium: Consortium, position: int, kind: str, seed: int) -> None:
    """Let an authentic member send nonsense for every sum."""
    draw, dispatcher = random.Random(seed), consortium.simulation.dispatcher(consortium.names[position])
    assert dispatcher is not None
    for receiver in consortium.names:
        for iteration in range(4) if receiver != consortium.names[position] else ():
            body = bytes(draw.randrange(256) for _ in range(40))
            envelope = Envelope("joint", kind, iteration, 0, body)
            dispatcher.session.post(receiver, envelope.to_bytes())


@pytest.mark.parametrize("kind", ["sum", "heard", "ask", "nonsense"])
@pytest.mark.parametrize("threshold", [None, 3], ids=["all must stay", "one may leave"])
def test_garbage_that_a_member_sends_besides_changes_nothing(kind: str, threshold: int | None) -> None:
    consortium = Consortium(4, threshold, network=RoughNetwork(0, delay_seconds=(0.05, 0.05)))
    consortium.simulation.at(0.01, lambda: say(consortium, 2, kind, 0))
    assert consortium.run()
    check_everyone_right(consortium)


def test_bytes_that_are_no_envelope_are_counted_and_never_asked_for_again() -> None:
    consortium = Consortium(3, None)

    def babble() -> None:
        dispatcher = consortium.simulation.dispatcher(consortium.names[2])
        assert dispatcher is not None
        dispatcher.session.post(consortium.names[0], b"nonsense")

    consortium.simulation.at(0.0, babble)
    assert consortium.run()
    check_everyone_right(consortium)
    dispatchers = [consortium.simulation.dispatcher(name) for name in consortium.names]
    assert dispatchers[0] is not None
    assert dispatchers[0].drops.counts().get((consortium.names[2], "malformed")) == 1
    assert dispatchers[2] is not None
    consortium.simulation.run(lambda: False, 5.0)
    assert dispatchers[2].session.is_settled()


# Randomised schedules


def random_schedule(seed: int) -> Consortium:
    """Anything that can happen at once: a rough network, outages, deaths at random saves, members that never return."""
    draw = random.Random(seed)
    members = draw.choice([2, 3, 4, 4, 5])
    threshold = draw.choice([None, members - 1]) if members >= 4 else None
    start = draw.uniform(0.0, 8.0)
    network = RoughNetwork(
        seed,
        delay_seconds=(0.001, draw.choice([0.01, 0.2, 1.0])),
        lost=draw.choice([0.0, 0.1, 0.3]),
        repeated=draw.choice([0.0, 0.3]),
        truncated=draw.choice([0.0, 0.1]),
        damaged=draw.choice([0.0, 0.1]),
        replayed=draw.choice([0.0, 0.3]),
        outages=draw.choice([(), ((start, start + 5.0),)]),
    )
    consortium = Consortium(
        members,
        threshold,
        lambda position: SteppingWalk(position, 2),
        network,
        silence_seconds=draw.choice([8.0, 20.0]),
        restart_seconds=draw.choice([0.5, 3.0, 30.0]),
    )
    for name in consortium.names:
        deaths = frozenset(draw.randrange(1, 40) for _ in range(draw.choice([0, 0, 1, 3])))
        consortium.stores[name] = CrashingStore(die_at=deaths, after=draw.random() < 0.5)
    return consortium


def check_schedule(seed: int) -> None:
    consortium = random_schedule(seed)
    assert consortium.run(1800.0), f"seed {seed}: neither an answer nor an error"
    results, failures = consortium.results(), consortium.failures()
    for failure in failures.values():
        assert isinstance(failure, SudareError)
        # Votes for a set of whom some have left can be split between attempts: then no total is ever opened.
        allowed = MembersMissing | TaskStopped | NotConnected | SecondTotalRefused
        assert isinstance(failure, allowed), f"seed {seed}: {failure!r}"
    if results:
        check_right(consortium, sorted(results))


@pytest.mark.parametrize("seed", range(24))
def test_a_random_schedule_ends_with_the_right_answer_or_a_clear_error(seed: int) -> None:
    check_schedule(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_two_hundred_and_fifty_more_random_schedules(block: int) -> None:
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        check_schedule(seed)

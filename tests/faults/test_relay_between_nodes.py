"""Sums between members that the relay collects, of whom it or a member is killed at the packets it sends or the states it saves, for a while or for ever.

Time is virtual. Every run ends: those who finish have the same exact totals, and the others a clear error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from sudare.consortium.network.message_dispatch import STOP, Envelope
from sudare.consortium.tasks.relay_sum_collector import CollectedAttempt, RelayedSums
from sudare.consortium.tasks.sum_participant import COLLECT, SUM, Attempt, SumRequest
from sudare.consortium.tasks.sum_script_runner import Total
from sudare.errors import AgreementMismatch, MembersMissing, TaskStopped
from sudare.sums.canonical_encoding import packed, unpacked_as
from sudare.sums.context import NO_HISTORY, RELAY_NAME
from sudare.sums.keys import PublicKeys
from tests.consortium.simulated_consortium import (
    IDENTITIES,
    RELAY,
    Consortium,
    CrashingStore,
    Killed,
    RoughNetwork,
    SteppingWalk,
)
from tests.consortium.simulated_network import GoodNetwork
from tests.consortium.test_dishonest_members import learners
from tests.faults.test_consortium import KillingNetwork, addends_of, check_everyone_right, check_right
from tests.fuzz.test_node_messages import Babble

SILENCE_SECONDS = 10.0


def relayed(
    network: GoodNetwork | RoughNetwork | None = None, sums: int = 2, restart_seconds: float = 1.0, members: int = 4
) -> Consortium:
    return Consortium(
        members,
        members - 1,
        lambda position: SteppingWalk(position, sums),
        GoodNetwork() if network is None else network,
        silence_seconds=SILENCE_SECONDS,
        restart_seconds=restart_seconds,
        relay=RelayedSums,
    )


def test_the_relay_collects_every_sum_and_waits_for_no_deadline() -> None:
    consortium = relayed(sums=10)
    assert consortium.run()
    check_everyone_right(consortium)
    assert consortium.simulation.now < 1.0
    kept = consortium.stores[RELAY_NAME].contents
    # Of a task it keeps the current sum and the one before, and of the last eight what was signed.
    assert set(kept) == {"keys", "sum-0", "sum-1", *(f"transcript-{each:08d}" for each in range(2, 10))}
    assert unpacked_as(CollectedAttempt, kept["sum-1"], SumRequest, Attempt).attempt.iteration == 9


def test_over_a_rough_network() -> None:
    consortium = relayed(RoughNetwork(3, lost=0.1, repeated=0.2, replayed=0.1), sums=3)
    assert consortium.run()
    check_everyone_right(consortium)


@pytest.mark.parametrize("milliseconds", [4, 24])
def test_the_relay_does_not_wait_for_a_member_that_is_there_and_has_stopped(milliseconds: int) -> None:
    """It waited in every sum for what did not come."""
    consortium = relayed(sums=10)
    reason = TaskStopped("It was cancelled.", "Wait.")
    consortium.simulation.at(milliseconds / 1e3, lambda: consortium.runners["member-00"].stop(reason))
    assert consortium.run()
    assert consortium.simulation.now < SILENCE_SECONDS / 2
    assert set(consortium.results()) == {"member-01", "member-02", "member-03"}


def test_what_a_member_said_in_a_sum_before_it_stopped_is_no_sign_that_it_goes_on() -> None:
    """It had come too early, and was kept until the relay began that sum."""
    consortium = relayed(sums=2)
    assert consortium.run()
    relay, request = consortium.collecting, packed(SumRequest(NO_HISTORY, 4))
    for word, is_stopped in (
        (Envelope("joint", STOP), True),
        (Envelope("joint", SUM, 1, body=b"early"), True),
        (Envelope("joint", COLLECT, 1, 0, request), False),
    ):
        relay.receive("member-00", word, 1.0)
        assert ("member-00" in relay._stopped_by) == is_stopped


# The relay is killed


def check_killed_at_packets(first: int, step: int) -> set[str]:
    """The relay, killed at its packet of a number, and away for ever or longer than any deadline; how members ended."""
    seen = set()
    for number in range(first, 1000, step):
        network = KillingNetwork(RELAY_NAME, number)
        consortium = relayed(network, restart_seconds=math.inf)
        assert consortium.run(1800.0), number
        if network.sent < number:
            return seen
        results, failures = consortium.results(), consortium.failures()
        if results:
            check_right(consortium, list(results))
        reasons = [each for each in failures.values() if not isinstance(each, TaskStopped)]
        assert all(isinstance(each, MembersMissing) for each in reasons) or "Nothing was sent" in str(reasons)
        assert not failures or any("relay" in str(each) for each in reasons)
        seen |= {"finished" if results else "none finished"}
    raise AssertionError("It never came to an end.")


def test_a_relay_that_is_gone_for_ever_at_some_of_its_packets_is_named() -> None:
    assert "none finished" in check_killed_at_packets(5, 19)


@pytest.mark.long
def test_a_relay_that_is_gone_for_ever_at_each_of_its_packets_is_named() -> None:
    assert check_killed_at_packets(1, 1) == {"finished", "none finished"}


def check_restarted(first: int, step: int) -> None:
    """Killed at a packet or around a save and restarted within the deadline, a relay goes on, and all is as if it had not been."""
    for number in range(first, 1000, step):
        network = KillingNetwork(RELAY_NAME, number)
        consortium = relayed(network)
        consortium.stores[RELAY_NAME] = CrashingStore(
            die_at=frozenset({2 + number % 11, 20 + number % 17}), after=bool(number % 2)
        )
        assert consortium.run(), number
        check_everyone_right(consortium)
        if network.sent < number:
            return


def test_a_relay_killed_at_some_packets_and_saves_takes_up_again() -> None:
    check_restarted(2, 17)


@pytest.mark.long
def test_a_relay_killed_at_every_packet_takes_up_again() -> None:
    check_restarted(1, 1)


def test_a_task_that_failed_without_its_relay_goes_on_when_both_are_back_and_nobody_pays_twice(tmp_path: Path) -> None:
    accounts, walk = learners(tmp_path, 4, 3)
    network = KillingNetwork(RELAY_NAME, 50)
    consortium = Consortium(4, 3, walk, network, silence_seconds=5.0, restart_seconds=math.inf, relay=RelayedSums)
    assert consortium.run(600.0)
    assert set(consortium.failures()) == set(consortium.names)
    # Charged before the first share of noise, which is in a sum that was not finished.
    assert {account.spent().epsilon for account in accounts} == {5.0}
    for name in (*consortium.names, RELAY_NAME):
        consortium.simulation.kill(name, 1.0)
    consortium.runners.clear()
    assert consortium.run(600.0)
    assert not consortium.failures()
    assert len({each.outcome.parameters.tobytes() for each in consortium.results().values()}) == 1  # type: ignore[attr-defined]
    assert {account.spent().epsilon for account in accounts} == {5.0}


def test_a_relay_that_lost_its_state_between_sums_is_told_anew() -> None:
    consortium = relayed(sums=6)
    simulation = consortium.simulation
    assert simulation.run(lambda: "sum-1" in consortium.stores[RELAY_NAME].contents, 60.0)
    consortium.stores[RELAY_NAME] = CrashingStore()
    simulation.kill(RELAY_NAME)
    assert consortium.run()
    check_everyone_right(consortium)


@dataclass
class RestoredStore(CrashingStore):
    """A folder that at one save is put back to what it was after an earlier one, while the process ends."""

    back_at: int = 0
    back_to: int = 0
    earlier: dict[int, dict[str, bytes]] = field(default_factory=lambda: {0: {}})

    def save(self, name: str, content: bytes) -> None:
        super().save(name, content)
        self.earlier[self.saves] = dict(self.contents)
        if self.saves == self.back_at:
            self.contents = self.earlier[self.back_to]
            raise Killed


def check_restored(cases: Iterable[tuple[int, int]]) -> int:
    """A relay whose folder is an old copy makes an attempt fail at most: no total is over two sets or wrong. How many cases there were."""
    cases = list(cases)
    for at, to in cases:
        consortium = relayed(LateNetwork())
        store = consortium.stores[RELAY_NAME] = RestoredStore(back_at=at, back_to=to)
        assert consortium.run(1800.0), (at, to)
        assert store.saves >= at
        # The relay says other things than it said before; members vote once, and in another attempt say for whom.
        assert set(consortium.results()) == set(consortium.names), (at, to, consortium.failures())
        check_right(consortium, list(consortium.names))
    return len(cases)


@dataclass
class LateNetwork:
    """One member is slower than the others, so that what the relay does next depends on when it looks."""

    def carried(self, sender: str, receiver: str, content: bytes, now: float) -> list[tuple[float, bytes]]:
        return [(now + (0.7 if sender == "member-03" else 0.001), content)]


def test_a_relay_whose_folder_was_put_back_signs_something_else_and_the_next_attempt_is_right() -> None:
    # After the votes of the first or second sum, to when three of four vectors had come; to the sum before; and to nothing.
    assert check_restored([(9, 6), (21, 18), (21, 10), (21, 0)]) == 4


@pytest.mark.long
def test_a_relay_whose_folder_was_put_back_to_any_of_its_copies_opens_nothing_more() -> None:
    assert check_restored((at, to) for at in range(2, 23) for to in range(at)) == 252


# What whoever runs the relay is told


def test_a_relay_says_what_it_waits_for_and_what_came_of_it() -> None:
    consortium = relayed(sums=2, restart_seconds=math.inf)
    simulation, everyone = consortium.simulation, frozenset(consortium.names)
    simulation.at(0.0, partial(simulation.kill, "member-03", math.inf))
    assert simulation.run(lambda: hasattr(consortium, "collecting"), 60.0)
    simulation.run(lambda: False, 2.0)
    told = consortium.collecting.situation(everyone)
    assert told.startswith("the first sum waits until 2 of 4 members ask for the same; so far: ")
    simulation.bring_up("member-03")
    assert simulation.run(lambda: 0 in consortium.collecting._sums, 60.0)
    told = consortium.collecting.situation(everyone - {"member-03"})
    assert told.startswith("sum 1, attempt 1 waits for ")
    assert "member-03 (not connected) and member-0" in told
    assert told.endswith("it needs 3 of 4 members.")
    assert consortium.run()
    told = consortium.collecting.situation(everyone)
    assert told.startswith("sum 2 is done, over 4 of 4 members; no other was asked for since.")
    assert consortium.collecting.notices() == []
    for name in consortium.names[:2]:
        consortium.collecting.receive(name, Envelope("joint", STOP), 1.0)
    told = consortium.collecting.situation(everyone)
    assert told.startswith("member-00, member-01 stopped the task; too few are left")


def test_a_relay_says_that_an_attempt_was_given_up_and_that_its_folder_is_old() -> None:
    consortium = relayed(sums=6)
    simulation = consortium.simulation
    assert simulation.run(lambda: "sum-1" in consortium.stores[RELAY_NAME].contents, 60.0)
    given_up = consortium.collecting._sums[consortium.collecting.iteration]
    given_up._party._collector.stage = "stopped"
    told = consortium.collecting.situation(frozenset(consortium.names))
    assert "attempt 1 was given up: it needs 3 of 4 members" in told
    consortium.stores[RELAY_NAME] = CrashingStore()
    simulation.kill(RELAY_NAME)
    assert consortium.run()
    (notice,) = consortium.collecting.notices()
    assert "and the state folder knows of 0: it is empty, an older copy" in notice
    assert consortium.collecting.notices() == []


# A member is killed


@pytest.mark.parametrize("restart_seconds", [1.0, math.inf], ids=["restarted", "for ever"])
def test_a_member_killed_at_some_of_its_packets(restart_seconds: float) -> None:
    # It has said hello to all by its twentieth packet.
    for number in range(22, 60, 14):
        network = KillingNetwork("member-01", number)
        consortium = relayed(network, restart_seconds=restart_seconds)
        staying = [name for name in consortium.names if restart_seconds == 1.0 or name != "member-01"]
        assert consortium.run(1800.0, *staying)
        assert set(staying) <= set(consortium.results()), consortium.failures()
        check_right(consortium, staying)


def test_an_absent_member_is_waited_for_once_and_not_in_every_sum() -> None:
    consortium = relayed(sums=8, restart_seconds=math.inf)
    consortium.stores["member-03"] = CrashingStore(die_at=frozenset({4}))
    assert consortium.run(600.0, *consortium.names[:3])
    check_right(consortium, list(consortium.names[:3]))
    assert consortium.simulation.now < 3 * SILENCE_SECONDS


@pytest.mark.parametrize("relay", [RelayedSums, None], ids=["relay", "members"])
def test_a_member_that_never_came_is_left_out_after_a_deadline(relay: type[RelayedSums] | None) -> None:
    consortium = Consortium(4, 3, partial(SteppingWalk, sums=3), silence_seconds=SILENCE_SECONDS, relay=relay)
    consortium.simulation.at(0.0, partial(consortium.simulation.kill, "member-03", math.inf))
    staying = consortium.names[:3]
    assert consortium.run(1800.0, *staying)
    assert set(consortium.results()) == set(staying), consortium.failures()
    check_right(consortium, list(staying))
    assert consortium.simulation.now < 3 * SILENCE_SECONDS


@pytest.mark.parametrize("relay", [RelayedSums, None], ids=["relay", "members"])
def test_whoever_shows_other_keys_than_it_signed_is_left_out(relay: type[RelayedSums] | None) -> None:
    consortium = Consortium(4, 3, silence_seconds=SILENCE_SECONDS, relay=relay)

    def lie() -> None:
        dispatcher = consortium.simulation.dispatcher("member-03")
        assert dispatcher is not None
        dispatcher.session.publics = IDENTITIES[5].member_keys(b"test").public

    consortium.simulation.at(0.0, lie)
    staying = consortium.names[:3]
    assert consortium.run(1800.0, *staying)
    assert set(staying) <= set(consortium.results()), consortium.failures()
    check_right(consortium, list(staying))


def test_where_nobody_may_leave_all_are_waited_for_whatever_they_signed() -> None:
    consortium = Consortium(3, silence_seconds=SILENCE_SECONDS, signed=True)
    consortium.simulation.at(0.0, partial(consortium.simulation.kill, "member-02", 5 * SILENCE_SECONDS))
    assert consortium.run()
    check_everyone_right(consortium)


def test_a_member_that_was_away_is_told_the_totals_and_looks_on() -> None:
    consortium = relayed(sums=12, restart_seconds=2 * SILENCE_SECONDS)
    consortium.stores["member-03"] = CrashingStore(die_at=frozenset({9}))
    assert consortium.run()
    check_everyone_right(consortium)
    contents = consortium.stores["member-00"].contents
    included = [unpacked_as(Total, contents[f"total-{each:08d}"]).included for each in range(12)]
    assert included[-1] == frozenset({0, 1, 2})


class ExactWalk(SteppingWalk):
    """Totals without noise: all sums are over the members of the first."""

    is_exact = True


@pytest.mark.parametrize("relay", [RelayedSums, None], ids=["relay", "members"])
def test_exact_sums_wait_for_a_member_that_is_away_for_longer_than_a_deadline(relay: type[RelayedSums] | None) -> None:
    consortium = Consortium(
        4, 3, lambda position: ExactWalk(position, 3), GoodNetwork(0.05), SILENCE_SECONDS, relay=relay
    )
    simulation = consortium.simulation

    def are_in_second_sum() -> bool:
        return all(name in consortium.runners and consortium.runners[name].iteration == 1 for name in consortium.names)

    assert simulation.run(are_in_second_sum, 60.0)
    simulation.kill("member-03", 1.6 * SILENCE_SECONDS)
    assert consortium.run()
    check_everyone_right(consortium)
    contents = consortium.stores["member-00"].contents
    assert {unpacked_as(Total, contents[f"total-{each:08d}"]).included for each in range(3)} == {frozenset(range(4))}


def test_an_exact_task_that_failed_without_a_member_goes_on_when_it_is_run_again() -> None:
    consortium = Consortium(
        4, 3, lambda position: ExactWalk(position, 3), GoodNetwork(0.05), SILENCE_SECONDS, relay=RelayedSums
    )
    simulation = consortium.simulation
    assert simulation.run(lambda: "total-00000000" in consortium.stores["member-00"].contents, 60.0)
    simulation.kill("member-03", math.inf)
    assert consortium.run(1800.0, *consortium.names[:3])
    assert not consortium.results()
    assert any("missing: 'member-03'" in str(each) for each in consortium.failures().values())
    consortium.runners.clear()
    for name in (*consortium.names, RELAY_NAME):
        simulation.kill(name, 1.0)
    assert consortium.run()
    check_everyone_right(consortium)


# What single members say to the relay, and the relay beside sums


def told(consortium: Consortium, sender: str, receivers: tuple[str, ...], *envelopes: Envelope) -> None:
    dispatcher = consortium.simulation.dispatcher(sender)
    assert dispatcher is not None
    for receiver in receivers:
        for envelope in envelopes:
            dispatcher.session.post(receiver, envelope.to_bytes())


@pytest.mark.parametrize(
    "lies",
    [
        [Envelope("joint", COLLECT, sum_, 2**40, packed(SumRequest(NO_HISTORY, 4))) for sum_ in range(4)],
        [Envelope("joint", COLLECT, sum_, 0, packed(SumRequest(bytes([7]) * 32, 9))) for sum_ in (0, 1, 2, 2**50)],
        [Envelope("joint", COLLECT, 0, 0, packed(SumRequest(NO_HISTORY, 2**60))), Envelope("joint", COLLECT, 0, 0, b"x")],
        [Envelope("joint", STOP), Envelope("joint", "ask", 3), Envelope("joint", "sum", 0, 0, b"garbage")],
    ],
    ids=["later attempts", "another history and length", "no requests", "other words"],
)  # fmt: skip
def test_what_one_member_asks_of_the_relay_changes_nothing(lies: list[Envelope]) -> None:
    consortium = relayed(sums=4)
    for milliseconds in range(1, 40, 2):
        consortium.simulation.at(milliseconds / 1e3, partial(told, consortium, "member-01", (RELAY_NAME,), *lies))
    assert consortium.run()
    check_everyone_right(consortium)


def test_nothing_that_a_relay_says_beside_sums_counts_beside_as_many_members_as_may_lie() -> None:
    """One member may: with the relay they would be one too many for attempts and totals, if it counted."""
    consortium = relayed(sums=4)
    lie = packed(Total(SteppingWalk(0).addend(0, 0, 99), frozenset({0, 1, 2})))
    words = [Envelope("joint", "heard", sum_, body=lie) for sum_ in range(4)]
    words += [Envelope("joint", kind, sum_, 2**40) for kind in ("ask", "sum") for sum_ in range(4)]
    others = ("member-00", "member-02", "member-03")
    for milliseconds in range(1, 40, 2):
        for liar in (RELAY_NAME, "member-01"):
            consortium.simulation.at(milliseconds / 1e3, partial(told, consortium, liar, others, *words))
    assert consortium.run()
    check_everyone_right(consortium)
    assert consortium.simulation.now < 2.0


def test_a_relay_that_stops_for_good_ends_the_task() -> None:
    consortium = relayed(sums=4)
    consortium.simulation.at(0.01, lambda: consortium.collecting.stop(TaskStopped("Disk full.", "Make room.")))
    assert consortium.run(600.0)
    assert not consortium.results()
    assert any(isinstance(each, MembersMissing) for each in consortium.failures().values())


def test_a_relay_that_says_it_stops_and_collects_is_there() -> None:
    consortium = relayed(sums=4)
    for milliseconds in range(0, 40, 2):
        stop = partial(told, consortium, RELAY_NAME, consortium.names, Envelope("joint", STOP))
        consortium.simulation.at(milliseconds / 1e3, stop)
    assert consortium.run()
    check_everyone_right(consortium)
    assert consortium.simulation.now < 1.0


def test_a_member_with_another_agreement_does_not_stop_the_relay() -> None:
    consortium = relayed(sums=4)
    mismatch = AgreementMismatch("member-03 holds another agreement.", "Compare them.")
    consortium.simulation.at(0.01, lambda: consortium.collecting.stop(mismatch))
    assert consortium.run()
    check_everyone_right(consortium)


def test_keys_that_no_sum_can_be_made_with_are_not_kept() -> None:
    consortium = relayed()
    copied = IDENTITIES[0].member_keys(b"test").public

    def lie() -> None:
        dispatcher = consortium.simulation.dispatcher(RELAY_NAME)
        assert dispatcher is not None
        # A life whose first hello has them: those of a later one would not be looked at.
        dispatcher.session.publics, dispatcher.session._incarnation = copied, os.urandom(16)

    consortium.simulation.at(0.0, lie)
    consortium.run(600.0)
    assert set(consortium.failures()) == set(consortium.names)
    assert not any("keys" in consortium.stores[name].contents for name in consortium.names)


def public_of(position: int) -> PublicKeys:
    return IDENTITIES[position].member_keys(b"test").public


def test_keys_that_are_shown_later_are_not_those_of_the_task() -> None:
    """Keys A, then B, then A again would have members mask one input twice with the same secrets."""
    consortium = relayed(LateNetwork())
    simulation = consortium.simulation
    assert simulation.run(lambda: all("sum-0" in consortium.stores[name].contents for name in consortium.names), 60.0)
    for name in consortium.names:
        runner = consortium.runners[name]
        known = {**runner._known(), RELAY_NAME: public_of(9)}
        runner._known = lambda known=known: known
        runner.tick(simulation.now, frozenset(consortium.names))
        assert runner._publics is not None
        assert runner._publics[-1] == RELAY.member_keys(b"test").public


def test_wrong_keys_that_a_relay_showed_first_end_the_task_and_open_nothing() -> None:
    """Well-formed, of nobody else, and not those that it signs with."""
    consortium = relayed()

    def lie() -> None:
        dispatcher = consortium.simulation.dispatcher(RELAY_NAME)
        assert dispatcher is not None
        dispatcher.session.publics = public_of(9)

    consortium.simulation.at(0.0, lie)
    consortium.run(1800.0)
    assert not consortium.results()
    reasons = [str(each) for each in consortium.failures().values() if isinstance(each, MembersMissing)]
    assert all("the relay, which collects them, is there and finished none" in each for each in reasons)
    assert reasons


def test_whatever_one_member_sends_the_relay_collects_on() -> None:
    consortium = relayed(sums=3)
    babble = Babble(5)

    def talk() -> None:
        dispatcher = consortium.simulation.dispatcher("member-01")
        if dispatcher is not None:
            kind, sum_ = babble.random.choice([SUM, COLLECT, STOP, "ask"]), babble.random.choice([0, 1, 2, 2**50])
            envelope = Envelope("joint", kind, sum_, babble.random.choice([0, 1, 2**50]), babble.body())
            dispatcher.session.post(RELAY_NAME, envelope.to_bytes())

    for step in range(300):
        consortium.simulation.at(step / 5e3, talk)
    assert consortium.run()
    # The member itself is heard as a liar is; the others finish, with it or without.
    assert set(consortium.results()) >= {"member-00", "member-02", "member-03"}
    check_right(consortium, list(consortium.results()))
    assert consortium.collecting.failure is None
    dispatcher = consortium.simulation.dispatcher(RELAY_NAME)
    assert dispatcher is not None
    assert not dispatcher.drops.new_places()


def test_no_addend_is_in_what_a_relay_keeps() -> None:
    consortium = relayed(sums=2)
    assert consortium.run()
    kept = b"".join(consortium.stores[RELAY_NAME].contents.values())
    for iteration in range(2):
        addends = addends_of(consortium, iteration)
        assert len(addends) == 4
        assert not any(addend.tobytes() in kept for addend in addends.values())
        # Totals are.
        total = unpacked_as(Total, consortium.stores["member-00"].contents[f"total-{iteration:08d}"])
        assert total.words.tobytes() in kept

"""What a dishonest member wants with the numbers of calls: to have an honest one's word that it stopped taken for an old one, so that others wait for it."""

from __future__ import annotations

from functools import partial

from sudare.consortium.network.message_dispatch import ASKED, STOP, Envelope, MessageDispatcher
from sudare.consortium.tasks.relay_sum_collector import RelayedSums
from sudare.errors import TaskStopped
from sudare.sums.context import RELAY_NAME
from tests.consortium.network.test_asking import Begun, Waiting, exchanged
from tests.consortium.simulated_consortium import Consortium, SteppingWalk, names_of, session_of

EAST, NORTH, LIAR = names_of(3)
NOW = 1.7e9
A_HUNDRED_YEARS = 100 * 366 * 86_400.0


def three(*clocks: float) -> tuple[MessageDispatcher, MessageDispatcher, MessageDispatcher]:
    """Three members that have met, whose clocks are so many seconds ahead."""
    first, second, third = (
        MessageDispatcher(session_of(at, 3), ["risk"], time_of_day=lambda clock=clock: NOW + clock)
        for at, clock in enumerate(clocks)
    )
    for now in (0.0, 2.0, 4.0):
        for pair in ((first, second), (first, third), (second, third)):
            exchanged(*pair, now)
    return first, second, third


def test_have_the_relay_wait_in_every_sum_for_a_member_that_has_stopped() -> None:
    """The liar says to the relay that it stops under a later call than there was: the word of an honest one would be from before it."""
    consortium = Consortium(4, 3, partial(SteppingWalk, sums=40), silence_seconds=10.0, relay=RelayedSums)
    simulation, stopping = consortium.simulation, consortium.names[0]

    def lie() -> None:
        dispatcher = simulation.dispatcher(consortium.names[3])
        assert dispatcher is not None
        dispatcher.session.post(RELAY_NAME, Envelope("joint", STOP, 2**40).to_bytes())

    def cancel() -> None:
        dispatcher = simulation.dispatcher(stopping)
        assert dispatcher is not None
        dispatcher._note_call(Envelope("joint", ASKED, 2**39))
        consortium.runners[stopping].stop(TaskStopped("It was cancelled.", "Wait."))

    simulation.at(0.003, lie)
    simulation.at(0.020, cancel)
    assert consortium.run()
    assert set(consortium.results()) == set(consortium.names[1:])
    # A deadline for each of the two, and not a part of one in each sum.
    assert simulation.now < 30.0


def test_have_a_stop_taken_for_an_old_one_by_a_number_that_only_the_faster_of_two_clocks_can_have_given() -> None:
    east, north, liar = three(60.0, 0.0, 0.0)
    east.ask("risk", [NORTH, LIAR])
    exchanged(east, north, 5.0)
    activity = Begun(EAST, NORTH, LIAR)
    east.start(activity, 5.0)
    beyond = int(1000 * (NOW + A_HUNDRED_YEARS + 30.0))
    liar.session.post(EAST, Envelope("risk", ASKED, beyond).to_bytes())
    exchanged(east, liar, 6.0)
    assert east._calls["risk"] == beyond
    north.refuse("risk", [EAST], 7.0)
    for now in (8.0, 9.0, 10.0):
        exchanged(east, north, now)
    assert isinstance(activity.failure, TaskStopped)


def test_use_up_the_second_call_of_a_member_whose_clock_was_set_back() -> None:
    """One call answers each of the others: after the liar's word a member that goes on gladly would be taken for one that has stopped."""
    east, north, liar = three(-3600.0, 0.0, 0.0)
    stopped = Waiting(TaskStopped("For others.", "Wait."))
    north._note_call(Envelope("risk", ASKED, int(1000 * NOW)))
    north.start(stopped, 5.0)
    east.ask("risk", [NORTH, LIAR])
    activity = Begun(EAST, NORTH, LIAR)
    east.start(activity, 5.0)
    liar.session.post(EAST, Envelope("risk", STOP, east._calls["risk"] + 1).to_bytes())
    exchanged(east, liar, 6.0)
    for now in (8.0, 9.0, 10.0):
        exchanged(east, north, now)
    assert activity.failure is None
    assert north.wanted([EAST]) == {"risk"}


def test_have_a_member_forget_the_numbers_of_calls_by_calling_many_tasks() -> None:
    """There are no more than the agreement has."""
    names = [f"task-{number}" for number in range(300)]
    dispatcher = MessageDispatcher(session_of(0, 2), names)
    for name in names:
        dispatcher._note_call(Envelope(name, ASKED, 7))
    assert dispatcher._is_before_last_call(Envelope(names[-1], STOP, 6))

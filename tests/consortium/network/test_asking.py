"""Members are told of a task before anybody has something to say in it, so that all get ready at once."""

from __future__ import annotations

import pytest

from sudare.consortium.network.message_dispatch import (
    ASKED,
    STOP,
    Activity,
    Envelope,
    MessageDispatcher,
    stopped_by,
)
from sudare.consortium.network.session import Delivery
from sudare.consortium.network.transport.base import Packet
from sudare.errors import ConsortiumError, MembersMissing, NotConnected, SudareError, TaskStopped
from sudare.sums.context import RELAY_NAME
from tests.consortium.simulated_consortium import names_of, session_of

FIRST, SECOND = names_of(2)


def exchanged(first: MessageDispatcher, second: MessageDispatcher, now: float) -> None:
    for _ in range(4):
        for one, other in ((first, second), (second, first)):
            for receiver, content in list(one.due(now)):
                if receiver == other.session.name:
                    other.receive(Packet(one.session.name, content), now)


def pair(*tasks: str) -> tuple[MessageDispatcher, MessageDispatcher]:
    first, second = (MessageDispatcher(session_of(at, 2), tasks) for at in range(2))
    exchanged(first, second, 0.0)
    return first, second


def test_a_task_that_is_asked_for_is_wanted_and_nothing_is_kept_for_it() -> None:
    first, second = pair("risk")
    first.ask("risk", [SECOND])
    exchanged(first, second, 1.0)
    exchanged(first, second, 1.5)
    assert second.wanted([FIRST]) == {"risk"}
    assert second.wanted([SECOND]) == frozenset()
    assert second.held_bytes == 0
    assert first.session.is_settled()


def test_only_tasks_of_the_agreement_are_asked_for_and_the_word_has_no_content() -> None:
    first, second = pair("risk")
    first.ask("other", [SECOND])
    first.session.post(SECOND, Envelope("risk", ASKED, body=b"more").to_bytes())
    exchanged(first, second, 1.0)
    assert second.wanted([FIRST]) == frozenset()
    assert second.drops.by_reason() == {"too-large": 1, "unknown-task": 1}


def test_who_refused_a_task_says_so_when_it_is_asked() -> None:
    first, second = pair("risk")
    second.refuse("risk", [], 0.5)
    first.ask("risk", [SECOND])
    exchanged(first, second, 1.0)
    assert second.wanted([FIRST]) == frozenset()
    assert first._stops[SECOND]["risk"].kind == STOP


def test_a_member_that_asks_for_ever_other_tasks_is_heard_so_often() -> None:
    first, second = (MessageDispatcher(session_of(at, 2)) for at in range(2))
    exchanged(first, second, 0.0)
    for number in range(400):
        first.ask(f"task-{number}", [SECOND])
    exchanged(first, second, 1.0)
    assert len(second.wanted([FIRST])) == 256
    assert second.drops.by_reason() == {"over-quota": 144}


class Waiting(Activity):
    """A task that was stopped and, as all are, answers whoever speaks of it with a STOP."""

    finished = False

    def __init__(self, failure: SudareError) -> None:
        super().__init__("risk", SECOND, (FIRST, SECOND), 60.0)
        self.failure = failure

    def begin(self, now: float) -> None:
        """Nothing to do."""

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Take nothing in."""
        if envelope.kind != STOP:
            self._posts.append((sender, Envelope(self.task, STOP)))
        return True

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Wait."""


class Running(Waiting):
    """A task that runs, and notes who says that it has stopped."""

    def __init__(self) -> None:
        super().__init__(TaskStopped("None.", "None."))
        self.failure: SudareError | None = None
        self.stopped_by: list[str] = []

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Note a STOP."""
        if envelope.kind == STOP:
            self.stopped_by.append(sender)
        return True


@pytest.mark.parametrize("is_told_first", [True, False], ids=["then the call", "after the call"])
def test_who_stopped_without_having_heard_of_a_later_call_is_asked_again(is_told_first: bool) -> None:
    first, second = pair("risk")
    second.refuse("risk", [], 0.5)
    # The second member hears of this call only once it is asked again; that of a third one is later, and only the first has heard of it.
    first.ask("risk", [])
    called = first._calls["risk"]
    stop = Envelope("risk", STOP, called)
    if is_told_first:
        assert first._offer(Delivery(SECOND, stop.to_bytes(), b"", 0), stop, 1.0)
        first._note_call(Envelope("risk", ASKED, called + 5))
    else:
        first._note_call(Envelope("risk", ASKED, called + 5))
        assert first._offer(Delivery(SECOND, stop.to_bytes(), b"", 0), stop, 1.0)
    running = Running()
    first.start(running, 1.5)
    exchanged(first, second, 2.0)
    assert running.stopped_by == [SECOND]


def asked_again(failure: SudareError, *, is_refused: bool = False) -> tuple[MessageDispatcher, MessageDispatcher]:
    """The first member begins a task again, and says its first word in it, that has ended at the second one so."""
    first, second = pair("risk")
    second.start(Waiting(failure), 0.5)
    if is_refused:
        second.refuse("risk", [], 0.5)
    first.ask("risk", [SECOND])
    first.session.post(SECOND, Envelope("risk", "ask").to_bytes())
    exchanged(first, second, 1.0)
    return first, second


@pytest.mark.parametrize("kind", [TaskStopped, MembersMissing, NotConnected])
def test_who_stopped_because_of_others_goes_on_with_them_and_does_not_stop_them(kind: type[SudareError]) -> None:
    first, second = asked_again(kind("For others.", "Wait."))
    assert second.wanted([FIRST]) == {"risk"}
    assert first._stops.get(SECOND, {}) == {}


@pytest.mark.parametrize(("kind", "is_refused"), [(ConsortiumError, False), (TaskStopped, True)])
def test_who_stopped_for_a_reason_of_its_own_or_refuses_says_so_again(
    kind: type[SudareError], is_refused: bool
) -> None:
    first, second = asked_again(kind("For itself.", "Mend it."), is_refused=is_refused)
    assert second.wanted([FIRST]) == frozenset()
    assert first._stops[SECOND]["risk"].kind == STOP


@pytest.mark.parametrize(
    ("failure", "is_refused", "said"), [(TaskStopped, False, 1), (TaskStopped, True, 0), (MembersMissing, False, 0)]
)
def test_who_stopped_because_another_had_says_so_and_who_cancels_does_not(
    failure: type[SudareError], is_refused: bool, said: int
) -> None:
    """Else it would be taken for who stopped first."""
    first, second = pair("risk")
    second.start(Waiting(failure("A word.", "Wait.")), 0.5)
    if is_refused:
        second.refuse("risk", [], 0.5)
    first.session.post(SECOND, Envelope("risk", "ask").to_bytes())
    exchanged(first, second, 1.0)
    stop = first._stops[SECOND]["risk"]
    assert stop == Envelope("risk", STOP, 0, said)
    named = str(stopped_by("'member-01'", stop))
    assert named.startswith("'member-01' stopped the task")
    assert ("because another member had" in named) == bool(said)


def test_words_of_a_task_that_is_begun_again_here_wait_for_it() -> None:
    first, second = pair("risk")
    second.start(Waiting(ConsortiumError("For itself.", "Mend it.")), 0.5)
    second.forget("risk")
    first.session.post(SECOND, Envelope("risk", "ask").to_bytes())
    exchanged(first, second, 1.0)
    assert second.wanted([FIRST]) == {"risk"}
    assert first._stops.get(SECOND, {}) == {}


def test_a_relay_that_asks_lets_nothing_go_on_that_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no member: what it says begins nothing, and those that speak of the task are told that it is stopped here."""
    first, second = pair("risk")
    second.start(Waiting(TaskStopped("For others.", "Wait.")), 0.5)
    delivery = Delivery(RELAY_NAME, Envelope("risk", ASKED).to_bytes(), b"", 0)
    with monkeypatch.context() as patched:
        patched.setattr(second.session, "acknowledge", lambda delivery: None)
        assert second._offer(delivery, Envelope("risk", ASKED), 0.6)
    first.session.post(SECOND, Envelope("risk", "ask").to_bytes())
    exchanged(first, second, 1.0)
    assert second.wanted([FIRST]) == frozenset()
    assert first._stops[SECOND]["risk"].kind == STOP


# Which call of a task a STOP is about


class Begun(Activity):
    """A task that goes on until somebody stops it."""

    finished = False

    def __init__(self, name: str, *others: str) -> None:
        super().__init__("risk", name, (name, *others), 60.0)

    def begin(self, now: float) -> None:
        """Nothing to do."""

    def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
        """Only stops count."""
        if envelope.kind == STOP and self.failure is None:
            self.failure = TaskStopped(f"'{sender}' stopped the task.", "Wait.")
        return True

    def tick(self, now: float, present: frozenset[str]) -> None:
        """Wait."""


def handed_over(dispatcher: MessageDispatcher, envelope: Envelope, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a message of the other member be the next one that comes, whenever it was sent."""
    with monkeypatch.context() as patched:
        patched.setattr(dispatcher.session, "acknowledge", lambda delivery: None)
        assert dispatcher._offer(Delivery(SECOND, envelope.to_bytes(), b"", 0), envelope, 1.0)


def said(dispatcher: MessageDispatcher) -> list[Envelope]:
    """What waits to be sent to the other member."""
    return [Envelope.from_bytes(each.content) for each in dispatcher.session._peers[SECOND].waiting]


def test_a_stop_from_before_a_later_call_does_not_end_what_was_begun_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever comes first: what was lost on the way is said again seconds later, in another order."""
    dispatcher = MessageDispatcher(session_of(0, 2), ["risk"])
    handed_over(dispatcher, Envelope("risk", ASKED, 8), monkeypatch)
    activity = Begun(FIRST, SECOND)
    dispatcher.start(activity, 1.0)
    handed_over(dispatcher, Envelope("risk", STOP, 7), monkeypatch)
    assert activity.failure is None
    # Who has not heard of the call is told of it, and says so if it has stopped all the same.
    assert said(dispatcher)[-1] == Envelope("risk", ASKED, 8)
    handed_over(dispatcher, Envelope("risk", STOP, 8), monkeypatch)
    assert isinstance(activity.failure, TaskStopped)


def test_a_stop_that_was_heard_before_a_task_is_called_again_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is started again hears that the others had given up, and calls them."""
    dispatcher = MessageDispatcher(session_of(0, 2), ["risk"], time_of_day=lambda: 5.0)
    handed_over(dispatcher, Envelope("risk", STOP, 9000), monkeypatch)
    dispatcher.ask("risk", [SECOND])
    assert said(dispatcher) == [Envelope("risk", ASKED, 9001)]
    activity = Begun(FIRST, SECOND)
    dispatcher.start(activity, 1.0)
    assert activity.failure is None


@pytest.mark.parametrize("number", [0, 6000])
def test_a_stop_that_names_no_call_or_the_present_one_counts_when_the_task_is_begun(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = MessageDispatcher(session_of(0, 2), ["risk"], time_of_day=lambda: 6.0)
    dispatcher.ask("risk", [SECOND])
    handed_over(dispatcher, Envelope("risk", STOP, number), monkeypatch)
    activity = Begun(FIRST, SECOND)
    dispatcher.start(activity, 1.0)
    assert isinstance(activity.failure, TaskStopped)


def test_a_member_whose_clock_was_set_back_calls_once_more_and_no_oftener(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = MessageDispatcher(session_of(0, 2), ["risk"], time_of_day=lambda: 5.0)
    dispatcher.ask("risk", [SECOND])
    activity = Begun(FIRST, SECOND)
    dispatcher.start(activity, 1.0)
    handed_over(dispatcher, Envelope("risk", STOP, 9000), monkeypatch)
    assert [each.iteration for each in said(dispatcher)] == [5000, 9001]
    assert activity.failure is None
    handed_over(dispatcher, Envelope("risk", STOP, 2**53), monkeypatch)
    assert isinstance(activity.failure, TaskStopped)


@pytest.mark.parametrize("kind", [ASKED, STOP])
def test_a_number_that_no_clock_can_have_given_counts_as_none_and_nobody_is_kept_from_going_on(kind: str) -> None:
    """A dishonest member says the largest one to all, so that no later call could be told from it, and is silent since."""
    names = names_of(3)
    first, second, liar = (MessageDispatcher(session_of(at, 3), ["risk"]) for at in range(3))
    pairs = (first, second), (first, liar), (second, liar)
    for now in (0.0, 2.0, 4.0):
        for each in pairs:
            exchanged(*each, now)
    for one in (first, second):
        liar.session.post(one.session.name, Envelope("risk", kind, 2**53).to_bytes())
        exchanged(one, liar, 5.0)
        assert "risk" in (one._asked if kind == ASKED else one._stops[names[2]])
    second.start(Waiting(TaskStopped("For others.", "Wait.")), 6.0)
    first.ask("risk", [SECOND])
    exchanged(first, second, 7.0)
    assert second.wanted([FIRST]) == {"risk"}
    assert first._stops.get(SECOND, {}) == {}


def test_calls_and_stops_of_one_task_are_not_taken_for_the_same_message() -> None:
    """Where the line is down, what is asked for, stopped and asked for again is said in this order when it is up."""
    first, _ = pair("risk")
    for _ in range(2):
        first.ask("risk", [SECOND])
        first.refuse("risk", [SECOND], 1.0)
    first.forget("risk")
    first.ask("risk", [SECOND])
    told = said(first)
    assert [each.kind for each in told] == [ASKED, STOP, ASKED, STOP, ASKED]
    assert [each.iteration for each in told] == sorted(each.iteration for each in told)


def test_what_comes_too_early_for_a_task_that_stopped_waits_for_its_next_life_and_its_sender_is_told_once() -> None:
    first, second = pair("risk")

    class Stopped(Waiting):
        def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
            return envelope.kind == STOP

    second.start(Stopped(TaskStopped("For others.", "Wait.")), 0.5)
    first.session.post(SECOND, Envelope("risk", "sum", body=b"vector").to_bytes())
    for now in (1.0, 1.5, 2.0, 2.5):
        second.tick(now)
        exchanged(first, second, now)
    assert second.held_bytes > 0
    assert first._stops[SECOND]["risk"].kind == STOP
    assert not said_to(second, FIRST)
    first.ask("risk", [SECOND])
    exchanged(first, second, 3.0)
    heard: list[str] = []

    class Next(Begun):
        def receive(self, sender: str, envelope: Envelope, now: float) -> bool:
            heard.append(envelope.kind)
            return True

    second.start(Next(SECOND, FIRST), 3.5)
    assert heard == ["sum"]


def said_to(dispatcher: MessageDispatcher, name: str) -> list[bytes]:
    return [each.content for each in dispatcher.session._peers[name].waiting]


def test_numbers_of_calls_are_kept_for_so_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = MessageDispatcher(session_of(0, 2))
    for number in range(400):
        handed_over(dispatcher, Envelope(f"task-{number}", ASKED, 1), monkeypatch)
    assert len(dispatcher._calls) == 256

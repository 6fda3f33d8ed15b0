"""Members are told of a task before anybody has something to say in it, so that all get ready at once."""

from __future__ import annotations

import pytest

from sudare.consortium.network.message_dispatch import ASKED, STOP, Activity, Envelope, MessageDispatcher
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

"""One of five is gone, and four must stay; one of these has heard a total, and computes before its word about that total has left its machine.

Time is virtual.
"""

from __future__ import annotations

import pytest

from sudare.array_types import Words
from sudare.joint.sum_script import Finished
from tests.consortium.simulated_consortium import Consortium, SteppingWalk
from tests.consortium.simulated_network import GoodNetwork
from tests.faults.test_consortium import check_right

GONE, SILENT, COLLECTOR = "member-03", "member-04", "member-02"
STAYING = ["member-00", "member-01", COLLECTOR, SILENT]


class Silence(GoodNetwork):
    """One member is gone after the first total; another says nothing from a moment on, for some seconds."""

    def __init__(self, since: float = float("inf"), seconds: float = 0.0) -> None:
        super().__init__()
        self.since, self.seconds, self.is_gone = since, seconds, False

    def carried(self, sender: str, receiver: str, content: bytes, now: float) -> list[tuple[float, bytes]]:
        is_silent = sender == SILENT and self.since <= now < self.since + self.seconds
        if is_silent or (self.is_gone and GONE in (sender, receiver)):
            return []
        # What the last sum's collector says comes after what the others say about it.
        slow = 0.1 if (sender, receiver) == (COLLECTOR, SILENT) else 0.0
        return [(time + slow, each) for time, each in super().carried(sender, receiver, content, now)]


def among(network: Silence) -> tuple[Consortium, list[float]]:
    """Members, and the times at which the silent one hears totals."""
    times: list[float] = []

    class Walk(SteppingWalk):
        def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
            network.is_gone = True
            if self.position == 4:
                times.append(consortium.simulation.now)
            return super().step(state, total, included)

    consortium = Consortium(5, 4, lambda position: Walk(position, 3), network, silence_seconds=10.0)
    return consortium, times


@pytest.mark.parametrize("seconds", [5.0, 25.0, 70.0])
def test_a_word_that_comes_when_the_others_have_given_up_counts_when_they_run_the_task_again(seconds: float) -> None:
    consortium, times = among(Silence())
    assert consortium.run(3000.0, *STAYING)
    consortium, _ = among(Silence(times[-1] - 0.05, seconds))
    assert consortium.run(3000.0, *STAYING)
    assert (len(consortium.results()) == 4) == (seconds < 10.0)
    consortium.simulation.run(lambda: False, 100.0)
    for name in set(consortium.failures()) & set(STAYING):
        del consortium.runners[name]
        consortium.simulation.kill(name, 1.0)
    assert consortium.run(3000.0, *STAYING)
    check_right(consortium, STAYING)

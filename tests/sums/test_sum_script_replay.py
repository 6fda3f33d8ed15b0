"""Scripts of sums with a memory: the same question after the same totals, whatever was asked before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sudare.errors import ImplausibleTotal, NotSolved
from sudare.sums.sum_script_replay import ScriptReplay


@dataclass(frozen=True)
class Asked:
    text: str

    def received(self, total):
        if total[0] < 0:
            raise ImplausibleTotal("A total is negative.", "Ask the members.")
        return 2 * total


def script():
    begun.append(1)
    heard = ""
    for _ in range(3):
        total = yield Asked(heard)
        heard += f"{total[0]:g} "
    return heard


begun: list[int] = []


def totals(*numbers):
    return tuple(np.array([float(number)]) for number in numbers)


def test_what_follows_depends_on_the_totals_alone():
    begun.clear()
    replay = ScriptReplay(script)
    assert replay.after(()) == Asked("")
    assert replay.after(totals(1)) == Asked("2 ")
    assert replay.after(totals(1, 2)) == Asked("2 4 ")
    # The last two are at hand, and the way on is not begun anew.
    assert replay.after(totals(1)) == Asked("2 ")
    assert replay.after(totals(1, 2)) == Asked("2 4 ")
    assert replay.after(totals(1, 2, 3)) == "2 4 6 "
    assert replay.after(totals(1, 2)) == Asked("2 4 ")
    assert len(begun) == 1
    assert replay.after(totals(5, 2)) == Asked("10 4 ")
    assert replay.after(()) == Asked("")
    assert len(begun) == 3


def test_a_total_that_is_refused_leaves_no_trace():
    replay = ScriptReplay(script)
    replay.after(totals(1))
    for _ in range(2):
        with pytest.raises(ImplausibleTotal):
            replay.after(totals(1, -1))
    assert replay.after(totals(1, 2)) == Asked("2 4 ")


def test_a_total_after_the_end_is_refused():
    replay = ScriptReplay(script)
    with pytest.raises(NotSolved, match="ended"):
        replay.after(totals(1, 2, 3, 4))

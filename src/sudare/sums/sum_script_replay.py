"""A training as a script of sums: a generator that yields questions and is sent totals, with a memory of where it is.

The script is deterministic, so that the totals heard so far lead every member, and a member that was started again, to the same
next question.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.errors import NotSolved


class SumQuestion(Protocol):
    """A question whose answer is a sum over all members."""

    def received(self, total: Any) -> Any:
        """What the script is sent for a total. Raise ImplausibleTotal where a total cannot be."""


Question = TypeVar("Question", bound=SumQuestion)
Result = TypeVar("Result")


class ScriptReplay(Generic[Question, Result]):
    """The question that follows the totals heard so far, or the script's result after the last."""

    def __init__(self, script: Callable[[], Generator[Question, Any, Result]]) -> None:
        self._script = script
        self._heard: tuple[NDArray[Any], ...] | None = None
        self._question: Question | None = None
        self._before: Question | None = None

    def after(self, heard: tuple[NDArray[Any], ...]) -> Question | Result:
        """What follows these totals. The last two answers are at hand; the script goes on from the last, or is replayed."""
        known = self._heard
        if known is not None and self._before is not None and _is_same(heard, known[:-1]):
            return self._before
        self._heard = None
        if known is None or not _is_same(heard[: len(known)], known):
            known, self._before, self._running = (), None, self._script()
            self._question = next(self._running)
        for total in heard[len(known) :]:
            self._send(total)
        self._heard = heard
        return self._result if self._question is None else self._question

    def kept(self, heard: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
        """What leads to the same question as these totals: all of them."""
        return heard

    def _send(self, total: NDArray[Any]) -> None:
        if self._question is None:
            raise NotSolved("A total arrived after the training had ended.", "Begin a new training.")
        received = self._question.received(total)
        try:
            self._before, self._question = self._question, self._running.send(received)
        except StopIteration as end:
            self._before, self._question, self._result = self._question, None, end.value


def _is_same(first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]]) -> bool:
    """Whether both hold equal totals; mostly they hold the very same ones, which is quick to see."""
    if len(first) != len(second):
        return False
    return all(map(operator.is_, first, second)) or all(map(np.array_equal, first, second))

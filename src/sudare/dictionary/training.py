"""A whole training: the script that all members follow, and one member's walk through it.

`begun` and `step` are what a network drives: state and total in, state and addend out. The state holds what the member has
heard (totals, the same for all) and what is its own (weights that nobody else sees). A member that was stopped takes its
state from disk and goes on: the script is deterministic, so the totals that were heard lead to the same next question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import numpy as np

from sudare.dictionary.em import Ground, Script, Terms, implausible, opened
from sudare.dictionary.exact_training_member import needed_weights
from sudare.dictionary.families import Family, Floats, Frame, Overall, Patterns
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_records import Records
from sudare.dictionary.pattern_selection import refined, searched
from sudare.dictionary.sum_answers import answered
from sudare.dictionary.sum_questions import Branch, Own, Question, Vetoes
from sudare.errors import NotSolved
from sudare.privacy.noise import NoiseSource

Sum = Callable[[Sequence[Floats]], Sequence[Floats]]
_LESS_THAN_A_VETO: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Dictionary:
    """What a training ends with, the same at every member: patterns, and how they were found."""

    family: Family
    patterns: Patterns
    frame: Frame
    overall: Overall
    counts: Floats
    branch: Branch
    history: tuple[float, ...]

    def natural(self) -> Patterns:
        """The patterns in the units of the columns."""
        return self.family.natural(self.patterns, self.frame)


def trained(terms: Terms) -> Script[Dictionary]:
    """Opening sums, search, supports, moderated variances: the script of an exact training."""
    ground: Ground = yield from opened(terms)
    fit = yield from searched(ground)
    family, history = ground.family, fit.history
    if isinstance(family, SparseGaussian):
        fit, family = yield from refined(ground, fit)
        history += fit.history
    patterns = family.moderated(fit.patterns, fit.counts)
    return Dictionary(family, patterns, ground.frame, ground.overall, fit.counts, fit.branch, history)


class Conversation:
    """A script with a memory: the question that follows the totals heard so far, or the dictionary after the last."""

    def __init__(self, script: Callable[[], Script[Dictionary]]) -> None:
        self._script = script
        self._heard: tuple[Floats, ...] | None = None

    def after(self, heard: tuple[Floats, ...]) -> Question | Dictionary:
        """Goes on from where it was when that is one total back; otherwise replays."""
        if self._heard is not None and _is_same(heard, self._heard):
            return self._answer
        if self._heard is None or not _is_same(heard[:-1], self._heard):
            self._begin()
            for total in heard[:-1]:
                self._send(total)
        if heard:
            self._send(heard[-1])
        self._heard = heard
        return self._answer

    def _begin(self) -> None:
        self._heard = None
        self._running = self._script()
        self._answer: Question | Dictionary = next(self._running)

    def _send(self, total: Floats) -> None:
        self._heard = None
        if not isinstance(self._answer, Question):
            raise NotSolved("A total arrived after the training had ended.", "Begin a new training.")
        try:
            self._answer = self._running.send(total * self._answer.limits)
        except StopIteration as end:
            self._answer = end.value


@dataclass(frozen=True, eq=False, repr=False)
class MemberState:
    """Where a member stands: totals it has heard, and what it keeps to itself."""

    heard: tuple[Floats, ...]
    own: Own


def begun(conversation: Conversation, records: Records, noise: NoiseSource | None = None) -> tuple[MemberState, Floats]:
    """The first addend."""
    return _stepped(conversation, records, MemberState((), Own({})), noise)


def step(
    conversation: Conversation,
    records: Records,
    state: MemberState,
    total: Floats,
    noise: NoiseSource | None = None,
    *,
    is_included: bool = True,
) -> tuple[MemberState, Floats | Dictionary]:
    """The next addend after a total; after the last one, the dictionary.

    Raise ImplausibleTotal where a veto of this member was undone, if its addend is in the total.
    """
    question = conversation.after(state.heard)
    if isinstance(question, Vetoes) and is_included:
        # A sum of zeros and ones is not below one of them. Others may add what they like, but not take away what this member said.
        _, own_vetoes = answered(records, state.own, question, noise)
        if np.any(total < own_vetoes - _LESS_THAN_A_VETO):
            raise implausible()
    heard = MemberState((*state.heard, total), state.own)
    following = conversation.after(heard.heard)
    return (heard, following) if isinstance(following, Dictionary) else _stepped(conversation, records, heard, noise)


def _stepped(
    conversation: Conversation, records: Records, state: MemberState, noise: NoiseSource | None
) -> tuple[MemberState, Floats]:
    question = conversation.after(state.heard)
    if not isinstance(question, Question):
        raise NotSolved("The training ended without a question.", "Begin a new training.")
    own, addend = answered(records, state.own, question, noise)
    return MemberState(state.heard, own), addend


@dataclass(frozen=True, eq=False, repr=False)
class Rehearsal:
    """A training of a whole consortium in one process: the common dictionary, each member's own part, and what was shown."""

    dictionary: Dictionary
    own: tuple[Own, ...]
    sums: int
    numbers: int


def rehearsed(
    script: Script[Dictionary], members: Sequence[Records], add_up: Sum, noise: NoiseSource | None = None
) -> Rehearsal:
    """All members in one process. They compute alike from equal totals, so the common part is computed once."""
    own, sums, numbers = [Own({}) for _ in members], 0, 0
    question = next(script)
    while True:
        addends = []
        for position, records in enumerate(members):
            own[position], addend = answered(records, own[position], question, noise)
            addends.append(addend)
        totals = add_up(addends)
        if not all(np.array_equal(total, totals[0]) for total in totals):
            raise NotSolved("Members ended with different totals.", "Use a way of summing that is exact.")
        sums, numbers = sums + 1, numbers + question.size
        try:
            question = script.send(totals[0] * question.limits)
        except StopIteration as end:
            return Rehearsal(end.value, tuple(own), sums, numbers)


def own_weights(records: Records, dictionary: Dictionary, start: Floats | None = None) -> Floats:
    """A member's own weights for a finished dictionary. Exact functions of its records: they stay in the house."""
    patterns = len(dictionary.patterns)
    first = np.full(patterns, 1 / patterns) if start is None else start
    return needed_weights(records, dictionary.family, dictionary.frame, dictionary.patterns, first)


def limited(script: Script[Dictionary], most_numbers: int) -> Script[Dictionary]:
    """The same script, which stops rather than show members more numbers than they agreed to."""
    question, shown = next(script), 0
    while True:
        shown += question.size
        if shown > most_numbers:
            raise NotSolved(
                f"The training would show members more than the {most_numbers:,} numbers they agreed to.",
                "Agree to more, begin with fewer patterns, or train with search=False.",
            )
        total = yield question
        try:
            question = script.send(total)
        except StopIteration as end:
            dictionary: Dictionary = end.value
            return dictionary


def fingerprint(question: Question) -> str:
    """SHA-256 of a question: members whose machines round differently find out before they add apples to pears."""
    hashed = hashlib.sha256()
    _hash(hashed, question)
    return hashed.hexdigest()


def _hash(hashed: Any, value: object) -> None:
    if isinstance(value, Patterns):
        for name in sorted(value.arrays):
            _hash(hashed, name)
            _hash(hashed, value[name])
    elif is_dataclass(value) and not isinstance(value, type):
        hashed.update(type(value).__name__.encode())
        for field in fields(value):
            _hash(hashed, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        hashed.update(f"{value.shape}{value.dtype.str}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple):
        for part in value:
            _hash(hashed, part)
    else:
        hashed.update(repr(value).encode() + b"\0")


def _is_same(first: Sequence[Floats], second: Sequence[Floats]) -> bool:
    return len(first) == len(second) and all(a is b or np.array_equal(a, b) for a, b in zip(first, second, strict=True))

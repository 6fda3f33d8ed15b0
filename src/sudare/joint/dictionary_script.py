"""Walks through sums: a dictionary training as one member takes part in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sudare.array_types import Floats, Words
from sudare.dictionary.em import Dictionary, Script
from sudare.dictionary.held_out_stacking import OwnPart
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.member_tables import Records
from sudare.dictionary.sum_questions import Own
from sudare.dictionary.training import DictionaryScript, TrainingState, begun, member_part, step
from sudare.joint.sum_script import Finished
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.noise import NoiseSource
from sudare.sums.canonical_encoding import packed, unpacked
from sudare.sums.sum_script_replay import ScriptReplay


@dataclass(frozen=True)
class _Saved:
    """A member's state with its floats as words, bit for bit."""

    heard: tuple[Words, ...]
    weights: Mapping[int, Words]
    counts: Words | None
    remainder: Words | None
    saturated: int


@dataclass(frozen=True, eq=False, repr=False)
class TrainedDictionary:
    """A finished training: the dictionary that all share, what this member knows alone, and how many numbers it saw.

    `guarantee` and `receipt` are of a private training; without them its sums were exact.
    """

    dictionary: Dictionary
    own_part: OwnPart
    sums: int
    numbers: int
    guarantee: Guarantee | None = None
    receipt: Receipt | None = None


class DictionaryWalk:
    """A dictionary training as a walk: the addends that `sudare.dictionary` computes, on the grid it adds them on."""

    def __init__(
        self,
        script: Callable[[], Script[Dictionary]],
        records: Records,
        members: int,
        noise: NoiseSource | None = None,
        position: int | None = None,
    ) -> None:
        """`noise` is where a private training's share of the noise comes from; `position` this member's, where it may be left out of a total."""
        self._script: DictionaryScript = ScriptReplay(script)
        self._records, self._noise, self._members = records, noise, members
        self._position = position

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise in the totals."""
        return self._noise is None

    def begun(self) -> tuple[bytes, Words]:
        """The first addend."""
        state, addend = begun(self._script, self._records, self._noise)
        return _state_bytes(state), ADDENDS.encode(addend).words

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        """The next addend, or the dictionary."""
        ADDENDS.check_total(total, len(included))
        is_included = self._position is None or self._position in included
        following, answer = step(
            self._script,
            self._records,
            _state_of(state),
            ADDENDS.decode(total),
            self._noise,
            is_included=is_included,
        )
        if not isinstance(answer, Dictionary):
            return _state_bytes(following), ADDENDS.encode(answer).words
        own_part = member_part(self._records, answer, following.own)
        numbers = sum(map(len, following.heard))
        return _state_bytes(following), Finished(TrainedDictionary(answer, own_part, len(following.heard), numbers))


def _state_bytes(state: TrainingState) -> bytes:
    own = state.own
    weights = {branch: _words(values) for branch, values in own.weights.items()}
    counts, remainder = (None if part is None else _words(part) for part in (own.counts, own.remainder))
    return packed(_Saved(tuple(map(_words, state.heard)), weights, counts, remainder, own.saturated))


def _state_of(content: bytes) -> TrainingState:
    saved = unpacked(content, _Saved)
    counts, remainder = (None if part is None else _floats(part) for part in (saved.counts, saved.remainder))
    weights = {branch: _floats(values) for branch, values in saved.weights.items()}
    return TrainingState(tuple(map(_floats, saved.heard)), Own(weights, counts, remainder, saved.saturated))


def totals_heard(state: bytes) -> tuple[Floats, ...]:
    """The totals that a walk has heard by the time of this state."""
    return _state_of(state).heard


def _words(values: Floats) -> Words:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)


def _floats(words: Words) -> Floats:
    return words.astype(np.uint64, copy=True).view(np.float64)

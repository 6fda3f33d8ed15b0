"""A whole training: the script that all members follow, one member's steps through it, and all members in one process.

`begun` and `step` are what a network drives: state and total in, state and addend out. The state holds what the member has
heard (totals, the same for all) and what is its own (weights that nobody else sees). A member that was stopped takes its
state from disk and goes on: the script is deterministic, so the totals that were heard lead to the same next question.
`simulated` drives the same two functions for all members of a consortium.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.em import Dictionary, Script, TrainingTerms, implausible, opened
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.held_out_stacking import OwnPart, stacked
from sudare.dictionary.member_tables import Records
from sudare.dictionary.mixture_weights import needed_weights
from sudare.dictionary.pattern_selection import refined, searched
from sudare.dictionary.private_training import PrivateTerms, trained_privately
from sudare.dictionary.sum_questions import Own, SumQuestion, Vetoes, answered
from sudare.errors import NotSolved
from sudare.privacy.noise import NoiseSource
from sudare.sums.sum_script_replay import ScriptReplay

DictionaryScript = ScriptReplay[SumQuestion, Dictionary]
Sum = Callable[[Sequence[Floats]], Sequence[Floats]]
_LESS_THAN_A_VETO: Final = 1e-6


def trained(terms: TrainingTerms | PrivateTerms, most_numbers: int | None = None) -> Script[Dictionary]:
    """The script of a training, with noise in its sums where the terms are private.

    Raise NotSolved rather than show members more than `most_numbers` numbers.
    """
    script = trained_privately(terms) if isinstance(terms, PrivateTerms) else _trained_exactly(terms)
    return script if most_numbers is None else _limited(script, most_numbers)


def _trained_exactly(terms: TrainingTerms) -> Script[Dictionary]:
    """Opening sums, search, supports, moderated variances."""
    opening = yield from opened(terms)
    fit = yield from searched(opening)
    family, history = opening.family, fit.history
    if isinstance(family, SparseGaussian):
        fit, family = yield from refined(opening, fit)
        history += fit.history
    patterns = family.moderated(fit.patterns, fit.counts)
    return Dictionary(family, patterns, opening.frame, opening.overall, fit.counts, fit.branch, history)


def _limited(script: Script[Dictionary], most_numbers: int) -> Script[Dictionary]:
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


@dataclass(frozen=True, eq=False, repr=False)
class TrainingState:
    """How far a member has got: totals it has heard, and what it keeps to itself."""

    heard: tuple[Floats, ...]
    own: Own


def begun(script: DictionaryScript, records: Records, noise: NoiseSource | None = None) -> tuple[TrainingState, Floats]:
    """The first addend."""
    return _stepped(script, records, TrainingState((), Own({})), noise)


def step(
    script: DictionaryScript,
    records: Records,
    state: TrainingState,
    total: Floats,
    noise: NoiseSource | None = None,
    *,
    is_included: bool = True,
) -> tuple[TrainingState, Floats | Dictionary]:
    """The next addend after a total; after the last one, the dictionary.

    Raise ImplausibleTotal where a veto of this member was undone, if its addend is in the total.
    """
    question = script.after(state.heard)
    if isinstance(question, Vetoes) and is_included:
        # A sum of zeros and ones is not below one of them. Others may add what they like, but not take away what this member said.
        _, own_vetoes = answered(records, state.own, question, noise)
        if np.any(total < own_vetoes - _LESS_THAN_A_VETO):
            raise implausible()
    heard = TrainingState((*state.heard, total), state.own)
    following = script.after(heard.heard)
    return (heard, following) if isinstance(following, Dictionary) else _stepped(script, records, heard, noise)


def _stepped(
    script: DictionaryScript, records: Records, state: TrainingState, noise: NoiseSource | None
) -> tuple[TrainingState, Floats]:
    question = script.after(state.heard)
    if not isinstance(question, SumQuestion):
        raise NotSolved("The training ended without a question.", "Begin a new training.")
    own, addend = answered(records, state.own, question, noise)
    return TrainingState(state.heard, own), addend


def own_weights(records: Records, dictionary: Dictionary, start: Floats | None = None) -> Floats:
    """A member's own weights for a finished dictionary. Exact functions of its records: they never leave the member."""
    patterns = len(dictionary.patterns)
    first = np.full(patterns, 1 / patterns) if start is None else start
    return needed_weights(records, dictionary.family, dictionary.frame, dictionary.patterns, first)


def member_part(records: Records, dictionary: Dictionary, own: Own, *, is_alone: bool = False) -> OwnPart:
    """What a member knows alone when the training has ended: its weights, and patterns of its own beside those it shares with others."""
    weights = own_weights(records, dictionary, own.weights.get(dictionary.branch.number))
    return OwnPart(weights) if is_alone else stacked(records, dictionary, weights)


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedTraining:
    """A training of a whole consortium in one process: the common dictionary, each member's own part, and what was shown."""

    dictionary: Dictionary
    own: tuple[Own, ...]
    sums: int
    numbers: int


def simulated(
    script: Script[Dictionary], members: Sequence[Records], add_up: Sum, noise: NoiseSource | None = None
) -> SimulatedTraining:
    """All members in one process. They compute alike from equal totals, so the common part is computed once."""
    shared: DictionaryScript = ScriptReplay(lambda: script)
    states = [begun(shared, records, noise) for records in members]
    while True:
        totals = add_up([addend for _, addend in states])
        if not all(np.array_equal(total, totals[0]) for total in totals):
            raise NotSolved("Members ended with different totals.", "Use a way of summing that is exact.")
        following: list[tuple[TrainingState, Floats]] = []
        for records, (state, _) in zip(members, states, strict=True):
            reached, answer = step(shared, records, state, totals[0], noise)
            if isinstance(answer, Dictionary):
                owns = tuple(each.own for each, _ in states)
                return SimulatedTraining(answer, owns, len(reached.heard), sum(map(len, reached.heard)))
            following.append((reached, answer))
        states = following

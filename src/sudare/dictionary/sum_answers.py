"""Answers to questions: own state and question in, own state and addend out. No message is sent here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from sudare.dictionary.exact_training_member import counted, opening_squares, opening_sums, overlaps
from sudare.dictionary.families import Floats
from sudare.dictionary.member_records import Records
from sudare.dictionary.private_sum_questions import NoisyQuestion, noisy_answer
from sudare.dictionary.sum_questions import (
    Counts,
    Moments,
    OpeningSquares,
    OpeningSums,
    Overlaps,
    Own,
    Question,
    Rows,
    Vetoes,
)
from sudare.errors import InvalidParameter
from sudare.privacy.noise import NoiseSource

# Records belong to patterns in parts: three of them may count as 2.999.
_SHARED_PARTS: Final = 0.01


def answered(records: Records, own: Own, question: Question, noise: NoiseSource | None = None) -> tuple[Own, Floats]:
    """The member's next state and its addend, scaled to [−1, 1] by the question's limits.

    What lies outside saturates and is counted in the member's own state: an abort would tell the others.
    """
    own, values = _answer(records, own, question, noise)
    scaled = values / question.limits
    outside = int(np.count_nonzero(np.abs(scaled) > 1))
    return replace(own, saturated=own.saturated + outside), np.clip(scaled, -1.0, 1.0)


def _answer(records: Records, own: Own, question: Question, noise: NoiseSource | None) -> tuple[Own, Floats]:
    if isinstance(question, Rows):
        return own, np.array([float(records.rows)])
    if isinstance(question, NoisyQuestion):
        return own, noisy_answer(records, question, noise)
    if isinstance(question, OpeningSums):
        return own, opening_sums(records, question)
    if isinstance(question, OpeningSquares):
        return own, opening_squares(records, question)
    if isinstance(question, Counts):
        return counted(records, own, question)
    if isinstance(question, Vetoes):
        others = question.totals - _pending(own.counts)
        return own, (others < question.fewest - _SHARED_PARTS).astype(np.float64)
    if isinstance(question, Moments):
        return replace(own, counts=None, remainder=None), _pending(own.remainder)
    if isinstance(question, Overlaps):
        return own, overlaps(records, own.weights[question.branch.number], question)
    raise InvalidParameter(f"{type(question).__name__} is not a question of this training.", "Use one program version.")


def _pending(part: Floats | None) -> Floats:
    if part is None:
        raise InvalidParameter("A sum was asked for before its E step.", "Answer questions in their order.")
    return part

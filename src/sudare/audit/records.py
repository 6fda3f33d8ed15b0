"""Perturbations of one value under audit: two values that are as far apart as the bounds, or the categories, allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.audit.evidence import Floats
from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection, UnaryEncoding
from sudare.perturbation.column_perturbation import Perturbation

_CATEGORIES: Final = tuple(range(8))


@dataclass(frozen=True)
class RecordCase:
    """A perturbation for a given ε, and two values."""

    subject: str
    made: Callable[[float], Perturbation]
    pair: tuple[float, float]

    def draws(self, epsilon: float) -> Callable[[float, int], Floats]:
        """Independent outputs for one value, a row each; sets as zeros and ones."""
        perturbation = self.made(epsilon)

        def drawn(value: float, count: int) -> Floats:
            outputs = np.asarray(perturbation.perturb(np.full(count, value)), dtype=np.float64)
            return outputs if outputs.ndim > 1 else outputs[:, np.newaxis]

        return drawn


CASES: Final[dict[str, RecordCase]] = {
    "LaplacePerturbation": RecordCase(
        "a number with Laplace noise, from one bound to the other",
        lambda epsilon: LaplacePerturbation((0, 1), epsilon=epsilon),
        (0.0, 1.0),
    ),
    "SquareWave": RecordCase(
        "a number under a square wave, from one bound to the other",
        lambda epsilon: SquareWave((0, 1), epsilon=epsilon),
        (0.0, 1.0),
    ),
    "RetainReplace": RecordCase(
        "one of eight categories, retained or replaced",
        lambda epsilon: RetainReplace(_CATEGORIES, epsilon=epsilon),
        (0, 7),
    ),
    "UnaryEncoding": RecordCase(
        "one of eight categories, as ticks",
        lambda epsilon: UnaryEncoding(_CATEGORIES, epsilon=epsilon),
        (0, 7),
    ),
    "SubsetSelection": RecordCase(
        "one of eight categories, as a set",
        lambda epsilon: SubsetSelection(_CATEGORIES, epsilon=epsilon),
        (0, 7),
    ),
}

"""Audits of perturbations of one value: two values that are as far apart as the bounds, or the categories, allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.audit.claimed_and_measured_epsilon import AuditedMechanism, NamedAudit
from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection, UnaryEncoding
from sudare.perturbation.column_perturbation import Perturbation
from sudare.privacy.guarantee import Guarantee

_SAMPLES: Final = 100_000
_CATEGORIES: Final = tuple(range(8))


def _audit(subject: str, made: Callable[[float], Perturbation], pair: tuple[float, float]) -> NamedAudit:
    """A perturbation for every ε, drawn again and again for two values; its law is known exactly."""

    def at(epsilon: float) -> AuditedMechanism:
        perturbation = made(epsilon)

        def draws(value: float, count: int) -> Floats:
            """A row for each output; sets as zeros and ones."""
            outputs = np.asarray(perturbation.perturb(np.full(count, value)), dtype=np.float64)
            return outputs if outputs.ndim > 1 else outputs[:, np.newaxis]

        return AuditedMechanism(Guarantee(epsilon, notion="local"), draws, pair, perturbation.exact_epsilon)

    return NamedAudit(subject, _SAMPLES, at)


AUDITS: Final[dict[str, NamedAudit]] = {
    "LaplacePerturbation": _audit(
        "a number with Laplace noise, from one bound to the other",
        lambda epsilon: LaplacePerturbation((0, 1), epsilon=epsilon),
        (0.0, 1.0),
    ),
    "SquareWave": _audit(
        "a number under a square wave, from one bound to the other",
        lambda epsilon: SquareWave((0, 1), epsilon=epsilon),
        (0.0, 1.0),
    ),
    "RetainReplace": _audit(
        "one of eight categories, retained or replaced",
        lambda epsilon: RetainReplace(_CATEGORIES, epsilon=epsilon),
        (0, 7),
    ),
    "UnaryEncoding": _audit(
        "one of eight categories, as ticks", lambda epsilon: UnaryEncoding(_CATEGORIES, epsilon=epsilon), (0, 7)
    ),
    "SubsetSelection": _audit(
        "one of eight categories, as a set", lambda epsilon: SubsetSelection(_CATEGORIES, epsilon=epsilon), (0, 7)
    ),
}

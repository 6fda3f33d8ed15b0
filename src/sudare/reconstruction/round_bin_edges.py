"""Where to cut a column of numbers for people: at round numbers, chosen from its declared bounds and from nothing else."""

from __future__ import annotations

import math
from fractions import Fraction

FEWEST_BINS = 10
MOST_BINS = 50
# As many as a picture of one column shows well.
WANTED_BINS = 20
# Not 2.5: of whole numbers some bins would hold two and others three.
_STEPS = (1, 2, 5)


def round_edges(low: float, high: float) -> list[float]:
    """Ascending multiples of 1, 2 or 5 times a power of ten that cover the bounds in 10 to 50 bins.

    The first bin and the last may reach beyond the bounds. Between bounds that are next to each other as floats there are fewer bins.
    """
    first, last, step = min(_candidates(Fraction(low), Fraction(high)), key=_distance)
    return sorted({float(number * step) for number in range(first, last + 1)})


def _candidates(low: Fraction, high: Fraction) -> list[tuple[int, int, Fraction]]:
    """First and last multiple, and the step, of every cut into 10 to 50 bins; there always is one, as no step is more than 2.5 times the last."""
    power = math.floor(math.log10(high - low))
    steps = (factor * Fraction(10) ** exponent for exponent in range(power - 3, power + 2) for factor in _STEPS)
    cuts = [(math.floor(low / step), math.ceil(high / step), step) for step in steps]
    return [cut for cut in cuts if FEWEST_BINS <= cut[1] - cut[0] <= MOST_BINS]


def _distance(cut: tuple[int, int, Fraction]) -> float:
    return abs(math.log((cut[1] - cut[0]) / WANTED_BINS))

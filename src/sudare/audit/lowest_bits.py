"""Do the lowest bits of the outputs show what the noise hides? A test for floating-point leaks (Mironov 2012).

A float sum x + noise can only take some of the floats near it, and which ones depends on x: the exponent of the lowest
set bit gives x away where the value itself would not. Every output coordinate is reduced to that exponent (which says
of which grids of multiples of 2^k it is a member), its distance from the output's own exponent, and the magnitude; the events
are sets of such cells. Outputs on a public grid that does not depend on the data pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.audit.distinguishing_test import Mechanism, sampled
from sudare.audit.epsilon_lower_bounds import DEFAULT_CONFIDENCE, Audit, Parts, Score, epsilon_bound, strongest_evidence
from sudare.privacy.guarantee import Guarantee

Cells = Callable[[Floats], NDArray[np.int64]]

_ZERO_EXPONENT: Final = 4096
_MAGNITUDE_STEP: Final = 4


def distinguish_lowest_bits(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    claimed: Guarantee | float,
    samples: int,
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    batched: bool = False,
    measured_share: float = 0.5,
) -> Audit:
    """A lower bound on ε from the bit patterns of `samples` outputs on each data set, right with probability `confidence`."""
    guarantee = claimed if isinstance(claimed, Guarantee) else Guarantee(epsilon=claimed)
    first, second = sampled(mechanism, pair, samples, confidence, batched, measured_share)
    scores = [
        score for coordinate in range(first.learning.shape[1]) for score in _bit_scores(coordinate, first, second)
    ]
    bound, event, counts = strongest_evidence(scores, first, second, epsilon_bound(guarantee.delta), confidence)
    return Audit(guarantee, bound, event, confidence, counts)


def exponent(outputs: Floats) -> NDArray[np.int64]:
    """e with 2^e ≤ |x| < 2^(e+1); 4096 for zero and what is not finite."""
    usable = np.isfinite(outputs) & (outputs != 0)
    return np.where(usable, np.frexp(np.where(usable, outputs, 1.0))[1] - 1, _ZERO_EXPONENT).astype(np.int64)


def lowest_set_bit(outputs: Floats) -> NDArray[np.int64]:
    """The largest k for which x is a multiple of 2^k; 4096 for zero and what is not finite."""
    usable = np.isfinite(outputs) & (outputs != 0)
    fraction, power = np.frexp(np.where(usable, outputs, 1.0))
    mantissa = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    lowest = np.log2((mantissa & -mantissa).astype(np.float64)).astype(np.int64)
    return np.where(usable, power - 53 + lowest, _ZERO_EXPONENT).astype(np.int64)


def _bit_scores(coordinate: int, first: Parts, second: Parts) -> list[tuple[str, Score]]:
    """Scores of one coordinate that look at its bit pattern only."""

    def lowest(outputs: Floats) -> NDArray[np.int64]:
        return lowest_set_bit(outputs[:, coordinate])

    def length(outputs: Floats) -> NDArray[np.int64]:
        return exponent(outputs[:, coordinate]) - lowest(outputs)

    def lowest_and_magnitude(outputs: Floats) -> NDArray[np.int64]:
        return lowest(outputs) * 2 * _ZERO_EXPONENT + exponent(outputs[:, coordinate]) // _MAGNITUDE_STEP

    cells: list[tuple[str, Cells]] = [
        ("lowest bit", lowest),
        ("number of significant bits", length),
        ("lowest bit and magnitude", lowest_and_magnitude),
    ]
    multiples: list[tuple[str, Score]] = [
        (f"exponent of the lowest bit of coordinate {coordinate}", lambda outputs: lowest(outputs).astype(np.float64))
    ]
    return multiples + [
        (f"log ratio by {name} of coordinate {coordinate}", _log_ratio_of_cells(kind, first.learning, second.learning))
        for name, kind in cells
    ]


def _log_ratio_of_cells(cells: Cells, first: Floats, second: Floats) -> Score:
    """How much likelier a cell is under the second data set, by smoothed counts; 0 for a cell never seen."""
    first_cells, second_cells = cells(first), cells(second)
    known = np.unique(np.concatenate([first_cells, second_cells]))
    counts = [np.bincount(np.searchsorted(known, seen), minlength=len(known)) for seen in (first_cells, second_cells)]
    ratios = np.log((counts[1] + 0.5) / (counts[0] + 0.5))

    def score(outputs: Floats) -> Floats:
        places = cells(outputs)
        index = np.minimum(np.searchsorted(known, places), len(known) - 1)
        return np.where(known[index] == places, ratios[index], 0.0)

    return score

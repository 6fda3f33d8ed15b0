"""Bounds and bins of a number column, found with noise on counts over public grids. Proof: proofs/discovery.md.

Three histograms of the same column, each with its share of ε: how large values are (powers of two, of either sign), where
their middle is (equal cells around the quartiles), and how far they lie from it (distances that grow by a constant factor).
Bounds and quantiles are computed from the noisy counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.privacy.accounting import decimal_down, exact
from sudare.privacy.column_sums import l1_sensitivity
from sudare.privacy.mechanisms import Laplace
from sudare.schema.columns import LARGEST_WHOLE

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# Counts in the cells that edges make, numbers below the first edge and from the last edge on included, with noise for so much ε.
NoisyHistogram = Callable[[Floats, float], Floats]

SMALLEST_OCTAVE: Final = -40
LARGEST_OCTAVE: Final = 63
OCTAVES: Final = 2.0 ** np.arange(SMALLEST_OCTAVE, LARGEST_OCTAVE + 1)
SIZES: Final[Floats] = np.concatenate((-OCTAVES[::-1], OCTAVES))
ZERO_CELL: Final = len(OCTAVES)
# Tails whose octaves do not stand out reach so many times further than those that do.
BEYOND_SIZES: Final = 16
BIN_COUNT: Final = 10
# From the tail of equally likely numbers, which ends, to one whose variance does not exist.
SHORTEST_TAIL: Final = -1.0
LONGEST_TAIL: Final = 0.5


@dataclass(frozen=True)
class BoundsRule:
    """The constants of the rule, chosen on tuning columns by `python -m benchmarks.found_bounds --tune`.

    `shares` of ε go to the three histograms. A cell counts if its noisy count is `threshold` noise scales or more, and k cells together
    beyond the last such one if theirs is `window_threshold`·√k. From the quantiles outside of which `tail` noise scales of records lie, and
    `tail_ratio` and `tail_ratio`² times as many, bounds are extrapolated to where `left_out`/ε records would lie outside (Pickands 1975).
    """

    shares: tuple[float, float, float] = (0.1, 0.1, 0.8)
    middle_cells: int = 64
    steps_per_octave: int = 6
    threshold: float = 10.0
    window_threshold: float = 4.0
    tail: float = 25.0
    left_out: float = 2.0
    tail_ratio: float = 4.0


RULE: Final = BoundsRule()


@dataclass(frozen=True)
class FoundNumber:
    """Bounds, and the inner edges of bins with about equally many values each; both from noisy counts."""

    low: float
    high: float
    bins: tuple[float, ...]


def stage_epsilons(epsilon: float, rule: BoundsRule = RULE) -> tuple[float, float, float]:
    """The ε of each histogram, rounded down so that they never add up to more."""
    first, second, third = (decimal_down(exact(epsilon) * exact(share)) for share in rule.shares)
    return first, second, third


def noise_on_counts(epsilon: float, cells: int, unit_rows: int) -> Laplace:
    """Noise for the counts of one column, of which a replaced row changes two by one."""
    return Laplace(l1_sensitivity(Fraction(2), 1, unit_rows), epsilon, cells, integer_grid=1.0)


def found_number(
    noisy: NoisyHistogram, epsilon: float, unit_rows: int = 1, rule: BoundsRule = RULE
) -> FoundNumber | None:
    """Bounds and bins of a column whose counts `noisy` gives; None where no cell stands out from the noise."""
    for_size, for_middle, for_distance = stage_epsilons(epsilon, rule)
    sizes = standing_out(noisy(SIZES, for_size), SIZES, for_size, unit_rows, rule)
    if sizes is None:
        return None
    zoom = quartile_edges(sizes, SIZES)
    middle_edges = np.linspace(*zoom, rule.middle_cells + 1)
    middle = median_edge(noisy(middle_edges, for_middle), middle_edges)
    if zoom[0] < 0 < zoom[1] and zoom[1] - zoom[0] <= 2 * OCTAVES[0]:
        middle = 0.0
    edges = distance_edges(middle, sizes, (zoom[1] - zoom[0]) / rule.middle_cells, rule)
    counts = noisy(edges, for_distance)
    kept = standing_out(counts, edges, for_distance, unit_rows, rule)
    if kept is None:
        return None
    scale = noise_on_counts(for_distance, len(counts), unit_rows).noise_scale
    left_out = rule.left_out * unit_rows / epsilon
    high = outer_bound(counts, edges, kept, scale, left_out, rule)
    low = -outer_bound(counts[::-1], -edges[::-1], kept[::-1], scale, left_out, rule)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        return None
    low, high = outward(low, high)
    if not low < high:
        return None
    return FoundNumber(low, high, quantile_edges(np.where(kept > 0, counts, 0), edges, low, high))


def standing_out(counts: Floats, edges: Floats, epsilon: float, unit_rows: int, rule: BoundsRule) -> Floats | None:
    """The counts that stand out from their noise, zero elsewhere; None if there is none."""
    least = rule.threshold * noise_on_counts(epsilon, len(edges) + 1, unit_rows).noise_scale
    kept = np.where(counts >= least, counts, 0.0)
    return kept if kept.any() else None


def quartile_edges(kept: Floats, edges: Floats) -> tuple[float, float]:
    """The lower edge of the cell of the first quartile, and the upper one of that of the third."""
    reached = np.cumsum(kept) / kept.sum()
    first, third = (int(np.clip(np.searchsorted(reached, share), 1, len(edges) - 1)) for share in (0.25, 0.75))
    return float(edges[first - 1]), float(edges[third])


def median_edge(counts: Floats, edges: Floats) -> float:
    """The edge up to which the counts add up to about half of them all."""
    below = np.cumsum(counts)[:-1]
    return float(edges[int(np.argmin(np.abs(below - counts.sum() / 2)))])


def distance_edges(middle: float, sizes: Floats, width: float, rule: BoundsRule) -> Floats:
    """Edges at distances from the middle that grow by a constant factor, from the width of its cell to beyond the sizes that stand out."""
    cells = np.clip(np.flatnonzero(sizes), 1, len(SIZES) - 1)
    least, most = SIZES[cells[0] - 1], SIZES[cells[-1]]
    nonzero = cells[cells != ZERO_CELL]
    if middle == 0.0 and len(nonzero):
        width = float(np.abs(np.concatenate((SIZES[nonzero - 1], SIZES[nonzero]))).min())
    furthest = BEYOND_SIZES * max(most - middle, middle - least)
    octaves = max(1.0, np.log2(furthest / (width / 2)))
    distances = furthest * 2.0 ** -(np.arange(int(octaves * rule.steps_per_octave) + 1)[::-1] / rule.steps_per_octave)
    return np.unique(np.concatenate((middle - distances, [middle], middle + distances)))


def outer_bound(counts: Floats, edges: Floats, kept: Floats, scale: float, left_out: float, rule: BoundsRule) -> float:
    """The upper bound: what is left out above it are about `left_out` records, by extrapolation from three quantiles."""
    last = last_standing_out(counts, kept, rule.window_threshold * scale)
    last = min(last, len(edges) - 1)
    # Records from the lower edge of each cell on, from the outermost cell inwards; noise must not make them fall.
    outside = np.maximum.accumulate(np.append(0.0, np.cumsum(counts[last:0:-1])))
    places = edges[last::-1]
    ratio = rule.tail_ratio
    in_tail = min(rule.tail * scale, outside[-1] / (2 * ratio**2))
    first, second, third = (float(np.interp(factor * in_tail, outside, places)) for factor in (1, ratio, ratio**2))
    near, far = first - second, second - third
    if near <= 0 or far <= 0 or in_tail <= left_out:
        return float(edges[last])
    shape = float(np.clip(np.log(near / far) / np.log(ratio), SHORTEST_TAIL, LONGEST_TAIL))
    growth = in_tail / left_out
    reach = np.log(growth) / np.log(ratio) if abs(shape) < 1e-6 else (growth**shape - 1) / (1 - ratio**-shape)
    return float(first + near * reach)


def last_standing_out(counts: Floats, kept: Floats, least: float) -> int:
    """The last cell that stands out, or that is in a window beyond it whose cells stand out together."""
    last = int(np.flatnonzero(kept)[-1])
    while True:
        windows = (2**power for power in range(7) if last + 2**power < len(counts))
        width = next((w for w in windows if counts[last + 1 : last + 1 + w].sum() >= least * np.sqrt(w)), None)
        if width is None:
            return last
        last += width


def whole_bounds(number: FoundNumber) -> FoundNumber:
    """The same for whole numbers: bounds moved inwards to the next ones, which leaves none out, and bins that begin at whole numbers."""
    low, high = float(np.ceil(number.low)), float(np.floor(number.high))
    low, high = (low, high) if low < high else (float(np.floor(number.low)), float(np.floor(number.low)) + 1)
    low, high = max(low, 1 - LARGEST_WHOLE), min(high, LARGEST_WHOLE - 1)
    return FoundNumber(low, high, tuple(sorted({edge for edge in map(np.ceil, number.bins) if low < edge < high})))


def outward(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outwards to about a two-hundredth of their distance, so that people can read them."""
    step = 10.0 ** np.floor(np.log10((high - low) / 100)) / 2
    return readable(np.floor(low / step) * step), readable(np.ceil(high / step) * step)


def readable(value: float) -> float:
    """The number without the last digits, which come from rounding."""
    return float(f"{value:.14g}")


def quantile_edges(kept: Floats, edges: Floats, low: float, high: float) -> tuple[float, ...]:
    """Inner edges of bins between which about equally many values lie; fewer than nine where values repeat."""
    inside = np.cumsum(kept)[:-1] / kept.sum()
    step = (high - low) / 1000
    found = [float(np.interp(share / BIN_COUNT, inside, edges)) for share in range(1, BIN_COUNT)]
    rounded = sorted({readable(np.round(edge / step) * step) for edge in found})
    return tuple(edge for edge in rounded if low + step < edge < high - step)

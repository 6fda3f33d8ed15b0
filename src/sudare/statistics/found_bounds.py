"""Bounds and bins of a number column, found with noise on counts over public grids. Proof: proofs/discovery.md.

Three histograms of the same column, each with its share of ε: how large values are (powers of two, of either sign), where
their middle is (equal cells around the quartiles), and how far they lie from it (distances that grow by a constant factor).
Bounds and quantiles are computed from the noisy counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.privacy.accounting import decimal_down, exact
from sudare.privacy.column_sums import l1_sensitivity
from sudare.privacy.mechanisms import Laplace
from sudare.schema.columns import LARGEST_WHOLE

Counts = NDArray[np.int64]
# Counts in the cells that edges make, numbers below the first edge and from the last edge on included, with noise for so much ε.
NoisyHistogram = Callable[[Floats, float], Floats]

HISTOGRAMS: Final = 3
SMALLEST_OCTAVE: Final = -40
LARGEST_OCTAVE: Final = 63
OCTAVES: Final = 2.0 ** np.arange(SMALLEST_OCTAVE, LARGEST_OCTAVE + 1)
SIZES: Final[Floats] = np.concatenate((-OCTAVES[::-1], OCTAVES))
ZERO_CELL: Final = len(OCTAVES)
# Tails whose octaves do not stand out reach so many times further than those that do.
BEYOND_SIZES: Final = 16
# And tails of cells that are farther away so many times further.
BEYOND_FAR: Final = 2
# Numbers of cells that may stand out together, and those far beyond the sizes that stand out.
WINDOWS: Final = tuple(2**power for power in range(6))
FAR_WINDOWS: Final = WINDOWS[:5]
BIN_COUNT: Final = 10
# From the tail of equally likely numbers, which ends, to one whose variance does not exist.
SHORTEST_TAIL: Final = -1.0
LONGEST_TAIL: Final = 0.5


@dataclass(frozen=True)
class BoundsRule:
    """The constants of the rule, chosen on tuning columns (proofs/discovery.md, "Constants"; `python -m benchmarks.found_bounds --tune` tries others).

    `shares` of ε go to the three histograms. The probability that noise alone makes any empty cell, or window of empty cells, stand out is `false_alarm`
    at most. From the quantiles outside of which `tail` noise scales of records lie, and `tail_ratio` and `tail_ratio`² times as many, bounds are
    extrapolated to where `left_out`/ε records would lie outside (Pickands 1975). Whole numbers end before one whose count is below `next_cell` noise scales.
    A tail ends before cells that are e^`clearly_empty` times likelier to be empty than to be filled as extrapolated. Cells far beyond the sizes that stand out count where those of their octave reach `seen_twice` noise scales as well. What noisy counts say is clipped is taken for `caution` of its standard deviations more.
    """

    shares: tuple[float, float, float] = (0.15, 0.1, 0.75)
    middle_cells: int = 64
    steps_per_octave: int = 6
    false_alarm: float = 1e-3
    tail: float = 25.0
    left_out: float = 2.0
    next_cell: float = 2.5
    tail_ratio: float = 4.0
    caution: float = 1.5
    clearly_empty: float = 2.0
    seen_twice: float = 3.0


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
    noisy: NoisyHistogram, epsilon: float, unit_rows: int = 1, rule: BoundsRule = RULE, *, whole: bool = False
) -> FoundNumber | None:
    """Bounds and bins of a column whose counts `noisy` gives, whole ones of `whole` numbers; None where no cell stands out from the noise."""
    for_size, for_middle, for_distance = stage_epsilons(epsilon, rule)
    of_sizes = noisy(SIZES, for_size)
    sizes = standing_out(of_sizes, for_size, unit_rows, rule)
    if sizes is None:
        return None
    zoom = quartile_edges(sizes, SIZES)
    middle_edges = np.linspace(*zoom, rule.middle_cells + 1)
    middle = median_edge(noisy(middle_edges, for_middle), middle_edges)
    if zoom[0] < 0 < zoom[1] and zoom[1] - zoom[0] <= 2 * OCTAVES[0]:
        middle = 0.0
    near = distance_edges(middle, sizes, (zoom[1] - zoom[0]) / rule.middle_cells, rule)
    edges = with_far_edges(near, middle, rule)
    counts = noisy(edges, for_distance)
    if whole:
        counts, edges = cells_of_whole_numbers(counts, edges)
    is_far = (np.append(edges, np.inf) <= near[0]) | (np.append(-np.inf, edges) >= near[-1])
    likely = sizes_that_may_hold_rows(of_sizes, edges, for_size, unit_rows, rule)
    kept = standing_out(np.where(is_far & ~likely, 0.0, counts), for_distance, unit_rows, rule, is_far)
    if kept is None:
        return None
    scale = noise_on_counts(for_distance, len(counts), unit_rows).noise_scale
    low_end, high_end = ends_of_grid(near, edges, kept, middle)
    high = outer_bound(counts, edges, kept, scale, unit_rows / epsilon, rule, whole, high_end)
    low = -outer_bound(counts[::-1], -edges[::-1], kept[::-1], scale, unit_rows / epsilon, rule, whole, -low_end)
    if whole:
        low, high = whole_bounds(low, high)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        return None
    low, high = outward(low, high)
    if not low < high:
        return None
    number = FoundNumber(low, high, quantile_edges(np.where(kept > 0, counts, 0), edges, low, high))
    return whole_number(number) if whole else number


def least_sum(width: int, windows: int, rule: BoundsRule = RULE) -> float:
    """So many noise scales the summed noise of any of `windows` sets of `width` cells reaches with probability `false_alarm`/3 at most, at any ε."""
    surprise = math.log(3 * windows / rule.false_alarm)
    if width == 1:
        return surprise
    # Chernoff's bound, over a grid of s.
    s = np.linspace(0.02, 0.98, 49)
    return float(np.min((surprise - width * np.log1p(-(s**2))) / s))


def standing_out(
    counts: Floats, epsilon: float, unit_rows: int, rule: BoundsRule, is_far: NDArray[np.bool_] | None = None
) -> Floats | None:
    """The counts that stand out from their noise, alone or together with their neighbours, zero elsewhere; None if there is none.

    Of cells that are far there are many, and most are empty: they stand out by themselves or in windows of few, half of the false alarms are theirs, and half are those of the others.
    """
    scale = noise_on_counts(epsilon, len(counts), unit_rows).noise_scale
    found = np.zeros(len(counts))
    far = np.zeros(len(counts), np.bool_) if is_far is None else is_far
    halves = 2 if far.any() else 1
    widths = [width for width in WINDOWS if width <= len(counts)]
    for width in widths:
        window = np.ones(width)
        sums = np.convolve(counts, window, "valid")
        in_far = np.convolve(far, window, "valid") > 0
        near_least, far_least = (
            scale * least_sum(width, halves * windows * max(int(cells), 1), rule)
            for windows, cells in ((len(widths), (~far).sum()), (len(FAR_WINDOWS), far.sum() + width))
        )
        sums[sums < np.where(in_far, far_least if width in FAR_WINDOWS else np.inf, near_least)] = -np.inf
        while True:
            apart = np.where(np.convolve(found, window, "valid") == 0, sums, -np.inf)
            first = int(np.argmax(apart))
            if apart[first] == -np.inf:
                break
            found[first : first + width] = 1
    # A window may begin or end with empty cells.
    kept = np.where((found > 0) & (counts >= rule.next_cell * scale), counts, 0.0)
    return kept if kept.any() else None


def cells_of_whole_numbers(counts: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """The counts of cells that hold whole numbers, and edges halfway between these; what the others show is noise."""
    halfway = np.ceil(edges) - 0.5
    differs = np.append(True, np.diff(halfway) > 0)
    return counts[np.append(differs, True)], halfway[differs]


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


def sizes_that_may_hold_rows(
    of_sizes: Floats, edges: Floats, epsilon: float, unit_rows: int, rule: BoundsRule
) -> NDArray[np.bool_]:
    """Of each cell between the edges, whether the noisy count of its octave, or that with the one before or after it, is high: what is seen far away is seen twice, or noise alone would draw out one column in some thousands by any factor."""
    scale = noise_on_counts(epsilon, len(of_sizes), unit_rows).noise_scale
    by_twos = np.convolve(of_sizes, np.ones(2), "full")
    highest = np.maximum(of_sizes, np.maximum(by_twos[:-1], by_twos[1:]))
    centres = np.concatenate((edges[:1], (edges[:-1] + edges[1:]) / 2, edges[-1:]))
    likely: NDArray[np.bool_] = highest[np.searchsorted(SIZES, centres, side="right")] >= rule.seen_twice * scale
    return likely


def with_far_edges(near: Floats, middle: float, rule: BoundsRule) -> Floats:
    """The edges, and further ones at distances that go on growing by the same factor up to the largest octave: few rows may lie far beyond the sizes that stand out, and weigh more than all others."""
    furthest = float(near[-1] - middle)
    octaves = max(0.0, np.log2(OCTAVES[-1] / furthest))
    growth = np.arange(1, int(octaves * rule.steps_per_octave) + 1) / rule.steps_per_octave
    distances = furthest * 2.0**growth
    return np.unique(np.concatenate((middle - distances, near, middle + distances)))


def ends_of_grid(near: Floats, edges: Floats, kept: Floats, middle: float) -> tuple[float, float]:
    """How far bounds may be extrapolated downwards and upwards: to the ends of the cells that are near, or so many times beyond those far ones that stand out."""
    cells = np.flatnonzero(kept)
    low, high = edges[max(cells[0] - 1, 0)], edges[min(cells[-1], len(edges) - 1)]
    lowest = near[0] if low >= near[0] else middle - BEYOND_FAR * (middle - low)
    highest = near[-1] if high <= near[-1] else middle + BEYOND_FAR * (high - middle)
    return float(max(lowest, edges[0])), float(min(highest, edges[-1]))


def outer_bound(
    counts: Floats,
    edges: Floats,
    kept: Floats,
    scale: float,
    per_epsilon: float,
    rule: BoundsRule,
    whole: bool,
    end: float,
) -> float:
    """The upper bound: extrapolated, not beyond whole numbers that are seen to end, and moved to where clipping and noise together cost least."""
    last = min(int(np.flatnonzero(kept)[-1]), len(edges) - 1)
    bound = extrapolated_bound(counts, edges, last, scale, rule.left_out * per_epsilon, rule)
    if whole:
        last, ends = end_of_whole_numbers(counts, edges, last, rule.next_cell * scale)
        bound = min(bound, float(edges[last])) if ends else bound
    opposite = float(edges[max(int(np.flatnonzero(kept)[0]) - 1, 0)])
    return cheapest_bound(counts, edges, last, min(bound, end), opposite, scale, per_epsilon, rule)


def end_of_whole_numbers(counts: Floats, edges: Floats, last: int, least: float) -> tuple[int, bool]:
    """The last of the cells from `last` on that hold one whole number each and count `least` or more, and whether such a cell with less follows."""
    while last + 1 < len(edges) and edges[last + 1] - edges[last] == 1:
        if counts[last + 1] < least:
            return last, True
        last += 1
    return last, False


def extrapolated_bound(
    counts: Floats, edges: Floats, last: int, scale: float, left_out: float, rule: BoundsRule
) -> float:
    """Above which about `left_out` records lie, by extrapolation from three quantiles, or where the tail is seen to end."""
    # Most of a tail whose cells do not stand out lies within an octave beyond those that do.
    furthest = min(last + rule.steps_per_octave, len(edges) - 1)
    # Records from the lower edge of each cell on, from the outermost cell inwards; noise must not make them fall.
    outside = np.maximum.accumulate(np.append(0.0, np.cumsum(counts[furthest:0:-1])))
    places = edges[furthest::-1]
    ratio = rule.tail_ratio
    in_tail = min(rule.tail * scale, outside[-1] / (2 * ratio**2))
    first, second, third = (float(np.interp(factor * in_tail, outside, places)) for factor in (1, ratio, ratio**2))
    near, far = first - second, second - third
    if near <= 0 or far <= 0 or in_tail <= left_out:
        return float(edges[last])
    shape = float(np.clip(np.log(near / far) / np.log(ratio), SHORTEST_TAIL, LONGEST_TAIL))
    growth = in_tail / left_out
    exponential = abs(shape) < 1e-6
    reach = np.log(growth) / np.log(ratio) if exponential else (growth**shape - 1) / (1 - ratio**-shape)
    bound = float(first + near * reach)
    beyond = np.flatnonzero((edges >= first) & (edges < min(bound, edges[-1])))
    if len(beyond) == 0:
        return bound
    reaches = (edges[np.append(beyond, beyond[-1] + 1)] - first) / near
    outside_of = ratio**-reaches if exponential else np.maximum(1 + reaches * (1 - ratio**-shape), 0.0) ** (-1 / shape)
    end = end_of_tail(counts[beyond + 1], -in_tail * np.diff(outside_of), scale, rule)
    return bound if end is None else float(edges[beyond[end]])


def end_of_tail(counts: Floats, expected: Floats, scale: float, rule: BoundsRule) -> int | None:
    """The first of the outer cells that are empty rather than filled as extrapolated, by the likelihood of their noise; None where no cells are clearly so."""
    likelier_empty = np.cumsum((np.abs(counts - expected) - np.abs(counts))[::-1])[::-1] / scale
    most = int(np.argmax(likelier_empty))
    return most if likelier_empty[most] > rule.clearly_empty else None


def cheapest_bound(
    counts: Floats,
    edges: Floats,
    last: int,
    bound: float,
    opposite: float,
    scale: float,
    per_epsilon: float,
    rule: BoundsRule,
) -> float:
    """Returns, of `bound` and the edges, the place with the least estimated squared error of a sum that is released with the ε of the draft.

    The error is the variance of Laplace noise for this width, and what the noisy counts say is clipped, of the cells up to the last one that stands out or to `bound`,
    whichever is further; where something is clipped, `caution` standard deviations of the noise on that are added.
    """
    end = max(last, min(int(np.searchsorted(edges, bound)), len(edges) - 1))
    places = np.append(bound, edges[: end + 1][edges[: end + 1] > opposite])
    centres = np.append(edges[0], (edges[:end] + edges[1 : end + 1]) / 2)
    clipped = np.maximum(centres - places[:, None], 0.0)
    uncertain = rule.caution * scale * np.sqrt(2 * (clipped**2).sum(axis=1))
    bias = np.maximum(clipped @ counts[: end + 1] + uncertain, 0.0)
    return float(places[np.argmin(bias**2 + 2 * ((places - opposite) * per_epsilon) ** 2)])


def whole_bounds(low: float, high: float) -> tuple[float, float]:
    """The whole numbers in whose cells, of half before and after each and a quarter more, the bounds lie; two different ones."""
    low, high = float(np.floor(low + 0.75)), float(np.ceil(high - 0.75))
    return low, max(high, low + 1)


def whole_number(number: FoundNumber) -> FoundNumber:
    """Returns the column with bounds moved inwards to whole numbers, and bins that begin at such."""
    low, high = max(float(np.ceil(number.low)), 1 - LARGEST_WHOLE), min(float(np.floor(number.high)), LARGEST_WHOLE - 1)
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

"""Quantiles of counted values, several at once from one ε, drawn exactly. Proof: proofs/quantiles.md.

Values are counted in public cells. A quantile is a cell; how wrong a cell is, is by how many records the ranks of its records miss the wanted one. The exponential
mechanism (McSherry and Talwar 2007) takes a cell for every wanted quantile at once, and the *largest* of their errors is what makes a choice unlikely: one
record moves it by no more than it moves one error, however many quantiles are wanted. A single quantile is drawn by permute-and-flip (McKenna and Sheldon
2020). A second draw takes cells for the same ranks again, to both sides of what was drawn first: intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.optimize import brentq

from sudare.array_types import Floats, Integers
from sudare.ball_precision import ball_precision
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import Cost, exact, pure_cost, rounded_down
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.noise import NoiseSource
from sudare.schema import Number

# Cells of one width where a column declares no bins; fewer where there are so many tables that counts would take much memory.
EQUAL_CELLS: Final = 2**17
MOST_COUNTS: Final = 2**20
MOST_QUANTILES: Final = 100
# Quantiles are fractions with at most so large a denominator, so that ranks are whole numbers of its parts.
LARGEST_DENOMINATOR: Final = 10_000
# How many times as many records there must be on the side of an end as it lies away, to be drawn. Chosen on made-up columns: benchmarks/quantile_margins.py.
REACHES_NEEDED = 1.0
# Errors of quantiles that a record moves less count for more, in such parts.
_WEIGHT_PARTS: Final = 64
# More than all rounding of floats can change in a share of weights.
_FLOAT_MARGIN: Final = 2.0**-30
_BEYOND_ALL_RANKS: Final = 2**62
# At how many bounds the law of ends is added up.
_BOUNDS: Final = 5_000


def checked_quantiles(quantiles: object) -> tuple[float, ...]:
    """Wanted quantiles, rising. Raise InvalidParameter unless they are numbers between 0 and 1 of at most four decimals."""
    if isinstance(quantiles, str) or not isinstance(quantiles, Sequence | np.ndarray):
        raise InvalidParameter("quantiles is not a list of numbers.", "Give for example quantiles=[0.25, 0.5, 0.75].")
    wanted = tuple(quantiles)
    if not 1 <= len(wanted) <= MOST_QUANTILES:
        raise InvalidParameter(
            f"quantiles are from 1 to {MOST_QUANTILES} numbers.", "Give for example quantiles=[0.5]."
        )
    for quantile in wanted:
        if isinstance(quantile, bool) or not isinstance(quantile, int | float | np.number) or not 0 < quantile < 1:
            raise InvalidParameter(
                "A quantile is not a number between 0 and 1.", "Give for example quantiles=[0.25, 0.5, 0.75]."
            )
        if exact(float(quantile)).denominator > LARGEST_DENOMINATOR:
            raise InvalidParameter("A quantile has more than four decimals.", "Give for example 0.3333.")
    found = tuple(map(float, wanted))
    if any(low >= high for low, high in itertools.pairwise(found)):
        raise InvalidParameter(
            "quantiles do not rise, or one is given twice.", "Give for example quantiles=[0.25, 0.5, 0.75]."
        )
    return found


@dataclass(frozen=True)
class Cells:
    """The public cells in which a column is counted.

    They are its declared bins, else one for each whole number of a column of whole numbers, else so many of one width that all of `tables` tables take
    little memory; so many as well where whole numbers are more.
    """

    number: Number
    tables: int = 1

    @cached_property
    def edges(self) -> Floats:
        """One more than there are cells. A cell holds its left edge, the last one both."""
        low, high = self.number.low, self.number.high
        if self.number.bins is not None:
            return np.array([low, *self.number.edges, high])
        most = max(min(EQUAL_CELLS, MOST_COUNTS // self.tables), 2)
        if self.number.whole and high - low < most:
            return np.arange(low, high + 2) - 0.5
        return np.linspace(low, high, most + 1)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.edges) - 1

    def of(self, values: Floats) -> Integers:
        """The cell of each value within the bounds."""
        return np.searchsorted(self.edges[1:-1], values, side="right").astype(np.int64)

    def middles(self, cells: Integers) -> Floats:
        """The middle of each cell; of a column of whole numbers the nearest of them, the lower of two."""
        middles = self.edges[cells] + (self.edges[cells + 1] - self.edges[cells]) / 2
        # Adding 0 makes −0 the 0 that it is.
        return np.ceil(middles - 0.5) + 0.0 if self.number.whole else middles + 0.0

    def intervals(self, cells: Integers) -> tuple[Floats, Floats, Floats]:
        """Value, lower and upper end from (itself, low, high) in the last axis; no end is on the wrong side of the value."""
        middle, low, high = np.moveaxis(cells, -1, 0)
        low, high = np.minimum(low, middle), np.maximum(high, middle)
        ends = self.edges[np.maximum(low, 0)], self.edges[np.minimum(high + 1, self.count)]
        if self.number.whole:
            ends = np.ceil(ends[0]) + 0.0, np.floor(ends[1]) + 0.0
        return self.middles(middle), *ends


def middles_of_bins(names: Iterable[str]) -> str:
    """What is to be said beside quantiles of columns with declared bins."""
    columns = ", ".join(map(repr, names))
    return f"Quantiles of {columns} are the middles of declared bins, wherever in a bin they lie."


# Said beside quantiles of columns without declared bins: proofs/quantiles.md has how often their intervals hold beside gaps.
BESIDE_GAPS: Final = "Where no values lie beside a quantile (groups of values far apart, rounded numbers), it and its interval may lie in that gap: such an interval holds less often."


def _distance(within: Floats, shares: Floats, level: float) -> float:
    """What a number exceeds with probability 1 − level that is uniform up to one of `within`, which have these shares."""

    def missing(distance: float) -> float:
        return (1.0 - level) - float(shares @ np.maximum(1.0 - distance / within, 0.0))

    found: float = brentq(missing, 0.0, float(within.max()))
    return found


class End(NamedTuple):
    """The end of an interval: the place of its quantile, and whether it is above or below."""

    quantile: int
    is_upper: bool


@dataclass(frozen=True)
class JointQuantiles:
    """ε-DP cells at the wanted quantiles of several columns of one table. Proof: proofs/quantiles.md.

    `quantiles` are wanted of every one of `columns` columns; `unit_rows` are the most rows of a unit. A table is one of several, of which a replaced
    row may change two (`grouped`), or the only one, whose number of rows a replaced row leaves as it is. With a `level` every quantile comes with
    two cells to its sides that hold the exact one with that probability.
    """

    quantiles: tuple[float, ...]
    columns: int
    epsilon: float
    neighbours: Neighbours
    unit_rows: int = 1
    grouped: bool = False
    level: float | None = None

    @cached_property
    def cost(self) -> Cost:
        """Pure ε."""
        return pure_cost(self.epsilon)

    @cached_property
    def denominator(self) -> int:
        """Ranks are counted in so many parts of a record: those of all quantiles, and halves."""
        return 2 * math.lcm(*(exact(quantile).denominator for quantile in self.quantiles))

    @cached_property
    def moves(self) -> tuple[int, ...]:
        """By how much a row moves the errors of each quantile, in parts of a record; both tables that a replaced row may change are counted."""
        parts = self.denominator
        if self.neighbours == "replace-one" and not self.grouped:
            return (parts,) * len(self.quantiles)
        tables = 2 if self.neighbours == "replace-one" else 1
        shares = [int(exact(quantile) * parts) for quantile in self.quantiles]
        return tuple(tables * max(share, parts - share) for share in shares)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Whole numbers by which errors are multiplied, so that a row moves those of all quantiles about equally."""
        return tuple(_WEIGHT_PARTS * max(self.moves) // move for move in self.moves)

    @cached_property
    def sensitivity(self) -> int:
        """By how much a row moves a weighted error at most."""
        return max(weight * move for weight, move in zip(self.weights, self.moves, strict=True))

    def rate(self, share: Fraction) -> float:
        """a in weights ∝ exp(−a·weighted error) for a share of ε; rounded down."""
        return rounded_down(exact(self.epsilon) * share / (2 * self.sensitivity * self.unit_rows))

    @property
    def noise_scale(self) -> float:
        """1/a in records: the largest error of all quantiles is about Gamma(their number) of this scale, less for those that a record moves less."""
        share = 1 - self.interval_share(self.ends(math.inf))
        return 1 / (self.rate(share) * self.denominator * min(self.weights))

    def interval_share(self, ends: Sequence[End]) -> Fraction:
        """The share of ε with which these ends of every column's intervals hold at the wanted level, where records are dense and even."""
        if self.level is None or not ends:
            return Fraction(0)
        ratio = 2 * (1 - exact(self.level)) * self.columns * len(ends) / (self.columns * len(self.quantiles) + 1)
        return ratio / (1 + ratio)

    @cached_property
    def interval_stages(self) -> tuple[tuple[float, tuple[End, ...]], ...]:
        """Which ends of intervals can be drawn, all of them first, each time with the number of rows above which they are.

        The fewer ends there are, the nearer they come: those with the fewest records on their side are left out until all others have enough.
        """
        stages = []
        ends = [End(place, is_upper) for place in range(len(self.quantiles)) for is_upper in (False, True)]
        while ends and self.level is not None:
            reaches = self.reaches(ends)
            rows = [REACHES_NEEDED * reach / self._share_beyond(end) for end, reach in zip(ends, reaches, strict=True)]
            stages.append((max(rows), tuple(ends)))
            del ends[rows.index(max(rows))]
        return tuple(stages)

    def ends(self, rows: float) -> tuple[End, ...]:
        """The ends of intervals that are drawn in a table of about so many rows; all others are at the declared bounds."""
        return next((ends for needed, ends in self.interval_stages if rows > needed), ())

    def reaches(self, ends: Sequence[End]) -> list[float]:
        """How far each of these ends typically is from its quantile, in records."""
        # The mean distance of a coordinate from 0, in weighted errors, where the density is exp(−a·largest of them).
        reach = (self.columns * len(ends) + 1) / (2 * self.rate(self.interval_share(ends)))
        return [reach / (self.denominator * self.weights[end.quantile]) for end in ends]

    def end_distances(self, ends: Sequence[End], rows: float, level: float) -> list[float]:
        """How far each of these ends is from its quantile in a table of so many rows, in records: exceeded with probability 1 − level, where values lie evenly."""
        rate, count = self.rate(self.interval_share(ends)), self.columns * len(ends)
        scales = [rate * self.denominator * self.weights[end.quantile] for end in ends]
        # A bound r has the density exp(−r) · Π (cells within it), and cells are no more than there are on a side; each end is then uniform within the bound.
        bounds = np.linspace(0.0, count + 10 * math.sqrt(count) + 40, _BOUNDS + 1)[1:]
        sides = [scale * rows * self._share_beyond(end) for end, scale in zip(ends, scales, strict=True)]
        within = [np.minimum(bounds, side) for side in sides]
        logarithms = self.columns * np.sum(np.log(within), axis=0) - bounds
        shares = np.exp(logarithms - logarithms.max())
        shares /= shares.sum()
        return [_distance(cells, shares, level) / scale for cells, scale in zip(within, scales, strict=True)]

    @property
    def rows_for_intervals(self) -> float:
        """A table of more rows has both ends of all intervals; in one of fewer some are at the declared bounds."""
        return self.interval_stages[0][0] if self.interval_stages else 0.0

    @property
    def rows_for_any_end(self) -> float:
        """In a table of more rows some end of an interval is drawn; in one of fewer all reach from one declared bound to the other."""
        return min((needed for needed, _ in self.interval_stages), default=0.0)

    def _share_beyond(self, end: End) -> float:
        """The share of all records on the side of a quantile where its end is."""
        quantile = self.quantiles[end.quantile]
        return 1 - quantile if end.is_upper else quantile

    def chosen(self, counts: Sequence[Integers], source: NoiseSource, rows: float = math.inf) -> Integers:
        """Cells by column, quantile and, with intervals, (itself, low, high); −1 and the number of cells stand for the declared bounds.

        How many `rows` the table has, about, is public or was released; it decides which ends are drawn.
        """
        ends, shape = self.ends(rows), (self.columns, len(self.quantiles))
        middles = _drawn(*self.first_draw(counts, ends), source).reshape(shape)
        if self.level is None:
            return middles
        found = np.empty((*shape, 3), dtype=np.int64)
        found[..., 0], found[..., 1] = middles, -1
        found[..., 2] = np.array([len(column) for column in counts])[:, np.newaxis]
        if ends:
            places = _drawn(*self.second_draw(counts, ends, middles), source).reshape(self.columns, -1)
            for end, drawn in zip(ends, places.T, strict=True):
                # The first place of a lower end is the declared bound, that of an upper one the cell of the quantile.
                first = middles[:, end.quantile] if end.is_upper else -1
                found[:, end.quantile, 2 if end.is_upper else 1] = first + drawn
        return found

    def first_draw(self, counts: Sequence[Integers], ends: Sequence[End]) -> tuple[list[Choice], float]:
        """The quantiles, and the rate. Where there are no ends they have all of ε."""
        choices = [
            Choice(*self._ranks(column), rank, weight)
            for column in counts
            for weight, rank in zip(self.weights, self._wanted(column), strict=True)
        ]
        return choices, self.rate(1 - self.interval_share(ends))

    def second_draw(
        self, counts: Sequence[Integers], ends: Sequence[End], middles: Integers
    ) -> tuple[list[Choice], float]:
        """Returns the draws of the same ranks among cells from that of each quantile on to one side (`middles`, by column and quantile), and the rate."""
        choices = []
        for column, cells in zip(counts, middles.tolist(), strict=True):
            (below, upto), wanted = self._ranks(column), self._wanted(column)
            beyond = int(upto[-1]) + self.denominator
            for end in ends:
                sides = (
                    _upwards(below, upto, cells[end.quantile], beyond)
                    if end.is_upper
                    else _downwards(below, upto, cells[end.quantile], -(self.denominator // 2))
                )
                choices.append(Choice(*sides, wanted[end.quantile], self.weights[end.quantile]))
        return choices, self.rate(self.interval_share(ends))

    def _ranks(self, counts: Integers) -> tuple[Integers, Integers]:
        """The ranks from which and up to which each cell is exact: those of its first and last record, the i-th of which has the rank i − ½.

        An empty cell is exact nowhere: the first is that of the record after it, the last that of the one before.
        """
        below, half = self.denominator * np.cumsum(counts, dtype=np.int64), self.denominator // 2
        return below - self.denominator * counts + half, below - half

    def _wanted(self, counts: Integers) -> list[int]:
        """The rank of the exact quantile where the number of records stays as it is, else about that: its mean over numbers of records, which moves evenly with them."""
        parts, records = self.denominator, int(counts.sum())
        if self.neighbours == "replace-one" and not self.grouped:
            return [parts * math.ceil(exact(quantile) * records) - parts // 2 for quantile in self.quantiles]
        shares = [(int(exact(quantile) * parts), exact(quantile).denominator) for quantile in self.quantiles]
        return [share * records - parts // (2 * whole) for share, whole in shares]


def _upwards(below: Integers, upto: Integers, cell: int, next_rank: int) -> tuple[Integers, Integers]:
    """Ranks of a cell and those above it, and of the upper bound. The cell has all lower ranks, too; the bound all from the next one after all records on."""
    return (
        np.concatenate([[-_BEYOND_ALL_RANKS], below[cell + 1 :], [next_rank]]),
        np.concatenate([upto[cell:], [_BEYOND_ALL_RANKS]]),
    )


def _downwards(below: Integers, upto: Integers, cell: int, rank_before: int) -> tuple[Integers, Integers]:
    """Ranks of the lower bound, of the cells below a cell and of itself. The bound has all ranks up to the one before all records; the cell all higher ranks, too."""
    return (
        np.concatenate([[-_BEYOND_ALL_RANKS], below[: cell + 1]]),
        np.concatenate([[rank_before], upto[:cell], [_BEYOND_ALL_RANKS]]),
    )


@dataclass(frozen=True, eq=False)
class Choice:
    """A wanted rank, and the ranks from `below` to `upto` of each cell, both rising; of an empty cell `below` is the larger. Cells with errors up to a bound are neighbours of each other."""

    below: Integers
    upto: Integers
    rank: int
    weight: int

    def errors(self, first: int = 0, past: int | None = None) -> Integers:
        """By how much the wanted rank lies below or above the ranks of each cell at most, weighted; of cells from `first` on, before `past`."""
        below, upto = self.below[first:past], self.upto[first:past]
        return self.weight * np.maximum(np.maximum(below - self.rank, self.rank - upto), 0)

    @property
    def least(self) -> int:
        """The least error."""
        # The first cell up to the rank or further, and of those before it the first one that comes as near.
        place = int(np.searchsorted(self.upto, self.rank))
        nearest = [place] if place < len(self.upto) else []
        if place > 0:
            nearest.append(int(np.searchsorted(self.upto, self.upto[place - 1])))
        return min(int(self.errors(each, each + 1)[0]) for each in nearest)

    def within(self, bounds: Any) -> tuple[Any, Any]:
        """The first cell with an error up to each bound, and the first one after all such cells."""
        reach = bounds // self.weight
        return np.searchsorted(self.upto, self.rank - reach), np.searchsorted(self.below, self.rank + reach, "right")


def _drawn(choices: Sequence[Choice], rate: float, source: NoiseSource) -> Integers:
    """A cell for each choice."""
    only = len(choices) == 1
    picked = [_best_of_one(choices[0].errors(), rate, source)] if only else _best_of_all(choices, rate, source)
    return np.array(picked, dtype=np.int64)


# One cell: permute-and-flip


def _best_of_one(errors: Integers, rate: float, source: NoiseSource) -> int:
    """A uniform choice among the cells that a coin of probability exp(−rate·(error − least error)) accepts; the best are always."""
    accepted = np.flatnonzero(exponential_coins(errors - errors.min(), rate, source))
    return int(accepted[source.integer_below(len(accepted))])


def exponential_coins(errors: Integers, rate: float, source: NoiseSource) -> NDArray[np.bool_]:
    """True with probability exp(−rate·error), exactly: 64 bits of a uniform number nearly always decide, else more are drawn."""
    words = source.words(len(errors))
    probabilities = np.exp(-rate * errors.astype(np.float64))
    least, most = (words.astype(np.float64) + np.array([[0.0], [1.0]])) * 2.0**-64
    surely = most <= probabilities * (1 - _FLOAT_MARGIN)
    hardly = least >= np.maximum(probabilities * (1 + _FLOAT_MARGIN), 2.0**-63)
    certain = errors == 0
    for place in np.flatnonzero(~(surely | hardly | certain)):
        surely[place] = _exact_coin(int(words[place]), int(errors[place]), rate, source)
    accepted: NDArray[np.bool_] = surely | certain
    return accepted


def _exact_coin(word: int, error: int, rate: float, source: NoiseSource) -> bool:
    bits = 64
    while True:
        with ball_precision(bits + 64):
            probability = (-(arb(rate) * error)).exp() * arb(2) ** bits
            if arb(word + 1) <= probability:
                return True
            if arb(word) >= probability:
                return False
        word, bits = word << 64 | int(source.words(1)[0]), bits + 64


# Several cells: the largest error first, then a cell within it for each


def _best_of_all(choices: Sequence[Choice], rate: float, source: NoiseSource) -> list[int]:
    """One cell for each choice, with probability ∝ exp(−rate·largest error).

    exp(−a·e) is the integral of a·exp(−a·r) over r ≥ e: a bound r with density ∝ exp(−a·r)·Π (cells with errors up to r) is drawn, then a uniform cell
    within it for each. The numbers of cells change at finitely many r only.
    """
    word = int(source.words(1)[0])
    bound = _bound_by_floats(word, choices, rate)
    if bound is None:
        bound = _bound_by_balls(word, choices, rate, source)
    within = [map(int, choice.within(bound)) for choice in choices]
    return [first + source.integer_below(past - first) for first, past in within]


def _steps(choices: Sequence[Choice], most: int) -> tuple[Integers, Integers]:
    """Bounds up to `most` at which a number of cells within them changes, from the least on that has a cell for each choice; and these numbers by choice."""
    least = max(choice.least for choice in choices)
    errors = (choice.errors(*choice.within(most)) for choice in choices)
    # Empty neighbours have one error.
    different = [row[np.diff(row, prepend=-1) != 0] for row in errors]
    bounds = np.unique(np.concatenate([np.array([least]), *different]))
    bounds = bounds[np.searchsorted(bounds, least) :]
    within = (choice.within(bounds) for choice in choices)
    return bounds, np.stack([past - first for first, past in within])


def law_of_bounds(choices: Sequence[Choice], rate: float) -> tuple[Integers, Floats]:
    """The bounds that may be drawn, and with which probability one of them or of those before it is, in floats."""
    least = max(choice.least for choice in choices)
    # All weights add up to one at least, and those of larger bounds to less than e⁻⁴⁰.
    reach = (sum(math.log(len(choice.upto)) for choice in choices) + 40) / rate
    bounds, within = _steps(choices, least + math.ceil(min(reach, 2.0**61)))
    gaps = np.append(np.diff(bounds).astype(np.float64), np.inf)
    logarithms = np.log(within).sum(axis=0) - rate * (bounds - least) + np.log(-np.expm1(-rate * gaps))
    shares = np.cumsum(np.exp(logarithms - logarithms.max()))
    return bounds, shares / shares[-1]


def _bound_by_floats(word: int, choices: Sequence[Choice], rate: float) -> int | None:
    """The bound that a uniform number, known to 64 bits, draws; None where the error of floats leaves it uncertain."""
    bounds, shares = law_of_bounds(choices, rate)
    uniform = word * 2.0**-64
    place = int(np.searchsorted(shares[:-1], uniform))
    nearest = min(abs(uniform - share) for share in (*shares[max(place - 1, 0) : place + 1], 1.0))
    return int(bounds[place]) if nearest > _FLOAT_MARGIN else None


def _bound_by_balls(word: int, choices: Sequence[Choice], rate: float, source: NoiseSource) -> int:
    """The same with certainty: bits are added to the uniform number until it lies in the share of one bound."""
    bounds, within = _steps(choices, max(int(choice.errors().max()) for choice in choices))
    bits = 64
    while True:
        with ball_precision(2 * bits + 128):
            tails = [(-(arb(rate) * int(bound - bounds[0]))).exp() for bound in bounds] + [arb(0)]
            weights = [
                (tails[place] - tails[place + 1]) * math.prod(map(int, within[:, place]))
                for place in range(len(bounds))
            ]
            total = sum(weights, start=arb(0))
            low, high = (total * number / arb(2) ** bits for number in (word, word + 1))
            summed = arb(0)
            for place, weight in enumerate(weights):
                is_last = place == len(weights) - 1
                if (place == 0 or summed <= low) and (is_last or high <= summed + weight):
                    return int(bounds[place])
                summed += weight
        word, bits = word << 64 | int(source.words(1)[0]), bits + 64

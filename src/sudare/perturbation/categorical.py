"""Perturbations of category columns: retain-replace, optimised unary encoding, subset selection.

All three answer with a set S of categories: one category, or a row of ticks. And for all three, up to a factor that does
not depend on the value, P(S | value) is e^ε if the value is in S, and 1 if it is not. So one likelihood serves them all.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Integers
from sudare.errors import DataError, SchemaError, UnknownCategory
from sudare.perturbation.column_perturbation import Perturbation, unsigned_type
from sudare.perturbation.exact_draws import CHUNK_VALUES, WORD_BITS, ratio_within
from sudare.privacy.noise import NoiseSource
from sudare.schema import Category, Level
from sudare.schema.column_values import codes as level_codes
from sudare.schema.table_from_any_frame import as_column

Ticks = NDArray[np.bool_]

MOST_VALUES: Final = 4096
# Half a word is enough where no outcome has fewer than this many of the 2³² half words.
_FEWEST_HALF_WORDS: Final = 2**16
_TICKS_AT_ONCE: Final = 2**18
# Fewer ticks than this are not worth compiling a loop for.
_MANY_TICKS: Final = 2**20
# A quarter word is unfair once in 32 times at 4,096 categories, and far more seldom with fewer.
_SPARE_WORDS: Final = 2**10
# Quarter words are unfair too often where there are more items than this to choose from.
_FEW_ITEMS: Final = 128


class CategoryPerturbation(Perturbation):
    """ε-local DP for one category. `values` are the public list, as in a schema's `Category`.

    Parameters
    ----------
    values : all categories that a record can have; never taken from the data.
    epsilon, or k with n_records : as in `LaplacePerturbation`.
    missing : the category that missing values belong to, if there may be some.
    """

    answers_with_sets: ClassVar[bool]
    column_type = np.int64

    def __init__(
        self,
        values: Sequence[Level],
        *,
        epsilon: float | None = None,
        k: int | None = None,
        n_records: int | None = None,
        missing: Level | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, k=k, n_records=n_records)
        self._category = Category(values, missing)  # type: ignore[arg-type]
        if len(self.values) > MOST_VALUES:
            raise SchemaError(f"There are more than {MOST_VALUES} categories.", "Group them by a public rule.")

    @property
    def values(self) -> tuple[Level, ...]:
        """The categories in the order of their codes."""
        return self._category.levels

    @property
    def output_count(self) -> int:
        """How many categories there are."""
        return len(self.values)

    @property
    @abstractmethod
    def tick_probabilities(self) -> tuple[float, float]:
        """The probability that the own category is in the answer, and that a given other one is."""

    @property
    def odds(self) -> float:
        """P(S | value in S)/P(S | value not in S), as it is drawn: e^ε, or a little less."""
        return float(self.ratio)

    def column(self, values: Any) -> Integers:
        """The position of each value among the categories."""
        return level_codes(as_column(values, "with the values"), self._category, "values")

    def codes(self, column: NDArray[Any]) -> Integers:
        """The positions themselves."""
        return column

    def answered(self, values: Any) -> Integers:
        """The positions of perturbed values; where text stands for missing numbers they are of several types."""
        answers = np.asarray(values)
        if answers.dtype != object or not all(type(value) in (str, int, bool) for value in answers):
            return self.column(values)
        position = {(type(value), value): code for code, value in enumerate(self.values)}
        codes = [position.get((type(value), value), -1) for value in answers]
        if -1 in codes:
            raise UnknownCategory("A perturbed value is not one of the categories.", UnknownCategory.help)
        return np.array(codes, dtype=np.int64)

    @abstractmethod
    def ticks(self, outputs: NDArray[Any]) -> Ticks:
        """Outputs as rows of ticks, one column a category."""

    def description(self) -> dict[str, Any]:
        """Kind, values, ε, and both probabilities of a tick."""
        own, other = self.tick_probabilities
        return {"kind": self.kind, "values": list(self.values), "epsilon": self.epsilon, "own": own, "other": other}


class RetainReplace(CategoryPerturbation):
    """ε-local DP for one category: kept with probability ρ, else replaced by any. Proof: proofs/record_perturbation.md.

    ρ = (r − 1)/(r − 1 + V) for V categories and r = e^ε; with k, r = √((n_records − 1)/(k − 1)). A replacement may be the
    own category again, so the own one comes out with r/(r − 1 + V) and each other one with 1/(r − 1 + V).
    """

    kind = "retain-replace"
    answers_with_sets = False

    @cached_property
    def _bits(self) -> int:
        """How many random bits a value takes: half a word where every outcome has enough of the half words."""
        half = WORD_BITS // 2
        return half if 2**half / (ratio_within(self.epsilon) + self._others) >= _FEWEST_HALF_WORDS else WORD_BITS

    @cached_property
    def other_weight(self) -> int:
        """How many of the 2^bits words give a certain other category."""
        # Own words are 2^bits − others·w ≤ r·w exactly if w ≥ 2^bits/(r + others).
        return math.ceil(Fraction(2**self._bits) / (ratio_within(self.epsilon) + self._others))

    @cached_property
    def own_weight(self) -> int:
        """How many of them give the own category."""
        return (1 << self._bits) - self._others * self.other_weight

    @property
    def _others(self) -> int:
        return len(self.values) - 1

    @property
    def tick_probabilities(self) -> tuple[float, float]:
        """Probabilities of a tick: of the own category, and of a given other one."""
        total = 2**self._bits
        return float(Fraction(self.own_weight, total)), float(Fraction(self.other_weight, total))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of probabilities: own weight over other weight."""
        return Fraction(self.own_weight, self.other_weight)

    def draw(self, codes: Integers, source: NoiseSource) -> Integers:
        """The first V − 1 blocks of words lead to the categories that follow the own one in a circle, the rest to itself."""
        count = len(self.values)
        if self._bits == WORD_BITS:
            ahead = (source.words(len(codes)) // np.uint64(self.other_weight)).astype(np.int64)
        else:
            halves = source.words((len(codes) + 1) // 2).view(np.uint32)[: len(codes)]
            ahead = (halves // np.uint32(self.other_weight)).astype(np.int64)
        np.minimum(ahead, count - 1, out=ahead)
        ahead += codes
        ahead += 1
        ahead -= count * (ahead >= count)
        return ahead

    def packed(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Codes in the smallest unsigned type."""
        return outputs.astype(unsigned_type(len(self.values)))

    def unpacked(self, stored: NDArray[Any]) -> Integers:
        """Codes as they were drawn."""
        return stored.astype(np.int64)

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """The categories that the codes stand for."""
        categories: NDArray[Any] = level_array(self.values)[stored]
        return categories

    def ticks(self, outputs: NDArray[Any]) -> Ticks:
        """Rows with a single tick, that of the category."""
        ticks: Ticks = outputs[:, np.newaxis] == np.arange(len(self.values))
        return ticks


class SetPerturbation(CategoryPerturbation):
    """A category perturbation that answers with a set: outputs are rows of ticks."""

    answers_with_sets = True

    @property
    def chunk_values(self) -> int:
        """How many values are drawn at a time: fewer where there are more categories."""
        return max(256, _TICKS_AT_ONCE // len(self.values))

    def packed(self, outputs: NDArray[Any]) -> NDArray[np.uint8]:
        """Eight ticks a byte, the first in the lowest bit; bits without a category are zero."""
        by_category = outputs.T
        stored = np.zeros((len(outputs), (len(by_category) + 7) // 8), dtype=np.uint8)
        for first in range(0, len(by_category), 8):
            byte = np.zeros(len(outputs), dtype=np.uint8)
            for bit, ticks in enumerate(by_category[first : first + 8]):
                byte |= ticks.view(np.uint8) << np.uint8(bit)
            stored[:, first // 8] = byte
        return stored

    def unpacked(self, stored: NDArray[Any]) -> Ticks:
        """Rows of ticks."""
        bits = np.unpackbits(np.ascontiguousarray(stored).ravel(), bitorder="little").reshape(len(stored), -1)
        ticks: Ticks = bits[:, : len(self.values)].view(np.bool_)
        return ticks

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Rows of ticks, one column a category."""
        return self.unpacked(stored)

    def ticks(self, outputs: NDArray[Any]) -> Ticks:
        """The outputs themselves; raise DataError unless they are rows of ticks."""
        if outputs.ndim != 2 or outputs.shape[1] != len(self.values) or outputs.dtype != np.bool_:
            raise DataError(
                f"{type(self).__name__} answers with rows of {len(self.values)} ticks.",
                "Give a boolean array with one column a category.",
            )
        return outputs


class UnaryEncoding(SetPerturbation):
    """ε-local DP for one category as a row of ticks (optimised unary encoding). Proof: proofs/record_perturbation.md.

    Wang, Blocki, Li and Jha (2017): the own tick is set with probability ½, every other one with 1/(e^ε + 1), independently.
    """

    kind = "unary"

    @cached_property
    def other_weight(self) -> int:
        """How many of 2⁶⁴ words set a tick that is not the own one: (1 − q)/q ≤ e^ε exactly if q ≥ 1/(1 + e^ε)."""
        return math.ceil(Fraction(2**WORD_BITS) / (ratio_within(self.epsilon) + 1))

    @property
    def tick_probabilities(self) -> tuple[float, float]:
        """½ and 1/(e^ε + 1)."""
        return 0.5, self.other_weight / 2**WORD_BITS

    @property
    def ratio(self) -> Fraction:
        """Own tick set and the other's not, against the reverse: (1 − q)/q."""
        return Fraction(2**WORD_BITS - self.other_weight, self.other_weight)

    def draw(self, codes: Integers, source: NoiseSource) -> Ticks:
        """A byte a tick decides nearly always; where it equals the first byte of the threshold, seven more do."""
        rows, count = len(codes), len(codes) * len(self.values)
        first_bytes = source.words((count + 7) // 8).view(np.uint8)[:count]
        leading, rest = divmod(self.other_weight, 2 ** (WORD_BITS - 8))
        ticks: Ticks = first_bytes < leading
        undecided = np.flatnonzero(first_bytes == leading)
        ticks[undecided] = (source.words(len(undecided)) >> np.uint64(8)) < np.uint64(rest)
        # One category after the other: that is quicker to draw and to pack than row by row.
        own = codes * rows + np.arange(rows)
        ticks[own] = first_bytes[own] < 128
        by_category: Ticks = ticks.reshape(-1, rows)
        return by_category.T


class SubsetSelection(SetPerturbation):
    """ε-local DP for one category as a set of fixed size. Proof: proofs/record_perturbation.md.

    Ye and Barg (2018): ω ≈ V/(e^ε + 1) categories; the own one is among them with probability ωe^ε/(ωe^ε + V − ω), and
    all sets of that kind are equally likely. With ω = 1 this is `RetainReplace`.
    """

    kind = "subset"

    @cached_property
    def size(self) -> int:
        """ω, from 1 to V − 1."""
        count = len(self.values)
        return min(max(1, round(count / (math.exp(self.epsilon) + 1))), count - 1)

    @cached_property
    def own_weight(self) -> int:
        """Number of the 2⁶⁴ words for which the own category is in the set."""
        growth, size, count = ratio_within(self.epsilon), self.size, len(self.values)
        return math.floor(Fraction(2**WORD_BITS * size) * growth / (size * growth + count - size))

    @property
    def tick_probabilities(self) -> tuple[float, float]:
        """Probabilities of a tick: of the own category, and of a given other one, the mean number of others over V − 1."""
        own, size, count = self.own_weight / 2**WORD_BITS, self.size, len(self.values)
        return own, (size - own) / (count - 1)

    @property
    def ratio(self) -> Fraction:
        """P(S | value in S)/P(S | value not in S): own/(1 − own)·(V − ω)/ω."""
        own, size, count = self.own_weight, self.size, len(self.values)
        return Fraction(own * (count - size), (2**WORD_BITS - own) * size)

    def drawn(self, column: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """One set for each entry, packed; of many ticks by a compiled loop."""
        if len(column) * len(self.values) < _MANY_TICKS:
            return super().drawn(column, source)
        sets = np.zeros((len(column), (len(self.values) + 7) // 8), dtype=np.uint8)
        for start in range(0, len(column), CHUNK_VALUES):
            self._fill(column[start : start + CHUNK_VALUES], sets[start : start + CHUNK_VALUES], source)
        return sets

    def _fill(self, codes: Integers, sets: NDArray[np.uint8], source: NoiseSource) -> None:
        """Sets for some rows. A row for which draws ran out begins anew: how many were unfair says nothing about the others."""
        from sudare.perturbation.compiled_draws import chosen_sets, chosen_small_sets

        choose = chosen_small_sets if len(self.values) <= WORD_BITS else chosen_sets
        own_in = source.words(len(codes)) < np.uint64(self.own_weight)
        done = 0
        while done < len(codes):
            sets[done] = 0
            draws = source.words((len(codes) - done) * self.size // 4 + _SPARE_WORDS).view(np.uint16)
            done += choose(codes[done:], own_in[done:], self.size, len(self.values), draws, sets[done:])

    def draw(self, codes: Integers, source: NoiseSource) -> Ticks:
        """Whether the own category is in the set; then as many others as are wanted, all choices of them equally likely."""
        rows, width = len(codes), len(self.values)
        own_in = source.words(rows) < np.uint64(self.own_weight)
        wanted = self.size - own_in.astype(np.int64)
        # One category after the other: that is quicker to draw and to pack than row by row.
        ticks = np.empty((width, rows), dtype=np.bool_)
        ticks[:-1], is_unfair = chosen_of_each(width - 1, wanted, source)
        while is_unfair.any():
            again = np.flatnonzero(is_unfair)
            ticks[:-1, again], is_unfair[again] = chosen_of_each(width - 1, wanted[again], source)
        # The others are all categories but the own one, in whose place stands the last.
        row_numbers = np.arange(rows)
        ticks[-1] = ticks[codes, row_numbers]
        ticks[codes, row_numbers] = own_in
        return ticks.T


def chosen_of_each(items: int, wanted: Integers, source: NoiseSource) -> tuple[Ticks, Ticks]:
    """Returns for each row (a column here) as many of the items as it wants, all choices equally likely; and the rows to be drawn anew.

    Selection sampling: of the m items that are left, the next is taken with probability (still wanted)/m. For that a part of a
    word is divided into m equal blocks; the few that do not fit into m equal blocks are unfair, and the row is drawn anew.
    """
    rows, part = len(wanted), np.dtype(np.uint16 if items <= _FEW_ITEMS else np.uint32)
    values, a_word = 2 ** (8 * part.itemsize), 8 // part.itemsize
    still_wanted, is_unfair = wanted.astype(part), np.zeros(rows, dtype=np.bool_)
    chosen = np.empty((items, rows), dtype=np.bool_)
    parts = source.words((items * rows + a_word - 1) // a_word).view(part)[: items * rows].reshape(items, rows)
    for item in range(items):
        left = items - item
        places = parts[item] // part.type(min(values // left, values - 1))
        is_unfair |= places >= left
        np.less(places, still_wanted, out=chosen[item])
        still_wanted -= chosen[item]
    return chosen, is_unfair


def level_array(levels: Sequence[Level]) -> NDArray[Any]:
    """Categories as an array; of mixed kinds (a text for missing among numbers) as objects."""
    mixed = len({type(level) for level in levels}) > 1
    return np.array(levels, dtype=object if mixed else None)


def best_kind(count: int, epsilon: float) -> type[CategoryPerturbation]:
    """Retain-replace where V < 3e^ε + 2, as its variance is the smaller one there (Wang et al. 2017); else subset selection."""
    return RetainReplace if count < 3 * math.exp(epsilon) + 2 else SubsetSelection

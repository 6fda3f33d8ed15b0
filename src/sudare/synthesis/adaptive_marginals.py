"""Synthetic rows from noisy counts of columns and of pairs chosen one after another. Proof: proofs/synthesis.md.

Every column is counted first, with the label where there is one: models learn from that. Then, round by round, the exponential mechanism chooses the pair that the distribution found so far gets
wrong most (less what its noise would be), the pair is counted with noise, and the distribution is fitted again, as in AIM (McKenna,
Mullins, Sheldon and Miklau 2022). Where a round hardly changed its table, later ones get less noise. Last, the distances of all
pairs from the distribution are measured: a receiver can see how wrong each of them is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sudare.array_types import Floats, Integers, Positions
from sudare.errors import InvalidParameter
from sudare.privacy.discrete_exponential_mechanism import drawn
from sudare.privacy.mechanisms import Gaussian, Laplace
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_file import Tensors
from sudare.schema.combinations import KnownCells, exclude
from sudare.synthesis.clique_tree import CliqueTree, Columns
from sudare.synthesis.column_pairs import Pair, distance_to_model
from sudare.synthesis.consistent_counts import averaged, noise_variance
from sudare.synthesis.marginals import MOST_CELLS, MOST_COLUMNS, whole_counts
from sudare.synthesis.staged_budget import StagedNoise, mean_size, standard_deviation
from sudare.synthesis.table_cells import LARGEST_CELL, CodedRows, Layout, are_cells, combination_counts
from sudare.synthesis.tree_distribution import NoisyTable, TreeDistribution

# The budget is spent in so many equal parts: a release says exactly how many of them a table had.
UNITS: Final = 2**30
MOST_PAIR_CELLS: Final = 2**15
# A tree has at most so many cells besides those of its columns.
MOST_TREE_CELLS: Final = 2**18
_ROW: Final = 3

# Of the budget, and rounds for every column if all had the first round's noise; compared on tuning tables by `python -m benchmarks.synthesis --tune`.
# Up to this ε columns get more: noise of their counts is then most of what is wrong.
_SMALL_EPSILON: Final = 2.0
_SHARES_OF_COLUMNS: Final = {"small": Fraction(1, 2), "large": Fraction(1, 5)}
_SHARE_OF_ERRORS: Final = Fraction(1, 50)
_SHARE_OF_CHOICE: Final = Fraction(1, 10)
_ROUNDS_PER_COLUMN: Final = {"gaussian": 2, "laplace": 1}
_GROWTH: Final = 2
_MOST_COLUMNS_OF_ROUNDS: Final = 32
_SWEEPS_OF_A_ROUND: Final = 5
_SWEEPS_AT_THE_END: Final = 30


def most_stages(columns: int, law: Literal["gaussian", "laplace"]) -> int:
    """How many noisy vectors there are at most for so many columns."""
    rounds = _ROUNDS_PER_COLUMN[law] * min(columns, _MOST_COLUMNS_OF_ROUNDS) + 2
    return 2 + max(rounds, columns * (columns - 1) // 2)


@dataclass(frozen=True)
class AdaptiveEngine:
    """(ε, δ)-DP counts of columns and pairs, replace-one or add/remove rows. Proof: proofs/synthesis.md.

    The label is a column like others, the last. `declared` are public pairs, counted without a choice; None where they are chosen.
    `determined` are columns that others determine, with those: of each the table of both is counted with the columns, and the
    most frequent cell taken for every cell of the other. They are not among `names`, nor are those whose map is `known`: these are
    not counted. Combinations of cells that cannot be have no probability.
    """

    layout: Layout
    noise: StagedNoise
    declared: tuple[Pair, ...] | None
    determined: tuple[tuple[str, str], ...] = ()
    known: KnownCells = field(default_factory=KnownCells.none)

    def __post_init__(self) -> None:
        if self.declared is None and len(self.sizes) > MOST_COLUMNS:
            raise InvalidParameter(
                f"Pairs of more than {MOST_COLUMNS} columns cannot be chosen.", 'Declare them: tree=[("age", "sex")].'
            )
        tree = CliqueTree.of_tables((*self._held_tables(()), *(self.declared or ())), self.sizes)
        cells = tree.cells + sum(map(math.prod, self._map_shapes))
        if cells > MOST_CELLS:
            raise InvalidParameter(
                f"These columns and pairs need {cells:,} cells; at most {MOST_CELLS:,} are held.",
                "Declare fewer bins, categories or pairs.",
            )
        # Noise that cannot be made for these ε and δ is refused here, before anything is charged.
        self.columns_noise()
        if self.pairs:
            self.errors_noise()
            self.pair_noise(1, 1)

    @cached_property
    def _all_sizes(self) -> dict[str, int]:
        """Cells of every column by name, the label last."""
        sizes = dict(zip(self.layout.names, self.layout.sizes, strict=True))
        return sizes if self.layout.label is None else {**sizes, self.layout.label: self.layout.classes}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all columns that no other determines, the label last."""
        determined = {*dict(self.determined), *self.known.maps}
        return tuple(name for name in self._all_sizes if name not in determined)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cells of every column in `names`."""
        return tuple(self._all_sizes[name] for name in self.names)

    @property
    def _map_shapes(self) -> list[tuple[int, int]]:
        """Of every determined column the cells of the one that determines it, and its own."""
        return [(self._all_sizes[by], self._all_sizes[name]) for name, by in self.determined]

    @cached_property
    def _first_tables(self) -> tuple[Columns, ...]:
        """What is counted first: every column with the label, where there is one; else every column."""
        last = len(self.sizes) - 1
        if self.layout.label is None or self.layout.label not in self.names or last == 0:
            return tuple((column,) for column in range(len(self.sizes)))
        return tuple((column, last) for column in range(last))

    @property
    def _first_cells(self) -> int:
        """Of the columns, and of the tables of determined ones."""
        return sum(map(self._cells, self._first_tables)) + sum(map(math.prod, self._map_shapes))

    @cached_property
    def _first_tree(self) -> CliqueTree:
        return CliqueTree.of_tables(self._held_tables(()), self.sizes)

    @cached_property
    def _possible(self) -> dict[Columns, Floats]:
        """Of columns that combinations name together a table with a zero where no row can be."""
        found: dict[Columns, Floats] = {}
        for combination in self.known.excluded:
            columns = tuple(sorted(map(self.names.index, combination)))
            table = found.setdefault(columns, np.ones([self.sizes[column] for column in columns]))
            exclude(table, [self.names[column] for column in columns], combination)
        return found

    def _held_tables(self, counted: Iterable[tuple[Pair, int]]) -> list[Columns]:
        """All tables that a tree must hold, with those of pairs counted."""
        return [*self._first_tables, *self._possible, *(pair for pair, _ in counted)]

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of columns that can be counted: those whose tables are not too large, and those declared."""
        both = itertools.combinations(range(len(self.sizes)), 2)
        found = [pair for pair in both if self._cells(pair) <= MOST_PAIR_CELLS]
        return sorted({*found, *(self.declared or ())})

    def _cells(self, columns: Columns) -> int:
        return math.prod(self.sizes[column] for column in columns)

    @property
    def _most_tree_cells(self) -> int:
        return MOST_TREE_CELLS + self._first_tree.cells

    # Shares of the budget, in units

    @property
    def _error_units(self) -> int:
        return int(_SHARE_OF_ERRORS * UNITS) if self.pairs else 0

    @property
    def _column_units(self) -> int:
        if not self.pairs or self.declared == ():
            return UNITS - self._error_units
        return int(_SHARES_OF_COLUMNS["small" if self.noise.epsilon <= _SMALL_EPSILON else "large"] * UNITS)

    @property
    def _pair_units(self) -> int:
        """Of all pairs together, their choice included."""
        return UNITS - self._column_units - self._error_units

    def columns_noise(self) -> Laplace | Gaussian:
        """Noise for the tables of all columns, determined ones with those that determine them."""
        tables = len(self._first_tables) + len(self.determined)
        return self.noise.for_counts(Fraction(self._column_units, UNITS), tables, self._first_cells)

    def pair_noise(self, units: int, cells: int) -> Laplace | Gaussian:
        """Noise for one table that has so much of the budget."""
        return self.noise.for_counts(Fraction(units, UNITS), 1, cells)

    def errors_noise(self) -> Laplace | Gaussian:
        """Noise for the distances of all pairs from the distribution."""
        return self.noise.for_scores(Fraction(self._error_units, UNITS), len(self.pairs))

    # With the data

    def measured(self, rows: CodedRows, source: NoiseSource) -> dict[str, NDArray[Any]]:
        """Everything that leaves: noisy counts of columns and pairs, which pairs they are, and noisy distances of all pairs."""
        table = _ExactCounts([rows.codes[name] for name in self.names], self.sizes)
        singles = [table.of(columns) for columns in self._first_tables]
        for (name, by), shape in zip(self.determined, self._map_shapes, strict=True):
            singles.append(combination_counts([rows.codes[by], rows.codes[name]], shape))
        counts = [whole_counts(self.columns_noise(), np.concatenate(singles), source)]
        if not self.pairs:
            return {"counts": counts[0]}
        counted: list[tuple[Pair, int]] = []
        if self.declared is None:
            self._choose_pairs(table, counts, counted, source)
        else:
            units = self._pair_units // max(1, len(self.declared))
            counted += [(pair, units) for pair in self.declared]
            counts += [self._counted(table, pair, units, source) for pair in self.declared]
        listed = np.array([[*pair, units] for pair, units in counted], dtype=np.int64).ravel()
        tensors = {"counts": np.concatenate(counts), "rounds": listed}
        distances = self._distances(table, self.model(tensors).distribution, self.pairs)
        noisy = self.errors_noise().apply(np.array(distances, dtype=np.float64), source)
        return {**tensors, "errors": np.clip(np.rint(noisy), -LARGEST_CELL, LARGEST_CELL).astype(np.int64)}

    def _counted(self, table: _ExactCounts, pair: Pair, units: int, source: NoiseSource) -> Integers:
        return whole_counts(self.pair_noise(units, self._cells(pair)), table.of(pair), source)

    def _choose_pairs(
        self, table: _ExactCounts, counts: list[Integers], counted: list[tuple[Pair, int]], source: NoiseSource
    ) -> None:
        """Rounds: a pair is chosen, counted with noise and taken into account, until the budget is spent."""
        found = self._of_columns(counts[0])
        left = self._pair_units
        units = left // (_ROUNDS_PER_COLUMN[self.noise.law] * min(len(self.sizes), _MOST_COLUMNS_OF_ROUNDS))
        while left > 0:
            units = left if left < 2 * units else units
            of_choice = int(_SHARE_OF_CHOICE * units)
            of_count = units - of_choice
            mean_noise = mean_size(self.pair_noise(of_count, 1))
            possible = self._pairs_with_room(found.tree, len(counted) + 1)
            losses = [
                round(mean_noise * self._cells(pair)) - distance
                for pair, distance in zip(possible, self._distances(table, found, possible), strict=True)
            ]
            pair = possible[self._chosen(losses, Fraction(of_choice, UNITS), source)]
            noisy = self._counted(table, pair, of_count, source)
            before = dict(found.pair_shares())[pair]
            self._add(found, pair, noisy, of_count, self._held_tables(counted))
            found.fit(_SWEEPS_OF_A_ROUND)
            counts.append(noisy)
            counted.append((pair, of_count))
            left -= units
            if np.abs(found.shares(pair) - before).sum() * found.total <= mean_noise * self._cells(pair):
                units = _GROWTH * units

    def _chosen(self, losses: Sequence[int], share: Fraction, source: NoiseSource) -> int:
        """The place of a small loss: the exponential mechanism, whose range is what the share allows."""
        rate, least = self.noise.choice_rate(share), min(losses)
        return drawn([rate * (loss - least) for loss in losses], source)

    def _pairs_with_room(self, tree: CliqueTree, rounds: int) -> list[Pair]:
        """The pairs that a tree can hold besides what it holds; or those that need least.

        What is wrong most is often wrong in large tables, which would leave no room for others: a tree may grow little by little, over as many rounds as there are columns.
        """
        joining = [tree.joining_cells(column) for column in range(len(self.sizes))]
        needed = {pair: joining[pair[0]][pair[1]] for pair in self.pairs}
        grown = MOST_TREE_CELLS * min(rounds, len(self.sizes)) // len(self.sizes)
        most = max(self._first_tree.cells + grown - tree.cells, min(needed.values()))
        return [pair for pair, cells in needed.items() if cells <= most]

    def _distances(self, table: _ExactCounts, found: TreeDistribution, pairs: Sequence[Pair]) -> list[int]:
        shares = dict(found.pair_shares())
        return [distance_to_model(table.of(pair), found.total * shares[pair].ravel()) for pair in pairs]

    # With what was released

    def fits(self, tensors: Tensors) -> bool:
        """Whether tensors are such as `measured` gives."""
        if set(tensors) != ({"counts", "errors", "rounds"} if self.pairs else {"counts"}):
            return False
        if any(tensor.ndim != 1 or tensor.dtype != np.int64 for tensor in tensors.values()):
            return False
        if len(tensors.get("rounds", ())) % _ROW or len(tensors.get("errors", ())) != len(self.pairs):
            return False
        counted, known = released_rounds(tensors), {*self.pairs}
        if not all(pair in known and units > 0 for pair, units in counted) or len(counted) > self.noise.stages:
            return False
        expected = self._first_cells + sum(self._cells(pair) for pair, _ in counted)
        return (
            sum(units for _, units in counted) <= self._pair_units
            and (self.declared is None or [pair for pair, _ in counted] == list(self.declared))
            and len(tensors["counts"]) == expected
            and all(are_cells(tensors[name]) for name in ("counts", *{"errors"} & {*tensors}))
            and self._tree(counted).cells <= (MOST_CELLS if self.declared is not None else self._most_tree_cells)
        )

    def _tree(self, counted: Sequence[tuple[Pair, int]]) -> CliqueTree:
        tree = self._first_tree
        for place, (pair, _) in enumerate(counted):
            tree = tree.with_pair(pair, self._held_tables(counted[:place]))
        return tree

    def model(self, tensors: Tensors) -> AdaptiveModel:
        """The distribution from which rows are drawn."""
        counted = released_rounds(tensors)
        ends = np.cumsum([self._first_cells, *(self._cells(pair) for pair, _ in counted)])
        parts = np.split(tensors["counts"], ends[:-1])
        found = self._of_columns(parts[0])
        for place, ((pair, units), part) in enumerate(zip(counted, parts[1:], strict=True)):
            self._add(found, pair, part, units, self._held_tables(counted[:place]))
        found.fit(_SWEEPS_AT_THE_END)
        return AdaptiveModel(self.names, found, {**self._maps(parts[0]), **self.known.maps})

    def _maps(self, counts: Integers) -> dict[str, tuple[str, Positions]]:
        """Of every determined column which one determines it, and its cell for every cell of that one."""
        shapes = self._map_shapes
        first = sum(map(self._cells, self._first_tables))
        parts = np.split(counts[first:], np.cumsum([math.prod(shape) for shape in shapes]))
        return {
            name: (by, part.reshape(shape).argmax(axis=1))
            for (name, by), shape, part in zip(self.determined, shapes, parts, strict=False)
        }

    def _of_columns(self, counts: Integers) -> TreeDistribution:
        """The distribution of columns that are independent, given the label where there is one."""
        variance = noise_variance(standard_deviation(self.columns_noise()))
        ends = np.cumsum([self._cells(columns) for columns in self._first_tables])
        parts = np.split(counts[: ends[-1]].astype(np.float64), ends[:-1])
        totals = [np.array([part.sum()]) for part in parts]
        total = float(averaged(totals, [variance * len(part) for part in parts])[0][0])
        found = TreeDistribution(self._first_tree, max(total, 1.0), self._possible)
        for columns, part in zip(self._first_tables, parts, strict=True):
            shape = [self.sizes[column] for column in columns]
            found.add(NoisyTable(columns, part.reshape(shape), variance), self._first_tree)
        found.fit(_SWEEPS_OF_A_ROUND)
        return found

    def _add(
        self, found: TreeDistribution, pair: Pair, counts: Integers, units: int, before: Sequence[Columns]
    ) -> None:
        shape = self.sizes[pair[0]], self.sizes[pair[1]]
        variance = noise_variance(standard_deviation(self.pair_noise(units, len(counts))))
        table = NoisyTable(pair, counts.reshape(shape).astype(np.float64), variance)
        found.add(table, found.tree.with_pair(pair, before))

    def error_bounds(self, tensors: Tensors, total: float, confidence: float) -> tuple[Floats, Floats]:
        """Returns for all pairs how far the distribution is expected to be from the truth, and what none of them exceeds with this confidence.

        Half the sum of |true count − count of the distribution| over the cells, as a share of the released number of rows.
        """
        noise, each = self.errors_noise(), (1 - confidence) / len(self.pairs)
        if isinstance(noise, Gaussian):
            margin = noise.noise_scale * -float(ndtri(each))
        else:
            margin = noise.noise_scale * max(0.0, math.log(1 / (2 * each)))
        distances = tensors["errors"].astype(np.float64)
        # Counts of the distribution were rounded, each by a half at most, and so was the noisy distance.
        rounding = np.array([self._cells(pair) + 1 for pair in self.pairs]) / 2
        bounds = distances + margin + rounding
        return np.clip(distances / (2 * total), 0.0, 1.0), np.maximum(bounds / (2 * total), 0.0)


@dataclass(frozen=True, eq=False)
class AdaptiveModel:
    """Rows of a distribution over named columns, and of columns that others determine: for each, which one, and its cell for every cell of that one."""

    names: tuple[str, ...]
    distribution: TreeDistribution
    maps: Mapping[str, tuple[str, Positions]]

    @property
    def total(self) -> float:
        """How many rows the noisy counts speak of."""
        return self.distribution.total

    def drawn(self, rows: int, generator: np.random.Generator) -> dict[str, Positions]:
        """The cells of so many new rows, by name of the column."""
        found = dict(zip(self.names, self.distribution.drawn(rows, generator), strict=True))
        return {**found, **{name: cells[found[by]] for name, (by, cells) in self.maps.items()}}

    def given(
        self, cells: Mapping[str, int], among: Sequence[tuple[str, Collection[int]]] = ()
    ) -> AdaptiveModel | None:
        """The rows that are in these cells, and of each column `among` in one of several; None where there can be none."""
        allowed = {column: {*range(size)} for column, size in enumerate(self.distribution.tree.sizes)}
        for name, cell in cells.items():
            by, own = self.maps.get(name, (name, None))
            column = self.names.index(by)
            allowed[column] &= {cell} if own is None else {*np.flatnonzero(own == cell).tolist()}
        for name, several in among:
            allowed[self.names.index(name)] &= {*several}
        conditioned = self.distribution.conditioned({column: sorted(each) for column, each in allowed.items()})
        return None if conditioned is None else replace(self, distribution=conditioned)


@dataclass(eq=False)
class _ExactCounts:
    """Exact counts of columns and pairs, each made once."""

    codes: Sequence[NDArray[Any]]
    sizes: Sequence[int]
    _found: dict[tuple[int, ...], Integers] = field(default_factory=dict)

    def of(self, columns: tuple[int, ...]) -> Integers:
        """Counts of all combinations of the columns' cells."""
        if columns not in self._found:
            codes, sizes = zip(*((self.codes[column], self.sizes[column]) for column in columns), strict=True)
            self._found[columns] = combination_counts(codes, sizes)
        return self._found[columns]


def released_rounds(tensors: Tensors) -> list[tuple[Pair, int]]:
    """The pairs that a release counted, in order, and how many units of the budget each count had."""
    flat = tensors.get("rounds", np.empty(0, dtype=np.int64)).reshape(-1, _ROW)
    return [((int(first), int(second)), int(units)) for first, second, units in flat]

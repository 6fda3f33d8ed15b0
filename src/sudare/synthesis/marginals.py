"""Synthetic rows from noisy counts of columns and of pairs of columns. Proof: proofs/synthesis.md.

Counted with noise: every column with the label; the pairs of a forest with the label; further pairs without it. A row is
drawn along the forest, and many such rows are then weighted until the further pairs are right as well. The pairs are declared, or
chosen by noisy scores: how far their true tables are from what the noisy columns alone would make them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats, Integers, Positions
from sudare.errors import InvalidParameter
from sudare.privacy.mechanisms import Gaussian, Laplace
from sudare.privacy.noise import WholeNoise
from sudare.privacy.release_file import Tensors
from sudare.synthesis.column_pairs import (
    Pair,
    Pairs,
    all_pairs,
    breadth_first_order,
    chosen_pairs,
    distance_to_model,
    path_between,
)
from sudare.synthesis.consistent_counts import (
    averaged,
    conditional,
    consistent_singles,
    independent,
    noise_variance,
    raked,
    shrunk,
)
from sudare.synthesis.row_sampling import drawn_cells, drawn_rows
from sudare.synthesis.staged_budget import StagedNoise, mean_size, standard_deviation
from sudare.synthesis.table_cells import LARGEST_CELL, CodedRows, Codes, Layout, are_cells, combination_counts

STAGES: Final = 3
MOST_COLUMNS: Final = 100
MOST_CELLS: Final = 2**20
MOST_TABLE_CELLS: Final = 2**17

# Of the budget, found on a part of Adult's training rows (docs/records.md): columns, then the choice of pairs.
_SHARE_OF_COLUMNS: Final = Fraction(2, 5)
_SHARE_OF_CHOICE: Final = {"gaussian": Fraction(1, 20), "laplace": Fraction(3, 20)}
# A further pair is counted if its score is above this part of the noise that its table would get among all pairs.
_WORTH: Final = 0.5
_TRUST_IN_FOREST: Final = 1.0
_TRUST_IN_FURTHER: Final = 0.1

_POOL_ROWS: Final = 100_000
_FEWEST_POOL_ROWS: Final = 20_000
_FEWEST_POOL_CELLS: Final = 2**24
_POOL_RAKINGS: Final = 5
_LARGEST_FACTOR: Final = 10.0


@dataclass(frozen=True)
class MarginalEngine:
    """(ε, δ)-DP counts of columns and pairs, replace-one or add/remove rows. Proof: proofs/synthesis.md.

    `declared` are public pairs of columns; None where they are to be chosen from the data, which is paid for.
    """

    layout: Layout
    noise: StagedNoise
    declared: tuple[Pair, ...] | None

    def __post_init__(self) -> None:
        sizes, classes = self.layout.sizes, self.layout.classes
        if self.declared is None and len(sizes) > MOST_COLUMNS:
            raise InvalidParameter(
                f"Pairs of more than {MOST_COLUMNS} columns cannot be chosen.", 'Declare them: tree=[("age", "sex")].'
            )
        pairs = Pairs.in_order(self.declared or (), len(sizes))
        cells = classes * sum(sizes) + sum(self._cells(pairs))
        largest = max([classes * size for size in sizes] + self._cells(pairs))
        if cells > MOST_CELLS or largest > MOST_TABLE_CELLS:
            raise InvalidParameter(
                f"These columns and pairs have {cells:,} cells, one table {largest:,}; at most {MOST_CELLS:,} and "
                f"{MOST_TABLE_CELLS:,} are counted.",
                "Declare fewer bins, categories or pairs.",
            )
        # Noise that cannot be made for these ε and δ is refused here, before anything is charged.
        self.columns_noise()
        if self._choice_share:
            self.choice_noise()
        if self._columns_share < 1:
            self.pairs_noise(1, 1)

    @cached_property
    def _candidates(self) -> list[Pair]:
        return all_pairs(self.layout.sizes, self.layout.classes, MOST_TABLE_CELLS)

    def _cells(self, pairs: Pairs) -> list[int]:
        """Cells of the table of every pair; those of the forest are counted with the label."""
        sizes, classes = self.layout.sizes, self.layout.classes
        of_forest = [sizes[first] * sizes[second] * classes for first, second in pairs.forest]
        return of_forest + [sizes[first] * sizes[second] for first, second in pairs.further]

    # Shares of the budget

    @property
    def _choice_share(self) -> Fraction:
        if self.declared is not None or not self._candidates:
            return Fraction(0)
        return _SHARE_OF_CHOICE["laplace" if self.noise.delta == 0 else "gaussian"]

    @property
    def _columns_share(self) -> Fraction:
        has_pairs = bool(self._candidates if self.declared is None else self.declared)
        return _SHARE_OF_COLUMNS if has_pairs else Fraction(1)

    def columns_noise(self) -> Laplace | Gaussian:
        """Noise for the tables of single columns with the label."""
        sizes = self.layout.sizes
        return self.noise.for_counts(self._columns_share, len(sizes), sum(sizes) * self.layout.classes)

    def choice_noise(self) -> Laplace | Gaussian:
        """Noise for the scores of all pairs."""
        return self.noise.for_scores(self._choice_share, len(self._candidates))

    def pairs_noise(self, tables: int, cells: int) -> Laplace | Gaussian:
        """Noise for so many tables of pairs."""
        return self.noise.for_counts(1 - self._columns_share - self._choice_share, tables, cells)

    # With the data

    def measured(self, rows: CodedRows, source: WholeNoise) -> dict[str, NDArray[Any]]:
        """Everything that leaves: the pairs, and noisy whole counts of columns and pairs."""
        label = rows.label(self.layout)
        codes = [rows.codes[name] for name in self.layout.names]
        exact_singles = [self._counted([codes[index]], label, [size]) for index, size in enumerate(self.layout.sizes)]
        singles = whole_counts(self.columns_noise(), np.concatenate(exact_singles), source)
        if self.declared is None:
            pairs = self._chosen(codes, singles, source)
        else:
            pairs = Pairs.in_order(self.declared, len(codes))
        if not pairs.all:
            return {"counts": singles}
        exact_pairs = np.concatenate([self._counted_pair(codes, label, pair, pairs) for pair in pairs.all])
        noisy = whole_counts(self.pairs_noise(len(pairs.all), len(exact_pairs)), exact_pairs, source)
        return {"counts": np.concatenate([singles, noisy]), "pairs": np.array(pairs.all, dtype=np.int64).ravel()}

    def _counted(self, codes: list[Codes], label: Codes | None, sizes: list[int]) -> Integers:
        """Counts of all combinations of the columns' cells, and of the classes where a label is given."""
        if label is None:
            return combination_counts(codes, sizes)
        return combination_counts([*codes, label], [*sizes, self.layout.classes])

    def _counted_pair(self, codes: list[Codes], label: Codes, pair: Pair, pairs: Pairs) -> Integers:
        sizes = [self.layout.sizes[column] for column in pair]
        return self._counted([codes[column] for column in pair], label if pair in pairs.forest else None, sizes)

    def _chosen(self, codes: list[Codes], singles: Integers, source: WholeNoise) -> Pairs:
        """Pairs by noisy scores: the distance of a pair's table from what the noisy columns alone make of it."""
        if not self._candidates:
            return Pairs((), ())
        known = self._singles(singles)
        scores = [
            distance_to_model(
                self._counted([codes[first], codes[second]], None, [len(known[first]), len(known[second])]),
                independent(known[first], known[second]).sum(axis=2).ravel(),
            )
            for first, second in self._candidates
        ]
        noisy = self.choice_noise().apply(np.array(scores, dtype=np.float64), source)
        cells = {pair: self.layout.sizes[pair[0]] * self.layout.sizes[pair[1]] for pair in self._candidates}
        among_all = mean_size(self.pairs_noise(len(cells), sum(cells.values())))
        return chosen_pairs(
            dict(zip(self._candidates, noisy.tolist(), strict=True)),
            {pair: _WORTH * among_all * size for pair, size in cells.items()},
            cells,
            MOST_CELLS // 2,
        )

    # With what was released

    def fits(self, tensors: Tensors) -> bool:
        """Whether tensors are such as `measured` gives."""
        if not {"counts"} <= set(tensors) <= {"counts", "pairs"}:
            return False
        if any(tensor.ndim != 1 or tensor.dtype != np.int64 for tensor in tensors.values()):
            return False
        counts, columns = tensors["counts"], len(self.layout.sizes)
        if len(tensors.get("pairs", ())) % 2:
            return False
        listed = released_pairs(tensors)
        if len(set(listed)) < len(listed) or not all(0 <= first < second < columns for first, second in listed):
            return False
        pairs = Pairs.in_order(listed, columns)
        expected = self.layout.classes * sum(self.layout.sizes) + sum(self._cells(pairs))
        return (
            list(pairs.all) == listed
            and (self.declared is None or pairs == Pairs.in_order(self.declared, columns))
            and len(counts) == expected
            and are_cells(counts)
        )

    def model(self, tensors: Tensors) -> MarginalModel:
        """The distribution from which rows are drawn."""
        columns = len(self.layout.sizes)
        pairs = Pairs.in_order(released_pairs(tensors), columns)
        ends = np.cumsum([self.layout.classes * sum(self.layout.sizes), *self._cells(pairs)])
        parts = np.split(tensors["counts"].astype(np.float64), ends[:-1])
        tables = {
            pair: part.reshape(self.layout.sizes[pair[0]], self.layout.sizes[pair[1]], -1)
            for pair, part in zip(pairs.all, parts[1:], strict=True)
        }
        variance = 0.0
        if pairs.all:
            noise = self.pairs_noise(len(pairs.all), sum(self._cells(pairs)))
            variance = noise_variance(standard_deviation(noise))
        singles = self._singles(parts[0], {pair: tables[pair] for pair in pairs.forest}, variance)
        return MarginalModel.of(self.layout, pairs, singles, tables, variance)

    def _singles(
        self, counts: NDArray[Any], of_forest: Mapping[Pair, Floats] | None = None, pair_variance: float = 0.0
    ) -> list[Floats]:
        """Consistent tables (cell, class) of all columns, from their own counts and those of the forest's pairs."""
        sizes, classes = self.layout.sizes, self.layout.classes
        parts = np.split(np.asarray(counts, dtype=np.float64), np.cumsum(np.array(sizes) * classes)[:-1])
        own = noise_variance(standard_deviation(self.columns_noise()))
        found = {index: [(part.reshape(-1, classes), own)] for index, part in enumerate(parts)}
        for (first, second), table in (of_forest or {}).items():
            found[first].append((table.sum(axis=1), pair_variance * sizes[second]))
            found[second].append((table.sum(axis=0), pair_variance * sizes[first]))
        each = [averaged([table for table, _ in seen], [variance for _, variance in seen]) for seen in found.values()]
        return consistent_singles([table for table, _ in each], [variance for _, variance in each])


@dataclass(frozen=True, eq=False, repr=False)
class MarginalModel:
    """A distribution of rows: classes, columns within classes, steps along the forest, and shares of further pairs."""

    layout: Layout
    singles: list[Floats]
    parents: Mapping[int, int | None]
    steps: Mapping[Pair, Floats]
    further: Mapping[Pair, Floats]

    @classmethod
    def of(
        cls, layout: Layout, pairs: Pairs, singles: list[Floats], tables: Mapping[Pair, Floats], variance: float
    ) -> MarginalModel:
        """The model of noisy tables; `variance` is that of a count of a pair."""
        steps: dict[Pair, Floats] = {}
        for first, second in pairs.forest:
            alone = independent(singles[first], singles[second])
            drawn_in = shrunk(tables[first, second], alone, variance, _TRUST_IN_FOREST)
            joint = raked(drawn_in, singles[first], singles[second])
            steps[first, second] = conditional(joint, singles[second])
            steps[second, first] = conditional(np.swapaxes(joint, 0, 1), singles[first])
        model = cls(layout, singles, breadth_first_order(pairs.forest, len(singles)), steps, {})
        further = {
            pair: raked(
                shrunk(tables[pair][:, :, 0], model.pair_table(pair).sum(axis=2), variance, _TRUST_IN_FURTHER),
                singles[pair[0]].sum(axis=1),
                singles[pair[1]].sum(axis=1),
            )
            for pair in pairs.further
        }
        return replace(model, further=further)

    @property
    def total(self) -> float:
        """How many rows the noisy counts speak of."""
        return float(self.singles[0].sum())

    def pair_table(self, pair: Pair) -> Floats:
        """Table (first cell, second cell, class) of two columns by the forest alone."""
        path = path_between(self.parents, *pair)
        if path is None:
            return independent(self.singles[pair[0]], self.singles[pair[1]])
        joint = self.singles[path[0]][:, :, np.newaxis] * self.steps[path[0], path[1]]
        for here, there in itertools.pairwise(path[1:]):
            joint = np.einsum("ayb,byc->ayc", joint, self.steps[here, there])
        return np.swapaxes(joint, 1, 2)

    def drawn(self, rows: int, generator: np.random.Generator) -> dict[str, Positions]:
        """The cells of so many new rows, by name of the column."""
        names = [*self.layout.names, *([] if self.layout.label is None else [self.layout.label])]
        parts = [
            self._drawn_part(min(_POOL_ROWS, rows - start), generator) for start in range(0, max(rows, 1), _POOL_ROWS)
        ]
        return {name: np.concatenate([part[index] for part in parts]) for index, name in enumerate(names)}

    def _drawn_part(self, rows: int, generator: np.random.Generator) -> list[Positions]:
        """Rows of the forest; with further pairs, a weighted choice among twice as many."""
        if not self.further:
            return self._along_forest(rows, generator)
        fewest = min(_FEWEST_POOL_ROWS, _FEWEST_POOL_CELLS // len(self.singles))
        pool = self._along_forest(max(2 * rows, fewest), generator)
        picked = drawn_rows(self._weights(pool), rows, generator)
        return [codes[picked] for codes in pool]

    def _along_forest(self, rows: int, generator: np.random.Generator) -> list[Positions]:
        """The cells of every column, and last the class."""
        label = drawn_cells(self.singles[0].sum(axis=0)[np.newaxis], np.zeros(rows, dtype=np.intp), generator)
        found: dict[int, Positions] = {}
        for column, parent in self.parents.items():
            if parent is None:
                found[column] = drawn_cells(np.ascontiguousarray(self.singles[column].T), label, generator)
            else:
                shares = self.steps[parent, column]
                groups = found[parent] * self.layout.classes + label
                found[column] = drawn_cells(shares.reshape(-1, shares.shape[2]), groups, generator)
        return [*(found[column] for column in range(len(self.singles))), label]

    def _weights(self, pool: list[Positions]) -> Floats:
        """Weights under which a pool of rows has the further pairs and the columns with their classes as released."""
        label, scale = pool[-1], len(pool[0]) / self.total
        margins = [(pool[a] * len(self.singles[b]) + pool[b], table) for (a, b), table in self.further.items()]
        margins += [(pool[a] * self.layout.classes + label, table) for a, table in enumerate(self.singles)]
        weights = np.ones(len(label))
        for _ in range(_POOL_RAKINGS):
            for place, table in margins:
                found = np.bincount(place, weights, minlength=table.size)
                factor = scale * table.ravel() / np.where(found > 0, found, 1.0)
                weights *= np.clip(factor, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR)[place]
        return weights


def released_pairs(tensors: Tensors) -> list[Pair]:
    """The pairs that a release names, in its order."""
    flat = tensors.get("pairs", np.empty(0, dtype=np.int64))
    return [(int(first), int(second)) for first, second in flat.reshape(-1, 2)]


def whole_counts(noise: Laplace | Gaussian, counts: Integers, source: WholeNoise) -> Integers:
    """Counts with noise, rounded to whole numbers that floats hold."""
    noisy = noise.apply(counts.astype(np.float64), source)
    return np.clip(np.rint(noisy), -LARGEST_CELL, LARGEST_CELL).astype(np.int64)

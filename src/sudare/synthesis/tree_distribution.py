"""A distribution over all columns that agrees with noisy tables, held as a tree of cliques. Post-processing: no data, no cost.

Tables are fitted one after the other, each softly: its N·p becomes the x with x = a·exp((y − x)/s), where a is what the other tables say of its
cells, y its noisy counts and s = κ·σ²·cells/N. This is one coordinate's ascent in the dual of: greatest entropy, less the squared misfits
(y − x)²/(2s). Where the noise is small it is iterative proportional fitting; where it is large the table says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import wrightomega

from sudare.array_types import Floats, Positions
from sudare.synthesis.clique_tree import CliqueTree, Columns
from sudare.synthesis.row_sampling import evenly_drawn_cells

# κ, found by `python -m benchmarks.synthesis --tune`.
_PRIOR_STRENGTH: Final = 0.3
_NEWTON_STEPS: Final = 25
_TOLERANCE: Final = 1e-7
# Logarithms of the factors of one table are no further from their middle, so that products of many do not vanish.
_WIDEST_FACTOR: Final = 30.0
_TOO_FAR: Final = 1e6
_TINY: Final = 1e-300


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of columns in rising order, an axis each, and the variance of one of them."""

    columns: Columns
    counts: Floats
    variance: float

    def together_with(self, other: NoisyTable) -> NoisyTable:
        """Both tables of the same columns, averaged by their precision."""
        first, second = 1 / self.variance, 1 / other.variance
        counts = (first * self.counts + second * other.counts) / (first + second)
        return NoisyTable(self.columns, np.asarray(counts), 1 / (first + second))


class TreeDistribution:
    """Probabilities of all combinations of cells, as tables of cliques that agree with each other; `total` is the number of rows.

    `possible` are tables of ones and zeros, each held by a clique: where one has a zero, no row ever is.
    """

    def __init__(self, tree: CliqueTree, total: float, possible: Mapping[Columns, Floats] | None = None) -> None:
        self.tree, self.total = tree, total
        self._factors: dict[Columns, Floats] = {}
        self._tables: dict[Columns, NoisyTable] = {}
        self._evidence: dict[Columns, Floats] = dict(possible or {})
        self._build()

    # Fitting

    def add(self, table: NoisyTable, tree: CliqueTree) -> None:
        """Take a table into account from now on; the tree must hold its columns in one clique."""
        known = self._tables.get(table.columns)
        self._tables[table.columns] = table if known is None else known.together_with(table)
        self._factors.setdefault(table.columns, np.zeros(table.counts.shape))
        if tree is not self.tree:
            self.tree = tree
            self._build()
        self._assign()

    def fit(self, sweeps: int) -> None:
        """Raise the dual so many times, table after table along the tree."""
        for _ in range(sweeps):
            for here, there in self._tour():
                self._fit_clique(here)
                if there is not None:
                    self._pass_message(here, there)

    def _fit_clique(self, place: int) -> None:
        belief = self._beliefs[place]
        belief /= max(belief.sum(), _TINY)
        for columns in self._held[place]:
            own, factor = self._axes(place, columns), self._factors[columns]
            wanted = self._wanted_factor(belief.sum(axis=own.others), factor, self._tables[columns])
            belief *= np.exp(wanted - factor).reshape(own.shape)
            self._factors[columns] = wanted

    def _wanted_factor(self, share: Floats, factor: Floats, table: NoisyTable) -> Floats:
        """The logarithmic factor of a table's cells with which x = a·exp((y − x)/s), Σ x being the number of rows."""
        if not np.any(share > 0):
            return factor
        softness = _PRIOR_STRENGTH * table.variance * share.size / self.total
        with np.errstate(divide="ignore"):
            known = np.log(share)
        argument = known - factor + table.counts / softness
        # From here the sum is too large, and Newton's steps on a convex function never pass the root.
        most = self.total / softness
        argument += most + np.log(most) - argument.max()
        for _ in range(_NEWTON_STEPS):
            cells = wrightomega(argument)
            excess = softness * cells.sum() - self.total
            if excess <= _TOLERANCE * self.total:
                break
            argument -= excess / (softness * (cells / (1 + cells)).sum())
        rows = softness * wrightomega(argument) / self.total
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = factor + np.where((share > 0) & (rows > 0), np.log(rows) - known, -np.inf)
        # Neither too small to come back nor too large, about where most rows are; then the sum is right again.
        middle = float(np.sum(np.where(rows > 0, rows * np.maximum(wanted, -_TOO_FAR), 0.0)) / rows.sum())
        wanted = np.clip(wanted, middle - _WIDEST_FACTOR, middle + _WIDEST_FACTOR)
        return np.asarray(wanted - np.log(np.sum(share * np.exp(wanted - factor))))

    # Structure

    def _build(self) -> None:
        """Beliefs of all cliques from the factors, agreeing with each other."""
        tree = self.tree
        self._order: dict[tuple[int, Columns], _Axes] = {}
        self._beliefs = [np.ones([tree.sizes[column] for column in clique]) for clique in tree.cliques]
        # What is possible comes first: the largest factor of impossible cells must not make those of all others vanish.
        for columns, possible in self._evidence.items():
            self._multiply(columns, possible)
        for columns, factor in self._factors.items():
            self._multiply(columns, np.exp(factor - factor.max()))
        self._separators = [np.ones([tree.sizes[column] for column in shared]) for shared in tree.separators]
        for place in reversed(range(1, len(tree.cliques))):
            self._pass_message(place, tree.parents[place])
        for place in range(1, len(tree.cliques)):
            self._pass_message(tree.parents[place], place)
        self._beliefs = [belief / max(belief.sum(), _TINY) for belief in self._beliefs]
        for place in range(1, len(tree.cliques)):
            self._separators[place] = self._marginal(place, tree.separators[place])
        self._assign()

    def _multiply(self, columns: Columns, factor: Floats) -> None:
        place = self._place(columns)
        self._beliefs[place] *= factor.reshape(self._axes(place, columns).shape)
        self._beliefs[place] /= max(self._beliefs[place].max(), _TINY)

    def _assign(self) -> None:
        self._held: list[list[Columns]] = [[] for _ in self.tree.cliques]
        for columns in self._tables:
            self._held[self._place(columns)].append(columns)

    def _place(self, columns: Columns) -> int:
        place = self.tree.clique_with(columns)
        if place is None:
            raise ValueError("The tree holds no clique with these columns.")
        return place

    def _axes(self, place: int, columns: Columns) -> _Axes:
        key = (place, columns)
        if key not in self._order:
            clique, wanted = self.tree.cliques[place], set(columns)
            self._order[key] = _Axes(
                tuple(axis for axis, column in enumerate(clique) if column not in wanted),
                tuple(self.tree.sizes[column] if column in wanted else 1 for column in clique),
            )
        return self._order[key]

    def _marginal(self, place: int, columns: Columns) -> Floats:
        """The table of some columns of a clique, in rising order of the columns."""
        return np.asarray(self._beliefs[place].sum(axis=self._axes(place, columns).others))

    def _pass_message(self, here: int, there: int) -> None:
        child = here if self.tree.parents[here] == there else there
        shared = self.tree.separators[child]
        now, before = self._marginal(here, shared), self._separators[child]
        ratio = np.zeros_like(now)
        np.divide(now, before, out=ratio, where=before > 0)
        self._beliefs[there] *= ratio.reshape(self._axes(there, shared).shape)
        self._separators[child] = now

    def _tour(self) -> Iterator[tuple[int, int | None]]:
        """Around the tree: at every clique once or more often, with the one to go to next; every step is along an edge."""
        children: list[list[int]] = [[] for _ in self.tree.cliques]
        for place, parent in enumerate(self.tree.parents[1:], 1):
            children[parent].append(place)
        here, waiting = 0, [iter(each) for each in children]
        while True:
            there = next(waiting[here], None)
            if there is None:
                if self.tree.parents[here] < 0:
                    yield here, None
                    return
                there = self.tree.parents[here]
            yield here, there
            here = there

    # Tables

    def shares(self, columns: Columns) -> Floats:
        """The probabilities of all combinations of cells of columns of one clique."""
        return self._marginal(self._place(columns), columns)

    def pair_shares(self) -> Iterator[tuple[Columns, Floats]]:
        """The tables of all pairs of columns, the smaller column first."""
        steps: dict[tuple[int, int, Columns], Floats] = {}
        for first in range(len(self.tree.sizes)):
            for second, table in self._shares_with(first, steps):
                if second > first:
                    yield (first, second), table

    def _shares_with(self, column: int, steps: dict[tuple[int, int, Columns], Floats]) -> Iterator[tuple[int, Floats]]:
        """The tables (cell of the column, cell of another one) of all others, along the tree; `steps` keeps what other columns need too."""
        start = self.tree.clique_with((column,)) or 0
        reached, seen = {start}, {column}
        # Cliques with the column need no message.
        unneeded = np.empty((0, 0))
        waiting: list[tuple[int, Floats, int]] = [(start, unneeded, -1)]
        for place, message, before in waiting:
            clique = self.tree.cliques[place]
            holds = column in clique
            for other in clique:
                if other not in seen:
                    seen.add(other)
                    table = (
                        self._pair_in(place, column, other)
                        if holds
                        else message @ self._step(place, before, (other,), steps)
                    )
                    yield other, table
            for near, separator in self.tree.neighbours[place]:
                if near in reached:
                    continue
                reached.add(near)
                if column in self.tree.cliques[near]:
                    waiting.append((near, unneeded, place))
                elif holds:
                    columns = tuple(sorted({column, *separator}))
                    joint = np.moveaxis(self._marginal(place, columns), columns.index(column), 0)
                    waiting.append((near, joint.reshape(joint.shape[0], -1), place))
                else:
                    waiting.append((near, message @ self._step(place, before, separator, steps), place))

    def _pair_in(self, place: int, first: int, second: int) -> Floats:
        table = self._marginal(place, (min(first, second), max(first, second)))
        return table if first < second else table.T

    def _step(self, place: int, before: int, columns: Columns, steps: dict[tuple[int, int, Columns], Floats]) -> Floats:
        """P(columns | what the clique shares with the one before) as (cells shared, cells of the columns)."""
        key = (place, before, columns)
        if key not in steps:
            shared = next(separator for near, separator in self.tree.neighbours[place] if near == before)
            both = tuple(sorted({*shared, *columns}))
            # Columns that are in both stand for themselves: a unit matrix along them.
            joint = self._marginal(place, both)
            expanded = self._expanded(joint, both, shared, columns)
            total = expanded.sum(axis=1, keepdims=True)
            steps[key] = np.divide(expanded, total, out=np.zeros_like(expanded), where=total > 0)
        return steps[key]

    def _expanded(self, joint: Floats, both: Columns, shared: Columns, columns: Columns) -> Floats:
        """A table of `both` as a matrix (cells of `shared`, cells of `columns`)."""
        codes = np.indices(joint.shape).reshape(len(both), joint.size)
        rows, row_cells = _flat_codes(codes, both, shared, self.tree.sizes)
        places, place_cells = _flat_codes(codes, both, columns, self.tree.sizes)
        matrix = np.zeros((row_cells, place_cells))
        np.add.at(matrix, (rows, places), joint.ravel())
        return matrix

    # Rows

    def conditioned(self, codes: Mapping[int, Sequence[int]]) -> TreeDistribution | None:
        """The distribution given that columns are in one of these cells; None where that has no probability."""
        twin = TreeDistribution.__new__(TreeDistribution)
        twin.tree, twin.total = self.tree, self.total
        twin._factors, twin._tables, twin._evidence = self._factors, self._tables, dict(self._evidence)
        for column, cells in codes.items():
            possible = np.zeros(self.tree.sizes[column])
            possible[list(cells)] = 1.0
            twin._evidence[(column,)] = possible * self._evidence.get((column,), 1.0)
        twin._build()
        return twin if all(belief.sum() > 0 for belief in twin._beliefs) else None

    @cached_property
    def _without_tables(self) -> TreeDistribution:
        """All that is possible, equally probable."""
        return TreeDistribution(self.tree, self.total, self._evidence)

    def drawn(self, rows: int, generator: np.random.Generator) -> list[Positions]:
        """The cells of so many rows, a list of positions for every column; drawn evenly, so that their counts vary little."""
        found: dict[int, Positions] = {}
        for place, clique in enumerate(self.tree.cliques):
            shared = self.tree.separators[place]
            rest = tuple(column for column in clique if column not in shared)
            groups = np.zeros(rows, dtype=np.intp)
            for column in shared:
                groups = groups * self.tree.sizes[column] + found[column]
            order = [clique.index(column) for column in (*shared, *rest)]
            shares = self._beliefs[place].transpose(order).reshape(self.tree.cells_of(shared), -1)
            empty = shares.sum(axis=1) <= 0
            if self._evidence and empty.any():
                # Too small for a float, and yet drawn: any possible cells, never those of other groups.
                alike = self._without_tables._beliefs[place].transpose(order).reshape(shares.shape)
                shares = np.where(empty[:, np.newaxis], alike, shares)
            cells = evenly_drawn_cells(shares, groups, generator)
            for column in reversed(rest):
                cells, found[column] = np.divmod(cells, self.tree.sizes[column])
        return [found[column] for column in range(len(self.tree.sizes))]


@dataclass(frozen=True)
class _Axes:
    """How a table of some columns lies in that of a clique: the axes of the other columns, and its shape with ones for these."""

    others: tuple[int, ...]
    shape: tuple[int, ...]


def _flat_codes(codes: Positions, both: Columns, columns: Columns, sizes: Sequence[int]) -> tuple[Positions, int]:
    flat, cells = np.zeros(codes.shape[1], dtype=np.intp), 1
    for column in columns:
        flat = flat * sizes[column] + codes[both.index(column)]
        cells *= sizes[column]
    return flat, cells

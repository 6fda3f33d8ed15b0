"""Trees of cliques: which columns are held in one table, so that tables of chosen columns are parts of them.

A clique tree is one of the graph of chosen columns with as few further edges as a greedy order of elimination adds (Lauritzen and
Spiegelhalter 1988). What it costs is its number of cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

Columns = tuple[int, ...]


@dataclass(frozen=True)
class CliqueTree:
    """Cliques (columns in rising order), each but the first with its parent, which comes before it."""

    sizes: tuple[int, ...]
    cliques: tuple[Columns, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, cliques: Iterable[Iterable[int]], sizes: Sequence[int]) -> CliqueTree:
        """The tree of the maximal ones among cliques of a chordal graph: that of the largest separators."""
        maximal: list[frozenset[int]] = []
        for clique in sorted(map(frozenset, cliques), key=lambda each: (-len(each), sorted(each))):
            if not any(clique <= other for other in maximal):
                maximal.append(clique)
        order, parents = [0], [-1]
        nearest = {place: (len(maximal[0] & maximal[place]), 0) for place in range(1, len(maximal))}
        while nearest:
            place = max(nearest, key=lambda each: (nearest[each][0], -each))
            parents.append(nearest.pop(place)[1])
            order.append(place)
            for other, (shared, _) in nearest.items():
                found = len(maximal[place] & maximal[other])
                if found > shared:
                    nearest[other] = (found, len(order) - 1)
        return cls(tuple(sizes), tuple(tuple(sorted(maximal[place])) for place in order), tuple(parents))

    @classmethod
    def of_tables(cls, tables: Iterable[Columns], sizes: Sequence[int]) -> CliqueTree:
        """The tree that a greedy elimination finds for tables of columns; columns of none are cliques of their own."""
        beside: list[set[int]] = [set() for _ in sizes]
        for table in tables:
            for first, second in itertools.combinations(table, 2):
                beside[first].add(second)
                beside[second].add(first)
        logs = [math.log(size) for size in sizes]
        weights = [logs[each] + sum(logs[near] for near in beside[each]) for each in range(len(sizes))]
        left, cliques = set(range(len(sizes))), []
        while left:
            column = min(left, key=lambda each: (weights[each], each))
            near = beside[column]
            cliques.append({column, *near})
            left.remove(column)
            for each in near:
                beside[each] |= near
                beside[each] -= {each, column}
                weights[each] = logs[each] + sum(logs[other] for other in beside[each])
        return cls.of(cliques, sizes)

    @cached_property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return sum(self.cells_of(clique) for clique in self.cliques)

    @cached_property
    def separators(self) -> tuple[Columns, ...]:
        """The columns that a clique shares with its parent; none for the first."""
        return tuple(
            () if parent < 0 else tuple(sorted({*clique} & {*self.cliques[parent]}))
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[int, Columns], ...], ...]:
        """Returns for every clique the cliques beside it, with what they share."""
        beside: list[list[tuple[int, Columns]]] = [[] for _ in self.cliques]
        for place, parent in enumerate(self.parents[1:], 1):
            beside[place].append((parent, self.separators[place]))
            beside[parent].append((place, self.separators[place]))
        return tuple(map(tuple, beside))

    def cells_of(self, columns: Iterable[int]) -> int:
        """Returns the number of cells of a table of these columns."""
        return math.prod(self.sizes[column] for column in columns)

    def clique_with(self, columns: Columns) -> int | None:
        """The place of a smallest clique that holds all the columns; None where there is none."""
        wanted = set(columns)
        held = [place for place, clique in enumerate(self.cliques) if wanted <= {*clique}]
        return min(held, key=lambda place: (self.cells_of(self.cliques[place]), place), default=None)

    def joining_cells(self, column: int) -> Mapping[int, int]:
        """Returns for every other column how many cells a tree has more that holds it and `column` in one clique; 0 where this one does."""
        found = {other: 0 for clique in self.cliques if column in clique for other in clique}
        # Nearer cliques come first, and what is on the way to a farther one is on the way to both.
        for end, path in self._paths_from(column).items():
            added = sum(map(self.cells_of, self._joined_path(column, path)))
            for other in self.cliques[end]:
                if other not in found:
                    found[other] = added + self.cells_of({*path[-1], column, other})
        return found

    def with_pair(self, pair: Columns, pairs: Iterable[Columns]) -> CliqueTree:
        """A tree that also holds a pair in one clique, `pairs` being all others that it must hold: the smaller of two.

        One is found anew; the other adds to this one what joins the pair, so that it has no more cells than `joining_cells` tells.
        """
        if self.clique_with(pair) is not None:
            return self
        first, second = pair
        path = next(path for end, path in self._paths_from(first).items() if second in self.cliques[end])
        joined = [*self.cliques, *self._joined_path(first, path), {*path[-1], first, second}]
        both = CliqueTree.of_tables([*pairs, pair], self.sizes), CliqueTree.of(joined, self.sizes)
        return min(both, key=lambda tree: tree.cells)

    def _paths_from(self, column: int) -> dict[int, list[Columns]]:
        """The separators on the way from the cliques that hold a column to every other one."""
        reached: dict[int, list[Columns]] = {place: [] for place, clique in enumerate(self.cliques) if column in clique}
        waiting, paths = list(reached), {}
        for place in waiting:
            for near, separator in self.neighbours[place]:
                if near not in reached:
                    reached[near] = paths[near] = [*reached[place], separator]
                    waiting.append(near)
        return paths

    @staticmethod
    def _joined_path(column: int, path: Sequence[Columns]) -> list[set[int]]:
        """The cliques on a way that take in a column: two separators and the column each."""
        return [{*before, *after, column} for before, after in itertools.pairwise(path)]

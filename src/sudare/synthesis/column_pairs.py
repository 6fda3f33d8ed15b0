"""Which pairs of columns belong together: scores, a forest of the strongest, and the way between two columns of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats

Pair = tuple[int, int]


@dataclass(frozen=True)
class Pairs:
    """Pairs of columns (i < j): those of a forest, which are counted with the label, and further ones, counted without."""

    forest: tuple[Pair, ...]
    further: tuple[Pair, ...]

    @classmethod
    def in_order(cls, pairs: Iterable[Pair], columns: int) -> Pairs:
        """The first pairs that close no cycle make the forest, the others are further ones."""
        group = list(range(columns))
        forest: list[Pair] = []
        further: list[Pair] = []
        for first, second in pairs:
            if group[first] == group[second]:
                further.append((first, second))
                continue
            forest.append((first, second))
            joined = group[second]
            group = [group[first] if each == joined else each for each in group]
        return cls(tuple(forest), tuple(further))

    @property
    def all(self) -> tuple[Pair, ...]:
        """Those of the forest, then the further ones."""
        return self.forest + self.further


def all_pairs(sizes: Sequence[int], classes: int, most_cells: int) -> list[Pair]:
    """Every pair of columns whose table, the label included, has no more cells than allowed."""
    return [
        (first, second)
        for first in range(len(sizes))
        for second in range(first + 1, len(sizes))
        if sizes[first] * sizes[second] * classes <= most_cells
    ]


def distance_to_model(counts: NDArray[np.int64], model: Floats) -> int:
    """Σ |count − model| with the model rounded to whole numbers: a row moves it by at most the cells it moves."""
    return int(np.abs(counts - np.rint(model).astype(np.int64)).sum())


def chosen_pairs(
    scores: Mapping[Pair, float], least_scores: Mapping[Pair, float], cells: Mapping[Pair, int], most_cells: int
) -> Pairs:
    """The forest of the largest scores, and the further pairs whose scores are above the least for which they are worth it.

    Further pairs are taken by score while their cells together are within the limit.
    """
    columns = 1 + max((second for _, second in scores), default=0)
    strongest = Pairs.in_order(sorted(scores, key=lambda pair: (-scores[pair], pair)), columns)
    further: list[Pair] = []
    for pair in strongest.further:
        if scores[pair] > least_scores[pair] and cells[pair] <= most_cells:
            further.append(pair)
            most_cells -= cells[pair]
    return Pairs(strongest.forest, tuple(further))


def breadth_first_order(forest: Sequence[Pair], columns: int) -> dict[int, int | None]:
    """All columns in an order in which each comes after its parent, with that parent; None for the first of a tree."""
    beside: dict[int, list[int]] = {column: [] for column in range(columns)}
    for first, second in forest:
        beside[first].append(second)
        beside[second].append(first)
    parents: dict[int, int | None] = {}
    for root in range(columns):
        if root in parents:
            continue
        parents[root] = None
        reached = [root]
        # Columns are added while the list is read.
        for column in reached:
            new = [near for near in beside[column] if near not in parents]
            parents.update(dict.fromkeys(new, column))
            reached += new
    return parents


def path_between(parents: Mapping[int, int | None], first: int, second: int) -> list[int] | None:
    """The columns from one to the other along the forest, both ends included; None where they are in different trees."""
    upwards = [first]
    while (parent := parents[upwards[-1]]) is not None:
        upwards.append(parent)
    back = [second]
    while back[-1] not in upwards:
        parent = parents[back[-1]]
        if parent is None:
            return None
        back.append(parent)
    return upwards[: upwards.index(back[-1])] + back[::-1]

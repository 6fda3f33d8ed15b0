"""Rows drawn from released numbers: this protects nobody and costs nothing, so a seed does no harm."""

from __future__ import annotations

import numpy as np

from sudare.array_types import Floats, Positions


def generator_of(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """A generator with that seed, the one given, or one that nobody can repeat."""
    return np.random.default_rng(random_state)


def drawn_cells(shares: Floats, groups: Positions, generator: np.random.Generator) -> Positions:
    """For every row a cell by the shares of its group; `shares` has a row of weights, not all zero, for every group."""
    size = shares.shape[1]
    heights = np.cumsum(shares, axis=1)
    heights /= heights[:, -1:]
    # Group after group on one rising line: a single search finds all cells.
    line = (heights + np.arange(len(heights))[:, np.newaxis]).ravel()
    places = np.searchsorted(line, groups + generator.random(len(groups)), side="right") - groups * size
    return np.asarray(np.clip(places, 0, size - 1))


def drawn_rows(weights: Floats, rows: int, generator: np.random.Generator) -> Positions:
    """So many positions, each as often as its weight asks for up to one, in random order."""
    heights = np.cumsum(weights)
    marks = (np.arange(rows) + generator.random()) * (heights[-1] / rows)
    return generator.permutation(np.minimum(np.searchsorted(heights, marks, side="right"), len(weights) - 1))

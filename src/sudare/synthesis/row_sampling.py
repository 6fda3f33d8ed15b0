"""Rows drawn from released numbers: this protects nobody and costs nothing, so a seed does no harm."""

from __future__ import annotations

import numpy as np

from sudare.array_types import Floats, Positions


def generator_of(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """A generator with that seed, the one given, or one that nobody can repeat."""
    return np.random.default_rng(random_state)


def drawn_cells(shares: Floats, groups: Positions, generator: np.random.Generator) -> Positions:
    """Returns for every row a cell, drawn by the shares of its group; `shares` has a row of weights, not all zero, for every group."""
    size = shares.shape[1]
    heights = np.cumsum(shares, axis=1)
    heights /= heights[:, -1:]
    # Group after group on one rising line: a single search finds all cells.
    line = (heights + np.arange(len(heights))[:, np.newaxis]).ravel()
    places = np.searchsorted(line, groups + generator.random(len(groups)), side="right") - groups * size
    return np.asarray(np.clip(places, 0, size - 1))


def drawn_rows(weights: Floats, rows: int, generator: np.random.Generator) -> Positions:
    """Returns `rows` positions, each as often as its weight asks for up to one, in random order."""
    heights = np.cumsum(weights)
    marks = (np.arange(rows) + generator.random()) * (heights[-1] / rows)
    return generator.permutation(np.minimum(np.searchsorted(heights, marks, side="right"), len(weights) - 1))


def evenly_drawn_cells(shares: Floats, groups: Positions, generator: np.random.Generator) -> Positions:
    """As `drawn_cells`, but of the rows of a group every cell has its share of them up to one row.

    A group whose weights are all zero takes those of all groups together.
    """
    counts = np.bincount(groups, minlength=len(shares))
    shuffled = generator.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(groups))
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, counts)
    marks = (ranks + generator.random(len(shares))[groups]) / counts[groups]
    empty = shares.sum(axis=1) <= 0
    weights = np.where(empty[:, np.newaxis], shares.sum(axis=0) if not empty.all() else 1.0, shares)
    heights = np.cumsum(weights, axis=1)
    heights /= heights[:, -1:]
    line = (heights + np.arange(len(heights))[:, np.newaxis]).ravel()
    places = np.searchsorted(line, groups + np.minimum(marks, 1 - 2.0**-30), side="right") - groups * shares.shape[1]
    return np.asarray(np.clip(places, 0, shares.shape[1] - 1))

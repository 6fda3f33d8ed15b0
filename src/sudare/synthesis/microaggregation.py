"""Synthetic rows from noisy means of groups of neighbouring values: the histogram route of paper 002, section 4-2 (1).

The paper takes individual ranking microaggregation (its references 7 and 28): the values of a column are sorted, every k that
follow each other become a group, and the group's mean gets Laplace noise. There every row keeps its own group in every
column, and which rows share groups is shown without noise. Here groups are formed within a class, nothing links the columns of a row, and
values are drawn anew: independent of each other within a class. Proof: proofs/synthesis.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from sudare.array_types import Floats, Integers
from sudare.errors import InvalidParameter
from sudare.privacy.mechanisms import Gaussian, Laplace
from sudare.privacy.noise import WholeNoise
from sudare.privacy.release_content import on_grid
from sudare.privacy.release_file import Tensors
from sudare.reconstruction.maximum_likelihood import projected_on_simplex
from sudare.synthesis.marginals import MOST_CELLS, whole_counts
from sudare.synthesis.row_sampling import drawn_cells
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import SCALED_STEP, CodedRows, Layout, are_cells, combination_counts, row_blocks

STAGES: Final = 2
MOST_GROUPS: Final = 1000
_SHARE_OF_CLASSES: Final = Fraction(1, 10)
# Up to here floats hold every multiple of the step.
_LARGEST_SUM: Final = 2.0**53 * SCALED_STEP


@dataclass(frozen=True)
class MicroaggregationEngine:
    """(ε, δ)-DP means of groups and counts of categories, replace-one or add/remove rows. Proof: proofs/synthesis.md."""

    layout: Layout
    noise: StagedNoise
    numbers: frozenset[str]
    groups: int

    def __post_init__(self) -> None:
        if sum(self._widths) > MOST_CELLS:
            raise InvalidParameter(
                f"These columns have {sum(self._widths):,} groups and categories; at most {MOST_CELLS:,} are released.",
                "Declare fewer categories, or use fewer groups.",
            )
        # Noise that cannot be made for these ε and δ is refused here, before anything is charged.
        self.classes_noise()
        self.columns_noise()

    @property
    def _widths(self) -> list[int]:
        """How many released numbers a column has: a group or a category for every class."""
        return [
            (self.groups if name in self.numbers else size) * self.layout.classes
            for name, size in zip(self.layout.names, self.layout.sizes, strict=True)
        ]

    def classes_noise(self) -> Laplace | Gaussian:
        """Noise for the number of rows of every class."""
        return self.noise.for_counts(_SHARE_OF_CLASSES, 1, self.layout.classes)

    def columns_noise(self) -> Laplace | Gaussian:
        """Noise for sums of groups and counts of categories: a row moves either by as much as it moves a count."""
        widths = self._widths
        return self.noise.for_counts(1 - _SHARE_OF_CLASSES, len(widths), sum(widths), SCALED_STEP)

    def measured(self, rows: CodedRows, source: WholeNoise) -> dict[str, NDArray[Any]]:
        """Everything that leaves: noisy class sizes, noisy sums of groups and noisy counts of categories."""
        label, classes = rows.label(self.layout), self.layout.classes
        sizes = whole_counts(self.classes_noise(), combination_counts([label], [classes]), source)
        parts: list[Floats] = []
        for name, size in zip(self.layout.names, self.layout.sizes, strict=True):
            if name in self.numbers:
                values, of_group = rows.scaled[name], self._group_rows(sizes)
                for c in range(classes):
                    of_class = (values[block][label[block] == c] for block in row_blocks(rows.count))
                    parts.append(sums_of_groups(of_class, self.groups, int(of_group[c])))
            else:
                parts.append(combination_counts([label, rows.codes[name]], [classes, size]).astype(np.float64))
        noisy = self.columns_noise().apply(np.concatenate(parts), source)
        cells = on_grid(np.clip(noisy, -_LARGEST_SUM, _LARGEST_SUM), SCALED_STEP)
        return {"cells": cells, "classes": sizes}

    def _group_rows(self, sizes: Integers) -> Integers:
        """How many rows a group of every class has, by its noisy size: at least one."""
        return np.maximum(np.rint(sizes / self.groups), 1).astype(np.int64)

    def fits(self, tensors: Tensors) -> bool:
        """Whether tensors are such as `measured` gives."""
        return (
            set(tensors) == {"cells", "classes"}
            and tensors["cells"].dtype == np.float64
            and tensors["classes"].dtype == np.int64
            and tensors["cells"].shape == (sum(self._widths),)
            and tensors["classes"].shape == (self.layout.classes,)
            and are_cells(tensors["classes"])
            and bool(np.all(np.abs(tensors["cells"]) <= _LARGEST_SUM))
        )

    def model(self, tensors: Tensors) -> MicroaggregationModel:
        """The distribution from which rows are drawn."""
        classes, of_group = self.layout.classes, self._group_rows(tensors["classes"])
        parts = np.split(tensors["cells"], np.cumsum(self._widths)[:-1])
        found: dict[str, Floats] = {}
        for name, part in zip(self.layout.names, parts, strict=True):
            table = part.reshape(classes, -1)
            if name in self.numbers:
                means = table / of_group[:, np.newaxis]
                found[name] = np.array([isotonic_regression(row, y_min=0.0, y_max=1.0) for row in means])
            else:
                found[name] = np.array([projected_on_simplex(row, max(1.0, row.sum())) for row in table])
        return MicroaggregationModel(self.layout, self.numbers, np.maximum(tensors["classes"], 1), found)


@dataclass(frozen=True, eq=False, repr=False)
class MicroaggregationModel:
    """A distribution of rows: classes, and within a class independent columns."""

    layout: Layout
    numbers: frozenset[str]
    sizes: Integers
    columns: Mapping[str, Floats]

    @property
    def total(self) -> float:
        """How many rows the noisy counts speak of."""
        return float(self.sizes.sum())

    def drawn(self, rows: int, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
        """New rows: cells of categories and of the label; of number columns means of groups, scaled to [0, 1]."""
        shares = self.sizes.astype(np.float64)[np.newaxis]
        label = drawn_cells(shares, np.zeros(rows, dtype=np.intp), generator)
        found: dict[str, NDArray[Any]] = {}
        for name, table in self.columns.items():
            if name in self.numbers:
                found[name] = table[label, generator.integers(0, table.shape[1], rows)]
            else:
                found[name] = drawn_cells(table, label, generator)
        return found if self.layout.label is None else {**found, self.layout.label: label}


def sums_of_groups(parts: Iterable[Floats], groups: int, of_group: int) -> Floats:
    """Sums of groups of so many values each, in rising order; what is missing counts as one, what is too much is left out.

    Values are multiples of the public step in [0, 1], so the sums are exact, and different ones are few. A value added, removed or replaced moves them
    by one at most, all together (proofs/synthesis.md).
    """
    values: Floats = np.zeros(1)
    counts: NDArray[Any] = np.zeros(1)
    for part in parts:
        both = np.concatenate([values, part])
        values, places = np.unique(both, return_inverse=True)
        counts = np.bincount(places, weights=np.concatenate([counts, np.ones(len(part))]))
    upto, running = np.cumsum(counts), np.cumsum(values * counts)
    ends = np.arange(groups + 1) * of_group
    within = np.minimum(ends, upto[-1])
    last = np.searchsorted(upto, within)
    sums = running[last] - values[last] * (upto[last] - within)
    return np.asarray(np.diff(sums) + np.diff(ends - within))

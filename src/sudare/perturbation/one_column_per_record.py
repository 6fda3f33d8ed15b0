"""Which column a record answers, where each answers only one: with the whole ε, instead of every column with a part of it.

The column is drawn for each record without looking at it, and released. The other columns of the record hold the same output whatever the
record is: nothing of them leaves. Proof: proofs/record_perturbation.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Integers
from sudare.perturbation.categorical import CategoryPerturbation, Ticks, level_array
from sudare.perturbation.column_perturbation import Perturbation, unsigned_type
from sudare.privacy.noise import NoiseSource
from sudare.schema import Category

ANSWERED: Final = "answered"
"""The name of the released column that says which column a row answers."""


class AnsweredColumn(CategoryPerturbation):
    """The column that each record answers: uniform, whatever the record is, so that it costs nothing."""

    kind = "answered"
    answers_with_sets = False

    def __init__(self, names: Sequence[str]) -> None:
        self.epsilon, self.k, self.n_records = 0.0, None, None
        self._category = Category(tuple(names))

    @property
    def ratio(self) -> Fraction:
        """One: the draw does not depend on the record."""
        return Fraction(1)

    @property
    def tick_probabilities(self) -> tuple[float, float]:
        """What is released is the column that was drawn."""
        return 1.0, 0.0

    def draw(self, codes: Integers, source: NoiseSource) -> Integers:
        """A column for each record; of the codes only their number counts."""
        return (source.words(len(codes)) % np.uint64(len(self.values))).astype(np.int64)

    def packed(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Positions in the smallest unsigned type."""
        return outputs.astype(unsigned_type(len(self.values)))

    def unpacked(self, stored: NDArray[Any]) -> Integers:
        """Positions of the columns."""
        return stored.astype(np.int64)

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Names of the columns."""
        names: NDArray[Any] = level_array(self.values)[stored]
        return names

    def ticks(self, outputs: NDArray[Any]) -> Ticks:
        """Rows with a single tick."""
        ticks: Ticks = outputs[:, np.newaxis] == np.arange(len(self.values))
        return ticks

    def description(self) -> dict[str, Any]:
        """Kind, columns, and that it costs nothing."""
        return {"kind": self.kind, "values": list(self.values), "epsilon": self.epsilon}


def is_sampled(perturbations: Mapping[str, Perturbation]) -> bool:
    """Whether every record answers one column only."""
    return isinstance(perturbations.get(ANSWERED), AnsweredColumn)


def perturbed_block(
    perturbations: Mapping[str, Perturbation], columns: Sequence[NDArray[Any]], noise: NoiseSource
) -> dict[str, NDArray[Any]]:
    """Rows perturbed, as they are stored: every column, or the one that each row answers."""
    if not is_sampled(perturbations):
        return {
            name: each.drawn(values, noise) for (name, each), values in zip(perturbations.items(), columns, strict=True)
        }
    asked = perturbations[ANSWERED]
    chosen = asked.draw(np.zeros(len(columns[0]), dtype=np.int64), noise)
    stored: dict[str, NDArray[Any]] = {}
    laws = [(name, each) for name, each in perturbations.items() if name != ANSWERED]
    for number, ((name, each), values) in enumerate(zip(laws, columns, strict=True)):
        own = np.flatnonzero(chosen == number)
        drawn = each.drawn(values[own], noise)
        # The same bytes for every record that does not answer this column.
        stored[name] = np.zeros((len(chosen), *drawn.shape[1:]), dtype=drawn.dtype)
        stored[name][own] = drawn
    return {**stored, ANSWERED: asked.packed(chosen)}


def row_cost(perturbations: Mapping[str, Perturbation]) -> Sequence[float]:
    """The ε of a row's answers, to be added up: those of all columns, or the largest where a row answers one."""
    each = [one.epsilon for one in perturbations.values()]
    return [max(each)] if is_sampled(perturbations) else each

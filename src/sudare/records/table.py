"""A perturbed table: what leaves, and what a receiver works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import ColumnMissing
from sudare.privacy.guarantee import Guarantee
from sudare.records.categorical import CategoryPerturbation, SetPerturbation
from sudare.records.linking import Statement
from sudare.records.numbers import NumberPerturbation
from sudare.records.perturb import Perturbation, unsigned_type
from sudare.schema.columns import level_text


@dataclass(frozen=True, eq=False, repr=False)
class PerturbedTable:
    """Perturbed columns and the perturbations they went through; rows have neither index nor order.

    `stored` has the outputs as they are released: whole numbers on the public grid, positions, or packed ticks.
    """

    perturbations: Mapping[str, Perturbation]
    stored: Mapping[str, NDArray[Any]]
    guarantee: Guarantee
    row_epsilon: float
    rows_per_person: int
    shuffled: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.perturbations)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.stored.values())))

    def perturbation(self, name: str) -> Perturbation:
        """The perturbation of a column."""
        self._check_name(name)
        return self.perturbations[name]

    def column(self, name: str) -> NDArray[Any]:
        """Perturbed numbers, categories, or rows of ticks."""
        self._check_name(name)
        return self.perturbations[name].decoded(self.stored[name])

    def statement(self) -> Statement:
        """Linking, local and central promise: they belong together."""
        return Statement.of(
            self.guarantee,
            self.rows,
            shuffled=self.shuffled,
            row_epsilon=self.row_epsilon,
            rows_per_person=self.rows_per_person,
        )

    def arrow(self) -> pa.Table:
        """All columns as an Arrow table; a set of categories becomes one column of booleans a category."""
        columns: dict[str, Any] = {}
        for name, perturbation in self.perturbations.items():
            values = self.column(name)
            if isinstance(perturbation, SetPerturbation):
                for position, level in enumerate(perturbation.values):
                    columns[f"{name}={level_text(level)}"] = pa.array(np.ascontiguousarray(values[:, position]))
            elif isinstance(perturbation, CategoryPerturbation) and values.dtype == object:
                columns[name] = pa.array([level_text(level) for level in values])
            else:
                columns[name] = pa.array(values)
        return pa.table(columns)

    def _check_name(self, name: str) -> None:
        if name not in self.perturbations:
            raise ColumnMissing(f"The table lacks {name!r}.", f"There are {', '.join(map(repr, self.perturbations))}.")

    def __repr__(self) -> str:
        return f"<PerturbedTable of {self.rows:,} rows: {', '.join(self.names)}; {self.guarantee}>"


def stored_shape(perturbation: Perturbation, rows: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of a stored column."""
    if isinstance(perturbation, SetPerturbation):
        return (rows, (perturbation.output_count + 7) // 8), np.dtype(np.uint8)
    return (rows,), unsigned_type(perturbation.output_count)


def stored_bytes_per_row(perturbation: Perturbation) -> int:
    """How many bytes a row of a stored column takes."""
    shape, kind = stored_shape(perturbation, 1)
    return int(np.prod(shape)) * kind.itemsize


def as_tensor(stored: NDArray[Any]) -> NDArray[np.uint8]:
    """A stored column as plain bytes, as a release holds it."""
    return np.ascontiguousarray(stored).view(np.uint8).ravel()


def has_size(tensor: NDArray[Any], perturbation: Perturbation, rows: int) -> bool:
    """Whether a tensor has the type and the length of a column of so many rows."""
    return tensor.dtype == np.uint8 and tensor.shape == (rows * stored_bytes_per_row(perturbation),)


def from_tensor(tensor: NDArray[np.uint8], perturbation: Perturbation, rows: int) -> NDArray[Any]:
    """The stored column in a tensor of the right size."""
    shape, kind = stored_shape(perturbation, rows)
    return np.ascontiguousarray(tensor).view(kind).reshape(shape)


def can_be(stored: NDArray[Any], perturbation: Perturbation) -> bool:
    """Whether all stored outputs are possible: below their number, or without a tick where no category is."""
    if isinstance(perturbation, SetPerturbation):
        spare = 8 * stored.shape[1] - perturbation.output_count
        return not np.any(stored[:, -1] >> (8 - spare)) if spare else True
    return bool(stored.max() < perturbation.output_count)


def described(perturbation: Perturbation) -> dict[str, Any]:
    """What a manifest says of a perturbation besides what its column declares: kind, ε, and how wide or how sure it is."""
    facts = perturbation.description()
    left_out = "bounds" if isinstance(perturbation, NumberPerturbation) else "values"
    return {name: value for name, value in facts.items() if name != left_out}

"""What every perturbation of one column shares: an exactly known channel, a promise, and the way through the door.

A perturbation turns the values of a column into whole numbers (codes), draws an output for each, independently and by a
law that is the same for all, and turns outputs into values again. Everything but the draw is public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Integers
from sudare.errors import DataError
from sudare.perturbation.exact_draws import CHUNK_VALUES, loss_of
from sudare.perturbation.linkage_risk import PerturbationPromise, resolved_epsilon
from sudare.perturbation.uniform_shuffle import shuffled
from sudare.privacy.accounting import pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release import pass_through
from sudare.report.number_formatting import whole


def unsigned_type(count: int) -> np.dtype[Any]:
    """The smallest unsigned type for whole numbers below `count`."""
    return np.dtype(np.min_scalar_type(count - 1)).newbyteorder("<")


class Perturbation(ABC):
    """ε-local DP for one value. Subclasses name the law; `ratio` is its exact largest ratio of probabilities.

    `epsilon` is the local ε that is promised; `k` and `n_records` are what was asked for instead, if they were.
    """

    kind: ClassVar[str]
    column_type: ClassVar[type[np.generic]]

    def __init__(self, *, epsilon: float | None, k: int | None, n_records: int | None) -> None:
        self.epsilon = resolved_epsilon(epsilon, k, n_records)
        self.k, self.n_records = k, n_records

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise AttributeError for what is set already: noise and promise were made from it."""
        if name in self.__dict__:
            raise AttributeError(f"{name} of a perturbation cannot be changed: make another one.")
        super().__setattr__(name, value)

    @property
    @abstractmethod
    def ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one output under two inputs; at most e^ε."""

    @property
    def exact_epsilon(self) -> float:
        """The local ε of the law that is drawn from, rounded up."""
        return loss_of(self.ratio)

    @property
    def guarantee(self) -> Guarantee:
        """The promise to every record, towards everyone who sees its perturbed value."""
        return Guarantee(self.epsilon, notion="local")

    @property
    @abstractmethod
    def output_count(self) -> int:
        """How many outputs are possible, or for sets of values, how many values there are."""

    @abstractmethod
    def column(self, values: Any) -> NDArray[Any]:
        """Values as one checked column: numbers, or positions among the categories."""

    @abstractmethod
    def codes(self, column: NDArray[Any]) -> Integers:
        """A part of a column as the whole numbers that are perturbed."""

    @abstractmethod
    def draw(self, codes: Integers, source: NoiseSource) -> NDArray[Any]:
        """One output for each code."""

    @abstractmethod
    def packed(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Outputs as they are kept and released: unsigned, in few bytes."""

    @abstractmethod
    def unpacked(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Outputs from what `packed` gave."""

    @abstractmethod
    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Packed outputs in the terms of the column."""

    @property
    def chunk_values(self) -> int:
        """How many values are drawn at a time."""
        return CHUNK_VALUES

    def drawn(self, column: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """One output for each entry of a column, packed; drawn piece by piece."""
        chunk = self.chunk_values
        starts = range(0, max(len(column), 1), chunk)
        parts = [self.packed(self.draw(self.codes(column[start : start + chunk]), source)) for start in starts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The public facts of the law, in plain values."""

    def perturb(
        self, values: Any, *, shuffle: bool = True, random_state: int | np.random.RandomState | None = None
    ) -> NDArray[Any]:
        """Perturbed values in a random order; with shuffle=False in the order given, and then k holds no longer.

        This is for looking and for simulation: nothing is charged, so nothing of it may leave. `RecordPerturbation` charges.
        """
        column = self.column(values)
        self._check_count(len(column))
        passage = pass_through(None, random_state, self.guarantee, pure_cost(self.epsilon), type(self).__name__)
        stored = self.drawn(column, passage.noise)
        return self.decoded(shuffled(stored, passage.noise) if shuffle else stored)

    def statement(self, rows: int | None = None, *, shuffled: bool = True) -> PerturbationPromise:
        """Linking, local and central promise for so many rows (default: n_records) of this one column."""
        count = rows if rows is not None else self.n_records
        if count is None:
            raise DataError("How many rows a statement is about is not known.", "Give rows=….")
        return PerturbationPromise.of(self.guarantee, count, shuffled=shuffled)

    def _check_count(self, rows: int) -> None:
        if rows == 0:
            raise DataError("There are no values to perturb.", "Give at least one.")
        if self.n_records is not None and rows < self.n_records:
            raise DataError(
                f"n_records = {whole(self.n_records)} is more than the {whole(rows)} values there are.",
                "Give the number of rows there are, or less: k would not hold among fewer.",
            )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.description() == getattr(other, "description", dict)()

    def __hash__(self) -> int:
        return hash(repr(sorted(self.description().items())))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.description().items() if name != "kind")
        return f"{type(self).__name__}({facts})"

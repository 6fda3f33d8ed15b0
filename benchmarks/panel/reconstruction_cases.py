"""Perturbed columns of the panel: every noise, privacy and number of records that reconstruction is judged with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.panel.number_columns import PanelColumn
from benchmarks.panel.table_definition import generator_of
from benchmarks.panel.tuning_and_judging import Half, columns
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.linkage_risk import epsilon_of_k
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.perturbation.square_wave import SquareWave
from sudare.reconstruction.round_bin_edges import round_edges

Floats = NDArray[np.float64]

NOISES: Final = {"Laplace": LaplacePerturbation, "square wave": SquareWave}
_MOST_UNIT_BINS: Final = 128


@dataclass(frozen=True)
class Case:
    """A column, its noise and how many records there are."""

    column: PanelColumn
    noise: str
    privacy: str
    records: int

    @property
    def perturbation(self) -> NumberPerturbation:
        """What the column went through."""
        number = self.column.number
        epsilon = epsilon_of_k(2, self.records, 1) if self.privacy == "k = 2" else float(self.privacy[4:])
        return NOISES[self.noise]((number.low, number.high), epsilon=epsilon, whole=number.whole)

    @property
    def edges(self) -> Floats:
        """Bins of one for up to 128 whole numbers; else those that a picture shows."""
        low, high = self.perturbation.bounds
        if self.column.number.whole and high - low < _MOST_UNIT_BINS:
            return np.arange(low - 0.5, high + 1)
        return np.array(round_edges(low, high))

    def drawn(self, repetition: int) -> tuple[Floats, Floats]:
        """Records and their perturbed values; the same for the same repetition."""
        records = self.column.records(self.records, repetition)
        words = f"noise of {self.column.name}, {self.noise}, {self.privacy}, {self.records}, {repetition}"
        seed = int(generator_of(words).integers(2**31))
        return records, self.perturbation.perturb(records, random_state=seed)

    def shares(self, records: Floats) -> Floats:
        """The records' shares of the bins."""
        return np.histogram(records, self.edges)[0] / len(records)


def cases(half: Half, design: Sequence[tuple[int, str]]) -> Iterator[Case]:
    """Every column of a half behind both noises, for each number of records and privacy of the design."""
    for column in columns(half):
        for noise in NOISES:
            for count, privacy in design:
                yield Case(column, noise, privacy, count)


def accuracy(found: Floats, true: Floats) -> float:
    """100·(1 − L1/2)."""
    return float(100 * (1 - np.abs(found - true).sum() / 2))

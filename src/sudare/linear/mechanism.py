"""A private way from bounded rows to the parameters of a linear model, made from public facts alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sudare.array_types import Floats
from sudare.frames.rows import Rows
from sudare.linear.losses import Loss
from sudare.linear.solvers import WorstCase
from sudare.privacy.accounting import Cost
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource

_GRID_BITS: Final = 16


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a fit: sizes, the norm of a row (bias included), the loss and the penalty ρ = nΛ.

    `sum_bound` bounds the sum of a row's absolute values (bias included); infinite where nobody declared it. `entry_bounds` bounds each of
    them; empty where nobody declared them.
    """

    rows: int
    width: int
    norm_bound: float
    loss: Loss
    penalty: float
    outputs: int = 1
    rows_per_unit: int = 1
    nonnegative: bool = False
    sum_bound: float = math.inf
    entry_bounds: tuple[float, ...] = ()


class LinearMechanism(ABC):
    """Noise calibrated to a promise: its cost is known before it sees a row. Parameters come out on a public grid, one row an output."""

    facts: Facts

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What using it costs."""

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """How much noise a parameter gets, roughly; public."""

    @property
    @abstractmethod
    def grid(self) -> float:
        """The power of two whose multiples the parameters are."""

    @property
    def penalty(self) -> float:
        """ρ, as asked for."""
        return self.facts.penalty

    @property
    def largest_linear_norm(self) -> float:
        """A norm that a linear term in the objective does not pass; 0 where there is none."""
        return 0.0

    @cached_property
    def worst_case(self) -> WorstCase:
        """How a solver of the objective converges for every table with these public facts."""
        facts = self.facts
        sizes = facts.rows, facts.width, facts.norm_bound
        return WorstCase(*sizes, facts.loss, self.penalty, self.largest_linear_norm)

    @abstractmethod
    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """Parameters, one row an output."""

    def fitted_with_shares(self, rows: Rows, source: NoiseSource) -> tuple[Floats, Floats | None]:
        """The parameters, and the shares of classes where they are released with them: of the second of two, or of each."""
        return self.fitted(rows, source), None

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """The parameters as one vector, from a matrix of bounded rows with the targets as last columns."""
        outputs = self.facts.outputs
        return self.fitted(Rows.held(values[:, :-outputs], values[:, -outputs:]), source).ravel()


def public_grid(noise_scale: float) -> float:
    """A power of two far below the noise."""
    return power_of_two_below(noise_scale) * 2.0**-_GRID_BITS

"""Common means and scales from two noisy sums: ε-DP or (ε, δ)-DP, replace-one rows. Proof: proofs/noise_shares.md.

The first sum finds where the rows are within the declared bounds, the second how far they lie from there. Rows are near the common
centre and not all over the bounds, so the second sum can do with shorter vectors, and its noise is a part of what the bounds would ask for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np

from sudare.array_types import Floats, Integers
from sudare.dictionary.distributed_noise import NoisePlan, check_colluders
from sudare.joint.member_rows import MomentReading
from sudare.joint.noise_shares import GaussianShares, ShareNoise
from sudare.joint.sum_requests import CentreSum, SpreadSum, SumRequest, row_count
from sudare.joint.training_terms import pure_scaler, scaler_releases, with_common_scales
from sudare.privacy.accounting import Cost, pure_cost
from sudare.privacy.column_sums import fixed_point_step, on_grid_within, public_grid
from sudare.privacy.declared_columns import natural_bounds, promise
from sudare.privacy.guarantee import Guarantee, checked_delta, checked_epsilon
from sudare.schema import Schema

Answer = TypeVar("Answer")
Script = Generator[SumRequest, Integers, Answer]

# Found by trying on other splits of the study's patients (docs/consortium-learning.md).
_USUAL_DEVIATION: Final = 3 / 8
_LARGEST_WEIGHT: Final = 3.0
_SHRINKAGE: Final = 0.3
_SMALLEST_PART: Final = 0.25


@dataclass(frozen=True)
class ScalerTerms:
    """What members agree on before they compute common scales. All of it is public."""

    schema: Schema
    epsilon: float
    delta: float
    members: int
    colluders: int = 1

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        check_colluders(self.members, self.colluders)

    @property
    def reading(self) -> MomentReading:
        """The number columns."""
        return MomentReading(self.schema)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return promise(self.epsilon, self.delta, "replace-one", self.schema)

    def plan(self, rows: int) -> ScalerPlan:
        """The noise of the sum, and what it costs."""
        return _planned(self, rows)


@dataclass(frozen=True)
class ScalerPlan:
    """Noise of the centres and of the spreads, and the price of both."""

    noises: tuple[ShareNoise, ShareNoise]
    cost: Cost


@functools.lru_cache(maxsize=64)
def _planned(terms: ScalerTerms, rows: int) -> ScalerPlan:
    if terms.delta == 0:
        pure = pure_scaler(terms.schema, terms.epsilon, rows, terms.members, terms.colluders)
        return ScalerPlan(pure, pure_cost(terms.epsilon))
    releases = scaler_releases(terms.schema, Fraction(1))
    plan = NoisePlan(terms.epsilon, terms.delta, terms.members, terms.colluders, releases, rows)
    return ScalerPlan((GaussianShares(plan, releases[0]), GaussianShares(plan, releases[1])), plan.cost)


@dataclass(frozen=True, eq=False)
class CommonScales:
    """Means and deviations of the number columns in their own units, on a public grid; the same at every member."""

    rows: int
    mean: Floats
    scale: Floats
    noise_scale: float
    grid: float

    def schema(self, declared: Schema) -> Schema:
        """The declared schema with these centres and scales."""
        names = list(MomentReading(declared).numbers.columns)
        means, scales = (dict(zip(names, part.tolist(), strict=True)) for part in (self.mean, self.scale))
        return with_common_scales(declared, means, scales)


def scaled(terms: ScalerTerms) -> Script[CommonScales]:
    """The script of common scales alone: rows, then moments."""
    rows = int((yield row_count(terms.reading))[0])
    return (yield from common_scales(terms.reading, rows, terms.plan(rows).noises))


def common_scales(reading: MomentReading, rows: int, noises: tuple[ShareNoise, ShareNoise]) -> Script[CommonScales]:
    """Two noisy sums, and what they say. A deviation that is lost in the noise is set to the noise, which is public."""
    grid, columns = fixed_point_step(rows), len(reading.numbers.columns)
    most, root = rows / grid, math.sqrt(columns)
    total = yield CentreSum(columns, most, reading, noises[0], grid)
    centre = np.clip(total * (grid * root / rows), -1.0, 1.0)
    reach, weight = spread_reach(columns), min(_LARGEST_WEIGHT, root)
    total = yield SpreadSum(2 * columns, most, reading, noises[1], centre, reach, weight, grid)
    first, second = np.split(total * (grid / rows), 2)
    noise = noises[1].total_deviation * grid / rows
    mean = np.clip(centre + reach * first, -1.0, 1.0)
    variance = reach**2 * (second / weight - first**2)
    deviation = np.clip(np.sqrt(_shrunk(variance, reach**2 * noise / weight)), 0.0, 1.0)
    return _in_own_units(reading, rows, mean, deviation, reach * noise)


def spread_reach(columns: int) -> float:
    """How long an offset may be, in half ranges: one and a half times √p quarters of a half range, which is usual; at least one."""
    return max(1.0, _USUAL_DEVIATION * math.sqrt(columns))


def _shrunk(variance: Floats, noise: float) -> Floats:
    """Variances drawn towards their mean by a public part, and kept above a part of it and above the noise."""
    usual = max(float(variance.mean()), noise)
    return np.maximum((1 - _SHRINKAGE) * variance + _SHRINKAGE * usual, max(_SMALLEST_PART * usual, noise))


def _in_own_units(reading: MomentReading, rows: int, mean: Floats, deviation: Floats, noise: float) -> CommonScales:
    low, high = natural_bounds(reading.numbers)
    half = (high - low) / 2
    grid = public_grid(noise, half)
    return CommonScales(
        rows,
        on_grid_within(low + half * (1 + mean), low, high, grid),
        on_grid_within(half * deviation, grid, half, grid),
        noise,
        grid,
    )

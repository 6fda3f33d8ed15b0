"""Shapes of an additive model, boosted on everybody's rows: (ε, δ)-DP, replace-one rows. Proof: proofs/noise_shares.md, proofs/additive_boosting.md.

One secure sum counts the rows of every bin, and every step is one more. The noise is discrete Gaussian in shares; what a member makes of
totals is public arithmetic, the same at all.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal, check_colluders
from sudare.errors import InvalidParameter, SchemaError
from sudare.joint.member_rows import BinReading
from sudare.joint.noise_shares import GaussianShares
from sudare.joint.scaler import Script
from sudare.joint.sum_requests import BinCount, WeightedSlopeSum, row_count
from sudare.linear.additive_boosting import BoostingFacts, BoostingRecipe, BoostingState, row_clip
from sudare.linear.additive_classifier import MAX_BINS, finer, ordered_bins
from sudare.linear.mechanism import public_grid
from sudare.privacy.accounting import Cost, gaussian_mu_within, rounded_up_root
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.privacy.guarantee import Guarantee, checked_delta, checked_epsilon
from sudare.privacy.release_content import on_grid
from sudare.schema import Schema

_RECIPE: Final = BoostingRecipe()


@dataclass(frozen=True)
class BoostingTerms:
    """What members agree on before they boost shapes together. All of it is public.

    `colluders` is t, the members whose share of the noise is not counted on; `max_bins` that of `PrivateAdditiveClassifier`.
    """

    schema: Schema
    epsilon: float
    delta: float
    members: int
    colluders: int = 1
    max_bins: int | None = None

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        check_colluders(self.members, self.colluders)
        MAX_BINS.check("max_bins", self.max_bins)
        if checked_delta(self.delta) == 0:
            raise InvalidParameter("Boosting needs delta > 0.", "Use for example delta=1e-6.")
        if self.schema.label is None:
            raise SchemaError("The schema declares no label to learn.", "Declare one.")

    @functools.cached_property
    def reading(self) -> BinReading:
        """Bins of the features, and targets."""
        return BinReading(self.schema, finer(Schema(dict(self.schema.features)), self.max_bins))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to a record, or to a person where the schema knows persons."""
        return promise(self.epsilon, self.delta, "replace-one", self.schema)

    def plan(self, rows: int) -> BoostingPlan:
        """The noise of all sums over so many rows, and what it costs."""
        return _planned(self, rows)


@dataclass(frozen=True)
class BoostingPlan:
    """Noise of the counts and of one step, the clip of a row, and the price of all sums together. `grid` is that of the sums."""

    facts: BoostingFacts
    counts: GaussianShares
    step: GaussianShares
    clip: float
    grid: float
    cost: Cost


@functools.lru_cache(maxsize=64)
def _planned(terms: BoostingTerms, rows: int) -> BoostingPlan:
    reading, recipe, unit = terms.reading, _RECIPE, rows_per_unit(terms.schema)
    sizes = tuple(block.width for block in reading.columns.blocks("binned"))
    # A replaced row leaves a bin of every column and enters another.
    counts = NoisyTotal(sum(sizes), rounded_up_root(Fraction(2 * len(sizes))), recipe.count_share, unit)
    step = NoisyTotal(reading.outputs * sum(sizes), 2.0, (1 - recipe.count_share) / recipe.steps, unit)
    plan = NoisePlan(terms.epsilon, terms.delta, terms.members, terms.colluders, (counts, *[step] * recipe.steps), rows)
    # All S shares are in a total where S−t would do.
    worth = rows * math.sqrt((terms.members - terms.colluders) / terms.members)
    clip = row_clip(recipe, len(sizes), gaussian_mu_within(terms.epsilon, terms.delta) * worth / unit)
    noises = GaussianShares(plan, counts), GaussianShares(plan, step)
    facts = BoostingFacts(
        rows,
        reading.outputs,
        sizes,
        (0,) * len(sizes),
        ordered_bins(reading.columns),
        recipe,
        noises[0].total_deviation * plan.grid,
        noises[1].total_deviation * plan.grid * clip / math.sqrt(recipe.steps),
    )
    return BoostingPlan(facts, *noises, clip, plan.grid, plan.cost)


@dataclass(frozen=True, eq=False)
class LearnedShapes:
    """An additive model of everybody's rows, the same at every member: one line of `parameters` an output, one number a bin, on `grid`."""

    reading: BinReading
    parameters: Floats
    rows: int
    noise_scale: float
    grid: float


def boosted(terms: BoostingTerms) -> Script[LearnedShapes]:
    """The script of a boosting: rows, counts of bins, then a weighted sum of slopes for every step."""
    reading = terms.reading
    rows = int((yield row_count(reading))[0])
    plan = terms.plan(rows)
    facts, most = plan.facts, rows / plan.grid
    total = yield BinCount(facts.width, most, reading, plan.counts, facts.outputs, plan.grid)
    state = BoostingState(facts, total.astype(np.float64) * plan.grid)
    for _ in range(facts.recipe.steps):
        shapes = state.ahead
        total = yield WeightedSlopeSum(
            shapes.size, most, reading, plan.step, shapes, state.weights, plan.clip, plan.grid
        )
        state.take(total.astype(np.float64).reshape(shapes.shape) * (plan.grid * plan.clip))
    grid = public_grid(facts.noise_scale)
    return LearnedShapes(reading, np.asarray(on_grid(state.average, grid)), rows, facts.noise_scale, grid)

"""What members agree on before they learn together, and the noise of the whole training, planned and priced before any of it is drawn."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, get_args

from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal, check_colluders
from sudare.errors import InvalidParameter
from sudare.joint.member_rows import ModelReading, MomentReading
from sudare.joint.noise_shares import GaussianShares, PureShares, ShareNoise
from sudare.linear.descent import Recipe, public_recipe
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.privacy.accounting import Cost, decimal_down, exact, gaussian_mu_within, pure_cost
from sudare.privacy.column_sums import fixed_point_step
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.privacy.guarantee import Guarantee, checked_delta, checked_epsilon
from sudare.schema import Number, Schema

LearningMethod = Literal["one-sum", "descent"]
METHODS: Final = get_args(LearningMethod)

# Scaled columns are cut off at so many deviations.
REACH: Final = 3.0
# Of what common scales may cost, this part is for the centres.
CENTRE_SHARE: Final = Fraction(2, 5)
# Below so many rows times μ, noise outweighs what later steps could correct (measured, docs/consortium-learning.md).
_LITTLE_SIGNAL: Final = 128.0
_FEW_STEPS: Final = 3
_FEW_STEPS_MOMENTUM: Final = 0.5
# How far three steps of that momentum get on a constant slope, in steps.
_FEW_STEPS_TRAVEL: Final = 4.25
_LARGEST_RATE: Final = 6.0
_TIME: Final = 0.5


@dataclass(frozen=True)
class LearningTerms:
    """Everything that decides what is asked, and none of it private.

    `colluders` is t, the members whose share of the noise is not counted on: whoever looks, those it colludes with, and those who leave.
    With `scaler_share` that part of the budget pays for common means and scales of the number columns first.
    """

    method: LearningMethod
    reading: ModelReading
    epsilon: float
    delta: float
    members: int
    colluders: int = 1
    scaler_share: float = 0.0

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        check_colluders(self.members, self.colluders)
        if self.method not in METHODS:
            raise InvalidParameter(f"method must be one of {', '.join(METHODS)}, got {self.method!r}.", "Use one.")
        if self.method == "descent" and self.delta == 0:
            raise InvalidParameter("Descent needs delta > 0.", 'Use for example delta=1e-6, or method="one-sum".')
        if not 0 <= self.scaler_share <= 0.9:
            raise InvalidParameter(f"scaler_share must be from 0 to 0.9, got {self.scaler_share!r}.", "Use 0 or 0.25.")
        if self.scaler_share and self.reading.schema is None:
            raise InvalidParameter("Common scales need a schema with bounds.", "Give a schema, or scaler_share=0.")

    @property
    def rows_per_unit(self) -> int:
        """How many rows one protected person can have."""
        return rows_per_unit(self.reading.schema)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to a record, or to a person where the schema knows persons."""
        return promise(self.epsilon, self.delta, "replace-one", self.reading.schema)

    @property
    def scaled_reading(self) -> ModelReading:
        """The reading of the model's rows; after scaling, its norm is that of a row with deviations of one."""
        if not self.scaler_share:
            return self.reading
        bound = math.sqrt(self.reading.features)
        return replace(self.reading, norm_bound=bound, bias=_bias(self.reading, bound), encoding="centred")

    def plan(self, rows: int) -> LearningPlan:
        """The noise of all sums over so many rows, and what it costs."""
        return _planned(self, rows)


@dataclass(frozen=True)
class LearningPlan:
    """The noise of a whole training. `grid` is that of the sums; `recipe` is None for the pure sum."""

    rows: int
    cost: Cost
    sums: tuple[ShareNoise, ...]
    recipe: Recipe | None
    grid: float
    scaler: tuple[ShareNoise, ShareNoise] | None = None


@functools.lru_cache(maxsize=64)
def _planned(terms: LearningTerms, rows: int) -> LearningPlan:
    return _pure_plan(terms, rows) if terms.delta == 0 else _gaussian_plan(terms, rows)


def _pure_plan(terms: LearningTerms, rows: int) -> LearningPlan:
    """ε for the mean message, less what the scaler takes."""
    reading, spent, scaler = terms.scaled_reading, Fraction(0), None
    if terms.scaler_share:
        part = decimal_down(exact(terms.epsilon) * Fraction(terms.scaler_share))
        spent = exact(part)
        scaler = pure_scaler(terms.reading.schema, part, rows, terms.members, terms.colluders)
    left = decimal_down(exact(terms.epsilon) - spent)
    sensitivity = 2 * terms.rows_per_unit * Fraction(reading.joint_norm) / Fraction(reading.step)
    noise = PureShares(sensitivity, left, reading.width, terms.members, terms.colluders)
    return LearningPlan(rows, pure_cost(terms.epsilon), (noise,), None, reading.step, scaler)


def _gaussian_plan(terms: LearningTerms, rows: int) -> LearningPlan:
    """One Gaussian budget for scaler and steps together: shares of μ²."""
    unit, share = terms.rows_per_unit, Fraction(terms.scaler_share)
    recipe, width = joint_recipe(terms, rows), terms.scaled_reading.width
    releases = [NoisyTotal(width, 2.0, (1 - share) / recipe.steps, unit)] * recipe.steps
    opening = scaler_releases(terms.reading.schema, share) if terms.scaler_share else ()
    plan = NoisePlan(terms.epsilon, terms.delta, terms.members, terms.colluders, (*opening, *releases), rows)
    noises = [GaussianShares(plan, release) for release in plan.releases]
    scaler = (noises[0], noises[1]) if opening else None
    return LearningPlan(rows, plan.cost, tuple(noises[len(opening) :]), recipe, plan.grid, scaler)


def joint_recipe(terms: LearningTerms, rows: int) -> Recipe:
    """Steps, clip and rate from public numbers: those of one table of as many rows as the noise of the total leaves them worth.

    All S shares are in the total where S−t would do, which is worth a factor √((S−t)/S) of the rows. Where little is left, three
    steps. One sum is a step that clips nothing.
    """
    reading, unit = terms.scaled_reading, terms.rows_per_unit
    worth = rows * math.sqrt((1 - terms.scaler_share) * (terms.members - terms.colluders) / terms.members)
    facts = Facts(max(1, int(worth)), reading.width, reading.joint_norm, Logistic(), 0.0, rows_per_unit=unit)
    signal = gaussian_mu_within(terms.epsilon, terms.delta) * worth / unit
    largest = 1 / (facts.loss.largest_curvature * facts.norm_bound**2)
    if terms.method == "one-sum":
        return Recipe(1, reading.joint_norm / 2, min(_LARGEST_RATE, _TIME * signal) * largest)
    found = public_recipe(facts, terms.epsilon, terms.delta)
    if signal >= _LITTLE_SIGNAL:
        return found
    rate = min(_LARGEST_RATE, _TIME * signal / _FEW_STEPS_TRAVEL) * largest
    return Recipe(_FEW_STEPS, found.clip, rate, _FEW_STEPS_MOMENTUM)


def _bias(reading: ModelReading, bound: float) -> float:
    if not reading.bias or reading.schema is None:
        return 0.0
    return ModelReading.of_schema(reading.schema, fit_intercept=True, norm_bound=bound).bias


# Common means and scales: two sums, of vectors of length at most one


def scaler_releases(schema: Schema | None, share: Fraction) -> tuple[NoisyTotal, NoisyTotal]:
    """Two Gaussian sums, of centres and of spreads, for this share of μ² together."""
    columns, unit = _columns(schema), rows_per_unit(schema)
    return (
        NoisyTotal(columns, 2.0, share * CENTRE_SHARE, unit),
        NoisyTotal(2 * columns, 2.0, share * (1 - CENTRE_SHARE), unit),
    )


def pure_scaler(
    schema: Schema | None, epsilon: float, rows: int, members: int, colluders: int
) -> tuple[PureShares, PureShares]:
    """Two pure sums, of centres and of spreads, for this ε together."""
    columns, unit, grid = _columns(schema), rows_per_unit(schema), Fraction(fixed_point_step(rows))
    first = decimal_down(exact(epsilon) * CENTRE_SHARE)
    parts = (columns, first), (2 * columns, decimal_down(exact(epsilon) - exact(first)))
    # Vectors are truncated to the grid, which moves each of two by less than √d steps.
    centres, spreads = (
        PureShares(unit * (2 / grid + 2 * (math.isqrt(size - 1) + 1)), part, size, members, colluders)
        for size, part in parts
    )
    return centres, spreads


def _columns(schema: Schema | None) -> int:
    if schema is None:
        raise InvalidParameter("Common scales need a schema with bounds.", "Give a schema.")
    return len(MomentReading(schema).numbers.columns)


def with_common_scales(schema: Schema, means: dict[str, float], scales: dict[str, float]) -> Schema:
    """The schema with noisy means as centres and noisy deviations as scales; values are cut off at three of them."""
    columns = dict(schema.columns)
    for name, mean in means.items():
        number, scale = columns[name], scales[name]
        if not isinstance(number, Number):
            raise InvalidParameter(f"Column {name!r} is not a number.", "Scale number columns.")
        low, high = max(number.low, mean - REACH * scale), min(number.high, mean + REACH * scale)
        missing = number.missing
        if missing is not None and not isinstance(missing, str):
            missing = min(max(missing, low), high)
        columns[name] = replace(number, low=low, high=high, centre=mean, scale=scale, bins=None, missing=missing)
    return Schema(columns, schema.person, schema.target)

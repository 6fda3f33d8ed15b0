"""The mean of records as a draw from a normal posterior that is restricted to a ball (§4.2 of the paper, in any dimension)."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.gibbs.ball_mechanisms import MeanDraws
from sudare.gibbs.mechanisms import check_drawing
from sudare.privacy.accounting import rounded_up_root
from sudare.privacy.column_sums import exact_sums, fixed_point_step, on_grid_within, public_grid
from sudare.privacy.declared_columns import natural_bounds, rows_per_unit
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, Plan
from sudare.schema import Schema
from sudare.statistics.estimators import PrivateMean

Floats = NDArray[np.float64]

_LARGEST: Final = 2.0**100


class GibbsMean(PrivateMean):
    """(ε, δ)-DP means: a draw from a normal posterior on a ball, replace-one rows. Proof: proofs/gibbs.md.

    Columns are scaled to [−1, 1] by their public bounds. The likelihood is normal with variance 1 there, the prior N(0, prior_scale²·I) restricted to ‖θ‖ ≤ radius.

    Parameters
    ----------
    epsilon, delta : the promise; delta must be positive.
    bounds, schema, account, random_state : as in PrivateMean.
    prior_scale : the prior's deviation, in half-ranges.
    radius : of the ball around the middle of all ranges, in half-ranges; None for the smallest that holds every possible mean.
    draws : how many draws are made and averaged; they share the budget.
    fixed_work : makes the number of proposals constant, because it tells something about the records.

    Attributes
    ----------
    mean_ : means in the columns' own units, within the bounds.
    draws_ : the draws, one a row, in half-ranges around the middle; paid for.
    inverse_temperature_, total_variation_, noise_scale_, grid_ : β, the sampler's distance (0), the posterior's deviation in
        ranges, and the grid of the means (public).
    acceptance_ : accepted share of proposals; for the owner only.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    # How many proposals were needed tells about the records.
    for_the_owner = (*PrivateMean.for_the_owner, "acceptance_")

    draws_: Floats
    inverse_temperature_: float
    total_variation_: float
    acceptance_: float
    sampler_: str

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Bounds | None = None,
        schema: Schema | None = None,
        prior_scale: float = 1.0,
        radius: float | None = None,
        draws: int = 1,
        fixed_work: bool = False,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.schema = schema
        self.prior_scale = prior_scale
        self.radius = radius
        self.draws = draws
        self.fixed_work = fixed_work
        self.account = account
        self.random_state = random_state

    def plan(self, rows: int, declared: Schema) -> Plan[MeanDraws]:
        """A record of p columns has norm √p at most; a person's records may all point one way."""
        width = len(declared.features)
        largest = rounded_up_root(Fraction(width))
        mechanism = MeanDraws(
            rows=rows,
            width=width,
            reach=largest * rows_per_unit(declared),
            radius=largest if self.radius is None else float(self.radius),
            prior_scale=float(self.prior_scale),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            draws=int(self.draws),
            fixed_work=bool(self.fixed_work),
        )
        return Plan(mechanism, self._guarantee(declared))

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then draw."""
        scaled = self._read(X, reset=True)
        rows = len(scaled)
        plan = self.plan(rows, self.declared_)
        mechanism = plan.mechanism
        passage = self._enter(plan)
        sampled = mechanism.sampled(exact_sums(2 * scaled - 1, fixed_point_step(rows)), passage.noise)
        low, high = natural_bounds(self.declared_)
        self.n_rows_, self.noise_scale_ = rows, mechanism.noise_scale / 2
        self.inverse_temperature_ = mechanism.inverse_temperature
        self.total_variation_ = float(mechanism.cost.total_variation)
        self.draws_ = sampled.points[:, 0]
        self.sampler_, self.acceptance_ = sampled.sampler, sampled.acceptance
        self.grid_ = public_grid(self.noise_scale_, high - low)
        middle = np.clip((1 + self.draws_.mean(axis=0)) / 2, 0.0, 1.0)
        self.mean_ = on_grid_within(low + (high - low) * middle, low, high, self.grid_)
        self._seal()
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_drawing(self.draws, self.delta, self.fixed_work)
        for name, value in (("prior_scale", self.prior_scale), ("radius", self.radius)):
            if value is None and name == "radius":
                continue
            if not isinstance(value, Real) or not 1 / _LARGEST <= value <= _LARGEST or math.isnan(value):
                raise InvalidParameter(f"{name} must be a positive number, got {value!r}.", "Use for example 1.0.")

"""Private centring and scaling of columns. Proof: proofs/statistics.md."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from sudare.array_types import Floats
from sudare.privacy.column_sums import (
    exact_moments,
    fixed_point_step,
    l1_sensitivity,
    l2_sensitivity,
    on_grid_within,
    public_grid,
    sum_mechanism,
)
from sudare.privacy.declared_columns import natural_bounds, rows_per_unit
from sudare.privacy.fit_plan import Mechanism, Plan
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, check_within, unfit
from sudare.schema import Schema


def _moments(step: float, scaled: Floats) -> Floats:
    return exact_moments(scaled, step)


@dataclass(eq=False, repr=False)
class PrivateStandardScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """ε-DP or (ε, δ)-DP centring and scaling, replace-one rows. Proof: proofs/statistics.md.

    Use this where scikit-learn's StandardScaler would put exact means and deviations in front of a private learner.

    Parameters
    ----------
    epsilon, delta, bounds, schema, account, random_state, cluster : as in PrivateMean.

    Attributes
    ----------
    mean_, scale_ : what `transform` subtracts and divides by.
    bounds_ : public (low, high) of every transformed column, for the learner that comes next.
    noise_scale_ : scale of the noise on a mean of z in [−1, 1] (public; it survives `Release.load`).
    """

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    bounds: Bounds | None = None
    schema: Schema | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    def plan(self, rows: int, declared: Schema) -> Plan[Mechanism]:
        """With z in [−1, 1] a row moves (z, z²) by at most 9/4 in L1 and 2 in L2, and rounding adds a step to z²."""
        columns, unit = len(declared.features), rows_per_unit(declared)
        guarantee, step = self._guarantee(declared), fixed_point_step(rows)
        l1 = l1_sensitivity(Fraction(9, 4) + Fraction(step), columns, unit)
        l2 = l2_sensitivity((2 + Fraction(step)) ** 2, columns, unit)
        epsilon = self._values_epsilon(declared)
        return Plan(sum_mechanism(columns, 2 * columns, l1, l2, epsilon, guarantee.delta, step), guarantee)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute noisy means and deviations."""
        checked = self._encoded_rows(self._open(X, reset=True))
        rows = checked.count
        plan = self.plan(rows, self.declared_)
        exact = checked.total(partial(_moments, fixed_point_step(rows)))
        passage = self._enter(plan)
        sums = plan.mechanism.apply(exact, passage.noise)
        first, second = np.split(sums / rows, 2)
        low, high = natural_bounds(self.declared_)
        self.n_rows_ = rows
        self.noise_scale_ = plan.mechanism.noise_scale / rows
        half = (high - low) / 2
        self.grid_ = public_grid(self.noise_scale_, half)
        mean = np.clip(first, -1.0, 1.0)
        # A deviation that is lost in the noise is set to the noise itself, which is public; none is above half the range.
        deviation = np.clip(np.sqrt(np.maximum(second - mean**2, 0.0)), self.noise_scale_, 1.0)
        self.mean_ = on_grid_within(low + half * (1 + mean), low, high, self.grid_)
        self.scale_ = on_grid_within(half * deviation, self.grid_, half, self.grid_)
        self._set_bounds()
        self._seal()
        return self

    def _plan_for(self, X: Any, y: Any) -> Plan[Mechanism]:
        return self.plan(self._encoded_rows(self._open(X, reset=True)).count, self.declared_)

    def transform(self, X: object) -> Floats:
        """(x − mean_)/scale_ of the number columns, clipped to the declared bounds first."""
        scaled = self._read(X, reset=False)
        low, high = natural_bounds(self.declared_)
        transformed: Floats = (low + (high - low) * scaled - self.mean_) / self.scale_
        return transformed

    def score(self, X: object, y: object = None) -> float:
        """Mean normal log-likelihood of the transformed columns. Exact: for the owner only."""
        transformed = self.transform(X)
        return float(np.mean(-0.5 * transformed**2 - np.log(self.scale_) - 0.5 * math.log(2 * math.pi)))

    def _set_bounds(self) -> None:
        low, high = natural_bounds(self.declared_)
        self.bounds_ = (low - self.mean_) / self.scale_, (high - self.mean_) / self.scale_

    def release_content(self) -> Content:
        """What is released: means and deviations."""
        tensors = {"mean": self.mean_, "scale": self.scale_}
        return self._content(tensors, dict.fromkeys(tensors, self.grid_))

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless means lie within the bounds and deviations from one grid step to half the range, on one grid."""
        low, high = natural_bounds(self.declared_)
        check_shapes(content, dict.fromkeys(("mean", "scale"), TensorRule(len(low), np.float64)))
        if content.grid("mean") != content.grid("scale"):
            raise unfit("its means and its deviations are on different grids")
        check_within(content.tensors["mean"], low, high)
        check_within(content.tensors["scale"], content.grid("scale"), (high - low) / 2)

    def _take(self, content: Content) -> None:
        self.mean_, self.scale_, self.grid_ = content.tensors["mean"], content.tensors["scale"], content.grid("mean")
        rows = self.n_rows_ or 1
        self.noise_scale_ = self.plan(rows, self.declared_).mechanism.noise_scale / rows
        self._set_bounds()

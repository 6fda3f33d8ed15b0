"""Private means of columns. Proof: proofs/statistics.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial, reduce
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.frames.database_sums import SummedColumn, database_rows, database_sums
from sudare.frames.rows import changed_source
from sudare.frames.sources import row_count
from sudare.frames.spark_sums import is_spark
from sudare.frames.table_sums import totals_by_columns
from sudare.privacy.column_sums import (
    MeanNoise,
    ScaledSums,
    exact_scaled_sums,
    exact_sums,
    fixed_point_step,
    mean_mechanism,
    mean_noise,
    on_grid_within,
    public_grid,
)
from sudare.privacy.declared_columns import natural_bounds, rows_per_unit
from sudare.privacy.fit_plan import Mechanism, Plan
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, check_within, unfit
from sudare.schema import Number, Schema
from sudare.schema.table_from_any_frame import no_rows
from sudare.statistics.histogram import values_shown
from sudare.statistics.noise_intervals import DEFAULT_LEVEL, checked_level, noise_quantile

_NOISE_WORDS: Final[Mapping[MeanNoise, str]] = {
    "laplace": "Laplace",
    "infinity-norm": "infinity-norm: all means are moved at once, each by no more than a random distance",
    "gamma-norm": "gamma-norm: all means are moved at once, together by a random distance",
    "gaussian": "Gaussian",
}


def _column_sums(step: float, scaled: Floats) -> Floats:
    return exact_sums(scaled, step)


def _sums_in_database(table: object, declared: Schema) -> ScaledSums | None:
    """The sums as the database that the table is in adds them up; None where its rows have to be read."""
    rows = database_rows(table, declared)
    if rows is None:
        return None
    step = fixed_point_step(rows)
    columns = [
        SummedColumn(name, column, step) for name, column in declared.features.items() if isinstance(column, Number)
    ]
    found = database_sums(table, declared, (), columns)
    # A table that was changed in between, or gives other rows every time, is read.
    return (
        None
        if found is None or found.rows != rows
        else ScaledSums(found.sums[:, 0].astype(np.float64) * step, rows, found.outside)
    )


@dataclass(eq=False, repr=False)
class PrivateMean(PrivateEstimator):
    """ε-DP or (ε, δ)-DP means, replace-one rows. Proof: proofs/statistics.md.

    The noise is the quietest that keeps the promise, by public facts alone: infinity-norm noise on all columns at once (which is Laplace
    noise where there is one), or Gaussian noise where delta > 0 and columns are many or the account composes by Gaussian charges.

    Parameters
    ----------
    epsilon, delta : the promise. With delta = 0 it is pure.
    bounds : public (low, high), numbers or one per column; or give a `schema`, whose number columns are used.
    account : who pays. Without one the result may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.
    cluster : a client of dask.distributed, or the address of a scheduler, whose workers read the rows and add them up; None is here.

    Attributes
    ----------
    mean_ : means in the columns' own units, within the bounds.
    noise_ : which noise was added: "infinity-norm" or "gaussian" (or "laplace" or "gamma-norm", in releases of older versions).
    noise_scale_ : its scale on means of columns whose range is one (public; it survives `Release.load`).
    grid_ : the power of two of which all released numbers are multiples (public).
    clipped_ : how many values lay outside, per column; for the owner only.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    extra_parameters: ClassVar[tuple[str, ...]] = ("noise",)
    releases_sums: ClassVar[bool] = True
    later_parameters: ClassVar[tuple[str, ...]] = ("noise",)

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    bounds: Bounds | None = None
    schema: Schema | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    def plan(self, rows: int, declared: Schema) -> Plan[Mechanism]:
        """One row moves every column's scaled sum by at most one."""
        columns, unit, step = len(declared.features), rows_per_unit(declared), fixed_point_step(rows)
        guarantee, epsilon = self._guarantee(declared), self._values_epsilon(declared)
        noise = self._noise_for(declared, guarantee)
        return Plan(mean_mechanism(noise, columns, unit, epsilon, guarantee.delta, step), guarantee)

    def _noise_for(self, declared: Schema, guarantee: Guarantee) -> MeanNoise:
        """The noise of a fitted model, else the quietest for the ε that values get. Where charges compose by μ, pure noise would cost many times as much."""
        if hasattr(self, "noise_"):
            return self.noise_
        composes_by_mu = self.account is not None and self.account.terms.budget.composition == "gaussian"
        if guarantee.delta > 0 and composes_by_mu:
            return "gaussian"
        return mean_noise(len(declared.features), self._values_epsilon(declared), guarantee.delta)

    def _plan_for(self, X: Any, y: Any) -> Plan[Mechanism]:
        return self.plan(self._summed(self._open(X, reset=True))[0], self.declared_)

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then compute the noisy means into `mean_`; returns itself. Raise BudgetExceeded where the account has not enough left."""
        rows, exact = self._summed(self._open(X, reset=True))
        plan = self.plan(rows, self.declared_)
        passage = self._enter(plan)
        sums = plan.mechanism.apply(exact, passage.noise)
        low, high = natural_bounds(self.declared_)
        self.n_rows_ = rows
        self.noise_ = self._noise_for(self.declared_, plan.guarantee)
        self.noise_scale_ = plan.mechanism.noise_scale / rows
        self.grid_ = public_grid(self.noise_scale_, high - low)
        self.mean_ = on_grid_within(low + (high - low) * np.clip(sums / rows, 0.0, 1.0), low, high, self.grid_)
        self._seal()
        return self

    def _summed(self, table: Any) -> tuple[int, Floats]:
        """The number of rows and the exact sums of their scaled columns, all checked."""
        rows = None if is_spark(table) else row_count(table)
        if self.cluster is None and rows is None:
            computed = _sums_in_database(table, self.declared_)
            if computed is not None:
                self.clipped_ = computed.clipped
                return computed.rows, computed.sums
        if rows is None or self.cluster is not None:
            checked = self._encoded_rows(table)
            return checked.count, checked.total(partial(_column_sums, fixed_point_step(checked.count)))
        # The step depends on the number of rows: where that is known before, one pass is enough.
        part_of = partial(exact_scaled_sums, step=fixed_point_step(rows))
        found = reduce(ScaledSums.beside, totals_by_columns(table, part_of, self.declared_))
        if found.rows != rows:
            raise changed_source()
        if rows == 0:
            raise no_rows()
        self.clipped_ = found.clipped
        return rows, found.sums

    def table(self, level: float = DEFAULT_LEVEL) -> dict[str, list[Any]]:
        """Means with intervals that hold the exact means of the kept records with this probability, as columns for pandas, polars or pyarrow."""
        check_is_fitted(self)
        low, high = natural_bounds(self.declared_)
        mechanism = self.plan(self.n_rows_ or 1, self.declared_).mechanism
        margin = (high - low) * noise_quantile(mechanism, checked_level(level)) / (self.n_rows_ or 1)
        numbers = [column for column in self.declared_.features.values() if isinstance(column, Number)]
        found = {
            "mean": self.mean_,
            "mean_low": np.maximum(self.mean_ - margin, low),
            "mean_high": np.minimum(self.mean_ + margin, high),
        }
        shown = {
            name: [values_shown(number, values[[place]])[0] for place, number in enumerate(numbers)]
            for name, values in found.items()
        }
        return {"column": list(self.declared_.features), **shown}

    def score(self, X: object, y: object = None) -> float:
        """Minus the mean squared distance to the means, in units of the ranges. Exact: for the owner only."""
        scaled = self._read(X, reset=False)
        low, high = natural_bounds(self.declared_)
        return -float(np.mean((scaled - (self.mean_ - low) / (high - low)) ** 2))

    def release_content(self) -> Content:
        """What is released: the means, and which noise is on them."""
        said = {"noise": self.noise_} if "noise" in self.extra_parameters else {}
        return self._content({"mean": self.mean_}, {"mean": self.grid_}, said)

    @classmethod
    def card_remarks(cls, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Which noise is on the means."""
        return (("noise", _NOISE_WORDS[_released_noise(parameters)]),) if "noise" in cls.extra_parameters else ()

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        if "noise" in self.extra_parameters:
            self.noise_ = _released_noise(parameters)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one mean for each column, within its bounds."""
        check_shapes(content, {"mean": TensorRule(len(self.declared_.features), np.float64)})
        check_within(content.tensors["mean"], *natural_bounds(self.declared_))

    def _take(self, content: Content) -> None:
        self.mean_, self.grid_ = content.tensors["mean"], content.grid("mean")
        rows = self.n_rows_ or 1
        self.noise_scale_ = self.plan(rows, self.declared_).mechanism.noise_scale / rows


def _released_noise(parameters: Mapping[str, Any]) -> MeanNoise:
    """Which noise a release says it has. Raise ReleaseMalformed unless such a fit could have it; older versions did not write it."""
    several = len(parameters["columns"]) > 1
    older: MeanNoise = "gaussian" if parameters["delta"] > 0 else "gamma-norm" if several else "laplace"
    said: MeanNoise = parameters.get("noise", older)
    if said not in (older, "infinity-norm"):
        raise unfit("its noise is not that of its promise")
    return said

"""What the private linear models share: planning, fitting, choosing a regularization, and scores."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.errors import InvalidParameter
from sudare.frames.sources import SqlSource
from sudare.linear.losses import Loss
from sudare.linear.method_choice import METHODS, MethodName, chosen_method, planned, public_penalty
from sudare.linear.noise_once import Facts, Method
from sudare.linear.release_format import ReleasedParameters
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.private_estimator import Calibrated, Plan
from sudare.privacy.selection import Selection, selection_plan
from sudare.schema import Schema, encode
from sudare.text import told

Floats = NDArray[np.float64]

_LARGEST_NORM: Final = 2.0**100


class PrivateLinearModel(ReleasedParameters):
    """A linear model fitted within a privacy budget. Subclasses say what the targets are and which loss is used."""

    regularization: float | Sequence[float] | None
    method: str
    sampling_rate: float | None

    coef_: Floats
    intercept_: Floats | float
    noise_scale_: float

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss."""

    @abstractmethod
    def _row_scores(self, X: Any, y: Any) -> Floats:
        """One number in [0, 1] a row, larger is better, for choosing among regularizations."""

    # Fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then fit.

        `X` and `y` are arrays; or `X` is a table (or the path of one) with a schema that declares the target; or an iterator of
        such tables or, without a schema, of pairs (X, y). What comes from an iterator waits in memory or, where it is more than
        `sudare.frames.rows.SPOOL_ABOVE_BYTES`, in an unnamed temporary file.
        """
        self._forget()
        self._check_parameters()
        if self._candidates() is not None:
            return self._fit_chosen(X, y)
        rows = self._read_rows(X, y)
        plan = self.plan(rows.count, self.declared_)
        passage = self._enter(plan)
        self._set_parameters(plan.mechanism.fitted(rows, passage.noise))
        self._seal()
        return self

    def plan(self, rows: int, declared: Schema) -> Plan[Method]:
        """Method and guarantee for so many rows of these columns; sets what is public about the method."""
        penalty = 0.0 if self.regularization is None else float(cast(float, self.regularization)) * rows
        facts = self._facts(rows, declared, penalty)
        epsilon, delta = float(self.epsilon), float(self.delta)
        self.method_ = chosen_method(facts, epsilon, delta) if self.method == "auto" else cast(MethodName, self.method)
        if self.sampling_rate is not None and self.method_ != "descent":
            raise InvalidParameter(
                f'sampling_rate is for method="descent"; this fit is planned with "{self.method_}".',
                'Leave it out, or use method="descent" with delta > 0.',
            )
        if self.regularization is None:
            facts = replace(facts, penalty=public_penalty(self.method_, facts, epsilon, delta))
        sampling_rate = 1.0 if self.sampling_rate is None else float(self.sampling_rate)
        method = planned(self.method_, facts, epsilon, delta, sampling_rate)
        self.n_rows_, self.grid_, self.noise_scale_ = rows, method.grid, method.noise_scale
        self.penalty_ = float(getattr(method, "penalty", facts.penalty))
        return Plan(method, self._guarantee(declared))

    def _plan_for(self, X: Any, y: Any) -> Plan[Calibrated]:
        self._check_parameters()
        if self._candidates() is not None:
            return self._selection_plan(X, y)
        return self.plan(self._read_rows(X, y).count, self.declared_)

    def _facts(self, rows: int, declared: Schema, penalty: float) -> Facts:
        layout = self._layout(declared)
        return Facts(
            rows=rows,
            width=layout.width,
            norm_bound=layout.joint_norm,
            loss=self._loss(),
            penalty=penalty,
            outputs=self._outputs(),
            rows_per_unit=rows_per_unit(declared),
            nonnegative=layout.nonnegative,
            sum_bound=layout.joint_sum,
        )

    def _set_parameters(self, parameters: Floats) -> None:
        """Coefficients and intercepts from parameters, of which the last is the bias where there is one."""
        self.parameters_ = parameters
        bias = self._layout(self.declared_).bias
        if bias:
            self.coef_, self.intercept_ = parameters[:, :-1], parameters[:, -1] * bias
        else:
            self.coef_, self.intercept_ = parameters, np.zeros(len(parameters))

    def _fit_chosen(self, X: Any, y: Any) -> Self:
        """Fit with a regularization chosen privately from the list, all from one ε."""
        plan = self._selection_plan(X, y)
        selection = plan.mechanism
        passage = self._enter(plan, purpose=selection.purpose)
        place, model = selection.best(X, y, lambda tried: tried._row_scores(X, y), passage.noise)
        winner = model._as_the_outcome_of(passage, self.account)
        for name, value in vars(winner).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        self.regularization_ = float((self._candidates() or ())[place])
        return self

    def _selection_plan(self, X: Any, y: Any) -> Plan[Selection]:
        """What choosing among the regularizations will do, and promises."""
        self._keep_source(X)
        if self.delta != 0:
            raise InvalidParameter(
                "Choosing among regularizations is for pure guarantees; delta is not 0.", "Set delta=0, or give one."
            )
        if isinstance(X, Iterator | str | os.PathLike | SqlSource):
            raise InvalidParameter("Choosing among regularizations needs the rows in memory.", "Give a table.")
        candidates = [clone(self).set_params(regularization=value) for value in self._candidates() or ()]
        return selection_plan(candidates, X, y, epsilon=self.epsilon)

    def _candidates(self) -> tuple[float, ...] | None:
        value = self.regularization
        if value is None or isinstance(value, Real):
            return None
        return tuple(float(one) for one in cast(Sequence[float], value))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method not in (*METHODS, "auto"):
            raise InvalidParameter(
                f"method must be auto or one of {', '.join(METHODS)}, got {told(self.method)}.", 'Use method="auto".'
            )
        if not isinstance(self.norm_bound, Real) or not 1 / _LARGEST_NORM <= self.norm_bound <= _LARGEST_NORM:
            raise InvalidParameter(
                f"norm_bound must be a positive number, got {self.norm_bound!r}.",
                "Give the largest norm a row can have by public knowledge; longer rows are scaled down to it.",
            )
        rate = self.sampling_rate
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, Real) or not 2.0**-32 <= rate <= 1):
            raise InvalidParameter(
                f"sampling_rate must be a number above 0 and at most 1, or None, got {rate!r}.",
                "Use None for full batches.",
            )
        try:
            candidates = self._candidates()
            values = candidates if candidates is not None else (self.regularization,)
            fine = len(values) > 0 and all(value is None or 1e-30 <= float(value) <= 1e30 for value in values)
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise InvalidParameter(
                "regularization must be a positive number, a list of them, or None.", "Use None for the public rule."
            )

    # Prediction

    def _scores(self, X: Any) -> Floats:
        """coef·x + intercept, one column an output."""
        check_is_fitted(self)
        if self.schema_digest_ is None:
            matrix = checked_matrix(self, X, reset=False)
        else:
            matrix = encode(self.declared_, X, self.encoding).matrix
        parameters = self.parameters_
        bias = self._layout(self.declared_).bias
        scores: Floats = matrix @ parameters[:, : matrix.shape[1]].T
        return scores + parameters[:, -1] * bias if bias else scores

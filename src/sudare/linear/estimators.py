"""The private linear models: logistic regression, linear support vectors with a smoothed hinge, and ridge regression.

`PrivateLinearModel` is all of them from top to bottom: what is checked, what is planned from public facts, how a fit is charged before noise is
drawn, how rows are scored, and what is released. A model *has* a reader of rows (`reading`), a mechanism (`mechanism`, chosen by
`method_choice`) and a target (`targets`); each estimator below it adds its constructor, its loss and how it predicts.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sudare.errors import InvalidParameter
from sudare.frames.sources import SqlSource
from sudare.linear.losses import CappedSquares, Logistic, Loss, SmoothedHinge
from sudare.linear.mechanism import Facts, LinearMechanism
from sudare.linear.method_choice import METHODS, MethodName, chosen_method, planned, public_penalty
from sudare.linear.reading import RowReader
from sudare.linear.targets import (
    WHOLE,
    ClassTarget,
    NumberTarget,
    checked_labels,
    checked_numbers,
    checked_target_bounds,
    class_codes,
    unknown_label,
)
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Calibrated, Plan, TensorRule, check_shapes
from sudare.privacy.release_content import Content, unfit
from sudare.privacy.selection import Selection, selection_plan
from sudare.schema import ENCODINGS, Encoding, Schema, encode
from sudare.text import told

Floats = NDArray[np.float64]

_LARGEST_NORM: Final = 2.0**100


class PrivateLinearModel(RowReader):
    """A linear model fitted within a privacy budget. Subclasses say what the targets are and which loss is used.

    Its parameters are one matrix on a public grid, one row an output.
    """

    extra_parameters = ("encoding", "fit_intercept", "method", "norm_bound", "penalty", "target")
    # Which methods a release may name.
    methods: ClassVar[tuple[str, ...]] = METHODS

    regularization: float | Sequence[float] | None
    method: str
    sampling_rate: float | None

    parameters_: Floats
    coef_: Floats
    intercept_: Floats | float
    method_: MethodName
    penalty_: float
    grid_: float
    noise_scale_: float

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss."""

    @abstractmethod
    def _outputs(self) -> int:
        """How many score functions are fitted."""

    @abstractmethod
    def _row_scores(self, X: Any, y: Any) -> Floats:
        """One number in [0, 1] a row, larger is better, for choosing among regularizations."""

    @abstractmethod
    def _written_target(self) -> Any:
        """What is declared about the target, as plain values."""

    @abstractmethod
    def _take_target(self, written: Any) -> None:
        """Keep the target that a release declares; raises if it is none."""

    # Checks

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
        Numbers(2.0**-32, 1, optional=True).check("sampling_rate", self.sampling_rate)
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

    def _candidates(self) -> tuple[float, ...] | None:
        value = self.regularization
        if value is None or isinstance(value, Real):
            return None
        return tuple(float(one) for one in cast(Sequence[float], value))

    # Plan

    def plan(self, rows: int, declared: Schema) -> Plan[LinearMechanism]:
        """Mechanism and guarantee for so many rows of these columns; sets what is public about them."""
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
        mechanism = planned(self.method_, facts, epsilon, delta, sampling_rate)
        self.n_rows_, self.penalty_ = rows, mechanism.penalty
        self.grid_, self.noise_scale_ = mechanism.grid, mechanism.noise_scale
        return Plan(mechanism, self._guarantee(declared))

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

    def _plan_for(self, X: Any, y: Any) -> Plan[Calibrated]:
        self._check_parameters()
        if self._candidates() is not None:
            return self._selection_plan(X, y)
        return self.plan(self._read_rows(X, y).count, self.declared_)

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

    # Fit: read, plan, charge, noise, seal

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

    def _set_parameters(self, parameters: Floats) -> None:
        """Coefficients and intercepts from parameters, of which the last is the bias where there is one."""
        self.parameters_ = parameters
        bias = self._layout(self.declared_).bias
        if bias:
            self.coef_, self.intercept_ = parameters[:, :-1], parameters[:, -1] * bias
        else:
            self.coef_, self.intercept_ = parameters, np.zeros(len(parameters))

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

    # What is released, and how it is read back

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
        flat = np.ascontiguousarray(self.parameters_.ravel())
        extra = {
            "encoding": None if self.schema_digest_ is None else self.encoding,
            "fit_intercept": bool(self.fit_intercept),
            "method": self.method_,
            "norm_bound": self._layout(self.declared_).norm_bound,
            "penalty": self.penalty_,
            "target": self._written_target(),
        }
        return self._content({"parameters": flat}, {"parameters": self.grid_}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there is one parameter for every column and output; it may be any number."""
        layout = self._layout(self.declared_)
        check_shapes(content, {"parameters": TensorRule(self._outputs() * layout.width, np.float64)})
        if content.parameters["norm_bound"] != layout.norm_bound:
            raise unfit("its norm bound is not that of its columns")

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        about_rows = "norm_bound" if parameters["encoding"] is None else "encoding"
        return {name: parameters[name] for name in ("epsilon", "delta", "fit_intercept", about_rows)}

    def _take_bounds(self, declared: Schema) -> None:
        # What is declared of an array is the norm of its rows.
        self.n_features_in_ = len(declared.features)

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        known = (
            parameters["encoding"] in ((None,) if self.schema is None else ENCODINGS)
            and type(parameters["fit_intercept"]) is bool
            and parameters["method"] in self.methods
            and all(_is_size(parameters[name]) for name in ("norm_bound", "penalty"))
        )
        if not known:
            raise unfit("its parameters are not those of its learner")
        self._check_parameters()
        self._take_target(parameters["target"])
        self.method_, self.penalty_ = parameters["method"], parameters["penalty"]

    def _take(self, content: Content) -> None:
        self.grid_ = content.grid("parameters")
        self._set_parameters(content.tensors["parameters"].reshape(self._outputs(), -1))


def _is_size(value: object) -> bool:
    return type(value) is float and 0 <= value < np.inf


class PrivateLinearClassifier(ClassTarget, PrivateLinearModel):
    """A private linear model of classes. Two classes have one score; more have one each, against the rest."""

    def decision_function(self, X: Any) -> Floats:
        """Scores: above zero for the second of two classes; else one column a class."""
        scores = self._scores(X)
        return scores[:, 0] if self._outputs() == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    def _outputs(self) -> int:
        return 1 if len(self.classes_) <= 2 else len(self.classes_)

    def _encoded_targets(self, y: object) -> Floats:
        labels = checked_labels(y)
        if len(self.classes_) == 2 and labels.dtype.kind in WHOLE and self.classes_.dtype.kind in WHOLE:
            is_second = labels == self.classes_[1]
            if not (is_second | (labels == self.classes_[0])).all():
                raise unknown_label()
            return np.where(is_second, 1.0, -1.0)[:, np.newaxis]
        return self._encoded_codes(class_codes(labels, self.classes_))

    def _encoded_codes(self, target: Any) -> Floats:
        codes = np.asarray(target, dtype=np.intp)
        if self._outputs() == 1:
            return np.where(codes == 1, 1.0, -1.0)[:, np.newaxis]
        return np.where(codes[:, np.newaxis] == np.arange(len(self.classes_)), 1.0, -1.0)

    def _row_scores(self, X: Any, y: Any) -> Floats:
        if y is None and self.schema is not None:
            y = self.classes_[self.schema.encode_target(X)]
        return np.asarray(self.predict(X) == np.asarray(y), dtype=np.float64)

    def _written_target(self) -> Any:
        return self.classes_.tolist()


class PrivateLogisticRegression(PrivateLinearClassifier):
    """ε-DP or (ε, δ)-DP logistic regression, replace-one rows. Proofs: proofs/objective.md, output.md, descent.md, mean_message.md.

    Parameters
    ----------
    epsilon, delta : the promise. With delta = 0 it is pure.
    norm_bound : public bound on the Euclidean norm of a row of an array; longer rows are scaled down to it. With a
        schema the bound comes from the schema.
    regularization : Λ of mean loss + (Λ/2)‖θ‖²; None for a public rule; a list to choose from privately (pure ε only).
    fit_intercept : whether a penalised constant column is added; it counts into the row norm.
    classes : all classes there can be. Learned from y where neither they nor a schema are given: the guarantee is void then, and a
        fit with an account is refused.
    schema, encoding : declared columns, and how they become numbers ("centred", "scaled" or "binned").
    method : "objective", "output", "descent", "mean" or "auto" (docs/linear.md has the rule).
    sampling_rate : for descent: the public probability with which every step sees a row; None for full batches.
    account : who pays. Without one the model may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.

    Attributes
    ----------
    coef_, intercept_, classes_ : as in scikit-learn.
    method_, penalty_, grid_, noise_scale_ : the method used, ρ = nΛ, the grid of the parameters, size of the noise (public).
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        norm_bound: float = 1.0,
        regularization: float | Sequence[float] | None = None,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        schema: Schema | None = None,
        encoding: Encoding = "centred",
        method: str = "auto",
        sampling_rate: float | None = None,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.schema = schema
        self.encoding = encoding  # type: ignore[misc]
        self.method = method
        self.sampling_rate = sampling_rate
        self.account = account
        self.random_state = random_state

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes; one-against-the-rest probabilities divided by their sum where there are several."""
        probabilities: Floats = expit(self._scores(X))
        if self._outputs() == 1:
            return np.hstack([1 - probabilities, probabilities])
        total = probabilities.sum(axis=1, keepdims=True)
        even = np.full_like(probabilities, 1 / probabilities.shape[1])
        return np.asarray(np.divide(probabilities, total, out=even, where=total > 0))

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _loss(self) -> Loss:
        return Logistic()


class PrivateLinearSVC(PrivateLinearClassifier):
    """ε-DP or (ε, δ)-DP linear classification with a smoothed hinge, replace-one rows. Proofs: as PrivateLogisticRegression.

    `smoothing` is the public half-width of the parabola that replaces the hinge's corner; other parameters are those of
    PrivateLogisticRegression.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        norm_bound: float = 1.0,
        regularization: float | Sequence[float] | None = None,
        smoothing: float = 0.5,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        schema: Schema | None = None,
        encoding: Encoding = "centred",
        method: str = "auto",
        sampling_rate: float | None = None,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.regularization = regularization
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.schema = schema
        self.encoding = encoding  # type: ignore[misc]
        self.method = method
        self.sampling_rate = sampling_rate
        self.account = account
        self.random_state = random_state

    def _loss(self) -> Loss:
        Numbers(0, open_low=True).check("smoothing", self.smoothing)
        return SmoothedHinge(float(self.smoothing))


class PrivateRidge(NumberTarget, PrivateLinearModel):
    """ε-DP or (ε, δ)-DP ridge regression of bounded targets, replace-one rows. Proofs: as PrivateLogisticRegression.

    Targets are clipped to the public `target_bounds` (or those of the schema's target) and scaled to [−1, 1]. The squared loss
    goes on as a line beyond residuals of `residual_cap` half-ranges, so that one row's pull is bounded. Other parameters are
    those of PrivateLogisticRegression.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        target_bounds: tuple[float, float] | None = None,
        norm_bound: float = 1.0,
        regularization: float | Sequence[float] | None = None,
        residual_cap: float = 1.0,
        fit_intercept: bool = True,
        schema: Schema | None = None,
        encoding: Encoding = "centred",
        method: str = "auto",
        sampling_rate: float | None = None,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target_bounds = target_bounds
        self.norm_bound = norm_bound
        self.regularization = regularization
        self.residual_cap = residual_cap
        self.fit_intercept = fit_intercept
        self.schema = schema
        self.encoding = encoding  # type: ignore[misc]
        self.method = method
        self.sampling_rate = sampling_rate
        self.account = account
        self.random_state = random_state

    def predict(self, X: Any) -> Floats:
        """The target of each row, in its own unit."""
        scores = self._scores(X)[:, 0]
        middle, half = self._middle_and_half()
        return np.asarray(middle + half * scores)

    def _loss(self) -> Loss:
        Numbers(0, open_low=True).check("residual_cap", self.residual_cap)
        return CappedSquares(float(self.residual_cap))

    def _middle_and_half(self) -> tuple[float, float]:
        low, high = self.target_bounds_
        return low + (high - low) / 2, (high - low) / 2

    def _set_parameters(self, parameters: Floats) -> None:
        super()._set_parameters(parameters)
        middle, half = self._middle_and_half()
        self.coef_, self.intercept_ = half * self.coef_[0], middle + half * float(np.ravel(self.intercept_)[0])

    def _encoded_targets(self, y: object) -> Floats:
        return self._encoded_codes(checked_numbers(y))

    def _encoded_codes(self, target: Any) -> Floats:
        low, high = self.target_bounds_
        middle, half = self._middle_and_half()
        scaled = (np.clip(np.asarray(target, dtype=np.float64), low, high) - middle) / half
        return np.clip(scaled, -1.0, 1.0)[:, np.newaxis]

    def _row_scores(self, X: Any, y: Any) -> Floats:
        target = self.schema.encode_target(X) if y is None and self.schema is not None else checked_numbers(y)
        missed = np.abs(self._scores(X)[:, 0] - self._encoded_codes(target)[:, 0])
        return np.asarray(1 - np.minimum(missed, 2.0) ** 2 / 4)

    def _written_target(self) -> Any:
        return {"low": self.target_bounds_[0], "high": self.target_bounds_[1], "residual_cap": float(self.residual_cap)}

    def _take_target(self, written: Any) -> None:
        if not isinstance(written, dict) or set(written) != {"low", "high", "residual_cap"}:
            raise TypeError("not the bounds of a target")
        if not all(type(value) is float for value in written.values()):
            raise TypeError("bounds that are not numbers")
        self.target_bounds = self.target_bounds_ = checked_target_bounds((written["low"], written["high"]))
        self.residual_cap = written["residual_cap"]
        _ = self._loss()

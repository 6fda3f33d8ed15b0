"""The private linear models: logistic regression, linear support vectors with a smoothed hinge, and ridge regression.

Each has parameters (its fields are its constructor), a loss and a way to predict; everything else, from checks to release, is in `linear_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.linear.linear_model import PrivateLinearModel
from sudare.linear.losses import CappedSquares, Logistic, Loss, SmoothedHinge
from sudare.linear.mechanism import Facts
from sudare.linear.method_choice import (
    METHODS,
    STATISTICS,
    MethodName,
    chosen_ridge_encoding,
    chosen_ridge_method,
)
from sudare.linear.rows import RowLayout
from sudare.linear.score_calibration import CLASSES, NUMBERS, SEVERAL, Recipe
from sudare.linear.targets import (
    WHOLE,
    ClassTarget,
    LogisticProbabilities,
    NumberTarget,
    checked_labels,
    checked_numbers,
    checked_target_bounds,
    class_codes,
    finite_answers,
    one_vs_rest_probabilities,
    unknown_label,
)
from sudare.parameter_checks import Numbers
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.ledger import Account
from sudare.privacy.release_content import Content, TensorRule, check_within, on_grid, unfit
from sudare.safe_text import told
from sudare.schema import Encoding, Schema

# Which class is answered: the likeliest, or the one whose probability is the largest multiple of its base rate.
DECISIONS: Final = ("likeliest", "balanced")
# What releases say of that, and their base rates; those of older versions have neither.
_OF_DECISIONS: Final = ("decision",)
_RATES: Final = "base_rates"
_RATE_GRID: Final = 2.0**-24


class PrivateLinearClassifier(ClassTarget, PrivateLinearModel):
    """A private linear model of classes. Two classes have one score; more have one each, against the rest."""

    base_rates_: Floats | None

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


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(LogisticProbabilities, PrivateLinearClassifier):
    """ε-DP or (ε, δ)-DP logistic regression, replace-one rows. Proofs: proofs/objective.md, output.md, descent.md, mean_message.md, sufficient_statistics.md, score_calibration.md.

    Parameters
    ----------
    epsilon, delta : the promise. With delta = 0 it is pure.
    norm_bound : public bound on the Euclidean norm of a row of an array; longer rows are scaled down to it. None is 1, with
        a warning where rows were longer. With a schema the bound comes from the schema.
    regularization : Λ of mean loss + (Λ/2)‖θ‖²; None for a public rule; a list to choose from privately (pure ε only).
    fit_intercept : whether a penalised constant column is added; it counts into the row norm.
    classes : all classes there can be. Learned from y where neither they nor a schema are given: the guarantee is void then, and a
        fit with an account is refused.
    schema, encoding : declared columns, and how they become numbers: "centred", "scaled" or "binned", or "auto" (a public rule of rows and columns; docs/linear.md).
    method : "objective", "output", "descent", "mean", "statistics" or "auto" (docs/linear.md has the rule).
    sampling_rate : for descent: the public probability with which every step sees a row; None for full batches.
    account : who pays. Without one the model may be looked at by its owner but not released.
    random_state : a seed, for tests and simulation only; it voids the guarantee.
    cluster : a client of dask.distributed, or the address of a scheduler, whose workers read the rows, keep them and add them up; None is here.
    decision : which class `predict` answers: the "likeliest", or with "balanced" the one whose probability is the largest multiple of its private base rate, which finds
        records of rare classes. Probabilities are the same with both.

    Attributes
    ----------
    coef_, intercept_, classes_ : as in scikit-learn.
    base_rates_ : the private share of each class, which is part of the result; None where the method tells none (`method="objective"` with many rows).
    method_, penalty_, grid_, noise_scale_ : the method used, ρ = nΛ, the grid of the parameters, size of the noise (public).
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    norm_bound: float | None = None
    regularization: float | Sequence[float] | None = None
    fit_intercept: bool = True
    classes: Sequence[Any] | None = None
    schema: Schema | None = None
    encoding: Literal["auto", "binned", "centred", "scaled"] = "centred"  # type: ignore[assignment]
    method: str = "auto"
    sampling_rate: float | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None
    decision: Literal["likeliest", "balanced"] = "likeliest"

    extra_parameters = (*PrivateLinearClassifier.extra_parameters, *_OF_DECISIONS)  # type: ignore[assignment]
    later_parameters = _OF_DECISIONS
    methods: ClassVar[tuple[str, ...]] = (*METHODS, STATISTICS)
    _calibration = CLASSES
    _calibration_of_several = SEVERAL

    def decision_function(self, X: Any) -> Floats:
        """Scores: above zero for the second of two classes; else one column a class, of which the largest decides.

        With `decision="balanced"` they are log-odds less those of the base rate; of several classes logarithms of probability over base rate.
        """
        if not self._needs_shares():
            return super().decision_function(X)
        rates, scores = self._known_rates(), self._scores(X)
        if self._outputs() == 1:
            return np.asarray(scores[:, 0] - logit(rates[1]))
        return np.asarray(np.log(np.maximum(one_vs_rest_probabilities(scores), np.finfo(float).tiny) / rates))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: the likeliest, or with `decision="balanced"` the one whose probability is the largest multiple of its base rate."""
        return super().predict(X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.decision not in DECISIONS:
            raise InvalidParameter(
                f"decision must be “likeliest” or “balanced”, got {told(self.decision)}.", 'Use "likeliest".'
            )

    def _needs_shares(self) -> bool:
        return self.decision == DECISIONS[1]

    def _calibration_for(self, facts: Facts, layout: RowLayout) -> Recipe | None:
        if self._needs_shares() and not layout.has_constant:
            raise InvalidParameter(
                'decision="balanced" needs base rates, and there is no column for a level.', "Use fit_intercept=True."
            )
        return super()._calibration_for(facts, layout)

    def _take_shares(self, shares: Floats | None) -> None:
        if shares is None:
            self.base_rates_ = None
            return
        rates = shares if len(shares) > 1 else np.append(1 - shares, shares)
        self.base_rates_ = np.clip(on_grid(rates, _RATE_GRID), _RATE_GRID, 1 - _RATE_GRID)

    def _known_rates(self) -> Floats:
        rates = getattr(self, "base_rates_", None)
        if rates is None:
            raise InvalidParameter(
                'decision="balanced" needs base rates, and this model was fitted without them.',
                'Fit it with decision="balanced".',
            )
        return np.asarray(rates)

    def _more_extra(self) -> dict[str, Any]:
        # Named only where it is another than before there was one: what members of different builds release together is the same.
        is_told = self.later_parameters and self.decision != DECISIONS[0]
        return {"decision": self.decision} if is_told else {}

    def _more_tensors(self) -> dict[str, tuple[Floats, float]]:
        rates = getattr(self, "base_rates_", None)
        return {} if rates is None else {_RATES: (rates, _RATE_GRID)}

    def _more_rules(self, content: Content) -> dict[str, TensorRule]:
        if _RATES not in content.tensors or not self.later_parameters:
            if self._needs_shares():
                raise unfit("it has no base rates")
            return {}
        check_within(content.tensors[_RATES], _RATE_GRID, 1.0 - _RATE_GRID)
        return {_RATES: TensorRule(len(self.classes_), np.float64)}

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        self.decision = parameters.get("decision", DECISIONS[0])
        super()._take_extra(parameters)

    def _take(self, content: Content) -> None:
        super()._take(content)
        self.base_rates_ = content.tensors.get(_RATES)

    def _loss(self) -> Loss:
        return Logistic()


@dataclass(eq=False, repr=False)
class PrivateLinearSVC(PrivateLinearClassifier):
    """ε-DP or (ε, δ)-DP linear classification with a smoothed hinge, replace-one rows. Proofs: as PrivateLogisticRegression.

    `smoothing` is the public half-width of the parabola that replaces the hinge's corner; other parameters are those of
    PrivateLogisticRegression.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    norm_bound: float | None = None
    regularization: float | Sequence[float] | None = None
    smoothing: float = 0.5
    fit_intercept: bool = True
    classes: Sequence[Any] | None = None
    schema: Schema | None = None
    encoding: Literal["auto", "binned", "centred", "scaled"] = "centred"  # type: ignore[assignment]
    method: str = "auto"
    sampling_rate: float | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    def _loss(self) -> Loss:
        Numbers(0, open_low=True).check("smoothing", self.smoothing)
        return SmoothedHinge(float(self.smoothing))


@dataclass(eq=False, repr=False)
class PrivateRidge(NumberTarget, PrivateLinearModel):
    """ε-DP or (ε, δ)-DP ridge regression of bounded targets, replace-one rows. Proofs: sufficient_statistics.md, and those of PrivateLogisticRegression.

    Targets are clipped to the public `target_bounds` (or those of the schema's target) and scaled to [−1, 1]. `method` is "statistics" (noisy sums of
    products, up to 1,024 encoded columns; what "auto" takes with a schema, and of arrays where noise is loud), or one of PrivateLogisticRegression's, for which the squared loss goes on as a line beyond residuals of `residual_cap`
    half-ranges, so that one row's pull is bounded. Other parameters are those of PrivateLogisticRegression.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None
    norm_bound: float | None = None
    regularization: float | Sequence[float] | None = None
    residual_cap: float = 1.0
    fit_intercept: bool = True
    schema: Schema | None = None
    encoding: Literal["auto", "binned", "centred", "scaled"] = "centred"
    method: str = "auto"
    sampling_rate: float | None = None
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    cluster: Any = None

    methods: ClassVar[tuple[str, ...]] = (*METHODS, STATISTICS)
    _calibration = NUMBERS

    def predict(self, X: Any) -> Floats:
        """The target of each row, in its own unit and within its declared bounds."""
        scores = self._scores(X)[:, 0]
        middle, half = self._middle_and_half()
        return np.clip(finite_answers(middle + half * scores), *self.target_bounds_)

    def _chosen_encoding(self, rows: int, declared: Schema) -> Encoding:
        return chosen_ridge_encoding(rows / rows_per_unit(declared), declared, self._values_epsilon(declared))

    def _chosen_method(
        self, facts: Facts, epsilon: float, delta: float, is_calibrated: bool, is_binned: bool
    ) -> MethodName:
        if self.sampling_rate is None:
            return chosen_ridge_method(facts, epsilon, delta, is_calibrated)
        return super()._chosen_method(facts, epsilon, delta, is_calibrated, False)

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

"""Combining other members' models on one's own data: mirror averaging, Gibbs weights, the plain average, stacking.

Every sender stays protected by its own guarantee, whatever the receiver does with the models (Proposition 4.1 of Minami
et al. 2015: post-processing). The receiver's own data are not protected at all: weights and combined models stay with
their owner, and `Release.of` refuses them.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sudare.errors import DataError, InvalidParameter
from sudare.experts.expert_set import CannotBeScored, Combine, ExpertSet, Floats, row_count, task_of
from sudare.experts.penalised_fits import PENALTIES, batch_fitted
from sudare.experts.weights import (
    LOGISTIC_TEMPERATURE,
    cached_rows,
    exponential_weights,
    logistic_losses,
    mirror_average,
    oracle_residual,
    squared_losses,
)
from sudare.linear.targets import checked_labels, checked_numbers
from sudare.privacy import Guarantee
from sudare.privacy.array_checks import checked_matrix

Temperature = float | Literal["theory"]

_LARGEST_RATIO: Final = 1e8


def _classifies(estimator: Any) -> bool:
    return task_of(estimator.experts) == "classification"


class CombinedExperts(BaseEstimator):
    """What all combinations share: experts are kept as they are, inputs checked, answers added up with weights.

    Experts whose answers on own rows are not finite or too large to be judged are left out: a warning names them, `left_out_` keeps their numbers
    (from 0), and their weights are 0.
    """

    experts: Sequence[Any]
    combine: Combine = "scores"

    expert_set_: ExpertSet
    guarantee_: tuple[Guarantee, ...]
    left_out_: tuple[int, ...]
    weights_: Floats
    classes_: NDArray[Any]
    n_features_in_: int
    intercept_: float = 0.0

    @abstractmethod
    def _learn(self, rows: Any, targets: Floats) -> None:
        """Set `weights_` from own rows and targets (−1 and +1, or numbers)."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from own data how to combine the experts. They themselves are not changed."""
        self.expert_set_ = ExpertSet.of(self.experts)
        if self.combine not in ("scores", "votes"):
            raise InvalidParameter(f"combine is 'scores' or 'votes', got {self.combine!r}.", "Use one of them.")
        rows = self._rows(X, reset=True)
        targets = self._targets(y, row_count(rows))
        self.guarantee_ = self.expert_set_.guarantees
        left_out: set[int] = set()
        while True:
            try:
                self._learn(rows, targets)
                break
            except CannotBeScored as found:
                left_out |= found.experts
            self.expert_set_ = self.expert_set_.without(left_out)
        self.left_out_ = tuple(sorted(left_out))
        if left_out:
            warnings.warn(_left_out(self.left_out_), RuntimeWarning, stacklevel=2)
        return self

    def decision_values(self, X: Any) -> Floats:
        """The weighted sum of the experts' answers (eq. 17 before the sign)."""
        check_is_fitted(self)
        return self._values(self._rows(X, reset=False))

    def _values(self, rows: Any) -> Floats:
        blocks, weights = self.expert_set_.blocks(rows, self.combine, self._largest_score()), self._own(self.weights_)
        try:
            values = np.concatenate([outputs @ weights for _, outputs in blocks])
        except CannotBeScored as found:
            unscorable = sorted(found.experts)
        else:
            return np.asarray(values + self.intercept_, dtype=np.float64)
        raise DataError(
            f"On these rows {_counted(unscorable)} answers that are not finite, or too large to be added up.",
            "Look at the rows; or fit again without these experts.",
        )

    def _own(self, weights: Floats) -> Floats:
        """The weights of the experts that were not left out."""
        return weights[list(self.expert_set_.numbers)]

    def _of_all(self, weights: Floats) -> Floats:
        """Weights (last axis: experts that were not left out) with zeros for those that were."""
        spread = np.zeros((*weights.shape[:-1], len(self.guarantee_)))
        spread[..., list(self.expert_set_.numbers)] = weights
        return spread

    @available_if(_classifies)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def decision_function(self, X: Any) -> Floats:
        """Combined scores: positive for the second class."""
        return self.decision_values(X)

    @available_if(_classifies)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of both classes under the logistic model whose loss the experts are judged by."""
        second = expit(self.decision_values(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, or numbers if the experts are regressors."""
        values = self.decision_values(X)
        if self.expert_set_.task == "regression":
            return values
        return np.asarray(self.classes_[(values > 0).astype(np.intp)])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R² if the experts are regressors."""
        metric = r2_score if self.expert_set_.task == "regression" else accuracy_score
        return float(metric(y, self.predict(X)))

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy with the same experts: they are other members' finished work and are never fitted anew."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        """Classifier or regressor, as the experts are; binary only."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if _classifies(self):
            # A combination is as good as its experts are.
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False, poor_score=True)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
        return tags

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Own rows: a frame stays one, so that experts find columns by name; anything else becomes a finite matrix."""
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            rows = X
        else:
            rows = checked_matrix(self, X, reset=reset)
        if row_count(rows) == 0:
            raise DataError("The table has no rows.", "Give at least one row.")
        wanted = self.expert_set_.features
        if wanted is not None and not hasattr(rows, "columns") and rows.shape[1] != wanted:
            raise DataError(
                f"The rows have {rows.shape[1]} features; the experts were fitted on {wanted}.", "Use the same schema."
            )
        return rows

    def _targets(self, y: Any, rows: int) -> Floats:
        if y is None:
            raise DataError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None.", "Give own labels."
            )
        targets = self._signs(_labels(y)) if self.expert_set_.task == "classification" else checked_numbers(y)
        if len(targets) != rows:
            raise DataError(f"There are {rows} rows and {len(targets)} labels.", "Give one label a row.")
        return np.asarray(targets, dtype=np.float64)

    def _signs(self, y: NDArray[Any]) -> Floats:
        """−1 for the first class and +1 for the second, as the experts name them, or else as they are sorted."""
        found = np.unique(y)
        classes = self.expert_set_.classes
        if classes is None:
            if len(found) > 2:
                raise DataError(
                    "Only binary classification is supported. The type of the target is multiclass.",
                    "Combine experts for two classes at a time.",
                )
            if len(found) < 2:
                raise DataError(
                    "y has one class only, and no expert says which classes there are.",
                    "Use experts with classes_, or own data with both classes.",
                )
            classes = found
        if not np.all(np.isin(found, classes)):
            raise DataError("y has a class that the experts do not know.", "Use the same classes as they do.")
        self.classes_ = classes
        return np.where(y == classes[1], 1.0, -1.0)

    def _largest_score(self) -> float | None:
        """The largest |score| that is used; None for no limit."""
        return None

    def _loss_blocks(self, rows: Any, targets: Floats) -> Iterator[Floats]:
        """Losses in the order of the data, rows × experts; each block may be overwritten."""
        step = cached_rows(len(self.expert_set_))
        for part, outputs in self.expert_set_.blocks(rows, self.combine, self._largest_score()):
            for start in range(0, len(outputs), step):
                piece = outputs[start : start + step]
                own = targets[part][start : start + step, np.newaxis]
                if self.expert_set_.task == "classification":
                    piece *= -own
                    yield logistic_losses(piece)
                else:
                    piece -= own
                    yield squared_losses(piece)


@dataclass(eq=False, repr=False)
class AverageExperts(CombinedExperts):
    """The plain average of the experts: own data choose nothing.

    Parameters
    ----------
    experts : fitted binary classifiers or regressors, or releases of such.
    combine : "scores" adds up scores, "votes" the experts' decisions (−1 or +1).

    Attributes
    ----------
    weights_ : one weight an expert, 1/M.
    guarantee_ : what each sender promised about its own records, in the order of the experts.
    """

    experts: Sequence[Any] = ()
    _: KW_ONLY
    combine: Combine = "scores"

    def _learn(self, rows: Any, targets: Floats) -> None:
        # The average needs no answers, but an expert that has none to give would spoil it.
        for _ in self.expert_set_.blocks(rows, self.combine, self._largest_score()):
            pass
        self.weights_ = self._of_all(np.full(len(self.expert_set_), 1 / len(self.expert_set_)))


@dataclass(eq=False, repr=False)
class _Tempered(CombinedExperts):
    """Combinations with a temperature."""

    experts: Sequence[Any] = ()
    _: KW_ONLY
    temperature: Temperature = 3.0
    combine: Combine = "scores"

    def _beta(self) -> float:
        if self.temperature != "theory":
            return positive("temperature", self.temperature)
        if self.expert_set_.task == "regression":
            raise InvalidParameter(
                "temperature='theory' is known for classification only.", "Give a number: 2·(largest residual)²."
            )
        return LOGISTIC_TEMPERATURE

    def _largest_score(self) -> float | None:
        return 1.0 if self.temperature == "theory" else None


class ExponentialWeights(_Tempered):
    """Gibbs weights of the experts' total losses on own data (eq. 11): the order of rows does not matter.

    Parameters
    ----------
    experts, combine : as in AverageExperts.
    temperature : β > 0; small trusts the best expert, large trusts all. "theory" as in MirrorAveraging.

    Attributes
    ----------
    weights_ : one weight an expert; they sum to one. Learned from own data: for the owner only.
    guarantee_ : as in AverageExperts.
    """

    def _learn(self, rows: Any, targets: Floats) -> None:
        self.temperature_ = self._beta()
        weights = exponential_weights(self._loss_blocks(rows, targets), len(self.expert_set_), self.temperature_)
        self.weights_ = self._of_all(_finite(weights))


class MirrorAveraging(_Tempered):
    """The average over time of the Gibbs weights of losses so far, in the order of the data (eqs. 15–17).

    With "theory", β = e and scores are cut off at −1 and 1, which is where condition (19) holds with that β; then the
    expected logistic risk is at most that of the best expert plus `oracle_residual_` (eq. 20). For regression there is no such temperature without a bound on the residuals, so "theory" is refused.

    Parameters
    ----------
    experts, combine : as in AverageExperts.
    temperature : β > 0, the paper's 3 by default, or "theory".

    Attributes
    ----------
    weights_ : one weight an expert; they sum to one. Learned from own data: for the owner only.
    weight_path_ : weights λ⁽ᵗ⁾ after the numbers of rows in `path_rows_` (at most 200 of them): for the owner only.
    oracle_residual_ : β log M / n.
    guarantee_ : as in AverageExperts.
    """

    def _learn(self, rows: Any, targets: Floats) -> None:
        self.temperature_ = self._beta()
        count, losses = len(self.expert_set_), self._loss_blocks(rows, targets)
        average = mirror_average(losses, count, len(targets), self.temperature_)
        self.weights_, self.weight_path_ = self._of_all(_finite(average.weights)), self._of_all(average.path)
        self.path_rows_ = average.path_rows
        self.oracle_residual_ = oracle_residual(self.temperature_, count, len(targets))


@dataclass(eq=False, repr=False)
class StackedExperts(CombinedExperts):
    """Penalised regression on the experts' answers (Sarwate et al. 2014): weights of any sign, with an intercept.

    Parameters
    ----------
    experts, combine : as in AverageExperts.
    penalty : λ of the sum of losses + (λ/2)‖weights‖², or "cross-validation" to choose it on own data.

    Attributes
    ----------
    weights_, intercept_ : learned from own data: for the owner only.
    penalty_ : the penalty used.
    guarantee_ : as in AverageExperts.
    """

    experts: Sequence[Any] = ()
    _: KW_ONLY
    penalty: float | Literal["cross-validation"] = "cross-validation"
    combine: Combine = "scores"

    def _learn(self, rows: Any, targets: Floats) -> None:
        outputs = np.concatenate([block.copy() for _, block in self.expert_set_.blocks(rows, self.combine)])
        self._refuse_overwhelming(outputs)
        scale = np.maximum(np.sqrt(np.mean(outputs**2)), np.finfo(np.float64).tiny)
        design = np.column_stack([outputs / scale, np.ones(len(outputs))])
        penalties = PENALTIES if self.penalty == "cross-validation" else (positive("penalty", self.penalty),)
        relative = np.ones(design.shape[1])
        fitted = batch_fitted(design[np.newaxis], targets[np.newaxis], penalties, relative, self.expert_set_.task)
        coefficients = fitted.coefficients[0]
        self.weights_, self.intercept_ = self._of_all(coefficients[:-1] / scale), float(coefficients[-1])
        self.penalty_ = float(fitted.penalties[0])

    def _refuse_overwhelming(self, outputs: Floats) -> None:
        """Raise CannotBeScored where an expert's answers are so much larger than those of most that beside them the others' would be lost."""
        sizes = np.sqrt(np.mean(outputs**2, axis=0))
        usual = np.sort(sizes)[(len(sizes) - 1) // 2]
        overwhelming = np.flatnonzero(sizes > _LARGEST_RATIO * usual) if usual > 0 else np.array([], dtype=np.intp)
        if overwhelming.size:
            raise CannotBeScored([self.expert_set_.numbers[place] for place in overwhelming])


def _counted(experts: Sequence[int]) -> str:
    """Some experts as the subject of a sentence, with its verb; counted from 0, as they are listed."""
    named = ", ".join(map(str, experts))
    return f"expert {named} gives" if len(experts) == 1 else f"experts {named} give"


def _left_out(experts: Sequence[int]) -> str:
    return (
        f"Left out with weight 0: {_counted(experts)} answers that are not finite, or too large to be judged. "
        "Ask the sender (experts are counted from 0)."
    )


def positive(name: str, value: object) -> float:
    """A parameter that must be a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < float(value) < np.inf:
        raise InvalidParameter(f"{name} must be a positive number, got {value!r}.", "Use for example 3.0.")
    return float(value)


def _labels(y: Any) -> NDArray[Any]:
    """One class label a row; no message quotes a label."""
    labels = checked_labels(y)
    try:
        kind = type_of_target(labels)
    except (ValueError, TypeError):
        kind = "labels of several types"
    if kind not in ("binary", "multiclass"):
        raise DataError(f"Unknown label type: {kind}.", "Give one of two classes a row.")
    return labels


def _finite(weights: Floats) -> Floats:
    if not np.all(np.isfinite(weights)):
        raise DataError("Losses are too large for numbers of this computer.", "Leave out experts that answer absurdly.")
    return weights

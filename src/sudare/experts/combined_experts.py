"""What all combinations of experts share: experts are kept as they are, own rows and labels checked, answers added up with weights."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.experts.expert_set import (
    CannotBeScored,
    Combine,
    ExpertSet,
    Interval,
    frame_of,
    knows_several_classes,
    row_count,
    task_of,
)
from sudare.experts.gibbs_weights import brier_losses, cached_rows, logistic_losses, softmax_losses, squared_losses
from sudare.linear.targets import accuracy_of, checked_labels, checked_numbers, r2_of
from sudare.privacy import Guarantee
from sudare.privacy.array_checks import checked_matrix


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
    feature_names_in_: NDArray[Any]
    intercept_: float | Floats = 0.0
    penalty_: float | Floats

    @abstractmethod
    def _learn(self, rows: Any, targets: Floats) -> None:
        """Set `weights_` from own rows and targets: −1 and +1, or the places of several classes, or numbers."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from own data how to combine the experts. They themselves are not changed."""
        self.expert_set_ = ExpertSet.of(self.experts)
        if self.combine not in get_args(Combine):
            raise InvalidParameter(
                f"combine is one of {', '.join(get_args(Combine))}, got {self.combine!r}.", "Use one of these words."
            )
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
        """The weighted sum of the experts' answers (eq. 17 before the sign); one column a class where there are several."""
        check_is_fitted(self)
        return self._values(self._rows(X, reset=False))

    def _values(self, rows: Any) -> Floats:
        experts, weights = self.expert_set_, self._own(self.weights_)
        try:
            values = np.concatenate(
                [
                    _summed(experts.by_class(answers), weights)
                    for _, answers in experts.blocks(rows, self.combine, self._within())
                ]
            )
        except CannotBeScored as found:
            unscorable = sorted(found.experts)
        else:
            summed = np.asarray(values + self.intercept_, dtype=np.float64)
            return summed[:, 0] if experts.outputs == 1 else summed
        raise DataError(
            f"On these rows {_counted(unscorable)} answers that are not finite, or too large to be added up.",
            "Look at the rows; or fit again without these experts.",
        )

    def _own(self, weights: Floats) -> Floats:
        """The weights of the experts that were not left out."""
        return weights[..., list(self.expert_set_.numbers)]

    def _of_all(self, weights: Floats) -> Floats:
        """Weights (last axis: experts that were not left out) with zeros for those that were."""
        spread = np.zeros((*weights.shape[:-1], len(self.guarantee_)))
        spread[..., list(self.expert_set_.numbers)] = weights
        return spread

    @available_if(_classifies)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def decision_function(self, X: Any) -> Floats:
        """Combined scores: positive for the second of two classes; else one column a class."""
        values = self.decision_values(X)
        return values - 0.5 if self._adds_probabilities() and values.ndim == 1 else values

    @available_if(_classifies)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes: the experts' own, averaged, or those of the logistic model whose loss the experts are judged by."""
        values = self.decision_values(X)
        if values.ndim == 1:
            second = values if self._adds_probabilities() else expit(values)
            return np.stack([1 - second, second], axis=1)
        return values if self._adds_probabilities() else self._class_probabilities(values)

    def _adds_probabilities(self) -> bool:
        """Whether the sum of answers is a probability."""
        return self.combine == "probabilities"

    def _class_probabilities(self, scores: Floats) -> Floats:
        return np.asarray(softmax(scores, axis=1), dtype=np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, or numbers if the experts are regressors."""
        check_is_fitted(self)
        if self.expert_set_.task == "regression":
            return self.decision_values(X)
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R² if the experts are regressors."""
        return (r2_of if self.expert_set_.task == "regression" else accuracy_of)(y, self.predict(X))

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy with the same experts: they are other members' finished work and are never fitted anew."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        """Classifier or regressor, as the experts are; of more than two classes where they know more."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags_of_experts(tags, self.experts, classify=_classifies(self))

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Own rows: a frame stays one, so that experts find columns by name; anything else becomes a finite matrix."""
        X = frame_of(X)
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
        targets = self._codes(labels_of(y)) if self.expert_set_.task == "classification" else checked_numbers(y)
        if len(targets) != rows:
            raise DataError(f"There are {rows} rows and {len(targets)} labels.", "Give one label a row.")
        return np.asarray(targets, dtype=np.float64)

    def _codes(self, y: NDArray[Any]) -> Floats:
        """The place of each label among the classes, as the experts name them or else as they are sorted; of two, −1 and +1."""
        found = np.unique(y)
        classes = self.expert_set_.classes
        if classes is None:
            if len(found) < 2:
                raise DataError(
                    "y has one class only, and no expert says which classes there are.",
                    "Use experts with classes_, or own data with all classes.",
                )
            if len(found) > 2:
                raise DataError(
                    "Only binary classification is supported. The type of the target is multiclass, and no expert names its classes.",
                    "Use experts with classes_.",
                )
            classes = found
        if not np.all(np.isin(found, classes)):
            raise DataError("y has a class that the experts do not know.", "Use the same classes as they do.")
        self.classes_ = classes
        if len(classes) == 2:
            return np.where(y == classes[1], 1.0, -1.0)
        return np.asarray(np.argmax(y[:, np.newaxis] == classes, axis=1), dtype=np.float64)

    def _within(self) -> Interval | None:
        """The interval that answers are clipped to; None for no limit."""
        return None

    def _loss_blocks(self, rows: Any, targets: Floats) -> Iterator[Floats]:
        """Losses in the order of the data, rows × experts; each block may be overwritten."""
        experts = self.expert_set_
        step = cached_rows(len(experts) * experts.outputs)
        for part, outputs in experts.blocks(rows, self.combine, self._within()):
            for start in range(0, len(outputs), step):
                yield self._losses(outputs[start : start + step], targets[part][start : start + step])

    def _losses(self, answers: Floats, targets: Floats) -> Floats:
        """The experts' losses (rows × experts), written over their answers."""
        if self.expert_set_.task == "regression":
            answers -= targets[:, np.newaxis]
            return squared_losses(answers)
        if self.expert_set_.outputs > 1:
            losses = brier_losses if self._adds_probabilities() else softmax_losses
            return losses(self.expert_set_.by_class(answers), targets.astype(np.intp))
        if self._adds_probabilities():
            # Of two classes both probabilities are as far from the truth.
            answers -= targets[:, np.newaxis] > 0
            return 2 * squared_losses(answers)
        answers *= -targets[:, np.newaxis]
        return logistic_losses(answers)


def tags_of_experts(tags: Any, experts: Any, *, classify: bool) -> Any:
    """scikit-learn's tags, with those of a classifier or regressor that is as good as its experts are."""
    if classify:
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags(multi_class=knows_several_classes(experts), poor_score=True)
    else:
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags(poor_score=True)
    return tags


def one_vs_rest_targets(targets: Floats, outputs: int) -> Floats:
    """Targets of one problem; or of one a class, +1 for it and −1 for all others, from the places of several classes."""
    if outputs == 1:
        return targets[np.newaxis]
    return np.where(targets == np.arange(outputs)[:, np.newaxis], 1.0, -1.0)


def _summed(answers: Floats, weights: Floats) -> Floats:
    """Answers (rows × experts × outputs) added up with one weight an expert, or with some of its own for every output (outputs × experts)."""
    if weights.ndim == 1:
        return np.asarray(np.tensordot(answers, weights, axes=(1, 0)), dtype=np.float64)
    return np.asarray(np.einsum("rmc,cm->rc", answers, weights), dtype=np.float64)


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


def labels_of(y: Any) -> NDArray[Any]:
    """One class label a row; no message quotes a label."""
    labels = checked_labels(y)
    try:
        kind = type_of_target(labels)
    except (ValueError, TypeError):
        kind = "labels of several types"
    if kind not in ("binary", "multiclass"):
        raise DataError(f"Unknown label type: {kind}.", "Give one class a row.")
    return labels

"""Targets as people give them: labels of classes and numbers within bounds, checked without quoting a value.

`ClassTarget` and `NumberTarget` are what all private classifiers and all private regressors have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.schema import Number, Schema

# Kinds of numpy types: booleans and integers.
WHOLE: Final = "biu"


def refuse_no_target(y: object) -> None:
    """Raise InvalidParameter where there is nothing to compare predictions with: a model from a release has no schema to find it by."""
    if y is None:
        raise InvalidParameter("A score needs the true values.", "Give them: score(X, y).")


def finite_answers(answers: Floats) -> Floats:
    """The answers of a model. Raise DataError where one is not finite, as those of a received model with absurd parameters may be."""
    if not np.all(np.isfinite(answers)):
        raise DataError(
            "The model's answers are not finite: its parameters are too large for these rows.",
            "Ask its sender, and look at your rows: their units may be others than the model's.",
        )
    return answers


def accuracy_of(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """The share of rows whose class was predicted. Raise DataError, which quotes no label, where y cannot be compared."""
    return _compared(accuracy_score, y, predicted, sample_weight)


def r2_of(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """R² of predicted numbers. Raise DataError, which quotes no value, where y cannot be compared."""
    return _compared(r2_score, y, predicted, sample_weight)


def _compared(metric: Callable[..., Any], y: Any, predicted: Any, sample_weight: Any) -> float:
    try:
        return float(metric(y, predicted, sample_weight=sample_weight))
    except (TypeError, ValueError, OverflowError):
        # Raised below and not here, where scikit-learn's message, which may quote a value, would stay in the chain of causes.
        pass
    raise DataError(
        "y or sample_weight does not fit what is predicted: there is another number of rows, or values of another type.",
        "Give one label or number a row, of the type that the model predicts.",
    )


class ClassTarget(ClassifierMixin):
    """An estimator of classes: all that there can be are declared by the schema or by `classes`, or learned from y."""

    classes: Sequence[Any] | None
    classes_: NDArray[Any]
    schema: Schema | None

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy. Exact: for the owner only. Without y the label is taken from the table."""
        if y is None and self.schema is not None and self.schema.label is not None:
            y = self.classes_[self.schema.encode_target(X)]
        refuse_no_target(y)
        return accuracy_of(y, self.predict(X), sample_weight)

    def _declared_classes(self) -> Any:
        """The classes that the schema's label or `classes` declare; None where neither does."""
        if self.schema is not None and self.schema.label is not None:
            return self.schema.classes
        return self.classes

    def _undeclared(self) -> str:
        return "classes" if self._declared_classes() is None else ""

    def _declare_target(self, y: object) -> None:
        """Keep the declared classes, or those that y has where none are declared, which voids the guarantee."""
        levels = self._declared_classes()
        if levels is None:
            if y is None:
                raise DataError("The schema declares no label, and no y was given.", "Declare a label, or give y.")
            labels = checked_labels(y)
            check_classification_targets(labels)
            levels = np.unique(labels)
        self.classes_ = checked_classes(levels)

    def _take_target(self, written: Any) -> None:
        """Keep the classes that a release declares; raises if they are none."""
        if not isinstance(written, list) or not all(type(level) in (str, int, bool, float) for level in written):
            raise TypeError("not a list of classes")
        if len({type(level) for level in written}) > 1:
            raise TypeError("classes of several types")
        self.classes_ = checked_classes(written)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise makes scores poor on the tiny data sets that checks use.
        tags.classifier_tags.poor_score = True
        return tags


class NumberTarget(RegressorMixin):
    """An estimator of a number within bounds: those of the schema's target or `target_bounds`, or learned from y."""

    target_bounds: tuple[float, float] | None
    target_bounds_: tuple[float, float]
    schema: Schema | None

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R². Exact: for the owner only. Without y the target is taken from the table."""
        if y is None and self.schema is not None and self.schema.target is not None:
            y = self.schema.encode_target(X)
        refuse_no_target(y)
        return r2_of(y, finite_answers(self.predict(X)), sample_weight)

    def _outputs(self) -> int:
        return 1

    def _declared_bounds(self) -> tuple[float, float] | None:
        """The bounds that the schema's target or `target_bounds` declare; None where neither does."""
        schema = self.schema
        number = None if schema is None or schema.target is None else schema.columns[schema.target]
        return (number.low, number.high) if isinstance(number, Number) else self.target_bounds

    def _undeclared(self) -> str:
        return "target_bounds" if self._declared_bounds() is None else ""

    def _declare_target(self, y: object) -> None:
        """Keep the declared bounds, or those of y where none are declared, which voids the guarantee."""
        bounds = self._declared_bounds()
        if bounds is None:
            if y is None:
                raise DataError(
                    "The schema declares no number as target, and no y was given.", "Declare one, or give y."
                )
            targets = checked_numbers(y)
            bounds = float(targets.min()), float(targets.max())
            if bounds[0] == bounds[1]:
                bounds = bounds[0] - 1.0, bounds[1] + 1.0
        self.target_bounds_ = checked_target_bounds(bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.required = self.schema is None
        return tags


def missing_y() -> DataError:
    """What is raised where nothing tells the targets, in the words that scikit-learn's checks look for."""
    return DataError("y is missing: requires y to be passed, but the target y is None.", "Give y.")


def check_lengths(rows: int, targets: int) -> None:
    """Raise DataError unless there is one target a row."""
    if rows != targets:
        raise DataError(
            f"Found input variables with inconsistent numbers of samples: [{rows}, {targets}].",
            "Give one target a row.",
        )


class LogisticProbabilities:
    """An estimator of classes whose scores are log-odds: of the second of two classes, or of each class against the rest."""

    if TYPE_CHECKING:

        def _scores(self, X: Any) -> Floats: ...

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes; one-against-the-rest probabilities divided by their sum where there are several."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return one_vs_rest_probabilities(scores)
        second = expit(scores)
        return np.hstack([1 - second, second])

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def one_vs_rest_probabilities(scores: Floats) -> Floats:
    """Probabilities from log-odds of each class against all others (rows × classes): divided by their sum."""
    chances: Floats = expit(scores)
    total = chances.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(chances, total, out=np.full_like(chances, 1 / chances.shape[1]), where=total > 0))


def unknown_label() -> DataError:
    """What is raised where a label is among no declared classes; the label itself is private."""
    return DataError(
        "y holds a label that is not among the declared classes.", "Declare it in classes=…, or drop the rows."
    )


def checked_labels(y: object) -> NDArray[Any]:
    """y as one column of labels, in the words of scikit-learn and without quoting a value."""
    labels: NDArray[Any] = np.asarray(y)
    # scikit-learn takes a column of whole numbers as it is, after asking whether it is a frame.
    if labels.ndim != 1 or labels.dtype.kind not in WHOLE:
        labels = column_or_1d(labels, warn=True)
    if labels.dtype.kind in "fc" and not np.all(np.isfinite(labels)):
        raise DataError("Input y contains NaN or infinity.", "Give a label for every row.")
    if len(labels) == 0:
        raise DataError("Found array with 0 sample(s) in y while a minimum of 1 is required.", "Give rows.")
    return labels


def class_codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """The place of each label among the classes."""
    order = np.argsort(classes)
    try:
        places = np.clip(np.searchsorted(classes[order], labels), 0, len(order) - 1)
        codes: NDArray[np.intp] = order[places]
        known = bool(np.all(classes[codes] == labels))
    except TypeError:
        known = False
    if not known:
        raise unknown_label()
    return codes


def checked_classes(levels: Any) -> NDArray[Any]:
    """The classes as an array. Raise InvalidParameter unless they are at least two different labels."""
    classes = np.asarray(levels)
    if classes.dtype.kind == "f" and np.all(np.isfinite(classes)) and type_of_target(classes) == "continuous":
        raise InvalidParameter("classes must be labels: text, whole numbers or booleans.", "Use for example [0, 1].")
    if classes.ndim != 1 or _different(classes) != len(classes):
        raise InvalidParameter("classes must be a list of different labels.", "Use for example classes=[0, 1].")
    if len(classes) < 2:
        raise InvalidParameter(
            "A classifier needs at least two classes; y has one class, or one was declared.",
            "Declare all classes there can be with classes=…; then a table with one of them is no problem.",
        )
    return classes


def _different(classes: NDArray[Any]) -> int:
    """How many different classes there are."""
    return len(set(classes.tolist())) if classes.dtype.kind in WHOLE else len(np.unique(classes))


def checked_numbers(y: object) -> Floats:
    """y as one column of finite numbers."""
    targets: Floats | None = None
    try:
        column = np.asarray(y)
        if column.dtype.kind != "c":
            targets = np.asarray(column_or_1d(column, warn=True), dtype=np.float64)
    except (TypeError, ValueError):
        # Raised below and not here, where numpy's message, which quotes a value, would stay in the chain of causes.
        column = np.empty(0)
    if targets is None:
        if column.dtype.kind == "c":
            raise DataError("Complex data not supported.", "Give real numbers.")
        raise DataError("y cannot be read as one column of numbers.", "Give one number a row.")
    if len(targets) == 0:
        raise DataError("Found array with 0 sample(s) in y while a minimum of 1 is required.", "Give rows.")
    if not np.all(np.isfinite(targets)):
        raise DataError("Input y contains NaN or infinity.", "Give a finite number for every row.")
    return targets


def checked_target_bounds(bounds: Any) -> tuple[float, float]:
    """The bounds as two finite numbers, low < high. Raise InvalidParameter if they are not."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not (np.isfinite(low) and np.isfinite(high) and 1e-150 <= high - low <= 1e150):
        raise InvalidParameter("target_bounds must be two finite numbers, low < high.", "Use for example (0, 100).")
    return low, high

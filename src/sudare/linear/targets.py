"""Targets as people give them: labels of classes and numbers within bounds, checked without quoting a value."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import type_of_target

from sudare.errors import DataError, InvalidParameter

Floats = NDArray[np.float64]

# Kinds of numpy types: booleans and integers.
WHOLE: Final = "biu"


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
    """At least two different labels."""
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
    try:
        column = np.asarray(y)
        if column.dtype.kind == "c":
            raise DataError("Complex data not supported.", "Give real numbers.")
        targets = np.asarray(column_or_1d(column, warn=True), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("y cannot be read as one column of numbers.", "Give one number a row.") from None
    if len(targets) == 0:
        raise DataError("Found array with 0 sample(s) in y while a minimum of 1 is required.", "Give rows.")
    if not np.all(np.isfinite(targets)):
        raise DataError("Input y contains NaN or infinity.", "Give a finite number for every row.")
    return targets


def checked_target_bounds(bounds: Any) -> tuple[float, float]:
    """Two finite numbers with room between them."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not (np.isfinite(low) and np.isfinite(high) and 1e-150 <= high - low <= 1e150):
        raise InvalidParameter("target_bounds must be two finite numbers, low < high.", "Use for example (0, 100).")
    return low, high

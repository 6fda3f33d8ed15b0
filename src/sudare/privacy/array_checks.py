"""Arrays as people give them, checked by scikit-learn but without its messages that may quote a value."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sudare.array_types import Floats
from sudare.errors import DataError, WrongType

# First lines of scikit-learn's messages that tell shapes, names of types and kinds of gaps, and never a value.
_TELLS_NO_VALUE: Final = re.compile(
    r"Found array with|Expected 2D array|Expected a 2-dimensional container|Input X contains (NaN|infinity)"
    r"|X has \d+ features, but|The feature names should match|Feature names are only supported"
    r"|Complex data not supported|Sparse data was passed|float\(\) argument must be"
)


def checked_matrix(estimator: BaseEstimator, X: object, *, reset: bool) -> Floats:
    """A finite float64 matrix; scikit-learn's checks, but none of its messages that may quote a value."""
    if _needs_no_conversion(X) and _is_what_was_fitted(estimator, X, reset=reset):
        return X
    kind: type[DataError | WrongType]
    try:
        # Its first test for gaps adds everything up, which may overflow to both sides; it then looks at each value.
        with np.errstate(invalid="ignore"):
            matrix: Floats = validate_data(estimator, X, reset=reset, dtype=np.float64)
        return matrix
    except (ValueError, TypeError, OverflowError) as error:
        kind = WrongType if isinstance(error, TypeError) else DataError
        first_line = str(error).partition("\n")[0]
    # Raised here and not above, where the original would stay in the chain of causes.
    reason = first_line if _TELLS_NO_VALUE.match(first_line) else "X cannot be read as a table of numbers."
    raise kind(
        reason, "Give a table of finite numbers, or a schema. Reshape your data: array.reshape(-1, 1) is one column."
    )


def as_numbers(values: object, name: str) -> Floats:
    """An array of numbers of any shape, not necessarily finite. Raise DataError, without numpy's message that quotes a value."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # Raised below and not here, where the original would stay in the chain of causes.
        pass
    raise DataError(f"{name} cannot be read as an array of numbers.", "Give numbers.")


def _needs_no_conversion(X: object) -> TypeGuard[Floats]:
    """Whether X is a matrix that scikit-learn's checks would hand back as it is. They take longer than a small fit."""
    return type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size > 0 and bool(np.isfinite(X).all())


def _is_what_was_fitted(estimator: BaseEstimator, X: Floats, *, reset: bool) -> bool:
    """Whether columns without names are what the estimator knows; with `reset` it knows them from now on."""
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return True
    return not hasattr(estimator, "feature_names_in_") and getattr(estimator, "n_features_in_", None) == X.shape[1]

"""Experts for tests: models that answer about tables of any width, as scikit-learn's checks bring them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin


class ColumnScore(ClassifierMixin, BaseEstimator):
    """Scores a row by one of its columns against a threshold. It has nothing to learn and names no classes."""

    def __init__(self, column: int = 0, threshold: float = 0.0) -> None:
        self.column = column
        self.threshold = threshold

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Any) -> Any:
        matrix = np.asarray(X, dtype=float)
        return matrix[:, min(self.column, matrix.shape[1] - 1)] - self.threshold


class ColumnValue(RegressorMixin, BaseEstimator):
    """Predicts one of the columns, shifted."""

    def __init__(self, column: int = 0, shift: float = 0.0) -> None:
        self.column = column
        self.shift = shift

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        matrix = np.asarray(X, dtype=float)
        return matrix[:, min(self.column, matrix.shape[1] - 1)] + self.shift


class Line:
    """A linear classifier made of its coefficients."""

    def __init__(self, coefficients: Any, intercept: float = 0.0, guarantee: Any = None, classes: Any = (0, 1)) -> None:
        self.coef_ = np.asarray(coefficients, dtype=float)[np.newaxis]
        self.intercept_ = np.array([intercept])
        self.n_features_in_ = self.coef_.shape[1]
        self.classes_ = np.asarray(classes)
        if guarantee is not None:
            self.guarantee_ = guarantee

    def decision_function(self, X: Any) -> Any:
        return np.asarray(X, dtype=float) @ self.coef_[0] + self.intercept_[0]


class RegressionLine(RegressorMixin, BaseEstimator):
    """A linear regressor made of its coefficients."""

    def __init__(self, coefficients: Any = (1.0,)) -> None:
        self.coefficients = coefficients

    @property
    def coef_(self) -> Any:
        return np.asarray(self.coefficients, dtype=float)

    def predict(self, X: Any) -> Any:
        return np.asarray(X, dtype=float) @ self.coef_

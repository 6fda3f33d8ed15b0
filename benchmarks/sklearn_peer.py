"""scikit-learn's side, in our own environment."""

from __future__ import annotations

from collections.abc import Callable

from sklearn.linear_model import LogisticRegression

from benchmarks.workloads import unit_rows

Run = Callable[[], object]


def logistic_large(rows: int, columns: int) -> Run:
    """Its default solver to a tolerance of 1e-8."""
    X, labels = unit_rows(rows, columns)
    model = LogisticRegression(C=1.0, tol=1e-8, fit_intercept=False, max_iter=1000)
    return lambda: model.fit(X, labels)


CASES = {"logistic_large": logistic_large}

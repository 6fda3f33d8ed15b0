"""scikit-learn's side, in our own environment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.covariance import graphical_lasso
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture

from benchmarks.workloads import overlapping_patterns, sparse_correlations, unit_rows

Run = Callable[[], object]


def logistic_large(rows: int, columns: int) -> Run:
    """Its default solver to a tolerance of 1e-8."""
    X, labels = unit_rows(rows, columns)
    model = LogisticRegression(C=1.0, tol=1e-8, fit_intercept=False, max_iter=1000)
    return lambda: model.fit(X, labels)


def graphical_lasso_rough(variables: int, rows: int, penalty: float, tolerance_of_peer: float, blocks: int = 1) -> Run:
    """Its graphical lasso to a tolerance, with a tight one for the problems within, without which it does not converge."""
    S = sparse_correlations(variables, rows, blocks)
    return lambda: graphical_lasso(S, penalty, tol=tolerance_of_peer, enet_tol=1e-8)


def graphical_lasso_warm(variables: int, rows: int, penalty: float, tolerance_of_peer: float) -> Run:
    """The same for weights that changed by 2%; it has no start to give."""
    S = sparse_correlations(variables, rows, disturbance=0.02)
    return lambda: graphical_lasso(S, penalty, tol=tolerance_of_peer, enet_tol=1e-8)


def expectation_maximisation(rows: int, columns: int, patterns: int, iterations: int, bits: int) -> Run:
    """As many iterations from the same start; besides, fit makes one M step before and one E step after them."""
    X, means, precisions = overlapping_patterns(rows, columns, patterns)
    model = GaussianMixture(
        patterns,
        max_iter=iterations,
        tol=0.0,
        init_params="random_from_data",
        weights_init=np.full(patterns, 1 / patterns),
        means_init=means,
        precisions_init=precisions,
    )
    return lambda: model.fit(X)


CASES = {
    "logistic_large": logistic_large,
    "graphical_lasso": graphical_lasso_rough,
    "graphical_lasso_warm": graphical_lasso_warm,
    "expectation_maximisation": expectation_maximisation,
}

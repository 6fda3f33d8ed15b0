"""Algorithm 3 of the chapter as printed: where it finds the graphical lasso's answer, and where it does not."""

from __future__ import annotations

import math

import numpy as np

from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.papers.p003_decentralised.printed_graphical_lasso import graphical_lasso_as_printed
from tests.dictionary.test_graphical_lasso import covariance_of


def test_algorithm_3_as_printed_where_it_works():
    S = covariance_of(5, 200, "plain")
    printed = graphical_lasso_as_printed(S, 0.05, tol=1e-12)
    result = graphical_lasso(S, 0.05, tol=1e-13, penalize_diagonal=True)
    assert printed.gap < 1e-10
    np.testing.assert_allclose(printed.precision, result.precision, atol=1e-5)
    np.testing.assert_allclose(printed.covariance, np.linalg.inv(printed.precision), atol=1e-6)
    assert graphical_lasso_as_printed(S, 0.05, tol=1e-12, passes=50).n_iter <= printed.n_iter


def test_algorithm_3_as_printed_where_it_does_not():
    """Sensors that nearly determine each other: (1.78) applied once for each visit leaves a Λ that is no precision."""
    S = covariance_of(20, 10, "factor")
    printed = graphical_lasso_as_printed(S, 1e-3, max_iter=100)
    assert printed.n_iter == 100
    assert printed.gap == math.inf
    assert graphical_lasso(S, 1e-3, penalize_diagonal=True).gap <= 1e-8

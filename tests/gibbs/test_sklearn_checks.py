"""scikit-learn's own checks of every Gibbs estimator."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.gibbs import GibbsLogisticRegression, GibbsMean, GibbsPosterior, GibbsRidge


class DistanceFromRows:
    """A robust location: √(1 + ‖θ − x‖²), whose gradient is at most one. Written without an address, so that tests have lasting names."""

    def __call__(self, theta, X):
        return np.sqrt(1 + np.sum((theta - X) ** 2, axis=1))

    def __repr__(self):
        return type(self).__name__


class PullOfRows(DistanceFromRows):
    """Its gradient."""

    def __call__(self, theta, X):
        return np.sum((theta - X) / super().__call__(theta, X)[:, np.newaxis], axis=0)


distance_from_rows, pull_of_rows = DistanceFromRows(), PullOfRows()


@parametrize_with_checks(
    [
        GibbsLogisticRegression(),
        GibbsLogisticRegression(draws=2, sampler="exact", fit_intercept=False),
        GibbsRidge(),
        GibbsMean(bounds=(-10, 10)),
        GibbsPosterior(distance_from_rows, pull_of_rows, norm_bound=10.0),
    ]
)
def test_scikit_learn_check(estimator, check, monkeypatch):
    """None is expected to fail, and none to be skipped: one looks for this variable."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with warnings.catch_warnings():
        # One check gives a column vector on purpose to see whether it is warned about; means have no use for y.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)

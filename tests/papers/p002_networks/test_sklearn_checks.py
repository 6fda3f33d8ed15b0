"""scikit-learn's own checks of the approaches of paper 002: none is expected to fail."""

from __future__ import annotations

import warnings

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.papers.p002_networks.estimators import (
    AnonymizedLearningClassifier,
    AnonymizedLearningRegressor,
    AnonymizingFirstClassifier,
    AnonymizingFirstRegressor,
    LearningFirstClassifier,
    LearningFirstRegressor,
)

SMALL = {"hidden_layer_sizes": (3,), "bounds": (-10, 10), "epochs": 1, "accept_weak_guarantee": True}


@pytest.mark.long
@parametrize_with_checks(
    [
        AnonymizingFirstClassifier(synthetic_rows=50, **SMALL),
        AnonymizingFirstRegressor(synthetic_rows=50, **SMALL),
        LearningFirstClassifier(**SMALL),
        LearningFirstRegressor(**SMALL),
        AnonymizedLearningClassifier(**SMALL),
        AnonymizedLearningRegressor(**SMALL),
    ]
)
def test_scikit_learn_check(estimator, check, monkeypatch):
    """None is skipped either: one looks for this variable."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with warnings.catch_warnings():
        # One check gives a column vector on purpose to see whether it is warned about.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)

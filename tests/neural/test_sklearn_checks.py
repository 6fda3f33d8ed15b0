"""scikit-learn's own checks of the private networks: none is expected to fail."""

from __future__ import annotations

import warnings

from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.neural import PrivateMLPClassifier, PrivateMLPRegressor


@parametrize_with_checks(
    [
        PrivateMLPClassifier(
            hidden_layer_sizes=(3,), max_iter=2, sampling_rate=0.5, max_physical_batch_size=256, bounds=(-10, 10)
        ),
        PrivateMLPRegressor(
            hidden_layer_sizes=(3,), max_iter=2, sampling_rate=1.0, max_physical_batch_size=256, bounds=(-10, 10)
        ),
    ]
)
def test_scikit_learn_check(estimator, check, monkeypatch):
    """None is skipped either: one looks for this variable."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with warnings.catch_warnings():
        # One check gives a column vector on purpose to see whether it is warned about.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)

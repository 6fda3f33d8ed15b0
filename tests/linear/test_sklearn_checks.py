"""scikit-learn's own checks of every private linear model."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.linear import PrivateAdditiveClassifier, PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge


@parametrize_with_checks(
    [
        PrivateLogisticRegression(),
        PrivateLogisticRegression(delta=1e-6, method="descent"),
        PrivateLogisticRegression(method="objective", fit_intercept=False),
        PrivateLinearSVC(method="output"),
        PrivateAdditiveClassifier(delta=1e-6, bounds=(-100, 100)),
        PrivateAdditiveClassifier(bounds=(-100, 100)),
        PrivateRidge(),
        PrivateRidge(method="objective"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)

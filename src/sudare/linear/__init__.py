"""Private linear models: logistic regression, linear classification with a smoothed hinge, ridge regression, and additive models."""

from sudare.linear.additive_classifier import PrivateAdditiveClassifier
from sudare.linear.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge

__all__ = ["PrivateAdditiveClassifier", "PrivateLinearSVC", "PrivateLogisticRegression", "PrivateRidge"]

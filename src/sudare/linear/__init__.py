"""Private linear models: logistic regression, linear classification with a smoothed hinge, and ridge regression."""

from sudare.linear.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge

__all__ = ["PrivateLinearSVC", "PrivateLogisticRegression", "PrivateRidge"]

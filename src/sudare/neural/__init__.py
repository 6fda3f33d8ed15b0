"""Private neural networks, trained by DP-SGD."""

from sudare.neural.estimators import PrivateMLPClassifier, PrivateMLPRegressor

__all__ = ["PrivateMLPClassifier", "PrivateMLPRegressor"]

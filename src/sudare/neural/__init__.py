"""Private networks, trained by DP-SGD."""

from sudare.neural.estimators import PrivateMLPClassifier, PrivateMLPRegressor
from sudare.neural.private_network import PrivateNetwork

__all__ = ["PrivateMLPClassifier", "PrivateMLPRegressor", "PrivateNetwork"]

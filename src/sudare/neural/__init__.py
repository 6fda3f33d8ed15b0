"""Private neural networks: noisy gradient descent, and the three approaches of paper 002."""

from sudare.neural.estimators import PrivateMLPClassifier, PrivateMLPRegressor

__all__ = ["PrivateMLPClassifier", "PrivateMLPRegressor"]

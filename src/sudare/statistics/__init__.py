"""Private statistics of a table: means, histograms, scalers."""

from sudare.statistics.estimators import PrivateHistogram, PrivateMean, PrivateStandardScaler

__all__ = ["PrivateHistogram", "PrivateMean", "PrivateStandardScaler"]

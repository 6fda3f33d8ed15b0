"""Private statistics of a table: means, histograms, scalers."""

from sudare.statistics.histogram import PrivateHistogram
from sudare.statistics.mean import PrivateMean
from sudare.statistics.standard_scaler import PrivateStandardScaler

__all__ = ["PrivateHistogram", "PrivateMean", "PrivateStandardScaler"]

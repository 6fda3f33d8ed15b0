"""Private statistics of a table: means, histograms, quantiles, tables by group, scalers."""

from sudare.statistics.grouped_table import GroupedTable
from sudare.statistics.histogram import PrivateHistogram
from sudare.statistics.mean import PrivateMean
from sudare.statistics.quantiles import PrivateQuantiles
from sudare.statistics.standard_scaler import PrivateStandardScaler

__all__ = ["GroupedTable", "PrivateHistogram", "PrivateMean", "PrivateQuantiles", "PrivateStandardScaler"]

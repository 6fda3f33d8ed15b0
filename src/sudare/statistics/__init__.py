"""Private statistics of a table: means, histograms, quantiles, tables by group, scalers."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.statistics.grouped_table import GroupedTable
    from sudare.statistics.histogram import PrivateHistogram
    from sudare.statistics.mean import PrivateMean
    from sudare.statistics.quantiles import PrivateQuantiles
    from sudare.statistics.standard_scaler import PrivateStandardScaler
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "grouped_table": "GroupedTable",
            "histogram": "PrivateHistogram",
            "mean": "PrivateMean",
            "quantiles": "PrivateQuantiles",
            "standard_scaler": "PrivateStandardScaler",
        },
    )

__all__ = ["GroupedTable", "PrivateHistogram", "PrivateMean", "PrivateQuantiles", "PrivateStandardScaler"]

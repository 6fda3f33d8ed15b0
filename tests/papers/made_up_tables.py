"""Made-up tables in place of public data sets."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sudare.papers.adult_schema import ADULT_SCHEMA
from sudare.schema import Number


def made_up_adult(rows, generator):
    """Any values that the schema allows; those who work long earn more."""
    columns = {}
    for name, column in ADULT_SCHEMA.features.items():
        if isinstance(column, Number):
            columns[name] = generator.uniform(column.low, column.high, rows)
        else:
            columns[name] = generator.choice(column.values, rows)
    table = pd.DataFrame(columns)
    table["income"] = np.where(table["hours-per-week"] > 50, ">50K", "<=50K")
    return table.assign(fnlwgt=1)

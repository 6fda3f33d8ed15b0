"""What the model of counted pairs says of pairs that were not counted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sudare.schema import Category, Schema
from sudare.synthesis import PrivateSynthesizer
from sudare.synthesis.marginals import MarginalEngine
from sudare.synthesis.staged_budget import StagedNoise
from sudare.synthesis.table_cells import Layout


def test_a_table_between_two_columns_follows_the_forest():
    """a → b → c with a = b = c: the table of a and c is diagonal although it was never counted."""
    schema = Schema({name: Category((0, 1, 2)) for name in "abc"})
    values = np.repeat([0, 1, 2], 1000)
    table = pd.DataFrame({"a": values, "b": values, "c": values})
    layout, noise = Layout.of(schema, None), StagedNoise(1e6, 0.0, "replace-one", 1, 3)
    engine = MarginalEngine(layout, noise, ((0, 1), (1, 2)))
    model = PrivateSynthesizer(schema, tree=[("a", "b"), ("b", "c")], epsilon=1e6).fit(table)
    found = engine.model(model.released_).pair_table((0, 2))[:, :, 0]
    assert np.allclose(found, 1000 * np.eye(3), atol=5)

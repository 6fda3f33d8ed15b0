"""The cluster's benchmark adds up what a fit adds up."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import cluster


def test_reading_at_every_step_and_kept_rows_have_the_same_sums(tmp_path: Path) -> None:
    cluster.write_rows(tmp_path / "rows.parquet", 1000)
    rows, step = cluster.rows_and_step(tmp_path / "rows.parquet", None)
    learner = cluster.model()
    kept = learner._read_rows(tmp_path / "rows.parquet", None)
    descent = learner.plan(kept.count, learner.declared_).mechanism.learning
    assert rows.count == kept.count == 1000
    np.testing.assert_array_equal(step(), descent.clipped_sum(kept, np.full((1, descent.facts.width), 0.1)))

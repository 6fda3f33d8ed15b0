"""Coverage of bands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sudare.papers.p004_reconstruction import (
    bands_table,
)
from sudare.papers.repetitions import Measurements

QUIET = lambda text: None  # noqa: E731


def test_coverage_is_noted_where_a_band_is_drawn(census):
    trial = replace(bands_table.simulated(1000), more=1)
    found = bands_table.measured(QUIET, 2, [trial])
    table = bands_table.coverage_table(found, [trial])
    assert table.rows[0][2] == 100
    assert 0 <= table.rows[0][3].value <= 100
    laplace, waves = np.array_split(np.array(bands_table.trials(), dtype=object), 2)
    assert laplace[-1].name == "comb, 30,000 records"
    assert [wave.name for wave in waves] == [f"{one.name}, square wave" for one in laplace]
    assert all(a.perturbation.epsilon == b.perturbation.epsilon for a, b in zip(laplace, waves, strict=True))
    assert {one.name: one.more for one in laplace if one.more > 1} == {
        "figure 1, 1,000 records": 4,
        "education-num, bins of one": 4,
    }
    rough = Measurements()
    for _ in range(2):
        rough.note((trial.name, "bins", "calibrated"), 0.0)
    assert bands_table.coverage_table(rough, [trial]).rows[0][3] == "not calibrated"

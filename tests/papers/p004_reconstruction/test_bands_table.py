"""Coverage of bands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sudare.papers.p004_reconstruction import bands_table
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Estimate

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
    assert "by two standard errors: none." in bands_table.coverage_table(rough, [trial]).says


def test_columns_whose_bands_hold_too_seldom_are_named():
    found = Measurements()
    trial = bands_table.simulated(1000)
    for coverage in (60.0, 64.0):
        found.note((trial.name, "bins", "calibrated"), 1.0)
        for what, number in (("coverage", coverage), ("width", 1.0)):
            found.note((trial.name, "bins", what), number)
            found.note((trial.name, "sums", what), number)
    assert f"by two standard errors: {trial.name}." in bands_table.coverage_table(found, [trial]).says
    near = {"a": Estimate(84.0, 1.0, 10), "b": Estimate(82.0, 1.0, 10), "c": "not calibrated"}
    assert bands_table.below_goal(near) == ["b"]

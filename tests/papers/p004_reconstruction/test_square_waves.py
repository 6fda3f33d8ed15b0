"""Square Wave with EMS beside Laplace noise."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p004_reconstruction import (
    square_waves,
)
from sudare.papers.p004_reconstruction.printed_values import (
    l1_accuracy,
)
from sudare.report.plots import rendered

QUIET = lambda text: None  # noqa: E731


@pytest.mark.long
def test_square_wave_and_laplace_are_compared_on_the_same_records(census):
    trial = square_waves.trials()[0]
    found = square_waves.measured(QUIET, 2, [trial], [1.0, 4.0])
    table = square_waves.accuracy_table(found, [trial], [1.0, 4.0])
    assert [row[:2] for row in table.rows] == [("Adult, age", 1.0), ("Adult, age", 4.0)]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(20 < cell.value < 100 for row in table.rows for cell in row[2:])
    assert rendered([square_waves.panel(found, trial, [1.0, 4.0])], "svg").startswith(b"<?xml")


def test_smoothing_keeps_the_mass_and_moves_it_to_neighbours():
    np.testing.assert_allclose(square_waves.smoothed(np.array([0.0, 0, 1, 0, 0])), [0, 0.25, 0.5, 0.25, 0])
    ends = square_waves.smoothed(np.array([1.0, 0, 0, 0]))
    np.testing.assert_allclose(ends, np.array([2 / 3, 1 / 4, 0, 0]) / (2 / 3 + 1 / 4))
    np.testing.assert_allclose(square_waves.smoothed(np.full(7, 1 / 7)), np.full(7, 1 / 7))


def test_ems_finds_a_smooth_density():
    wave = square_waves.SquareWave((0, 10), epsilon=4.0)
    x = np.clip(np.random.default_rng(0).normal(5, 1.5, 20_000), 0, 10)
    cells, shares = square_waves.smoothed_expectation_maximisation(wave, wave.perturb(x, random_state=0))
    edges = np.arange(0.0, 11)
    found = square_waves.histogram_of(cells, shares, edges)
    assert found.sum() == pytest.approx(1)
    assert l1_accuracy(found, np.histogram(x, edges)[0] / len(x)) > 96

"""What somebody would reach who knows more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import foldnorm

from sudare.papers.p004_reconstruction import (
    figure2,
    limits,
)
from sudare.papers.p004_reconstruction import (
    table2 as columns,
)
from sudare.papers.repetitions import Measurements

QUIET = lambda text: None  # noqa: E731


def test_what_is_known_of_the_family_is_weighed_by_the_data(monkeypatch):
    perturbation = figure2.perturbation_of(1000)
    family = limits.known_family(perturbation, 2500, np.random.default_rng(0))
    assert family.log_seen.shape[0] == 2500
    for histograms in family.histograms.values():
        np.testing.assert_allclose(histograms.sum(axis=1), 1)
    # Many records drawn from one of the draws leave that one.
    counts = 1e5 * np.exp(family.log_seen[77])
    assert family.weights(counts)[77] > 0.99
    found, simulated = Measurements(), Measurements()
    limits.note_known_family(found, family, 0)
    assert 1 <= found.values(("known", "draws"))[0] <= 2500
    for width in figure2.WIDTHS:
        for accuracy in (70.0, 71.0):
            simulated.note((1000, width, "auto"), accuracy)
            simulated.note((5000, width, "auto"), accuracy)
    rows = limits.known_family_rows(QUIET, simulated, 2, 500)
    assert rows[0][2].value > rows[2][2].value
    monkeypatch.setitem(figure2.FIGURE_2_NOISE, 5000, 2.5)
    assert len(limits.known_count_rows(QUIET, simulated, 2, 5000)) == 2 * len(figure2.WIDTHS)


def test_limits_of_capital_gains(census):
    values = np.concatenate((np.zeros(900), np.full(5, 99_999), np.exp(np.random.default_rng(0).normal(9, 0.5, 95))))
    census["capital-gain"] = np.resize(values, 400)
    found = Measurements()
    for bins in columns.CAPITAL_GAIN.bins:
        for accuracy in (95.0, 96.0):
            found.note(("capital-gain", bins, "auto"), accuracy)
    census.loc[:4, "capital-gain"] = 99_999
    census.loc[5:90, "capital-gain"] = values[905:991]
    rows = limits.census_rows(found)
    assert len(rows) == 6
    fine, coarse = rows[:3], rows[3:]
    for small, large, efficient in (fine, coarse):
        # Less blur is better; both ends known is better than four unknown parameters.
        assert small[2] > large[2] > efficient[2]
    assert coarse[1][2] > fine[1][2]


def test_a_blur_that_is_nothing_loses_nothing_and_atoms_stay():
    values = np.concatenate((np.zeros(50), np.full(10, 100.0), np.linspace(20.5, 39.5, 40)))
    edges = np.array([-0.5, 0.5, *range(10, 101, 10)])
    assert limits.blurred_accuracy(values, edges, 1e-6) == pytest.approx(100)
    assert 60 < limits.blurred_accuracy(values, edges, 30.0) < 90


@given(mean=st.floats(-3, 3), deviation=st.floats(0.01, 3))
def test_mean_size_of_a_normal_variable(mean, deviation):
    assert limits.mean_sizes(np.array([mean]), np.array([deviation]))[0] == pytest.approx(
        foldnorm.mean(abs(mean) / deviation, scale=deviation), rel=1e-6
    )

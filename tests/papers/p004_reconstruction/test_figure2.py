"""Figure 2 of paper 004."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.study_pages import committed_cell, committed_result
from sudare.papers.p004_reconstruction import (
    figure2,
)
from sudare.papers.p004_reconstruction.printed_values import TECHNIQUE
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Estimate
from sudare.report.plots import rendered

QUIET = lambda text: None  # noqa: E731


def test_who_wins_is_concluded_from_the_rows():
    (table,) = (each for each in committed_result("004")["tables"] if each["title"].endswith("less the technique"))
    assert (
        figure2.winners_conclusion([[committed_cell(cell) for cell in row] for row in table["rows"]]) in table["says"]
    )
    ahead, behind, unclear = Estimate(1.0, 0.4, 9), Estimate(-1.63, 0.5, 2), Estimate(-1.0, 0.6, 2)
    said = figure2.winners_conclusion([(1_000, "", ahead, unclear, behind), (10_000, "", ahead, ahead, behind)])
    assert "closed-form, is better at 1,000, 10,000 and worse at no size" in said
    assert "gradient, is better at 10,000 and worse at no size" in said
    assert "our mixture is better at no size and worse at 1,000, 10,000" in said


def test_which_k_is_best_is_concluded_from_the_rows():
    (table,) = (each for each in committed_result("004")["tables"] if each["title"].startswith("Figure 2 by K"))
    rows = [[committed_cell(cell) for cell in row] for row in table["rows"]]
    assert figure2.components_conclusion(rows) in table["says"]
    made_up = [
        (10, count, None, f"{count} of 7", None, Estimate(value, 0.1, 7)) for count, value in ((2, 50.0), (3, 40.0))
    ]
    assert "with 10 records in 5 of 14 runs (K = 2);" in figure2.components_conclusion(made_up)


@pytest.mark.long
def test_figure_2_measures_every_method_at_every_width():
    found = Measurements()
    for repetition in range(2):
        figure2.note_size(found, 1000, repetition)
        figure2.note_algorithm_1(found, 1000, repetition)
        figure2.note_fixed_rate(found, 1000, repetition)
    tables = [figure2.accuracy_table(found, width, [1000]) for width in figure2.WIDTHS]
    tables += [figure2.components_table(found, [1000]), figure2.winners_table(found, [1000])]
    for table in tables:
        assert table.title.startswith("Figure 2")
        assert all(len(row) == len(table.columns) for row in table.rows)
    figure = figure2.figure_2(found, [1000])
    assert figure.label == "Figure 2"
    assert rendered(figure.panels, "svg").startswith(b"<?xml")
    assert found.at((1000, 1.0, "auto")).value > 50
    assert found.at((1000, 0.1, "auto")).value < found.at((1000, 1.0, "auto")).value


def test_noise_of_figure_2_is_as_printed_with_public_bounds():
    for size, noise in ((1000, 3.18), (1_000_000, 1.75)):
        assert figure2.perturbation_of(size).noise_scale == pytest.approx(noise, rel=1e-3)
        assert figure2.perturbation_of(size).bounds == (-2.5, 9.5)
    edges = figure2.edges_of(1.0)
    np.testing.assert_allclose(edges, np.arange(-3, 10.5))
    sample = figure2.original_records(200_000, np.random.default_rng(0))
    assert np.histogram(sample, edges)[0].sum() == 200_000
    # Component 4 has a tenth of the mass and is cut in two at its mean.
    assert np.mean((sample >= 8) & (sample < 9)) == pytest.approx(0.05, abs=0.005)


def test_figure_1_is_the_density_of_the_mixture():
    figure = figure2.figure_1()
    assert figure.label == "Figure 1"
    assert rendered(figure.panels, "svg").startswith(b"<?xml")


def test_small_samples_are_repeated_more_often():
    assert [figure2.repeats_at(size, 10) for size in (1_000, 10_000, 100_000, 1_000_000)] == [100, 40, 10, 10]


@pytest.mark.long
def test_speed_is_told_with_memory():
    table = figure2.speed_table(QUIET, size=10_000)
    assert [row[0] for row in table.rows] == ["auto", "evidence", "mixture, 4 components", "smooth", "bayes"]
    assert all(row[1] > 0 and row[2] > 0 for row in table.rows)


@pytest.mark.long
def test_accuracy_of_figure_2():
    """The default beats the paper's methods, and reaches these accuracies or misses them by less than two standard errors."""
    least = {1000: 73.0, 10_000: 86.0, 100_000: 95.5}
    found = figure2.measured(QUIET, 10, [1000, 10_000, 100_000])
    for size, accuracy in least.items():
        average = found.at((size, 1.0, "auto"))
        assert average.value > found.at((size, 1.0, TECHNIQUE)).value
        # In closed form and given the best K after the fact, the paper's method is better than the average with 1,000 records.
        for update in ("gradient", "closed-form") if size > 1_000 else ("gradient",):
            best = figure2.best_count(found, size, 1.0, update)
            assert average.value > found.at((size, 1.0, update, best)).value
        assert average.value > accuracy - 2 * average.standard_error

"""The part of study 004 on several columns, in tiny settings; the census is made up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.papers.p004_reconstruction import several_columns as multivariate
from sudare.papers.study import Estimate

QUIET = lambda text: None  # noqa: E731
TWO = multivariate.MIXTURES[0]


def test_settings_are_proper_mixtures():
    assert len({(one.columns, one.name, one.split, one.noise) for one in multivariate.MIXTURES}) == 10
    for one in multivariate.MIXTURES:
        assert one.weights.sum() == pytest.approx(1)
        assert np.linalg.eigvalsh(one.covariances).min() > 0
        # Next to nothing is clipped at the bounds.
        rows = one.rows(20_000, np.random.default_rng(0))
        low, high = multivariate.BOUNDS
        assert np.mean((rows < low) | (rows > high)) < 0.003
    split, each = multivariate.MIXTURES[1].perturbation(100_000), TWO.perturbation(100_000)
    assert each.epsilon == pytest.approx(2 * split.epsilon)


@pytest.mark.long
def test_a_small_run_fills_both_tables():
    found = multivariate.measured(QUIET, 2, [TWO], records=3000)
    for table in (multivariate.accuracy_table(found, [TWO]), multivariate.covariance_table(found, [TWO])):
        assert len(table.rows) == 1
        assert len(table.rows[0]) == len(table.columns)
        assert all(isinstance(cell, Estimate) for cell in table.rows[0][4:10])
    assert multivariate.covariance_table(found, [TWO]).rows[0][10].endswith("of 2")
    assert found.at((TWO.settings, "accuracy", "auto")).value > 60


@pytest.mark.long
def test_square_waves_have_no_lines_of_the_paper():
    """Its ways are for Laplace noise; ours take any."""
    waves = multivariate.MIXTURES[2]
    assert waves.split
    assert not waves.is_papers
    assert waves.perturbation(100_000).epsilon == multivariate.MIXTURES[1].perturbation(100_000).epsilon
    found = multivariate.measured(QUIET, 2, [waves], records=3000)
    (row,) = multivariate.covariance_table(found, [waves]).rows
    assert row[2] == "Square Wave"
    assert row[4] is None
    assert row[5] is None
    assert all(isinstance(cell, Estimate) for cell in (row[6], *row[8:10]))
    assert row[10] is None
    assert found.at((waves.settings, "accuracy", "auto")).value > 60


@pytest.mark.long
def test_cross_tables_of_a_made_up_census(monkeypatch):
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": np.clip(generator.normal(40, 12, 1500).round(), 17, 90),
            "hours-per-week": generator.choice([40, 50], 1500),
            "sex": generator.choice(["f", "m"], 1500),
        }
    )
    monkeypatch.setattr(multivariate, "data", lambda name: table)
    found = multivariate.census_table(QUIET, 2, multivariate.CENSUS[:2])
    assert [row[:2] for row in found.rows] == [("age", "hours-per-week"), ("age", "sex")]
    # These columns are independent.
    assert found.rows[1][3] > 95
    assert found.rows[1][2].value > 60


def test_the_covariance_of_a_mixture():
    rows = TWO.rows(200_000, np.random.default_rng(0))
    total = multivariate.total_covariance(TWO.weights, TWO.means, TWO.covariances)
    # Standard errors are below 0.015; six of them.
    np.testing.assert_allclose(total, np.cov(rows.T), atol=0.09)
    assert multivariate.component_error(TWO, TWO.means[::-1], TWO.covariances[::-1]) == pytest.approx(0)


def test_table_1_is_a_cross_table_near_the_original_one():
    table = multivariate.table_1(3000)
    assert table.title.startswith("Table 1:")
    assert [row[0] for row in table.rows] == ["[141-150]", "[151-160]", "[161-170]", "[171-180]", "[181-190]"]
    counts = [[[float(part.strip("()")) for part in cell.split()] for cell in row[1:]] for row in table.rows]
    found, truth = np.array(counts).transpose(2, 0, 1)
    assert np.abs(found - truth).sum() / 2 < 0.25 * truth.sum()

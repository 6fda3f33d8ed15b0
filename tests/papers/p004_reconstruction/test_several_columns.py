"""The part of study 004 on several columns, in tiny settings; the census is made up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.papers.p004_reconstruction import several_columns as multivariate
from sudare.papers.p004_reconstruction.algorithm2 import gathered, paper_mixture
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
        assert all(isinstance(cell, Estimate) for cell in table.rows[0][4:])
    assert found.at((TWO, "accuracy", "auto")).value > 60


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
    assert all(isinstance(cell, Estimate) for cell in (row[6], *row[8:]))
    assert found.at((waves, "accuracy", "auto")).value > 60


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


def test_without_covariance_the_paper_loses_it():
    """In one correlated component half of the covariance's norm is off the diagonal; variances are right."""
    generator = np.random.default_rng(0)
    truth = np.array([[1.0, 0.8], [0.8, 1.0]])
    rows = generator.standard_normal((40_000, 2)) @ np.linalg.cholesky(truth).T + generator.laplace(0, 0.5, (40_000, 2))
    diagonal = paper_mixture(rows, 0.5, np.zeros((1, 2)), rotate=False)
    np.testing.assert_allclose(diagonal.covariances[0], np.eye(2), atol=0.1)
    rotated = paper_mixture(rows, 0.5, np.zeros((1, 2)), rotate=True)
    # A single component has the right axes even so; its total is near the truth.
    assert rotated.covariances[0][0, 1] > 0.6
    assert multivariate.relative_error(rotated.covariances[0], truth) < multivariate.relative_error(np.eye(2), truth)


def test_rows_are_gathered_without_loss():
    rows = np.random.default_rng(0).normal(size=(5000, 2))
    places, counts = gathered(rows)
    assert counts.sum() == 5000
    np.testing.assert_allclose(counts @ places / 5000, rows.mean(axis=0), atol=0.01)


def test_the_covariance_of_a_mixture():
    rows = TWO.rows(200_000, np.random.default_rng(0))
    total = multivariate.total_covariance(TWO.weights, TWO.means, TWO.covariances)
    # Standard errors are below 0.015; six of them.
    np.testing.assert_allclose(total, np.cov(rows.T), atol=0.09)
    assert multivariate.component_error(TWO, TWO.means[::-1], TWO.covariances[::-1]) == pytest.approx(0)

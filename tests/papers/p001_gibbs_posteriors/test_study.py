"""The study of paper 001 on tiny settings: its tables say what the conditions say, and its models are the product's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sudare.gibbs import GibbsLogisticRegression
from sudare.gibbs.proximal import ProximalPlan
from sudare.papers import load_study
from sudare.papers import p001_gibbs_posteriors as posterior
from sudare.papers.p001_gibbs_posteriors import accuracy, samplers, temperatures
from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import gaussian_beta
from sudare.papers.study import result_values
from tests.papers.p000_weak_learners.test_study import made_up_adult

QUIET = lambda text: None  # noqa: E731


def test_inverse_temperatures_are_those_of_the_conditions():
    table = temperatures.logistic_table()
    for rows, regularization, epsilon, delta, printed, theorem, tight, ratio in table.rows:
        assert tight == gaussian_beta(epsilon, delta, 1.0, rows * regularization)
        assert theorem < tight
        assert (printed == "not proved") == (epsilon > 1.05) == (ratio == "–")
        if printed != "not proved":
            assert_allclose(printed, epsilon / 2 * math.sqrt(rows * regularization / (1 + 2 * math.log(1 / delta))))
    for _, _, printed, tight, _, deviation in temperatures.normal_table().rows:
        assert printed < tight
        assert 0 < deviation < 1


def test_steps_of_langevin_meet_the_bound():
    """The two terms of Dalalyan's bound are half of the distance each."""
    width, smallest, largest, distance = 10, 1.8, 47.0, 1e-7
    steps = samplers.langevin_steps(width, smallest, largest, distance)
    duration = 2 / smallest * (width / 4 * math.log(largest / smallest) + math.log(1 / distance))
    step = duration / steps
    first = 0.5 * math.exp(width / 4 * math.log(largest / smallest) - duration * smallest / 2)
    second = math.sqrt(width * largest**2 * duration * step / 8)
    assert_allclose([first, second], distance / 2)
    assert 1e20 < steps < 1e21


@pytest.mark.parametrize("distance", [1e-7, 1e-12])
def test_steps_of_the_proximal_sampler_are_nearly_those_of_its_plan(distance):
    plan = ProximalPlan(1000, 10, 1.0, 0.18, 10.0, 1e-9, 2 * distance)
    steps = samplers.proximal_steps(10, plan.prior_precision, plan.largest_precision, distance)
    assert abs(steps - plan.steps) <= 1


def test_models_have_the_seeds_that_are_announced(monkeypatch):
    monkeypatch.setattr(accuracy, "EPSILONS", (1.0,))
    found = accuracy.breast_cancer(QUIET, 2)
    generator = np.random.default_rng((accuracy.CANCER_SEED, 1))
    task = accuracy.dealt_breast_cancer(generator)
    seed = int(generator.integers(2**31))
    model = GibbsLogisticRegression(1.0, accuracy.DELTA, classes=[-1, 1], fit_intercept=False, random_state=seed).fit(
        task.rows.reshape(-1, 30), task.labels.ravel()
    )
    assert found.found.values("Gibbs", 1.0)[1] == task.accuracy(model.parameters_)[0]


def test_census_rows_are_those_of_the_public_schema(monkeypatch):
    table = made_up_adult(50, np.random.default_rng(1))
    monkeypatch.setattr(samplers, "data", {"adult-train": table}.get)
    rows, norm_bound = samplers.census_rows()
    assert (rows.count, rows.width) == (50, 92)
    assert np.linalg.norm(rows.matrix, axis=1).max() <= norm_bound
    assert set(rows.targets.ravel()) == {-1.0, 1.0}


def test_a_whole_run(monkeypatch):
    generator = np.random.default_rng(6)
    tables = {"adult-train": made_up_adult(300, generator), "adult-test": made_up_adult(150, generator)}
    monkeypatch.setattr(accuracy, "data", tables.get)
    monkeypatch.setattr(accuracy, "EPSILONS", (0.5, 2.0))
    monkeypatch.setattr(posterior, "CANCER_FACTOR", 1)
    plain = samplers.synthetic_rows
    monkeypatch.setattr(samplers, "synthetic_rows", lambda count, width: plain(200, 3))
    monkeypatch.setattr(samplers, "census_rows", lambda: plain(200, 3))
    study = load_study("001")
    assert study.repeats >= 10
    result = study.run(QUIET, 2)
    assert len(result.tables) == 6
    assert len(result.panels) == 4
    for table in result.tables:
        assert "replace-one" in table.says.lower()
        assert all(len(row) == len(table.columns) for row in table.rows)
    values = result_values("001", study, result)
    assert values["tables"][4]["rows"][0][1]["repeats"] == 2

"""The study of paper 000 on tiny settings: its simulations are the product's classes, and its splits are honest."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from sudare.experts import MirrorAveraging, OwnPlusConsensus
from sudare.studies import aggregation, load_study
from sudare.studies.aggregation import recipes, tasks
from sudare.studies.results import result_values
from tests.experts.members import Line

QUIET = lambda text: None  # noqa: E731


@pytest.fixture
def task():
    return tasks.synthetic(np.random.default_rng(0), nodes=8, rows=160, test=60)


def others(messages, member):
    return [Line(row) for row in np.delete(messages, member, axis=0)]


def test_receivers_are_those_of_the_product(task):
    messages = recipes.mean_messages(task, 5.0, np.random.default_rng(1))
    averaged, combined = recipes.mirror_averaged(task, messages), recipes.own_and_others(task, messages)
    for member in (0, 5):
        rows, labels = task.rows[member], task.labels[member] > 0
        mirror = MirrorAveraging(others(messages, member), temperature=3.0).fit(rows, labels)
        np.testing.assert_allclose(mirror.weights_ @ np.delete(messages, member, axis=0), averaged[member], atol=1e-10)
        own = OwnPlusConsensus(others(messages, member), fit_intercept=False).fit(rows, labels)
        np.testing.assert_allclose(own.coef_, combined[member], rtol=1e-5, atol=1e-6)


def test_synthetic_rows_are_as_printed():
    task = tasks.synthetic(np.random.default_rng(2))
    assert task.rows.shape == (100, 50, 10)
    np.testing.assert_allclose(np.linalg.norm(task.rows, axis=2), 1)
    assert (task.test_labels == 1).sum() == (task.test_labels == -1).sum() == 500


def test_patients_are_dealt_out_as_printed_and_none_is_tested_on_that_was_trained_on():
    task = tasks.breast_cancer(np.random.default_rng(3))
    assert task.rows.shape == (10, 40, 30)
    assert ((task.test_labels == 1).sum(), (task.test_labels == -1).sum()) == (85, 84)
    assert np.linalg.norm(task.rows, axis=2).max() <= 1 + 1e-12
    trained = {row.tobytes() for row in task.rows.reshape(-1, 30)}
    distinct = len(np.unique(load_breast_cancer().data, axis=0))
    assert distinct == 569
    assert not trained & {row.tobytes() for row in task.test_rows}


def test_public_centres_and_scales_are_near_what_they_stand_for():
    found = load_breast_cancer().data
    np.testing.assert_allclose(found.mean(axis=0), tasks._CANCER_CENTRES, rtol=0.06)
    np.testing.assert_allclose(found.std(axis=0), tasks._CANCER_SCALES, rtol=0.06)


def test_a_receiver_without_messages_gains_nothing(task):
    alone = recipes.own_without_messages(task)
    nothing = np.zeros((8, 10))
    np.testing.assert_allclose(recipes.own_and_others(task, nothing), alone, atol=1e-8)


def test_the_same_seed_gives_the_same_numbers(task):
    one, two = aggregation.Found(), aggregation.Found()
    for found in (one, two):
        aggregation.note_winning_recipe(found, task, (1.0,), np.random.default_rng(5))
    assert one == two


def test_a_whole_run(monkeypatch):
    monkeypatch.setattr(aggregation, "EPSILONS", (0.5,))
    monkeypatch.setattr(aggregation, "REAL_EPSILONS", (1.0,))
    monkeypatch.setattr(aggregation, "CHEAP_FACTOR", 1)
    monkeypatch.setattr(aggregation, "synthetic", functools.partial(tasks.synthetic, nodes=6, rows=120, test=40))
    generator = np.random.default_rng(6)
    pima = pd.DataFrame(np.abs(generator.normal(size=(768, 8))) * tasks._PIMA_CENTRES, columns=list("abcdefgh"))
    pima["diabetes"] = (np.arange(768) < 268).astype(int)
    monkeypatch.setattr(tasks, "data", lambda name: pima)
    study = load_study("000")
    result = study.run(QUIET, 2)
    assert len(result.tables) == 6
    assert len(result.panels) == 3
    for table in result.tables:
        assert "replace-one" in table.says.lower() or "no privacy" in table.says
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert result_values("000", study, result)["tables"][3]["rows"][0][1]["repeats"] == 2


def test_ten_repetitions_unless_told_otherwise():
    assert load_study("000").repeats >= 10

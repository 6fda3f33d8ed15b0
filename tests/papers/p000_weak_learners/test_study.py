"""The study of paper 000 on tiny settings."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers import p000_weak_learners as aggregation
from sudare.papers.p000_weak_learners import learning_tasks as tasks
from sudare.papers.repetitions import Measurements
from sudare.papers.study import result_values

QUIET = lambda text: None  # noqa: E731


def test_the_same_seed_gives_the_same_numbers(task):
    one, two = Measurements(), Measurements()
    for found in (one, two):
        aggregation.note_winning_recipe(found, task, (1.0,), np.random.default_rng(5))
    assert one == two


def test_a_whole_run(monkeypatch, tiny_data):
    monkeypatch.setattr(aggregation, "EPSILONS", (0.5, 1.1))
    monkeypatch.setattr(aggregation, "REAL_EPSILONS", (1.0,))
    monkeypatch.setattr(aggregation, "CHEAP_FACTOR", 1)
    monkeypatch.setattr(aggregation, "ADULT_FACTOR", 1)
    monkeypatch.setattr(aggregation, "synthetic", functools.partial(tasks.synthetic, nodes=6, rows=120, test=40))
    study = load_study("000")
    result = study.run(QUIET, study.settings(2))
    assert len(result.tables) == 8
    assert sum(len(figure.panels) for figure in result.figures) == 4
    for table in result.tables:
        assert "replace-one" in table.says.lower() or "no privacy" in table.says
        assert all(len(row) == len(table.columns) for row in table.rows)
    values = result_values("000", study, result, study.settings(2))
    assert values["tables"][3]["rows"][0][1]["repeats"] == 2


@pytest.mark.long
def test_accuracy_of_own_plus_consensus(monkeypatch):
    """On the paper's synthetic task at these ε: accuracy, and a gain over the same receiver without messages."""
    least = {0.1: 0.95, 0.5: 0.96, 1.1: 0.985, 1.9: 0.99}
    monkeypatch.setattr(aggregation, "EPSILONS", tuple(least))
    found = aggregation.winning(QUIET, 4)
    for epsilon, accuracy in least.items():
        assert found.at("combined", epsilon).value >= accuracy
        assert found.at("gain", epsilon).value >= 0
    assert found.at("better", 1.9).value >= 95


def test_ten_repetitions_unless_told_otherwise():
    assert load_study("000").repeats >= 10

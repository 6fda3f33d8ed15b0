"""Combinations on the census data: every way is measured once a repetition, on the rows that it should be."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from sudare.papers.p000_weak_learners import released_combination as study
from sudare.papers.study import Estimate, StudySettings
from tests.papers.made_up_tables import made_up_adult


@pytest.fixture
def small(monkeypatch):
    generator = np.random.default_rng(7)
    tables = {"adult-train": made_up_adult(300, generator), "adult-test": made_up_adult(100, generator)}
    monkeypatch.setattr(study, "data", tables.get)
    for name, value in (("SENDERS", 3), ("EXCHANGED", 1), ("SENDER_ROWS", 60), ("OWN_ROWS", (40,))):
        monkeypatch.setattr(study, name, value)
    return tables


def test_every_way_is_measured(small):
    told: list[str] = []
    tables = study.released_combinations(told.append, StudySettings(2))
    assert [table.title for table in tables] == [f"Future work: {task.title}" for task in study.TASKS]
    assert len(told) == 6
    for table in tables:
        assert len(table.columns) == 3
        assert [row[0] for row in table.rows] == [
            study.OWN,
            study.BEST,
            study.AVERAGE,
            study.MIRROR,
            study.WEIGHTS,
            study.STACKED,
            study.CONSENSUS,
            *(f"released, ε = {epsilon:g}" for epsilon in study.EPSILONS),
        ]
        for row in table.rows:
            assert all(isinstance(cell, Estimate) and cell.repeats == 2 for cell in row[1:])
            assert 0 <= row[1].value <= 1


def test_features_are_what_is_known_without_the_target(small):
    for task in study.TASKS:
        names = set(task.schema.columns)
        assert task.target not in names
        assert names.isdisjoint(task.left_out)
        rows, targets = task.rows(small["adult-test"])
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
        assert task.bounds is not None or set(targets) <= set(range(task.classes))


def test_quality_is_a_loss_within_bounds_and_what_is_told_right(small):
    of_classes, of_numbers = study.TASKS[1], study.TASKS[2]
    rows, targets = of_classes.rows(small["adult-train"])
    model = LogisticRegression(max_iter=1000).fit(rows, targets)
    loss, right = study.quality(of_classes, model, rows, targets)
    assert right == model.score(rows, targets)
    assert loss == pytest.approx(((model.predict_proba(rows) - np.eye(3)[targets]) ** 2).sum() / 600)
    rows, targets = of_numbers.rows(small["adult-train"])
    line = Ridge().fit(rows, targets)
    loss, right = study.quality(of_numbers, line, rows, targets)
    assert right == pytest.approx(line.score(rows, targets), abs=1e-6)
    assert loss == pytest.approx(np.mean((line.predict(rows) - targets) ** 2) / 73**2, rel=1e-6)

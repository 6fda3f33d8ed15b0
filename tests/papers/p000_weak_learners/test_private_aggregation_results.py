"""Combinations on the census data: every way is measured once a repetition, on the rows that it should be."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from sudare.papers.p000_weak_learners import private_aggregation_results as study
from sudare.papers.study import Estimate, StudySettings
from sudare.report.plots import rendered


def test_every_way_is_measured(tiny_data):
    told: list[str] = []
    result = study.released_combinations(told.append, StudySettings(2))
    tables = result.tables
    assert [figure.label for figure in result.figures] == ["Future work"]
    assert rendered(result.figures[0].panels, "png").startswith(b"\x89PNG")
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


def test_features_are_what_is_known_without_the_target(tiny_data):
    for task in study.TASKS:
        names = set(task.schema.columns)
        assert task.target not in names
        assert names.isdisjoint(task.left_out)
        rows, targets = task.rows(tiny_data["adult-test"])
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
        assert task.bounds is not None or set(targets) <= set(range(task.classes))


def test_quality_is_a_loss_within_bounds_and_what_is_told_right(tiny_data):
    of_classes, of_numbers = study.TASKS[1], study.TASKS[2]
    rows, targets = of_classes.rows(tiny_data["adult-train"])
    model = LogisticRegression(max_iter=1000).fit(rows, targets)
    loss, right = study.quality(of_classes, model, rows, targets)
    assert right == model.score(rows, targets)
    assert loss == pytest.approx(((model.predict_proba(rows) - np.eye(3)[targets]) ** 2).sum() / 600)
    rows, targets = of_numbers.rows(tiny_data["adult-train"])
    line = Ridge().fit(rows, targets)
    loss, right = study.quality(of_numbers, line, rows, targets)
    assert right == pytest.approx(line.score(rows, targets), abs=1e-6)
    assert loss == pytest.approx(np.mean((line.predict(rows) - targets) ** 2) / 73**2, rel=1e-6)

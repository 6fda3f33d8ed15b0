"""The tasks of paper 000 are as printed, and their splits are honest."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

from sudare.papers.p000_weak_learners import learning_tasks as tasks


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

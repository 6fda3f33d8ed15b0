"""Small tasks and made-up tables for the study of paper 000."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.papers.p000_weak_learners import (
    adult_accuracy,
    logistic_regression_results,
    private_aggregation_results,
)
from sudare.papers.p000_weak_learners import learning_tasks as tasks
from tests.papers.made_up_tables import made_up_adult


@pytest.fixture
def task():
    return tasks.synthetic(np.random.default_rng(0), nodes=8, rows=160, test=60)


@pytest.fixture
def tiny_data(monkeypatch):
    """Made-up tables in place of Pima and Adult: the columns and sizes that the study expects, or fewer rows."""
    generator = np.random.default_rng(6)
    pima = pd.DataFrame(np.abs(generator.normal(size=(768, 8))) * tasks._PIMA_CENTRES, columns=list("abcdefgh"))
    pima["diabetes"] = (np.arange(768) < 268).astype(int)
    monkeypatch.setattr(tasks, "data", lambda name: pima)
    tables = {"adult-train": made_up_adult(300, generator), "adult-test": made_up_adult(150, generator)}
    for module in (adult_accuracy, logistic_regression_results, private_aggregation_results):
        monkeypatch.setattr(module, "data", tables.get)
    for name, value in (("SENDERS", 3), ("EXCHANGED", 1), ("SENDER_ROWS", 60), ("OWN_ROWS", (40,))):
        monkeypatch.setattr(private_aggregation_results, name, value)
    return tables

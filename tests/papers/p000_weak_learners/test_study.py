"""The study of paper 000 on tiny settings."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers import p000_weak_learners as aggregation
from sudare.papers.diffprivlib_models import VARIABLE
from sudare.papers.p000_weak_learners import (
    excess_risks,
    figures4_5,
    logistic_regression_results,
    synthetic_data_results,
)
from sudare.papers.p000_weak_learners import learning_tasks as tasks
from sudare.papers.p000_weak_learners.node_accuracy_statistics import deviation_of, note_nodes
from sudare.papers.repetitions import Measurements
from sudare.papers.study import result_values

QUIET = lambda text: None  # noqa: E731


def test_the_same_seed_gives_the_same_numbers(task):
    one, two = Measurements(), Measurements()
    for found in (one, two):
        synthetic_data_results.note_winning_recipe(found, task, (1.0,), np.random.default_rng(5))
    assert one == two


def test_bars_are_deviations_over_nodes(task):
    found = Measurements()
    note_nodes(found, "one", np.array([0.5, 0.7]), 1.0)
    note_nodes(found, "one", np.array([0.6, 0.6]), 1.0)
    assert found.at("one", 1.0).value == pytest.approx(0.6)
    assert found.at(deviation_of("one"), 1.0).value == pytest.approx(0.05)


def test_from_which_epsilon_the_aggregate_is_ahead():
    found = Measurements()
    for _ in range(2):
        found.note("local", 0.8)
        for epsilon, accuracy in ((0.1, 0.9), (1.0, 0.7), (2.0, 0.8), (5.0, 0.9)):
            found.note("paper", accuracy, epsilon)
    assert figures4_5.epsilon_reached_text(found, "local", (0.1, 1.0, 2.0, 5.0)) == "from ε = 2 on"
    assert figures4_5.epsilon_reached_text(found, "local", (0.1, 1.0)) == "at no ε up to 1"


@pytest.mark.parametrize("quick", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_whole_run(monkeypatch, tiny_data, quick):
    monkeypatch.delenv(VARIABLE, raising=False)
    for place, name in (
        (synthetic_data_results, "EPSILONS"),
        (aggregation, "QUICK_EPSILONS"),
        (synthetic_data_results, "COMPARED"),
    ):
        monkeypatch.setattr(place, name, (0.5, 1.1))
    for place, name in ((figures4_5, "EPSILONS"), (aggregation, "QUICK_PATIENT_EPSILONS")):
        monkeypatch.setattr(place, name, (1.0,))
    for name in ("CHEAP_FACTOR", "ADULT_FACTOR"):
        monkeypatch.setattr(aggregation, name, 1)
    for name in ("OBJECTIVE_ROWS", "DESCENT_ROWS"):
        monkeypatch.setattr(excess_risks, name, (10, 20))
    monkeypatch.setattr(aggregation, "QUICK_ROWS", (10, 20))
    monkeypatch.setattr(excess_risks, "NODES", (2, 5))
    monkeypatch.setattr(aggregation, "QUICK_NODES", (2, 5))
    monkeypatch.setattr(excess_risks, "EPSILONS", (1.0,))
    monkeypatch.setattr(excess_risks, "DRAWS", 2)
    monkeypatch.setattr(excess_risks, "MIDDLE_ROWS", 20)
    monkeypatch.setattr(excess_risks, "RISK_ROWS", 100)
    monkeypatch.setattr(logistic_regression_results, "EPSILONS", (1.0,))
    monkeypatch.setattr(logistic_regression_results, "METHODS", ("auto",))
    monkeypatch.setattr(logistic_regression_results, "SAMPLING_RATES", (None, 0.5))
    monkeypatch.setattr(
        synthetic_data_results, "synthetic", functools.partial(tasks.synthetic, nodes=6, rows=120, test=40)
    )
    study = load_study("000")
    settings = study.settings(2, quick=quick)
    result = study.run(QUIET, settings)
    labels = [figure.label for figure in result.figures]
    assert labels == [
        "Figure 1", "Figure 3", "Figure 4", "Figure 5", "Theorem 2.1", "Theorem 2.2", "Theorem 4.1", "One site",
        "Future work",
    ]  # fmt: skip
    assert len(result.tables) == 18
    for table in result.tables:
        assert any(words in table.says.lower() for words in ("replace-one", "no privacy", "add/remove"))
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert ("Quick run" in table.says) == quick
    assert all(("Quick run" in figure.differs) == quick for figure in result.figures)
    titles = [table.title for table in result.tables]
    values = result_values("000", study, result, settings)
    wins = values["tables"][titles.index("What wins: own plus consensus over noisy means")]
    assert wins["rows"][0][1]["repeats"] == 2


def test_no_legend_calls_what_was_found_by_trying_printed():
    """The level of 0.559 is not what the printed setting gives, and says what it is."""
    found = Measurements()
    for _ in range(2):
        for name in ("exchanged", "shrunk", "local", "alone", "pooled"):
            note_nodes(found, name, np.array([0.5, 0.6]))
        for name in ("chaudhuri", "single", "stacked", "mean", "combined", "paper"):
            note_nodes(found, name, np.array([0.5, 0.6]), 1.1)
    (_, figure) = synthetic_data_results.figure_3_figures(found, found, None, (1.1,))
    assert "as printed" not in figure.caption
    assert "free intercept" in figure.caption


@pytest.mark.long
def test_accuracy_of_own_plus_consensus():
    """On the paper's synthetic task at these ε: accuracy, and a gain over the same receiver without messages."""
    least = {0.1: 0.95, 0.5: 0.96, 1.1: 0.985, 1.9: 0.99}
    found = synthetic_data_results.winning(QUIET, 4, tuple(least))
    for epsilon, accuracy in least.items():
        assert found.at("combined", epsilon).value >= accuracy
        assert found.at("gain", epsilon).value >= 0
    assert found.at("better", 1.9).value >= 95


def test_ten_repetitions_unless_told_otherwise():
    assert load_study("000").repeats >= 10

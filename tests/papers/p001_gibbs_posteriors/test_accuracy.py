"""Models of the study are the product's, with the seeds that are announced."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from sudare.gibbs import GibbsLogisticRegression
from sudare.papers.p001_gibbs_posteriors import accuracy
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Estimate
from sudare.report.plots import DAY

QUIET = lambda text: None  # noqa: E731


@pytest.mark.filterwarnings("error")
def test_models_have_the_seeds_that_are_announced_and_warn_of_nothing(monkeypatch):
    monkeypatch.setattr(accuracy, "EPSILONS", (1.0,))
    found = accuracy.breast_cancer(QUIET, 2)
    generator = np.random.default_rng((accuracy.CANCER_SEED, 1))
    task = accuracy.dealt_breast_cancer(generator)
    seed = int(generator.integers(2**31))
    model = GibbsLogisticRegression(
        1.0, accuracy.DELTA, classes=[-1, 1], norm_bound=1.0, fit_intercept=False, random_state=seed
    ).fit(task.rows.reshape(-1, 30), task.labels.ravel())
    assert found.found.values("Gibbs", 1.0)[1] == task.accuracy(model.parameters_)[0]


def test_the_picture_has_the_peer_where_it_was_run():
    found = Measurements()
    for epsilon in accuracy.EPSILONS:
        for name in accuracy.NAMES:
            found.note(name, 0.8, epsilon)
            found.note(name, 0.9, epsilon)
    theirs = {epsilon: Estimate(0.7, 0.01, 2) for epsilon in accuracy.EPSILONS}
    assert accuracy.PEER in _labels(accuracy.Accuracies("Adult", "", found, theirs))
    assert accuracy.PEER not in _labels(accuracy.Accuracies("Adult", "", found, None))


def _labels(accuracies):
    axes = Figure().subplots()
    accuracy.accuracy_panel(accuracies)(axes, DAY)
    return axes.get_legend_handles_labels()[1]

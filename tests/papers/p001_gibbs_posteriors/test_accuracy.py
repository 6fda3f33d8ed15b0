"""Models of the study are the product's, with the seeds that are announced."""

from __future__ import annotations

import numpy as np

from sudare.gibbs import GibbsLogisticRegression
from sudare.papers.p001_gibbs_posteriors import accuracy

QUIET = lambda text: None  # noqa: E731


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

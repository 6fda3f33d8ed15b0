"""diffprivlib as a weak learner: asked in another interpreter, left out where there is none, and an error where it does not answer."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from sudare.errors import DataUnavailable
from sudare.papers.diffprivlib_models import VARIABLE, logistic_coefficients
from sudare.papers.p000_weak_learners.diffprivlib_results import mirror_averaged_diffprivlib, peer_text
from sudare.papers.p000_weak_learners.learning_tasks import synthetic
from sudare.papers.p000_weak_learners.node_accuracy_statistics import DIFFPRIVLIB, peer_lines, rows_with_peer
from sudare.papers.repetitions import Measurements

QUIET = lambda text: None  # noqa: E731
DEAL = functools.partial(synthetic, nodes=4, rows=80, test=40)

# In place of the library, which needs another scikit-learn: means of label × row times ε, if it is asked as it should be.
STAND_IN = """
import numpy as np

class LogisticRegression:
    def __init__(self, epsilon, data_norm, C, fit_intercept, max_iter, random_state):
        assert data_norm == 1.0 and not fit_intercept and np.isclose(C, 1 / (20 * 0.02))
        self.epsilon = epsilon

    def fit(self, rows, labels):
        self.coef_ = self.epsilon * (rows * labels[:, None]).mean(axis=0)[None]
        return self
"""


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    package = tmp_path / "diffprivlib"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "models.py").write_text(STAND_IN, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(VARIABLE, sys.executable)


@pytest.mark.usefixtures("stand_in")
def test_models_of_another_interpreter_are_aggregated_on_the_same_data():
    found = mirror_averaged_diffprivlib(QUIET, "a figure", DEAL, 7, 2, (0.5, 2.0))
    again = mirror_averaged_diffprivlib(QUIET, "a figure", DEAL, 7, 2, (0.5, 2.0))
    assert found is not None
    assert found == again
    assert found.repeats == 2
    # Means of label × row are the gradient at zero, which tells these classes apart well without noise.
    assert found.at(DIFFPRIVLIB, 2.0).value > 0.8
    assert [name for _, name, _ in peer_lines(found)] == [DIFFPRIVLIB]
    assert "2 repetitions" in peer_text(found)


@pytest.mark.usefixtures("stand_in")
def test_coefficients_are_those_of_every_repetition_epsilon_and_member():
    tasks = [DEAL(np.random.default_rng(seed)) for seed in (1, 2)]
    rows, labels = np.stack([task.rows for task in tasks]), np.stack([task.labels for task in tasks])
    found = logistic_coefficients(sys.executable, rows, labels, (1.0, 3.0, 5.0), [2.5], 0)
    assert found.shape == (2, 3, 1, 4, 10)
    np.testing.assert_allclose(found[1, 2, 0, 3], 5 * (rows[1, 3] * labels[1, 3][:, None]).mean(axis=0))


def test_without_an_interpreter_it_is_left_out(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert mirror_averaged_diffprivlib(QUIET, "a figure", DEAL, 7, 2, (1.0,)) is None
    assert VARIABLE in peer_text(None)
    assert peer_lines(None) == []
    found = Measurements()
    for value in (0.5, 0.7):
        found.note("single", value, 1.0)
    assert rows_with_peer(found, ("single",), None, (1.0,))[0][-1] is None


@pytest.mark.parametrize("interpreter", [sys.executable, "no/such/interpreter"])
def test_an_interpreter_without_diffprivlib_is_told(monkeypatch, tmp_path, interpreter):
    monkeypatch.setenv(VARIABLE, interpreter)
    (tmp_path / "diffprivlib.py").write_text("raise ImportError('not here')", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DataUnavailable, match=VARIABLE):
        mirror_averaged_diffprivlib(QUIET, "a figure", DEAL, 7, 2, (1.0,))

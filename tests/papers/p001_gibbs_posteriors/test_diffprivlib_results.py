"""diffprivlib beside one draw: the best of its penalties in another interpreter, and left out where there is none."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sudare.papers.diffprivlib_models import VARIABLE
from sudare.papers.p001_gibbs_posteriors.diffprivlib_results import INVERSE_PENALTIES, Split, best_accuracies, peer_text

QUIET = lambda text: None  # noqa: E731

# In place of the library: right about every row at C = 0.1 and ε ≥ 1, wrong about every row elsewhere.
STAND_IN = """
class LogisticRegression:
    def __init__(self, epsilon, data_norm, C, fit_intercept, max_iter, random_state):
        assert data_norm == 2.0 and not fit_intercept
        self.sign = 1.0 if C == 0.1 and epsilon >= 1 else -1.0

    def fit(self, rows, labels):
        self.coef_ = self.sign * (rows * labels[:, None]).mean(axis=0)[None]
        return self
"""


def split(number):
    rows = 2 * np.eye(4)[[0, 0, 1, 1]]
    return Split(rows, np.array([1.0, 1.0, -1.0, -1.0]), rows[1:3], np.array([1.0, -1.0]), norm=2.0)


def test_the_penalty_that_is_best_on_the_test_rows_is_kept(monkeypatch, tmp_path):
    package = tmp_path / "diffprivlib"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "models.py").write_text(STAND_IN, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(VARIABLE, sys.executable)
    assert 0.1 in INVERSE_PENALTIES
    found = best_accuracies(QUIET, "a table", split, 2, (0.5, 1.0))
    assert [found[0.5].value, found[1.0].value] == [0.0, 1.0]
    assert "2 repetitions" in peer_text(found)


@pytest.mark.parametrize("named", [None, ""])
def test_without_an_interpreter_it_is_left_out(monkeypatch, named):
    monkeypatch.delenv(VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(VARIABLE, named)
    assert best_accuracies(QUIET, "a table", split, 2, (1.0,)) is None
    assert VARIABLE in peer_text(None)

"""diffprivlib beside the product on Adult: the best of its penalties in another interpreter, and left out where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL
from sudare.papers.diffprivlib_models import NOT_RUN, VARIABLE
from sudare.papers.p002_networks import diffprivlib_results
from sudare.papers.p002_networks.census import Split
from sudare.schema import encode
from tests.papers.made_up_tables import made_up_adult

QUIET = lambda text: None  # noqa: E731


@pytest.fixture(scope="module")
def split() -> Split:
    rows = made_up_adult(300, np.random.default_rng(0))
    return Split(rows.iloc[:200], rows.iloc[200:])


def signs_of(split: Split) -> np.ndarray:
    return np.where(split.train[LABEL] == ADULT_SCHEMA.columns[LABEL].classes[1], 1.0, -1.0)


def test_scores_are_those_of_the_returned_coefficients(split: Split) -> None:
    """Coefficients of least squares at one ε, their opposite at another: as often right as the other is wrong."""
    train = encode(ADULT_SCHEMA, split.train, "binned").matrix
    fitted = np.linalg.lstsq(train, signs_of(split), rcond=None)[0]

    def coefficients(rows, labels, epsilons, penalties, seed, norm):
        np.testing.assert_array_equal(rows[0, 0], train)
        np.testing.assert_array_equal(labels[0, 0], signs_of(split))
        assert np.linalg.norm(train, axis=1).max() <= norm * (1 + 1e-12)
        return np.array([[[[sign * fitted]] * len(penalties) for sign in (1.0, -1.0)]])

    found = diffprivlib_results.peer_scores(coefficients, split, (1.0, 2.0), 0)
    assert found[0.1, 1.0].accuracy + found[0.1, 2.0].accuracy == pytest.approx(1.0)
    assert found[0.1, 1.0].accuracy > 0.5


def test_without_an_interpreter_ours_stands_alone(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = diffprivlib_results.measured(QUIET, 2, (1.0,), split)
    table = diffprivlib_results.table(found, (1.0,))
    assert [cell is None for cell in table.rows[0]] == [False, False, False, True, True]
    assert NOT_RUN in table.says


def test_the_penalty_with_the_best_accuracy_counts(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = diffprivlib_results.measured(QUIET, 2, (1.0,), split)
    for C in 2 * diffprivlib_results.INVERSE_PENALTIES:
        found.note(f"C = {C:g}", diffprivlib_results.Scores(0.9 if C == 1.0 else 0.5, C), 1.0)
    assert [each.value for each in diffprivlib_results.best(found, 1.0)] == [0.9, 1.0]
    assert "the best of 5 C" in diffprivlib_results.table(found, (1.0,)).says

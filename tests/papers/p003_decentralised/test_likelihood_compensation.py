"""Likelihood compensation names the variable that was changed, and by how much."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.dictionary import MemberModel
from sudare.dictionary.column_families import Poisson
from sudare.dictionary.exponential_families import Patterns
from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.likelihood_compensation import (
    likelihood_compensation,
    mixture_compensation,
    single_variable_compensation,
)
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth


def test_a_regression_says_which_input_was_shifted():
    random = np.random.default_rng(0)
    X, slopes = random.normal(size=(200, 4)), np.array([1.0, -2.0, 0.5, 0.0])
    y = X @ slopes + 0.1 * random.normal(size=200)
    faulty = X.copy()
    faulty[:, 1] += 1.5
    found = likelihood_compensation(lambda rows: rows @ slopes, faulty, y, sigma=0.1, ridge=0.0, lasso=1.0)
    assert np.argmax(np.abs(found)) == 1
    assert found[1] == pytest.approx(-1.5, abs=0.1)
    assert found[3] == 0


def test_one_record_is_enough_and_nothing_is_compensated_where_all_is_well():
    found = likelihood_compensation(lambda rows: rows.sum(axis=1), [[1.0, 2.0]], [3.0], lasso=0.1)
    np.testing.assert_array_equal(found, [0.0, 0.0])


def test_the_changed_variable_gains_most_and_is_put_right():
    truth = chapter_truth()
    model = truth.model(0)
    records = truth.of_patterns(np.random.default_rng(0), np.zeros(200, dtype=np.intp))
    faulty = records.copy()
    faulty[:, 2] += 4.0
    single = single_variable_compensation(model, faulty)
    assert np.mean(np.argmax(single.gains, axis=1) == 2) > 0.6
    assert np.median(single.shifts[:, 2]) == pytest.approx(-4.0, abs=0.3)
    assert np.all(single.gains >= -1e-9)
    # The gain is what the score falls by.
    moved = faulty.copy()
    moved[:, 2] += single.shifts[:, 2]
    fallen = model.score_samples(faulty) - model.score_samples(moved)
    np.testing.assert_allclose(single.gains[:, 2], fallen, atol=1e-9)


def test_the_best_single_correction_is_the_highest_peak():
    """Against a grid of corrections."""
    truth = chapter_truth()
    model, record = truth.model(1), np.array([[2.0, 3.0, 1.0, 4.0]])
    single = single_variable_compensation(model, record)
    for column in range(4):
        grid = np.repeat(record, 4001, axis=0)
        grid[:, column] += np.linspace(-20, 20, 4001)
        assert single.gains[0, column] == pytest.approx(
            model.score_samples(record)[0] - model.score_samples(grid).min(), abs=1e-4
        )


def test_all_variables_at_once():
    truth = chapter_truth()
    record = truth.means[[0]] + [0.0, 0.0, 6.0, 0.0]
    found = mixture_compensation(truth.model(0), record, lasso=0.5)
    assert np.argmax(np.abs(found[0])) == 2
    assert found[0, 2] < -2
    usual = mixture_compensation(truth.model(0), truth.means[[0]])
    np.testing.assert_allclose(usual, 0, atol=1e-9)


def test_only_gaussian_patterns_and_matching_lengths():
    other = MemberModel(Poisson(), Patterns({"rates": np.ones((1, 2))}), np.ones(1), ("a", "b"))
    with pytest.raises(InvalidParameter, match="Gaussian"):
        single_variable_compensation(other, np.ones((3, 2)))
    with pytest.raises(DataError):
        likelihood_compensation(lambda rows: rows[:, 0], np.ones((3, 2)), np.ones(4))


@pytest.mark.parametrize("predict", [lambda X: X, lambda X: X[:1, 0], lambda X: np.array(["a"] * len(X))])
def test_a_model_answers_one_number_a_record(predict):
    """A column in place of numbers would be compared with every record's output."""
    with pytest.raises(DataError, match="predict"):
        likelihood_compensation(predict, np.ones((3, 1)), [1.0, 2.0, 3.0])

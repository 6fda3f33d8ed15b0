"""Own plus consensus: the fit against scikit-learn, and what happens at the ends of trust."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter
from sudare.experts import OwnPlusConsensus
from sudare.experts.batched_ridge_cross_validation import batch_fitted
from sudare.experts.own_plus_consensus import (
    MOST_DOUBT,
    Consensus,
    consensus_of,
    consensus_without_each,
    own_plus_consensus,
)
from tests.experts.members import ColumnScore, Line, RegressionLine


@pytest.fixture
def task():
    generator = np.random.default_rng(7)
    designs = generator.normal(size=(4, 30, 3))
    return designs, np.where(designs[:, :, 0] + 0.5 * generator.normal(size=(4, 30)) > 0, 1.0, -1.0)


def test_agreement_is_trusted_and_noise_is_not():
    generator = np.random.default_rng(9)
    agreed = consensus_of(np.array([1.0, 0.0]) + 1e-3 * generator.normal(size=(20, 2)))
    # The squared standard error of the mean is 2e-6/20 = 1e-7 in expectation.
    assert 1e-8 < agreed.doubts[0] <= 1e-6
    np.testing.assert_allclose(agreed.directions[0], [1, 0], atol=1e-2)
    opposed = consensus_of(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    assert opposed.doubts[0] == pytest.approx(MOST_DOUBT)
    np.testing.assert_array_equal(opposed.directions[0], 0)
    assert consensus_of(np.array([[3.0, 4.0]])).doubts[0] == 1


def test_doubt_is_the_squared_tangent_of_the_angle_to_the_truth():
    """ρ estimates cos², so κ estimates tan², here over 200 draws; noise of 0.5 a coordinate, 30 messages, 20 coordinates."""
    generator = np.random.default_rng(13)
    truth = np.eye(20)[0]
    reliabilities, cosines = [], []
    for _ in range(200):
        found = consensus_of(truth + 0.5 * generator.normal(size=(30, 20)))
        reliabilities.append(1 / (1 + found.doubts[0]))
        cosines.append(float(found.directions[0] @ truth) ** 2)
    # Both means have a standard error below 0.01; the seed is fixed.
    assert np.mean(reliabilities) == pytest.approx(np.mean(cosines), abs=0.03)


def test_leaving_each_out_is_the_consensus_of_the_rest():
    messages = np.random.default_rng(10).normal(size=(6, 3)) + 1
    together = consensus_without_each(messages)
    for number in range(6):
        rest = consensus_of(np.delete(messages, number, axis=0))
        np.testing.assert_allclose(together.directions[number], rest.directions[0])
        assert together.doubts[number] == pytest.approx(rest.doubts[0])


def test_no_direction_is_the_receiver_alone(task):
    designs, targets = task
    nothing = Consensus(np.zeros((4, 3)), np.ones(4))
    alone = batch_fitted(designs, targets, (10.0, 0.1), np.ones(3), "classification")
    theta, chosen = own_plus_consensus(designs, targets, nothing, (10.0, 0.1))
    np.testing.assert_allclose(theta, alone.coefficients, atol=1e-7)
    np.testing.assert_array_equal(chosen, alone.penalties)


def test_a_huge_penalty_leaves_only_the_consensus(task):
    designs, targets = task
    senders = [Line([1, 0.1 * shift, 0]) for shift in (-1, 0, 1)]
    model = OwnPlusConsensus(senders, penalty=1e4, fit_intercept=False).fit(designs[0], targets[0] > 0)
    np.testing.assert_allclose(model.coef_ / np.linalg.norm(model.coef_), [1, 0, 0], atol=0.02)
    assert model.intercept_ == 0


def test_helps_a_receiver_with_few_rows():
    generator = np.random.default_rng(11)
    truth = np.eye(20)[0]
    senders = [Line(truth + 0.5 * generator.normal(size=20)) for _ in range(30)]
    X, Z = generator.normal(size=(15, 20)), generator.normal(size=(2000, 20))
    together = OwnPlusConsensus(senders).fit(X, X @ truth > 0).score(Z, Z @ truth > 0)
    alone = OwnPlusConsensus([Line(np.zeros(20))]).fit(X, X @ truth > 0).score(Z, Z @ truth > 0)
    assert together > alone + 0.05


def test_regression_and_bad_experts():
    generator = np.random.default_rng(12)
    X = generator.normal(size=(40, 2))
    y = X @ [1.0, -1.0] + 0.1 * generator.normal(size=40)
    model = OwnPlusConsensus([RegressionLine([1.0, 0.0]), RegressionLine([0.9, 0.0])]).fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(InvalidParameter, match="linear experts"):
        OwnPlusConsensus([ColumnScore()]).fit(X, y > 0)
    with pytest.raises(InvalidParameter, match="number of coefficients"):
        OwnPlusConsensus([RegressionLine([1.0]), RegressionLine([1.0, 2.0])]).fit(X, y)
    with pytest.raises(DataError, match="3 coefficients"):
        OwnPlusConsensus([RegressionLine([1.0, 2.0, 3.0])]).fit(X, y)
    with pytest.raises(DataError, match="not finite"):
        OwnPlusConsensus([RegressionLine([1.0, np.nan])]).fit(X, y)


def test_a_known_doubt_is_used_instead_of_the_experts_agreement(task):
    designs, targets = task
    message = np.array([0.6, 0.8, 0.0])
    for doubt in (1e-3, 50.0):
        model = OwnPlusConsensus([Line(message)], doubt=doubt, fit_intercept=False).fit(designs[0], targets[0] > 0)
        known = Consensus(message[np.newaxis], np.array([doubt]))
        theta, _ = own_plus_consensus(designs[:1], targets[:1], known)
        np.testing.assert_allclose(model.coef_, theta[0], atol=1e-10)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidParameter, match="doubt"):
            OwnPlusConsensus([Line(message)], doubt=bad).fit(designs[0], targets[0] > 0)

"""A member's own model: scores, thresholds that keep their rate, and which column is to blame."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from sudare.dictionary import MemberModel, PatternDictionary
from sudare.dictionary.member_model import worst_columns
from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from tests.dictionary.kit import COLUMNS, FAMILIES, random_patterns, random_records

TRUTH = chapter_truth()


def some_model(family, seed, patterns=3):
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.ones(patterns))
    names = tuple(f"x{index}" for index in range(COLUMNS))
    return MemberModel(family, random_patterns(family, random, patterns), weights, names)


def test_scores_are_minus_log_density_of_the_mixture():
    """(1.88), (1.89)."""
    model = TRUTH.model(0)
    X = TRUTH.records(np.random.default_rng(0), 20)[0]
    density = sum(
        weight * stats.multivariate_normal(mean, np.linalg.inv(precision)).pdf(X)
        for weight, mean, precision in zip(TRUTH.weights[0], TRUTH.means, TRUTH.precisions, strict=True)
    )
    np.testing.assert_allclose(model.score_samples(X), -np.log(density), rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_responsibilities_are_probabilities_and_attributions_leave_the_rest(family, seed):
    """−ln p(x_i | rest) = score(x) − score(rest); for independent columns of one pattern they add up to the score."""
    random = np.random.default_rng(seed)
    model, X = some_model(family, seed), random_records(family, random, 6)
    np.testing.assert_allclose(model.responsibilities(X).sum(axis=1), 1.0)
    single = MemberModel(family, model.patterns.kept(np.array([0])), np.ones(1), model.columns)
    if family.name != "sparse_gaussian":
        np.testing.assert_allclose(single.attribution(X).sum(axis=1), single.score_samples(X), rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_attribution_is_the_conditional_density_of_the_mixture(seed):
    """Against the mixture of marginal Gaussians of the other columns."""
    random = np.random.default_rng(seed)
    model = some_model(FAMILIES[0], seed)
    X = random.normal(size=(4, COLUMNS))
    covariances = np.linalg.inv(model.patterns["precisions"])
    for column in range(COLUMNS):
        rest = np.delete(np.arange(COLUMNS), column)
        density = sum(
            weight * stats.multivariate_normal(mean[rest], covariance[np.ix_(rest, rest)]).pdf(X[:, rest])
            for weight, mean, covariance in zip(model.weights, model.patterns["means"], covariances, strict=True)
        )
        expected = model.score_samples(X) + np.log(density)
        np.testing.assert_allclose(model.attribution(X)[:, column], expected, rtol=1e-6, atol=1e-6)


def test_the_broken_sensor_is_named():
    """One sensor shows eight units less: it is blamed, or the one that it depends on, and no other."""
    random = np.random.default_rng(0)
    X = TRUTH.of_patterns(random, np.zeros(200, dtype=int))
    X[:, 2] -= 8.0
    model = TRUTH.model(0)
    blamed = worst_columns(model.attribution(X), model.columns)
    assert np.mean(blamed == "x2") > 0.9
    assert np.all(np.isin(blamed, ["x1", "x2"]))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("rate", [0.1, 0.01])
def test_the_models_own_threshold_keeps_its_rate_when_the_model_is_right(family, rate):
    """20,000 draws; six standard deviations and what discrete scores may tie."""
    model, random = some_model(family, 5), np.random.default_rng(1)
    labels = random.choice(3, 20_000, p=model.weights)
    uniforms = random.uniform(1e-9, 1 - 1e-9, (20_000, COLUMNS))
    X = np.concatenate([family.draws(model.patterns, k, uniforms[labels == k]) for k in range(3)])
    alarms = np.mean(model.predict(X, rate))
    slack = 6 * np.sqrt(rate * (1 - rate) / 20_000)
    assert alarms <= rate + slack
    # Codes and counts have few different scores, so their rate may be far below.
    if family.name not in ("categorical", "poisson"):
        assert alarms >= rate - slack


def test_a_calibrated_threshold_keeps_its_rate_whatever_the_model_is_worth():
    """A wrong model: unit Gaussians for records of another law. Split conformal holds all the same, exactly in expectation."""
    random = np.random.default_rng(0)
    wrong = TRUTH.model(1)
    usual = random.standard_t(2, size=(4000, 4))
    model = wrong.calibrated(usual[:1999])
    # 2,001 new records at rate 0.05 over the randomness of both halves: sd about 0.007, six of them.
    assert np.mean(model.predict(usual[1999:], 0.05)) == pytest.approx(0.05, abs=0.042)
    assert np.mean(wrong.predict(usual[1999:], 0.05)) > 0.3


def test_conformal_ranks_are_exact():
    model = TRUTH.model(0).calibrated(TRUTH.records(np.random.default_rng(0), 99)[0])
    assert model.threshold(0.01) == model.calibration[98]
    assert model.threshold(0.5) == model.calibration[49]
    with pytest.raises(DataError, match="999 calibration records, got 99"):
        model.threshold(0.001)


def test_nothing_private_is_shown():
    """Weights and calibration scores are exact functions of the member's records."""
    model = TRUTH.model(0).calibrated(TRUTH.records(np.random.default_rng(0), 99)[0])
    assert repr(model) == "MemberModel(3 sparse_gaussian patterns, 4 columns)"


def test_rates_are_probabilities():
    with pytest.raises(InvalidParameter, match="false_alarm_rate"):
        TRUTH.model(0).threshold(0.0)


def test_a_pattern_that_is_usual_elsewhere_is_strange_here():
    """Must show 7 in small: 30 records a member, pattern C absent at member 1; the study has the table."""
    areas, pooled = [], []
    for seed in range(4):
        random = np.random.default_rng(seed)
        fitted = PatternDictionary(6, hide="nothing").fit(TRUTH.records(random, 30))
        usual, strange = TRUTH.records(random, 500)[0], TRUTH.of_patterns(random, np.full(500, 2))
        labels = np.repeat([0, 1], 500)
        X = np.concatenate([usual, strange])
        areas.append(roc_auc_score(labels, fitted.member(0).score_samples(X)))
        everyone = MemberModel(
            fitted.dictionary_.family, fitted.patterns_, fitted.weights_.mean(axis=0), fitted.columns_
        )
        pooled.append(roc_auc_score(labels, everyone.score_samples(X)))
    assert min(areas) >= 0.99
    assert max(pooled) < 0.6


def test_dependencies_are_partial_correlations():
    found = TRUTH.model(0).partial_correlations
    assert found.shape == (3, 4, 4)
    assert found[0, 0, 3] == pytest.approx(-1 / 1.2)
    assert found[0, 0, 1] == 0
    with pytest.raises(InvalidParameter, match="independent"):
        _ = some_model(FAMILIES[1], 0).partial_correlations


def test_new_records_are_checked_and_not_clipped():
    model = TRUTH.model(0)
    far = np.full((1, 4), 1e6)
    assert model.score_samples(far)[0] > 1e9
    for bad, reason in (
        (np.array([[1.0, 2, 3]]), "3 columns"),
        (np.array([[1.0, 2, 3, np.nan]]), "gaps"),
        (np.zeros(4), "two-dimensional"),
        (np.array([["a", "b", "c", "d"]]), "numbers"),
    ):
        with pytest.raises(DataError, match=reason):
            model.score_samples(bad)
    with pytest.raises(DataError, match="whole numbers"):
        some_model(FAMILIES[2], 0).score_samples(np.full((1, 3), 0.5))

"""Executable errata of paper 003, its dictionary: one test for each correction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from sudare.dictionary import PatternDictionary
from sudare.dictionary.exponential_families import Frame, Overall, Patterns, symmetric
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.dictionary.pattern_selection import normal_points
from sudare.errors import DataError, NotSolved
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from tests.dictionary.kit import random_precision

SHRINKAGE, SPARSITY = 2.0, 1.0


def one_pattern(seed=0):
    """N, m, C and a precision matrix that is not a multiple of the identity."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(20, 3)) + [1.0, -2.0, 0.5]
    return X, random_precision(random)


def mean_slope(mean, X, precision, prior_precision):
    """The gradient of ln likelihood + ln N(μ | 0, prior⁻¹) by the mean."""
    return precision @ (X - mean).sum(axis=0) - prior_precision @ mean


def test_1_59_is_the_maximum_for_the_prior_with_lambda_and_not_for_1_55():
    X, precision = one_pattern()
    mean = X.sum(axis=0) / (SHRINKAGE + len(X))
    corrected = mean_slope(mean, X, precision, SHRINKAGE * precision)
    printed = mean_slope(mean, X, precision, SHRINKAGE * np.eye(3))
    assert np.abs(corrected).max() < 1e-9
    assert np.abs(printed).max() > 0.1


def objective(X, mean, precision, prior):
    """ln likelihood + ln prior of a single pattern, up to constants."""
    residuals = X - mean
    likelihood = len(X) * np.linalg.slogdet(precision)[1] - np.einsum("ni,ij,nj->", residuals, precision, residuals)
    if prior == "corrected":
        shrunk = np.linalg.slogdet(precision)[1] - SHRINKAGE * mean @ precision @ mean
    else:
        shrunk = -SHRINKAGE * mean @ mean
    return 0.5 * (likelihood + shrunk - SPARSITY * np.abs(precision).sum())


def test_1_61_has_the_wrong_sign():
    """C/N + μμᵀ is farther from the covariance than the records' own spread; C/N − μμᵀ is it."""
    X, _ = one_pattern()
    mean, second = X.mean(axis=0), X.T @ X / len(X)
    np.testing.assert_allclose(second - np.outer(mean, mean), np.cov(X.T, bias=True), atol=1e-12)
    assert np.linalg.norm(second + np.outer(mean, mean) - np.cov(X.T, bias=True)) > 5


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_pair_beats_the_printed_update(seed):
    """Σ = (C − (N+λ₀)μμᵀ)/(N+1) and ρ = ρ₀/(N+1) maximise; with the sign put right alone, something is left to gain."""
    X, _ = one_pattern(seed)
    family = SparseGaussian(shrinkage=SHRINKAGE, sparsity=SPARSITY)
    counts, statistics = np.array([float(len(X))]), family.statistics(X).sum(axis=0, keepdims=True)
    best = family.updated(counts, statistics)
    mean = best["means"][0]
    reached = objective(X, mean, best["precisions"][0], "corrected")
    second = X.T @ X / len(X)
    signed = graphical_lasso(second - np.outer(mean, mean), SPARSITY / len(X), penalize_diagonal=True).precision
    printed = graphical_lasso(second + np.outer(mean, mean), SPARSITY / len(X), penalize_diagonal=True).precision
    assert reached >= objective(X, mean, signed, "corrected") + 1e-4
    assert objective(X, mean, signed, "corrected") > objective(X, mean, printed, "corrected") + 1


def chapter_em(seed, update, iterations=60, start=6, concentration=1.01):
    """EM on the chapter's example in one place and its own units, from random responsibilities as the chapter says (figure 1.8).

    Returns the patterns' counts, and the objectives on the way. Patterns with less than one record are removed.
    """
    random = np.random.default_rng(seed)
    members = chapter_truth().records(random, 300)
    family = SparseGaussian(shrinkage=0.1, sparsity=1.0)
    shares = [random.dirichlet(np.ones(start), size=300) for _ in members]
    patterns, objectives = None, []
    for _ in range(iterations):
        counts = sum(own.sum(axis=0) for own in shares)
        staying = counts >= 1
        shares = [own[:, staying] / own[:, staying].sum(axis=1, keepdims=True) for own in shares]
        counts = sum(own.sum(axis=0) for own in shares)
        statistics = sum(own.T @ family.statistics(X) for own, X in zip(shares, members, strict=True))
        patterns = update(family, counts, statistics, None)
        total, following = family.log_prior(patterns), []
        for own, X in zip(shares, members, strict=True):
            raised = own.sum(axis=0) + concentration - 1
            log_weights = np.log(raised / raised.sum())
            joint = family.log_densities(X, patterns) + log_weights
            log_total = logsumexp(joint, axis=1, keepdims=True)
            following.append(np.exp(joint - log_total))
            total += log_total.sum() + (concentration - 1) * log_weights.sum()
        objectives.append(total)
        shares = following
    return sum(own.sum(axis=0) for own in shares), np.array(objectives)


def printed_update(family, counts, statistics, previous):
    """(1.59), (1.60), (1.61) as printed."""
    means = statistics[:, :4] / (family.shrinkage + counts)[:, np.newaxis]
    second = symmetric(statistics[:, 4:], 4) / counts[:, np.newaxis, np.newaxis]
    covariances = second + means[:, :, np.newaxis] * means[:, np.newaxis]
    precisions = [
        graphical_lasso(covariance, family.sparsity / count, penalize_diagonal=True).precision
        for covariance, count in zip(covariances, counts, strict=True)
    ]
    return Patterns({"means": means, "precisions": np.stack(precisions)})


def exact_update(family, counts, statistics, previous):
    return family.updated(counts, statistics, previous)


def test_the_objective_rises_with_the_exact_update_and_falls_with_the_printed_one():
    _, exact = chapter_em(1, exact_update)
    assert np.all(np.diff(exact) > -1e-6)
    _, printed = chapter_em(1, printed_update)
    assert np.diff(printed).min() < -1.0


@pytest.mark.long
def test_a_small_positive_gamma_minus_one_does_not_prune():
    """From six patterns more than three are left in all of ten runs; merging by BIC finds the three in the same data."""
    left = [np.count_nonzero(chapter_em(seed, exact_update)[0] >= 1) for seed in range(10)]
    assert min(left) > 3
    tables = chapter_truth().records(np.random.default_rng(0), 300)
    assert PatternDictionary(6, hide="nothing").fit(tables).n_patterns_ == 3


def members_with_inexact_sums(offset, error=1e-3, iterations=40):
    """EM in which every member's totals are off by a relative error of its own; the members' precisions at the end."""
    random = np.random.default_rng(0)
    family = SparseGaussian(sparsity=1.0)
    tables = [table + offset for table in chapter_truth().records(random, 300)]
    everything = np.concatenate(tables)
    centre, scale = everything.mean(axis=0), everything.std(axis=0)
    standard = family.start(normal_points(6, 4), Overall(900, np.zeros(4), np.corrcoef(everything.T)))
    patterns = [family.natural(standard, Frame(centre, scale))] * 3
    weights = [np.full(6, 1 / 6)] * 3
    for _ in range(iterations):
        parts = [family.expected(tables[s], weights[s], patterns[s]) for s in range(3)]
        weights = [(part.counts + 0.01) / (part.counts + 0.01).sum() for part in parts]
        for member in range(3):
            counts = sum(part.counts for part in parts) * (1 + error * random.uniform(-1, 1, 6))
            statistics = sum(part.statistics for part in parts) * (1 + error * random.uniform(-1, 1, (6, 14)))
            patterns[member] = family.updated(counts, statistics, patterns[member])
    return [each["precisions"] for each in patterns]


def test_inexact_sums_drive_members_apart():
    """An error of a thousandth in the sums is one of a twentieth and more in the patterns, and members disagree about them."""
    first, second, _ = members_with_inexact_sums(offset=0.0)
    sizes = np.linalg.norm(first, axis=(1, 2))
    assert np.max(np.linalg.norm(first - second, axis=(1, 2)) / sizes) > 0.05


def test_inexact_sums_of_records_that_are_not_centred_have_no_patterns():
    """Twenty units away from zero the covariance is a small difference of large sums; it is not positive any more."""
    with pytest.raises((NotSolved, DataError)):
        members_with_inexact_sums(offset=20.0)


def test_the_sign_function_of_1_64_must_take_its_ends():
    """Where |g| = ρ exactly, Λ₁₂ = 0 is the solution and (1.66) needs sign(Λ₁₂) = −1: printed is the open interval."""
    penalty = 0.3
    S = np.array([[1.0, penalty], [penalty, 1.0]])
    found = graphical_lasso(S, penalty, tol=1e-12, penalize_diagonal=True)
    assert found.precision[0, 1] == 0
    needed = (np.linalg.inv(found.precision)[0, 1] - S[0, 1]) / penalty
    assert needed == pytest.approx(-1.0)

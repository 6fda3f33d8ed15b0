"""Every family: densities that are densities, statistics that suffice, updates that maximise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from sudare.dictionary.column_families import Categorical, Gamma, Poisson, gamma_shapes
from sudare.dictionary.exponential_families import Frame, Overall, Patterns
from sudare.dictionary.gaussian_families import (
    DiagonalGaussian,
    SparseGaussian,
    column_count,
    moderated_variances,
    partial_correlations,
)
from sudare.errors import DataError, InvalidParameter
from tests.dictionary.kit import COLUMNS, FAMILIES, random_patterns, random_precision, random_records

seeds = st.integers(0, 10**6)
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def library_log_densities(family, X, patterns, k):
    """The same densities by scipy, column by column or whole."""
    if isinstance(family, SparseGaussian):
        return stats.multivariate_normal(patterns["means"][k], np.linalg.inv(patterns["precisions"][k])).logpdf(X)
    if isinstance(family, DiagonalGaussian):
        return stats.norm(patterns["means"][k], patterns["precisions"][k] ** -0.5).logpdf(X).sum(axis=1)
    if isinstance(family, Poisson):
        return stats.poisson(patterns["rates"][k]).logpmf(X).sum(axis=1)
    if isinstance(family, Gamma):
        return stats.gamma(patterns["shapes"][k], scale=1 / patterns["rates"][k]).logpdf(X).sum(axis=1)
    starts = np.cumsum([0, *family.levels[:-1]])
    codes = X.astype(int)
    return sum(np.log(patterns["probabilities"][k][starts[c] + codes[:, c]]) for c in range(len(family.levels)))


@families
@given(seed=seeds)
def test_densities_are_those_of_the_library(family, seed):
    random = np.random.default_rng(seed)
    patterns, X = random_patterns(family, random), random_records(family, random, 7)
    found = family.log_densities(X, patterns)
    for k in range(2):
        np.testing.assert_allclose(found[:, k], library_log_densities(family, X, patterns, k), rtol=1e-9, atol=1e-9)


@families
@given(seed=seeds)
def test_one_pass_is_responsibilities_times_statistics(family, seed):
    """The fused loops and the plain formula (1.11), (1.57) agree."""
    random = np.random.default_rng(seed)
    patterns, X = random_patterns(family, random, 3), random_records(family, random, 20)
    weights = random.dirichlet(np.ones(3))
    joint = family.log_densities(X, patterns) + np.log(weights)
    shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    found = family.expected(X, weights, patterns)
    np.testing.assert_allclose(found.counts, shares.sum(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.statistics, shares.T @ family.statistics(X), rtol=1e-8, atol=1e-8)
    assert found.log_likelihood == pytest.approx(logsumexp(joint, axis=1).sum())


@families
@given(seed=seeds)
def test_parts_of_a_pass_add_up(family, seed):
    random = np.random.default_rng(seed)
    patterns, X = random_patterns(family, random), random_records(family, random, 9)
    weights = np.array([0.3, 0.7])
    whole = family.expected(X, weights, patterns)
    parts = family.expected(X[:4], weights, patterns) + family.expected(X[4:], weights, patterns)
    np.testing.assert_allclose(parts.statistics, whole.statistics, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.counts, whole.counts, rtol=1e-12)


def nearby(patterns, family, random, size):
    """Valid patterns a little away, with the zeros of a sparse precision kept or filled at random."""
    arrays = {}
    for name, array in patterns.arrays.items():
        noise = random.normal(size=array.shape)
        if array.ndim == 3:
            noise = (noise + noise.transpose(0, 2, 1)) / 2
            arrays[name] = array + size * noise
        elif name == "probabilities":
            arrays[name] = family._normal(array * np.exp(size * noise))
        elif name == "means":
            arrays[name] = array + size * noise
        else:
            arrays[name] = array * np.exp(size * noise)
    return type(patterns)(arrays)


@families
@given(seed=seeds, size=st.sampled_from([1e-3, 1e-2, 0.1]))
def test_the_update_maximises_likelihood_times_prior(family, seed, size):
    """(1.17): no other patterns make the expected log-likelihood plus the log prior larger."""
    random = np.random.default_rng(seed)
    X = random_records(family, random, 30)
    shares = random.dirichlet(np.ones(2), size=30)
    counts, statistics = shares.sum(axis=0), shares.T @ family.statistics(X)

    def objective(patterns):
        return np.sum(shares * family.log_densities(X, patterns)) + family.log_prior(patterns)

    best = family.updated(counts, statistics)
    other = nearby(best, family, random, size)
    if isinstance(family, SparseGaussian) and np.any(np.linalg.eigvalsh(other["precisions"]) <= 0):
        return
    # The sparse solver certifies 1e-9 nats for each of 30 records and two patterns; the rest is exact.
    assert objective(other) <= objective(best) + 1e-6


@families
@given(seed=seeds)
def test_conditionals_are_the_density_over_that_of_the_other_columns(family, seed):
    """ln f(x_i | rest) = ln f(x) − ln f(rest), the latter by marginalising a Gaussian or by leaving columns out."""
    random = np.random.default_rng(seed)
    patterns, X = random_patterns(family, random, 1), random_records(family, random, 5)
    found = family.conditional_log_densities(X, patterns)[:, 0]
    whole = family.log_densities(X, patterns)[:, 0]
    if not isinstance(family, SparseGaussian):
        np.testing.assert_allclose(found.sum(axis=1), whole, rtol=1e-9, atol=1e-9)
        return
    covariance = np.linalg.inv(patterns["precisions"][0])
    for column in range(COLUMNS):
        rest = np.delete(np.arange(COLUMNS), column)
        law = stats.multivariate_normal(patterns["means"][0][rest], covariance[np.ix_(rest, rest)])
        np.testing.assert_allclose(found[:, column], whole - law.logpdf(X[:, rest]), rtol=1e-7, atol=1e-7)


@families
@given(seed=seeds)
def test_natural_units_change_the_density_by_the_scales_alone(family, seed):
    random = np.random.default_rng(seed)
    patterns, Z = random_patterns(family, random), random_records(family, random, 6)
    if isinstance(family, Poisson | Categorical):
        frame = Frame(np.zeros(COLUMNS), np.ones(COLUMNS))
    else:
        centre = np.zeros(COLUMNS) if isinstance(family, Gamma) else random.normal(size=COLUMNS)
        frame = Frame(centre, random.uniform(0.1, 10, COLUMNS))
    natural = family.log_densities(frame.undone(Z), family.natural(patterns, frame))
    np.testing.assert_allclose(
        natural, family.log_densities(Z, patterns) - np.log(frame.scale).sum(), rtol=1e-8, atol=1e-8
    )


def test_quantiles_of_large_rates_are_those_of_the_law():
    """On both sides of the rate from which on they are expanded, and finite at the very edge; 10¹⁰ is as good as normal."""
    uniforms = np.append(np.linspace(1e-6, 1 - 1e-6, 40), 0.0)[:, np.newaxis]
    for rate in (1e6, 1.000001e6, 3e6):
        drawn = Poisson().draws(Patterns({"rates": np.array([[rate]])}), 0, uniforms)
        assert np.isfinite(drawn).all()
        np.testing.assert_allclose(drawn[:-1], stats.poisson.ppf(uniforms[:-1], rate), atol=1)
    drawn = Poisson().draws(Patterns({"rates": np.array([[1e10]])}), 0, uniforms[:-1])
    np.testing.assert_allclose((drawn - 1e10) / 1e5, stats.norm.ppf(uniforms[:-1]), atol=1e-4)


@families
def test_draws_follow_the_pattern(family):
    """Kolmogorov–Smirnov or chi-square on 4,000 evenly spread uniforms, which are closer to the law than random ones."""
    random = np.random.default_rng(1)
    patterns = random_patterns(family, random, 1)
    X = family.draws(patterns, 0, stats.qmc.Sobol(COLUMNS, scramble=False).fast_forward(1).random(4096))
    expected = family.statistics(X).mean(axis=0)
    # Refitting to the draws, nearly without a prior, gives the pattern back.
    refitted = type(family)(**{**vars(family), "shrinkage": 1e-9}).updated(
        np.array([1e6]), 1e6 * expected[np.newaxis], patterns
    )
    for name, array in patterns.arrays.items():
        np.testing.assert_allclose(refitted[name], array, rtol=0.05, atol=0.02)


@families
@given(seed=seeds, skip=st.integers(0, 5))
def test_starts_and_halves_are_valid_patterns(family, seed, skip):
    random = np.random.default_rng(seed)
    X = family.opening(random_records(family, random, 40))
    spread = np.cov(X.T) if family.opens_with_pairs else np.diag(X.var(axis=0) + 1e-6)
    overall = Overall(40, X.mean(axis=0), spread)
    points = random.normal(size=(4, X.shape[1]))
    start = family.start(points, overall)
    assert len(start) == 4
    Z = family.frame(overall).applied(random_records(family, random, 5))
    assert np.isfinite(family.log_densities(Z, start)).all()
    for direction in (None, points[0]):
        halves = family.halves(start.kept(np.array([skip % 4])), direction)
        assert len(halves) == 2
        assert np.isfinite(family.log_densities(Z, halves)).all()
        assert not np.allclose(family.log_densities(Z, halves)[:, 0], family.log_densities(Z, halves)[:, 1])


@given(seed=seeds)
def test_the_halves_of_a_gaussian_have_its_moments(seed):
    """Mean and covariance of the two halves together are those of the pattern that was split."""
    random = np.random.default_rng(seed)
    family = SparseGaussian()
    pattern = random_patterns(family, random, 1)
    halves = family.halves(pattern, random.normal(size=COLUMNS))
    np.testing.assert_allclose(halves["means"].mean(axis=0), pattern["means"][0], atol=1e-9)
    apart = (halves["means"][0] - halves["means"][1]) / 2
    together = np.linalg.inv(halves["precisions"]).mean(axis=0) + np.outer(apart, apart)
    np.testing.assert_allclose(together, np.linalg.inv(pattern["precisions"][0]), rtol=1e-6, atol=1e-8)


@families
@given(seed=seeds)
def test_statistics_stay_within_their_limits(family, seed):
    """Whatever the responsibilities, as long as the frame comes from the same records."""
    random = np.random.default_rng(seed)
    X = random_records(family, random, 30)
    opening = family.opening(X)
    overall = Overall(30, opening.mean(axis=0), np.diag(opening.var(axis=0) + 1e-12))
    if isinstance(family, SparseGaussian | DiagonalGaussian):
        overall = Overall(30, X.mean(axis=0), np.cov(X.T, bias=True))
    Z = family.frame(overall).applied(X)
    shares = random.dirichlet(np.ones(3) * 0.3, size=30)
    limits = family.statistic_limits(overall)
    assert np.all(np.abs(shares.T @ family.statistics(Z)) <= limits * (1 + 1e-9))
    # Whatever the responsibilities, the patterns' sums add up to what the opening told.
    whole = family.whole(overall)
    known = np.isfinite(whole)
    assert known.any()
    np.testing.assert_allclose((shares.T @ family.statistics(Z)).sum(axis=0)[known], whole[known], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("family", "bad"),
    [
        (Poisson(), [[1.5, 2.0]]),
        (Poisson(), [[-1.0, 2.0]]),
        (Gamma(), [[0.0, 1.0]]),
        (Categorical(levels=(2, 3)), [[2.0, 0.0]]),
        (Categorical(levels=(2, 3)), [[0.5, 0.0]]),
    ],
)
def test_records_of_another_kind_are_refused(family, bad):
    assert family.fault(np.array(bad)) is not None


def test_records_of_the_kind_are_not():
    assert Poisson().fault(np.array([[0.0, 7.0]])) is None
    assert Gamma().fault(np.array([[1e-9, 7.0]])) is None
    assert Categorical(levels=(2, 3)).fault(np.array([[1.0, 2.0]])) is None
    assert SparseGaussian().fault(np.array([[-1e9, 0.0]])) is None


def test_levels_must_be_known_for_codes():
    with pytest.raises(InvalidParameter, match="levels"):
        Categorical().statistics(np.zeros((2, 2)))


@pytest.mark.parametrize("constant", ["shrinkage", "sparsity"])
def test_constants_of_priors_are_positive(constant):
    with pytest.raises(InvalidParameter, match=constant):
        SparseGaussian(**{constant: 0.0})


@given(st.floats(1e-8, 50))
def test_gamma_shapes_solve_their_equation(distance):
    shape = gamma_shapes(np.array([[distance]]))[0, 0]
    from scipy.special import digamma

    assert np.log(shape) - digamma(shape) == pytest.approx(distance, rel=1e-6, abs=1e-12)


def test_partial_correlations_by_regression():
    """(1.62) is the correlation of what is left of two columns after regressing on the others."""
    precision = random_precision(np.random.default_rng(3), 4)
    covariance = np.linalg.inv(precision)
    found = partial_correlations(precision[np.newaxis])[0]
    rest = [2, 3]
    explained = covariance[:2, 2:] @ np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[2:, :2])
    left = covariance[:2, :2] - explained
    assert found[0, 1] == pytest.approx(left[0, 1] / np.sqrt(left[0, 0] * left[1, 1]))
    np.testing.assert_array_equal(np.diag(found), np.ones(4))


@given(st.integers(1, 60))
def test_columns_are_counted_from_statistics(columns):
    assert column_count(columns + columns * (columns + 1) // 2) == columns


def test_a_length_that_is_none_is_refused():
    with pytest.raises(DataError, match="triangle"):
        column_count(7)


def test_fixed_supports_are_kept_and_not_penalised():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3)) @ random_precision(random)
    support = np.eye(3, dtype=bool)
    support[0, 1] = support[1, 0] = True
    family = SparseGaussian().with_supports((support,))
    counts, statistics = np.array([200.0]), family.statistics(X).sum(axis=0, keepdims=True)
    precision = family.updated(counts, statistics)["precisions"][0]
    assert np.all((np.abs(precision) > 1e-9) == support)
    # Where the support allows an entry, the fitted covariance equals the one that was given, the prior's diagonal aside.
    fitted, given_covariance = np.linalg.inv(precision), family.covariances(counts, statistics)[0]
    assert fitted[0, 1] == pytest.approx(given_covariance[0, 1], rel=1e-4)
    np.testing.assert_allclose(np.diag(fitted), np.diag(given_covariance) + 0.5 / 201, rtol=1e-4)
    assert family.for_patterns(np.array([0])).supports is not None


def test_variances_are_moderated_where_noise_explains_their_differences_and_kept_where_it_does_not():
    """Simulated risk of ln s² around the truth: equal variances gain most of it, very different ones lose next to nothing."""
    random = np.random.default_rng(0)
    counts = np.full(4, 50.0)
    for spread, most in ((0.0, 0.35), (3.0, 1.01)):
        risk = {"plain": 0.0, "moderated": 0.0}
        for _ in range(400):
            true = np.exp(spread * random.normal(size=(4, 5)))
            sample = true * random.chisquare(50, size=(4, 5)) / 50
            risk["plain"] += np.sum(np.log(sample / true) ** 2)
            risk["moderated"] += np.sum(np.log(moderated_variances(sample, counts) / true) ** 2)
        assert risk["moderated"] < most * risk["plain"]


@given(st.integers(1, 5), st.integers(1, 5), seeds)
def test_moderated_variances_are_positive_and_between(patterns, columns, seed):
    random = np.random.default_rng(seed)
    variances = np.exp(random.normal(size=(patterns, columns)))
    found = moderated_variances(variances, random.uniform(5, 100, patterns))
    assert np.all(found > 0)
    assert np.all(found <= variances.max(axis=0) * (1 + 1e-9))
    assert np.all(found >= variances.min(axis=0) * (1 - 1e-9))
    if (patterns - 1) * columns <= 2:
        np.testing.assert_array_equal(found, variances)


@pytest.mark.parametrize("family", FAMILIES[:2], ids=lambda family: family.name)
def test_moderation_changes_variances_alone(family):
    random = np.random.default_rng(0)
    patterns, counts = random_patterns(family, random, 3), np.full(3, 40.0)
    found = family.moderated(patterns, counts)
    np.testing.assert_array_equal(found["means"], patterns["means"])
    if family.name == "sparse_gaussian":
        np.testing.assert_allclose(
            partial_correlations(found["precisions"]), partial_correlations(patterns["precisions"]), atol=1e-12
        )
        before, after = (np.diagonal(np.linalg.inv(each["precisions"]), axis1=1, axis2=2) for each in (patterns, found))
    else:
        before, after = 1 / patterns["precisions"], 1 / found["precisions"]
    np.testing.assert_allclose(after, moderated_variances(before, counts), rtol=1e-9)


def test_other_families_are_left_as_they_are():
    patterns = random_patterns(FAMILIES[2], np.random.default_rng(0))
    assert FAMILIES[2].moderated(patterns, np.ones(2)) is patterns

"""The graphical lasso: conditions of optimality, a gap that is a certificate, and the same answer by every way."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import graphical_lasso as graphical_lasso_of_scikit_learn

from sudare.compiled_loops import compiled
from sudare.dictionary import graphical_lasso_newton_kernels as newton_kernels
from sudare.dictionary.graphical_lasso import GraphicalLassoResult, graphical_lasso
from sudare.dictionary.graphical_lasso_interior_point import interior_solution
from sudare.errors import DataError, InvalidParameter, NotSolved

# Each problem: variables, rows, kind of data, penalty. "factor": sensors that nearly determine each other.
EASY = [(2, 30, "plain", 0.1), (5, 50, "mixed", 0.05), (12, 200, "mixed", 0.1), (20, 15, "plain", 0.3)]
HARD = [(12, 8, "mixed", 1e-3), (12, 100, "factor", 1e-3), (20, 10, "factor", 1e-3)]


def covariance_of(variables, rows, kind, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, variables))
    if kind == "mixed":
        X = X @ random.normal(size=(variables, variables))
    if kind == "factor":
        X = 0.05 * X + random.normal(size=(rows, 2)) @ random.normal(size=(2, variables))
    return np.atleast_2d(np.cov(X, rowvar=False))


def objective(S, penalty, precision):
    weights = np.where(precision == 0, 0.0, penalty)
    sign, log_det = np.linalg.slogdet(precision)
    assert sign > 0
    return np.sum(S * precision) + np.sum(np.where(precision == 0, 0.0, weights * np.abs(precision))) - log_det


def off_diagonal(penalty, size):
    return penalty * (1 - np.eye(size))


def largest_violation(S, penalties, result):
    """Of W − S = ρ·sign(Λ) where Λ is not zero, and |W − S| ≤ ρ where it is, relative to standard deviations."""
    scale = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    excess = np.linalg.inv(result.precision) - S
    moved = result.precision != 0
    there = np.abs(excess - penalties * np.sign(result.precision))[moved] / scale[moved]
    elsewhere = ((np.abs(excess) - penalties) / scale)[~moved]
    return max(there.max(), elsewhere.max(initial=0.0))


@pytest.mark.parametrize(("variables", "rows", "kind", "penalty"), EASY + HARD)
def test_conditions_of_optimality(variables, rows, kind, penalty):
    S = covariance_of(variables, rows, kind)
    result = graphical_lasso(S, penalty, tol=1e-11)
    assert 0 <= result.gap <= 1e-11
    # The objective is quadratic around the solution, so that a gap of 1e-11 leaves the square root of it in the gradient.
    assert largest_violation(S, off_diagonal(penalty, variables), result) < 1e-4
    np.testing.assert_array_equal(result.precision, result.precision.T)
    np.testing.assert_allclose(result.precision @ result.covariance, np.eye(variables), atol=1e-6)


@settings(max_examples=30)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(-3, 1), st.floats(-10, 0))
def test_gap_is_a_certificate(variables, seed, log_penalty, log_tolerance):
    """No positive definite matrix has an objective below that of the result by more than the gap."""
    S, penalty = covariance_of(variables, 12, "mixed", seed), 10**log_penalty
    rough = graphical_lasso(S, penalty, tol=10**log_tolerance)
    best = graphical_lasso(S, penalty, tol=1e-11)
    penalties = off_diagonal(penalty, variables)
    assert rough.gap <= 10**log_tolerance
    lower = objective(S, penalties, rough.precision) - rough.gap
    assert objective(S, penalties, best.precision) >= lower - 1e-9
    random = np.random.default_rng(seed)
    for size in (1e-3, 1e-1):
        noise = size * random.normal(size=S.shape)
        factor = np.linalg.cholesky(best.precision)
        other = factor @ (np.eye(variables) + noise) @ (np.eye(variables) + noise).T @ factor.T
        assert objective(S, penalties, other) >= lower - 1e-9


@pytest.mark.parametrize(("variables", "rows", "kind", "penalty"), EASY)
def test_agrees_with_scikit_learn(variables, rows, kind, penalty):
    S = np.array(covariance_of(variables, rows, kind))
    S /= np.sqrt(np.outer(np.diag(S), np.diag(S)))
    _, peer = graphical_lasso_of_scikit_learn(S, penalty, tol=1e-12, enet_tol=1e-12, max_iter=1000)
    result = graphical_lasso(S, penalty, tol=1e-13)
    np.testing.assert_allclose(result.precision, peer, atol=1e-5)
    np.testing.assert_array_equal(result.precision == 0, np.abs(peer) < 1e-9)


@pytest.mark.parametrize(("variables", "rows", "kind", "penalty"), EASY + HARD)
def test_interior_point_and_newton_agree(variables, rows, kind, penalty):
    S = covariance_of(variables, rows, kind)
    S = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    penalties = off_diagonal(penalty, variables)
    precision, bound, _ = interior_solution(S, penalties, 1e-9)
    assert 0 <= objective(S, penalties, precision) - bound <= 1e-9 + 1e-12
    result = graphical_lasso(S, penalty, tol=1e-9)
    assert abs(objective(S, penalties, result.precision) - objective(S, penalties, precision)) <= 2e-9
    np.testing.assert_array_equal(precision == 0, result.precision == 0)


def test_blocks_are_solved_apart():
    parts = [covariance_of(size, 60, "mixed", seed) for seed, size in enumerate((4, 7, 1, 3))]
    sizes = [len(part) for part in parts]
    random = np.random.default_rng(5)
    S = random.uniform(-0.05, 0.05, size=(sum(sizes), sum(sizes)))
    S = (S + S.T) / 2
    ends = np.cumsum(sizes)
    slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    for where, part in zip(slices, parts, strict=True):
        S[where, where] = part
    order = random.permutation(len(S))
    shuffled = graphical_lasso(S[np.ix_(order, order)], 0.05, tol=1e-12).precision
    together = np.empty_like(shuffled)
    together[np.ix_(order, order)] = shuffled
    expected = np.zeros_like(S)
    for where, part in zip(slices, parts, strict=True):
        expected[where, where] = graphical_lasso(part, 0.05, tol=1e-12).precision
    np.testing.assert_allclose(together, expected, atol=1e-5)
    np.testing.assert_array_equal(together == 0, expected == 0)
    # The same without screening: one of the pairs between the blocks gets a penalty just below its covariance.
    i, j = 0, sizes[0]
    penalties = off_diagonal(0.05, len(S))
    penalties[i, j] = penalties[j, i] = abs(S[i, j]) * (1 - 1e-9)
    joined = graphical_lasso(S, penalties, tol=1e-12).precision
    np.testing.assert_allclose(joined, expected, atol=1e-4)


@pytest.mark.parametrize(("variables", "rows", "kind", "penalty"), EASY + HARD[:2])
def test_warm_start_changes_nothing(variables, rows, kind, penalty):
    S = covariance_of(variables, rows, kind)
    cold = graphical_lasso(S, penalty, tol=1e-11)
    near = graphical_lasso(1.01 * S + 0.001 * np.diag(np.diag(S)), penalty, tol=1e-11)
    warm = graphical_lasso(S, penalty, tol=1e-11, start=near.precision)
    again = graphical_lasso(S, penalty, tol=1e-11, start=cold.precision)
    penalties = off_diagonal(penalty, variables)
    assert abs(objective(S, penalties, warm.precision) - objective(S, penalties, cold.precision)) < 1e-10
    # Where the interior point ended the search, its dual bound is not known from Λ alone; the last bits, which differ from processor to processor,
    # then decide whether Newton's own bound is within the tolerance at once.
    assert again.n_iter <= (1 if (variables, rows, kind, penalty) in EASY else cold.n_iter // 4)
    assert warm.n_iter <= cold.n_iter


def test_a_start_that_is_not_positive_definite_is_not_used():
    S = covariance_of(4, 50, "mixed")
    result = graphical_lasso(S, 0.1, start=-np.eye(4))
    np.testing.assert_array_equal(result.precision, graphical_lasso(S, 0.1).precision)


@pytest.mark.parametrize(("variables", "rows", "kind", "penalty"), EASY + HARD[:2])
def test_a_result_as_start_changes_nothing(variables, rows, kind, penalty):
    S, penalties = covariance_of(variables, rows, kind), off_diagonal(penalty, variables)
    cold = graphical_lasso(S, penalty, tol=1e-11)
    near = graphical_lasso(1.01 * S + 0.001 * np.diag(np.diag(S)), penalty, tol=1e-11)
    for start in (cold, near):
        warm = graphical_lasso(S, penalty, tol=1e-11, start=start)
        assert 0 <= warm.gap <= 1e-11
        assert abs(objective(S, penalties, warm.precision) - objective(S, penalties, cold.precision)) < 1e-10
        assert warm.n_iter <= cold.n_iter
        assert largest_violation(S, penalties, warm) < 1e-4


def test_a_start_that_is_the_answer_is_returned_bit_by_bit():
    S = covariance_of(12, 200, "mixed")
    first = graphical_lasso(S, 0.1, tol=1e-11)
    for start in (first, first.precision):
        again = graphical_lasso(S, 0.1, tol=1e-9, start=start)
        assert again.n_iter == 0
        np.testing.assert_array_equal(again.precision, first.precision)


def test_from_nearby_the_steps_for_settled_signs_are_all_it_takes(monkeypatch):
    """With blocks of an odd size, so that no loop over four entries or sixteen columns comes out even."""
    S, other = covariance_of(67, 100, "plain"), covariance_of(67, 100, "plain", seed=1)
    start = graphical_lasso(S, 0.15)
    S = 0.99 * S + 0.01 * other
    cold = graphical_lasso(S, 0.15, tol=1e-12)
    monkeypatch.setattr(newton_kernels, "newton_target", None)
    warm = graphical_lasso(S, 0.15, start=start)
    penalties = off_diagonal(0.15, 67)
    assert 1 <= warm.n_iter <= 3
    assert 0 <= warm.gap <= 1e-8
    assert objective(S, penalties, warm.precision) - objective(S, penalties, cold.precision) <= warm.gap + 1e-12
    np.testing.assert_array_equal(warm.precision, warm.precision.T)
    np.testing.assert_allclose(warm.precision @ warm.covariance, np.eye(67), atol=1e-10)
    assert graphical_lasso(S, 0.15, start=warm).n_iter <= 1


@settings(max_examples=30)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(-2, 0), st.sampled_from(["inverse", "wrong", "none"]))
def test_any_symmetric_start_leads_to_the_same_answer(variables, seed, log_penalty, given_covariance):
    """Also one that is not positive definite, whether its inverse is right or not."""
    S, penalty = covariance_of(variables, 20, "mixed", seed), 10**log_penalty
    random = np.random.default_rng(seed)
    precision = random.normal(size=(variables, variables))
    precision += precision.T
    covariance = {"inverse": np.linalg.inv(precision), "wrong": np.diag(random.normal(size=variables)), "none": None}
    inverse = covariance[given_covariance]
    start = precision if inverse is None else GraphicalLassoResult(precision, (inverse + inverse.T) / 2, 0.0, 0)
    found = graphical_lasso(S, penalty, tol=1e-9, start=start)
    cold = graphical_lasso(S, penalty, tol=1e-9)
    penalties = off_diagonal(penalty, variables)
    assert 0 <= found.gap <= 1e-9
    assert abs(objective(S, penalties, found.precision) - objective(S, penalties, cold.precision)) <= 2e-9


def test_a_covariance_that_is_not_the_inverse_does_no_harm():
    S = covariance_of(12, 200, "mixed")
    cold = graphical_lasso(S, 0.1)
    for covariance in (1.1 * cold.covariance, np.eye(12), -cold.covariance):
        warm = graphical_lasso(S, 0.1, start=GraphicalLassoResult(cold.precision, covariance, 0.0, 0))
        assert warm.gap <= 1e-8
        np.testing.assert_allclose(warm.precision, cold.precision, atol=1e-3 * np.abs(cold.precision).max())


def test_a_result_from_a_larger_support_starts_a_fit_on_a_smaller_one():
    """What is zero by an infinite penalty makes the inverse of the start another one."""
    S = covariance_of(8, 40, "mixed")
    start = graphical_lasso(S, 0.01)
    support = np.eye(8, dtype=bool) | np.eye(8, k=1, dtype=bool) | np.eye(8, k=-1, dtype=bool)
    penalties = np.where(support, 0.0, np.inf)
    warm, cold = (graphical_lasso(S, penalties, tol=1e-13, start=first) for first in (start, None))
    np.testing.assert_array_equal(warm.precision != 0, support)
    np.testing.assert_allclose(warm.precision, cold.precision, atol=1e-4)


@settings(max_examples=25)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(-2, 1))
def test_order_of_variables_does_not_matter(variables, seed, log_penalty):
    S, penalty = covariance_of(variables, 20, "mixed", seed), 10**log_penalty
    order = np.random.default_rng(seed).permutation(variables)
    plain = graphical_lasso(S, penalty, tol=1e-12)
    shuffled = graphical_lasso(S[np.ix_(order, order)], penalty, tol=1e-12)
    scale = np.sqrt(np.outer(np.diag(plain.precision), np.diag(plain.precision)))
    difference = plain.precision[np.ix_(order, order)] - shuffled.precision
    assert np.max(np.abs(difference) / scale[np.ix_(order, order)]) < 1e-4


@settings(max_examples=25)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(-8, 8))
def test_units_do_not_matter(variables, seed, log_scale):
    """With x → Dx, S → DSD and ρ → DρD the solution is D⁻¹ΛD⁻¹, and the gap the same."""
    S = covariance_of(variables, 20, "mixed", seed)
    scales = 10 ** np.random.default_rng(seed).uniform(-abs(log_scale), abs(log_scale), size=variables)
    outer = np.outer(scales, scales)
    plain = graphical_lasso(S, off_diagonal(0.1, variables), tol=1e-10)
    scaled = graphical_lasso(S * outer, off_diagonal(0.1, variables) * outer, tol=1e-10)
    np.testing.assert_allclose(
        scaled.precision * outer, plain.precision, atol=1e-4 * np.max(np.abs(plain.precision)), rtol=1e-3
    )


def test_penalised_diagonal_is_a_larger_variance():
    S = covariance_of(6, 5, "mixed")
    penalised = graphical_lasso(S, 0.2, penalize_diagonal=True, tol=1e-12)
    larger = graphical_lasso(S + 0.2 * np.eye(6), 0.2, tol=1e-12)
    np.testing.assert_array_equal(penalised.precision, larger.precision)
    assert largest_violation(S, np.full((6, 6), 0.2), penalised) < 1e-5


def test_constant_variable_with_penalised_diagonal():
    S = covariance_of(3, 30, "plain")
    S[1] = S[:, 1] = 0.0
    assert graphical_lasso(S, 0.5, penalize_diagonal=True).precision[1, 1] == pytest.approx(2.0)


def test_without_penalty_it_is_the_inverse():
    S = covariance_of(7, 100, "mixed")
    result = graphical_lasso(S, 0.0, tol=1e-12)
    np.testing.assert_allclose(result.precision, np.linalg.inv(S), rtol=1e-5, atol=1e-5)


def test_infinite_penalty_is_a_fit_on_a_given_support():
    """Without a penalty on the support, Λ⁻¹ equals S there (Dempster 1972), and Λ is zero elsewhere."""
    S = covariance_of(8, 40, "mixed")
    support = np.eye(8, dtype=bool)
    for i, j in [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (6, 7), (5, 7)]:
        support[i, j] = support[j, i] = True
    result = graphical_lasso(S, np.where(support, 0.0, np.inf), tol=1e-13)
    np.testing.assert_array_equal(result.precision != 0, support)
    np.testing.assert_allclose(result.covariance[support], S[support], rtol=1e-5)
    start = graphical_lasso(S, 0.01).precision
    warm = graphical_lasso(S, np.where(support, 0.0, np.inf), tol=1e-13, start=start)
    np.testing.assert_allclose(warm.precision, result.precision, atol=1e-4)


def test_infinite_penalty_in_the_interior():
    S = covariance_of(8, 40, "mixed")
    S = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    penalties = off_diagonal(0.02, 8)
    penalties[0, 1:4] = penalties[1:4, 0] = np.inf
    penalties[5, 6] = penalties[6, 5] = 0.0
    precision, bound, _ = interior_solution(S, penalties, 1e-10)
    result = graphical_lasso(S, penalties, tol=1e-10)
    assert not precision[0, 1:4].any()
    assert bound <= objective(S, penalties, result.precision) <= bound + 2e-10
    np.testing.assert_array_equal(precision == 0, result.precision == 0)


def test_one_variable():
    result = graphical_lasso([[4.0]], 1.0)
    assert (result.precision[0, 0], result.covariance[0, 0], result.gap) == (0.25, 4.0, 0.0)


def test_input_is_not_changed():
    S = covariance_of(5, 50, "mixed")
    penalty, start = np.full((5, 5), 0.1), np.eye(5)
    copies = [array.copy() for array in (S, penalty, start)]
    graphical_lasso(S, penalty, start=start, penalize_diagonal=True)
    for array, copy in zip((S, penalty, start), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    result = graphical_lasso(S, penalty)
    precision, covariance = result.precision.copy(), result.covariance.copy()
    again = graphical_lasso(1.01 * S, penalty, start=result)
    np.testing.assert_array_equal(result.precision, precision)
    np.testing.assert_array_equal(result.covariance, covariance)
    assert not np.shares_memory(again.precision, result.precision)


def test_no_solution_is_said():
    singular = covariance_of(6, 3, "plain")
    with pytest.raises(NotSolved, match="duality gap"):
        graphical_lasso(singular, 0.0)


SECRET = 12345.678


@pytest.mark.parametrize(
    ("covariance", "penalty", "options", "error", "match"),
    [
        (np.full((2, 3), SECRET), 0.1, {}, DataError, "square"),
        (np.full(4, SECRET), 0.1, {}, DataError, "square"),
        (np.empty((0, 0)), 0.1, {}, DataError, "square"),
        ([["a", "b"], ["c", "d"]], 0.1, {}, DataError, "numbers"),
        ([[SECRET, 1.0], [2.0, SECRET]], 0.1, {}, DataError, "symmetric"),
        ([[SECRET, np.nan], [np.nan, SECRET]], 0.1, {}, DataError, "NaN"),
        ([[SECRET, np.inf], [np.inf, SECRET]], 0.1, {}, DataError, "infinity"),
        ([[SECRET, 0.0], [0.0, 0.0]], 0.1, {}, DataError, "Variable 1 has no variance"),
        ([[SECRET, 0.0], [0.0, -1.0]], 0.1, {}, DataError, "Variable 1 has no variance"),
        (SECRET * np.eye(2), -0.1, {}, InvalidParameter, "negative"),
        (SECRET * np.eye(2), math.nan, {}, InvalidParameter, "NaN"),
        (SECRET * np.eye(2), "much", {}, InvalidParameter, "neither"),
        (SECRET * np.eye(2), [0.1, 0.2], {}, InvalidParameter, "shape"),
        (SECRET * np.eye(2), [[0.0, 0.1], [0.2, 0.0]], {}, InvalidParameter, "not symmetric"),
        (SECRET * np.eye(2), math.inf, {"penalize_diagonal": True}, InvalidParameter, "diagonal"),
        (SECRET * np.eye(2), 0.1, {"tol": 0.0}, InvalidParameter, "tol"),
        (SECRET * np.eye(2), 0.1, {"start": np.eye(3)}, DataError, "3 rows, the covariance 2"),
        (SECRET * np.eye(2), 0.1, {"start": [[1.0, np.nan], [np.nan, 1.0]]}, DataError, "start"),
        (SECRET * np.eye(2), 0.1, {"start": GraphicalLassoResult(np.eye(3), np.eye(3), 0.0, 0)}, DataError, "3 rows"),
        (SECRET * np.eye(2), 0.1, {"start": GraphicalLassoResult(np.eye(2), np.eye(3), 0.0, 0)}, DataError, "3 rows"),
    ],
)
def test_errors_say_what_is_wrong_and_show_no_value(covariance, penalty, options, error, match):
    with pytest.raises(error, match=match) as caught:
        graphical_lasso(covariance, penalty, **options)
    assert "12345" not in str(caught.value)


def test_loops_compile_without_a_place_for_the_cache():
    """Numba refuses to cache what has no file, just as it does in an installation that cannot be written."""
    namespace = {}
    exec("def doubled(value):\n    return 2 * value\n", namespace)
    assert compiled()(namespace["doubled"])(21) == 42


@pytest.mark.long
def test_compiler_is_loaded_only_when_needed():
    code = "import sys, sudare.dictionary.graphical_lasso; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_result_over_other_variables_is_no_start():
    S = covariance_of(4, 50, "mixed")
    other = graphical_lasso(covariance_of(5, 50, "mixed"), 0.1)
    with pytest.raises(DataError, match="`start` has 5 rows, the covariance 4"):
        graphical_lasso(S, 0.1, start=other)

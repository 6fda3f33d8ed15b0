"""Solvers: certified gradients are true gradients, by exact arithmetic and against scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from flint import ctx as ball_context
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from sudare.errors import InvalidParameter
from sudare.frames.rows import BLOCK_ROWS, Rows
from sudare.linear import solvers
from sudare.linear.losses import CappedSquares, Logistic, SmoothedHinge
from sudare.linear.solvers import (
    MOST_ACCELERATED_STEPS,
    Objective,
    WorstCase,
    accelerated,
    evaluated,
    gradient_bound,
    minimised,
    norm,
    solved,
    solved_gradient,
    valued,
)

LOSSES = [Logistic(), SmoothedHinge(0.5), CappedSquares(1.0)]


def _problem(rows, width, loss, penalty=1.0, seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(rows, width))
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    targets = np.where(matrix[:, 0] + 0.3 * random.normal(size=rows) > 0, 1.0, -1.0)[:, np.newaxis]
    return Objective(Rows.held(matrix, targets), loss, penalty, random.normal(scale=scale, size=width), 1.0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rows", [1, 50, 3 * BLOCK_ROWS, 14 * BLOCK_ROWS + 7])
@pytest.mark.parametrize("penalty", [0.01, 10.0])
def test_gradient_is_certified(loss, rows, penalty):
    objective = _problem(rows, 5, loss, penalty)
    minimum = minimised(objective, 1e-7)
    assert minimum.gradient_bound <= 1e-7
    matrix, targets = objective.rows.together()[0], objective.rows.together()[1][:, 0]
    slopes = loss.slope(matrix @ minimum.parameters, targets)
    gradient = slopes @ matrix + penalty * minimum.parameters + objective.linear
    assert np.linalg.norm(gradient) <= 1e-7


@pytest.mark.parametrize("loss", LOSSES)
def test_many_columns_use_conjugate_gradients(loss, monkeypatch):
    objective = _problem(200, 30, loss)
    by_cholesky = minimised(objective, 1e-9).parameters
    monkeypatch.setattr(solvers, "_LARGEST_CHOLESKY", 10)
    by_conjugate = minimised(objective, 1e-9)
    assert by_conjugate.gradient_bound <= 1e-9
    np.testing.assert_allclose(by_conjugate.parameters, by_cholesky, atol=1e-8)


def test_agrees_with_scikit_learn():
    objective = _problem(500, 4, Logistic(), penalty=2.0, scale=0.0)
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(objective.rows.together()[0], objective.rows.together()[1][:, 0])
    np.testing.assert_allclose(minimised(objective, 1e-9).parameters, peer.coef_[0], atol=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.01, 100))
def test_rounding_bound_covers_the_true_error(seed, rows, size):
    """The logistic gradient in ball arithmetic against the computed one."""
    objective = _problem(rows, 3, Logistic(), 0.7, seed)
    place = np.random.default_rng(seed).normal(scale=size, size=3)
    computed = evaluated(objective, place, hessian=False).gradient
    with ball_context.workprec(200):
        total = [arb(0.7) * arb(float(t)) + arb(float(b)) for t, b in zip(place, objective.linear, strict=True)]
        for row, target in zip(objective.rows.together()[0], objective.rows.together()[1][:, 0], strict=True):
            score = sum((arb(float(x)) * arb(float(t)) for x, t in zip(row, place, strict=True)), arb(0))
            slope = -arb(target) / (1 + (arb(target) * score).exp())
            total = [value + slope * arb(float(x)) for value, x in zip(total, row, strict=True)]
        error = np.sqrt(
            sum(float((value - arb(float(c))).mid()) ** 2 for value, c in zip(total, computed, strict=True))
        )
    allowed = gradient_bound(objective, place, 0.0)
    assert error <= allowed
    assert Fraction(allowed) > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rows", [30, 2 * BLOCK_ROWS + 5])
def test_gradient_and_hessian_are_those_of_the_value(loss, rows):
    objective = _problem(rows, 3, loss)
    place, step = np.array([0.3, -0.2, 0.1]), 1e-4 * np.eye(3)
    here = evaluated(objective, place, hessian=True)
    np.testing.assert_array_equal(here.gradient, evaluated(objective, place, hessian=False).gradient)
    assert here.size == pytest.approx(np.linalg.norm(here.gradient))
    numeric = [(valued(objective, place + s) - valued(objective, place - s)) / 2e-4 for s in step]
    np.testing.assert_allclose(here.gradient, numeric, rtol=1e-4, atol=1e-3)
    upper = np.triu(here.hessian)
    matrix, targets = objective.rows.together()[0], objective.rows.together()[1][:, 0]
    expected = (matrix.T * loss.curvature(matrix @ place, targets)) @ matrix + objective.penalty * np.eye(3)
    np.testing.assert_allclose(upper, np.triu(expected), rtol=1e-10)


def test_a_part_of_the_rows_stands_for_all():
    objective = _problem(4 * BLOCK_ROWS, 3, Logistic(), scale=0.0)
    place = np.array([0.3, -0.2, 0.1])
    part = Objective(
        Rows.held(objective.rows.together()[0][:BLOCK_ROWS], objective.rows.together()[1][:BLOCK_ROWS]),
        Logistic(),
        0.25,
        np.zeros(3),
        1.0,
    )
    few, all_of_part = evaluated(objective, place, True, blocks=1), evaluated(part, place, True)
    np.testing.assert_allclose(few.gradient, 4 * all_of_part.gradient, rtol=1e-12)
    np.testing.assert_allclose(np.triu(few.hessian), 4 * np.triu(all_of_part.hessian), rtol=1e-12)
    assert valued(objective, place, blocks=1) == pytest.approx(4 * valued(part, place), rel=1e-12)


@pytest.mark.parametrize("loss", [SmoothedHinge(0.5), SmoothedHinge(1e-3), CappedSquares(0.01)])
@pytest.mark.parametrize("rows", [2, 60, 3000])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_steps_do_not_go_round_in_a_circle(loss, rows, penalty):
    """Half of the rows alike and half of them opposed, started far from the corners: full steps jump from side to side."""
    matrix = np.tile([[0.6, 0.0, 0.5], [0.0, 0.6, 0.5]], (rows // 2, 1))
    targets = np.where(np.arange(rows) % 2, 1.0, -1.0)[:, np.newaxis]
    minimum = minimised(Objective(Rows.held(matrix, targets), loss, penalty, np.zeros(3), 1.0), 1e-6)
    assert minimum.gradient_bound <= 1e-6
    assert minimum.steps < 100


def test_an_impossible_tolerance_is_not_claimed():
    assert minimised(_problem(100, 3, Logistic()), 1e-300).gradient_bound > 1e-300


# Accelerated steps, which arrive for every table (proofs/solver.md)


EXTREME = st.floats(-4, 2).map(lambda exponent: 10.0**exponent)


@st.composite
def _hard_problems(draw):
    """Few different rows, many of them opposed, losses with sharp corners and penalties next to nothing."""
    loss = draw(st.sampled_from([Logistic(), SmoothedHinge(0.01), SmoothedHinge(1e-3), CappedSquares(0.01)]))
    width, count = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    entries = st.integers(-4, 4).map(lambda whole: whole / 8)
    rows = st.lists(entries, min_size=width, max_size=width)
    kinds = np.array(draw(st.lists(rows, min_size=1, max_size=4)))
    matrix = kinds[np.arange(count) % len(kinds)]
    targets = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=count, max_size=count)))[:, np.newaxis]
    linear = np.array(draw(st.lists(st.floats(-3, 3), min_size=width, max_size=width)))
    return Objective(Rows.held(matrix, targets), loss, count * draw(EXTREME), linear, 1.0)


@settings(max_examples=30)
@given(_hard_problems(), st.floats(-3, 0).map(lambda exponent: 10.0**exponent))
def test_public_steps_arrive_whatever_the_rows(objective, wanted):
    """As many steps as public facts say are enough, and no certificate on the way is used."""
    rows = objective.rows
    worst = WorstCase(
        rows.count, rows.width, 1.0, objective.loss, objective.penalty, objective.linear_norm * (1 + 1e-9)
    )
    tolerance = max(wanted, worst.least_tolerance)
    steps = worst.steps(tolerance)
    assume(steps < 4_000)
    found = accelerated(objective, 0.0, steps)
    reference = accelerated(objective, 0.0, 3 * steps + 1000)
    assert norm(found.parameters) <= worst.farthest
    # Two points that are each near the minimiser: the second one much nearer than it has to be.
    assert norm(found.parameters - reference.parameters) <= 1.01 * tolerance / objective.penalty


def test_accelerated_steps_end_early_where_that_is_certified():
    objective = _problem(200, 3, Logistic(), penalty=1.0)
    found = accelerated(objective, 1e-3, 10**6)
    assert found.steps < 1000
    assert found.gradient_bound <= 1e-3


def test_where_newton_arrives_nothing_else_is_tried(monkeypatch):
    monkeypatch.setattr(solvers, "accelerated", None)
    objective = _problem(200, 3, Logistic(), penalty=1.0)
    assert evaluated(objective, solved(objective, 1e-3, 1), hessian=False).size <= 1e-3


@settings(max_examples=20)
@given(_hard_problems())
def test_the_smallest_gradient_that_is_promised_is_certified(objective):
    """Without Newton's steps, and with no help on the way: plain steps after accelerated ones meet it."""
    rows = objective.rows
    worst = WorstCase(
        rows.count, rows.width, 1.0, objective.loss, objective.penalty, objective.linear_norm * (1 + 1e-9)
    )
    tolerance = worst.least_gradient
    assume(worst.steps(tolerance / 2) + worst.plain_steps < 20_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "minimised", lambda *_: solvers.Minimum(np.ones(rows.width), np.nan, 0))
        patch.setattr(solvers, "_STEPS_BETWEEN_LOOKS", 10**9)
        found = solved_gradient(objective, tolerance, worst)
    assert found.gradient_bound <= tolerance
    assert evaluated(objective, found.parameters, hessian=False).size <= tolerance


@pytest.mark.parametrize("linear_norm", [0.0, 1.0, 1e200])
def test_a_penalty_next_to_nothing_is_refused_from_public_facts(linear_norm):
    worst = WorstCase(1000, 3, 1.0, SmoothedHinge(1e-6), 1e-9, linear_norm)
    with pytest.raises(InvalidParameter, match="regularization of at least"):
        worst.steps(1e-3)


def test_the_penalty_that_is_named_is_enough():
    worst = WorstCase(1000, 3, 1.0, SmoothedHinge(1e-6), 1e-9)
    with pytest.raises(InvalidParameter) as refused:
        worst.steps(1e-3)
    least = float(str(refused.value).split("at least ")[1].split(",")[0])
    assert replace(worst, penalty=1.1 * least * 1000).steps(1e-3) <= MOST_ACCELERATED_STEPS

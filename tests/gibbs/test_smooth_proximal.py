"""How long the steps of a chain are, and what a draw takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sudare.errors import InvalidParameter
from sudare.gibbs import smooth_proximal
from sudare.gibbs.custom_draws import CustomDraws
from sudare.gibbs.potentials import Curvature, Potential, start_near_mode
from sudare.gibbs.smooth_proximal import SmoothProximalPlan, Steps, mean_depth, smooth_proximal_draws
from sudare.privacy.noise import SystemNoise

SOURCE = SystemNoise()
WIDTH, CONVEXITY, SMOOTHNESS = 30, 1.0, 26.0


def counted(bends, width=WIDTH):
    """U = Σ bⱼxⱼ²/2, declared to bend by `SMOOTHNESS` in every direction, and how often it was asked."""
    calls = []
    bends = np.asarray(bends)

    def value(point):
        calls.append("value")
        return float(bends @ point**2) / 2

    def gradient(point):
        calls.append("gradient")
        return bends * point

    known = Curvature(width, CONVEXITY, SMOOTHNESS, width * (SMOOTHNESS - CONVEXITY))
    return Potential(value, gradient, known), calls


def plan_for(potential, distance=1e-13):
    return SmoothProximalPlan(potential.curvature, distance)


def test_a_law_that_bends_in_few_directions_takes_few_evaluations_without_a_declared_laplacian():
    """Rows in the unit ball: all directions together bend by what one of them may."""
    potential, calls = counted(np.r_[SMOOTHNESS, np.full(WIDTH - 1, CONVEXITY)])
    plan = plan_for(potential)
    assert plan.steps > 5_000
    smooth_proximal_draws(potential, plan, 1, SOURCE)
    assert len(calls) < 3_000


def test_a_law_that_bends_everywhere_as_declared_is_drawn_by_sure_steps():
    potential, calls = counted(np.full(WIDTH, SMOOTHNESS))
    plan = plan_for(potential, 1e-2)
    drawn = smooth_proximal_draws(potential, plan, 1, SOURCE)
    assert plan.steps < len(calls)
    assert drawn.acceptance > math.exp(-2) / 2


def test_short_chains_try_nothing():
    potential, calls = counted(np.full(2, 2.0), width=2)
    plan = SmoothProximalPlan(Curvature(2, 1.0, 2.0, 2.0), 1e-3)
    assert plan.steps < 20
    smooth_proximal_draws(potential, plan, 1, SOURCE)
    assert calls.count("value") < 200


def test_many_parameters_need_no_second_derivatives():
    potential, _ = counted(np.linspace(1, 3, 210), width=210)
    points = smooth_proximal_draws(potential, plan_for(potential, 1e-6), 2, SOURCE).points
    # A sum of squares of 420 standard normals.
    assert float(np.sum(points**2 * np.linspace(1, 3, 210))) == pytest.approx(420, abs=6 * math.sqrt(840))


def test_every_length_of_step_is_planned_from_public_numbers():
    potential, calls = counted(np.full(WIDTH, 2.0))
    plan = plan_for(potential)
    counts = [steps.count for steps in plan.longer]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) >= 5
    assert not calls


def test_the_least_distance_leaves_only_sure_steps():
    """Nothing may be refused once it was charged: a length whose restricted laws cannot be planned is not there."""
    potential, _ = counted([2.0], width=1)
    plan = plan_for(potential, 1e-200)
    assert plan.steps > 1_000
    assert plan.longer == ()
    assert smooth_proximal_draws(potential, plan, 1, SOURCE).points.shape == (1, 1)


# In a ball


def pinned(width, bend, convexity, place, radius=1.0):
    """U that bends in one direction only, and is least near the pole."""

    def value(point):
        return convexity / 2 * float(point @ point) + bend / 2 * float(point[0] - place) ** 2

    def gradient(point):
        slope = convexity * point
        slope[0] += bend * (point[0] - place)
        return slope

    return Potential(value, gradient, Curvature(width, convexity, convexity + bend, bend, radius))


def test_a_mode_at_the_pole_of_a_ball_takes_few_proposals():
    """With steps as long as without a ball it is fifty a step, and thousands with 300 parameters."""
    potential = pinned(100, 400.0, 0.4, 1.0)
    plan = SmoothProximalPlan(potential.curvature, 1e-10)
    free = SmoothProximalPlan(Curvature(100, 0.4, 400.4, 400.0), 1e-10)
    assert 10 * free.steps < plan.steps
    chain = smooth_proximal._Chain(smooth_proximal._Shape.of(potential), plan.sure)
    state = chain.started(SOURCE)
    for _ in range(30):
        state = chain.tried(chain.goal(state, SOURCE), SOURCE, 1_000)
    assert chain.made < 30 * math.exp(plan.residual)
    with pytest.raises(InvalidParameter, match="for every table"):
        SmoothProximalPlan(pinned(300, 300.0, 0.3, 1.0).curvature, 1e-10)


@pytest.mark.parametrize("width", [1, 7, 40])
@pytest.mark.parametrize("precision", [0.5, 30.0])
def test_mean_depth_is_that_of_a_gaussian_around_the_pole(width, precision):
    random = np.random.default_rng(0)
    points = random.normal(size=(150_000, width)) / math.sqrt(max(precision, width))
    points[:, 0] += 1 - mean_depth(width, precision)
    # Weights of the law against these proposals, in the ball.
    square = np.einsum("ij,ij->i", points, points)
    logs = (
        max(precision, width)
        / 2
        * ((points[:, 0] - 1 + mean_depth(width, precision)) ** 2 - points[:, 0] ** 2 + square)
    )
    logs -= precision / 2 * (square - 2 * points[:, 0] + 1)
    weights = np.where(square <= 1, np.exp(logs - logs[square <= 1].max()), 0.0)
    assert 1 - weights @ points[:, 0] / weights.sum() == pytest.approx(mean_depth(width, precision), rel=0.05)


def ball_chain(width, radius=1.0):
    known = Curvature(width, 1.0, 1.0, 0.0, radius)
    potential = Potential(lambda point: float(point @ point) / 2, lambda point: point, known)
    return smooth_proximal._Chain(smooth_proximal._Shape.of(potential), Steps(1.0, 1))


@pytest.mark.parametrize("width", [1, 3])
def test_a_gaussian_far_outside_of_the_ball_is_drawn_from_the_pole(width):
    """Against plain rejection from the Gaussian that lies on the sphere; the gate errs once in a million."""
    chain, pole, count = ball_chain(width), np.ones(width) / math.sqrt(width), 1_500
    size, precision = 1.4, 50.0
    drawn = np.array([chain._below_pole(pole, size, precision, 1.0, SOURCE) for _ in range(count)])
    random, kept = np.random.default_rng(0), []
    while len(kept) < count:
        points = pole + random.normal(size=(10_000, width)) / math.sqrt(precision)
        tilt = precision * (points - pole) @ pole * (size - 1)
        inside = np.einsum("ij,ij->i", points, points) <= 1
        # Inside, the tilt towards the mean is zero at most: the pole is the farthest point that way.
        kept += list(points[inside & (np.log(random.random(10_000)) < tilt)])
    assert np.all(np.einsum("ij,ij->i", drawn, drawn) <= 1 + 1e-12)
    for along in (lambda points: points @ pole, lambda points: np.einsum("ij,ij->i", points, points)):
        assert ks_2samp(along(drawn), along(np.array(kept[:count]))).pvalue > 1e-6


def test_a_mean_that_is_a_million_times_outside_takes_no_time():
    chain, words = ball_chain(10), []

    class Counted:
        def words(self, count):
            words.append(count)
            return SOURCE.words(count)

    chain._gaussian(np.full(10, 1e6), 1e6, Counted())
    assert len(words) < 100


@pytest.mark.parametrize("place", [0.3, 1.0, 4.0, -1e6])
def test_the_first_divergence_is_not_above_the_plan(place):
    """By quadrature over an interval, from a start that is no better than it has to be."""
    potential = pinned(1, 40.0, 2.0, place)
    start, known = start_near_mode(potential, 1.0), potential.curvature
    points = np.linspace(-1, 1, 20_001)[:, np.newaxis]
    move = points[:, 0] - start.point[0]
    first = -start.gradient[0] * move - known.smoothness / 2 * move**2
    law = -np.array([potential.value(point.copy()) for point in points])
    first, law = (logs - np.logaddexp.reduce(logs) for logs in (first, law))
    divergence = float(np.exp(first) @ (first - law))
    assert start.divergence <= 1
    assert divergence <= 0.5 * math.log(known.smoothness / known.convexity) + start.divergence


@pytest.mark.parametrize("place", [1.0, 4.0])
def test_chains_with_a_mode_on_the_sphere_have_their_law(place):
    """Against quadrature; above 2.63/√n once in a million, and the distance is within .01."""
    potential, count = pinned(1, 40.0, 2.0, place), 150
    plan = SmoothProximalPlan(potential.curvature, 1e-2)
    sample = smooth_proximal_draws(potential, plan, count, SOURCE).points[:, 0]
    axis = np.linspace(-1, 1, 4_001)
    law = np.array([-potential.value(np.array([point])) for point in axis])
    cumulative = np.cumsum(np.exp(law - law.max()))
    ranks = np.sort(np.interp(sample, axis, cumulative / cumulative[-1]))
    assert np.max(np.abs(ranks - (np.arange(count) + 0.5) / count)) < 2.63 / math.sqrt(count) + 0.02


@pytest.mark.parametrize(
    ("rows", "width", "penalty", "radius"),
    [(30_000_000, 10, 0.005, 0.65), (30_000_000, 3, 0.2, 5.0), (1_000_000, 3, 0.05, 0.05), (10_000_000, 3, 0.2, None)],
)
def test_many_rows_are_drawn_where_losses_are_as_declared(rows, width, penalty, radius):
    """Straight losses, whose sums are long numbers: their rounding is not taken for a loss that is less smooth, or less convex, than declared."""
    method = CustomDraws(
        rows, width, 1.0, 0.0, penalty * rows, 1.0, 1e-5, 5, smoothness=0.0, radius=radius, sampler="proximal"
    )
    slope = np.zeros(width)
    slope[0] = 0.05 * rows
    sampled = method.sampled(lambda point: np.array([rows + slope @ point]), lambda point: slope, SOURCE)
    assert np.all(np.isfinite(sampled.points))


def test_what_floats_cannot_tell_apart_is_refused_before_the_charge():
    with pytest.raises(InvalidParameter, match="narrower than floating point"):
        CustomDraws(10**8, 3, 1.0, 0.0, 1e8, 10.0, 1e-5, smoothness=0.0, sampler="proximal")
    with pytest.raises(InvalidParameter, match="narrower than floating point"):
        CustomDraws(10**8, 3, 1.0, 0.0, 1e6, 10.0, 1e-5, smoothness=0.0, radius=1e3, sampler="proximal")


@pytest.mark.parametrize("place", [0.0, 1e9])
def test_a_law_far_from_zero_is_drawn_as_one_near_it(place):
    """By a prior that lies there: the log acceptance of a proposal has its digits, though squares of θ have none left."""

    def value(point):
        move = float(point[0]) - place
        return move * move / 2 + 60 * math.sqrt(1 + move * move)

    def gradient(point):
        move = point - place
        return move * (1 + 60 / np.sqrt(1 + move * move))

    potential, count = Potential(value, gradient, Curvature(1, 1.0, 61.0, 60.0)), 150
    plan = SmoothProximalPlan(potential.curvature, 1e-2)
    sample = smooth_proximal_draws(potential, plan, count, SOURCE).points[:, 0] - place
    axis = np.linspace(-2, 2, 4_001)
    law = np.array([-value(np.array([place + point])) for point in axis])
    cumulative = np.cumsum(np.exp(law - law.max()))
    ranks = np.sort(np.interp(sample, axis, cumulative / cumulative[-1]))
    # Above 2.63/√n once in a million, and the distance is within .01.
    assert np.max(np.abs(ranks - (np.arange(count) + 0.5) / count)) < 2.63 / math.sqrt(count) + 0.02


class Generous(smooth_proximal._Chain):
    """The planted bug: proposals are accepted twice as often as they may be."""

    def _value(self, point):
        return super()._value(point) - (0.0 if point is self._tangent[0] else math.log(2))


@pytest.mark.parametrize("kind", [smooth_proximal._Chain, Generous])
def test_restricted_draws_have_their_law_and_too_generous_ones_are_found(kind, monkeypatch):
    """One step from one point, of a skewed law: the part that a whole chain would hide."""
    monkeypatch.setattr(smooth_proximal, "check_log_ratio", lambda *_: None)

    def value(point):
        return float(point[0]) ** 2 / 2 + 20 * float(np.logaddexp(0, 3 * point[0]))

    def gradient(point):
        return point + 60 / (1 + np.exp(-3 * point))

    potential, count, goal = Potential(value, gradient, Curvature(1, 1.0, 46.0, 45.0)), 8_000, np.array([-0.3])
    chain = kind(smooth_proximal._Shape.of(potential), Steps(0.5, 1))
    sample = np.array([chain.tried(goal, SOURCE, math.inf)[0] for _ in range(count)])
    axis = np.linspace(-4, 4, 8_001)
    law = np.array([-value(np.array([point])) for point in axis]) - (axis - goal[0]) ** 2 / (2 * 0.5**2)
    cumulative = np.cumsum(np.exp(law - law.max()))
    ranks = np.sort(np.interp(sample, axis, cumulative / cumulative[-1]))
    gap = np.max(np.abs(ranks - (np.arange(count) + 0.5) / count))
    # Above 2.63/√n once in a million.
    assert (gap < 2.63 / math.sqrt(count) + 0.002) == (kind is not Generous), gap

"""Exact draws: the law by quadrature, decisions equal in floats and in balls, fixed work, giving up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import ctx as ball_context
from scipy import stats

from sudare.errors import NotSolved
from sudare.gibbs import exact_draws as rejection
from sudare.gibbs import rejection_decisions as exact_rejection
from sudare.gibbs.exact_draws import exact_draws
from sudare.gibbs.gaussian_envelope import envelope
from sudare.gibbs.lazy_uniforms import LazyUniforms, log_uniforms, normal_balls, normals
from sudare.gibbs.posteriors import Posterior
from sudare.gibbs.rejection_decisions import Sampler, chosen
from sudare.privacy.noise import SeededNoise, SystemNoise
from tests.gibbs.posteriors import energies, logistic_posterior

GRID = 2.0**-14


def largest_gap(draws: np.ndarray, points: np.ndarray, cumulated: np.ndarray) -> float:
    """The Kolmogorov–Smirnov distance to a law given on a fine lattice."""
    return float(stats.kstest(draws, lambda x: np.interp(x, points, cumulated)).statistic)


def cumulative(density: np.ndarray) -> np.ndarray:
    """The distribution function at the points of a lattice, by the trapezoidal rule."""
    return np.asarray((np.cumsum(density) - density / 2) / density.sum())


# Dvoretzky–Kiefer–Wolfowitz with Massart's constant: P(gap > g) ≤ 2e^{−2Ng²} ≤ 1e-7 at g = √(log(2e7)/2N); the lattice and the grid add 1e-4.
def allowed_gap(count: int) -> float:
    return float(np.sqrt(np.log(2e7) / (2 * count))) + 1e-4


@pytest.mark.parametrize(("rows", "penalty", "beta"), [(20, 1.0, 2.0), (3, 0.2, 0.7)])
def test_one_dimension_has_the_law_of_quadrature(rows: int, penalty: float, beta: float) -> None:
    posterior = logistic_posterior(rows, 1, 3, penalty, beta)
    points = np.linspace(-40, 40, 400_001)
    density = np.exp(energies(posterior, posterior.mode[np.newaxis]) - energies(posterior, points[:, np.newaxis]))
    cumulated = cumulative(density)
    draws = exact_draws(posterior, envelope(posterior), GRID, 200_000, SystemNoise(), 10**7).points[:, 0]
    assert largest_gap(draws, points, cumulated) <= allowed_gap(200_000)
    assert np.all(draws / GRID == np.rint(draws / GRID))


def test_two_dimensions_have_the_law_of_quadrature_and_a_hotter_one_is_noticed() -> None:
    posterior = logistic_posterior(40, 2, 8, 0.6, 1.5)
    axis = np.linspace(-16, 16, 641)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    drop = energies(posterior, posterior.mode[np.newaxis]) - energies(posterior, points)
    draws = exact_draws(posterior, envelope(posterior), GRID, 200_000, SystemNoise(), 10**7).points
    warmer = Posterior(posterior.rows, 1.5 / 1.1, 0.6, 1.0, posterior.mode, posterior.gradient_bound)
    hotter = exact_draws(warmer, envelope(warmer), GRID, 200_000, SystemNoise(), 10**7).points
    density = np.exp(drop).reshape(641, 641)
    for direction in (0, 1):
        marginal = cumulative(density.sum(axis=1 - direction))
        assert largest_gap(draws[:, direction], axis, marginal) <= allowed_gap(200_000)
    assert largest_gap(hotter[:, 0], axis, cumulative(density.sum(axis=1))) > allowed_gap(200_000)


@pytest.mark.parametrize(("rows", "width"), [(6, 1), (12, 3), (9, 4)])
def test_floats_and_balls_decide_alike(rows: int, width: int) -> None:
    posterior = logistic_posterior(rows, width, rows, 0.3, 1.0)
    bound, source = envelope(posterior), SeededNoise(rows)
    sampler = Sampler(posterior, bound, GRID)
    words = source.words(60 * sampler.words_per_proposal).reshape(60, -1)
    # Every piece has its share of the sixty, whatever its weight.
    for index, piece in enumerate(bound.pieces):
        members = words[index :: len(bound.pieces)]
        outcomes, points = rejection._decided(sampler, piece, members)
        alone = Sampler(posterior, replace(bound, pieces=[piece]), GRID)
        for member, outcome, point in zip(members, outcomes, points, strict=True):
            exact_outcome, exact_point = exact_rejection.decided_exactly(alone, member, source)
            assert np.isnan(outcome) or outcome == exact_outcome
            if outcome == 1:
                assert np.array_equal(point, exact_point)


def test_a_decision_on_the_boundary_is_left_open_and_then_made() -> None:
    """Of two pieces of equal weight, the word in the middle chooses neither until more bits are known."""
    words = np.array([2**63, 2**63 - 1, 0, 2**64 - 1], dtype=np.uint64)
    assert chosen(np.zeros(2), words).tolist() == [-1, -1, 0, 1]
    with pytest.raises(exact_rejection.Undecided):
        exact_rejection.is_less(
            LazyUniforms(words[:1], SystemNoise()).balls()[0], LazyUniforms(words[:1], SystemNoise()).balls()[0]
        )
    posterior = logistic_posterior(5, 2, 2, 0.5, 1.0)
    bound = envelope(posterior)
    sampler = Sampler(posterior, bound, GRID)
    word = np.full((1, sampler.words_per_proposal), 2**62, dtype=np.uint64)
    share = np.exp(bound.pieces[0].log_weight - np.logaddexp.reduce(sampler.log_weights))
    word[0, 0] = np.uint64(int(share * 2**64))
    assert chosen(sampler.log_weights, word[:, 0])[0] == -1
    outcome, _ = exact_rejection.decided_exactly(sampler, word[0], SeededNoise(1))
    assert outcome in (0.0, 1.0)


def test_errors_of_floats_are_within_their_bounds() -> None:
    source = SeededNoise(5)
    words = source.words(2000).reshape(100, 20).copy()
    words[0, :8] = [0, 0, 2**64 - 1, 2**64 - 1, 1, 2**63, 2**63 - 1, 3]
    values, errors = normals(words)
    logs, log_errors = log_uniforms(words[:, 0])
    for row in range(100):
        lazy = LazyUniforms(words[row], source)
        lazy.refine()
        with ball_context.workprec(400):
            balls = lazy.balls()
            for ball, value, error in zip(normal_balls(balls), values[row], errors[row], strict=True):
                assert abs(float(ball.mid()) - value) <= error
            assert abs(float(balls[0].log().mid()) - logs[row]) <= log_errors[row]


def test_fixed_work_makes_as_many_proposals_whatever_happens() -> None:
    posterior = logistic_posterior(30, 2, 4, 0.5, 1.0)
    for seed in range(3):
        draws = exact_draws(posterior, envelope(posterior), GRID, 2, SeededNoise(seed), least_proposals=5000)
        assert draws.proposals == 5000
        assert draws.points.shape == (2, 2)


def test_proposals_go_on_where_the_fixed_number_is_not_enough() -> None:
    posterior = logistic_posterior(30, 2, 4, 0.5, 1.0)
    draws = exact_draws(posterior, envelope(posterior), GRID, 50, SeededNoise(0), least_proposals=10)
    assert draws.proposals > 10
    assert draws.points.shape == (50, 2)


def test_too_few_proposals_are_an_error_that_says_what_to_do() -> None:
    posterior = logistic_posterior(30, 2, 4, 0.5, 1.0)
    with pytest.raises(NotSolved, match="too few"):
        exact_draws(posterior, envelope(posterior), GRID, 50, SeededNoise(0), 20)


def test_the_prior_alone_is_sampled_when_rows_say_nothing() -> None:
    posterior = Posterior(np.zeros((3, 2)), 2.0, 0.5, 1.0, np.zeros(2), 0.0)
    draws = exact_draws(posterior, envelope(posterior), 2.0**-20, 50_000, SystemNoise(), 10**6).points
    for column in draws.T:
        assert stats.kstest(column, "norm").statistic <= allowed_gap(50_000)

"""Gibbs posteriors with δ = 0: log ratios of densities over the whole ball, sampled audits, and planted bugs that both must find.

Sampled audits raise a false alarm with probability at most 1e-6 (their confidence).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import pytest

from sudare.audit import distinguish
from sudare.audit.gibbs_audits import posterior_of
from sudare.frames.rows import Rows
from sudare.gibbs.exact_draws import exact_draws
from sudare.gibbs.mean import MeanDraws
from sudare.gibbs.mechanisms import LogisticDraws, RidgeDraws
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.privacy.accounting import pure_cost
from sudare.privacy.noise import SystemNoise

EPSILON = 1.0
RADIUS = 1.0
OTHERS = 2_000
SOURCE = SystemNoise()


def table(changed, target, count):
    """One row, and others that hold the parameters at the first axis."""
    rows = np.vstack([[changed], np.tile([1.0, 0.0], (count, 1))])
    targets = np.ones(count + 1)
    targets[0] = target
    return Rows.held(rows, targets[:, np.newaxis])


def flipped(count):
    """The changed row takes the other label."""
    return table([1.0, 0.0], 1.0, count), table([1.0, 0.0], -1.0, count)


def logistic(kind, count):
    return kind(Facts(count + 1, 2, 1.0, Logistic(), 3.0), EPSILON, 0.0, radius=RADIUS)


def ridge(kind, count):
    return kind(Facts(count + 1, 2, 1.0, CappedSquares(1e6), 3.0), RADIUS, EPSILON, 0.0)


def mean(kind, count):
    return kind(count + 1, 2, 1.0, RADIUS, 1.0, EPSILON, 0.0)


def moved_sums(count):
    """Sums of records of norm one: the changed one goes from one side to the other."""
    return np.array([1.0 + count, 0.0]), np.array([-1.0 + count, 0.0])


def hot(kind):
    """The planted bug: β × 1.3, as if a replaced record changed a sum of losses by their range only once."""

    class Hot(kind):
        @cached_property
        def inverse_temperature(self):
            return 1.3 * kind.inverse_temperature.func(self)

    return Hot


CASES = [(LogisticDraws, logistic, flipped), (RidgeDraws, ridge, flipped), (MeanDraws, mean, moved_sums)]


def largest_log_ratio(method, pair):
    """sup |log dP/dQ| over a lattice on the ball, the edge of the first axis included."""
    axis = np.linspace(-RADIUS, RADIUS, 41)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    points = points[np.einsum("ij,ij->i", points, points) <= RADIUS**2]
    logs = []
    for data in pair:
        posterior = posterior_of(method, data)[0]
        offsets = points - posterior.mode
        rises = np.array([posterior.loss.rises(posterior.scores, posterior.rows @ v).sum() for v in offsets])
        prior = offsets @ posterior.mode + 0.5 * np.einsum("ij,ij->i", offsets, offsets)
        log_density = -posterior.inverse_temperature * (rises + posterior.penalty * prior)
        logs.append(log_density - np.logaddexp.reduce(log_density))
    return float(np.max(np.abs(logs[0] - logs[1])))


@pytest.mark.parametrize(("kind", "method", "pair"), CASES)
def test_no_log_ratio_is_above_epsilon_and_a_hotter_posterior_is_found(kind, method, pair):
    exact = largest_log_ratio(method(kind, OTHERS), pair(OTHERS))
    assert 0.8 * EPSILON < exact <= EPSILON
    assert largest_log_ratio(method(hot(kind), OTHERS), pair(OTHERS)) > EPSILON
    assert method(kind, OTHERS).cost == pure_cost(EPSILON)


@pytest.mark.parametrize(("kind", "method", "pair"), CASES)
def test_draws_cannot_be_told_apart_better_than_epsilon(kind, method, pair):
    """Few other records, so that both sides of the ball are drawn. A posterior fifteen times as cold is found."""

    def drawn(factor):
        def draws(data, count):
            one = method(kind, 0)
            vars(one)["inverse_temperature"] = factor * one.inverse_temperature
            return exact_draws(*posterior_of(one, data), one.grid, count, SOURCE, 10**7).points

        return draws

    good = distinguish(drawn(1.0), pair(0), EPSILON, 10_000, batched=True)
    assert good.holds, str(good)
    bad = distinguish(drawn(15.0), pair(0), EPSILON, 10_000, batched=True)
    assert not bad.holds, str(bad)


def test_draws_stay_in_the_ball_and_follow_the_density():
    """A posterior that presses against the edge: its law along the first axis by quadrature."""
    method = logistic(LogisticDraws, 200)
    posterior, bound = posterior_of(method, flipped(200)[0])
    assert posterior.tilt > 0
    sample = exact_draws(posterior, bound, method.grid, 4_000, SOURCE, 10**6).points
    assert np.all(np.linalg.norm(sample, axis=1) <= RADIUS + 2 * method.grid)
    axis = np.linspace(-RADIUS, RADIUS, 2_001)
    beta = method.inverse_temperature
    density = np.exp(-beta * (201 * np.logaddexp(0, -axis) + 1.5 * axis**2))
    # The second coordinate: a Gaussian on the chord.
    chords = np.sqrt(np.maximum(RADIUS**2 - axis**2, 0))
    density *= np.array([math.erf(chord * math.sqrt(beta * 3.0 / 2)) for chord in chords])
    cumulative = np.cumsum(density) / density.sum()
    ranks = np.interp(sample[:, 0], axis, cumulative)
    gap = np.max(np.abs(np.sort(ranks) - (np.arange(len(ranks)) + 0.5) / len(ranks)))
    # Kolmogorov and Smirnov: above 2.63/√n once in a million.
    assert gap < 2.63 / math.sqrt(len(ranks)) + 2e-3

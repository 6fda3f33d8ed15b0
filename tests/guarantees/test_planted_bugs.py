"""Twins: beside every correct mechanism one with a bug that has been shipped somewhere. The same gate passes one, not the other.

A correct mechanism is refused with probability at most 1e-6 (the confidence of the audit). The sizes are such that each
bug's bound lies more than six of its deviations above the claim, in ten runs or more with seeded noise of the same law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from sudare.array_types import Floats
from sudare.audit import Audit, distinguish, distinguish_gaussian
from sudare.audit.density_ratios import exact_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.noise import SystemNoise
from tests.guarantees.gates import EPSILONS, real_draws

Batched = Callable[[Any, int], Floats]
Noise = Laplace | Gaussian | GammaNorm
SOURCE = SystemNoise()
ORIGIN = np.zeros(2)


def known_epsilon(mechanism: Noise, pair: tuple[Floats, Floats]) -> float:
    loss = exact_epsilon(mechanism, pair)
    assert loss is not None
    return loss


def gate(mechanism: Batched, pair: tuple[Any, Any], epsilon: float, samples: int) -> Audit:
    return distinguish(mechanism, pair, epsilon, samples, batched=True, measured_share=0.7)


def assert_only_the_bug_is_found(
    correct: Batched, buggy: Batched, pair: tuple[Any, Any], epsilon: float, samples: int
) -> None:
    bad = gate(buggy, pair, epsilon, samples)
    assert not bad.holds, str(bad)
    good = gate(correct, pair, epsilon, samples)
    assert good.holds, str(good)
    # The gate is not blind: it sees a good part of what the correct mechanism does spend.
    assert good.tightness > 0.3, str(good)


@dataclass(frozen=True)
class QuietLaplace(Laplace):
    """Noise × 0.8."""

    @cached_property
    def scale_in_steps(self) -> float:
        return 0.8 * Laplace(self.sensitivity, self.epsilon, self.dimension, self.integer_grid).scale_in_steps


@dataclass(frozen=True)
class QuietGaussian(Gaussian):
    """Noise × 0.8."""

    @cached_property
    def scale_in_steps(self) -> float:
        twin = Gaussian(self.sensitivity, self.epsilon, self.delta, self.dimension, self.integer_grid)
        return 0.8 * twin.scale_in_steps

    def _distance_to_ideal(self) -> Fraction:
        return Gaussian(self.sensitivity, self.epsilon, self.delta, self.dimension)._distance_to_ideal()


@dataclass(frozen=True)
class QuietGammaNorm(GammaNorm):
    """Noise × 0.8."""

    @cached_property
    def rate(self) -> float:
        return GammaNorm(self.sensitivity, self.epsilon, self.dimension).rate / 0.8


def test_noise_times_four_fifths_is_found_in_samples() -> None:
    pair = ORIGIN, np.array([0.6, 0.4])
    assert_only_the_bug_is_found(
        real_draws(Laplace(1.0, 1.0, 2)), real_draws(QuietLaplace(1.0, 1.0, 2)), pair, 1.0, 60_000
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("correct", "buggy"),
    [
        (lambda epsilon: Laplace(1.0, epsilon, 2), lambda epsilon: QuietLaplace(1.0, epsilon, 2)),
        (lambda epsilon: Gaussian(1.0, epsilon, 1e-6, 2), lambda epsilon: QuietGaussian(1.0, epsilon, 1e-6, 2)),
        (lambda epsilon: GammaNorm(1.0, epsilon, 2), lambda epsilon: QuietGammaNorm(1.0, epsilon, 2)),
    ],
    ids=["laplace", "gaussian", "gamma-norm"],
)
def test_noise_times_four_fifths_is_found_in_densities(
    correct: Callable[[float], Noise], buggy: Callable[[float], Noise], epsilon: float
) -> None:
    pair = ORIGIN, (np.array([0.6, 0.4]) if isinstance(correct(epsilon), Laplace) else np.array([0.6, 0.8]))
    assert known_epsilon(correct(epsilon), pair) <= epsilon
    assert known_epsilon(buggy(epsilon), pair) > 1.2 * epsilon


def row_sum(mechanism: GammaNorm | Laplace | Gaussian, clip: Callable[[Floats], Floats]) -> Batched:
    """A noisy sum of clipped rows."""
    return lambda table, count: mechanism.draws(clip(table).sum(axis=0), count, SOURCE)


def clip_norm(table: Floats) -> Floats:
    """Rows scaled back to the unit ball."""
    return np.asarray(table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1.0))


def tables(changed: Floats, to: Floats) -> tuple[Floats, Floats]:
    """Replace-one neighbours of five rows."""
    rows = np.tile([0.3, -0.2], (5, 1))
    first, second = rows.copy(), rows.copy()
    first[0], second[0] = changed, to
    return first, second


def test_half_sensitivity() -> None:
    """Replacing a row of the unit ball moves the sum by two, not one. In one dimension this is nearly invisible."""
    pair = tables(np.array([0.6, 0.8]), np.array([-0.6, -0.8]))
    assert_only_the_bug_is_found(
        row_sum(GammaNorm(2.0, 1.0, 2), clip_norm), row_sum(GammaNorm(1.0, 1.0, 2), clip_norm), pair, 1.0, 15_000
    )


def test_wrong_bound() -> None:
    """Each coordinate is held to [−1, 1], but it is the norm that is declared to be at most one."""

    def clip_coordinates(table: Floats) -> Floats:
        return np.clip(table, -1.0, 1.0)

    pair = tables(np.array([1.0, 1.0]), np.array([-1.0, -1.0]))
    mechanism = GammaNorm(2.0, 2.0, 2)
    assert_only_the_bug_is_found(row_sum(mechanism, clip_norm), row_sum(mechanism, clip_coordinates), pair, 2.0, 30_000)


def test_skipped_clipping() -> None:
    def as_it_is(table: Floats) -> Floats:
        return table

    pair = tables(np.array([3.0, 4.0]), np.array([-3.0, -4.0]))
    mechanism = GammaNorm(2.0, 2.0, 2)
    assert_only_the_bug_is_found(row_sum(mechanism, clip_norm), row_sum(mechanism, as_it_is), pair, 2.0, 8_000)


def test_swapped_neighbours() -> None:
    """A histogram calibrated for an added or removed row, claimed for a replaced one: that row leaves one cell for another."""

    def counts(table: Floats) -> Floats:
        return np.bincount(table.astype(int), minlength=3).astype(np.float64)

    def histogram(sensitivity: float) -> Batched:
        mechanism = Laplace(sensitivity, 1.0, 3, integer_grid=1.0)
        return lambda table, count: mechanism.draws(counts(table), count, SOURCE)

    pair = np.array([0.0, 0, 1, 2]), np.array([0.0, 2, 1, 2])
    assert_only_the_bug_is_found(histogram(2.0), histogram(1.0), pair, 1.0, 12_000)


def test_gaussian_that_forgets_delta() -> None:
    """μ = ε: the scale Δ/ε of a Laplace mechanism put into a Gaussian. Events of both kinds of audit see it."""
    epsilon, delta = 1.0, 1e-6
    pair = ORIGIN, np.array([0.6, 0.8])
    correct = Gaussian(1.0, epsilon, delta, 2)
    claimed = Guarantee(epsilon, delta)
    mu = correct.cost.mu
    assert mu is not None

    def forgetful(values: Floats, count: int) -> Floats:
        steps = np.tile(np.rint(values / correct.grid).astype(np.int64), count)
        noisy = SOURCE.gaussian(steps, 1.0 / (epsilon * correct.grid))
        return noisy.reshape(count, 2).astype(np.float64) * correct.grid

    samples = 20_000
    for mechanism, holds in ((forgetful, False), (real_draws(correct), True)):
        # Both audits look at the same outputs: each is right with its own confidence, whatever the other finds.
        drawn = [mechanism(data, samples) for data in pair]

        def again(place: int, count: int, drawn: list[Floats] = drawn) -> Floats:
            return drawn[place][:count]

        assert distinguish(again, (0, 1), claimed, samples, batched=True).holds is holds
        assert distinguish_gaussian(again, (0, 1), claimed, mu, samples, batched=True).holds is holds


def test_gaussian_with_a_mu_for_a_larger_delta() -> None:
    """Calibrated at δ = 1e-5, claimed at 1e-6: too little for samples, plain in the law."""
    pair = ORIGIN, np.array([0.6, 0.8])
    for epsilon in EPSILONS:
        loose = Gaussian(1.0, epsilon, 1e-5, 2)
        steps = Gaussian(1.0, epsilon, 1e-6, 2)
        assert known_epsilon(steps, pair) <= epsilon
        tampered = TamperedGaussian(1.0, epsilon, 1e-6, 2, used=loose.scale_in_steps)
        assert known_epsilon(tampered, pair) > epsilon


@dataclass(frozen=True)
class TamperedGaussian(Gaussian):
    """Another scale than the claim asks for."""

    used: float = 0.0

    @property
    def noise_scale(self) -> float:
        return self.used * self.grid


class ObjectivePerturbation:
    """Logistic regression on one feature in [−1, 1] with an intercept, by objective perturbation.

    Correct: intercept as a penalised bias column, x = (feature, 1)/√2 in the unit ball, so that gamma-norm noise covers both weights;
    ε ≥ 2·rate + 2·log(1 + 1/(4nΛ)) (Chaudhuri, Monteleoni and Sarwate 2011, replace-one). Buggy: the intercept is neither penalised
    nor in the noise.
    """

    def __init__(self, epsilon: float, penalty: float, *, bias_column: bool) -> None:
        self.epsilon, self.penalty, self.bias_column = epsilon, penalty, bias_column

    def __call__(self, data: tuple[Floats, Floats], count: int) -> Floats:
        feature, label = data
        rows = np.column_stack([feature, np.ones_like(feature)]) / math.sqrt(2)
        slack = 2 * math.log1p(1 / (4 * len(rows) * self.penalty))
        noisy_weights = 2 if self.bias_column else 1
        noise = np.zeros((count, 2))
        noise[:, :noisy_weights] = GammaNorm(2.0, self.epsilon - slack, noisy_weights).draws(
            np.zeros(noisy_weights), count, SOURCE
        )
        penalties = self.penalty * np.array([1.0, 1.0 if self.bias_column else 0.0])
        return minimisers(rows, label, penalties, noise / len(rows))


def minimisers(rows: Floats, label: Floats, penalties: Floats, linear: Floats) -> Floats:
    """Newton's method on mean logistic loss + ½ Σ penaltyⱼ θⱼ² + linear·θ, for many linear terms at once."""
    signed = rows * label[:, np.newaxis]
    weights = np.zeros_like(linear)
    for _ in range(60):
        probability = 1 / (1 + np.exp(np.clip(weights @ signed.T, -500, 500)))
        gradient = -probability @ signed / len(rows) + penalties * weights + linear
        curvature = probability * (1 - probability) / len(rows)
        hessian = np.einsum("ci,ij,ik->cjk", curvature, signed, signed) + np.diag(penalties)
        step = np.linalg.solve(hessian + 1e-12 * np.eye(2), gradient[..., np.newaxis])[..., 0]
        # Damped: far from the minimum a full step would overshoot.
        weights -= step / np.maximum(1.0, np.linalg.norm(step, axis=1, keepdims=True))
        if np.abs(step).max() < 1e-12:
            break
    return weights


def test_unpenalised_intercept() -> None:
    """Given the noisy slope, the intercept is an exact function of the data: the outputs lie on two different curves."""
    feature = np.array([1.0, -0.5, 0.2, -0.8, 0.9, -0.1])
    label = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    flipped = label.copy()
    flipped[0] = -1.0
    pair = (feature, label), (feature, flipped)
    epsilon, penalty = 2.0, 0.5
    bad = gate(ObjectivePerturbation(epsilon, penalty, bias_column=False), pair, epsilon, 10_000)
    assert not bad.holds, str(bad)
    assert bad.counts.hits_where_rarer == 0
    good = gate(ObjectivePerturbation(epsilon, penalty, bias_column=True), pair, epsilon, 10_000)
    assert good.holds, str(good)
    # One flipped label moves the gradient by half of what the noise is calibrated for.
    assert good.tightness > 0.2

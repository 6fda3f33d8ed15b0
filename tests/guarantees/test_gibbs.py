"""Gibbs posteriors: exact privacy profiles of laws on hard pairs, sampled audits of every method, and planted bugs that both must find.

Where a law is known the privacy profile is computed by quadrature, with as many rows as it takes to make the pair hard at the price of the different ones. Sampled
audits raise a false alarm with probability at most 1e-6 (their confidence).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
from scipy.optimize import brentq

from sudare.audit import distinguish_gaussian
from sudare.audit.linear_audits import misclassified_pair
from sudare.frames.rows import Rows
from sudare.gibbs.custom_draws import CustomDraws
from sudare.gibbs.exact_draws import exact_draws
from sudare.gibbs.float_rejection_sampler import rejection_draws
from sudare.gibbs.gaussian_envelope import envelope
from sudare.gibbs.mean import MeanDraws
from sudare.gibbs.mechanisms import LogisticDraws, RidgeDraws
from sudare.gibbs.proximal_sampler import ProximalPlan, proximal_draw
from sudare.gibbs.truncated_gaussian import linear_posterior
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.rows import joint_norm
from sudare.privacy.accounting import (
    Cost,
    gaussian_cost,
    gaussian_delta,
    gaussian_mu_within,
    total_variation_delta,
)
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from tests.gibbs.test_sklearn_checks import distance_from_rows, pull_of_rows

DELTA = 1e-5
SOURCE = SystemNoise()


def logistic_facts(penalty: float, rows: int = 401, norm_bound: float = 1.0, width: int = 2) -> Facts:
    return Facts(rows, width, norm_bound, Logistic(), penalty)


# Exact profiles


@dataclass(frozen=True)
class HeldPair:
    """Two data sets of signed rows that differ in one row. The others, all alike and very many, hold θ far along the second vector of the basis."""

    shared: np.ndarray
    first: np.ndarray
    second: np.ndarray
    basis: np.ndarray
    count: float = 1e30

    def energy(self, points: np.ndarray, changed: np.ndarray, penalty: float) -> np.ndarray:
        """Σ loss + (ρ/2)‖θ‖²."""
        losses = self.count * np.logaddexp(0, -points @ self.shared) + np.logaddexp(0, -points @ changed)
        return np.asarray(losses + penalty / 2 * (points**2).sum(axis=1))


def pair_without_bias(tilt: float = 0.1) -> HeldPair:
    """The changed row points a little backwards, to the left or to the right: both ways it is far on its wrong side."""
    along = math.sqrt(1 - tilt**2)
    return HeldPair(np.array([0.0, 1.0]), np.array([-along, -tilt]), np.array([along, -tilt]), np.eye(2))


def pair_with_bias(bias: float, tilt: float = 0.1) -> HeldPair:
    """The same where every row has the constant column `bias`: the changed row takes the other label too, so that it changes sign as well."""
    rows = []
    for label, second in ((-1.0, -(bias**2) + tilt), (1.0, -(bias**2) - tilt)):
        rows.append(label * np.array([math.sqrt(1 - second**2), second, bias]))
    held = np.array([0.0, 1.0, bias]) / math.hypot(1.0, bias)
    basis = np.array([[1.0, 0.0, 0.0], held, np.cross([1.0, 0.0, 0.0], held)])
    return HeldPair(np.array([0.0, 1.0, bias]), *rows, basis)


def profile(pair: HeldPair, beta: float, penalty: float, epsilon: float, nodes: int) -> float:
    """δ(ε) of a draw at inverse temperature β, by the midpoint rule on a lattice around both modes; the larger of both directions."""
    spread, norm = 1 / math.sqrt(beta * penalty), float(np.linalg.norm(pair.shared))
    held = brentq(lambda t: penalty * t - pair.count * norm * math.exp(-norm * t), 1.0, 200.0)
    stiff = 1 / math.sqrt(beta * penalty * (1 + norm * held))
    axes = [spread * np.linspace(-8, 8, nodes)] * len(pair.basis)
    axes[1] = held + stiff * np.linspace(-8, 8, 41)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)) @ pair.basis
    laws = []
    for changed in (pair.first, pair.second):
        energy = beta * pair.energy(points, changed, penalty)
        density = np.exp(energy.min() - energy)
        laws.append(density / density.sum())
    growth = math.exp(epsilon)
    return max(float(np.maximum(one - growth * other, 0).sum()) for one, other in (laws, laws[::-1]))


class HotDraws(LogisticDraws):
    """The planted bug: β × 1.3."""

    @cached_property
    def inverse_temperature(self) -> float:
        return 1.3 * LogisticDraws(self.facts, self.epsilon, self.delta, self.draws).inverse_temperature


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_the_logistic_profile_holds_is_nearly_reached_and_a_hotter_one_is_found(epsilon):
    penalty = 40.0
    pair = pair_without_bias()
    facts = logistic_facts(penalty)
    exact = profile(pair, LogisticDraws(facts, epsilon, DELTA).inverse_temperature, penalty, epsilon, 801)
    assert 0.75 * DELTA < exact <= DELTA
    hot = profile(pair, HotDraws(facts, epsilon, DELTA).inverse_temperature, penalty, epsilon, 801)
    assert hot > 2 * DELTA


def test_a_forgotten_bias_norm_is_found():
    """Rows of norm 1 with a constant column of ½ have norm √1.25; β for norm 1 gives away more than δ."""
    penalty, epsilon, bias = 40.0, 5.0, 0.5
    pair = pair_with_bias(bias)
    assert np.linalg.norm(pair.first) == pytest.approx(joint_norm(1.0, bias))
    assert abs(pair.first[2]) == abs(pair.second[2]) == bias
    honest = LogisticDraws(logistic_facts(penalty, norm_bound=joint_norm(1.0, bias), width=3), epsilon, DELTA)
    forgetful = LogisticDraws(logistic_facts(penalty, norm_bound=1.0, width=3), epsilon, DELTA)
    assert 0.6 * DELTA < profile(pair, honest.inverse_temperature, penalty, epsilon, 161) <= DELTA
    assert profile(pair, forgetful.inverse_temperature, penalty, epsilon, 161) > 2 * DELTA


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("width", [1, 4])
def test_linear_losses_reach_delta_to_one_percent(epsilon, width):
    """A mean on a ball so large that it does not matter is N(Σx/ρ, I/βρ): the sum moves by 2a."""
    reach = math.sqrt(width)
    method = MeanDraws(50, width, reach, 1e9, 1.0, epsilon, DELTA)
    moved = 2 * reach / method.penalty * math.sqrt(method.inverse_temperature * method.penalty)
    assert 0.99 * DELTA <= gaussian_delta(moved, epsilon) <= DELTA


# Sampled audits


def logistic_mechanism(method: LogisticDraws):
    """Many draws of one posterior, as production makes one."""

    def drawn(table, count):
        rows, targets = table
        posterior = method.posterior(Rows.held(rows, targets[:, np.newaxis]))
        return exact_draws(posterior, envelope(posterior), method.grid, count, SOURCE, 10**7).points

    return drawn


def audited(mechanism, pair, method, samples):
    mu = method.cost.mu
    assert mu is not None
    claimed = Guarantee(method.epsilon, method.delta)
    return distinguish_gaussian(mechanism, pair, claimed, mu, samples, batched=True, measured_share=0.7)


class CarelessDraws(LogisticDraws):
    """The planted bug: sensitivity of adding a row instead of replacing one, β × 4."""

    @cached_property
    def inverse_temperature(self) -> float:
        return 4 * LogisticDraws(self.facts, self.epsilon, self.delta, self.draws).inverse_temperature


def test_logistic_draws_cannot_be_told_apart_better_than_claimed():
    pair = misclassified_pair(0.5, np.array([0.0, 1.0]), 400)
    facts = logistic_facts(10.0)
    method = LogisticDraws(facts, 5.0, DELTA)
    good = audited(logistic_mechanism(method), pair, method, 20_000)
    assert good.holds, str(good)
    assert good.tightness > 0.3, str(good)
    bad = audited(logistic_mechanism(CarelessDraws(facts, 5.0, DELTA)), pair, method, 20_000)
    assert not bad.holds, str(bad)


class HotMean(MeanDraws):
    """The planted bug: β × 1.3 with the same penalty."""

    def posterior(self, total):
        found, _ = super().posterior(total)
        return linear_posterior(total, 1.3 * found.inverse_temperature, found.penalty, found.norm_bound, self.radius)


def ball_mechanism(method):
    """Many draws of the posterior that production makes one of."""
    return lambda data, count: exact_draws(*method.posterior(data), method.grid, count, SOURCE, 10**7).points


def test_means_cannot_be_told_apart_better_than_claimed():
    """The changed record goes from one corner of the square to the other; the posterior is well inside of the ball."""
    pair = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
    method = MeanDraws(20, 2, math.sqrt(2), math.sqrt(2), 1.0, 5.0, DELTA)
    # So many that a tightness below 0.9 is far out: it is 0.962 ± 0.004.
    good = audited(ball_mechanism(method), pair, method, 240_000)
    assert good.holds, str(good)
    assert good.tightness > 0.9, str(good)
    hot = HotMean(20, 2, math.sqrt(2), math.sqrt(2), 1.0, 5.0, DELTA)
    bad = audited(ball_mechanism(hot), pair, method, 60_000)
    assert not bad.holds, str(bad)


class ColdRidge(RidgeDraws):
    """The planted bug: the bound on targets is forgotten, L = R·RB/2."""

    @cached_property
    def lipschitz(self) -> float:
        return self.facts.norm_bound**2 * self.radius / 2


def test_ridge_draws_cannot_be_told_apart_better_than_claimed():
    """A row's target flips, beside rows across; the penalty is so large that the ball hardly matters."""
    rows = np.array([[1.0, 0.0], *[[0.0, 1.0]] * 6])
    targets = np.ones((7, 1))
    flipped = targets.copy()
    flipped[0] = -1.0
    pair = Rows.held(rows, targets), Rows.held(rows, flipped)
    facts = Facts(7, 2, 1.0, CappedSquares(1e6), 30.0)
    method = RidgeDraws(facts, 1.0, 5.0, DELTA)
    good = audited(ball_mechanism(method), pair, method, 20_000)
    assert good.holds, str(good)
    assert good.tightness > 0.3, str(good)
    bad = audited(ball_mechanism(ColdRidge(facts, 1.0, 5.0, DELTA)), pair, method, 20_000)
    assert not bad.holds, str(bad)


def test_gradients_of_two_squared_losses_differ_by_no_more_than_twice_l():
    """R²B + 2RY, and random search comes near: within a fifth of it at RB = Y."""
    random = np.random.default_rng(0)
    radius = 2.0
    method = RidgeDraws(Facts(10, 2, 1.5, CappedSquares(1e6), 8.0), radius, 1.0, DELTA)
    angles = random.uniform(0, 2 * np.pi, (3, 200_000))
    points, one, two = (np.stack([np.cos(angle), np.sin(angle)], axis=1) for angle in angles)
    gradients = [
        1.5 * direction * (1.5 * radius * np.einsum("ij,ij->i", direction, points) - sign)[:, np.newaxis]
        for direction, sign in ((one, -1.0), (two, 1.0))
    ]
    largest = float(np.linalg.norm(gradients[0] - gradients[1], axis=1).max())
    assert largest <= 2 * method.lipschitz
    assert largest > 1.6 * method.lipschitz


class HotCustom(CustomDraws):
    """The planted bug: β × 2."""

    @cached_property
    def largest_inverse_temperature(self) -> float:
        return 2 * CustomDraws.largest_inverse_temperature.func(self)  # type: ignore[attr-defined]


def custom_mechanism(kind):
    """Many draws of the posterior that production makes one of."""

    def drawn(rows, count):
        potential = kind(len(rows), 2, 1.0, 0.0, 1.0, 5.0, DELTA).potential(
            lambda point: distance_from_rows(point, rows), lambda point: pull_of_rows(point, rows)
        )
        return rejection_draws(potential, count, SOURCE)[0]

    return drawn


def test_draws_of_a_users_loss_cannot_be_told_apart_better_than_claimed():
    """One record far to the left or far to the right: its pull is nearly one wherever θ is."""
    pair = np.array([[-30.0, 0.0]]), np.array([[30.0, 0.0]])
    method = CustomDraws(1, 2, 1.0, 0.0, 1.0, 5.0, DELTA)
    good = audited(custom_mechanism(CustomDraws), pair, method, 12_000)
    assert good.holds, str(good)
    assert good.tightness > 0.7, str(good)
    bad = audited(custom_mechanism(HotCustom), pair, method, 12_000)
    assert not bad.holds, str(bad)


# What sampling within γ costs


def independent_distance(method: LogisticDraws) -> float:
    """γ of all chains by the formula of proofs/proximal.md, from public numbers only."""
    plan, facts = method.proximal_plan, method.facts
    assert plan is not None
    m = method.inverse_temperature * facts.penalty
    largest = m + method.inverse_temperature * facts.rows * facts.norm_bound**2 / 4
    first = facts.width / 2 * math.log(largest / m)
    return facts.outputs * method.draws * math.sqrt(first / 2) * (1 + m * plan.spread**2) ** -plan.steps


def is_paid_for(method: LogisticDraws) -> bool:
    """Whether the cost names the distance and (ε, δ) covers both parts."""
    cost = method.cost
    assert cost.mu is not None
    covered = Fraction(gaussian_delta(cost.mu, method.epsilon))
    covered += total_variation_delta(Fraction(method.epsilon), cost.total_variation)
    return cost.total_variation >= Fraction(independent_distance(method)) and covered <= Fraction(method.delta)


class UnpaidDraws(LogisticDraws):
    """The planted bug: the chain's distance is not charged."""

    @cached_property
    def cost(self) -> Cost:
        return gaussian_cost(self.epsilon, self.delta)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("draws", [1, 3])
def test_the_distance_of_the_proximal_sampler_is_charged(epsilon, draws):
    facts = replace(logistic_facts(3.0, rows=1000), outputs=2)
    for sampler in ("auto", "proximal"):
        assert is_paid_for(LogisticDraws(facts, epsilon, DELTA, draws, sampler))
        assert not is_paid_for(UnpaidDraws(facts, epsilon, DELTA, draws, sampler))
    assert LogisticDraws(facts, epsilon, DELTA, draws, "exact").cost.total_variation == 0


class ShortPlan(ProximalPlan):
    """The planted bug: the chain stops after its first step."""

    @cached_property
    def steps(self) -> int:
        return 1


def test_a_chain_that_stops_early_is_found():
    """Near its start N(θ₀, I/M) the chain is far narrower than the posterior, and the start depends on the data."""
    pair = misclassified_pair(0.5, np.array([0.0, 1.0]), 400)
    facts = logistic_facts(1.0)
    method = LogisticDraws(facts, 5.0, DELTA)

    def mechanism(kind):
        def drawn(table, count):
            rows, targets = table
            posterior = method.posterior(Rows.held(rows, targets[:, np.newaxis]))
            plan = kind(401, 2, 1.0, method.inverse_temperature, 1.0, method.tolerance, 1e-6)
            return [proximal_draw(posterior, plan, method.grid, SOURCE).point for _ in range(count)]

        return drawn

    bad = audited(mechanism(ShortPlan), pair, method, 1_500)
    assert not bad.holds, str(bad)


def test_mu_of_one_draw_is_what_the_method_claims():
    """k draws at β/k each compose to the claimed μ."""
    facts = logistic_facts(3.0)
    for draws in (1, 4):
        method = LogisticDraws(facts, 1.0, DELTA, draws)
        one = 2 * method.inverse_temperature / math.sqrt(method.inverse_temperature * 3.0)
        assert one * math.sqrt(draws) == pytest.approx(gaussian_mu_within(1.0, DELTA), rel=1e-12)
        assert one * math.sqrt(draws) <= gaussian_mu_within(1.0, DELTA)

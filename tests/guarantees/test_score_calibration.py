"""Calibrated scores: sums move as the proof says, parts add up to the budget, and releases cannot be told apart better than claimed. Planted bugs are caught."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from sudare.audit import distinguish
from sudare.frames.rows import Rows
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.linear import mechanism_with_score_line as module
from sudare.linear.descent_on_centred_targets import CentredDescent
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.mechanism_with_score_line import CalibratedMechanism, score_range, split
from sudare.linear.method_choice import planned
from sudare.linear.rows import array_layout, bounded_rows, with_bias
from sudare.linear.score_calibration import (
    CLASSES,
    NUMBERS,
    SEVERAL,
    Spread,
    association_values,
    level_values,
    spread_values,
)
from sudare.linear.sufficient_statistics import SufficientStatistics
from sudare.privacy.accounting import exact, gaussian_mu_within, mu_of_pure
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise

LAYOUT = array_layout(2, 1.0, True)


def mechanism_of(epsilon=1.0, delta=0.0, method="mean", outputs=1, rows=1, unit=1, loss=None) -> CalibratedMechanism:
    loss = loss or Logistic()
    facts = Facts(rows, LAYOUT.width, LAYOUT.joint_norm, loss, 1.0, outputs=outputs, rows_per_unit=unit)
    recipe = (CLASSES if outputs == 1 else SEVERAL) if loss.one_sided else NUMBERS
    parts = split(epsilon, delta, rows / unit, recipe, method != "objective")
    if method == "statistics":
        learning = SufficientStatistics(facts, LAYOUT, parts.epsilon, parts.delta)
    else:
        learning = planned(method, facts, parts.epsilon, parts.delta, 1.0, True)
    return CalibratedMechanism(learning, LAYOUT, parts, epsilon, delta, recipe)


def extreme_rows(outputs: int, numbers: bool):
    """Rows of norm one in all directions with all targets, and parameters that are large, small and zero."""
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    rows = with_bias(bounded_rows(np.column_stack([np.cos(angles), np.sin(angles)]), 1.0)[0], LAYOUT.bias)
    if outputs > 1:
        targets = 2 * np.eye(outputs) - 1
    else:
        targets = np.array([[-1.0], [1.0], [0.3]]) if numbers else np.array([[-1.0], [1.0]])
    return [(row[np.newaxis], target[np.newaxis]) for row, target in itertools.product(rows, targets)]


def largest_moves(outputs: int, numbers: bool = False) -> dict[str, tuple[float, float, float]]:
    """By how much one replaced row moves each sum: in ℓ1, ℓ∞ and ℓ2."""
    random = np.random.default_rng(0)
    found = {}
    for scale in (0.01, 1.0, 100.0):
        parameters = random.normal(size=(outputs, LAYOUT.width)) * scale
        parameters[-1] = [3 * scale, 0.0, 0.0]
        spread = Spread(np.full(outputs, 0.1 * scale), np.full(outputs, 0.5 * scale))
        sums: dict[str, list[np.ndarray]] = {"level": [], "spread": [], "association": [], "probabilities": []}
        for row, target in extreme_rows(outputs, numbers):
            scores = module._scores(row, parameters)
            sums["level"].append(level_values(target)[0])
            sums["spread"].append(spread_values(spread.of(scores))[0])
            sums["association"].append(association_values(spread.of(scores), target)[0])
            sums["probabilities"].append(module._probability_block(parameters, 2.0**-30, row, target)[0])
        for name, vectors in sums.items():
            for first, second in itertools.combinations(vectors, 2):
                moved = tuple(float(np.linalg.norm(first - second, order)) for order in (1, np.inf, 2))
                found[name] = tuple(map(max, moved, found.get(name, (0.0, 0.0, 0.0))))
    return found


@pytest.mark.parametrize(("outputs", "numbers"), [(1, False), (1, True), (2, False), (3, False)])
def test_sums_move_as_the_proof_says(outputs, numbers):
    moves = largest_moves(outputs, numbers)
    assert moves["level"][0] == pytest.approx(2.0)
    for name in ("spread", "association"):
        assert 1.9 < moves[name][1] <= 2.0
        assert moves[name][2] ** 2 <= (4 * outputs + 4) * (1 + 1e-12)
    if outputs == 1:
        assert moves["association"][2] ** 2 > 0.95 * 8
    else:
        for moved, bound in zip(moves["probabilities"], (2.0, 1.0, 2.0**0.5), strict=True):
            assert 0.99 * bound < moved <= bound


def test_probabilities_that_are_not_divided_by_their_sum_are_caught(monkeypatch):
    monkeypatch.setattr(module, "one_vs_rest_probabilities", lambda scores: 1 / (1 + np.exp(-scores)))
    assert largest_moves(3)["probabilities"][0] > 2.3


def test_a_rows_probabilities_do_not_depend_on_where_it_stands():
    random = np.random.default_rng(0)
    matrix, parameters = random.normal(size=(77, LAYOUT.width)), 3 * random.normal(size=(5, LAYOUT.width))
    together = module._probability_block(parameters, 2.0**-40, matrix, np.zeros((77, 5)))
    for start in (1, 5, 60):
        alone = module._probability_block(parameters, 2.0**-40, matrix[start:], np.zeros((77 - start, 5)))
        assert np.array_equal(together[start:], alone)
    assert np.all(together.sum(axis=1) <= 1)


def test_scores_that_are_not_clipped_are_caught(monkeypatch):
    monkeypatch.setattr(Spread, "of", lambda self, scores: (scores - self.centre) / self.scale)
    assert largest_moves(1)["association"][1] > 3.0


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize("outputs", [1, 3])
def test_noise_is_for_those_sensitivities_and_a_persons_rows(outputs, unit):
    """Of the pure noise b = sensitivity/ε of each part; of the Gaussian one σ² = sensitivity²/(share·μ²)."""
    pure = mechanism_of(0.7, outputs=outputs, rows=1000, unit=unit)
    assert pure._level_noise.noise_scale == pytest.approx(2 * unit / pure.parts.level)
    for noise, share in zip((pure._spread_noise, pure._association_noise), pure.parts.shares, strict=False):
        assert noise.noise_scale == pytest.approx(2 * unit / (0.7 * share), rel=1e-6)
    gaussian = mechanism_of(0.7, 1e-6, outputs=outputs, rows=1000, unit=unit)
    mu = gaussian_mu_within(gaussian.parts.others, 1e-6)
    for noise, share in zip((gaussian._spread_noise, gaussian._association_noise), gaussian.parts.shares, strict=False):
        assert noise.noise_scale == pytest.approx(unit * np.sqrt((4 * outputs + 4) / share) / mu, rel=1e-6)
    assert len(pure.parts.shares) == len(gaussian.parts.shares) == (2 if outputs == 1 else 3)
    if outputs > 1:
        # Of three classes noise by the largest coordinate is quieter than Laplace noise.
        assert pure._probability_noise.noise_scale == pytest.approx(unit / (0.7 * pure.parts.shares[2]), rel=1e-6)
        many = mechanism_of(0.7, outputs=6, rows=1000, unit=unit)
        assert many._probability_noise.noise_scale == pytest.approx(2 * unit / (0.7 * many.parts.shares[2]), rel=1e-6)
        scale = unit * np.sqrt(2 / gaussian.parts.shares[2]) / mu
        assert gaussian._probability_noise.noise_scale == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize("recipe", [CLASSES, NUMBERS, SEVERAL])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("rows", [1, 300, 10**6])
def test_parts_add_up_to_the_budget(epsilon, rows, recipe):
    """Exactly: nothing of the learning, the level or the sums is left out of the charge."""
    pure = split(epsilon, 0.0, rows, recipe, False)
    noise = [exact(pure.level), *(exact(epsilon) * exact(share) for share in pure.shares)]
    assert 0.999 * exact(epsilon) < sum(noise) + exact(pure.epsilon) <= exact(epsilon) * (1 + Fraction(1, 10**15))
    gaussian = split(epsilon, 1e-6, rows, recipe, True)
    assert exact(gaussian.level) + exact(gaussian.others) <= exact(epsilon)
    learning = Fraction(gaussian_mu_within(gaussian.epsilon, 1e-6)) ** 2
    whole = Fraction(gaussian_mu_within(gaussian.others, 1e-6)) ** 2
    assert 0.999 * whole < learning + whole * sum(map(exact, gaussian.shares)) <= whole
    basic = split(epsilon, 1e-6, rows, recipe, False)
    assert exact(basic.level) + exact(basic.epsilon) + exact(basic.sums_epsilon) <= exact(epsilon)
    assert exact(basic.delta) + exact(basic.sums_delta) <= exact(1e-6)
    assert sum(map(exact, basic.shares)) <= 1


@pytest.mark.parametrize(
    ("method", "delta"),
    [("mean", 0.0), ("mean", 1e-6), ("objective", 1e-6), ("descent", 1e-6), ("statistics", 0.0), ("statistics", 1e-6)],
)
@pytest.mark.parametrize("outputs", [1, 3])
def test_cost_is_what_was_asked_for_and_its_mu_that_of_all_parts(method, delta, outputs):
    mechanism = mechanism_of(0.5, delta, method, outputs, rows=400)
    cost = mechanism.cost
    assert (cost.epsilon, cost.delta) == (exact(0.5), exact(delta))
    if delta and method != "objective":
        whole = Fraction(gaussian_mu_within(mechanism.parts.others, delta)) ** 2
        assert cost.mu >= float(whole + Fraction(mu_of_pure(exact(mechanism.parts.level))) ** 2) ** 0.5
        assert cost.total_variation > mechanism.learning.cost.total_variation
    else:
        assert cost.mu is None


@pytest.mark.parametrize(
    ("loss", "method"), [(Logistic(), "mean"), (CappedSquares(), "mean"), (Logistic(), "statistics")]
)
def test_released_parameters_cannot_be_told_apart_better_than_claimed(loss, method):
    """One row in two dimensions whose target is turned round. False alarms: one in a million at most (`distinguish`)."""
    source = SystemNoise()
    row = with_bias(bounded_rows(np.array([[1.0, 0.0]]), 1.0)[0], LAYOUT.bias)[0]
    pair = np.array([[*row, 1.0]]), np.array([[*row, -1.0]])
    made = mechanism_of(loss=loss, method=method)

    def audited(mechanism):
        return distinguish(lambda values: mechanism.apply(values, source), pair, Guarantee(1.0, 0.0), 450)

    assert audited(made).epsilon_lower_bound <= 1.0
    # A level that is not charged for.
    assert audited(replace(made, parts=made.parts._replace(level=12.0))).epsilon_lower_bound > 1.0


def test_noisy_associations_cannot_be_told_apart_better_than_claimed():
    """Three sums of one row, given parameters and spread, with half of ε; a twin that adds noise for twenty times as much is caught."""
    source = SystemNoise()
    parameters, spread = np.array([[1.0, 0.0, 0.0]]), Spread(np.zeros(1), np.ones(1))
    pair = np.array([[1.0, 0.0, 0.5, 1.0]]), np.array([[1.0, 0.0, 0.5, -1.0]])
    method = mechanism_of(2.0)

    def audited(share):
        twin = replace(method, parts=method.parts._replace(shares=(0.1, share)))

        def released(values):
            rows = Rows.held(values[:, :-1], values[:, -1:])
            block = partial(module._association_block, parameters, spread)
            return twin._means(block, twin._association_noise, rows, source)[0]

        return distinguish(released, pair, Guarantee(1.0, 0.0), 1000)

    assert audited(0.5).epsilon_lower_bound <= 1.0
    assert audited(10.0).epsilon_lower_bound > 1.0


def test_noisy_probabilities_cannot_be_told_apart_better_than_claimed():
    """Sums of three probabilities of one row that are nearly all or nothing, with half of ε; a twin that adds noise for twenty times as much is caught."""
    source = SystemNoise()
    parameters = np.array([[40.0, 0.0, 0.0], [-40.0, 0.0, 0.0], [0.0, 0.0, -40.0]])
    pair = np.array([[1.0, 0.0, 0.5, 1.0, -1.0, -1.0]]), np.array([[-1.0, 0.0, 0.5, 1.0, -1.0, -1.0]])
    method = mechanism_of(2.0, outputs=3)

    def audited(share):
        twin = replace(method, parts=method.parts._replace(shares=(0.1, 0.1, share)))

        def released(values):
            rows = Rows.held(values[:, :-3], values[:, -3:])
            block = partial(module._probability_block, parameters, twin._step)
            return twin._means(block, twin._probability_noise, rows, source)[0]

        return distinguish(released, pair, Guarantee(1.0, 0.0), 1000)

    assert audited(0.5).epsilon_lower_bound <= 1.0
    assert audited(10.0).epsilon_lower_bound > 1.0


def test_released_parameters_of_three_classes_cannot_be_told_apart_better_than_claimed():
    source = SystemNoise()
    row = with_bias(bounded_rows(np.array([[1.0, 0.0]]), 1.0)[0], LAYOUT.bias)[0]
    pair = np.array([[*row, 1.0, -1.0, -1.0]]), np.array([[*row, -1.0, 1.0, -1.0]])
    made = mechanism_of(outputs=3)

    def audited(mechanism):
        return distinguish(lambda values: mechanism.apply(values, source), pair, Guarantee(1.0, 0.0), 450)

    assert audited(made).epsilon_lower_bound <= 1.0
    assert audited(replace(made, parts=made.parts._replace(level=12.0))).epsilon_lower_bound > 1.0


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateRidge])
def test_every_method_is_calibrated_within_one_charge(kind):
    random = np.random.default_rng(0)
    X = random.uniform(-0.5, 0.5, size=(60, 2))
    declared = {"classes": [-1, 1]} if kind is PrivateLogisticRegression else {"target_bounds": (-1, 1)}
    for method, delta in (("objective", 0.0), ("objective", 1e-6), ("output", 1e-6), ("mean", 0.0), ("descent", 1e-6)):
        model = kind(0.6, delta, method=method, random_state=0, **declared).fit(X, np.sign(X[:, 0]))
        plan = model.plan(60, model.declared_)
        # Descent on numbers finds out itself where they lie.
        is_located = (kind, method) == (PrivateRidge, "descent")
        assert type(plan.mechanism) is (CentredDescent if is_located else CalibratedMechanism)
        assert (plan.mechanism.cost.epsilon, plan.mechanism.cost.delta) == (exact(0.6), exact(delta))
        assert (model.guarantee_.epsilon, model.guarantee_.delta) == (0.6, delta)


def test_the_range_of_scores_is_that_of_declared_bounds():
    parameters = np.array([[3.0, 4.0, 2.0]])
    found = score_range(parameters, LAYOUT)
    assert found.centre == pytest.approx([2.0 * LAYOUT.bias])
    assert found.scale == pytest.approx([5.0])
    held = Rows.held(with_bias(np.array([[0.6, 0.8]]), LAYOUT.bias), np.ones((1, 1)))
    assert found.of(held.together()[0] @ parameters.T) == pytest.approx(1.0)

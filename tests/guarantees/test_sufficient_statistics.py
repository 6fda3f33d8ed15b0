"""Sufficient statistics: sums move as the proof says, parts add up to the budget, and what is released cannot be told apart better than claimed. Planted bugs are caught."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sudare.audit import distinguish
from sudare.frames.rows import Rows
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.rows import array_layout, bounded_rows, table_layout, with_bias
from sudare.linear.sufficient_statistics import RECIPE, SufficientStatistics
from sudare.privacy.accounting import exact, gaussian_mu_within, mu_of_pure
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.mechanisms import GammaNorm, Gaussian, InfinityNorm, Laplace
from sudare.privacy.noise import SystemNoise
from sudare.schema import Category, Number, Schema, encode

COLUMNS = Schema({"a": Number(-1, 1), "b": Number(0, 3, centre=1, scale=1), "c": Category(("x", "y"))})
BINNED = Schema({"a": Number(-1, 1, bins=(-0.5, 0.5)), "b": Number(0, 3, bins=(1,)), "c": Category(("x", "y"))})
LAYOUTS = {
    "array": array_layout(2, 3.0, True),
    "centred": table_layout(COLUMNS, "centred", True),
    "binned": table_layout(BINNED, "binned", True),
}
NORMS = {Laplace: ("absolute", 1), GammaNorm: ("euclidean", 2), InfinityNorm: ("largest", np.inf)}


def mechanism_of(kind="array", epsilon=1.0, delta=0.0, rows=1, unit=1, outputs=0, **changed) -> SufficientStatistics:
    """Of numbers, or of classes with so many outputs."""
    layout, loss = LAYOUTS[kind], Logistic() if outputs else CappedSquares()
    facts = Facts(
        rows, layout.width, layout.joint_norm, loss, 0.0, outputs=max(1, outputs), rows_per_unit=unit,
        nonnegative=layout.nonnegative, sum_bound=layout.joint_sum, entry_bounds=layout.entry_bounds,
    )  # fmt: skip
    return SufficientStatistics(facts, layout, epsilon, delta, replace(RECIPE, **changed))


def extreme_rows(kind, outputs=0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Encoded rows at the ends of what is declared and inside it, with targets: numbers, or classes."""
    if kind == "array":
        angles = np.linspace(0, 2 * np.pi, 17)[:-1]
        matrix = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
    else:
        values = itertools.product((-1, -0.3, 0.4, 1), (0, 0.7, 1, 3), ("x", "y"))
        table = pd.DataFrame(list(values), columns=["a", "b", "c"])
        matrix = encode(BINNED if kind == "binned" else COLUMNS, table, kind).matrix
    layout = LAYOUTS[kind]
    bounded = with_bias(bounded_rows(matrix, layout.norm_bound)[0], layout.bias)
    numbers, pairs = np.array([[-1.0], [0.35], [1.0]]), np.array([[-1.0], [1.0]])
    targets = numbers if outputs == 0 else pairs if outputs == 1 else 2 * np.eye(outputs) - 1
    return [(row[np.newaxis], target[np.newaxis]) for row, target in itertools.product(bounded, targets)]


def largest_moves(mechanism, kind, order, outputs=0, as_they_are=False) -> list[float]:
    """By how much one replaced row moves the columns' sums, the numbers', the one-hot columns', and all as one vector."""
    found = [
        mechanism.sums(Rows.held(row, target), 0.1, 0.6, as_they_are) for row, target in extreme_rows(kind, outputs)
    ]
    parts = [np.array([vectors[place] for vectors in found]) for place in range(3)]
    parts.append(np.hstack(parts))
    norms = [
        np.linalg.norm(part[:, np.newaxis] - part, order, axis=2).max() if part.shape[1] else 0.0 for part in parts
    ]
    return [float(norm) for norm in norms]


@pytest.mark.parametrize("products", [0.0, np.inf])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_pure_sums_move_as_the_proof_says(kind, products):
    mechanism = mechanism_of(kind, product_noise=products)
    assert (len(mechanism._pairs[0]) > 0) == (products > 0)
    target = mechanism._number_reach(1), mechanism._indicator_reach(1)
    reaches = mechanism._column_reach(len(mechanism._pairs[0])), *target
    assert len(mechanism._pure_noise) == (2 if kind == "array" else 3)
    for noise, reach, place in zip(mechanism._pure_noise, reaches, range(3), strict=False):
        norm, order = NORMS[type(noise)]
        bound = float(getattr(reach, norm))
        moved = largest_moves(mechanism, kind, order)[place]
        # More than half: noise for rows that are added, not replaced, would be too little.
        assert 0.5 * bound < moved <= bound
        assert noise.sensitivity >= bound


@pytest.mark.parametrize("kind", LAYOUTS)
def test_gaussian_sums_move_as_the_proof_says(kind):
    mechanism = mechanism_of(kind, 3.0, 1e-2)
    assert not mechanism.is_pure
    moved = largest_moves(mechanism, kind, 2)[3]
    assert 0.6 * mechanism._gaussian.sensitivity < moved <= mechanism._gaussian.sensitivity


# Classes: of two with one-hot columns and Gaussian noise, and of several, a row is in the block of its class.


@pytest.mark.parametrize("as_they_are", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_pure_sums_of_classes_move_as_the_proof_says(kind, outputs, as_they_are):
    mechanism = mechanism_of(kind, outputs=outputs)
    assert mechanism._blocks == outputs
    reaches = mechanism._number_reach(outputs), mechanism._indicator_reach(outputs)
    for noise, reach, place in zip(mechanism._pure_noise[1:], reaches, (1, 2), strict=False):
        norm, order = NORMS[type(noise)]
        moved = largest_moves(mechanism, kind, order, outputs, as_they_are)[place]
        assert 0.5 * getattr(reach, norm) < moved <= getattr(reach, norm) <= noise.sensitivity


@pytest.mark.parametrize(
    ("kind", "outputs", "blocks"), [("binned", 1, 2), ("binned", 3, 3), ("centred", 1, 1), ("centred", 3, 3)]
)
def test_gaussian_sums_of_classes_move_as_the_proof_says(kind, outputs, blocks):
    mechanism = mechanism_of(kind, 3.0, 1e-2, outputs=outputs)
    assert (mechanism.is_pure, mechanism._blocks) == (False, blocks)
    moved = largest_moves(mechanism, kind, 2, outputs)
    assert 0.6 * mechanism._gaussian.sensitivity < moved[3] <= mechanism._gaussian.sensitivity
    assert moved[1] <= mechanism._number_reach(blocks).euclidean
    assert moved[2] <= mechanism._indicator_reach(blocks).euclidean


def test_a_row_that_is_in_the_blocks_of_both_classes_is_caught(monkeypatch):
    """With its class's indicator as −1 and 1 a row moves both blocks, and twice as far."""
    mechanism = mechanism_of("binned", 3.0, 1e-2, outputs=1)
    bound = mechanism._indicator_reach(2).euclidean
    assert largest_moves(mechanism, "binned", 2, 1)[2] <= bound
    monkeypatch.setattr(
        SufficientStatistics, "_scaled_targets", lambda self, targets, *_: np.column_stack([-targets, targets])
    )
    assert largest_moves(mechanism, "binned", 2, 1)[2] > bound


def test_blocks_reach_for_one_vector_of_both_classes_is_caught():
    """The bound of blocks is too small for −1 and 1 in one vector, which the columns that are no indicators have."""
    mechanism = mechanism_of("centred", 3.0, 1e-2, outputs=1)
    moved = largest_moves(mechanism, "centred", 2, 1)
    assert moved[2] > mechanism._indicator_reach(2).euclidean
    assert moved[2] <= mechanism._indicator_reach(1).euclidean


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_of_classes_all_of_the_budget_is_for_the_sums(kind, delta):
    mechanism = mechanism_of(kind, 0.7, delta, rows=300, outputs=1)
    assert (mechanism.cost.epsilon, mechanism.cost.delta) == (exact(0.7), exact(delta))
    if delta == 0:
        spent = sum(exact(noise.epsilon) for noise in mechanism._pure_noise)
        assert 0.999 * exact(0.7) < spent <= exact(0.7)
        assert mechanism.cost.mu is None
    else:
        assert (mechanism._gaussian.epsilon, mechanism._gaussian.delta) == (0.7, delta)
        assert mechanism.cost.mu == pytest.approx(gaussian_mu_within(0.7, delta))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_fit_of_classes_charges_what_was_asked_for(delta):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.uniform(-1, 1, 60), "b": random.uniform(0, 3, 60), "c": ["x", "y"] * 30})
    options = {"schema": BINNED, "encoding": "binned", "classes": [0, 1], "method": "statistics", "random_state": 0}
    model = PrivateLogisticRegression(0.6, delta, **options).fit(frame, np.arange(60) % 2)
    mechanism = model.plan(60, model.declared_).mechanism
    assert isinstance(mechanism.learning, SufficientStatistics)
    assert (mechanism.cost.epsilon, mechanism.cost.delta) == (exact(0.6), exact(delta))
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (0.6, delta)
    if delta:
        left = (1 - sum(map(exact, mechanism.parts.shares))) * exact(
            gaussian_mu_within(mechanism.parts.others, delta)
        ) ** 2
        assert exact(mechanism.learning.cost.mu) ** 2 <= left


def test_directions_cannot_be_told_apart_better_than_claimed(monkeypatch):
    """Of one row whose class is turned round, given a level. False alarms: one in a million at most (`distinguish`)."""
    mechanism = mechanism_of("array", 1.0, outputs=1)

    def found(twin):
        def released(values):
            rows = Rows.held(values[:, :-1], values[:, -1:])
            return twin._noisy(twin.sums(rows, 0.0, 1.0), SOURCE)[1]

        epsilon = mechanism._pure_noise[1].epsilon
        return distinguish(released, FLIPPED, Guarantee(epsilon, 0.0), 600).epsilon_lower_bound / epsilon

    assert found(mechanism) <= 1.0
    noise = mechanism._pure_noise
    quiet = (noise[0], replace(noise[1], sensitivity=noise[1].sensitivity / 8))
    twin = mechanism_of("array", 1.0, outputs=1)
    monkeypatch.setitem(twin.__dict__, "_pure_noise", quiet)
    assert found(twin) > 1.0


def test_targets_move_their_moments_as_the_proof_says():
    mechanism = mechanism_of()
    row = np.zeros((1, 3))
    sums = [mechanism.moments.sums(Rows.held(row, np.array([[target]]))) for target in np.linspace(-1, 1, 41)]
    moved = max(float(np.abs(first - second).sum()) for first, second in itertools.combinations(sums, 2))
    assert moved == pytest.approx(2.25, rel=1e-3)
    assert moved <= 2.25 == mechanism.moments.noise.sensitivity


# Planted bugs: each makes some sum move farther than the noise was made for.


def test_weights_of_another_norm_are_caught(monkeypatch):
    """Squares weighted as for infinity-norm noise, by 2, beside Euclidean noise, for which they have a half."""
    mechanism = mechanism_of("array", 3.0, 1e-2)
    bound = mechanism._column_reach(1).euclidean / Fraction(mechanism._target_weight)
    assert largest_moves(mechanism, "array", 2)[0] <= bound
    monkeypatch.setitem(mechanism.__dict__, "_weights", mechanism._weights._replace(squares=2.0))
    assert largest_moves(mechanism, "array", 2)[0] > bound


def test_targets_that_are_not_clipped_are_caught(monkeypatch):
    mechanism = mechanism_of("centred")
    monkeypatch.setattr(np, "clip", lambda values, low, high: values)
    moved = [first - second for first, second in itertools.combinations([(y - 0.1) / 0.3 for y in (-1, 1)], 2)]
    assert abs(moved[0]) > 2
    found = [mechanism.sums(Rows.held(row, target), 0.1, 0.3)[1] for row, target in extreme_rows("centred")]
    assert max(np.abs(first - second).max() for first, second in itertools.combinations(found, 2)) > 2


def test_rounding_that_lengthens_is_caught(monkeypatch):
    """With steps of a quarter, rows on a circle that are rounded up leave it."""
    mechanism = mechanism_of("array", 3.0, 1e-2)
    monkeypatch.setitem(mechanism.__dict__, "_bits", 2)
    bound = mechanism._column_reach(1).euclidean / Fraction(mechanism._target_weight)
    assert largest_moves(mechanism, "array", 2)[0] <= bound
    monkeypatch.setattr(np, "trunc", lambda values: np.sign(values) * np.ceil(np.abs(values)))
    assert largest_moves(mechanism, "array", 2)[0] > bound


# Budget


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("rows", [1, 300, 10**6])
def test_parts_add_up_to_the_budget(kind, epsilon, rows):
    pure = mechanism_of(kind, epsilon, rows=rows)
    spent = exact(pure.level_epsilon) + sum(exact(noise.epsilon) for noise in pure._pure_noise)
    assert 0.999 * exact(epsilon) < spent <= exact(epsilon)
    assert (pure.cost.epsilon, pure.cost.delta, pure.moments.noise.epsilon) == (exact(epsilon), 0, pure.level_epsilon)
    gaussian = mechanism_of(kind, epsilon, 1e-6, rows=rows)
    assert (gaussian.cost.epsilon, gaussian.cost.delta) == (exact(epsilon), exact(1e-6))
    if gaussian.is_pure:
        assert gaussian.cost.mu is None
        return
    noise = gaussian._gaussian
    assert (noise.epsilon, noise.delta) == (gaussian.sums_epsilon, 1e-6)
    assert exact(noise.epsilon) + exact(gaussian.level_epsilon) <= exact(epsilon)
    squares = mu_of_pure(exact(gaussian.level_epsilon)) ** 2 + gaussian_mu_within(noise.epsilon, 1e-6) ** 2
    assert gaussian.cost.mu == pytest.approx(squares**0.5)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_person_with_several_rows_gets_noise_for_all_of_them(kind):
    one, three = (mechanism_of(kind, 1.0, rows=999, unit=unit, enough=0.3 * unit) for unit in (1, 3))
    for noise, larger in zip(
        (one.moments.noise, *one._pure_noise), (three.moments.noise, *three._pure_noise), strict=True
    ):
        assert larger.sensitivity == pytest.approx(3 * noise.sensitivity, rel=1e-12)
    one, three = (mechanism_of(kind, 3.0, 1e-2, rows=999, unit=unit) for unit in (1, 3))
    assert three._gaussian.sensitivity == pytest.approx(3 * one._gaussian.sensitivity, rel=1e-12)


# What is released, in two dimensions and more. False alarms: one in a million at most (`distinguish`).

SOURCE = SystemNoise()
FLIPPED = np.array([[3.0, 0.0, 1.0, 1.0]]), np.array([[3.0, 0.0, 1.0, -1.0]])
# Two rows whose products differ most under Euclidean noise: v·v′ = 0 for v = (1, z).
ACROSS = np.array([[3.0, 0.0, 1.0, 0.0]]), np.array([[-3.0, 0.0, 1.0, 0.0]])


def audited(mechanism, pair, part, epsilon, samples=600):
    """The audit of one part's noisy sums, given a level."""

    def released(values):
        rows = Rows.held(values[:, :-1], values[:, -1:])
        return mechanism._noisy(mechanism.sums(rows, 0.0, 1.0), SOURCE)[part]

    return distinguish(released, pair, Guarantee(epsilon, 0.0), samples).epsilon_lower_bound


@pytest.mark.parametrize(("pair", "part"), [(ACROSS, 0), (FLIPPED, 1)])
def test_noisy_sums_cannot_be_told_apart_better_than_claimed(pair, part, monkeypatch):
    mechanism = mechanism_of("array", 2.0, product_noise=np.inf, enough=1e-3, column_share=0.5)
    epsilon = mechanism._pure_noise[part].epsilon
    assert audited(mechanism, pair, part, epsilon) <= epsilon
    # Noise for an eighth of the sensitivity. That half of it, as for rows that are added, is too little, the moves above show.
    noise = list(mechanism._pure_noise)
    noise[part] = replace(noise[part], sensitivity=noise[part].sensitivity / 8)
    monkeypatch.setitem(mechanism.__dict__, "_pure_noise", tuple(noise))
    assert audited(mechanism, pair, part, epsilon) > epsilon


def test_released_parameters_cannot_be_told_apart_better_than_claimed(monkeypatch):
    """Of the whole fit, against twins whose level is not charged for and whose penalty is the rows' own."""
    mechanism = mechanism_of("array", 1.0)

    def found(twin):
        return distinguish(
            lambda values: twin.apply(values, SOURCE), FLIPPED, Guarantee(1.0, 0.0), 500
        ).epsilon_lower_bound

    assert found(mechanism) <= 1.0
    unpaid = mechanism_of("array", 1.0)
    monkeypatch.setitem(unpaid.__dict__, "moments", replace(unpaid.moments, epsilon=40.0))
    assert found(unpaid) > 1.0


def test_a_penalty_from_the_rows_themselves_is_caught():
    """Λ from the exact square of the target tells two targets apart: what the rule may look at are noisy numbers."""
    private, twin = (
        {target: replace(made, facts=replace(made.facts, penalty=penalty)) for target, penalty in sizes.items()}
        for made, sizes in itertools.product([mechanism_of("array", 1.0)], [{0: 1.0, 1: 1.0}, {0: 1e-3, 1: 1e3}])
    )
    pair = np.array([[3.0, 0.0, 1.0, 0.0]]), np.array([[3.0, 0.0, 1.0, 1.0]])
    bounds = [
        distinguish(
            lambda values, made=made: made[int(values[0, -1])].apply(values, SOURCE), pair, Guarantee(1.0, 0.0), 400
        ).epsilon_lower_bound
        for made in (private, twin)
    ]
    assert bounds[0] <= 1.0 < bounds[1]


def test_gaussian_noise_is_that_of_the_sensitivity():
    mechanism = mechanism_of("array", 3.0, 1e-2, rows=100)
    noise = mechanism._gaussian
    assert isinstance(noise, Gaussian)
    assert noise.noise_scale * gaussian_mu_within(noise.epsilon, 1e-2) >= noise.sensitivity
    twins = [mechanism.sums(Rows.held(pair[:, :-1], pair[:, -1:]), 0.0, 1.0) for pair in ACROSS]
    assert np.linalg.norm(np.hstack(twins[0]) - np.hstack(twins[1])) <= noise.sensitivity


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_fit_charges_what_was_asked_for(delta):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(60, 2))
    model = PrivateRidge(0.6, delta, target_bounds=(-1, 1), random_state=0).fit(X, X[:, 0])
    plan = model.plan(60, model.declared_)
    assert isinstance(plan.mechanism, SufficientStatistics)
    assert (plan.mechanism.cost.epsilon, plan.mechanism.cost.delta) == (exact(0.6), exact(delta))
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (0.6, delta)

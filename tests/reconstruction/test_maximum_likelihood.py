"""The largest likelihood of proportions, with its certificate; stacking; the nearest proportions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sudare.perturbation import RetainReplace, SubsetSelection, UnaryEncoding
from sudare.reconstruction.category_frequencies import TickChannel, answers_of, distinct_answers
from sudare.reconstruction.channels import ProductChannel
from sudare.reconstruction.maximum_likelihood import (
    maximum_likelihood,
    newton_likelihood,
    projected_on_simplex,
    stacked_weights,
)

KINDS = (RetainReplace, UnaryEncoding, SubsetSelection)
LEVELS = ("a", "b", "c", "d", "e", "f")
TRUTH = np.array([0.4, 0.3, 0.15, 0.1, 0.05, 0.0])


def records(count: int) -> Any:
    return np.repeat(LEVELS, np.rint(TRUTH * count).astype(int))


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_is_at_its_maximum(kind: Any) -> None:
    """Newton inside the simplex and EM agree with each other and with a general optimiser, up to the certified gap."""
    perturbation = kind(LEVELS, epsilon=0.9)
    (ticks,), counts = distinct_answers(answers_of(perturbation, perturbation.perturb(records(3_000), random_state=5)))
    extra = perturbation.odds - 1

    def log_likelihood(proportions: Any) -> float:
        return float(counts @ np.log(1 + extra * (ticks @ proportions)))

    def negative(free: Any) -> float:
        shares = np.exp(free - free.max())
        return -log_likelihood(shares / shares.sum())

    newton = newton_likelihood(ticks.astype(float), counts, extra)
    em = maximum_likelihood(TickChannel(ticks, extra), counts)
    best = -min(minimize(negative, start, method="BFGS").fun for start in (np.zeros(6), np.log(TRUTH + 0.01)))
    assert newton.gap <= 0.011
    assert em.gap <= 0.01
    for fitted in (newton, em):
        assert log_likelihood(fitted.proportions) >= best - 0.02
        assert best >= log_likelihood(fitted.proportions) - fitted.gap - 1e-6


def test_gap_is_a_certificate() -> None:
    """Stopped early, the gap says so, and no proportions are better by more than it."""
    perturbation = SubsetSelection(LEVELS, epsilon=0.9)
    (ticks,), counts = distinct_answers(answers_of(perturbation, perturbation.perturb(records(3_000), random_state=5)))
    extra = perturbation.odds - 1
    early = maximum_likelihood(TickChannel(ticks, extra), counts, most_steps=2)
    late = newton_likelihood(ticks.astype(float), counts, extra)

    def log_likelihood(proportions: Any) -> float:
        return float(counts @ np.log(1 + extra * (ticks @ proportions)))

    assert early.gap > 1
    assert 0 < log_likelihood(late.proportions) - log_likelihood(early.proportions) <= early.gap


def test_stacking_finds_the_weights_of_a_mixture() -> None:
    generator = np.random.default_rng(0)
    channel = ProductChannel([np.eye(4), np.eye(5)])
    shapes = [generator.dirichlet(np.ones(20)).reshape(4, 5) for _ in range(3)]
    truth = 0.7 * shapes[0] + 0.3 * shapes[2]
    parts = [1e5 * truth, 2e5 * truth]
    weights = stacked_weights(channel, [np.array([shape, shape]) for shape in shapes], parts)
    np.testing.assert_allclose(weights, [0.7, 0, 0.3], atol=2e-3)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8))
def test_projection_is_the_nearest_point(point: list[float]) -> None:
    """First-order condition: nobody on the simplex lies further along the direction to the point."""
    target = np.array(point)
    nearest = projected_on_simplex(target)
    assert nearest.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(projected_on_simplex(3 * target, 3.0), 3 * nearest, atol=1e-9)
    assert nearest.min() >= 0
    direction = target - nearest
    assert direction.max() <= direction @ nearest + 1e-9


@given(
    values=st.lists(st.floats(-1e3, 1e3, allow_nan=False), min_size=1, max_size=12),
    total=st.floats(0.1, 1e3),
)
def test_projection_on_any_total(values: list[float], total: float) -> None:
    found = projected_on_simplex(np.array(values), total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-9)
    # The nearest such vector: positive entries all moved by the same, zeros at least as far.
    moved = np.array(values) - found
    level = moved[found > 0]
    assert np.allclose(level, level[0], atol=1e-9 * (1 + np.abs(values).max()))
    assert (moved[found == 0] <= level[0] + 1e-9 * (1 + np.abs(values).max())).all()

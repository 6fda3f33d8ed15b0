"""Newton steps for settled signs: their gradient, and the duality gap they announce."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.dictionary.graphical_lasso_newton_kernels import Room, set_gradient, settled_target
from sudare.dictionary.graphical_lasso_newton_steps import lower_bound, point_at
from tests.dictionary.test_graphical_lasso_pair_kernels import (
    at_pairs,
    model_at,
    pairs_not_zero,
    positive_definite,
    sparse_symmetric,
)


def room_for(inverse):
    zeros = (np.zeros(inverse.shape, np.float32) for _ in Room._fields[1:])
    return Room(inverse.astype(np.float32), *zeros)


@pytest.mark.parametrize("distance", [0.01, 0.03])
def test_the_gradient_has_the_term_of_second_order(distance):
    """With the W in its middle at the pairs, most of what the linear model lacks to S − X⁻¹ is there."""
    random = np.random.default_rng(2)
    precision = sparse_symmetric(random, 30, 0.1) + 4 * np.eye(30)
    pairs, inverse, S = pairs_not_zero(precision), np.linalg.inv(precision), positive_definite(random, 30)
    D = distance * sparse_symmetric(random, 30, 1.0) * (precision != 0)
    values = at_pairs(pairs, precision + D)
    model = model_at(pairs, values.copy(), np.full(len(values), 0.1), precision)
    room, residual = room_for(inverse), np.empty(len(values), np.float32)
    room.product[:] = D @ inverse
    set_gradient(S, inverse, pairs, model, room, at_pairs(pairs, inverse).astype(np.float32), residual)
    exact = at_pairs(pairs, S - np.linalg.inv(precision + D))
    linear = at_pairs(pairs, S - inverse + inverse @ D @ inverse)
    bend = inverse @ D @ np.where(precision != 0, inverse, 0) @ D @ inverse
    np.testing.assert_allclose(model.gradient, linear - at_pairs(pairs, bend), atol=1e-7)
    assert np.abs(model.gradient - exact).max() < 0.25 * np.abs(linear - exact).max()
    np.testing.assert_allclose(residual, -(model.gradient + 0.1 * np.sign(values)), atol=1e-6)
    np.testing.assert_allclose(room.total, D @ inverse, atol=1e-6)


@pytest.mark.parametrize("change", [1e-3, 1e-2])
def test_the_gap_that_is_announced_is_the_gap(change):
    """Half of ⟨R, ΛRΛ⟩ is the duality gap here; where the step leads, the gap is below the tolerance if it says so."""
    random = np.random.default_rng(1)
    S, other = (np.corrcoef(random.normal(size=(40, 150))) for _ in range(2))
    penalties = 0.1 * (1 - np.eye(40))
    start = graphical_lasso(S, penalties)
    S = (1 - change) * S + change * other
    room = Room(*(np.empty(S.shape, np.float32) for _ in Room._fields))
    target, here, there = settled_target(S, penalties, start.precision, start.covariance, room, 1.0, 1e-9)
    first, moved = (point_at(S, penalties, precision) for precision in (start.precision, target))
    assert here / 3 <= first.objective - lower_bound(S, penalties, first) <= 3 * here
    assert there <= 0.8e-9
    assert moved.objective - lower_bound(S, penalties, moved) <= 1e-9
    np.testing.assert_array_equal(target, target.T)
    # Too far away, nothing is solved.
    _, far, beyond = settled_target(S, penalties, start.precision, start.covariance, room, here / 10, 1e-9)
    assert far > here / 10
    assert beyond == np.inf

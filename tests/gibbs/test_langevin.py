"""How near Langevin's last point is to the law: the stated bound holds where both are Gaussian, and none is stated on a ball."""

from __future__ import annotations

import math

import pytest

from sudare.gibbs.langevin import LangevinPlan
from sudare.gibbs.potentials import Curvature


@pytest.mark.parametrize("smoothness", [2.0, 40.0])
@pytest.mark.parametrize("slope", [0.0, 3.0, 2_000.0])
def test_the_stated_distance_bounds_that_of_gaussian_laws(smoothness: float, slope: float) -> None:
    """U = (κ/2)‖θ‖² + gᵀθ: the last point is N(−(g/κ)(1 − c^K), v·I), the law N(−g/κ, I/κ)."""
    convexity, dimension = 2.0, 3
    plan = LangevinPlan(Curvature(dimension, convexity, smoothness, 0.0))
    c = 1 - plan.step_size * convexity
    variance = 2 * plan.step_size * (1 - c ** (2 * plan.steps)) / (1 - c**2)
    apart = (slope / convexity * c**plan.steps) ** 2
    spread = dimension * (math.sqrt(variance) - 1 / math.sqrt(convexity)) ** 2
    stated = plan.wasserstein_distance(slope)
    assert math.sqrt((apart + spread) * convexity) <= stated
    assert stated >= math.sqrt(dimension) / 2
    assert plan.wasserstein_distance(2 * slope + 1) > stated


def test_no_distance_is_stated_on_a_ball() -> None:
    assert LangevinPlan(Curvature(3, 2.0, 5.0, 0.0, radius=1.0)).wasserstein_distance(1.0) == math.inf

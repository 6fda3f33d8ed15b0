"""The laws of private linear models are laws, and are given only where they are known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from sudare.array_types import Integers
from sudare.audit import linear_output_laws as linear_laws
from sudare.audit.linear_audits import CASES, LinearCase
from sudare.audit.linear_output_laws import (
    CountedRows,
    law_epsilon,
    pure_objective_log_density,
    step_deviation,
    step_weights,
)
from sudare.frames.rows import Rows
from sudare.linear.descent import GradientDescent, Recipe
from sudare.linear.losses import CappedSquares, Logistic, Loss, SmoothedHinge
from sudare.linear.mechanism import Facts
from sudare.linear.objective_perturbation import ObjectivePerturbation
from tests.guarantees.linear_densities import gaussian_objective_log_density

LOSSES = [Logistic(), SmoothedHinge(0.5), CappedSquares(1.0)]


def planned(case: LinearCase, epsilon: float) -> Any:
    model = clone(case.model(epsilon)).fit(*case.pair[0])
    return model.plan(model.n_rows_, model.declared_).mechanism


@pytest.mark.parametrize("loss", LOSSES, ids=["logistic", "hinge", "squares"])
@pytest.mark.parametrize("kind", ["pure", "gaussian"])
def test_densities_of_objective_perturbation_are_densities(loss: Loss, kind: str) -> None:
    """With the constant of the noise, the density integrates to one over the plane: the determinant is the right one."""
    table = CountedRows(
        np.array([[1.0, 0.0], [-0.6, 0.8], [0.0, -1.0]]), np.array([1.0, -1.0, 1.0]), np.array([1, 2, 3.0])
    )
    step, reach, penalty, scale = 0.04, 14.0, 2.0, 0.8
    line = np.arange(-reach, reach, step)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    if kind == "pure":
        logs = pure_objective_log_density(table, points, loss, 1 / scale, penalty) - math.log(2 * math.pi * scale**2)
    else:
        logs = gaussian_objective_log_density(table, points, loss, scale, penalty) - math.log(2 * math.pi * scale**2)
    # The grid misses a few thousandths: jumps of the curvature, a kink at b = 0, and what lies outside.
    assert np.exp(logs).sum() * step**2 == pytest.approx(1.0, abs=5e-3)


def test_counted_rows_are_the_table() -> None:
    held = Rows.held(
        np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]), np.array([[1.0], [1.0], [1.0], [-1.0]])
    )
    counted = CountedRows.of(held)
    points = np.array([[0.3, -2.0], [1.0, 5.0]])
    one_by_one = CountedRows(held.together()[0], held.together()[1][:, 0], np.ones(4))
    assert sorted(counted.counts) == [1, 1, 2]
    for loss in LOSSES:
        np.testing.assert_allclose(
            pure_objective_log_density(counted, points, loss, 0.5, 1.0),
            pure_objective_log_density(one_by_one, points, loss, 0.5, 1.0),
        )


def test_laws_are_given_only_where_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    # Composing sampled steps takes a minute, and how much noise they need is not the question here.
    monkeypatch.setattr("sudare.linear.descent.sampled_multiplier", lambda *facts: 10.0)
    held = CASES["PrivateLinearSVC-objective"].held()
    facts = Facts(6, 2, 1.0, Logistic(), 4.0)
    assert law_epsilon(ObjectivePerturbation(facts, 1.0, 1e-6), held) is None
    # A penalty or a sample of the rows changes what descent adds up; a logistic slope does not always reach the clip.
    recipe = Recipe(3, 0.1, 1e-6)
    clipped = Facts(6, 2, 1.0, CappedSquares(0.2), 0.0)
    assert law_epsilon(GradientDescent(clipped, 1.0, 1e-6, recipe), held) is not None
    for changed, other in (
        (replace(clipped, penalty=1.0), recipe),
        (clipped, replace(recipe, steps=1, sampling_rate=0.5)),
        (clipped, replace(recipe, clip=0.25)),
        (clipped, replace(recipe, learning_rate=1.0)),
    ):
        assert law_epsilon(GradientDescent(changed, 5.0, 1e-2, other), held) is None


class Impulse:
    """A noise source whose only noise is a push of the first coordinate in one step."""

    def __init__(self, step: int, size: int) -> None:
        self.step, self.size = step, size

    def gaussian(self, values: Integers, scale_in_steps: float) -> Integers:
        self.step -= 1
        return np.asarray(values + self.size * (np.arange(len(values)) == 0) * (self.step == -1))


@pytest.mark.parametrize("averaged", [1, 4])
def test_step_weights_are_those_of_the_descent(averaged: int) -> None:
    recipe = Recipe(7, 0.1, 1e-6, momentum=0.8, averaged=averaged)
    method = GradientDescent(Facts(6, 2, 1.0, CappedSquares(0.2), 0.0), 5.0, 1e-6, recipe)
    table = CASES["PrivateRidge-descent"].held()[0]
    size = 2**46

    def first_parameter(step: int) -> float:
        source: Any = Impulse(step, size)
        return float(method.fitted(table, source)[0, 0])

    quiet = first_parameter(-5)
    pushed = np.array([first_parameter(step) - quiet for step in range(7)])
    weights = step_weights(recipe)
    np.testing.assert_allclose(pushed / pushed[0], weights / weights[0], rtol=1e-4)
    assert weights[-1] == pytest.approx(1 / averaged)


def test_the_noise_of_a_step_and_its_sum_are_those_of_the_method() -> None:
    """√T·2C/σ is μ for full batches, and the sum that never changes is what descent adds up."""
    case = CASES["PrivateRidge-descent"]
    method = planned(case, 1.0)
    recipe = method.recipe
    assert math.sqrt(recipe.steps) * 2 * recipe.clip / step_deviation(method) == pytest.approx(method.cost.mu, rel=1e-9)
    for place in (np.zeros((1, 2)), np.array([[0.3, -0.4]])):
        sums = [method.clipped_sum(table, place).ravel() for table in case.held()]
        found = [linear_laws._always_clipped_sum(method, table) for table in case.held()]
        for whole, expected in zip(sums, found, strict=True):
            assert expected is not None
            np.testing.assert_allclose(whole / np.linalg.norm(whole), expected / np.linalg.norm(expected), atol=1e-5)

"""proofs/aggregation.md, executed: exp-concavity of every loss, the inequality for any sequence of rows, and the oracle inequality.

The second is not statistical: whatever the rows are and whatever the experts answer, the losses of the weights λ⁽ᵗ⁾ on the next row add up to no more than
those of the best expert plus β log M. No smaller temperature makes e^(−loss/β) concave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

from sudare.experts import MirrorAveraging
from sudare.experts.gibbs_weights import (
    BRIER_TEMPERATURE,
    LARGEST_CLASS_SCORE,
    LOGISTIC_TEMPERATURE,
    brier_losses,
    logistic_losses,
    mirror_average,
    oracle_residual,
    softmax_losses,
    softmax_temperature,
    squared_losses,
    squared_temperature,
)
from tests.experts.members import ColumnScore, ColumnValue
from tests.experts.test_several_classes import ClassColumns

Losses = Callable[[np.ndarray, np.ndarray], np.ndarray]
Made = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
BOUNDS = (-3.0, 5.0)


@dataclass(frozen=True)
class Case:
    """A loss of answers (rows × experts × outputs), its temperature, and how answers and targets are made of numbers in [0, 1]."""

    name: str
    outputs: int
    temperature: float
    losses: Losses
    made: Made

    def __str__(self) -> str:
        return self.name


def classes_of(targets: np.ndarray, count: int) -> np.ndarray:
    return np.minimum((targets * count).astype(np.intp), count - 1)


def simplex(answers: np.ndarray) -> np.ndarray:
    """Points of a simplex, its corners among them."""
    return (answers + 1e-12) / (answers + 1e-12).sum(axis=2, keepdims=True)


CASES = [
    Case(
        "logistic",
        1,
        LOGISTIC_TEMPERATURE,
        lambda answers, targets: logistic_losses(-targets[:, np.newaxis] * answers[:, :, 0]),
        lambda answers, targets: (2 * answers - 1, np.where(targets > 0.5, 1.0, -1.0)),
    ),
    *(
        Case(
            f"softmax of {count}",
            count,
            softmax_temperature(count),
            lambda answers, targets: softmax_losses(answers.copy(), targets),
            lambda answers, targets: (
                LARGEST_CLASS_SCORE * (2 * answers - 1),
                classes_of(targets, answers.shape[2]),
            ),
        )
        for count in (2, 3, 5)
    ),
    *(
        Case(
            f"Brier of {count}",
            count,
            BRIER_TEMPERATURE,
            lambda answers, targets: brier_losses(answers.copy(), targets),
            lambda answers, targets: (simplex(answers), classes_of(targets, answers.shape[2])),
        )
        for count in (2, 3, 5)
    ),
    Case(
        "squares",
        1,
        squared_temperature(*BOUNDS),
        lambda answers, targets: squared_losses(answers[:, :, 0] - targets[:, np.newaxis]),
        lambda answers, targets: tuple(BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * part for part in (answers, targets)),
    ),
]
UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1, allow_subnormal=False))


def excess(case: Case, answers: np.ndarray, targets: np.ndarray, temperature: float) -> tuple[float, float]:
    """Σ ℓ(λ⁽ᵗ⁾, row t + 1) less the best expert's sum, and β log M."""
    losses = case.losses(answers, targets)
    rows, experts = losses.shape
    path = mirror_average([losses.copy()], experts, rows, temperature).path
    weights = np.vstack([np.full(experts, 1 / experts), path[:-1]])
    combined = np.einsum("rmc,rm->rc", answers, weights)[:, np.newaxis]
    return float(case.losses(combined, targets).sum() - losses.sum(axis=0).min()), temperature * math.log(experts)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(data=st.data())
def test_any_sequence_obeys_the_inequality(case, data):
    rows, experts = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 5))
    answers = data.draw(arrays.arrays(np.float64, (rows, experts, case.outputs), elements=UNIT))
    targets = data.draw(arrays.arrays(np.float64, (rows,), elements=UNIT))
    found, allowed = excess(case, *case.made(answers, targets), case.temperature)
    assert found <= allowed + 1e-9 * (1 + allowed)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(data=st.data(), share=st.floats(0, 1))
def test_losses_are_exp_concave_with_their_temperature(case, data, share):
    """e^(−ℓ/β) of a mixture of two answers is at least the mixture of e^(−ℓ/β)."""
    answers = data.draw(arrays.arrays(np.float64, (1, 2, case.outputs), elements=UNIT))
    answers, targets = case.made(answers, np.array([data.draw(UNIT)]))
    first, second = np.exp(-case.losses(answers, targets)[0] / case.temperature)
    mixture = share * answers[:, :1] + (1 - share) * answers[:, 1:]
    mixed = np.exp(-case.losses(mixture, targets)[0, 0] / case.temperature)
    assert mixed >= share * first + (1 - share) * second - 1e-12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_smaller_temperature_is_exp_concave(case):
    """Near the answer that is farthest from the truth, e^(−ℓ/β) bends upwards once β is a twentieth smaller."""
    worst, target = np.zeros((1, 1, case.outputs)), 1.0 - 1e-9
    worst[0, 0, 0] = 1.0
    if case.outputs == 1:
        worst[...] = 0.0
    elif "softmax" in case.name:
        worst[0, 0, :] = 1.0
        worst[0, 0, -1] = 0.0
    near = worst.copy()
    near[0, 0, -1] += 0.02
    if "Brier" in case.name:
        near[0, 0, 0] -= 0.02
    answers, targets = case.made(np.concatenate([worst, near], axis=1), np.array([target]))
    temperature = 0.95 * case.temperature
    ends = np.exp(-case.losses(answers, targets)[0] / temperature).mean()
    middle = np.exp(-case.losses(answers.mean(axis=1, keepdims=True), targets)[0, 0] / temperature)
    assert middle < ends


def finite_law(case: str, generator: np.random.Generator, points: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Where rows lie, and the chance of each class (or of the upper bound) there."""
    X = generator.uniform(-1, 1, size=(points, width))
    chance = generator.dirichlet(np.full(3 if case == "classes" else 2, 0.7), size=points)
    return X, chance


@pytest.mark.parametrize("combine", ["scores", "probabilities"])
def test_oracle_inequality_20_for_three_classes(combine):
    """The expected risk, exact over a finite law, is below the best expert's + β log M / n: right with 1 − 1e-6 (Hoeffding)."""
    generator = np.random.default_rng(20)
    X, chance = finite_law("classes", generator, 8, 6)
    experts = [ClassColumns(shift=shift) for shift in range(6)]
    rows, tables = 12, 400

    def risk(answers: np.ndarray) -> Any:
        """Of answers (points × classes)."""
        if combine == "probabilities":
            losses = ((answers[:, np.newaxis] - np.eye(3)) ** 2).sum(axis=2)
        else:
            losses = np.log(np.exp(answers).sum(axis=1, keepdims=True)) - answers
        return float((chance * losses).sum(axis=1).mean())

    largest = 2.0 if combine == "probabilities" else math.log(3) + 1.0
    if combine == "probabilities":
        single = [softmax(expert.decision_function(X), axis=1) for expert in experts]
    else:
        single = [np.clip(expert.decision_function(X), -0.5, 0.5) for expert in experts]
    best = min(map(risk, single))
    assert max(map(risk, single)) - best > 0.1
    excesses = []
    for _ in range(tables):
        where = generator.integers(len(X), size=rows)
        labels = np.array([generator.choice(3, p=chance[place]) for place in where])
        model = MirrorAveraging(experts, temperature="theory", combine=combine).fit(X[where], labels)
        excesses.append(risk(model.decision_values(X)) - best)
    uncertainty = largest * math.sqrt(math.log(1e6) / (2 * tables))
    assert np.mean(excesses) + uncertainty <= model.oracle_residual_


def test_oracle_inequality_20_for_numbers():
    """As above, for the squared loss of predictions and targets that are clipped to declared bounds."""
    generator = np.random.default_rng(21)
    X, chance = finite_law("numbers", generator, 8, 6)
    experts = [ColumnValue(column, shift) for column in range(3) for shift in (-2.0, 0.0, 2.0)]
    rows, tables, (low, high) = 12, 400, (-1.0, 1.0)

    def risk(answers: np.ndarray) -> float:
        return float((chance * (answers[:, np.newaxis] - np.array([low, high])) ** 2).sum(axis=1).mean())

    best = min(risk(np.clip(expert.predict(X), low, high)) for expert in experts)
    excesses = []
    for _ in range(tables):
        where = generator.integers(len(X), size=rows)
        # Targets beyond the bounds count as those at the bounds.
        targets = np.where(generator.random(rows) < chance[where, 0], low - 1, high + 1)
        model = MirrorAveraging(experts, temperature="theory", target_bounds=(low, high)).fit(X[where], targets)
        excesses.append(risk(model.predict(X)) - best)
    assert model.temperature_ == 8
    uncertainty = 4 * math.sqrt(math.log(1e6) / (2 * tables))
    assert np.mean(excesses) + uncertainty <= model.oracle_residual_


def test_theory_begins_with_equal_weights():
    X = np.array([[1.0], [-1.0], [0.5]])
    model = MirrorAveraging([ColumnScore(), ColumnScore(threshold=1.0)], temperature="theory").fit(X, [1, 0, 1])
    np.testing.assert_allclose(
        model.weights_, (np.full(2, 0.5) + model.weight_path_[0] + model.weight_path_[1]) / 3, atol=1e-15
    )
    assert model.oracle_residual_ == oracle_residual(math.e, 2, 3)
    assert expit(1.0) ** 2 / (expit(1.0) * expit(-1.0)) == pytest.approx(math.e)

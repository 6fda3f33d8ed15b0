"""Bounds of paper 000: those that hold do hold, those that are printed are what is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.study_pages import committed_cell, committed_result
from sudare.papers.p000_weak_learners import (
    bounds,
    excess_risks,
    noisy_sgd,
    perturbed_erm,
)
from sudare.papers.p000_weak_learners.learning_tasks import synthetic

QUIET = lambda text: None  # noqa: E731


def test_printed_bounds_at_round_numbers():
    assert bounds.theorem_2_1_a(1, 2, 10, 0.5, 100) == pytest.approx(2 * 10 * math.log(10) / 50)
    assert bounds.theorem_2_1_b(1, 2, 10, 0.5, 1e-6, 100) == pytest.approx(2 * math.sqrt(10 * math.log(1e6)) / 50)
    logarithm = math.log(100 / 1e-6)
    assert bounds.theorem_2_2_a(1, 2, 10, 0.5, 1e-6, 100) == pytest.approx(
        2 * logarithm**1.5 * math.sqrt(10 * math.log(1e6)) / 0.5
    )
    assert bounds.theorem_2_2_b(1, 0.1, 10, 0.5, 1e-6, 100) == pytest.approx(
        logarithm**2 * 10 * math.log(1e6) / (100 * 0.1 * 0.25)
    )
    assert bounds.theorem_3_1(3.0, 99, 50) == pytest.approx(3 * math.log(99) / 50)
    assert bounds.least_temperature(1.0) == pytest.approx(math.e)


def test_theorem_4_1_is_the_proofs_last_lines_added_up():
    """(A.10) and (A.11) with their constants give (25) with the constants of `theorem_4_1_constants`."""
    senders, n, own, epsilon, alpha, regularization, radius, p = 9, 1000, 100, 0.7, 0.05, 0.3, 2.0, 10
    share, chance = senders / (n - own), math.log(2 * senders / alpha)
    a_11 = 0.2 + (math.sqrt(share * chance) + math.sqrt(4 * share) + 8 * share * chance) / regularization
    a_11 += 1.5 * radius**2 * share * chance / regularization + 2.5 * radius * p * math.log(p) * share / epsilon
    constants = bounds.theorem_4_1_constants(radius, p, 1.5, 2.5)
    found = bounds.theorem_4_1(senders, n, own, epsilon, alpha, regularization, 3.0, 0.2, *constants)
    assert found == pytest.approx(a_11 + 3 * math.log(senders) / own)


def test_the_approximation_error_falls_with_the_penalty():
    task = synthetic(np.random.default_rng(0), nodes=1, rows=300, test=2)
    rows, labels = task.rows[0], task.labels[0]
    errors = [bounds.approximation_error(rows, labels, regularization, 1.0) for regularization in (1.0, 0.1, 0.0)]
    assert errors[0] > errors[1] > errors[2] == pytest.approx(0, abs=1e-9)
    assert bounds.logistic_risk(rows, labels, np.zeros(10)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("factor", [1.0, 30.0])
def test_the_bound_of_theorem_2_1_that_holds(delta, factor):
    rows, labels = excess_risks.one_table(np.random.default_rng(1), 100)
    draws, epsilon = 200, 5.0
    penalty = factor * perturbed_erm.least_extra_penalty(epsilon)
    found = perturbed_erm.algorithm_1(
        np.broadcast_to(rows, (draws, 100, 10)), np.broadcast_to(labels, (draws, 100)), epsilon, delta,
        np.random.default_rng(2), extra_penalty=penalty, radius=1.0,
    )  # fmt: skip
    least = bounds.logistic_risk(rows, labels, bounds.ball_minimiser(rows, labels, 1.0))
    measured = np.mean([bounds.logistic_risk(rows, labels, theta) for theta in found]) - least
    assert 0 < measured < bounds.theorem_2_1_that_holds(excess_risks.squared_noise(epsilon, delta), penalty, 1.0, 100)


@pytest.mark.parametrize("convexity", [0.0, 0.5])
def test_the_bounds_of_theorem_2_2_that_hold(convexity):
    """Without noise, where they are nearest to what is measured."""
    rows, labels = excess_risks.one_table(np.random.default_rng(1), 60)
    theta = noisy_sgd.algorithm_2(rows, labels, 0.0, np.random.default_rng(2), radius=1.0, convexity=convexity)
    best = bounds.ball_minimiser(rows, labels, 1.0, convexity / 2)

    def risk(place):
        return bounds.logistic_risk(rows, labels, place) + convexity / 2 * place @ place

    assert 0 <= risk(theta) - risk(best) < excess_risks.corrected_bound_2_2(0.0, convexity, 60) < 3


def test_measured_losses_are_below_the_bounds_that_hold(monkeypatch):
    monkeypatch.setattr(excess_risks, "EPSILONS", (1.0, 10.0))
    monkeypatch.setattr(excess_risks, "DRAWS", 4)
    objective = excess_risks.objective_risks(QUIET, 2, (50, 200))
    for row in excess_risks.theorem_2_1_table(objective, (50, 200)).rows:
        assert row[3] > row[2]
        assert 0 < row[4].value < row[5]
        assert 0 < row[6].value < row[7]
    descent = excess_risks.descent_risks(QUIET, 2, (50,))
    for row in excess_risks.theorem_2_2_table(descent, (50,)).rows:
        assert 0 < row[3].value < row[4]
        assert 0 < row[5].value < row[6]
        assert row[8] == row[7] / 50
    for row in excess_risks.sigma_table((50,)).rows:
        assert row[4] < row[2]
        assert row[6] < row[3] < row[5]


def test_the_aggregate_keeps_the_oracle_inequality(monkeypatch):
    monkeypatch.setattr(excess_risks, "EPSILONS", (1.0,))
    monkeypatch.setattr(excess_risks, "RISK_ROWS", 2_000)
    found = excess_risks.aggregate_risks(QUIET, 2, (10, 50))
    for row in excess_risks.theorem_4_1_table(found, (10, 50)).rows:
        assert 0 < row[4].value < row[3].value < row[5]
        assert row[6].value < row[7]


@pytest.mark.parametrize(
    ("title", "conclusion"),
    [
        ("Theorem 2.1: ", excess_risks.theorem_2_1_conclusion),
        ("Algorithm 2: its σ", excess_risks.algorithm_2_conclusion),
    ],
)
def test_what_is_concluded_follows_from_the_committed_rows(title, conclusion):
    (table,) = (each for each in committed_result("000")["tables"] if each["title"].startswith(title))
    rows = [[committed_cell(cell) for cell in row] for row in table["rows"]]
    assert conclusion(rows) in table["says"]
    # It is computed: other numbers, another conclusion.
    other = [*rows[0]]
    other[3], other[5] = 1e9, 1e9
    assert conclusion([*rows, other]) != conclusion(rows)

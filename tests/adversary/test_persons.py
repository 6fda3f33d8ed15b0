"""Persons with several rows: what an attacker hopes was counted once instead of once for each of their rows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium.learning.reading import ModelReading
from sudare.consortium.learning.requests import clipped_gradients
from sudare.consortium.learning.terms import LearningTerms, scaler_releases
from sudare.dictionary.em import Terms
from sudare.dictionary.families import Frame
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.private import PrivateTerms
from sudare.dictionary.private_noise import NoisePlan
from sudare.dictionary.private_questions import Clip, NoisyMoments, NoisyOpening, exact_contributions
from sudare.linear.descent import GradientDescent, Recipe
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mean_message import MeanMessage
from sudare.linear.perturbation import Facts
from sudare.linear.rows import HeldRows, bounded_rows
from sudare.privacy.accounting import gaussian_mu_within
from sudare.privacy.estimators import PrivateMean, PrivateStandardScaler
from sudare.privacy.sums import exact_moments, exact_sums, fixed_point_step
from sudare.schema import Label, Number, Person, Schema

EPSILON, DELTA = 1.0, 1e-6


def hidden_steps(plan, release):
    """By how many steps a total may move for this release's part of the promise to hold: σ·μ·√share, rounded up a little."""
    mu = Fraction(gaussian_mu_within(plan.epsilon, plan.delta))
    return (
        Fraction(plan.deviation_in_steps(release)) * mu * Fraction(math.sqrt(release.share)) * (1 + Fraction(1, 2**45))
    )


def rounding_steps(size):
    """Two vectors of so many numbers, each truncated to the grid: less than √d steps each."""
    return 2 * (math.isqrt(size - 1) + 1)


def dictionary_plan(columns, patterns, most_rows, rows=1000):
    names = tuple(f"c{index}" for index in range(columns))
    terms = Terms(names, -np.ones(columns), np.ones(columns), 3, SparseGaussian(), patterns)
    return PrivateTerms(terms, EPSILON, DELTA, 1, 8, rows_per_unit=most_rows).plan(rows)


@pytest.mark.parametrize(
    ("columns", "patterns", "most_rows", "rows"), [(1, 1, 2, 10), (3, 2, 7, 1000), (10, 8, 100, 10**7)]
)
def test_hide_a_persons_rounding_in_a_dictionary_behind_that_of_one_row(columns, patterns, most_rows, rows):
    """Each of a person's rows is truncated by itself, so each adds its own steps."""
    plan = dictionary_plan(columns, patterns, most_rows, rows)
    for release, of_a_row in zip(
        plan.releases[:2], (math.nextafter(2 * math.sqrt(columns), 0.0), math.nextafter(math.sqrt(6), 0.0)), strict=True
    ):
        needed = most_rows * (Fraction(of_a_row) / Fraction(plan.grid) + rounding_steps(release.size))
        assert hidden_steps(plan, release) >= needed


SCHEMA = Schema(
    {"age": Number(0, 110), "income": Number(-5, 5), "ill": Label(["no", "yes"])},
    Person("id", most_rows=9),
    target="ill",
)


@pytest.mark.parametrize("rows", [50, 10**6, 10**9])
def test_hide_a_persons_rounding_in_a_joint_model_behind_that_of_one_row(rows):
    for releases in (scaler_releases(SCHEMA, Fraction(1)), _descent_releases(rows)):
        plan = NoisePlan(EPSILON, DELTA, 3, 1, tuple(releases), rows)
        for release in plan.releases:
            needed = 9 * (2 / Fraction(plan.grid) + rounding_steps(release.size))
            assert hidden_steps(plan, release) >= needed


def _descent_releases(rows):
    reading = ModelReading.of_schema(SCHEMA, fit_intercept=True)
    terms = LearningTerms("descent", reading, EPSILON, DELTA, 3)
    return [noise.release for noise in terms.plan(rows).sums]


# Worst cases constructed explicitly: all rows of a person change, and every step is counted


CORNERS = st.sampled_from([-1.0, -1.0 + 2.0**-31, -0.3, 0.0, 2.0**-31, 0.7, 1.0 - 2.0**-31, 1.0])


@st.composite
def _persons(draw, columns):
    most_rows = draw(st.integers(1, 6))
    row = st.lists(CORNERS, min_size=columns, max_size=columns)
    rows = st.lists(row, min_size=most_rows, max_size=most_rows)
    return most_rows, np.array(draw(rows)), np.array(draw(rows))


def moved_steps(first, second, grid):
    """Squared Euclidean distance of two sums in steps of the grid, exactly."""
    return sum(
        (Fraction(a) / Fraction(grid) - Fraction(b) / Fraction(grid)) ** 2 for a, b in zip(first, second, strict=True)
    )


@settings(max_examples=40)
@given(_persons(2))
def test_no_persons_rows_move_a_noisy_dictionary_farther_than_planned(person):
    most_rows, rows, others = person
    plan = dictionary_plan(2, 2, most_rows)
    opening, moments = plan.releases[:2]
    limits = np.ones(opening.size)
    question = NoisyOpening(limits, plan, opening, -np.ones(2), np.ones(2))
    far = Clip(np.array([[-0.5, 0.0], [0.5, 0.0]]), np.repeat(30 * np.eye(2)[np.newaxis], 2, axis=0), 1.0)
    balls = NoisyMoments(
        np.ones(moments.size),
        plan,
        moments,
        Frame(np.zeros(2), np.ones(2)),
        far.centres,
        np.repeat(1000 * np.eye(2)[np.newaxis], 2, axis=0),
        np.full(2, 0.5),
        far,
    )
    for asked, release in ((question, opening), (balls, moments)):
        distance = moved_steps(exact_contributions(asked, rows), exact_contributions(asked, others), plan.grid)
        assert distance <= hidden_steps(plan, release) ** 2


@settings(max_examples=40)
@given(_persons(3), st.sampled_from([0.1, 0.5, 3.0]))
def test_no_persons_rows_move_a_joint_gradient_farther_than_planned(person, clip):
    most_rows, rows, others = person
    plan = NoisePlan(EPSILON, DELTA, 3, 1, tuple(_descent_releases(1000)), 1000)
    place = np.array([0.3, -2.0])
    steps = [
        clipped_gradients(np.column_stack([part[:, :2], np.where(part[:, 2] > 0, 1.0, -1.0)]), place, clip, plan.grid)
        for part in (rows, others)
    ]
    distance = sum(int(a - b) ** 2 for a, b in zip(*steps, strict=True))
    # Declared are nine rows a person; of so many fewer the part is theirs.
    assert distance <= (hidden_steps(plan, plan.releases[0]) * most_rows / 9) ** 2


@settings(max_examples=40)
@given(_persons(2), st.sampled_from([Logistic(), CappedSquares(1.0)]))
def test_no_persons_rows_move_exact_sums_farther_than_planned(person, loss):
    """The mean message and a step of descent: rows, targets and slopes on their grids."""
    most_rows, rows, others = person
    facts = Facts(1000, 2, 1.0, loss, 0.0, rows_per_unit=most_rows)
    message = MeanMessage(facts, EPSILON)
    descent = GradientDescent(facts, EPSILON, DELTA, Recipe(1, 0.25, 1.0))
    held = [
        HeldRows(bounded_rows(part, 1.0)[0], np.where(part[:, :1] > 0, 1.0, -1.0) if loss.one_sided else part[:, :1])
        for part in (rows, others)
    ]
    first, second = (message.sums(part).ravel() for part in held)
    assert moved_steps(first, second, 1.0) <= Fraction(message.mechanism.sensitivity) ** 2
    first, second = (descent.clipped_sum(part, np.array([[0.5, -1.0]])).ravel() for part in held)
    grid = Fraction(descent._steps_of[0]) * Fraction(descent._steps_of[1])
    assert moved_steps(first, second, 1.0) * grid**2 <= (2 * Fraction(0.25) * most_rows) ** 2


@settings(max_examples=40)
@given(_persons(2))
def test_no_persons_rows_move_a_mean_or_a_scaler_farther_than_planned(person):
    most_rows, rows, others = person
    schema = Schema({"a": Number(-1, 1), "b": Number(-1, 1)}, Person("id", most_rows=most_rows))
    step = fixed_point_step(1000)
    scaled = [(1 + part) / 2 for part in (rows, others)]
    for learner, sums in ((PrivateMean, exact_sums), (PrivateStandardScaler, exact_moments)):
        mechanism = learner(EPSILON, DELTA, schema=schema).plan(1000, schema).mechanism
        first, second = (sums(part, step) for part in scaled)
        assert moved_steps(first, second, 1.0) <= Fraction(mechanism.sensitivity) ** 2

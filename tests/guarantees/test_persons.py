"""Worst cases constructed explicitly: all rows of a person change, and every step of the grid is counted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.dictionary.distributed_noise import NoisePlan
from sudare.dictionary.exponential_families import Frame
from sudare.dictionary.private_sum_questions import Clip, NoisyMoments, NoisyOpening
from sudare.frames.rows import Rows
from sudare.joint.sum_requests import clipped_gradients
from sudare.linear.descent import GradientDescent, Recipe
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.rows import bounded_rows
from sudare.privacy.column_sums import exact_moments, exact_sums, fixed_point_step
from sudare.schema import Number, Person, Schema
from sudare.statistics import PrivateMean, PrivateStandardScaler
from tests.guarantees.person_plans import DELTA, EPSILON, descent_releases, dictionary_plan, hidden_steps

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
        distance = moved_steps(asked.exact_sums(rows), asked.exact_sums(others), plan.grid)
        assert distance <= hidden_steps(plan, release) ** 2


@settings(max_examples=40)
@given(_persons(3), st.sampled_from([0.1, 0.5, 3.0]))
def test_no_persons_rows_move_a_joint_gradient_farther_than_planned(person, clip):
    most_rows, rows, others = person
    plan = NoisePlan(EPSILON, DELTA, 3, 1, tuple(descent_releases(1000)), 1000)
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
        Rows.held(bounded_rows(part, 1.0)[0], np.where(part[:, :1] > 0, 1.0, -1.0) if loss.one_sided else part[:, :1])
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

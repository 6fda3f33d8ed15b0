"""Persons with several rows: what an attacker hopes was counted once instead of once for each of their rows."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from sudare.dictionary.distributed_noise import NoisePlan
from sudare.joint.training_terms import scaler_releases
from tests.guarantees.person_plans import (
    DELTA,
    EPSILON,
    SCHEMA,
    descent_releases,
    dictionary_plan,
    hidden_steps,
    rounding_steps,
)


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


@pytest.mark.parametrize("rows", [50, 10**6, 10**9])
def test_hide_a_persons_rounding_in_a_joint_model_behind_that_of_one_row(rows):
    for releases in (scaler_releases(SCHEMA, Fraction(1)), descent_releases(rows)):
        plan = NoisePlan(EPSILON, DELTA, 3, 1, tuple(releases), rows)
        for release in plan.releases:
            needed = 9 * (2 / Fraction(plan.grid) + rounding_steps(release.size))
            assert hidden_steps(plan, release) >= needed

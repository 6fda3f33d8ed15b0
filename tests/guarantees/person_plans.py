"""Plans of noise for persons with several rows, and by how many steps of the grid a person may move what they hide."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sudare.dictionary.em import TrainingTerms
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.private_training import PrivateTerms
from sudare.joint.member_rows import ModelReading
from sudare.joint.training_terms import LearningTerms
from sudare.privacy.accounting import gaussian_mu_within
from sudare.schema import Label, Number, Person, Schema

EPSILON, DELTA = 1.0, 1e-6
SCHEMA = Schema(
    {"age": Number(0, 110), "income": Number(-5, 5), "ill": Label(["no", "yes"])},
    Person("id", most_rows=9),
    target="ill",
)


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
    terms = TrainingTerms(names, -np.ones(columns), np.ones(columns), 3, SparseGaussian(), patterns)
    return PrivateTerms(terms, EPSILON, DELTA, 1, 8, rows_per_unit=most_rows).plan(rows)


def descent_releases(rows):
    reading = ModelReading.of_schema(SCHEMA, fit_intercept=True)
    terms = LearningTerms("descent", reading, EPSILON, DELTA, 3)
    return [noise.release for noise in terms.plan(rows).sums]

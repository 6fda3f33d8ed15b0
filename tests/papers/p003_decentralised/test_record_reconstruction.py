"""The attack of the findings: from ten iterations with exact sums a member of two computes the other's records; with ε it does not."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.private_sum_questions import NoisyMoments
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import PatternCounts
from sudare.dictionary.training import trained
from sudare.papers.p003_decentralised.record_reconstruction import (
    _jacobian,
    _residuals,
    exact_equations,
    largest_error,
    noisy_equations,
    solved,
    watched,
)
from sudare.privacy.noise import SeededNoise
from tests.dictionary.kit import chapter_terms, held

ROWS = 10


class Silence:
    """No noise at all."""

    valid = False

    def gaussian(self, values, scale):
        return values


def two_members(seed):
    random = np.random.default_rng(seed)
    means = 3 * random.normal(size=(2, 2))
    return held([means[random.integers(2, size=rows)] + random.normal(size=(rows, 2)) for rows in (40, ROWS)])


def matrix_of(records):
    return records.checked.together()[0]


def terms(**changes):
    bounds = {"columns": ("a", "b"), "low": np.full(2, -15.0), "high": np.full(2, 15.0), "members": 2}
    exact = {"n_patterns": 2, "min_others": 0, "search": False, "max_iter": 10, "tol": 1e-12}
    return chapter_terms(**{**bounds, **exact, "family": SparseGaussian(), **changes})


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_exact_sums_of_two_members_show_every_record(seed):
    curious, other = two_members(seed)
    shown = watched(trained(terms()), curious, other)
    frame = next(each.question.frame for each in shown if isinstance(each.question, PatternCounts))
    found = solved(exact_equations(shown)[:10], ROWS, np.random.default_rng(0), starts=20)
    assert largest_error(frame.undone(found), matrix_of(other)) < 1e-7


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_noisy_sums_do_not(seed):
    """At ε = 10, far more than anybody should spend, the same equations lead nowhere: errors of the size of the range."""
    curious, other = two_members(seed)
    shown = watched(trained(PrivateTerms(terms(), 10.0, 1e-6)), curious, other, SeededNoise(seed))
    frame = next(each.question.frame for each in shown if isinstance(each.question, NoisyMoments))
    found = solved(noisy_equations(shown, 2), ROWS, np.random.default_rng(0), starts=3)
    assert largest_error(frame.undone(found), matrix_of(other)) > 1.0


def test_the_attack_reads_a_private_training_rightly():
    """Without noise to speak of and without clipping its equations would hold: what stops it is the noise, not a mistake of ours."""
    curious, other = two_members(2)
    private = PrivateTerms(terms(n_patterns=1), 10.0, 1e-6, iterations=2)
    shown = watched(trained(private), curious, other, Silence())
    question = next(each.question for each in shown if isinstance(each.question, NoisyMoments))
    rows = question.frame.applied(matrix_of(other))
    assert np.all(np.linalg.norm(rows, axis=1) <= question.clip.radius)
    np.testing.assert_allclose(_residuals(rows, noisy_equations(shown, 2)[:1]), 0.0, atol=1e-6)


def test_slopes_are_right():
    curious, other = two_members(2)
    equations = exact_equations(watched(trained(terms()), curious, other))[:2]
    place = np.random.default_rng(0).normal(size=(3, 2))
    step = 1e-6
    for column in range(6):
        ahead, behind = place.copy(), place.copy()
        ahead.flat[column] += step
        behind.flat[column] -= step
        slope = (_residuals(ahead, equations) - _residuals(behind, equations)) / (2 * step)
        np.testing.assert_allclose(_jacobian(place, equations)[:, column], slope, atol=1e-6)

"""The bound from one run, against mechanisms whose ε and δ are known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from sudare.audit.canaries import (
    Guesses,
    canary_audit,
    chance_of_guesses,
    coins,
    epsilon_of_guesses,
    guesses_by_score,
    scores_along,
)
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee


def all_guessed(right: int, made: int = 1000) -> Guesses:
    return Guesses(made, made, right, 0, 0)


def claimed(epsilon: float, delta: float = 0.0) -> Guarantee:
    return Guarantee(epsilon, delta, neighbours="add-remove")


def test_without_delta_the_chance_is_that_of_coins_as_biased_as_randomised_response():
    for epsilon in (0.0, 0.5, 2.0):
        bias = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert chance_of_guesses(all_guessed(700), epsilon, 0.0) == pytest.approx(binom.sf(699, 1000, bias))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_randomised_response_is_bounded_at_the_stated_confidence_and_nearly_reached(epsilon):
    """Answers that are right with e^ε/(1 + e^ε) are exactly ε-DP. The bound errs with probability at most 0.1.

    4,000 runs: with an error of exactly 0.1, more than 0.133 of them are wrong with probability below 1e-6 (7 deviations).
    """
    generator = np.random.default_rng(7)
    bias = math.exp(epsilon) / (1 + math.exp(epsilon))
    rights = generator.binomial(1000, bias, 4000)
    bounds = {right: epsilon_of_guesses(all_guessed(int(right)), 0.0, 0.9) for right in np.unique(rights)}
    found = np.array([bounds[right] for right in rights])
    assert np.mean(found > epsilon) < 0.133
    assert np.mean(found > epsilon) > 0.05
    # Half of all runs come within 1.28 deviations of the truth, on the scale of log-odds.
    assert np.median(found) > epsilon - 1.5 / math.sqrt(1000 * bias * (1 - bias))


def catastrophe(generator: np.random.Generator, runs: int, canaries: int, delta: float) -> np.ndarray:
    """With probability δ everything is told, else nothing: (0, δ)-DP, and the worst for a bound that counts right guesses."""
    told = generator.random(runs) < delta
    return np.where(told, canaries, generator.binomial(canaries, 0.5, runs))


def name_and_shame(generator: np.random.Generator, runs: int, canaries: int, delta: float) -> np.ndarray:
    """Every canary is told with probability δ, else guessed: (0, δ)-DP."""
    told = generator.binomial(canaries, delta, runs)
    return told + generator.binomial(canaries - told, 0.5)


@pytest.mark.parametrize("mechanism", [catastrophe, name_and_shame])
@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_what_delta_allows_refutes_nothing(mechanism, delta):
    """Both are (0, δ)-DP, so every positive bound is an error, and errors have probability 0.1 at most (7 deviations: 0.133)."""
    generator = np.random.default_rng(3)
    rights = mechanism(generator, 4000, 50, delta)
    wrong = {right: chance_of_guesses(all_guessed(int(right), 50), 0.0, delta) <= 0.1 for right in np.unique(rights)}
    assert np.mean([wrong[right] for right in rights]) < 0.133


def test_the_delta_term_is_needed():
    """Told everything with probability 0.1: without the term, 0.1 of all runs would 'refute' ε = 3, however sure one wants to be."""
    everything = all_guessed(50, 50)
    assert chance_of_guesses(everything, 0.0, 0.0) < 1e-9
    assert chance_of_guesses(everything, 0.0, 0.1) >= 0.1
    assert epsilon_of_guesses(everything, 0.0, 0.95) > 2
    assert epsilon_of_guesses(everything, 0.1, 0.95) == 0.0


def test_gaussian_scores_stay_below_their_exact_epsilon_and_quiet_ones_are_caught():
    """Scores N(in, σ²) are exactly 1/σ-GDP for each canary. A bound above the truth has probability 1e-6."""
    generator = np.random.default_rng(11)
    included = coins(2000, generator)
    mu = 0.5
    truth = claimed(gaussian_epsilon(mu, 1e-9), 1e-9)
    honest = canary_audit(mu * included + generator.normal(size=2000), included, truth)
    assert honest.holds
    assert honest.epsilon_lower_bound > 0.1
    quiet = canary_audit(30 * mu * included + generator.normal(size=2000), included, truth)
    assert not quiet.holds
    assert quiet.epsilon_lower_bound > 3


def test_no_evidence_is_stronger_than_delta():
    """A mechanism may tell everything with probability δ, so no number of canaries makes a conclusion surer than that."""
    assert chance_of_guesses(all_guessed(1000), 0.0, 1e-5) > 1e-5
    assert epsilon_of_guesses(all_guessed(1000), 1e-5, 1 - 1e-6) == 0
    assert epsilon_of_guesses(all_guessed(1000), 1e-5, 0.999) > 1


def test_guesses_are_the_ends_of_the_scores():
    scores = np.arange(10.0)
    included = np.array([False] * 5 + [True] * 5)
    guesses = guesses_by_score(scores, included, 0.4)
    assert guesses == Guesses(10, 2, 2, 2, 0)
    assert (guesses.made, guesses.right) == (4, 4)
    assert guesses_by_score(-scores, included, 1.0).right == 0
    assert guesses_by_score(np.full(10, np.nan), included, 1.0).made == 10


def test_more_right_guesses_refute_more():
    bounds = [epsilon_of_guesses(all_guessed(right), 1e-5, 0.999) for right in (400, 550, 600, 700, 900, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0
    assert epsilon_of_guesses(all_guessed(1000), 0.0, 1 - 1e-6) == pytest.approx(
        math.log(1e-6 ** (1 / 1000) / (1 - 1e-6 ** (1 / 1000))), rel=1e-6
    )


def test_scores_are_lengths_along_directions():
    moves, directions = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(scores_along(moves, directions), [1.4, 0.0])


def test_what_cannot_be_audited_is_refused():
    included = np.ones(30, dtype=bool)
    with pytest.raises(InvalidParameter, match="add/remove"):
        canary_audit(np.zeros(30), included, Guarantee(1.0))
    with pytest.raises(InvalidParameter, match="29 scores"):
        canary_audit(np.zeros(29), included, claimed(1.0))
    with pytest.raises(InvalidParameter, match="canaries"):
        canary_audit(np.zeros(10), included[:10], claimed(1.0))


def test_a_result_reads_as_a_sentence():
    included = np.arange(100) % 2 == 0
    audit = canary_audit(included * 1.0, included, claimed(1.0))
    assert not audit.holds
    assert "100 of 100 guesses about 100 canaries were right" in str(audit)
    assert "REFUTED" in str(audit)

"""Candidates are weighed by records that they had not seen."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.square_wave import SquareWave
from sudare.reconstruction.binning import continuous_states, counted
from sudare.reconstruction.held_out_average import (
    PREFERENCES,
    Candidate,
    family_candidate,
    held_out_weights,
    logarithmic_candidates,
    refitted,
)
from sudare.reconstruction.iterative_bayes import random_parts
from sudare.reconstruction.model_average import smooth_family
from sudare.reconstruction.number_reconstruction import Reconstruction, each_method

PERTURBATION = LaplacePerturbation((0, 10), epsilon=4)
CELLS = 40


def prepared(values):
    counts = counted(PERTURBATION, PERTURBATION.perturb(values, random_state=0), CELLS)
    states = continuous_states(PERTURBATION, counts.edges, CELLS, np.empty(0))
    return counts, states, random_parts(counts.counts, 3, np.random.default_rng(0))


def predicting(name, states, probabilities, parts):
    seen = np.repeat([states.channel @ probabilities], len(parts), axis=0)
    return Candidate(name, states, probabilities, seen)


def test_the_candidate_that_predicts_gets_the_weight_and_ties_keep_the_preferences():
    _, states, parts = prepared(np.random.default_rng(1).uniform(6, 9, 4000))
    true = np.histogram(np.random.default_rng(2).uniform(6, 9, 100_000), states.edges)[0] / 100_000
    flat = np.full(CELLS, 1 / CELLS)
    right, wrong = (predicting(name, states, one, parts) for name, one in (("smooth", true), ("bayes", flat)))
    weights = held_out_weights([right, wrong], parts)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] > 0.9
    alike = [predicting(name, states, flat, parts) for name in ("smooth", "bayes")]
    own = np.array([PREFERENCES["smooth"], PREFERENCES["bayes"]])
    np.testing.assert_allclose(held_out_weights(alike, parts), own / own.sum())


def test_a_candidate_predicts_a_part_as_if_it_had_never_seen_it():
    counts, states, parts = prepared(np.random.default_rng(1).normal(4, 1, 2000))
    family = smooth_family(states, counts, (0.1, 0.33), (0.7, 2.8))
    candidate = family_candidate("smooth", [family], counts, parts)
    np.testing.assert_allclose(candidate.predicted.sum(axis=1), 1)
    # The same from a start that knows nothing of the part.
    afresh = smooth_family(states, type(counts)(counts.edges, counts.counts - parts[0]), (0.1, 0.33), (0.7, 2.8))
    weights = np.exp(afresh.log_weights - afresh.log_weights.max())
    expected = states.channel @ (weights / weights.sum() @ np.array([fit.probabilities for fit in afresh.fits]))
    whole = states.channel @ candidate.probabilities
    # Both stop before the last digit of the mode; what the part itself would have moved is many times that.
    assert np.abs(candidate.predicted[0] - expected).sum() < 0.3 * np.abs(whole - expected).sum()
    assert len(refitted(family, counts).fits) <= len(family.fits)


def test_a_skewed_column_asks_for_a_logarithmic_scale():
    values = np.clip(np.random.default_rng(3).lognormal(-1.2, 0.9, 20_000), 0, 10)
    wave = SquareWave((0, 10), epsilon=6)
    counts = counted(wave, wave.perturb(values, random_state=0), 4 * CELLS)
    states = continuous_states(wave, counts.edges, 4 * CELLS, np.empty(0))
    parts = random_parts(counts.counts, 3, np.random.default_rng(0))
    candidates = [
        family_candidate("smooth", [smooth_family(states, counts)], counts, parts),
        *logarithmic_candidates(wave, states, counts, parts),
    ]
    names = [candidate.name for candidate in candidates]
    assert names == ["smooth", "log-smooth, low", "log-smooth, high", "log-mixture"]
    edges = candidates[1].states.edges
    assert edges[0] == 0
    assert edges[-1] == 10
    assert np.all(np.diff(edges, 2) > 0)
    assert np.all(np.diff(candidates[2].states.edges, 2) < 0)
    assert candidates[1].families[0].evidence > candidates[0].families[0].evidence + 5


def test_spikes_of_whole_numbers_are_not_smoothed_away():
    generator = np.random.default_rng(4)
    hours = np.where(generator.random(5000) < 0.5, 40, np.rint(generator.normal(38, 14, 5000))).clip(1, 99)
    wave = SquareWave((1, 99), k=2, n_records=5000, whole=True)
    edges = np.arange(0.5, 100)
    true = np.histogram(hours, edges)[0] / len(hours)
    found = each_method(wave, wave.perturb(hours, random_state=0), with_auto=True)
    far = {method: np.abs(one.histogram(edges) - true).sum() / 2 for method, one in found.items()}
    assert far["auto"] < min(far.values()) + 0.01
    assert far["auto"] < far["smooth"] - 0.1


def test_the_technique_is_a_part_of_auto_and_only_it_has_no_band():
    values = np.random.default_rng(5).normal(4, 1, 1000)
    y = PERTURBATION.perturb(values, random_state=0)
    found = Reconstruction(PERTURBATION, whole=False).fit(y).distribution_
    assert found.method_weights["bayes"] > 0
    assert found.probabilities.sum() == pytest.approx(1)
    assert found.band(np.arange(11)).calibrated

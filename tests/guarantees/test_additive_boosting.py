"""Boosted additive models: exact sums within the clip, noise that composes to the promise, and audits of whole runs with planted bugs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.audit import distinguish_gaussian
from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.linear import additive_boosting
from sudare.linear.additive_boosting import WEIGHT_STEPS, AdditiveBoosting, BoostingRecipe, BoostingState
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise, SystemNoise

SIZES = (3, 4, 2)


def mechanism(rows=20, epsilon=1.0, outputs=1, **more):
    facts = Facts(rows, sum(SIZES), math.sqrt(3), Logistic(), 0.0, outputs=outputs)
    return AdditiveBoosting(facts, epsilon, 1e-3, SIZES, **more)


def positions(random, rows=20):
    starts = np.cumsum((0, *SIZES[:-1]))
    return (starts + random.integers(0, SIZES, size=(rows, 3))).astype(np.uint8)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=30)
def test_a_row_adds_no_more_than_the_clip_exactly(seed, outputs):
    """In whole steps, squared and compared as integers: no tolerance but the conversion of the clip."""
    random = np.random.default_rng(seed)
    method, bins = mechanism(outputs=outputs), positions(random)
    weights = np.floor(random.uniform(1, 2**14, sum(SIZES)))
    targets, place = random.choice([-1.0, 1.0], size=(20, outputs)), random.normal(scale=5, size=(outputs, sum(SIZES)))
    alone = [
        method.weighted_sum(Rows.held(bins[i : i + 1], targets[i : i + 1]), place, weights).astype(object).ravel()
        for i in range(20)
    ]
    limit = math.floor((method._clip * WEIGHT_STEPS / method._slope_grid) ** 2 * (1 + 1e-12))
    assert all(sum(int(v) ** 2 for v in vector) <= limit for vector in alone)
    together = method.weighted_sum(Rows.held(bins, targets), place, weights).ravel()
    assert [int(v) for v in together] == [sum(int(v[j]) for v in alone) for j in range(len(together))]


@pytest.mark.parametrize("persons", [1, 3])
def test_counts_and_steps_compose_to_the_promise(persons):
    """fμ² of the counts and (1−f)μ² of the steps are μ², and μ costs ε at δ."""
    method = mechanism()
    method = replace(method, facts=replace(method.facts, rows_per_unit=persons))
    counts = persons * math.sqrt(2 * len(SIZES)) / method.count_deviation
    steps = persons * 2 * method._clip / method._deviation
    mu = math.sqrt(counts**2 + method.recipe.steps * steps**2)
    assert mu <= method.cost.mu
    assert mu == pytest.approx(method.cost.mu, rel=1e-9)
    assert gaussian_epsilon(mu, 1e-3) <= 1.0


def test_pure_promises_are_refused():
    with pytest.raises(ValueError, match="delta"):
        AdditiveBoosting(mechanism().facts, 1.0, 0.0, SIZES)


def test_what_does_not_fit_into_words_is_refused():
    with pytest.raises(InvalidParameter, match="64 bits"):
        AdditiveBoosting(replace(mechanism().facts, rows=2**50), 8.0, 1e-3, SIZES)


class Seen:
    """The releases of a run, as an attacker sees them: noisy counts, then noisy sums."""

    def __init__(self, method, source):
        self.method, self.source, self.found = method, source, []

    def gaussian(self, values, scale):
        noisy = self.source.gaussian(values, scale)
        self.found.append(noisy.astype(np.float64) / scale)
        return noisy


def run(method, source):
    def mechanism_of(values):
        seen = Seen(method, source)
        method.apply(values, seen)
        return np.concatenate(seen.found)

    return mechanism_of


# A row whose label and all of whose bins change, and one whose label alone changes: bins, then the target.
OTHERS = [[0, 3, 7, 1.0], [1, 4, 8, -1.0]]
PAIRS = {
    "bins": ([[0, 3, 7, 1.0], *OTHERS], [[1, 5, 8, -1.0], *OTHERS]),
    "label": ([[0, 3, 7, 1.0], *OTHERS], [[0, 3, 7, -1.0], *OTHERS]),
}
FEW_STEPS = BoostingRecipe(steps=2, averaged=1)


@pytest.mark.parametrize("source", [SeededNoise(0), pytest.param(SystemNoise(), marks=pytest.mark.long)])
@pytest.mark.parametrize("pair", PAIRS)
def test_whole_runs_cannot_be_told_apart_better_than_claimed(pair, source):
    """Everything that noise is added to is given to the attacker. False alarms: below one in a million a gate, by `distinguish_gaussian`."""
    tables = tuple(np.array(table) for table in PAIRS[pair])
    method, claimed = mechanism(3, recipe=FEW_STEPS), Guarantee(1.0, 1e-3)
    audit = distinguish_gaussian(run(method, source), tables, claimed, method.cost.mu, 800)
    assert audit.epsilon_lower_bound <= 1.0
    loud = mechanism(3, epsilon=12.0, recipe=FEW_STEPS)
    caught = distinguish_gaussian(run(loud, source), tables, claimed, method.cost.mu, 800)
    assert caught.epsilon_lower_bound > 1.0


def test_a_twin_that_does_not_shorten_rows_is_caught(monkeypatch):
    """Planted: the clip of a weighted sum is forgotten, so that heavy weights let one row shout."""
    tables = tuple(np.array(table) for table in PAIRS["label"])
    method, source, claimed = mechanism(3, recipe=FEW_STEPS), SeededNoise(0), Guarantee(1.0, 1e-3)
    heavy = lambda mechanism, bin_rows, ratios: np.full(len(bin_rows), 16 * WEIGHT_STEPS)  # noqa: E731
    monkeypatch.setattr(additive_boosting, "whole_weights", heavy)
    honest = distinguish_gaussian(run(method, source), tables, claimed, method.cost.mu, 800)
    assert honest.epsilon_lower_bound <= 1.0

    def forgetful(self, rows, parameters, weights):
        bins, targets = rows.together()
        total = np.zeros(parameters.shape)
        slopes = np.trunc(self.facts.loss.slope(parameters[0, bins].sum(1)[:, None], targets) / self._slope_grid)
        np.add.at(total[0], bins, slopes * weights[bins])
        return total

    monkeypatch.setattr(AdditiveBoosting, "weighted_sum", forgetful)
    caught = distinguish_gaussian(run(method, source), tables, claimed, method.cost.mu, 800)
    assert caught.epsilon_lower_bound > 1.0


@given(st.integers(0, 10**6), st.integers(1, 10**6))
@settings(max_examples=30)
def test_weights_give_a_typical_row_the_norm_that_clips_are_made_for(seed, rows):
    random = np.random.default_rng(seed)
    method = mechanism(rows)
    counts = np.concatenate([rows * random.dirichlet(np.ones(size)) for size in SIZES])
    walk = BoostingState(method.boosting_facts, counts)
    assert np.all(walk.weights == np.floor(walk.weights))
    assert np.all(walk.weights >= WEIGHT_STEPS / 4)
    assert np.all(np.isfinite(method.fitted(Rows.held(positions(random), np.ones((20, 1))), SeededNoise(seed))))

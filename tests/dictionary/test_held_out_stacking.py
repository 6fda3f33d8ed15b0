"""What a member learns at home: monotone EM, a stack that held-out records cannot blame, and patterns that nobody else sees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.dictionary import PatternDictionary
from sudare.dictionary.em import Dictionary
from sudare.dictionary.exponential_families import Frame, Overall, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.held_out_stacking import candidates, held_out_folds, stacked, weight_of_all_members
from sudare.dictionary.mixture_weights import needed
from sudare.dictionary.own_mixture import (
    NO_TAILS,
    TAILS,
    CovariancePrior,
    Mixture,
    clusters,
    iterations,
    robust_deviations,
)
from sudare.dictionary.sum_questions import Branch
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from tests.dictionary.kit import FAMILIES, held, random_records

FAR = np.array([0.0, 9.0, 0.0, 9.0])


def dictionary_of(truth):
    """The true patterns as if a training had found them, in the columns' own units."""
    patterns = Patterns({"means": truth.means, "precisions": truth.precisions})
    overall = Overall(900, np.zeros(4), np.eye(4))
    frame = Frame(np.zeros(4), np.ones(4))
    return Dictionary(SparseGaussian(), patterns, frame, overall, np.full(3, 300.0), Branch(0), ())


def own_records(random, rows=150, strange=40):
    """A member of kind one, some of whose records are of a pattern nobody else has, in random order."""
    usual = chapter_truth().records(random, rows)[0]
    return random.permutation(np.vstack([usual, FAR + random.normal(size=(strange, 4))]))


@pytest.mark.parametrize(
    ("family", "tails"),
    [*((family, NO_TAILS) for family in FAMILIES), (SparseGaussian(), TAILS), (DiagonalGaussian(), TAILS)],
    ids=lambda value: getattr(value, "name", str(len(value)) if isinstance(value, tuple) else None),
)
def test_the_objective_rises_in_every_iteration(family, tails):
    random = np.random.default_rng(0)
    Z = np.concatenate([random_records(family, random, 60), random_records(family, random, 40)])
    variances = robust_deviations(Z) ** 2
    prior = CovariancePrior(np.diag(variances) if isinstance(family, SparseGaussian) else variances, 2.0)
    found = list(iterations(family, Z, 3, prior, tails))
    objectives = [objective for _, objective in found]
    assert len(objectives) > 2
    assert np.all(np.diff(objectives) > -1e-7 * abs(objectives[-1]))
    assert found[-1][0].weights.sum() == pytest.approx(1.0)


def test_patterns_beside_others_leave_those_as_they_are():
    random = np.random.default_rng(1)
    truth = chapter_truth()
    shared = Mixture(Patterns({"means": truth.means, "precisions": truth.precisions}), truth.weights[0], 3)
    found = list(
        iterations(SparseGaussian(), own_records(random), 1, CovariancePrior(np.eye(4), 4.0), NO_TAILS, shared)
    )
    assert np.all(np.diff([objective for _, objective in found]) > -1e-6)
    mixture = found[-1][0]
    np.testing.assert_array_equal(mixture.patterns["means"][:3], truth.means)
    np.testing.assert_allclose(mixture.patterns["means"][3], FAR, atol=0.8)


@pytest.mark.parametrize("seed", range(20))
def test_a_stack_is_not_below_any_density_on_the_records_it_was_weighted_by(seed):
    """The theorem: at most (K − 1)·½ ln N nats below the best candidate, whatever the densities are."""
    random = np.random.default_rng(seed)
    count, rows = int(random.integers(2, 6)), int(random.integers(12, 400))
    log_densities = random.normal(size=count) + random.exponential(3.0, count) * random.normal(size=(rows, count))
    stack = needed(log_densities, np.full(count, 1 / count))
    slack = (count - 1) * (0.5 * math.log(rows) + 0.5)
    assert stack.log_likelihood >= log_densities.sum(axis=0).max() - slack
    assert stack.weights.sum() == pytest.approx(1.0)


def test_a_member_unlike_all_others_is_as_well_off_as_alone():
    random = np.random.default_rng(2)
    other = random.normal(size=(200, 4)) @ random.normal(size=(4, 4)) + 20
    part = stacked(held([other])[0], dictionary_of(chapter_truth()), np.full(3, 1 / 3))
    assert part.weights.sum() < 1e-6
    assert part.pattern_weights.sum() == pytest.approx(1.0)


def test_where_the_shared_patterns_are_right_nothing_is_learned_at_home():
    truth, found = chapter_truth(), []
    for member, table in enumerate(truth.records(np.random.default_rng(3), 150)):
        part = stacked(held([table])[0], dictionary_of(truth), truth.weights[member])
        found.append(part.patterns is None)
        np.testing.assert_array_equal(part.weights == 0, truth.weights[member] == 0)
    assert all(found)


def test_heavy_tails_are_noticed():
    random = np.random.default_rng(4)
    Z = random.standard_t(2.5, size=(400, 4))
    shared = Mixture(Patterns({"means": np.full((1, 4), 30.0), "precisions": np.eye(4)[np.newaxis]}), np.ones(1), 1)
    _, own, *_ = candidates(SparseGaussian(), shared, lambda weights: weights, Z)
    assert len(own.learner(Z).weights) % len(TAILS) == 0


def test_folds_are_of_neighbours_and_cover_few_records_once():
    folds = held_out_folds(60)
    np.testing.assert_array_equal(np.sum(folds, axis=0), 1)
    assert np.count_nonzero(np.diff(folds[0].astype(int))) <= 4
    assert len(held_out_folds(100_000)) == 1


def test_records_like_their_neighbours_count_for_less():
    random = np.random.default_rng(5)
    independent = random.normal(size=(100, 3))
    walk = np.cumsum(random.normal(size=(100, 3)), axis=0)
    assert weight_of_all_members(independent) == 0
    assert weight_of_all_members(walk) > 0.1
    assert weight_of_all_members(np.ones((100, 3))) == 0


@pytest.mark.parametrize("count", [1, 2, 5])
def test_clusters_are_numbered_without_gaps(count):
    labels = clusters(np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0), count)
    np.testing.assert_array_equal(np.unique(labels), np.arange(labels.max() + 1))
    assert labels.max() < max(count, 1)


@pytest.mark.filterwarnings("error")
def test_equal_records_are_not_cut_where_their_mean_is_rounded():
    labels = clusters(np.array([[0.1], [0.1], [0.1], [1.0], [2.0], [3.0]]), 6)
    assert len(np.unique(labels[:3])) == 1


def test_nobody_else_sees_own_patterns_and_their_member_is_not_alarmed():
    random = np.random.default_rng(0)
    tables = chapter_truth(members=4).records(random, 150)
    tables[0] = own_records(random)
    fitted = PatternDictionary(6, hide="nothing").fit(tables)
    assert np.linalg.norm(fitted.means_ - FAR, axis=1).min() > 4
    new = FAR + random.normal(size=(200, 4))
    assert fitted.member(0).predict(new).mean() < 0.1
    assert fitted.member(1).predict(new).mean() > 0.9


def test_with_epsilon_a_member_learns_at_home_as_well():
    """What noisy totals cannot describe its own records do, at no further cost."""
    random = np.random.default_rng(0)
    tables = chapter_truth(members=4).records(random, 150)
    tables[0] = own_records(random)
    fitted = PatternDictionary(4, hide="nothing", bounds=(-15, 20), epsilon=5.0, random_state=0).fit(tables)
    part = fitted.own_parts_[0]
    assert part.patterns is not None
    assert part.weights.sum() + part.pattern_weights.sum() == pytest.approx(1.0)
    assert fitted.member(0).predict(FAR + random.normal(size=(200, 4))).mean() < 0.1


def test_windows():
    from sudare.dictionary import ChangeDetector
    from sudare.errors import DataError, InvalidParameter

    model = chapter_truth().model(0)
    records = chapter_truth().records(np.random.default_rng(0), 400)[0]
    plain, smooth = model.score_samples(records), model.smoothed(4)
    np.testing.assert_allclose(
        smooth.score_samples(records)[[0, 1, 9]], [plain[0], plain[:2].mean(), plain[6:10].mean()]
    )
    with pytest.raises(DataError, match="Calibrate"):
        smooth.threshold()
    calibrated = smooth.calibrated(records)
    assert len(calibrated.calibration) == 100
    assert calibrated.predict(records, 0.05)[3::4].mean() <= 0.06
    with pytest.raises(InvalidParameter, match="window"):
        ChangeDetector.begun(calibrated)

"""Several releases of one column, perturbed at different ε, are fitted together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection, UnaryEncoding
from sudare.reconstruction import CategoricalReconstruction, Reconstruction
from sudare.reconstruction.binning import pooled
from sudare.reconstruction.category_frequencies import METHODS

BOUNDS = (0.0, 10.0)
LEVELS = ("a", "b", "c", "d")
TRUTH = np.array([0.5, 0.3, 0.15, 0.05])


def two_peaks(size: int, seed: int) -> Floats:
    generator = np.random.default_rng(seed)
    return np.clip(np.where(generator.random(size) < 0.5, 3.0, 7.0) + 0.8 * generator.normal(size=size), *BOUNDS)


def test_answers_of_all_releases_are_one_law() -> None:
    """For each value the probabilities of all releases and bins add up to one; shares of releases are those of the answers."""
    perturbations = [SquareWave(BOUNDS, epsilon=1.0), LaplacePerturbation(BOUNDS, epsilon=2.0)]
    columns = [perturbations[0].perturb(np.full(100, 5.0)), perturbations[1].perturb(np.full(300, 5.0))]
    law, counts = pooled(perturbations, columns)
    assert counts.records == 400
    assert law.shares == [0.25, 0.75]
    for transition in (law.transition(counts.edges, np.linspace(*BOUNDS, 8)), law.transition_at(counts.edges, [0, 5])):
        assert len(transition) == len(counts.counts)
        np.testing.assert_allclose(transition.sum(axis=0), 1.0)
        np.testing.assert_allclose(transition[: law.sizes[0] - 1].sum(axis=0), 0.25)


def test_two_draws_of_the_same_records_tell_more_than_one() -> None:
    first, second = SquareWave(BOUNDS, epsilon=1.0), SquareWave(BOUNDS, epsilon=0.9)
    edges = np.linspace(*BOUNDS, 21)
    gains = []
    for seed in range(6):
        records = two_peaks(4000, seed)
        columns = [each.perturb(records, random_state=2 * seed + n) for n, each in enumerate((first, second))]
        truth = np.histogram(records, edges)[0] / len(records)
        both = Reconstruction([first, second], "smooth").fit(columns).distribution_
        alone = Reconstruction(first, "smooth").fit(columns[0]).distribution_
        errors = [np.abs(found.histogram(edges) - truth).sum() for found in (alone, both)]
        gains.append(errors[0] - errors[1])
        assert both.records == 8000
        assert not both.band(edges).calibrated
        assert "several releases" in both.band(edges).reason
    assert np.mean(gains) > 0


@pytest.mark.parametrize("method", ["auto", "bayes"])
def test_every_method_takes_several_releases(method: Any) -> None:
    perturbations = [SquareWave(BOUNDS, epsilon=3.0), LaplacePerturbation(BOUNDS, epsilon=6.0)]
    records = two_peaks(2000, 0)
    columns = [each.perturb(records, random_state=0) for each in perturbations]
    found = Reconstruction(perturbations, method).fit(columns).distribution_
    assert found.mean() == pytest.approx(records.mean(), abs=0.3)
    assert found.probabilities.sum() == pytest.approx(1.0)


def test_a_release_in_a_list_is_that_release() -> None:
    perturbation = SquareWave(BOUNDS, epsilon=2.0)
    y = perturbation.perturb(two_peaks(500, 0), random_state=0)
    alone = Reconstruction(perturbation, "smooth").fit(y).distribution_
    listed = Reconstruction([perturbation], "smooth").fit([y]).distribution_
    np.testing.assert_array_equal(alone.probabilities, listed.probabilities)
    assert listed.band([0, 5, 10]).calibrated


def test_values_of_each_release_are_assigned_by_its_own_noise() -> None:
    """By Bayes' rule from the components, through the law of the release that they are from."""
    perturbations = [SquareWave(BOUNDS, epsilon=6.0), LaplacePerturbation(BOUNDS, epsilon=3.0)]
    records = two_peaks(3000, 0)
    columns = [each.perturb(records, random_state=0) for each in perturbations]
    found = Reconstruction(perturbations, "mixture", components=2, atoms=()).fit(columns).distribution_
    components, points, at = found.components, np.linspace(*BOUNDS, 2001), np.array([1.0, 9.0])
    assert components is not None
    weights = np.exp(-(((points[:, np.newaxis] - components.means) / components.scales) ** 2) / 2)
    weights *= components.weights / weights.sum(axis=0)
    for release, perturbation in enumerate(perturbations):
        beside = [perturbation.cdf(at[:, np.newaxis] + width, points) for width in (0.05, -0.05)]
        expected = (beside[0] - beside[1]) @ weights
        shares = found.responsibilities(at, release)
        np.testing.assert_allclose(shares, expected / expected.sum(axis=1, keepdims=True), atol=0.03)
        assert found.predict(at, release).tolist() == shares.argmax(axis=1).tolist()
    for wrong in (2, -1, True):
        with pytest.raises(InvalidParameter, match="release must be"):
            found.predict(at, wrong)


def test_releases_must_be_of_one_column() -> None:
    first, y = SquareWave(BOUNDS, epsilon=1.0), np.full(20, 5.0)
    for other in (SquareWave((0, 9), epsilon=1.0), SquareWave(BOUNDS, epsilon=1.0, whole=True)):
        with pytest.raises(InvalidParameter, match="declare the column alike"):
            Reconstruction([first, other]).fit([y, y])
    for columns in (y, [y], None):
        with pytest.raises(DataError, match="2 perturbations need"):
            Reconstruction([first, first]).fit(columns)
    with pytest.raises(InvalidParameter, match="There is no perturbation"):
        Reconstruction([]).fit([])
    with pytest.raises(InvalidParameter, match="number column"):
        Reconstruction([first, RetainReplace(LEVELS, epsilon=1.0)]).fit([y, y])
    truth_values, ones = RetainReplace((False, True), epsilon=1.0), RetainReplace((0, 1), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="categories differ"):
        CategoricalReconstruction([truth_values, ones]).fit([[False, True], [0, 1]])


@pytest.mark.parametrize("method", METHODS)
def test_categories_of_several_releases(method: Any) -> None:
    """Nearer to the truth than the better release alone, over twelve draws; errors as repetition shows them, within a factor of 2."""
    records = np.repeat(LEVELS, np.rint(TRUTH * 2000).astype(int))
    perturbations = [
        RetainReplace(LEVELS, epsilon=0.8),
        SubsetSelection(LEVELS, epsilon=0.7),
        UnaryEncoding(LEVELS, epsilon=0.7),
    ]
    together, alone, said = [], [], []
    for seed in range(12):
        columns = [each.perturb(records, random_state=3 * seed + n) for n, each in enumerate(perturbations)]
        found = CategoricalReconstruction(perturbations, method).fit(columns)
        assert found.probabilities_.sum() == pytest.approx(1.0)
        assert found.unbiased_.sum() == pytest.approx(1.0, abs=0.1)
        assert found.n_records_ == 6000
        together.append(found.unbiased_ - TRUTH)
        said.append(found.standard_errors_)
        alone.append(CategoricalReconstruction(perturbations[0], method).fit(columns[0]).unbiased_ - TRUTH)
    assert np.mean(np.square(together)) < np.mean(np.square(alone))
    assert np.sqrt(np.mean(np.square(together))) == pytest.approx(np.sqrt(np.mean(np.square(said))), rel=0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_small_release_with_little_noise_does_not_outweigh_a_large_one(method: Any) -> None:
    """Twenty records miss proportions by far more than their noise: of both releases the errors are those of the large one, and as they are said to be."""
    perturbations = [RetainReplace(LEVELS, epsilon=16.0), RetainReplace(LEVELS, epsilon=0.5)]
    together, alone, said = [], [], []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        records = [generator.choice(LEVELS, size, p=TRUTH) for size in (20, 50_000)]
        columns = [
            each.perturb(rows, random_state=seed + 50 * n)
            for n, (each, rows) in enumerate(zip(perturbations, records, strict=True))
        ]
        found = CategoricalReconstruction(perturbations, method).fit(columns)
        together.append(found.probabilities_ - TRUTH)
        said.append(found.standard_errors_)
        alone.append(CategoricalReconstruction(perturbations[1], method).fit(columns[1]).probabilities_ - TRUTH)
    assert np.mean(np.square(together)) < 1.2 * np.mean(np.square(alone))
    assert np.mean(np.square(together)) < 2 * np.mean(np.square(said))


def test_releases_have_enough_records_together() -> None:
    first, second = SquareWave(BOUNDS, epsilon=3.0), LaplacePerturbation(BOUNDS, epsilon=6.0)
    records = two_peaks(300, 0)
    columns = [first.perturb(records, random_state=0), second.perturb(records[:1], random_state=0)]
    found = Reconstruction([first, second], "smooth").fit(columns).distribution_
    assert found.records == 301
    assert found.mean() == pytest.approx(records.mean(), abs=0.5)
    with pytest.raises(DataError, match="from 8 records"):
        Reconstruction([first, first]).fit([columns[0][:4], columns[0][4:8]])
    with pytest.raises(DataError, match="no perturbed values"):
        Reconstruction([first, second]).fit([columns[0], []])


def test_the_likelihood_of_several_releases_is_certified() -> None:
    records = np.repeat(LEVELS, np.rint(TRUTH * 500).astype(int))
    perturbations = [UnaryEncoding(LEVELS, epsilon=2.0), RetainReplace(LEVELS, epsilon=2.0)]
    columns = [each.perturb(records, random_state=1) for each in perturbations]
    found = CategoricalReconstruction(perturbations, "likelihood").fit(columns)
    assert 0 <= found.gap_ <= 0.01

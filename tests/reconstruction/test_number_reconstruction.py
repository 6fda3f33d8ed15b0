"""Reconstruction from end to end, on small columns; the study has the large ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sudare.errors import DataError, InvalidParameter
from sudare.perturbation.categorical import RetainReplace
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.square_wave import SquareWave
from sudare.reconstruction.binning import continuous_states, counted, few_whole_numbers, whole_numbers
from sudare.reconstruction.held_out_average import PREFERENCES
from sudare.reconstruction.model_average import Iterated, combined, resolution_of, shares_of, smooth_family
from sudare.reconstruction.number_reconstruction import Reconstruction, each_method

SIZE = 5000
BOUNDS = (-0.5, 9.5)
EDGES = np.linspace(*BOUNDS, 11)
PERTURBATION = LaplacePerturbation(BOUNDS, k=2, n_records=SIZE)


def two_peaks(seed=0, size=SIZE):
    generator = np.random.default_rng(seed)
    return np.clip(np.where(generator.random(size) < 0.4, 2.5, 7.0) + 0.6 * generator.normal(size=size), *BOUNDS)


def distance(distribution, column, edges=EDGES):
    return np.abs(distribution.histogram(edges) - np.histogram(column, edges)[0] / len(column)).sum() / 2


@pytest.fixture(scope="module")
def perturbed():
    return PERTURBATION.perturb(two_peaks(), random_state=0)


@pytest.fixture(scope="module")
def found(perturbed):
    return Reconstruction(PERTURBATION).fit(perturbed).distribution_


def test_the_default_is_far_closer_than_the_perturbed_values(found, perturbed):
    naive = np.abs(np.histogram(np.clip(perturbed, *BOUNDS), EDGES)[0] - np.histogram(two_peaks(), EDGES)[0]).sum()
    assert distance(found, two_peaks()) < 0.15
    assert distance(found, two_peaks()) < 0.4 * naive / (2 * SIZE)
    assert sum(found.method_weights.values()) == pytest.approx(1)
    assert set(found.method_weights) == set(PREFERENCES)


@pytest.mark.parametrize("method", ["smooth", "mixture", "bayes"])
def test_each_method_alone(method, perturbed):
    distribution = Reconstruction(PERTURBATION, method).fit(perturbed).distribution_
    assert distance(distribution, two_peaks()) < 0.2
    assert distribution.method_weights == {method: pytest.approx(1)}
    assert distribution.probabilities.sum() == pytest.approx(1)
    assert distribution.probabilities.min() >= 0


def test_reconstruction_does_not_depend_on_the_order_of_records(found, perturbed):
    again = Reconstruction(PERTURBATION).fit(np.sort(perturbed)).distribution_
    np.testing.assert_array_equal(again.probabilities, found.probabilities)


def test_mean_and_variance_are_near_those_of_the_original(found):
    column = two_peaks()
    # The mean of y estimates the mean with standard error √(Var(x) + 2φ²)/√n, here 0.05; seeded.
    assert found.mean() == pytest.approx(column.mean(), abs=0.2)
    assert found.variance() == pytest.approx(column.var(), rel=0.2)


def test_records_are_assigned_to_components(perturbed):
    distribution = Reconstruction(PERTURBATION, "mixture", components=2).fit(perturbed).distribution_
    components = distribution.components
    order = np.argsort(components.means)
    np.testing.assert_allclose(components.means[order], [2.5, 7.0], atol=0.5)
    assert components.weights.sum() == pytest.approx(1)
    shares = distribution.responsibilities(perturbed)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    # On average they are the weights: a property of every maximum of the likelihood (the prior is weak).
    np.testing.assert_allclose(shares.mean(axis=0), components.weights, atol=0.01)
    assert distribution.predict([-5.0])[0] == order[0]
    assert distribution.predict([15.0])[0] == order[1]
    # Far outside it is as unclear as on the bound: the noise has no memory.
    np.testing.assert_allclose(distribution.responsibilities([BOUNDS[1] + 0.1]), distribution.responsibilities([40.0]))


def test_the_square_wave_can_be_undone_as_well():
    perturbation = SquareWave(BOUNDS, epsilon=PERTURBATION.epsilon)
    distribution = Reconstruction(perturbation).fit(perturbation.perturb(two_peaks(), random_state=0)).distribution_
    assert distance(distribution, two_peaks()) < 0.15


@pytest.mark.long
def test_an_atom_at_zero_is_found_without_being_declared():
    size = 20_000
    generator = np.random.default_rng(5)
    column = np.where(generator.random(size) < 0.8, 0.0, np.clip(generator.lognormal(3.5, 0.4, size), 1, 100))
    perturbation = LaplacePerturbation((0, 100), k=2, n_records=size)
    y = perturbation.perturb(column, random_state=0)
    distribution = Reconstruction(perturbation).fit(y).distribution_
    assert distribution.atoms[0.0] == pytest.approx(0.8, abs=0.06)
    assert distribution.atoms[100.0] < 0.02
    declared = Reconstruction(perturbation, "smooth", atoms=(0,)).fit(y).distribution_
    assert list(declared.atoms) == [0.0]
    assert Reconstruction(perturbation, "smooth", atoms=()).fit(y).distribution_.atoms == {}
    clusters = Reconstruction(perturbation, "mixture", components=1).fit(y).distribution_
    assert clusters.responsibilities([0.0]).shape == (1, 3)
    # Component 0, then the atoms at 0 and 100: most values near zero come from the atom.
    assert clusters.predict([0.0])[0] == 1


@pytest.mark.long
def test_whole_numbers_can_be_declared():
    generator = np.random.default_rng(6)
    column = np.clip(generator.poisson(3.0, SIZE), 0, 12).astype(float)
    perturbation = LaplacePerturbation((0, 12), k=2, n_records=SIZE)
    y = perturbation.perturb(column, random_state=0)
    declared = Reconstruction(perturbation, whole=True).fit(y).distribution_
    assert list(declared.atoms) == [float(number) for number in range(13)]
    assert sum(declared.atoms.values()) == pytest.approx(1)
    edges = np.arange(-0.5, 13)
    assert distance(declared, column, edges) < 0.15
    considered = Reconstruction(perturbation).fit(y).distribution_
    assert 0.2 < considered.method_weights["whole numbers"] < 0.98
    denied = Reconstruction(perturbation, whole=False).fit(y).distribution_
    assert "whole numbers" not in denied.method_weights
    assert distance(considered, column, edges) < 0.15


def test_evidence_speaks_against_whole_numbers_where_it_can():
    """Uniform values between whole numbers only, with little noise: halves are as frequent as whole numbers."""
    column = np.random.default_rng(0).choice(np.arange(0.5, 10), 20_000)
    perturbation = LaplacePerturbation((0, 10), epsilon=16.0)
    distribution = Reconstruction(perturbation).fit(perturbation.perturb(column, random_state=0)).distribution_
    assert distribution.method_weights["whole numbers"] < 0.01


def test_which_columns_may_be_whole_numbers():
    def about(low, high):
        return LaplacePerturbation((low, high), epsilon=1.0)

    assert few_whole_numbers(about(1, 16))
    assert few_whole_numbers(about(0, 31))
    assert not few_whole_numbers(about(0, 32))
    assert not few_whole_numbers(about(0.5, 16))
    assert not few_whole_numbers(about(0, 1))
    assert whole_numbers(about(0.5, 16)) == 16


def test_bands_are_drawn_by_methods_that_know_their_error(found, perturbed):
    band = found.band(EDGES)
    truth = np.histogram(two_peaks(), EDGES)[0] / SIZE
    assert band.calibrated
    assert np.mean((truth >= band.low) & (truth <= band.high)) >= 0.7
    assert np.all(band.high - band.low < 0.35)
    for alone, reason in (("bayes", "no calibrated band"), ("mixture", "too sure")):
        refused = Reconstruction(PERTURBATION, alone).fit(perturbed).distribution_.band(EDGES)
        assert not refused.calibrated
        assert reason in refused.reason
    assert Reconstruction(PERTURBATION, "smooth").fit(perturbed).distribution_.band(EDGES).calibrated


def test_a_column_that_is_rough_without_limit_has_wide_bands_that_hold():
    """Half of all records on one value inside, the rest on multiples of ten: like working hours."""
    generator = np.random.default_rng(0)
    size = 50_000
    column = np.where(generator.random(size) < 0.5, 40.0, generator.choice(np.arange(0, 101, 10.0), size))
    perturbation = LaplacePerturbation((0, 100), epsilon=8.0)
    y = perturbation.perturb(column, random_state=0)
    distribution = Reconstruction(perturbation, "smooth", whole=False).fit(y).distribution_
    assert distribution.resolution == pytest.approx(0.25 * perturbation.noise_scale)
    for edges in (np.arange(-0.5, 101), np.arange(0, 101, 20.0)):
        band, shares = distribution.band(edges), np.histogram(column, edges)[0] / size
        assert np.mean((band.low <= shares) & (shares <= band.high)) > 0.85


def test_a_smooth_column_has_no_limit_of_resolution():
    column = np.clip(np.random.default_rng(0).normal(5, 2, 20_000), *BOUNDS)
    counts = counted(PERTURBATION, PERTURBATION.perturb(column, random_state=0), 240)
    family = smooth_family(continuous_states(PERTURBATION, counts.edges, 240, np.empty(0)), counts)
    assert resolution_of([family], PERTURBATION) == 0
    assert shares_of([family]) == pytest.approx([1.0])
    technique = Iterated(1.0, family.best.states, family.best.probabilities)
    assert combined([family], counts, PERTURBATION, np.zeros(1), technique).band(EDGES).calibrated


def test_the_iterative_technique_depends_on_its_seed_alone(perturbed):
    first, again, other = (
        Reconstruction(PERTURBATION, "bayes", random_state=seed).fit(perturbed).distribution_ for seed in (0, 0, 8)
    )
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    assert distance(first, two_peaks()) == pytest.approx(distance(other, two_peaks()), abs=0.1)


@pytest.mark.parametrize(
    "column",
    [np.full(50, 5.0), np.repeat([-0.5, 9.5], 25), np.full(50, 9.5)],
    ids=["constant", "both bounds", "one bound"],
)
def test_degenerate_columns_get_an_answer(column):
    y = PERTURBATION.perturb(np.resize(column, SIZE), random_state=1)
    for method in ("auto", "bayes"):
        distribution = Reconstruction(PERTURBATION, method).fit(y).distribution_
        assert distribution.probabilities.sum() == pytest.approx(1)
        assert np.all(np.isfinite(distribution.probabilities))
        assert distribution.mean() == pytest.approx(column.mean(), abs=0.8)


def test_ten_records_are_enough_for_an_answer_and_nine_are_not():
    y = LaplacePerturbation(BOUNDS, epsilon=2.0)
    few = y.perturb(np.full(10, 3.0), random_state=0)
    assert Reconstruction(y).fit(few).distribution_.probabilities.sum() == pytest.approx(1)
    with pytest.raises(DataError, match="9 records"):
        Reconstruction(y).fit(few[:9])


def test_wrong_parameters_are_refused(perturbed):
    with pytest.raises(InvalidParameter, match="no method 'magic'"):
        Reconstruction(PERTURBATION, "magic").fit(perturbed)
    with pytest.raises(InvalidParameter, match="number column"):
        Reconstruction(RetainReplace(["a", "b"], epsilon=1.0)).fit(perturbed)
    with pytest.raises(InvalidParameter, match="components must be a whole number from 1 to 7"):
        Reconstruction(PERTURBATION, "mixture", components=8).fit(perturbed)
    with pytest.raises(InvalidParameter, match="'auto' or numbers"):
        Reconstruction(PERTURBATION, atoms="zero").fit(perturbed)
    with pytest.raises(DataError, match="cannot come from this perturbation"):
        Reconstruction(LaplacePerturbation((100, 101), epsilon=16.0)).fit(perturbed)


@pytest.mark.parametrize("bounds", [(0, 1), (0, 2), (0, 600)])
def test_whole_numbers_may_be_few_or_too_many_to_list(bounds):
    perturbation = LaplacePerturbation(bounds, epsilon=4.0)
    column = np.random.default_rng(0).integers(bounds[0], bounds[1] + 1, 500).astype(float)
    distribution = (
        Reconstruction(perturbation, whole=True).fit(perturbation.perturb(column, random_state=0)).distribution_
    )
    assert distribution.probabilities.sum() == pytest.approx(1)
    assert (len(distribution.atoms) == bounds[1] + 1) == (bounds[1] < 600)
    assert distribution.mean() == pytest.approx(column.mean(), abs=0.2 * bounds[1])


def test_a_column_without_whole_numbers_cannot_consist_of_them():
    perturbation = LaplacePerturbation((0.2, 0.8), epsilon=4.0)
    with pytest.raises(InvalidParameter, match="fewer than two whole numbers"):
        Reconstruction(perturbation, whole=True).fit(perturbation.perturb(np.full(50, 0.5), random_state=0))


def test_constructors_only_store():
    for model in (
        Reconstruction(PERTURBATION, "smooth", atoms=(1,), whole=False),
        Reconstruction(PERTURBATION, "mixture", components=3),
        Reconstruction(PERTURBATION, "bayes", random_state=3),
    ):
        copy = clone(model)
        assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys()
        assert repr(copy) == repr(model)


@pytest.mark.long
def test_each_method_is_what_it_is_on_its_own():
    perturbation = LaplacePerturbation((1, 16), epsilon=5.0)
    y = perturbation.perturb(np.random.default_rng(0).choice([9.0, 10, 13], 500), random_state=0)
    edges = np.arange(0.5, 17)
    for method, found in each_method(perturbation, y).items():
        alone = Reconstruction(perturbation, method).fit(y).distribution_
        np.testing.assert_array_equal(found.histogram(edges), alone.histogram(edges))
        assert found.method_weights == alone.method_weights

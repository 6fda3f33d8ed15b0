"""Algorithm 1 of paper 004."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erfcx, ndtr
from sklearn.exceptions import ConvergenceWarning

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p004_reconstruction import FiniteMixtureReconstruction
from sudare.papers.p004_reconstruction.algorithm1 import binned, random_start
from sudare.papers.p004_reconstruction.normal_laplace import Parameters, component_moments, expectation, gradient_update
from sudare.perturbation import LaplacePerturbation, SquareWave
from sudare.reconstruction import Reconstruction

BOUNDS = (0.0, 10.0)


def two_peaks(size=20_000, seed=0):
    generator = np.random.default_rng(seed)
    first = generator.random(size) < 0.6
    return np.where(first, generator.normal(3, 0.6, size), generator.normal(7, 0.9, size)), first


@pytest.fixture(scope="module")
def perturbed():
    x, first = two_peaks()
    perturbation = LaplacePerturbation(BOUNDS, epsilon=8.0)
    return perturbation, perturbation.perturb(x, shuffle=False, random_state=0), x, first


@pytest.mark.parametrize("update", ["closed-form", "gradient"])
def test_two_components_are_found(perturbed, update):
    perturbation, y, x, first = perturbed
    model = FiniteMixtureReconstruction(perturbation, 2, update=update).fit(y)
    assert model.converged_
    np.testing.assert_allclose(model.components_.means, [3, 7], atol=0.15)
    np.testing.assert_allclose(model.components_.scales, [0.6, 0.9], atol=0.2)
    np.testing.assert_allclose(model.components_.weights, [0.6, 0.4], atol=0.03)
    # The product's interface: histograms, and clusters by equation (10).
    edges = np.arange(0, 11.0)
    truth = np.histogram(x, edges)[0] / len(x)
    assert 1 - 0.5 * np.abs(model.distribution_.histogram(edges) - truth).sum() > 0.95
    assert model.distribution_.histogram([-1, 11])[0] == pytest.approx(1)
    shares = model.responsibilities(y)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(y), shares.argmax(axis=1))
    # The true parameters would assign hardly more records rightly: noise hides the rest.
    true = Parameters(np.array([0.6, 0.4]), np.array([3.0, 7.0]), np.array([0.6, 0.9]))
    best = expectation(y, np.ones(len(y)), true, perturbation.noise_scale).responsibilities.argmax(axis=1)
    assert np.mean(model.predict(y) == np.where(first, 0, 1)) > np.mean(best == np.where(first, 0, 1)) - 0.01
    assert np.mean(model.distribution_.predict(y) == model.predict(y)) > 0.999
    assert not model.distribution_.band(edges).calibrated


def test_bins_change_next_to_nothing(perturbed):
    """Section 3.1.3: values as they are. Bins of a 16th of φ move means and scales by less than a tenth of their standard errors."""
    perturbation, y, _, _ = perturbed
    in_bins, as_they_are = (FiniteMixtureReconstruction(perturbation, 2, in_bins=way).fit(y) for way in (True, False))
    for name in ("weights", "means", "scales"):
        found, exact = (getattr(model.components_, name) for model in (in_bins, as_they_are))
        np.testing.assert_allclose(found, exact, atol=2e-3)
    # A bin's mean stands for its values: at most h²/24·max|(log g)''| for each of them.
    assert abs(in_bins.log_likelihood_ - as_they_are.log_likelihood_) < len(y) / 16**2 / 24


@pytest.mark.parametrize(
    "parameters", [{"components": 2.0}, {"components": None}, {"backtracking": "no"}, {"in_bins": 1}]
)
def test_other_kinds_of_parameters_are_refused(perturbed, parameters):
    perturbation, y, _, _ = perturbed
    with pytest.raises(InvalidParameter, match=next(iter(parameters))):
        FiniteMixtureReconstruction(perturbation, **parameters).fit(y)


def test_equal_values_have_a_likelihood():
    """Nothing to spread a start over: scales begin at the least there is."""
    model = FiniteMixtureReconstruction(LaplacePerturbation(BOUNDS, epsilon=8.0), (1, 2)).fit(np.full(20, 5.0))
    assert np.isfinite(model.log_likelihood_)
    np.testing.assert_allclose(model.components_.means, 5.0, atol=0.1)


def test_both_updates_rise_to_the_same_likelihood_in_any_unit(perturbed):
    perturbation, y, _, _ = perturbed
    closed, gradient = (
        FiniteMixtureReconstruction(perturbation, 2, update=update, tolerance=1e-6).fit(y)
        for update in ("closed-form", "gradient")
    )
    assert gradient.log_likelihood_ == pytest.approx(closed.log_likelihood_, abs=0.01)
    dollars = LaplacePerturbation((0.0, 100_000.0), epsilon=8.0)
    again = FiniteMixtureReconstruction(dollars, 2, update="gradient", tolerance=1e-6).fit(1e4 * y)
    assert again.n_iter_ == gradient.n_iter_
    np.testing.assert_allclose(again.components_.means, 1e4 * gradient.components_.means, rtol=1e-6)
    # A density in dollars is ten thousand times smaller.
    assert again.log_likelihood_ == pytest.approx(gradient.log_likelihood_ - len(y) * math.log(1e4), rel=1e-9)


def test_the_k_with_the_highest_likelihood_is_taken(perturbed):
    perturbation, y, _, _ = perturbed
    model = FiniteMixtureReconstruction(perturbation, (1, 2)).fit(y)
    assert set(model.log_likelihoods_) == {1, 2}
    assert model.log_likelihood_ == model.log_likelihoods_[2] > model.log_likelihoods_[1] + 100
    parameters = Parameters(model.components_.weights, model.components_.means, model.components_.scales)
    exact = expectation(y, np.ones(len(y)), parameters, perturbation.noise_scale).log_likelihood
    # Bins of a 16th of the noise scale cost next to nothing.
    assert model.log_likelihood_ == pytest.approx(exact, abs=0.0005 * len(y))
    several = FiniteMixtureReconstruction(perturbation, 2, n_init=3).fit(y)
    assert several.log_likelihood_ >= model.log_likelihood_ - 0.01


def test_steps_that_ran_out_are_told(perturbed):
    perturbation, y, _, _ = perturbed
    with pytest.warns(ConvergenceWarning, match="after 3 steps"):
        model = FiniteMixtureReconstruction(perturbation, 2, max_iter=3).fit(y)
    assert not model.converged_
    assert model.n_iter_ == 3


def test_without_backtracking_a_long_step_diverges(perturbed):
    perturbation, y, _, _ = perturbed
    with pytest.warns(ConvergenceWarning):
        model = FiniteMixtureReconstruction(
            perturbation, 2, update="gradient", learning_rate=0.01, backtracking=False, max_iter=50
        ).fit(y)
    assert not model.converged_
    assert model.log_likelihood_ < FiniteMixtureReconstruction(perturbation, 2).fit(y).log_likelihood_ - 100


def test_the_printed_rate_in_the_columns_unit_is_alpha_over_the_squared_noise_scale(perturbed):
    """One step of eq. 11 in the column's own unit, from the gradient there, is one step with α/φ²; with α itself it is φ² times as long."""
    perturbation, y, _, _ = perturbed
    scale, rate = perturbation.noise_scale, 1e-6
    assert scale > 1.2
    places, counts = binned(y / scale)
    start = random_start(places, counts, (0.0, 10.0 / scale), 2, np.random.default_rng(0))
    own = Parameters(start.weights, scale * start.means, scale * start.scales)
    printed = gradient_update(counts, expectation(scale * places, counts, own, scale), own, rate)

    def stepped(learning_rate):
        options = {"update": "gradient", "backtracking": False, "max_iter": 1}
        with pytest.warns(ConvergenceWarning):
            return (
                FiniteMixtureReconstruction(perturbation, 2, learning_rate=learning_rate, **options).fit(y).components_
            )

    np.testing.assert_allclose(stepped(rate / scale**2).means, printed.means, rtol=1e-9)
    np.testing.assert_allclose(stepped(rate / scale**2).scales, printed.scales, rtol=1e-9)
    np.testing.assert_allclose(
        stepped(rate).means - own.means, scale**2 * (printed.means - own.means), rtol=1e-6, atol=1e-12
    )


def test_what_lies_outside_counts_on_the_bounds():
    perturbation = LaplacePerturbation(BOUNDS, epsilon=8.0)
    y = perturbation.perturb(np.zeros(3000), random_state=0)
    model = FiniteMixtureReconstruction(perturbation, 1).fit(y)
    found = model.components_
    below = ndtr((0 - found.means[0]) / found.scales[0])
    assert model.distribution_.atoms[0.0] == pytest.approx(below)
    assert model.distribution_.histogram([-0.1, 10])[0] == pytest.approx(1)
    # As fine as the components, however narrow they are.
    edge = found.means[0] + 0.5 * found.scales[0]
    assert model.distribution_.histogram([-0.1, edge])[0] == pytest.approx(ndtr(0.5), abs=2e-3)


def test_moments_hold_far_out():
    """Where Φ underflows: against limits, and the same on both sides."""
    y = np.array([-200.0, -28.4, -28.2, 0.0, 28.2, 28.4, 200.0])
    found = component_moments(y, np.zeros(1), np.ones(1), 1.0)
    assert np.isfinite(found.log_density).all()
    np.testing.assert_allclose(found.log_density[:, 0], found.log_density[::-1, 0], rtol=1e-12)
    # Far from a normal of scale σ the noise alone decides: log f → σ²/2φ² − |y|/φ − log 2φ.
    assert found.log_density[0, 0] == pytest.approx(0.5 - 200 - math.log(2))
    assert found.log_density[3, 0] == pytest.approx(math.log(erfcx(1 / math.sqrt(2)) / 2))


def test_what_cannot_be_is_refused(perturbed):
    perturbation, y, _, _ = perturbed
    for wrong, says in (
        ({"perturbation": SquareWave(BOUNDS, epsilon=1.0)}, "Laplace noise only"),
        ({"components": ()}, "no number of components"),
        ({"components": (2, 0)}, "components must be"),
        ({"update": "newton"}, "no update 'newton'"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"max_iter": 0}, "max_iter"),
        ({"n_init": 0}, "n_init"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            FiniteMixtureReconstruction(**{"perturbation": perturbation, **wrong}).fit(y)
    with pytest.raises(DataError, match="missing"):
        FiniteMixtureReconstruction(perturbation).fit(np.full(50, np.nan))


def test_binning_keeps_count_and_mean():
    y = np.random.default_rng(0).laplace(size=10_000)
    places, counts = binned(y)
    assert counts.sum() == 10_000
    assert places @ counts / 10_000 == pytest.approx(y.mean())
    assert len(places) < 500
    start = random_start(places, counts, (-1.0, 1.0), 3, np.random.default_rng(0))
    assert start.weights.sum() == pytest.approx(1)
    assert np.abs(start.means).max() <= 1


def test_the_product_has_the_same_interface(perturbed):
    perturbation, y, _, _ = perturbed
    ours = Reconstruction(perturbation, "mixture", components=2).fit(y).distribution_
    paper = FiniteMixtureReconstruction(perturbation, 2).fit(y).distribution_
    edges = np.arange(0, 11.0)
    assert np.abs(ours.histogram(edges) - paper.histogram(edges)).sum() < 0.1
    assert np.mean(np.argsort(ours.components.means)[ours.predict(y)] == paper.predict(y)) > 0.97

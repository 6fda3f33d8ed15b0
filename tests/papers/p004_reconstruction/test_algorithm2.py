"""Algorithm 2 of paper 004, and components without covariance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p004_reconstruction import FiniteMixtureJointReconstruction
from sudare.papers.p004_reconstruction.algorithm2 import gathered, joint_distribution
from sudare.perturbation import LaplacePerturbation, SquareWave
from sudare.reconstruction import JointReconstruction
from sudare.reconstruction.multivariate_normal_mixture import JointComponents

TRUTH = np.array([[1.0, 0.8], [0.8, 1.0]])


def perturbed(rows, *perturbations, seed=0):
    return [
        perturbation.perturb(column, shuffle=False, random_state=seed + number)
        for number, (perturbation, column) in enumerate(zip(perturbations, rows.T, strict=True))
    ]


@pytest.fixture(scope="module")
def one_component():
    rows = 5 + np.random.default_rng(0).standard_normal((20_000, 2)) @ np.linalg.cholesky(TRUTH).T
    perturbation = LaplacePerturbation((0, 10), epsilon=16)
    return [perturbation] * 2, perturbed(rows, perturbation, perturbation)


def test_without_covariance_it_is_lost(one_component):
    """In one correlated component half of the covariance's norm is off the diagonal; variances are right."""
    perturbations, columns = one_component
    diagonal = FiniteMixtureJointReconstruction(perturbations, 1, rotate=False).fit(columns)
    assert diagonal.converged_
    np.testing.assert_allclose(diagonal.components_.covariances[0], np.eye(2), atol=0.1)
    np.testing.assert_allclose(diagonal.components_.means[0], [5, 5], atol=0.05)


@pytest.mark.parametrize("update", ["closed-form", "gradient"])
def test_one_component_has_the_right_axes(one_component, update):
    perturbations, columns = one_component
    rotated = FiniteMixtureJointReconstruction(perturbations, 1, update=update).fit(columns)
    found = rotated.components_.covariances[0]
    assert found[0, 1] > 0.6
    assert np.linalg.norm(found - TRUTH) < np.linalg.norm(np.eye(2) - TRUTH)
    assert (
        rotated.log_likelihood_
        > FiniteMixtureJointReconstruction(perturbations, 1, rotate=False).fit(columns).log_likelihood_
    )


def test_printed_steps_are_taken_as_they_are_where_they_are_not_cut(one_component):
    """A short one is the same; one of a hundred times the closed-form step throws the means out, and the fit says so."""
    perturbations, columns = one_component
    short = [
        FiniteMixtureJointReconstruction(
            perturbations, 1, update="gradient", learning_rate=1e-6, cut_steps=cut, max_iter=20, tolerance=1e-9
        )
        for cut in (True, False)
    ]
    with pytest.warns(ConvergenceWarning):
        first, second = (model.fit(columns).components_ for model in short)
    np.testing.assert_array_equal(first.covariances, second.covariances)
    wild = FiniteMixtureJointReconstruction(
        perturbations, 1, update="gradient", learning_rate=1e-2, cut_steps=False, max_iter=20
    )
    with pytest.warns(ConvergenceWarning):
        wild.fit(columns)
    cut = FiniteMixtureJointReconstruction(perturbations, 1, update="gradient", learning_rate=1e-2).fit(columns)
    assert np.isfinite(wild.log_likelihood_)
    assert not wild.converged_
    assert cut.log_likelihood_ > wild.log_likelihood_ + 100


def test_rows_can_be_taken_as_they_are(one_component):
    perturbations, columns = one_component
    few = [column[:2000] for column in columns]
    in_bins, as_they_are = (
        FiniteMixtureJointReconstruction(perturbations, 1, rotate=False, in_bins=way).fit(few).components_
        for way in (True, False)
    )
    np.testing.assert_allclose(in_bins.means, as_they_are.means, atol=0.01)
    np.testing.assert_allclose(in_bins.covariances, as_they_are.covariances, atol=0.02)


@pytest.mark.parametrize("parameters", [{"rotate": "no"}, {"cut_steps": 0}, {"perturbations": None}])
def test_other_kinds_of_parameters_are_refused(one_component, parameters):
    perturbations, columns = one_component
    model = FiniteMixtureJointReconstruction(perturbations, 1).set_params(**parameters)
    with pytest.raises(InvalidParameter):
        model.fit(columns)


def test_units_do_not_matter(one_component):
    perturbations, columns = one_component
    metres = [perturbations[0], LaplacePerturbation((0, 0.01), epsilon=16)]
    again = FiniteMixtureJointReconstruction(metres, 1, update="gradient").fit([columns[0], columns[1] / 1000])
    found = FiniteMixtureJointReconstruction(perturbations, 1, update="gradient").fit(columns)
    np.testing.assert_allclose(again.components_.covariances[0, 0, 1] * 1000, found.components_.covariances[0, 0, 1])


@pytest.mark.long
def test_clusters_come_from_the_perturbed_rows_alone():
    generator = np.random.default_rng(1)
    component = generator.random(10_000) < 0.5
    rows = np.where(component[:, np.newaxis], [3.0, 3.0], [7.0, 7.0]) + 0.6 * generator.standard_normal((10_000, 2))
    perturbation = LaplacePerturbation((0, 10), epsilon=12)
    columns = perturbed(rows, perturbation, perturbation)
    model = FiniteMixtureJointReconstruction([perturbation] * 2, 2, n_init=2, max_iter=60)
    # With rotation it does not come to rest; its clusters are good all the same.
    with pytest.warns(ConvergenceWarning):
        model.fit(np.column_stack(columns))
    order = np.argsort(model.components_.means[:, 0])
    np.testing.assert_allclose(model.components_.means[order], [[3, 3], [7, 7]], atol=0.3)
    assert np.mean(model.predict(columns) == order[np.where(component, 0, 1)]) > 0.95
    # The product's interface, for two or three columns.
    assert model.distribution_.histogram([[0, 5, 10], [0, 5, 10]]) == pytest.approx(
        np.array([[0.5, 0], [0, 0.5]]), abs=0.05
    )
    assert np.mean(model.distribution_.predict(columns) == model.predict(columns)) > 0.97
    ours = JointReconstruction([perturbation] * 2, "mixture", components=2).fit(columns).distribution_
    renamed = np.argsort(ours.components.means[:, 0]).argsort()[ours.predict(columns)]
    assert np.mean(order.argsort()[model.predict(columns)] == renamed) > 0.97


def test_more_than_three_columns_have_components_and_no_joint_histogram():
    rows = np.clip(np.random.default_rng(2).normal(5, 1, (500, 4)), 0, 10)
    perturbation = LaplacePerturbation((0, 10), epsilon=16)
    model = FiniteMixtureJointReconstruction([perturbation] * 4, 1, rotate=False, max_iter=200)
    model.fit(perturbed(rows, *[perturbation] * 4))
    assert model.distribution_ is None
    np.testing.assert_allclose(model.components_.means[0], [5] * 4, atol=0.3)


def test_steps_that_ran_out_are_told(one_component):
    perturbations, columns = one_component
    with pytest.warns(ConvergenceWarning, match="after 2 steps"):
        model = FiniteMixtureJointReconstruction(perturbations, 2, max_iter=2).fit(columns)
    assert not model.converged_


def test_components_on_cells_keep_their_moments():
    perturbation = LaplacePerturbation((0, 10), epsilon=12)
    components = JointComponents(np.ones(1), np.array([[4.0, 6.0]]), TRUTH[np.newaxis])
    found = joint_distribution(components, [perturbation] * 2, 100)
    np.testing.assert_allclose(found.mean(), [4, 6], atol=0.01)
    np.testing.assert_allclose(found.covariance(), TRUTH, atol=0.02)


def test_rows_are_gathered_without_loss():
    rows = np.random.default_rng(0).normal(size=(5000, 2))
    places, counts = gathered(rows)
    assert counts.sum() == 5000
    np.testing.assert_allclose(counts @ places / 5000, rows.mean(axis=0), atol=0.01)


def test_what_cannot_be_is_refused(one_component):
    perturbations, columns = one_component
    for wrong, says in (
        ({"perturbations": perturbations[:1]}, "two or more columns"),
        ({"perturbations": [perturbations[0], SquareWave((0, 1), epsilon=1.0)]}, "Laplace noise"),
        ({"components": 0}, "components must be"),
        ({"update": "newton"}, "no update"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            FiniteMixtureJointReconstruction(**{"perturbations": perturbations, "components": 1, **wrong}).fit(columns)
    with pytest.raises(DataError, match="1 columns and 2 perturbations"):
        FiniteMixtureJointReconstruction(perturbations, 1).fit(columns[:1])

"""Several number columns together."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter
from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave
from sudare.reconstruction import JointDistribution, JointReconstruction
from sudare.reconstruction.binning import bin_edges, continuous_states
from sudare.reconstruction.channels import ProductChannel
from sudare.reconstruction.joint_distribution import joint_cell_count
from sudare.reconstruction.multivariate_normal_mixture import Grid, MixtureLikelihood
from sudare.reconstruction.reconstructed_distribution import Layout

BOUNDS = (-1.0, 11.0)
EDGES = np.linspace(*BOUNDS, 13)
WEIGHTS = np.array([0.6, 0.4])
MEANS = np.array([[3.0, 3.0], [7.0, 6.0]])
COVARIANCES = np.array([[[1.0, 0.7], [0.7, 1.0]], [[1.0, -0.6], [-0.6, 1.5]]])


def original(size: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    component = generator.choice(2, size, p=WEIGHTS)
    noise = generator.standard_normal((size, 2))
    return MEANS[component] + np.einsum("nij,nj->ni", np.linalg.cholesky(COVARIANCES)[component], noise)


def perturbed(rows: np.ndarray, perturbation: LaplacePerturbation, seed: int = 0) -> list[np.ndarray]:
    return [
        perturbation.perturb(column, shuffle=False, random_state=seed + number) for number, column in enumerate(rows.T)
    ]


def accuracy(found: JointDistribution, rows: np.ndarray) -> float:
    truth = np.histogramdd(rows, [EDGES] * rows.shape[1])[0] / len(rows)
    return 100 * (1 - 0.5 * np.abs(found.histogram([EDGES] * rows.shape[1]) - truth).sum())


@pytest.fixture(scope="module")
def fitted() -> tuple[np.ndarray, JointDistribution, JointDistribution]:
    """Original rows, and what 'auto' and the technique make of them."""
    rows = original(30_000)
    perturbation = LaplacePerturbation(BOUNDS, epsilon=5.0)
    columns = perturbed(rows, perturbation)
    found = [JointReconstruction([perturbation] * 2, method).fit(columns).distribution_ for method in ("auto", "bayes")]
    return rows, found[0], found[1]


def likelihood(components: int = 2, columns: int = 2) -> MixtureLikelihood:
    perturbation = LaplacePerturbation((0, 1), epsilon=4)
    states = continuous_states(perturbation, bin_edges(perturbation, 10), 10, np.empty(0))
    channel = ProductChannel([states.channel] * columns)
    counts = np.random.default_rng(0).poisson(50, channel.answers).astype(float)
    return MixtureLikelihood(Grid(channel.shape), channel, counts, components)


def parameters(model: MixtureLikelihood) -> np.ndarray:
    columns, count = model.grid.columns, model.components
    generator = np.random.default_rng(1)
    roots = 0.15 * generator.standard_normal((count, columns, columns)) + 0.15 * np.eye(columns)
    covariances = roots @ roots.transpose(0, 2, 1) + 0.004 * np.eye(columns)
    return model.packed(generator.dirichlet(np.ones(count)), generator.random((count, columns)), covariances)


@pytest.mark.parametrize("columns", [2, 3])
def test_the_gradient_of_a_mixture_is_exact(columns):
    model = likelihood(columns=columns)
    point = parameters(model)
    _, slope = model.value_and_gradient(point)
    step = 1e-6
    numeric = [
        (model.value_and_gradient(point + step * unit)[0] - model.value_and_gradient(point - step * unit)[0])
        / (2 * step)
        for unit in np.eye(len(point))
    ]
    np.testing.assert_allclose(slope, numeric, atol=1e-7)


def test_the_information_is_the_second_derivative_where_counts_are_as_expected():
    model = likelihood()
    point = parameters(model)
    model.counts = 1e7 * model.channel.forward(model.described(point).probabilities)
    step, records = 1e-5, model.counts.sum()
    numeric = [
        (model.value_and_gradient(point + step * unit)[1] - model.value_and_gradient(point - step * unit)[1])
        * (records / (2 * step))
        for unit in np.eye(len(point))
    ]
    information = model.precision(point)
    np.testing.assert_allclose(information, numeric, atol=1e-5 * np.abs(information).max())


def test_scoring_ends_where_the_gradient_vanishes():
    model = likelihood(1)
    fit = model.most_likely(parameters(model))
    inside = [
        low is None or low < value < high for value, (low, high) in zip(fit.parameters, model.limits, strict=True)
    ]
    slope = model.value_and_gradient(fit.parameters)[1]
    information = model.precision(fit.parameters)
    # Half of slope·information⁻¹·slope is what is still to be gained, in units of the log-likelihood.
    assert all(inside)
    assert 0.5 * (slope @ np.linalg.solve(information, slope)) * model.counts.sum() ** 2 < 0.01


def test_parameters_survive_packing():
    model = likelihood()
    weights, means, factors = model.unpacked(parameters(model))
    again = model.unpacked(model.packed(weights, means, np.linalg.inv(factors @ factors.transpose(0, 2, 1))))
    for one, other in zip((weights, means, factors), again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_correlated_mixture_comes_back(fitted):
    """At this noise the error of the technique is about one and a half times ours; components are within a fifth."""
    rows, auto, technique = fitted
    assert accuracy(auto, rows) > accuracy(technique, rows)
    assert accuracy(auto, rows) > 92
    truth = np.cov(rows.T)
    assert np.linalg.norm(auto.covariance() - truth) < 0.05 * np.linalg.norm(truth)
    np.testing.assert_allclose(auto.mean(), rows.mean(axis=0), atol=0.1)
    assert auto.correlation()[0, 1] == pytest.approx(np.corrcoef(rows.T)[0, 1], abs=0.05)
    assert set(auto.method_weights) == {"bayes", "mixture"}
    assert sum(auto.method_weights.values()) == pytest.approx(1)
    components = auto.components
    assert len(components.weights) == 2
    for mean, covariance in zip(MEANS, COVARIANCES, strict=True):
        nearest = np.argmin(((components.means - mean) ** 2).sum(axis=1))
        error = np.linalg.norm(components.covariances[nearest] - covariance) / np.linalg.norm(covariance)
        assert error < 0.35
    assert technique.components is None


def test_the_distribution_answers_consistently(fitted):
    _, found, _ = fitted
    assert found.probabilities.sum() == pytest.approx(1)
    assert found.probabilities.min() >= 0
    table = found.histogram([EDGES, EDGES])
    assert table.sum() == pytest.approx(1)
    for column in range(2):
        np.testing.assert_allclose(found.marginal(column).histogram(EDGES), table.sum(axis=1 - column), atol=1e-12)
    rows = found.sample(200_000, random_state=0)
    # Standard errors of means are below 0.006 and of covariances below 0.03; six of them.
    np.testing.assert_allclose(rows.mean(axis=0), found.mean(), atol=0.04)
    np.testing.assert_allclose(np.cov(rows.T), found.covariance(), atol=0.2)
    assert not found.marginal(0).band(EDGES).calibrated


def test_moments_of_atoms_and_cells_by_hand():
    layout = Layout(np.array([0.0, 2.0]), np.array([5.0]))
    table = np.array([[0.3, 0.2], [0.1, 0.4]])
    found = JointDistribution([layout, layout], table, 10, {"bayes": 1.0})
    np.testing.assert_allclose(found.mean(), [0.5 + 2.5, 0.4 + 3.0])
    expected = 0.3 * 1 + 0.2 * 5 + 0.1 * 5 + 0.4 * 25 - 3.0 * 3.4
    assert found.covariance()[0, 1] == pytest.approx(expected)
    # A cell from 0 to 2 has second moment 4/3.
    assert found.covariance()[0, 0] == pytest.approx(0.5 * 4 / 3 + 0.5 * 25 - 9)
    np.testing.assert_allclose(found.histogram([[0, 1, 6], [4, 6]]), [[0.1], [0.5]])


@pytest.mark.parametrize("method", ["bayes", "mixture"])
def test_the_order_of_columns_does_not_matter(method):
    rows = original(5_000)
    first, second = LaplacePerturbation(BOUNDS, epsilon=4), LaplacePerturbation((-2.0, 12.0), epsilon=5)
    y, z = perturbed(rows, first)[0], perturbed(rows, second)[1]
    options = {"components": 2, "atoms": [(), ()]} if method == "mixture" else {"atoms": [(), ()]}
    one = JointReconstruction([first, second], method, **options).fit([y, z]).distribution_
    other = JointReconstruction([second, first], method, **options).fit([z, y]).distribution_
    difference = np.abs(one.histogram([EDGES, EDGES]) - other.histogram([EDGES, EDGES]).T).sum()
    # The parts for cross-validation are drawn in another order, so the technique may stop at another step.
    assert difference < (0.02 if method == "mixture" else 0.15)


@pytest.mark.long
def test_three_columns_of_a_square_wave():
    generator = np.random.default_rng(0)
    base = generator.normal(5, 1.5, 5000)
    rows = np.clip(
        np.column_stack([base, base + generator.normal(0, 0.7, 5000), generator.normal(6, 1.5, 5000)]), 0, 10
    )
    perturbation = SquareWave((0, 10), epsilon=4)
    columns = [perturbation.perturb(column, shuffle=False, random_state=n) for n, column in enumerate(rows.T)]
    found = JointReconstruction([perturbation] * 3, "mixture", components=1).fit(np.column_stack(columns)).distribution_
    assert found.probabilities.shape == (joint_cell_count(perturbation, 3),) * 3
    np.testing.assert_allclose(found.correlation(), np.corrcoef(rows.T), atol=0.12)


def test_atoms_keep_a_probability_of_their_own():
    generator = np.random.default_rng(0)
    is_zero = generator.random(20_000) < 0.6
    rows = np.column_stack([np.where(is_zero, 0.0, generator.uniform(3, 9, 20_000)), np.where(is_zero, 2.0, 7.0)])
    rows[:, 1] += generator.normal(0, 0.7, 20_000)
    perturbation = LaplacePerturbation((0, 10), epsilon=5)
    model = JointReconstruction([perturbation] * 2, atoms=[(0,), ()])
    found = model.fit(perturbed(rows, perturbation)).distribution_
    assert found.method_weights == {"bayes": 1.0}
    assert found.marginal(0).atoms[0.0] == pytest.approx(0.6, abs=0.06)
    low_beside_zero = found.histogram([[-1, 0.5], [0, 4.5]])[0, 0]
    assert low_beside_zero == pytest.approx(0.6, abs=0.06)


def test_as_many_components_as_asked_for():
    """Also where further ones add nothing: these rows have a single component."""
    perturbation = LaplacePerturbation((0, 10), epsilon=4)
    rows = np.clip(np.random.default_rng(0).normal(5, 1, (3000, 2)), 0, 10)
    model = JointReconstruction([perturbation] * 2, "mixture", components=3).fit(perturbed(rows, perturbation))
    assert len(model.distribution_.components.weights) == 3
    assert model.distribution_.method_weights == {"mixture": 1.0}


def test_rows_are_assigned_to_the_components_that_they_came_from(fitted):
    """At least as often as the nearer of the true means would, less a point."""
    rows, found, technique = fitted
    perturbation = LaplacePerturbation(BOUNDS, epsilon=5.0)
    columns = perturbed(rows, perturbation)
    generator = np.random.default_rng(0)
    came_from = generator.choice(2, len(rows), p=WEIGHTS)
    order = np.argsort(found.components.means[:, 0])
    assert len(order) == 2
    shares = found.responsibilities(columns)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares.mean(axis=0)[order], WEIGHTS, atol=0.02)
    assigned = found.predict(np.column_stack(columns))
    np.testing.assert_array_equal(assigned, shares.argmax(axis=1))
    nearest = ((np.column_stack(columns)[:, None, :] - MEANS) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(order[came_from] == assigned) > np.mean(nearest == came_from) - 0.01
    with pytest.raises(InvalidParameter, match="no components"):
        technique.predict(columns)
    with pytest.raises(DataError, match="1 columns and 2 perturbations"):
        found.predict(columns[:1])
    with pytest.raises(DataError, match="different lengths"):
        found.predict([columns[0], columns[1][:-1]])


def test_cells_become_finer_with_less_noise():
    assert joint_cell_count(LaplacePerturbation((0, 1), epsilon=3), 2) == 48
    assert joint_cell_count(LaplacePerturbation((0, 1), epsilon=14), 2) == 56
    assert joint_cell_count(LaplacePerturbation((0, 1), epsilon=16), 2) == 64
    assert joint_cell_count(LaplacePerturbation((0, 1), epsilon=16), 3) == 32


def test_what_cannot_be_is_refused():
    perturbation = LaplacePerturbation(BOUNDS, epsilon=4)
    y = np.full(20, 3.0)
    two = JointReconstruction([perturbation] * 2)
    with pytest.raises(DataError, match="1 columns and 2 perturbations"):
        two.fit([y])
    with pytest.raises(DataError, match="3 columns and 2 perturbations"):
        two.fit(np.column_stack([y, y, y]))
    with pytest.raises(DataError, match="different lengths"):
        two.fit([y, y[:-1]])
    with pytest.raises(DataError, match="missing"):
        two.fit([y, np.where(np.arange(20) == 3, np.nan, y)])
    with pytest.raises(DataError, match="cannot come from this perturbation"):
        two.fit([y, y + 1e9])
    with pytest.raises(DataError, match="5 records"):
        two.fit([y[:5], y[:5]])
    for wrong, says in (
        ({"perturbations": [perturbation]}, "1 columns cannot"),
        ({"perturbations": [perturbation] * 4}, "4 columns cannot"),
        ({"perturbations": [perturbation, RetainReplace(["a", "b"], epsilon=1)]}, "number column"),
        ({"method": "guess"}, "no method 'guess'"),
        ({"components": 0}, "components must be a whole number from 1"),
        ({"atoms": [(0,)]}, "one list a column"),
        ({"atoms": "some"}, "'auto' or lists"),
        ({"atoms": [(0,), ()], "method": "mixture"}, "no atoms"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            JointReconstruction(**{"perturbations": [perturbation] * 2, **wrong}).fit([y, y])
    layout = Layout(np.array([0.0, 1.0]), np.empty(0))
    found = JointDistribution([layout, layout], np.ones((1, 1)), 10, {})
    with pytest.raises(InvalidParameter, match="edges for 1 columns"):
        found.histogram([[0, 1]])
    with pytest.raises(InvalidParameter, match="no column 2"):
        found.marginal(2)


@pytest.mark.parametrize("method", ["auto", "bayes", "mixture"])
@pytest.mark.parametrize("atoms", ["nonsense", None, 3, [()]])
def test_atoms_of_another_kind_are_refused_whatever_the_method(method: str, atoms: object) -> None:
    perturbations = [LaplacePerturbation((0, 1), epsilon=5.0)] * 2
    with pytest.raises(InvalidParameter, match="atoms must"):
        JointReconstruction(perturbations, method, atoms=atoms).fit(np.zeros((20, 2)))

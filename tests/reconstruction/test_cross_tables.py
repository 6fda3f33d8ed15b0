"""Cross tables of two columns of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter
from sudare.perturbation import LaplacePerturbation, RetainReplace, SubsetSelection, UnaryEncoding
from sudare.reconstruction import CrossTable, JointReconstruction
from sudare.reconstruction.category_frequencies import METHODS, answers_of
from sudare.reconstruction.channels import ListedPairs, ProductChannel
from sudare.reconstruction.cross_tables import ColumnBin, mixed_table, own_scores, pair_problem, raked
from sudare.reconstruction.iterative_bayes import log_likelihood

EDGES = [0.0, 4.0, 6.0, 10.0]
NUMBER = LaplacePerturbation((0, 10), epsilon=4)
LEVELS = ("a", "b", "c")


def rows(size: int = 12_000) -> tuple[np.ndarray, np.ndarray]:
    """A category, and a number whose middle depends on it."""
    generator = np.random.default_rng(0)
    category = generator.choice(3, size, p=[0.5, 0.3, 0.2])
    number = np.clip(generator.normal(np.array([3.0, 5.0, 8.0])[category], 1.0), 0, 10)
    return number, np.array(LEVELS)[category]


def truth(number: np.ndarray, category: np.ndarray) -> np.ndarray:
    return np.array([np.histogram(number[category == level], EDGES)[0] for level in LEVELS]).T / len(number)


@pytest.mark.parametrize("kind", [RetainReplace, UnaryEncoding, SubsetSelection])
def test_a_number_by_a_category(kind):
    number, category = rows()
    perturbation = kind(LEVELS, epsilon=2)
    y = NUMBER.perturb(number, shuffle=False, random_state=0)
    z = perturbation.perturb(category, shuffle=False, random_state=1)
    found = CrossTable(NUMBER, perturbation, first_edges=EDGES).fit(y, z)
    assert found.probabilities_.shape == (3, 3)
    assert found.probabilities_.sum() == pytest.approx(1)
    # Independent columns with the true margins would have 37 % of the mass elsewhere.
    assert 0.5 * np.abs(found.probabilities_ - truth(number, category)).sum() < 0.12
    assert found.values_ == (tuple(ColumnBin(*pair) for pair in ((0, 4), (4, 6), (6, 10))), LEVELS)
    assert found.n_records_ == 12_000
    np.testing.assert_allclose(found.counts(), found.probabilities_ * 12_000)
    turned = CrossTable(perturbation, NUMBER, second_edges=EDGES).fit(z, y)
    np.testing.assert_allclose(turned.probabilities_, found.probabilities_.T)


def test_atoms_of_a_number_stay_together():
    generator = np.random.default_rng(1)
    rich = generator.random(20_000) < 0.3
    number = np.where(rich & (generator.random(20_000) < 0.5), generator.uniform(4, 9, 20_000), 0.0)
    perturbation = RetainReplace((False, True), epsilon=3)
    found = CrossTable(NUMBER, perturbation, first_edges=[0, 0.5, 10]).fit(
        NUMBER.perturb(number, shuffle=False, random_state=0),
        perturbation.perturb(rich, shuffle=False, random_state=1),
    )
    np.testing.assert_allclose(found.probabilities_, [[0.7, 0.15], [0.0, 0.15]], atol=0.05)


def test_both_ways_to_count_pairs_have_the_same_likelihood():
    """Enumerated answers and distinct rows differ by a factor that the categories do not enter."""
    _, category = rows(2000)
    perturbation = RetainReplace(LEVELS, epsilon=2)
    z = perturbation.perturb(category, shuffle=False, random_state=1)
    ticks = answers_of(perturbation, z)
    transition = np.random.default_rng(0).dirichlet(np.ones(6), 4).T
    places = np.random.default_rng(1).integers(0, 6, 2000)
    product, counts = pair_problem(transition, places, perturbation, ticks)
    assert isinstance(product, ProductChannel)
    assert counts.sum() == 2000

    class Sets(RetainReplace):
        answers_with_sets = True

    listed, times = pair_problem(transition, places, Sets(LEVELS, epsilon=2), ticks)
    assert isinstance(listed, ListedPairs)
    assert times.sum() == 2000
    shares = np.random.default_rng(2).dirichlet(np.ones(12), 2).reshape(2, 4, 3)
    gains = [
        log_likelihood(channel, shares[0], weights) - log_likelihood(channel, shares[1], weights)
        for channel, weights in ((product, counts), (listed, times))
    ]
    assert gains[0] == pytest.approx(gains[1])


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("pair", [(RetainReplace, RetainReplace), (RetainReplace, SubsetSelection), (UnaryEncoding, SubsetSelection)])  # fmt: skip
def test_cross_tables_come_back(pair: tuple[Any, Any], method: Any) -> None:
    rng = np.random.default_rng(0)
    joint = np.array([[0.3, 0.05, 0.05], [0.05, 0.25, 0.3]])
    drawn = rng.choice(6, size=20_000, p=joint.ravel())
    first, second = np.array(["x", "y"])[drawn // 3], drawn % 3
    shares = np.bincount(drawn, minlength=6).reshape(2, 3) / 20_000
    rows, columns = pair[0](["x", "y"], epsilon=2.0), pair[1]([0, 1, 2], epsilon=2.0)
    y, z = rows.perturb(first, shuffle=False, random_state=1), columns.perturb(second, shuffle=False, random_state=2)
    found = CrossTable(rows, columns, method=method).fit(y, z)
    assert found.unbiased_ is not None
    assert found.standard_errors_ is not None
    assert found.probabilities_.shape == (2, 3)
    assert found.probabilities_.sum() == pytest.approx(1.0)
    assert np.all(np.abs(found.unbiased_ - shares) < 6 * found.standard_errors_)
    assert np.all(np.abs(found.probabilities_ - shares) < 6 * found.standard_errors_)
    assert found.counts().sum() == pytest.approx(20_000)
    assert found.to_dict()["columns"] == [0, 1, 2]


def test_columns_of_a_cross_table_belong_together() -> None:
    rows = RetainReplace(["x", "y"], epsilon=2.0)
    with pytest.raises(DataError, match="different lengths"):
        CrossTable(rows, rows).fit(["x", "y"], ["x"])
    with pytest.raises(InvalidParameter, match="method must be one of"):
        CrossTable(rows, rows, method="guess").fit(["x"], ["y"])


@pytest.mark.long
def test_two_numbers_are_the_joint_reconstruction():
    number, _ = rows(2000)
    y, z = (NUMBER.perturb(number, shuffle=False, random_state=seed) for seed in (0, 1))
    found = CrossTable(NUMBER, NUMBER, first_edges=EDGES, second_edges=EDGES, method="bayes").fit(y, z)
    joint = JointReconstruction([NUMBER, NUMBER], "bayes").fit([y, z]).distribution_
    np.testing.assert_array_equal(found.probabilities_, joint.histogram([EDGES, EDGES]))
    assert found.to_dict()["rows"] == [[0, 4], [4, 6], [6, 10]]
    assert np.shape(found.to_dict()["standard_errors"]) == (3, 3)
    assert CrossTable(NUMBER, NUMBER, method="bayes").fit(y, z).probabilities_.shape == (10, 10)


def test_bins_that_leave_something_out():
    number, category = rows(2000)
    perturbation = RetainReplace(LEVELS, epsilon=3)
    y, z = NUMBER.perturb(number, shuffle=False, random_state=0), perturbation.perturb(category, shuffle=False)
    table = mixed_table(NUMBER, perturbation, y, z, 0)
    states, shares = table.states, table.shares
    found = CrossTable(NUMBER, perturbation, first_edges=[0, 5]).fit(y, z)
    below = states.centres < 5
    assert found.n_records_ == 2000
    assert found.probabilities_.sum() == pytest.approx(shares[: states.cells][below].sum(), abs=0.02)


def test_an_interval_reads_as_one():
    assert str(ColumnBin(18.0, 65.5)) == "18 – 65.5"


def test_what_cannot_be_is_refused():
    perturbation = RetainReplace(LEVELS, epsilon=2)
    y, z = np.full(20, 3.0), np.array(["a"] * 20)
    with pytest.raises(DataError, match="different lengths"):
        CrossTable(NUMBER, perturbation).fit(y, z[:-1])
    with pytest.raises(DataError, match="missing"):
        CrossTable(NUMBER, perturbation).fit(np.append(y[1:], np.nan), z)
    with pytest.raises(InvalidParameter, match="category column has no bins"):
        CrossTable(NUMBER, perturbation, second_edges=[0, 1]).fit(y, z)
    with pytest.raises(InvalidParameter, match="must rise"):
        CrossTable(NUMBER, perturbation, first_edges=[1, 0]).fit(y, z)
    with pytest.raises(InvalidParameter, match="one of auto, bayes, got 'inversion'"):
        CrossTable(NUMBER, perturbation, method="inversion").fit(y, z)
    with pytest.raises(InvalidParameter, match="one of auto, bayes, mixture"):
        CrossTable(NUMBER, NUMBER, method="likelihood").fit(y, y)
    with pytest.raises(InvalidParameter, match="number or category"):
        CrossTable("age", NUMBER).fit(y, y)


def test_where_noise_hides_how_columns_go_together_the_product_of_the_margins_is_left():
    number, category = rows(2000)
    numbers, categories = LaplacePerturbation((0, 10), epsilon=0.2), RetainReplace(LEVELS, epsilon=0.2)
    y, z = (
        numbers.perturb(number, shuffle=False, random_state=0),
        categories.perturb(category, shuffle=False, random_state=1),
    )
    found = CrossTable(numbers, categories, first_edges=EDGES).fit(y, z)
    product = np.outer(found.probabilities_.sum(axis=1), found.probabilities_.sum(axis=0))
    assert 0.5 * np.abs(found.probabilities_ - product).sum() < 0.05
    assert found.dependence_ < 0.5
    clear = CrossTable(NUMBER, RetainReplace(LEVELS, epsilon=4), first_edges=EDGES)
    clear.fit(
        NUMBER.perturb(number, shuffle=False, random_state=0),
        clear.second.perturb(category, shuffle=False, random_state=1),
    )
    assert clear.dependence_ > 0.9
    assert clear.independence_.p_value < 1e-9


@pytest.mark.parametrize("second", [RetainReplace(LEVELS, epsilon=2), SubsetSelection(LEVELS, epsilon=2), NUMBER])
def test_scores_of_a_column_do_not_depend_on_how_it_is_paired(second):
    """What makes every pairing as likely where columns are independent."""
    number, category = rows(500)
    values = second.perturb(number if second is NUMBER else category, shuffle=False, random_state=0)
    edges = np.array(EDGES) if second is NUMBER else None
    order = np.random.default_rng(1).permutation(500)
    there, elsewhere = own_scores(second, edges, values, 0), own_scores(second, edges, np.asarray(values)[order], 0)
    np.testing.assert_array_equal(elsewhere.scores, there.scores)
    np.testing.assert_array_equal(elsewhere.answers, there.answers[order])


def test_raking_meets_both_margins_and_keeps_odds():
    table = np.array([[0.2, 0.1], [0.3, 0.4]])
    first, second = np.array([0.4, 0.6]), np.array([0.7, 0.3])
    found = raked(table, first, second)
    np.testing.assert_allclose(found.sum(axis=1), first)
    np.testing.assert_allclose(found.sum(axis=0), second)
    odds = [one[0, 0] * one[1, 1] / (one[0, 1] * one[1, 0]) for one in (table, found)]
    assert odds[1] == pytest.approx(odds[0])
    assert raked(table, first, second / 2) is table

"""Which dependencies: chosen from a covariance and a count, and rightly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.dictionary import dependency_selection as supports
from sudare.dictionary.dependency_selection import description_length, edge_price, fitted_on, support_by_ebic
from tests.dictionary.kit import random_precision


def graph_covariance(edges, size):
    precision = np.eye(size)
    for first, second in edges:
        precision[first, second] = precision[second, first] = 0.4
    return np.linalg.inv(precision)


@pytest.mark.parametrize("edges", [(), ((0, 1),), ((0, 1), (1, 2), (2, 3)), ((0, 1), (2, 4), (3, 5))])
def test_supports_are_found_from_the_covariance(edges):
    support = support_by_ebic(graph_covariance(edges, 6), 500.0)
    expected = np.eye(6, dtype=bool)
    for first, second in edges:
        expected[first, second] = expected[second, first] = True
    np.testing.assert_array_equal(support, expected)


def test_a_single_column_has_no_dependencies():
    np.testing.assert_array_equal(support_by_ebic(np.array([[2.0]]), 50.0), [[True]])


def test_few_records_do_not_show_dependencies():
    """Noise of 12 records in six columns: EBIC stays with fewer dependencies than records could bear."""
    random = np.random.default_rng(0)
    sample = random.normal(size=(12, 6))
    support = support_by_ebic(np.cov(sample.T), 12.0)
    assert np.count_nonzero(support) <= 6 + 2 * 3


def all_supports(size):
    pairs = list(itertools.combinations(range(size), 2))
    for chosen in itertools.product([False, True], repeat=len(pairs)):
        support = np.eye(size, dtype=bool)
        for (first, second), is_edge in zip(pairs, chosen, strict=True):
            support[first, second] = support[second, first] = is_edge
        yield support


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=15)
def test_no_single_change_of_the_chosen_support_is_better(seed):
    """Four columns have 64 graphs: the choice beats its six neighbours and everything with it the graphs of the path."""
    random = np.random.default_rng(seed)
    sample = random.multivariate_normal(np.zeros(4), np.linalg.inv(random_precision(random, 4)), 80)
    correlation = np.corrcoef(sample.T)
    price = edge_price(80.0, 4)
    criteria = {each.tobytes(): fitted_on(correlation, each, 80.0).criterion(price) for each in all_supports(4)}
    support = support_by_ebic(correlation, 80.0)
    for first, second in itertools.combinations(range(4), 2):
        neighbour = support.copy()
        neighbour[first, second] = neighbour[second, first] = not support[first, second]
        assert criteria[support.tobytes()] <= criteria[neighbour.tobytes()] + 1e-4


def dependent_sample(seed, rows=300, columns=10):
    random = np.random.default_rng(seed)
    matrix = np.triu(random.random((columns, columns)) < 0.2, 1) * random.choice([-1.0, 1.0], (columns, columns)) * 0.6
    matrix = matrix + matrix.T
    precision = matrix + np.eye(columns) * (max(0.0, -np.linalg.eigvalsh(matrix)[0]) + 0.3)
    sample = random.multivariate_normal(np.zeros(columns), np.linalg.inv(precision), rows)
    return np.cov(sample.T), precision != 0


def test_single_changes_find_what_the_path_alone_does_not(monkeypatch):
    """Wrong pairs over thirty samples of ten columns; the path of penalties brings false ones along with weak true ones."""
    samples = [dependent_sample(seed) for seed in range(30)]

    def mistakes():
        return sum(np.count_nonzero(support_by_ebic(covariance, 300.0) != true) // 2 for covariance, true in samples)

    with_changes = mistakes()
    monkeypatch.setattr(supports, "_MOST_CHANGES", 0)
    assert 3 * with_changes < mistakes()


def test_many_changes_are_made_together(monkeypatch):
    """With the threshold lowered, half of what promises something is changed at once, and the end is as good within a pair or two."""
    covariance, true = dependent_sample(0, rows=2000)
    monkeypatch.setattr(supports, "_CHANGES_ONE_BY_ONE", 2)
    assert np.count_nonzero(support_by_ebic(covariance, 2000.0) != true) <= 4


def test_a_sparse_description_is_shorter_than_a_dense_one():
    """Independent columns pay for none of the 45 pairs, but lose the likelihood that fitting noise had gained."""
    sample = np.random.default_rng(0).normal(size=(400, 10))
    covariance = np.cov(sample.T, bias=True)
    precision = np.linalg.inv(covariance)
    lost = -400 * np.linalg.slogdet(np.corrcoef(sample.T))[1]
    assert description_length(covariance, precision, 400.0, 1000) == pytest.approx(lost, abs=1e-3)
    assert lost < 45 * edge_price(1000, 10)


def test_a_dense_description_is_kept_where_it_is_shorter():
    precision = np.full((4, 4), 0.6) + 0.4 * np.eye(4)
    found = description_length(np.linalg.inv(precision), precision, 5000.0, 5000)
    assert found == pytest.approx(6 * edge_price(5000, 4))


def test_one_column_has_nothing_to_describe():
    assert description_length(np.array([[2.0]]), np.array([[0.5]]), 50.0, 100) == pytest.approx(0.0, abs=1e-3)

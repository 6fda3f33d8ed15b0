"""A pattern that only one member has stays at home, and is no alarm there."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.dictionary import PatternDictionary
from sudare.dictionary.em import Dictionary
from sudare.dictionary.families import Frame, Overall, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.single_member_pattern import with_own_pattern
from sudare.dictionary.sum_questions import Branch
from sudare.frames import rows
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from tests.dictionary.kit import held

FAR = np.array([0.0, 9.0, 0.0, 9.0])


def dictionary_of(truth, family=None):
    """The true patterns as if a training had found them, in the columns' own units."""
    family = SparseGaussian() if family is None else family
    precisions = truth.precisions if isinstance(family, SparseGaussian) else np.full((3, 4), 1.2)
    patterns = Patterns({"means": truth.means, "precisions": precisions})
    overall = Overall(900, np.zeros(4), np.eye(4))
    return Dictionary(family, patterns, Frame(np.zeros(4), np.ones(4)), overall, np.full(3, 300.0), Branch(0), ())


def own_records(random, rows=150, strange=40):
    """A member of kind one, some of whose records are of a pattern nobody else has: two columns of it depend on each other."""
    usual = chapter_truth().records(random, rows)[0]
    noise = random.multivariate_normal(np.zeros(2), [[1.0, 0.8], [0.8, 1.0]], strange)
    return np.vstack([usual, FAR + np.column_stack([noise, random.normal(size=(strange, 2))])])


@pytest.mark.parametrize("seed", range(3))
def test_a_pattern_of_ones_own_is_found_with_its_dependencies(seed):
    random = np.random.default_rng(seed)
    truth = chapter_truth()
    (records,) = held([own_records(random)])
    found = with_own_pattern(records, dictionary_of(truth), truth.weights[0])
    assert found.pattern is not None
    np.testing.assert_allclose(found.pattern["means"][0], FAR, atol=0.8)
    assert found.pattern_weight == pytest.approx(40 / 190, abs=0.02)
    assert found.weights.sum() + found.pattern_weight == pytest.approx(1.0)
    assert found.weights[2] == 0
    edges = np.argwhere(np.triu(np.abs(found.pattern["precisions"][0]) > 1e-9, 1))
    assert [0, 1] in edges.tolist()


@pytest.mark.parametrize("rows", [5, 30, 300])
def test_usual_records_make_no_pattern(rows):
    truth = chapter_truth()
    for seed in range(5):
        for member, table in enumerate(truth.records(np.random.default_rng([seed, 3]), rows)):
            found = with_own_pattern(held([table])[0], dictionary_of(truth), truth.weights[member])
            assert found.pattern is None
            np.testing.assert_array_equal(found.weights, truth.weights[member])


def test_how_records_are_cut_into_blocks_does_not_matter(monkeypatch):
    table = own_records(np.random.default_rng(0))
    whole = with_own_pattern(held([table])[0], dictionary_of(chapter_truth()), chapter_truth().weights[0])
    monkeypatch.setattr(rows, "TREE_BLOCK_ROWS", 1 + len(table) // 7)
    cut = with_own_pattern(held([table])[0], dictionary_of(chapter_truth()), chapter_truth().weights[0])
    np.testing.assert_allclose(cut.pattern["means"], whole.pattern["means"], rtol=1e-9)


def test_only_sparse_patterns_have_company_at_home():
    table = own_records(np.random.default_rng(0))
    found = with_own_pattern(
        held([table])[0], dictionary_of(chapter_truth(), DiagonalGaussian()), chapter_truth().weights[0]
    )
    assert found.pattern is None


def test_nobody_else_sees_it_and_its_member_is_not_alarmed():
    """The others' patterns and weights do not contain it; for its member new records of it are usual, for the others not."""
    random = np.random.default_rng(0)
    truth = chapter_truth(members=4)
    tables = truth.records(random, 150)
    tables[0] = own_records(random)
    fitted = PatternDictionary(6, hide="nothing").fit(tables)
    assert np.linalg.norm(fitted.means_ - FAR, axis=1).min() > 4
    np.testing.assert_allclose(fitted.own_parts_[0].pattern_weight, 40 / 190, atol=0.03)
    for member in range(1, 4):
        assert np.linalg.norm(fitted.member(member).patterns["means"] - FAR, axis=1).min() > 4
    new = own_records(random, rows=1, strange=200)[1:]
    assert fitted.member(0).predict(new).mean() < 0.1
    assert fitted.member(1).predict(new).mean() > 0.9
    assert fitted.member(0).responsibilities(new).shape == (200, fitted.n_patterns_ + 1)


def test_with_epsilon_there_is_none():
    random = np.random.default_rng(0)
    tables = chapter_truth(members=4).records(random, 150)
    tables[0] = own_records(random)
    fitted = PatternDictionary(4, hide="nothing", bounds=(-15, 20), epsilon=5.0, random_state=0).fit(tables)
    assert all(home.pattern is None for home in fitted.own_parts_)
    np.testing.assert_allclose(fitted.weights_.sum(axis=1), 1.0)

"""Distributions over a tree of cliques, against the whole table of all combinations."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.synthesis import tree_distribution
from sudare.synthesis.clique_tree import CliqueTree
from sudare.synthesis.tree_distribution import NoisyTable, TreeDistribution

SIZES = (2, 3, 4, 2, 3)
PAIRS = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]


def fitted(joint: np.ndarray, variance: float, sweeps: int = 60) -> TreeDistribution:
    """The distribution that agrees with a joint table's columns and pairs."""
    total = float(joint.sum())
    tree = CliqueTree.of_tables([], SIZES)
    found = TreeDistribution(tree, total)
    held: list[tuple[int, int]] = []
    for columns in [(column,) for column in range(5)] + PAIRS:
        others = tuple(axis for axis in range(5) if axis not in columns)
        if len(columns) == 2:
            tree = tree.with_pair(columns, held)
            held.append(columns)
        found.add(NoisyTable(columns, joint.sum(axis=others), variance), tree)
    found.fit(sweeps)
    return found


def whole_table(found: TreeDistribution) -> np.ndarray:
    """All combinations: the product of the cliques' tables over that of their separators."""
    joint = np.ones(SIZES)
    for place, clique in enumerate(found.tree.cliques):
        shape = [SIZES[column] if column in clique else 1 for column in range(5)]
        joint = joint * found.shares(clique).reshape(shape)
        shared = found.tree.separators[place]
        if shared:
            shape = [SIZES[column] if column in shared else 1 for column in range(5)]
            joint = joint / found.shares(clique).sum(
                axis=tuple(axis for axis, column in enumerate(clique) if column not in shared)
            ).reshape(shape)
    return joint


JOINT = np.random.default_rng(0).dirichlet(np.ones(144)).reshape(SIZES) * 1e4


def test_exact_tables_are_met():
    found = fitted(JOINT, 1e-4)
    for pair in PAIRS:
        others = tuple(axis for axis in range(5) if axis not in pair)
        assert np.abs(found.shares(pair) - JOINT.sum(axis=others) / 1e4).max() < 2e-4


def test_all_pairs_are_those_of_the_whole_table():
    found = fitted(JOINT, 100.0, sweeps=3)
    whole = whole_table(found)
    assert whole.sum() == pytest.approx(1)
    tables = dict(found.pair_shares())
    assert len(tables) == 10
    for pair, table in tables.items():
        others = tuple(axis for axis in range(5) if axis not in pair)
        assert np.allclose(table, whole.sum(axis=others), atol=1e-9)


def test_the_soft_fit_solves_its_equation():
    """One table alone: x = a·exp((y − x)/s) with uniform a, up to the constant that makes the sum right."""
    found = TreeDistribution(CliqueTree.of_tables([], (4,)), 100.0)
    counts, variance = np.array([70.0, 40.0, -30.0, 20.0]), 200.0
    found.add(NoisyTable((0,), counts, variance), found.tree)
    found.fit(1)
    rows, softness = 100.0 * found.shares((0,)), tree_distribution._PRIOR_STRENGTH * variance * 4 / 100.0
    constant = np.log(rows) - (counts - rows) / softness
    assert rows.sum() == pytest.approx(100)
    assert np.ptp(constant) < 1e-5


def test_noise_beyond_all_counts_says_nothing_and_breaks_nothing():
    found = TreeDistribution(CliqueTree.of_tables([], (3, 2)), 1.0)
    found.add(NoisyTable((0,), np.array([1e13, -1e13, 0.0]), 1e160), found.tree)
    found.add(NoisyTable((0, 1), np.full((3, 2), -1e13), 1e-6), found.tree.with_pair((0, 1), []))
    found.fit(5)
    assert np.isfinite(found.shares((0, 1))).all()
    assert found.shares((0, 1)).sum() == pytest.approx(1)


def test_two_counts_of_a_table_are_averaged_by_their_precision():
    first, second = NoisyTable((0,), np.array([10.0]), 1.0), NoisyTable((0,), np.array([40.0]), 2.0)
    both = first.together_with(second)
    assert both.counts[0] == pytest.approx(20)
    assert both.variance == pytest.approx(2 / 3)


def test_rows_have_the_tables_and_conditions_hold():
    found = fitted(JOINT, 100.0, sweeps=3)
    drawn = np.column_stack(found.drawn(20_000, np.random.default_rng(0)))
    for pair, table in found.pair_shares():
        counts = np.zeros(table.shape)
        np.add.at(counts, (drawn[:, pair[0]], drawn[:, pair[1]]), 1 / 20_000)
        assert np.abs(counts - table).sum() < 0.03
    given = found.conditioned({0: [1], 2: [0, 3]})
    assert given is not None
    whole = whole_table(found)[1][:, [0, 3]]
    assert np.allclose(given.shares((4,)), whole.sum(axis=(0, 1, 2)) / whole.sum())
    assert {*np.column_stack(given.drawn(500, np.random.default_rng(0)))[:, 0]} == {1}
    assert found.conditioned({0: []}) is None


def test_sharp_tables_that_contradict_each_other_do_not_run_away():
    """Cells that one table all but forbids and another asks for: probabilities still add up to one, and most of both tables is met."""
    random = np.random.default_rng(1)
    tree = CliqueTree.of_tables([(0, 1), (1, 2), (0, 2)], (6, 6, 6))
    found = TreeDistribution(tree, 1e4)
    for pair in [(0, 1), (1, 2), (0, 2)]:
        counts = np.diag(np.full(6, 1e4 / 6)) + random.normal(scale=3.0, size=(6, 6))
        counts[0, 1] += 5.0
        found.add(NoisyTable(pair, counts, 9.0), tree)
    found.fit(60)
    for _, table in found.pair_shares():
        assert table.sum() == pytest.approx(1)
        assert np.trace(table) > 0.98


def test_what_is_impossible_has_no_rows_also_where_floats_vanish():
    """A table asks for impossible cells alone, and a clique's possible ones are so improbable that floats lose them."""
    tree = CliqueTree.of_tables([(0, 1), (1, 2)], (2, 2, 2))
    possible = {(0, 1): np.array([[0.0, 1.0], [1.0, 1.0]]), (1, 2): np.array([[1.0, 1.0], [0.0, 1.0]])}
    found = TreeDistribution(tree, 100.0, possible)
    for pair, table in possible.items():
        found.add(NoisyTable(pair, 1000.0 * (1 - table), 1.0), tree)
    found.fit(30)
    assert [found.shares(pair)[table == 0].sum() for pair, table in possible.items()] == [0, 0]
    given = found.conditioned({0: [0]})
    assert given is not None
    assert {*zip(*given.drawn(50, np.random.default_rng(0)), strict=True)} == {(0, 1, 1)}
    assert found.conditioned({0: [0], 1: [0]}) is None
    # What floats lose is drawn among possible cells.
    child = next(place for place, shared in enumerate(tree.separators) if shared)
    found._beliefs[child][:] = 0.0
    drawn = np.column_stack(found.drawn(2000, np.random.default_rng(1)))
    for (first, second), table in possible.items():
        assert table[drawn[:, first], drawn[:, second]].all()
    assert len({*map(tuple, drawn.tolist())}) == 4

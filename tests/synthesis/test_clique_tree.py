"""Trees of cliques: every table is in one clique, columns shared by two cliques are in all between them, and sizes are as told."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sudare.synthesis.clique_tree import CliqueTree

PAIRS = st.lists(st.sampled_from(list(itertools.combinations(range(6), 2))), max_size=9, unique=True)
SIZES = st.lists(st.integers(2, 7), min_size=6, max_size=6)


def is_clique_tree(tree: CliqueTree) -> bool:
    """Whether all columns are held, parents come first, and the cliques with a column hang together."""
    held = {column for clique in tree.cliques for column in clique}
    if held != set(range(len(tree.sizes))) or any(parent >= place for place, parent in enumerate(tree.parents)):
        return False
    for column in held:
        places = [place for place, clique in enumerate(tree.cliques) if column in clique]
        tops = [place for place in places if tree.parents[place] < 0 or column not in tree.cliques[tree.parents[place]]]
        if len(tops) != 1:
            return False
    return True


@given(pairs=PAIRS, sizes=SIZES)
def test_all_pairs_are_held_by_a_tree(pairs, sizes):
    tree = CliqueTree.of_tables(pairs, sizes)
    assert is_clique_tree(tree)
    assert all(tree.clique_with(pair) is not None for pair in pairs)
    assert tree.cells == sum(tree.cells_of(clique) for clique in tree.cliques)


@given(pairs=PAIRS, sizes=SIZES)
def test_a_joined_pair_needs_no_more_cells_than_told(pairs, sizes):
    tree, held = CliqueTree.of_tables([], sizes), []
    for pair in pairs:
        told = tree.cells + tree.joining_cells(pair[0])[pair[1]]
        tree = tree.with_pair(pair, held)
        held.append(pair)
        assert tree.cells <= told
        assert is_clique_tree(tree)
        assert all(tree.clique_with(each) is not None for each in held)


def test_a_chain_a_ring_and_columns_alone():
    chain = CliqueTree.of_tables([(0, 1), (1, 2)], [2, 3, 4, 5])
    assert sorted(chain.cliques) == [(0, 1), (1, 2), (3,)]
    assert chain.cells == 6 + 12 + 5
    assert chain.joining_cells(0) == {0: 0, 1: 0, 2: 24, 3: 10}
    ring = CliqueTree.of_tables([(0, 1), (1, 2), (2, 3), (0, 3)], [2, 2, 2, 2])
    assert sorted(map(len, ring.cliques)) == [3, 3]
    assert chain.with_pair((0, 1), [(0, 1), (1, 2)]) is chain
    assert chain.clique_with((0, 3)) is None

"""Pairs of columns: forests, paths along them, and which are chosen."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.synthesis.column_pairs import Pairs, breadth_first_order, chosen_pairs, distance_to_model, path_between


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15))
def test_forests(listed):
    pairs = list(dict.fromkeys((min(pair), max(pair)) for pair in listed if pair[0] != pair[1]))
    found = Pairs.in_order(pairs, 7)
    assert sorted(found.all) == sorted(pairs)
    assert Pairs.in_order(found.all, 7) == found
    parents = breadth_first_order(found.forest, 7)
    assert sorted(parents) == list(range(7))
    assert sum(parent is not None for parent in parents.values()) == len(found.forest)
    seen: set[int] = set()
    for column, parent in parents.items():
        assert parent is None or (parent in seen and (min(column, parent), max(column, parent)) in found.forest)
        seen.add(column)
    for first, second in found.further:
        path = path_between(parents, first, second)
        assert path is not None
        assert (path[0], path[-1]) == (first, second)
        assert len(set(path)) == len(path)
        assert all((min(step), max(step)) in found.forest for step in itertools.pairwise(path))


def test_paths_between_trees():
    parents = breadth_first_order(((0, 1), (2, 3)), 4)
    assert path_between(parents, 0, 3) is None
    assert path_between(parents, 3, 2) == [3, 2]


def test_chosen_pairs():
    scores = {(0, 1): 9.0, (1, 2): 8.0, (0, 2): 5.0}
    cells = dict.fromkeys(scores, 4)
    assert chosen_pairs(scores, dict.fromkeys(scores, 4.0), cells, 100) == Pairs(((0, 1), (1, 2)), ((0, 2),))
    assert chosen_pairs(scores, dict.fromkeys(scores, 5.0), cells, 100).further == ()
    assert chosen_pairs(scores, dict.fromkeys(scores, 4.0), cells, 3).further == ()


@given(
    arrays(np.int64, 6, elements=st.integers(0, 50)),
    arrays(np.float64, 6, elements=st.floats(0, 50)),
    st.integers(0, 5),
)
def test_a_row_moves_a_score_by_one_at_most(counts, model, cell):
    more = counts.copy()
    more[cell] += 1
    assert abs(distance_to_model(counts, model) - distance_to_model(more, model)) == 1

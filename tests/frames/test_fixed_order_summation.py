"""Sums in a fixed tree: the same bits however the parts are grouped, and fewer rounding errors than a running sum."""

from __future__ import annotations

import functools
import itertools
import math
import operator

from hypothesis import given
from hypothesis import strategies as st

from sudare.frames.fixed_order_summation import merged, nodes_of, pairwise_total, total_of


@given(st.lists(st.integers(-(2**40), 2**40), max_size=70))
def test_pairwise_total_adds_everything_once(numbers):
    assert pairwise_total(numbers) == (sum(numbers) if numbers else None)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(0, 5))
def test_pairwise_total_of_totals_of_aligned_parts(numbers, log_size):
    size = 2**log_size
    parts = [pairwise_total(numbers[start : start + size]) for start in range(0, len(numbers), size)]
    assert pairwise_total(parts) == pairwise_total(numbers)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_runs_of_parts_may_be_added_anywhere(numbers, cuts):
    """However a list is cut, what its runs add up to on their own makes the same total."""
    ends = [0, *sorted(min(cut, len(numbers)) for cut in cuts), len(numbers)]
    runs = [nodes_of(numbers[low:high], low) for low, high in itertools.pairwise(ends)]
    assert total_of(itertools.chain.from_iterable(runs)) == pairwise_total(numbers)
    assert merged(itertools.chain.from_iterable(runs)) == nodes_of(numbers)


def test_pairwise_total_is_more_accurate_than_a_running_sum():
    numbers = [0.1] * 2**16
    running = functools.reduce(operator.add, numbers)
    exact = math.fsum(numbers)
    assert pairwise_total(numbers) == exact != running

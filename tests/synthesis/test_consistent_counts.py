"""From noisy counts to tables without negative cells that agree with each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.synthesis.consistent_counts import averaged, conditional, consistent_singles, independent, raked, shrunk

tables = arrays(np.float64, (3, 4, 2), elements=st.floats(-50, 500))


@given(
    table=tables, singles=st.tuples(*[arrays(np.float64, (size, 2), elements=st.floats(-20, 300)) for size in (3, 4)])
)
def test_pairs_agree_with_their_columns(table, singles):
    first, second = consistent_singles(list(singles), [4.0, 9.0])
    assert np.allclose(first.sum(axis=0), second.sum(axis=0))
    assert (first >= 0).all()
    assert (first.sum(axis=0) >= 1 - 1e-9).all()
    joint = raked(shrunk(table, independent(first, second), 25.0, 1.0), first, second)
    assert (joint >= 0).all()
    assert np.allclose(joint.sum(axis=0), second, rtol=1e-6, atol=1e-6)
    steps = conditional(joint, second)
    assert np.allclose(steps.sum(axis=2), 1)
    assert (steps >= 0).all()


def test_averages_and_shrinking():
    table, variance = averaged([np.array([1.0]), np.array([4.0])], [1.0, 2.0])
    assert table == pytest.approx([2.0])
    assert variance == pytest.approx(2 / 3)
    model = np.array([1e-3, 1e6])
    drawn_in = shrunk(np.array([50.0, 2e6]), model, 100.0, 1.0)
    assert drawn_in[0] == pytest.approx(1e-3, rel=0.01)
    assert drawn_in[1] == pytest.approx(2e6, rel=0.01)

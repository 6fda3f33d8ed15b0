"""Clients of clusters: what cannot be one is told in our words, before anything is tried for long."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sudare.errors import ExtraMissing, InvalidParameter
from sudare.frames.row_reader import placed
from sudare.frames.rows import Rows

ROWS = Rows.held(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("address", "said"),
    [("nonsense", "not the address"), ("tcp://127.0.0.1:99999", "be reached"), ("tcp://127.0.0.1:1", "be reached")],
)
def test_a_cluster_that_is_none(address, said, monkeypatch):
    """It is found out before a client is made, which would go on trying."""
    monkeypatch.setattr("distributed.Client.__init__", lambda *_, **__: pytest.fail("a client was made"))
    with pytest.raises(InvalidParameter, match=said):
        placed(ROWS, address)


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ExtraMissing, match=r"sudare\[consortium\]"):
        placed(ROWS, "tcp://127.0.0.1:1")
    assert placed(ROWS, None).total(len) == 2

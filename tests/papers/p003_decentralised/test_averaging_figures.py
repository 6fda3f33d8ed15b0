"""How averaging converges: what the tables of study 003 must show."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p003_decentralised import averaging_figures as figures
from sudare.report.plots import rendered
from tests.papers.p003_decentralised.table_columns import columns


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_figure_1_4(generator):
    table, panel = figures.figure_1_4(generator)
    found = columns(table)
    assert found["round"] == [5, 10, 20, 30]
    for measured, predicted in zip(found["disagreement left, measured"], found["ν₂^t"], strict=True):
        assert 0 < measured <= predicted
    assert found["ν₂^t"][2] == pytest.approx(0.0317, abs=1e-4)
    assert rendered([panel]).startswith(b"<?xml")


def test_figure_1_5():
    table, panels = figures.figure_1_5(largest=40)
    assert columns(table) == {"b": [1, 2, 3], "paper": [236, 47, 6], "ours": [69, 28, 16]}
    assert rendered(panels).startswith(b"<?xml")


@pytest.mark.long
def test_figure_1_6():
    table, panels = figures.figure_1_6(largest=24)
    found = columns(table)
    assert found["S"] == [10, 11, 12, 23, 24]
    assert [rounds is None for rounds in found["cycle b = 1, ε = 1/d"]] == [True, False, True, False, True]
    assert found["chords"][2] == found["chords"][4] == 0
    assert found["dissemination (exact)"] == [4, 4, 4, 5, 5]
    assert rendered(panels).startswith(b"<?xml")


def test_rounds():
    rows = {row[0]: row[1:] for row in figures.rounds_table().rows}
    assert rows["random 4-regular, Chebyshev"] == (13, 24, 47)
    assert rows["cycle, best step"] == (5735, 11470, 22939)
    assert rows["hypercube, finite time"] == rows["dissemination, every S"] == (7, 7, 7)

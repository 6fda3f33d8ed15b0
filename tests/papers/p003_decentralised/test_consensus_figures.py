"""The consensus part of study 003: what its tables must show."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p003_decentralised import consensus_figures as figures
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.report.plots import rendered


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def columns(table):
    assert all(len(row) == len(table.columns) for row in table.rows)
    return {name: [row[index] for row in table.rows] for index, name in enumerate(table.columns)}


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


def test_breaches(generator):
    table = figures.breach_table(generator, trials=5_000)
    rows = {row[0]: row[1:] for row in table.rows}
    bound, exact, printed, pairs, simulated, composed, pooled = rows["S = 20, d = 4, N_c = 5"]
    assert exact <= bound < simulated < printed
    assert simulated == pytest.approx(pairs, rel=0.3)
    assert composed > 0.95
    assert pooled > exact
    assert rendered([figures.breach_panel()]).startswith(b"<?xml")


def test_the_attack_recovers_every_addend(generator):
    found = columns(figures.attack_table(generator))
    assert found["addends recovered"] == found["of"]
    assert max(found["largest error"]) < 1e-9


def test_figure_1_9_counts(generator):
    found = columns(figures.figure_1_9_counts(generator, repeats=3, members=(5, 10)))
    assert found["dissemination (exact): rounds"] == [3, 4]
    assert found["chunks: rounds"][1].value > 20 * found["dissemination (exact): rounds"][1]


def test_rounds_of_figure_1_9_are_the_fewest(generator):
    values = figures.uniform_values(10, generator)
    rounds = figures.measured_rounds(cycle(10, 2), values)
    states = list(figures.trajectory(values, figures.averaging_plan(cycle(10, 2), "constant", rounds=rounds)))
    mean = values.mean(axis=0)
    assert figures.root_mean_square(states[-1], mean) <= 0.01 < figures.root_mean_square(states[-2], mean)


def test_chains():
    found = columns(figures.chain_table())
    assert found["z for a risk below 0.001: Nakamoto"] == [5, 8, 11, 15, 24, 41, 89, 340]
    assert found["exactly"] == [6, 9, 13, 20, 32, 58, 133, 539]
    assert rendered([figures.chain_figure()]).startswith(b"<?xml")

"""Figures 1.7 and 1.8, γ-pruning and EM over sums, in small."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p003_decentralised import algorithm1_results as figures
from sudare.papers.p003_decentralised.consensus_methods import ConsensusOverLinks, RandomChunking, exact_totals
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.lossy_averaging import Links, dynamic_consensus
from sudare.report.plots import rendered
from tests.papers.p003_decentralised.table_columns import columns


def quiet(_):
    """Tell nobody."""


@pytest.mark.long
def test_figure_1_8_has_the_six_starting_indices(monkeypatch):
    monkeypatch.setattr(figures, "CHAPTER_ROWS", 100)
    table, panels = figures.figure_1_8()
    assert list(table.columns) == ["updates", "member", "1", "2", "3", "4", "5", "6"]
    assert len(table.rows) == 4 * 3
    for row in table.rows[:9]:
        assert sum(weight for weight in row[2:] if weight is not None) == pytest.approx(1)
    assert rendered([figures.figure_1_7(), *panels]).startswith(b"<?xml")


@pytest.mark.long
def test_pruning_is_counted_and_ours_stands_beside(monkeypatch):
    monkeypatch.setattr(figures, "RHOS", (30.0,))
    monkeypatch.setattr(figures, "TEST_ROWS", 200)
    table, panels = figures.pruning_results(2, quiet)
    found = columns(table)
    assert found["updates"] == ["as printed", "(1.61)'s sign put right", "corrected", "ours"]
    assert found["K = 3 found"] == ["2 of 2"] * 4
    assert found["median gap, nats"][0] > 1 > found["median gap, nats"][2] > found["median gap, nats"][3]
    assert rendered(panels).startswith(b"<?xml")


@pytest.mark.long
def test_em_forgives_small_errors_only_where_records_are_centred(monkeypatch):
    monkeypatch.setattr(figures, "EM_RECORDS", 450)
    monkeypatch.setattr(figures, "TEST_ROWS", 200)
    ring = cycle(9, 2)
    rough = RandomChunking(ring, 5, 1e-3)
    assert figures.em_run(exact_totals, 0, 9).apart == 0
    assert figures.em_run(rough, 0, 9).apart > 0.02
    assert figures.em_run(rough, 0, 9, offset=20.0).patterns == 0
    links = Links(ring, loss=0.3)
    lossy, running = (
        figures.em_run(way, 0, 9)
        for way in (ConsensusOverLinks(links, 60, dynamic_consensus), ConsensusOverLinks(links, 60))
    )
    exact = figures.em_run(exact_totals, 0, 9)
    assert abs(running.gap - exact.gap) < 1e-3
    assert running.apart < 1e-2
    assert lossy.gap != pytest.approx(exact.gap, abs=1e-4)


def test_a_small_penalty_prunes_little(monkeypatch):
    monkeypatch.setattr(figures, "TEST_ROWS", 100)
    assert figures.pruned("sign", 1.0, 0).patterns > 3 == figures.pruned("sign", 30.0, 0).patterns


@pytest.mark.long
def test_em_over_sums_has_a_table():
    found = columns(figures.em_over_sums_table(2, quiet, (256,)))
    assert found["ended"][0] == "2 of 2"
    assert found["totals"][-1].startswith("Paillier with 256 bits")
    assert found["ended"][-1] == "1 of 1"


def test_members_that_kept_other_patterns_differ_without_end():
    first, second = (type("State", (), {"alive": np.array(mask)}) for mask in ([True, False], [True, True]))
    model = figures.CollaborativeDictionary()
    model.states_ = [first, second]
    assert figures.disagreement(model) == float("inf")

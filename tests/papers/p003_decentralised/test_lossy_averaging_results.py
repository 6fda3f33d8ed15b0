"""Lost and late messages, in small: only running sums end at the mean on every kind of link."""

from __future__ import annotations

import pytest

from sudare.papers.p003_decentralised import lossy_averaging_results as figures
from sudare.report.plots import rendered
from tests.papers.p003_decentralised.table_columns import columns


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(figures, "MEMBERS", 10)
    monkeypatch.setattr(figures, "ROUNDS", 80)


def test_only_running_sums_survive_all_links():
    found = columns(figures.lost_messages_table(2, lambda _: None))
    assert len(found["links"]) == 11
    assert all(error.value < 1e-3 for error in found["running sums"])
    by_links = dict(zip(found["links"], found["push-sum"], strict=True))
    assert by_links["up to 5 rounds late"].value < 1e-3 < by_links["30 % lost"].value
    consensus = dict(zip(found["links"], found["dynamic consensus (1.27)"], strict=True))
    assert consensus["nothing is lost"].value < 1e-6
    assert all(
        error.value > 1e-3
        for links, error in consensus.items()
        if error is not None and ("lost" in links) != (links == "nothing is lost")
    )
    expected = dict(zip(found["links"], found["dynamic consensus, expected"], strict=True))
    assert 0.1 < consensus["30 % lost"].value / expected["30 % lost"] < 3
    assert [error is None for error in found["gossip"]] == [True] * 9 + [False] * 2


def test_it_is_drawn():
    assert rendered([figures.lost_messages_panel()]).startswith(b"<?xml")

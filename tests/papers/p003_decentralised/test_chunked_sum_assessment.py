"""A proposed consortium: the numbers of an assessment are those of the functions behind it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised import chunked_sum_assessment as module
from sudare.papers.p003_decentralised.chunked_sum_assessment import (
    Proposal,
    assessed,
    breach_by_chunks,
    observed_addends,
    rounds_of,
)
from sudare.papers.p003_decentralised.chunked_sum_plots import assessment_panels
from sudare.papers.p003_decentralised.chunked_sum_risk import coalition_probability
from sudare.papers.p003_decentralised.graphs import complete, cycle, from_edges, hypercube, random_regular
from sudare.report.plots import rendered


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_twenty_members_on_a_cycle(generator):
    found = assessed(Proposal(cycle(20, 2)), 20_000, generator)
    rounds = {each.method: each for each in found.rounds}
    assert rounds["chunks, constant step"].rounds == 5 * rounds["constant step"].rounds == 560
    assert rounds["constant step"].values_sent == 4 * 112
    assert rounds["masks, dissemination"].rounds == 5
    assert [each.method for each in found.rounds if each.exact] == ["finite time", "masks, dissemination"]
    breaches = {each.what: each for each in found.breaches}
    simulated = breaches["anybody: simulated"]
    assert simulated.low < simulated.one_sum < simulated.high
    assert simulated.all_sums == pytest.approx(0.98, abs=0.01)
    assert breaches["a given member: exactly"].one_sum < breaches["a given member: bound (1.34)"].one_sum
    assert breaches["anybody: bound (1.35)"].one_sum == pytest.approx(
        2 * breaches["anybody: bound, pairs once"].one_sum
    )
    assert found.recovered == found.honest == 19
    assert found.masks_hide
    assert json.loads(json.dumps(found.to_dict()))["masks"] == {"rounds": 5, "breach": 0.0, "tolerated_colluders": 18}


def test_colluders_are_told_about(generator):
    graph = random_regular(12, 3)
    found = assessed(Proposal(graph, chunks=4, colluders=3), 5_000, generator)
    pooled = {each.what: each.one_sum for each in found.breaches if "colluders" in each.what}
    assert pooled["a given member, 3 colluders: exactly"] == float(coalition_probability(graph, 3, 4))
    assert pooled["anybody, 3 colluders: simulated"] > pooled["a given member, 3 colluders: exactly"]
    assert found.chain.share == 0.25
    assert found.chain.confirmations_needed == 20


def test_nothing_hides_the_last_honest_member(generator):
    found = assessed(Proposal(cycle(3), colluders=2), 100, generator)
    assert not found.masks_hide
    assert found.to_dict()["masks"]["breach"] == 1.0
    assert found.chain.confirmations_needed is None


def test_finite_time_counts_what_a_member_sends(generator):
    rounds = {each.method: each for each in assessed(Proposal(hypercube(16)), 100, generator).rounds}
    assert (rounds["finite time"].rounds, rounds["finite time"].values_sent) == (4, 4)


def test_partly_observable_graphs_leave_some_addends(generator):
    """Relabelling moves the watcher, so an addend is safe if it was unseen in one chunk."""
    assert 0 < observed_addends(Proposal(hypercube(16), chunks=1), generator) < 15
    assert observed_addends(Proposal(hypercube(16), chunks=30), generator) < 3
    assert observed_addends(Proposal(complete(6), chunks=30), generator) == 5


def test_the_attack_is_left_out_for_many_members(generator, monkeypatch):
    monkeypatch.setattr(module, "MOST_ATTACKED_MEMBERS", 9)
    assert assessed(Proposal(cycle(10)), 100, generator).recovered is None


def test_breaches_fall_with_chunks():
    for values in breach_by_chunks(Proposal(cycle(20, 2), colluders=3), 8).values():
        assert len(values) == 8
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("members", "rounds", "values"), [(2, 1, 1), (3, 2, 2), (7, 3, 4), (8, 3, 3), (20, 5, 5)])
def test_what_masks_cost(members, rounds, values):
    masked = rounds_of(Proposal(complete(members)))[-1]
    assert (masked.rounds, masked.values_sent, masked.exact) == (rounds, values, True)


@pytest.mark.parametrize("graph", [cycle(9), complete(2)], ids=lambda graph: graph.name)
def test_panels(graph, generator):
    panels = assessment_panels(assessed(Proposal(graph), 200, generator))
    assert len(panels) == 4
    assert rendered(panels, columns=2).startswith(b"<?xml")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"chunks": 0}, "chunks"),
        ({"iterations": 0}, "iterations"),
        ({"colluders": 0}, "colluders"),
        ({"colluders": 5}, "nobody is left"),
    ],
)
def test_proposals_that_make_no_sense(options, problem):
    with pytest.raises(InvalidParameter, match=problem):
        Proposal(cycle(5), **options)


def test_a_graph_in_parts_is_refused():
    with pytest.raises(InvalidParameter, match="not connected"):
        Proposal(from_edges("two pairs", 4, [(0, 1), (2, 3)]))

"""Breaches, attacks and chains: what the tables of study 003 must show."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p003_decentralised import chunked_sum_tables as tables
from tests.papers.p003_decentralised.table_columns import columns


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_breaches(generator):
    table = tables.breach_table(generator, trials=5_000)
    rows = {row[0]: row[1:] for row in table.rows}
    bound, exact, printed, pairs, simulated, composed, pooled = rows["S = 20, d = 4, N_c = 5"]
    assert exact <= bound < simulated < printed
    assert simulated == pytest.approx(pairs, rel=0.3)
    assert composed > 0.95
    assert pooled > exact


def test_the_attack_recovers_every_addend(generator):
    found = columns(tables.attack_table(generator))
    assert found["addends recovered"] == found["of"]
    assert max(found["largest error"]) < 1e-9


def test_chains():
    found = columns(tables.chain_table())
    assert found["z for a risk below 0.001: Nakamoto"] == [5, 8, 11, 15, 24, 41, 89, 340]
    assert found["exactly"] == [6, 9, 13, 20, 32, 58, 133, 539]


def test_generals_and_miners():
    found = columns(tables.byzantine_table())
    assert found["traitors withstood"] == [0, 1, 2, 3, 5, 10]
    assert found["messages, all opinions"] == ["6", "36", "1,092", "36,090", "6.4e+07", "7.11e+16"]
    assert all(
        half >= third
        for half, third in zip(
            found["attackers withstood by a proof of work"], found["traitors withstood"], strict=True
        )
    )

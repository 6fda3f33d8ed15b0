"""What sums take: masks send a hundredth of what chunking sends, and are exact."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p003_decentralised import sum_costs
from sudare.papers.p003_decentralised.averaging import averaging_plan, trajectory
from sudare.papers.p003_decentralised.averaging_figures import root_mean_square, uniform_values
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.report.plots import rendered
from tests.papers.p003_decentralised.table_columns import columns


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_figure_1_9_counts(generator):
    found = columns(sum_costs.figure_1_9_counts(generator, repeats=3, members=(5, 10)))
    assert found["dissemination (exact): rounds"] == [3, 4]
    assert found["chunks: rounds"][1].value > 20 * found["dissemination (exact): rounds"][1]


def test_rounds_of_figure_1_9_are_the_fewest(generator):
    values = uniform_values(10, generator)
    rounds = sum_costs.measured_rounds(cycle(10, 2), values)
    states = list(trajectory(values, averaging_plan(cycle(10, 2), "constant", rounds=rounds)))
    mean = values.mean(axis=0)
    assert root_mean_square(states[-1], mean) <= 0.01 < root_mean_square(states[-2], mean)


def test_masks_send_a_hundredth_of_what_chunks_send() -> None:
    table = sum_costs.sums_table(np.random.default_rng(0))
    found = {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert next(iter(found)) == "masks, dissemination"
    for name, row in found.items():
        error, ratio = row["relative error"], row["bits ÷ masks"]
        assert isinstance(ratio, float)
        if "chunks" in name:
            assert ratio >= 100
            assert isinstance(error, float)
            assert 1e-5 < error < 1e-2
        elif "Paillier" in name:
            assert ratio > 10_000
        else:
            assert isinstance(error, float)
            assert error < 1e-9
    assert found["masks, dissemination"]["rounds"] == 4
    # Four values of 64 bits a member and number, the frames of four messages, and nine signed statements on the total.
    assert 256 < float(str(found["masks, dissemination"]["bits a member and number"])) < 280
    # One vector to the collector and one back, and keys, shares, votes and words on the total.
    assert 9 / 10 * 2 * 64 < float(str(found["masks, one may leave (t = 9)"]["bits a member and number"])) < 210


@pytest.mark.parametrize("total", [sum_costs.chunked_total, sum_costs.encrypted_total])
def test_totals_of_figure_1_9_are_as_exact_as_the_chapter_asks(total, generator):
    values = uniform_values(5, generator)
    found, rounds = total(values, cycle(5, 2), 256 if total is sum_costs.encrypted_total else 5, generator)
    # Each of five chunks is within .01, in root mean square, of its mean; sums are five times that.
    assert np.sqrt(np.square(found - values.sum()).mean()) <= 5 * 5 * 0.01
    assert rounds > 1


def test_figure_1_9_has_the_curve_of_paillier(monkeypatch, generator):
    monkeypatch.setattr(sum_costs, "MEMBERS", (5, 20))
    table, panel = sum_costs.figure_1_9(generator, 2, lambda _: None, (256,))
    encrypted = columns(table)["Paillier, 256 bits, new keys"]
    assert encrypted[0].value > columns(table)["5 chunks"][0].value
    assert encrypted[1] is None
    assert rendered([panel]).startswith(b"<?xml")

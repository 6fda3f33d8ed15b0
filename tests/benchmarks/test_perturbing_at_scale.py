"""The benchmark of ten million records, with a few."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import perturbing_at_scale as scale
from benchmarks.resources import Taken, taken_here
from benchmarks.table import PAGE


@pytest.mark.parametrize(
    "case", [name for name in scale.CASES if name not in ("table_written", "whole_way", "received")]
)
def test_every_column_can_be_run(case: str) -> None:
    told = taken_here("benchmarks.perturbing_at_scale", case, {"rows": 200})
    assert told.seconds > 0
    assert told.peak_bytes >= told.bytes_before > 10**7


@pytest.mark.long
def test_the_whole_way_and_back(tmp_path: Path) -> None:
    arguments = {"rows": 500, "folder": str(tmp_path)}
    for case in ("table_written", "whole_way", "whole_way", "received"):
        scale.CASES[case](**arguments)()
    with pytest.raises(RuntimeError, match="another number of rows"):
        scale.CASES["received"](rows=501, folder=str(tmp_path))()


def test_the_peer_is_scaled_and_added_up_over_columns() -> None:
    line = scale.Line("two columns", "whole_way", (scale.Client("subset", 16), scale.Client("subset", 42)))
    ours = [Taken(9.0, 4.0, 100, 300), Taken(7.0, 5.0, 200, 250)]
    peers = [[Taken(1.0, 0.3, 0, 0), Taken(1.0, 0.2, 0, 0)], [Taken(1.0, 0.6, 0, 0)]]
    found = scale.outcome_of(line, 1000, ours, peers)
    assert found.ours_processor_seconds == 4
    assert found.ours_seconds == 7
    assert found.peak_bytes == 300
    assert found.peer_processor_seconds == pytest.approx(scale.PEERS_PART * 0.8)
    assert found.ratio == pytest.approx(scale.PEERS_PART * 0.2)
    alone = scale.outcome_of(scale.Line("alone", "received"), 1000, ours, [])
    assert alone.ratio is None
    assert "| alone | – |" in scale.markdown([found, alone])


def test_the_page_has_a_place_for_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    outcome = scale.outcome_of(scale.Line("a line", "received"), 7, [Taken(1.0, 1.0, 1, 2)], [])
    scale.write_page([outcome], page)
    text = page.read_text("utf-8")
    assert text.count(scale.BEGIN) == text.count(scale.END) == 1
    assert text.partition(scale.BEGIN)[2].partition(scale.END)[0].strip() == scale.markdown([outcome])
    assert text.partition(scale.END)[2] == PAGE.read_text("utf-8").partition(scale.END)[2]

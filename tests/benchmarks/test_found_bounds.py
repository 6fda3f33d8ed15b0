"""The study of found bounds: what is committed, and that it can be run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks import found_bounds
from sudare.statistics.found_bounds import RULE


def test_the_committed_study_is_of_this_rule_and_on_its_page() -> None:
    results = json.loads(found_bounds.RESULTS.read_text("utf-8"))
    assert results["rule"] == json.loads(json.dumps(asdict(RULE)))
    largest = max(each["ratio"] for each in results["columns"].values())
    assert f"The largest ratio is {largest:.2f}" in found_bounds.PAGE.read_text("utf-8")
    assert found_bounds.table(results) in found_bounds.PAGE.read_text("utf-8")


def test_the_study_can_be_repeated(tmp_path: Path) -> None:
    name, column = next(iter(found_bounds.study_columns().items()))
    again = found_bounds.compared(column, 0.1, 0.1, 3, 7)
    committed = json.loads(found_bounds.RESULTS.read_text("utf-8"))["columns"][name]
    assert again["oracle"] == committed["oracle"]
    assert abs(again["ratio"] - committed["ratio"]) < 0.1
    page = tmp_path / "page.md"
    page.write_text(f"before\n{found_bounds.BEGIN}\nold\n{found_bounds.END}\nafter")
    found_bounds.write_page(json.loads(found_bounds.RESULTS.read_text("utf-8")), page)
    assert "old" not in page.read_text()
    assert set(found_bounds.study_columns()).isdisjoint(found_bounds.tuning_columns())

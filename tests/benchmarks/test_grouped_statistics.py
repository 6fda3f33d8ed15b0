"""The benchmark of tables by group: what it measures of ours, and the page it fills."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks import grouped_statistics as grouped
from benchmarks.grouped_statistics import BEGIN, END, PAGE, RESULTS, Compared, Coverage


def test_tables_and_exact_numbers_have_the_same_groups() -> None:
    work = grouped.generated()[1]
    exact = grouped.truth(work, (0.5,))
    first, second = grouped.ours(work, "add-remove", 2, mean_of=["value"])
    assert len(first) == len(exact["count"]) == work.group_count == 12
    assert (first["count"] != second["count"]).any()
    assert np.abs(first["count"] - exact["count"]).max() < 100
    assert set(grouped.coverage(work, 40, 10).shares) == {
        "counts",
        "means",
        "variances",
        "quartiles",
        "quartiles that are exact",
    }


def test_the_page_is_filled(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nnothing yet\n{END}\nafter")
    line = Compared("median", "replace-one", 1.0, {"OpenDP": 2.0})
    grouped.write_page(grouped.markdown([line], [Coverage("table", {"counts": 0.95})], 0.1, 1000, 1000), page)
    assert "| median | replace-one | 1 | 2 | – | – |" in page.read_text()
    assert "nothing yet" not in page.read_text()


def test_the_page_has_the_committed_numbers() -> None:
    found = json.loads(RESULTS.read_text("utf-8"))
    compared = [Compared(**one) for one in found["compared"]]
    covered = [Coverage(**one) for one in found["coverage"]]
    text = grouped.markdown(compared, covered, found["seconds"], found["repeats"], found["repeats_of_quartiles"])
    assert f"{BEGIN}\n\n{text}\n\n{END}" in PAGE.read_text("utf-8")

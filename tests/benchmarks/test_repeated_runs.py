"""What repeated runs cost, as the proof's page says it."""

from __future__ import annotations

import json

import pytest

from benchmarks.repeated_runs import PAGE, RESULTS, measured, with_table


def test_the_page_has_the_committed_numbers() -> None:
    rows = json.loads(RESULTS.read_text("utf-8"))
    page = PAGE.read_text("utf-8")
    assert with_table(page, rows) == page
    assert all(row["after"] < row["before"] for row in rows)


@pytest.mark.long
def test_the_committed_numbers_are_what_comes_out() -> None:
    for found, committed in zip(measured(), json.loads(RESULTS.read_text("utf-8")), strict=True):
        assert found["after"] == pytest.approx(committed["after"], rel=1e-3)

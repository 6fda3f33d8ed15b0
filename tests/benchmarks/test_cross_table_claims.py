"""What is committed of cross tables: their errors, and the level of the test of independence."""

from __future__ import annotations

import json

from benchmarks.panel import cross_tables, independence_level
from benchmarks.panel.tuning_and_judging import names


def test_the_pages_tell_what_the_files_say() -> None:
    errors = json.loads(cross_tables.RESULTS.read_text("utf-8"))
    page = cross_tables.PAGE.read_text("utf-8")
    assert cross_tables.with_table(page, errors) == page
    rejected = json.loads(independence_level.RESULTS.read_text("utf-8"))
    page = independence_level.PAGE.read_text("utf-8")
    assert independence_level.with_table(page, rejected) == page


def test_the_committed_cases_are_those_of_the_command() -> None:
    errors = json.loads(cross_tables.RESULTS.read_text("utf-8"))["rows"]
    cases = cross_tables.cases("judging")
    assert [(row["table"], *row["columns"], row["records"], row["laws"]) for row in errors] == [
        (case.table, *case.columns, case.records, case.laws) for case in cases
    ]
    for half in ("tuning", "judging"):
        assert {case.table for case in cross_tables.cases(half)} <= names(half)


def test_no_table_is_noticeably_worse_than_the_product_of_its_margins() -> None:
    """Beyond two standard errors at most a tenth of a hundredth, and nowhere by more than three."""
    for row in json.loads(cross_tables.RESULTS.read_text("utf-8"))["rows"]:
        assert row["gap"] < max(0.15, 3 * row["standard error"]), row


def test_both_studies_can_be_repeated() -> None:
    case = next(case for case in cross_tables.cases("judging") if case.records == 300)
    row = case.row(draws=2)
    assert row["table"] == case.table
    assert row["shrunk"] < row["product"] + 1
    together = independence_level.Case("two categories of twenty values, most of them rare", 400, 0.9)
    assert max(together.p_values(0)) < 1e-3 + 1e-9
    assert independence_level.Case("two numbers", 50).p_values(1)[0] > 0.001

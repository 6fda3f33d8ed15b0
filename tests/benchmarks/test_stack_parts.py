"""What parts of a stack cost, on the page as in the committed file."""

from __future__ import annotations

import json

from benchmarks import stack_parts
from benchmarks.page_parts import with_part


def test_the_page_has_the_committed_numbers() -> None:
    page, rows = stack_parts.PAGE.read_text("utf-8"), json.loads(stack_parts.RESULTS.read_text("utf-8"))
    assert with_part(page, stack_parts.PART, stack_parts.table(rows)) == page


def test_every_way_is_measured(monkeypatch) -> None:
    monkeypatch.setattr(stack_parts.detection, "TRIED", 1)
    found = stack_parts.areas(5.0, 7)
    assert list(found) == [stack_parts.ALONE, *stack_parts.NAMES, stack_parts.STACK]
    assert all(set(each) == set(stack_parts.detection.FAULTS) for each in found.values())

"""How well parts of a stack find faults: on the page as in the committed file, and measured for every one."""

from __future__ import annotations

import json

from benchmarks import density_stack_parts
from benchmarks.page_parts import with_part


def test_the_page_has_the_committed_numbers() -> None:
    page, rows = density_stack_parts.PAGE.read_text("utf-8"), json.loads(density_stack_parts.RESULTS.read_text("utf-8"))
    assert with_part(page, density_stack_parts.PART, density_stack_parts.table(rows)) == page


def test_every_way_is_measured(monkeypatch) -> None:
    monkeypatch.setattr(density_stack_parts.detection, "TRIED", 1)
    found = density_stack_parts.areas(5.0, 7)
    assert list(found) == [density_stack_parts.ALONE, *density_stack_parts.NAMES, density_stack_parts.STACK]
    assert all(set(each) == set(density_stack_parts.detection.FAULTS) for each in found.values())

"""Costs of consortium-wide learning on their page: those of the committed file, and pieces times how often."""

from __future__ import annotations

import json

import pytest

from benchmarks import scale
from benchmarks.page_parts import with_part


def test_the_page_has_what_was_measured() -> None:
    costs = json.loads(scale.RESULTS.read_text("utf-8"))
    page = scale.PAGE.read_text("utf-8")
    assert scale.pieces_table(costs) in page
    assert scale.together_table(costs) in page


def test_pieces_are_multiplied() -> None:
    costs = dict.fromkeys(json.loads(scale.RESULTS.read_text("utf-8")), 1e-6)
    lines = scale.together_table({**costs, scale.FIRST_MASK: 5e-5}).splitlines()
    assert lines[2] == "| reading and bounding 10⁵ rows, once (then in memory) | 0.2 s | 0.2 s |"
    assert lines[3] == "| sums over own rows | 0.1 s | 20 s |"
    assert lines[5] == "| key agreement with 9,999 peers, once | 0.49 s | 0.49 s |"
    assert lines[8] == "| ⌈log₂ 10,000⌉ = 14 rounds a sum at 60 ms | 1.7 s | 2.8 minutes |"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(4e-8, "0.04 µs"), (7.2e-4, "0.72 ms"), (0.8, "0.8 s"), (99.0, "99 s"), (210.0, "3.5 minutes")],
)
def test_durations_have_a_unit_that_suits_them(seconds: float, told: str) -> None:
    assert scale.duration(seconds) == told


def test_a_part_is_replaced_and_a_page_without_it_is_refused() -> None:
    page = "before\n<!-- a part: written by x -->\nold\n<!-- end of a part -->\nafter"
    assert with_part(page, "a part", "new").splitlines()[3] == "new"
    with pytest.raises(LookupError, match="another"):
        with_part(page, "another", "new")

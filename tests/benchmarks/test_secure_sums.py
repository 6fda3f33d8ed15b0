"""The benchmark of secure sums, among a few members."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import secure_sums, secure_sums_page
from benchmarks.secure_sums import Sizes
from benchmarks.secure_sums_cost import Cost
from benchmarks.secure_sums_page import BEGIN, END, PAGE, PICTURE, RESULTS, costs_read, table
from sudare.sums.messages import Advertised, Dealt, Masked, Voted

OURS = Cost("sudare", 100, 1_000, 98, 66, 5, 0.5, 20_000, 30_000, 2.0, 3_000_000, "all run it.", 0.25, 10_000)
PEER = Cost("flower", 100, 1_000, 98, 66, 5, 1.5, 78_000, 117_000, 79.0, 11_700_000, "a sample runs it.")


def test_a_small_sum_is_measured_and_exact() -> None:
    cost = secure_sums.run_cost(Sizes(members=14, numbers=20, leaving=4, dishonest=2), sample=3)
    assert (cost.members, cost.numbers, cost.degree, cost.threshold, cost.leaving) == (14, 20, 13, 10, 4)
    assert 0 < cost.certificate_seconds < cost.member_seconds
    assert 0 < cost.certificate_bytes < cost.member_bytes_received
    assert cost.collector_seconds > 0
    # What the collector sends is what members receive; four of them leave earlier.
    assert 10 * cost.member_bytes_received / 2 < cost.collector_bytes_sent < 14 * cost.member_bytes_received


def test_a_total_that_is_not_the_sum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = secure_sums.collector.opened_total
    monkeypatch.setattr(
        secure_sums.collector, "opened_total", lambda participant, state: opened(participant, state) + np.uint64(1)
    )
    with pytest.raises(RuntimeError, match="not the exact sum"):
        secure_sums.run_cost(Sizes(members=6, numbers=3, leaving=1, dishonest=0), sample=1)


def test_most_leave_after_dealing_and_some_in_every_other_round() -> None:
    last = secure_sums.last_messages_of(500)
    assert last.count(Dealt) == 450
    assert {each: last.count(each) for each in (None, Advertised, Masked, Voted)} == {
        None: 13,
        Advertised: 13,
        Masked: 12,
        Voted: 12,
    }


def test_flower_has_no_more_neighbours_than_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, int]] = []
    monkeypatch.setattr(secure_sums, "flower_cost", lambda **sizes: asked.append(sizes) or PEER)
    for degree, members in ((55, 10_000), (46, 1_000), (99, 100)):
        changed = {**vars(OURS), "degree": degree, "members": members}
        secure_sums.cost_of_flower(Cost(**changed))
    assert [each["degree"] for each in asked] == [54, 46, 99]


def test_the_page_shows_what_was_measured(tmp_path: Path) -> None:
    page, image = tmp_path / "page.md", tmp_path / "picture.svg"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    secure_sums_page.write_page([OURS, PEER], page, image)
    text = page.read_text("utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table([OURS, PEER])
    assert "| 100 | 98 | 66 | 0.5 s | 0.25 s | 20 kB | 30 kB | 20 kB | 2 s | 3 MB |" in text
    assert "flower ÷ sudare | 3 " in text
    assert image.read_bytes().startswith(b"<?xml")


def test_the_page_and_its_picture_are_those_of_the_last_run() -> None:
    costs = costs_read(RESULTS)
    assert PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip() == table(costs)
    assert PICTURE.read_bytes().startswith(b"<?xml")
    largest = max((each for each in costs if each.who == "sudare"), key=lambda each: each.members)
    # What was asked for: at ten thousand members at most 1 MB sent.
    assert largest.members == 10_000
    assert largest.member_bytes_sent <= 1e6

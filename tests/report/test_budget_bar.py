"""Bars never show less than was spent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sudare.report.budget_bar import BAR_WIDTH, BudgetBar, entry_cells

BAR = BudgetBar("patients-2026", 1.5, 3.0, 1e-6, 1e-6, 3)


def test_the_line_of_the_story() -> None:
    bar = BudgetBar("patients-2026", 1.5, 3.0, 0.0, 1e-6, 3)
    assert bar.line() == "patients-2026  ████████░░░░░░░  ε 1.5 of 3.0   δ 0 of 1e-6   3 entries"


def test_delta_can_be_what_is_used_up() -> None:
    assert BAR.share == 1.0
    assert BAR.blocks == "█" * BAR_WIDTH


@given(st.floats(min_value=0, max_value=3.0))
def test_blocks_cover_what_was_spent(spent: float) -> None:
    full = BudgetBar("a", spent, 3.0, 0.0, 0.0, 1).blocks.count("█")
    assert full * 3.0 >= min(spent, 3.0 * (BAR_WIDTH - 1) / BAR_WIDTH) * BAR_WIDTH * (1 - 1e-9)
    assert (full == 0) == (spent == 0)
    assert (full == BAR_WIDTH) == (spent >= 3.0)


def test_from_exported_terms() -> None:
    terms = {"epsilon": "3", "delta": "1/1000000", "neighbours": "replace-one", "unit": "person"}
    bar = BudgetBar.from_terms("patients", terms, (1.5, 0.0), 1)
    assert bar == BudgetBar("patients", 1.5, 3.0, 0.0, 1e-6, 1, "replace-one person")
    assert bar.entries_text == "1 entry"
    assert BudgetBar("a", 0.0, 1.0, 0.0, 0.0, 1).delta_text == "δ 0 of 0"


def test_entries_as_a_steward_reads_them() -> None:
    entry = {"position": 2, "time": "2026-11-15T05:19:11+00:00", "account": "patients"}
    cost = {"epsilon": "1/2", "delta": "0", "mu": None, "total_variation": "0"}
    charge = entry_cells({**entry, "kind": "charge", "body": {"what": "PrivateMean", "cost": cost}})
    assert charge == ("2", "charge", "PrivateMean", "0.5", "0", "2026-11-15 05:19:11 UTC")
    opened = entry_cells({**entry, "kind": "open", "body": {"epsilon": "3", "delta": "1/1000000"}})
    assert opened[1:5] == ("open", "budget", "3.0", "1e-6")
    raised = entry_cells({**entry, "kind": "raise", "body": {"epsilon": "4", "delta": "0", "reason": "a study"}})
    assert raised[1:5] == ("raise", "a study", "4.0", "0")
    released = entry_cells({**entry, "kind": "release", "body": {"charge": 2, "content": "ab"}})
    assert released[1:5] == ("release", "file of entry 2", "–", "–")
    result = entry_cells({**entry, "kind": "result", "body": {"charge": 2, "learner": "PrivateMean"}})
    assert result[1:5] == ("result", "PrivateMean of entry 2", "–", "–")
    body = {
        "request": "63dad351",
        "event": "approved",
        "who": "mori",
        "what": "mean of table 'visits'",
        "purpose": "for the board",
    }
    asked = entry_cells({**entry, "kind": "request", "body": body})[2]
    assert asked == "request 63dad351 approved by mori: mean of table 'visits', because: for the board"
    of_events = {
        "asked": ("asked by mori: mean of table 'visits', for: ", "目的："),
        "done": ("of mori done: mean of table 'visits', file ", "ファイル："),
        "failed": ("of mori failed: mean of table 'visits' (", "失敗"),
    }
    for event, (english, japanese) in of_events.items():
        line = {**entry, "kind": "request", "body": {**body, "event": event}}
        assert f"request 63dad351 {english}" in entry_cells(line)[2]
        assert japanese in entry_cells(line, "ja")[2]
        assert "理由" not in entry_cells(line, "ja")[2]
    bound = entry_cells({**entry, "kind": "bind", "body": {"source": "/data/a.csv", "files": []}})
    assert bound[1:5] == ("bind", "source /data/a.csv", "–", "–")
    shown = entry_cells({**entry, "kind": "disclosure", "body": {"what": "a sum", "numbers": 3}})
    assert shown[1:5] == ("disclosure", "a sum", "–", "–")

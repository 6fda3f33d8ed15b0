"""The panel's page tells what panel.json holds, and runs are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.panel import __main__ as panel
from benchmarks.panel.linear_claims import summary_of_ridge

ROW = {"table": "line", "epsilon": 1.0, "delta": 0.0, "rows": 100, "outside": 0, "centred": 0.5, "binned": 0.4}


def test_the_page_tells_what_the_results_tell() -> None:
    page = panel.PAGE.read_text()
    assert page == panel.with_table(page, json.loads(panel.RESULTS.read_text())), "Run python -m benchmarks.panel"


def test_only_the_judging_half_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(half: str) -> list[dict[str, object]]:
        asked.append(half)
        return [ROW]

    monkeypatch.setattr(panel, "RESULTS", tmp_path / "panel.json")
    monkeypatch.setattr(panel, "PAGE", tmp_path / "panel.md")
    monkeypatch.setattr(panel, "CLAIMS", {"ridge": panel.Claim("Ridge", measure, summary_of_ridge)})
    panel.PAGE.write_text(f"{panel.BEGIN}\n{panel.END}\n")
    for half in (["--tuning"], [], []):
        panel.main(["--only", "ridge", *half])
    assert asked == ["tuning", "judging", "judging"]
    assert json.loads(panel.RESULTS.read_text())["ridge"]["judged"] == 2
    assert "run 2 times" in panel.PAGE.read_text()

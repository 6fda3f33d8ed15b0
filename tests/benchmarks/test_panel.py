"""The panel's page tells what panel.json holds, and runs are counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.panel import __main__ as panel
from benchmarks.panel.linear_choices import Compared, true_gaps
from benchmarks.panel.linear_claims import balanced_recall, summary_of_ridge
from benchmarks.panel.tuning_and_judging import tables
from sudare.linear import PrivateLogisticRegression

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


def test_the_encoding_that_ridge_takes_is_compared_with_both() -> None:
    rows = [ROW | {"auto": "binned"}, ROW | {"auto": "centred"}, ROW | {"auto": "centred", "binned": 0.6}]
    told = summary_of_ridge(rows)
    assert told["auto's encoding more than .02 below centred"] == "1 of 3"
    assert told["auto's encoding more than .02 below the better one"] == "2 of 3"
    assert told["mean R², the encoding that auto takes"] == "0.467"
    assert not any("auto" in word for word in summary_of_ridge([ROW]))


def test_recall_of_balanced_decisions_is_that_of_models_with_base_rates() -> None:
    (table,) = (each for each in tables("tuning", "label") if each.name == "very rare label")
    fit, test = table.fit_and_test(0, 3000)
    found = []
    for method in ("objective", "statistics"):
        model = PrivateLogisticRegression(60.0, schema=table.schema, encoding="binned", method=method, random_state=0)
        found.append(balanced_recall(model.fit(fit), fit, test, table))
        assert (model.base_rates_ is None) == (method == "objective")
    assert min(found) > 0.6


def test_gaps_are_not_those_of_the_luckiest_method() -> None:
    """Three methods alike but for noise have no gap in expectation; one that is better by .05 has that."""
    random = np.random.default_rng(0)
    noise = [{method: list(random.normal(0.7, 0.02, 40)) for method in ("a", "b", "c")} for _ in range(40)]
    alike = [Compared("", "binned", 1.0, areas, "a") for areas in noise]
    luckiest = np.mean([max(np.mean(each) for each in areas.values()) - np.mean(areas["a"]) for areas in noise])
    found = true_gaps(alike)
    assert abs(found["mean gap"]) < 3 * found["its standard error"] < luckiest
    worse = [Compared("", "binned", 1.0, areas | {"d": [each - 0.05 for each in areas["a"]]}, "d") for areas in noise]
    assert true_gaps(worse)["mean gap"] == pytest.approx(0.05, abs=0.005)
    assert true_gaps(worse)["above .01 by two standard errors"] == 40

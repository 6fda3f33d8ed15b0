"""Peers on the panel: they are asked for the promise that is ours, and the table tells what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.panel import peer_claims
from benchmarks.panel.tuning_and_judging import tables
from sudare.privacy.accounting import gaussian_mu_within
from sudare.schema import Schema


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_boosting_is_asked_for_our_promise(epsilon: float) -> None:
    """A replaced row moves the counts in bins by √2 and sums of residuals by 2, where an added one moves both by 1."""
    asked = peer_claims.boosting_epsilon(epsilon, 1e-6)
    assert 0.5 * epsilon < asked < epsilon
    bins, sums = peer_claims.exact_mu(0.1 * asked, 5e-7), peer_claims.exact_mu(0.9 * asked, 5e-7)
    assert np.sqrt(2 * bins**2 + 4 * sums**2) == pytest.approx(gaussian_mu_within(epsilon, 1e-6), rel=1e-4)


def test_every_case_has_its_promise_and_only_two_classes_are_boosted() -> None:
    chosen = {table.name: table for table in tables("tuning", "label")}
    for name, classes, boosted in (("spiked amounts", 2, 4), ("iris", 3, 0)):
        cases = peer_claims._cases(Schema(dict(chosen[name].schema.features)), classes)
        found = [case for whose, _, case in cases.values() if whose == peer_claims.BOOSTING and case["seed"] == 0]
        assert len(found) == boosted
        for whose, promises, case in cases.values():
            if whose != peer_claims.BOOSTING:
                assert promises == tuple((case["epsilon"], delta) for delta in peer_claims.DELTAS)


def test_categories_are_places_of_their_levels() -> None:
    table = next(table for table in tables("tuning", "label") if table.name == "spiked amounts")
    fit, _ = table.fit_and_test(0, 50)
    features = Schema(dict(table.schema.features))
    numbers = peer_claims._as_numbers(features, fit)
    jobs = features.features["job"].levels  # type: ignore[union-attr]
    assert [jobs[int(place)] for place in numbers[:, 3]] == fit["job"].tolist()


def test_the_table_compares_on_the_tables_that_were_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_claims, "DELTAS", (1e-6,))
    monkeypatch.setattr(peer_claims, "EPSILONS", (1.0,))
    told = {"auc": 0.5, "log_loss": 1.0}
    peers = dict.fromkeys(peer_claims.DIFFPRIVLIB.values(), told)
    rows = [{"table": name, "epsilon": 1.0, "delta": 1e-6, **peers} for name in ("two", "three")]
    rows[0][peer_claims.BOOSTING] = {"auc": 0.7, "log_loss": 0.6}
    ours = [
        {"table": name, "epsilon": 1.0, "delta": 1e-6, "auto": {"auc": area, "log_loss": 0.4}}
        for name, area in (("two", 0.8), ("three", 0.9))
    ]
    lines = peer_claims.beside_auto(rows, ours)
    assert lines[4] == "| 1e-06 | 1 | 0.850 | 0.500 | 0.500 | 2 | 0.800 | 0.700 | 1 |"
    assert peer_claims.summary_of_peers(rows)["cases, DP-EBM"] == 1


def test_peers_are_handed_files_and_answer_with_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a peer's side that writes down what it was asked."""

    def answered(command: list[str], input: str, **_: object) -> None:
        import json

        asked = json.loads(input)
        rows = np.load(asked["rows"])["columns test, 0"]
        np.savez(asked["answers"], **dict.fromkeys(asked["cases"], rows[:, :1]))

    monkeypatch.setattr(peer_claims.subprocess, "run", answered)
    monkeypatch.setattr(peer_claims, "peer_python", lambda: "python")
    found = peer_claims._answers({"columns test, 0": np.eye(2)}, {"one": {}}, 2)
    assert found["one"].tolist() == [[1.0], [0.0]]

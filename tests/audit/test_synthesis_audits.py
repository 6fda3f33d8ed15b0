"""Audits of synthetic tables hold, and are tight."""

from __future__ import annotations

import json

import pytest

from sudare.audit.registry import run_audit


@pytest.mark.parametrize("name", ["PrivateSynthesizer-marginals", "PrivateSynthesizer-microaggregation"])
def test_synthetic_tables_hold_and_are_tight_by_the_law(name: str) -> None:
    report = run_audit(name, samples=200, epsilons=[1.0])
    assert report.holds, json.dumps(report.to_dict())
    for comparison in report.comparisons:
        assert comparison.computed is not None
        assert 0.999 * comparison.claimed.epsilon <= comparison.computed <= comparison.claimed.epsilon

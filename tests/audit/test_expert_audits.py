"""The audit of released combinations holds, and is tight by the law."""

from __future__ import annotations

import json

from sudare.audit.registry import run_audit


def test_draws_of_experts_hold_and_are_tight_by_the_law() -> None:
    report = run_audit("PrivateExponentialWeights", samples=100, epsilons=[1.0])
    assert report.holds, json.dumps(report.to_dict())
    (comparison,) = report.comparisons
    assert comparison.computed is not None
    assert 0.9 <= comparison.computed <= 1.0

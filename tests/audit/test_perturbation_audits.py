"""Audits of perturbations of one value hold, and are tight."""

from __future__ import annotations

import pytest

from sudare.audit.registry import run_audit


@pytest.mark.parametrize(
    "name", ["LaplacePerturbation", "SquareWave", "RetainReplace", "UnaryEncoding", "SubsetSelection"]
)
def test_perturbations_of_one_value_hold_and_are_tight_by_the_law(name: str) -> None:
    report = run_audit(name, samples=2000)
    assert report.holds
    for comparison in report.comparisons:
        assert comparison.claimed.notion == "local"
        assert comparison.computed is not None
        assert 0.999 * comparison.claimed.epsilon <= comparison.computed <= comparison.claimed.epsilon

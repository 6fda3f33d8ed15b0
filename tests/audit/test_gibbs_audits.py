"""Audits of Gibbs posteriors hold, and their laws are near the claim."""

from __future__ import annotations

import json

import pytest

from sudare.audit.registry import run_audit


@pytest.mark.parametrize("name", ["GibbsLogisticRegression", "GibbsRidge", "GibbsMean"])
def test_gibbs_posteriors_hold_and_spend_most_of_the_claim(name: str) -> None:
    (comparison,) = run_audit(name, samples=100, epsilons=[1.0]).comparisons
    assert comparison.holds, json.dumps(comparison.to_dict())
    assert comparison.claimed.delta == 1e-6
    assert comparison.computed is not None
    assert 0.7 < comparison.computed <= 1.0

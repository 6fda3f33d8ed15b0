"""Canaries in noisy descent: the product's claim stands, and bugs that were shipped somewhere are caught.

A right descent is refuted with probability at most 1e-6: bounds are made at that confidence, for claims at δ = 1e-9, because no
evidence is surer than δ (tests/audit/test_canaries.py). Twins differ in nothing but the bug.
"""

from __future__ import annotations

import numpy as np
import pytest

from sudare.audit.epsilon_lower_bounds import DEFAULT_CONFIDENCE
from sudare.papers.p002_networks.canaries import Trial, audit_of_training, planted
from tests.guarantees.canary_twins import (
    audit_of_sums,
    audit_of_turning,
    clipped_after_averaging,
    clipped_batch_sum,
    clipped_rows,
)

CLAIM = Trial(canaries=1000, bystanders=200, epsilon=1.0, delta=1e-9, max_iter=12)
TWO_LAYERS = Trial(canaries=1000, bystanders=200, epsilon=1.0, delta=1e-9, max_iter=12, hidden_layer_sizes=(24,))
NO_NOISE = 1e-6


def test_the_products_descent_keeps_its_claim():
    audit = audit_of_training(CLAIM, np.random.default_rng(1), DEFAULT_CONFIDENCE)
    assert audit.holds, str(audit)


def test_a_weak_claim_is_seen_in_part():
    """The audit is not blind: at ε = 20 a thousand canaries show more than ε = 1, at odds of 1e-6 against."""
    weak = Trial(canaries=1000, bystanders=200, epsilon=20.0, delta=1e-9, max_iter=12)
    audit = audit_of_training(weak, np.random.default_rng(2), DEFAULT_CONFIDENCE)
    assert audit.holds, str(audit)
    assert audit.epsilon_lower_bound > 1.0, str(audit)


@pytest.mark.parametrize(
    ("summed", "noise", "right"),
    [(clipped_rows, 1.0, True), (clipped_rows, NO_NOISE, False), (clipped_after_averaging, 1.0, False)],
    ids=["rows clipped", "no noise", "clipped after averaging"],
)
def test_only_bugs_are_found_in_one_run(summed, noise, right):
    audit = audit_of_sums(TWO_LAYERS, summed, np.random.default_rng(3), DEFAULT_CONFIDENCE, noise)
    assert audit.holds == right, str(audit)


@pytest.mark.parametrize(
    ("summed", "right"),
    [(clipped_rows, True), (clipped_batch_sum, False), (clipped_after_averaging, False)],
    ids=["rows clipped", "batch sum clipped", "clipped after averaging"],
)
def test_only_bugs_are_found_in_many_runs_of_two_rows(summed, right):
    """A clipped sum turns around when a stronger row comes: twice the claimed distance."""
    audit = audit_of_turning(summed, mu=2.0, delta=1e-5, runs=4000, seed=4, confidence=DEFAULT_CONFIDENCE)
    assert audit.holds == right, str(audit)
    # A right mechanism shows most of what it claims here, so the audit could have seen more.
    assert audit.tightness > 0.5


def test_canaries_have_columns_of_their_own():
    start = ((np.zeros(CLAIM.sizes), np.array([0.0, 1.0])),)
    rows = planted(CLAIM, start, np.random.default_rng(5))
    # Class 0 is what this start thinks least likely.
    assert rows.canary_targets[:, 0].all()
    own = rows.canaries[:, -1000:]
    assert np.array_equal(own > 0, np.eye(1000, dtype=bool))
    assert len(rows.rows) == 200 + rows.included.sum()
    assert 400 < rows.included.sum() < 600
    assert np.array_equal(rows.rows[200:], rows.canaries[rows.included])

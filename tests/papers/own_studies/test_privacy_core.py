"""The study of the privacy core, on tiny settings."""

from __future__ import annotations

import math
import os

import numpy as np
import pandas as pd
import pytest

from sudare.papers import Estimate
from sudare.papers.own_studies import privacy_core as core
from sudare.papers.own_studies.privacy_core import STUDY, composed, error_point, event_shares, leak
from sudare.privacy.accounting import gaussian_cost, gaussian_delta, pure_cost

QUIET = lambda text: None  # noqa: E731


def test_expected_errors_against_sums_over_the_laws() -> None:
    z = np.arange(-4000, 4001)
    weights = np.exp(-np.abs(z) * 0.5 / 2)
    assert core.expected_laplace_count_error(2.0, 0.5) == pytest.approx((weights * np.abs(z)).sum() / weights.sum())
    error = core.expected_gaussian_error(1.5, 0.5, 1e-6)
    mu = 1.5 * math.sqrt(2 / math.pi) / error
    assert gaussian_delta(mu, 0.5) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_errors_are_what_theory_expects(delta: float) -> None:
    ages = np.random.default_rng(0).integers(17, 90, 500).astype(float)
    point = error_point(ages, 1.0, delta, 60, QUIET)
    # Means of 60 absolute errors: six standard errors and a factor for their own noise; wrong once in 10⁶ at most.
    assert abs(point.mean.value - point.mean_theory) < 6 * 1.5 * point.mean_theory / math.sqrt(60)
    assert abs(point.count.value - point.count_theory) < 6 * 1.5 * point.count_theory / math.sqrt(60)
    assert isinstance(point.mean, Estimate)
    assert point.mean.repeats == 60


def test_numpy_noise_is_given_away_and_ours_is_not() -> None:
    naive, ours = leak(1.0, 4000)
    assert not naive.holds
    assert event_shares(naive)[0] > 15
    assert event_shares(naive)[1] == 0
    # The bound of an honest mechanism exceeds the claim once in 10⁶ runs at most.
    assert ours.holds


@pytest.mark.parametrize("cost", [gaussian_cost(0.1, 1e-8), pure_cost(0.05)])
def test_composition_is_ordered(cost: core.Cost) -> None:
    plain, filtered, batch = composed(cost, 100)
    assert batch <= filtered * 1.001
    assert filtered < plain
    assert composed(cost, 1)[1] <= float(cost.epsilon) * 1.001


def test_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ages = np.random.default_rng(0).integers(17, 90, 200)
    monkeypatch.setattr(core, "data", lambda name: pd.DataFrame({"age": ages}))
    monkeypatch.setattr(core, "EPSILONS", (0.1, 1.0))
    monkeypatch.setattr(core, "LEAK_EPSILONS", (1.0,))
    monkeypatch.setattr(core, "LEAK_SAMPLES", 400)
    monkeypatch.setattr(core, "CHARGES", (1, 5))
    told: list[str] = []
    result = STUDY.run(told.append, STUDY.settings(2))
    assert told
    assert [len(table.rows) for table in result.tables] == [4, 1, 2]
    for table in result.tables:
        assert "eplace-one" in table.says
        assert "δ" in table.says + "".join(table.columns)
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert sum(len(figure.panels) for figure in result.figures) == 4


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("SUDARE_DATA"), reason="SUDARE_DATA is not set")
def test_on_adult() -> None:
    result = STUDY.run(QUIET, STUDY.settings(10))
    assert "32,561 rows" in result.tables[0].says

"""Which sensor is at fault and ρ₀ by detection, in small."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p003_decentralised import anomaly_attribution_results as figures
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth
from tests.papers.p003_decentralised.table_columns import columns


def quiet(_):
    """Tell nobody."""


@pytest.mark.long
def test_the_shifted_sensor_is_blamed(monkeypatch):
    monkeypatch.setattr(figures, "FAULTS", 60)
    found = columns(figures.fault_table(2, quiet))
    far = dict(zip(found["blame"], found["shifted by 5 deviations"], strict=True))
    assert all(share.value > 0.7 for share in far.values())
    near = dict(zip(found["blame"], found["shifted by 2 deviations"], strict=True))
    assert near["compensation of single variables"].value > near["−ln p(x_i) alone"].value


def test_a_variable_by_itself_has_the_mixtures_own_law():
    model, records = chapter_truth().model(0), np.linspace(-8, 13, 4001)[:, np.newaxis].repeat(4, axis=1)
    densities = np.exp(-figures.marginal_surprise(model, records))
    np.testing.assert_allclose(densities.sum(axis=0) * (21 / 4000), 1, atol=1e-3)


@pytest.mark.long
def test_labelled_faults_choose_a_penalty(monkeypatch):
    monkeypatch.setattr(figures, "RHOS", (3.0, 300.0))
    found = columns(figures.rho_table(2, quiet))
    areas = dict(zip(found["dictionary"], found["AUC, mean of the members"], strict=True))
    assert areas["ρ₀ by labelled faults"].value == pytest.approx(areas["ρ₀ = 3"].value)
    assert areas["ρ₀ = 3"].value > areas["ρ₀ = 300"].value
    assert areas["ours, by BIC without labels"].value > areas["ρ₀ = 3"].value

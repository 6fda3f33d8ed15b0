"""The study of paper 001 on tiny settings."""

from __future__ import annotations

import numpy as np

from sudare.papers import load_study
from sudare.papers import p001_gibbs_posteriors as posterior
from sudare.papers.p001_gibbs_posteriors import accuracy, samplers
from sudare.papers.study import result_values
from tests.papers.made_up_tables import made_up_adult

QUIET = lambda text: None  # noqa: E731


def test_a_whole_run(monkeypatch):
    generator = np.random.default_rng(6)
    tables = {"adult-train": made_up_adult(300, generator), "adult-test": made_up_adult(150, generator)}
    monkeypatch.setattr(accuracy, "data", tables.get)
    monkeypatch.setattr(accuracy, "EPSILONS", (0.5, 2.0))
    monkeypatch.setattr(posterior, "CANCER_FACTOR", 1)
    plain = samplers.synthetic_rows
    monkeypatch.setattr(samplers, "synthetic_rows", lambda count, width: plain(200, 3))
    monkeypatch.setattr(samplers, "census_rows", lambda: plain(200, 3))
    study = load_study("001")
    assert study.repeats >= 10
    result = study.run(QUIET, study.settings(2))
    assert len(result.tables) == 6
    assert sum(len(figure.panels) for figure in result.figures) == 4
    for table in result.tables:
        assert "replace-one" in table.says.lower()
        assert all(len(row) == len(table.columns) for row in table.rows)
    values = result_values("001", study, result, study.settings(2))
    assert values["tables"][4]["rows"][0][1]["repeats"] == 2

"""The study of paper 001 on tiny settings."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers import p001_gibbs_posteriors as posterior
from sudare.papers.p001_gibbs_posteriors import accuracy, samplers
from sudare.papers.study import result_values
from tests.papers.made_up_tables import made_up_adult

QUIET = lambda text: None  # noqa: E731


@pytest.mark.parametrize(("quick", "count"), [(False, 12), pytest.param(True, 11, marks=pytest.mark.long)])
def test_a_whole_run(quick, count, monkeypatch):
    generator = np.random.default_rng(6)
    tables = {"adult-train": made_up_adult(300, generator), "adult-test": made_up_adult(150, generator)}
    monkeypatch.setattr(accuracy, "data", tables.get)
    monkeypatch.setattr(accuracy, "EPSILONS", (0.5, 2.0))
    monkeypatch.setattr(posterior, "SMALL_FACTOR", 1)
    plain = samplers.synthetic_rows
    monkeypatch.setattr(samplers, "synthetic_rows", lambda count, width: plain(200, 3))
    monkeypatch.setattr(samplers, "census_rows", lambda: plain(200, 3))
    study = load_study("001")
    assert study.repeats >= 10
    settings = study.settings(2, quick=quick)
    result = study.run(QUIET, settings)
    assert len(result.tables) == count
    assert sum(len(figure.panels) for figure in result.figures) == (3 if quick else 4)
    for position, table in enumerate(result.tables):
        assert "replace-one" in table.says.lower()
        # The first four are computed, in a quick run as in a full one.
        assert table.says.startswith("Quick run") == (quick and position >= 4)
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert [bool(figure.differs) for figure in result.figures] == [False, False, quick]
    values = result_values("001", study, result, settings)
    assert values["tables"][10]["rows"][0][1]["repeats"] == 2
    assert len(values["errata"]) == len(study.errata)

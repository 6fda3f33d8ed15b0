"""Audits by name: every one runs, holds, and has a picture."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from sudare.audit import Audit
from sudare.audit.claimed_and_measured_epsilon import EpsilonComparison
from sudare.audit.epsilon_lower_bounds import Counts
from sudare.audit.registry import AuditReport, audit_names, run_audit
from sudare.audit.report_plot import audit_panel
from sudare.errors import InvalidParameter, UnknownName
from sudare.privacy.guarantee import Guarantee
from sudare.report.plots import DAY, rendered


def test_the_names() -> None:
    assert audit_names() == (
        "laplace",
        "laplace-vector",
        "gaussian",
        "gamma-norm",
        "infinity-norm",
        "PrivateMean",
        "PrivateHistogram",
        "schema-draft",
        "PrivateStandardScaler",
        "PrivateLogisticRegression-objective",
        "PrivateLogisticRegression-output",
        "PrivateLogisticRegression-descent",
        "PrivateLogisticRegression-mean",
        "PrivateLinearSVC-objective",
        "PrivateLinearSVC-output",
        "PrivateRidge-objective",
        "PrivateRidge-descent",
        "LaplacePerturbation",
        "SquareWave",
        "RetainReplace",
        "UnaryEncoding",
        "SubsetSelection",
        "PrivateSynthesizer-marginals",
        "PrivateSynthesizer-microaggregation",
        "GibbsLogisticRegression",
        "GibbsRidge",
        "GibbsMean",
        "PrivateExponentialWeights",
    )


@pytest.mark.long
@pytest.mark.parametrize("name", audit_names())
def test_full_audits(name: str) -> None:
    cheap = ("PrivateMean", "PrivateHistogram", "PrivateStandardScaler")
    report = run_audit(name, samples=20_000 if name in cheap else None)
    assert report.holds, json.dumps(report.to_dict())


def test_unknown_names_and_empty_lists_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"^There is no audit 'nothing'\. Use one of: laplace, laplace-vector"):
        run_audit("nothing")
    with pytest.raises(InvalidParameter, match="at least one epsilon"):
        run_audit("laplace", epsilons=[])


def report_of(measured: float, computed: float | None = None) -> AuditReport:
    claimed = Guarantee(1.0)
    audit = Audit(claimed, measured, "value ≥ 1", 0.999, Counts(60, 100, 10, 100))
    nothing = replace(audit, epsilon_lower_bound=0.0)
    return AuditReport("laplace", "Laplace noise", 100, (EpsilonComparison(claimed, audit, nothing, computed),))


def test_a_report_is_plain_numbers_for_json() -> None:
    report = report_of(0.7, computed=0.9)
    assert report.holds
    (row,) = report.to_dict()["comparisons"]
    assert row == {
        "epsilon": 1.0,
        "delta": 0.0,
        "neighbours": "replace-one",
        "measured": 0.9,
        "sampled": 0.7,
        "lowest_bits": 0.0,
        "computed": 0.9,
        "event": "value ≥ 1",
        "counts": "60 of 100 against 10 of 100",
        "confidence": 0.999,
        "holds": True,
    }
    assert json.loads(json.dumps(report.to_dict()))["subject"] == "Laplace noise"


def test_any_of_the_three_measurements_refutes() -> None:
    assert not report_of(1.1).holds
    assert not report_of(0.5, computed=1.1).holds
    good = report_of(0.5)
    leak = replace(good.comparisons[0].sampled, epsilon_lower_bound=2.0)
    assert not replace(good, comparisons=(replace(good.comparisons[0], lowest_bits=leak),)).holds


def test_the_picture() -> None:
    assert rendered([audit_panel(report_of(0.7, computed=0.9))], "png").startswith(b"\x89PNG")
    axes = Figure().add_subplot()
    audit_panel(report_of(1.7))(axes, DAY)
    assert axes.get_title() == "Laplace noise: REFUTED"
    legend: Any = axes.get_legend()
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["claimed", "promise broken", "from outputs", "from lowest bits"]
    points = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in axes.get_lines()}
    assert points["from outputs"] == [[1.0, 1.7]]

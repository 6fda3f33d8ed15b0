"""`sudare audit` and `sudare study`, on tiny settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sudare.audit import registry
from sudare.audit.noise_audits import audited_noise
from sudare.audit.registry import audit_names
from sudare.errors import DataUnavailable
from sudare.papers import Estimate, Figure, ResultTable, Study, StudyResult, StudySettings
from sudare.privacy.mechanisms import Laplace
from sudare.report.plots import Series, curves
from tests.cli.conftest import Sudare
from tests.languages.english_left import english_left


def test_audit_list(sudare: Sudare) -> None:
    assert tuple(sudare("audit", "list").stdout.split()) == audit_names()
    assert tuple(sudare("audit", "list", "--json").values["audits"]) == audit_names()


def test_an_audit_with_a_plot(sudare: Sudare, tmp_path: Path) -> None:
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        plot = tmp_path / f"plot{suffix}"
        held = sudare("audit", "laplace", "--samples", 200, "--epsilon", 1, "--plot", plot)
        assert held.exit_code == 0
        assert "The promise held" in held.stdout
        assert plot.read_bytes().startswith(start)


def test_an_audit_as_json(sudare: Sudare) -> None:
    values = sudare("audit", "laplace", "--samples", 200, "--epsilon", 1, "--epsilon", 2, "--json").values
    assert values["holds"] is True
    assert [each["epsilon"] for each in values["comparisons"]] == [1.0, 2.0]


@pytest.fixture
def broken_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of noise that is a third of what it must be."""
    real = registry.run_audit

    def run_audit(name: str, **options: object) -> registry.AuditReport:
        report = real(name, samples=200, epsilons=(1.0,))
        noise = audited_noise(Laplace(1.0, 3.0), (np.zeros(1), np.ones(1))).compared(200)
        claimed = report.comparisons[0].claimed
        broken = registry.EpsilonComparison(claimed, noise.sampled, noise.lowest_bits, noise.computed)
        return registry.AuditReport(name, report.subject, report.samples, (broken,))

    monkeypatch.setattr(registry, "run_audit", run_audit)


def test_a_failed_audit_exits_with_its_own_code(sudare: Sudare, broken_audit: None) -> None:
    failed = sudare("audit", "laplace")
    assert failed.exit_code == 60
    assert "REFUTED" in failed.stdout
    as_json = sudare("audit", "laplace", "--json")
    assert as_json.exit_code == 60
    assert as_json.values["holds"] is False


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (["audit", "nothing"], 72),
        (["audit", "laplace", "--plot", "x.jpg"], 10),
        (["audit", "laplace", "--samples", 200, "--epsilon", 1, "--plot", "no/folder.png"], 10),
        (["audit", "laplace", "--samples", 1], 2),
        (["study", "nothing"], 72),
        (["study", "list", "--repeats", 1], 2),
    ],
)
def test_refusals(sudare: Sudare, words: list[object], exit_code: int) -> None:
    assert sudare(*words).exit_code == exit_code


def tiny_study() -> Study:
    def run(tell: object, settings: StudySettings) -> StudyResult:
        table = ResultTable(
            "A table", ("ε", "ours", "paper"), [(1.0, Estimate.of(range(settings.repeats)), 0.5)], "replace-one, δ = 0"
        )
        panel = curves([1, 2], [Series("ours", [1, 2])], x_label="x", y_label="y")
        return StudyResult([table], [Figure("Figure 7", "Ours.", [panel])])

    return Study("A tiny study", "paper 0", 3, run)


def test_study(sudare: Sudare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.papers.load_study", lambda name: tiny_study())
    told = sudare("study", "tiny", "--output", tmp_path / "out")
    assert told.exit_code == 0
    for text in ("A tiny study", "A table", "1.0 ± 0.6", "0.5", "replace-one, δ = 0"):
        assert text in told.stdout
    page = (tmp_path / "out" / "tiny.html").read_text("utf-8")
    assert "Figure 7" in page
    assert "A quick run" not in page
    values = sudare("study", "tiny", "--output", tmp_path / "out", "--repeats", 5, "--json").values
    assert values["tables"][0]["rows"][0][1]["repeats"] == 5
    quick = sudare("study", "tiny", "--output", tmp_path / "quick", "--quick", "--json").values
    assert quick["settings"] == {"repeats": 2, "quick": True}
    assert "A quick run" in (tmp_path / "quick" / "tiny.html").read_text("utf-8")
    written = json.loads((tmp_path / "out" / "tiny.json").read_text("utf-8"))
    assert written["tables"] == values["tables"]


def test_headings_of_a_wide_table_are_whole_on_a_narrow_screen(
    sudare: Sudare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headings = tuple(f"[{number}] aggregated predictions" for number in range(9))
    wide = StudyResult([ResultTable("Wide", headings, [(0.5,) * 9], "")], [])
    monkeypatch.setattr("sudare.papers.load_study", lambda name: Study("A", "paper 0", 3, lambda tell, given: wide))
    told = sudare("study", "wide", "--output", tmp_path).stdout
    assert "…" not in told
    assert "[8]" in told


def test_study_list(sudare: Sudare) -> None:
    assert "core" in sudare("study", "list").stdout
    assert "core" in sudare("study", "list", "--json").values["studies"]


def test_studies_in_japanese(sudare: Sudare) -> None:
    assert english_left(sudare("--lang", "ja", "study", "list").stdout) == []
    assert "スタディ 'none' はありません。" in sudare("--lang", "ja", "study", "none").stderr


def test_a_study_without_data_says_what_to_do(sudare: Sudare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_DATA", str(tmp_path))
    refused = sudare("study", "core", "--output", tmp_path / "out")
    assert refused.exit_code == DataUnavailable.exit_code
    assert "SUDARE_DATA" in refused.stderr
    assert not (tmp_path / "out").exists()

"""`sudare export`: released models for other tools."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.cli.conftest import FIT_MEAN, Sudare


def test_a_model_for_onnx(house: Path, sudare: Sudare) -> None:
    made = sudare("fit", "logistic", *FIT_MEAN[2:], "--target", "smoker", "-o", "risk.sudare", "--key", "key.pem")
    assert made.exit_code == 0, made.stderr
    told = sudare("export", "risk.sudare", "--onnx", "risk.onnx", "--trusted", "key-public.pem", "--json")
    assert told.exit_code == 0, told.stdout
    assert told.values["files"] == ["risk.onnx"]
    assert (house / "risk.onnx").stat().st_size > 100
    assert sudare("export", "risk.sudare", "--onnx", "risk.onnx").exit_code == 10
    assert sudare("export", "risk.sudare").exit_code == 10
    assert sudare("export", "risk.sudare", "--mlflow", ".").exit_code == 10
    if importlib.util.find_spec("mlflow") is None:
        refused = sudare("export", "risk.sudare", "--mlflow", "folder")
        assert "sudare[mlflow]" in refused.stderr


def test_a_statistic_is_no_model(house: Path, sudare: Sudare) -> None:
    refused = sudare("export", "mean.sudare", "--onnx", "mean.onnx")
    assert "sudare show" in refused.stderr
    assert not (house / "mean.onnx").exists()

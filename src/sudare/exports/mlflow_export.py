"""A release as a model of MLflow: the signed file itself, and a script that predicts with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sudare.errors import NotReleasable
from sudare.optional_packages import optional_package
from sudare.privacy import Release


def save_mlflow_model(release: Release, file: Path, folder: Path) -> None:
    """Write a folder that `mlflow.pyfunc.load_model` opens. Raise NotReleasable where the release predicts nothing, and ExtraMissing without MLflow."""
    if not hasattr(release.model(), "predict"):
        raise NotReleasable(f"A {release.learner} predicts nothing.", "Give a released model.")
    pyfunc: Any = optional_package(
        "mlflow.pyfunc",
        "Exporting to MLflow needs the package mlflow-skinny.",
        "Install it: pip install 'sudare[mlflow]'.",
    )
    pyfunc.save_model(
        path=os.fspath(folder),
        python_model=os.fspath(Path(__file__).with_name("mlflow_loader_script.py")),
        artifacts={"release": os.fspath(file.absolute())},
        pip_requirements=["sudare"],
        metadata={"guarantee": release.guarantee.to_dict(), "digest": release.digest},
    )  # fmt: skip

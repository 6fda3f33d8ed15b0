"""`sudare export`: released models for ONNX and MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.command_output import AsJson, answer, progress, reported, write_new_private
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.options import TrustedKeys
from sudare.errors import InvalidParameter


@reported
def export(
    file: Annotated[Path, typer.Argument(metavar="RELEASE", help="A released model, usually NAME.sudare.")],
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="A new ONNX file; needs the extra `onnx`.")
    ] = None,
    mlflow: Annotated[
        Path | None, typer.Option("--mlflow", metavar="DIR", help="A new folder for MLflow; needs the extra `mlflow`.")
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Write a released model for other tools: ONNX (linear models, additive models and networks) or MLflow (every model). It costs nothing.

    ONNX has one input for each declared column, and encodes them itself; docs/shell.md says how. The export has no signature: pass the release on with it.
    """
    from sudare.exports.mlflow_export import save_mlflow_model
    from sudare.exports.onnx_models import onnx_model

    if onnx is None and mlflow is None:
        raise InvalidParameter("Nothing is to be written.", "Give --onnx FILE, --mlflow DIR, or both.")
    if mlflow is not None and os.path.lexists(mlflow):
        raise InvalidParameter(f"'{mlflow}' exists already.", "Choose a new folder.")
    release, signature = read_release(file, trusted)
    with progress(as_json) as tell:
        tell("writing")
        if onnx is not None:
            write_new_private(onnx, onnx_model(release))
        if mlflow is not None:
            save_mlflow_model(release, file, mlflow)
    written = [str(each) for each in (onnx, mlflow) if each is not None]
    answer(
        {"file": str(file), "learner": release.learner, "signature": signature, "files": written},
        as_json,
        *(f"Wrote {each}; its guarantee: {release.guarantee}." for each in written),
        *signature_lines(signature),
    )

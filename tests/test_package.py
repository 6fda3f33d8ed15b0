"""The package as others install it: the core stands alone, is typed, and says its version."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import sudare

ROOT = Path(__file__).resolve().parent.parent

IMPORT_EVERYTHING_WITHOUT_EXTRAS = """
import importlib, importlib.abc, pkgutil, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import sudare
for module in pkgutil.walk_packages(sudare.__path__, "sudare."):
    try:
        importlib.import_module(module.name)
        print(module.name)
    except ModuleNotFoundError as error:
        if error.args[0].partition(".")[0] not in {extras}:
            raise
        print(module.name, "needs", error.args[0].partition(".")[0])
"""

NETWORKS_OF_PAPER_002 = (
    *("anonymized_learning", "canaries", "corrected_results", "figure5", "ordinary_training"),
    *("parameter_intervals", "printed_training", "theorem_4_audit"),
)
# What is an extra's inside, and imported by the rest only when it is used.
NEEDS_AN_EXTRA = {
    "sudare.consortium.flare_job": "nvflare",
    "sudare.consortium.network.transport.flare_bytes_cell": "nvflare",
    "sudare.exports.mlflow_loader_script": "mlflow",
    **{f"sudare.neural.{name}": "jax" for name in ("function_facts", "per_row_clipping", "row_gradients", "training")},
    **{f"sudare.papers.p002_networks.{name}": "jax" for name in NETWORKS_OF_PAPER_002},
}


def test_the_core_imports_without_extras_and_developer_tools() -> None:
    absent = {"polars", "psutil", "hypothesis", "pytest", "mkdocs", "material", "jax", "torch", "nvflare", "mypy"} | {
        "gmpy2",
        "mlflow",
        "onnx",
        "phe",
    }
    code = IMPORT_EVERYTHING_WITHOUT_EXTRAS.format(absent=absent, extras={"jax", "mlflow", "nvflare"})
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) > 10
    assert {tuple(line.split(" needs ")) for line in lines if " needs " in line} == set(NEEDS_AN_EXTRA.items())


def test_the_version_is_the_one_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert sudare.__version__ == importlib.metadata.version("sudare") == declared
    assert f"## {declared}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_types_are_shipped() -> None:
    assert Path(sudare.__file__).with_name("py.typed").exists()


def test_every_target_of_make_is_explained() -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    named = {line.split()[1] for line in listed.stdout.splitlines()}
    assert {"demo", "test", "test-long", "lint", "bench", "mutation", "docs", "clean"} <= named
    assert all(len(line.split()) > 3 for line in listed.stdout.splitlines())

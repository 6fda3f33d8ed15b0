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
imported = ["sudare"]
for module in pkgutil.walk_packages(sudare.__path__, "sudare."):
    importlib.import_module(module.name)
    imported.append(module.name)
print(len(imported))
"""


def test_the_core_imports_without_extras_and_developer_tools() -> None:
    absent = {"polars", "psutil", "hypothesis", "pytest", "mkdocs", "material", "jax", "torch", "nvflare", "mypy"}
    code = IMPORT_EVERYTHING_WITHOUT_EXTRAS.format(absent=absent)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 10


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

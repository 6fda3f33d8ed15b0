"""Rooms whose public names are loaded on use: all of them are there, and nothing is loaded before."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

LAZY = ["sudare.consortium", "sudare.privacy", "sudare.report", "sudare.schema", "sudare.statistics"]
HEAVY = [
    "dask",
    "distributed",
    "jax",
    "matplotlib",
    "numba",
    "nvflare",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "sklearn",
    "sqlalchemy",
]


@pytest.mark.parametrize("name", LAZY)
def test_every_public_name_can_be_loaded_and_is_listed(name: str) -> None:
    room = importlib.import_module(name)
    assert dir(room) == sorted(room.__all__)
    assert [each for each in room.__all__ if not hasattr(room, each)] == []


@pytest.mark.parametrize("name", LAZY)
def test_no_public_name_is_that_of_a_module_which_would_take_its_place(name: str) -> None:
    room = importlib.import_module(name)
    assert not {module.name for module in pkgutil.iter_modules(room.__path__)} & set(room.__all__)


@pytest.mark.parametrize("name", LAZY)
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    room = importlib.import_module(name)
    with pytest.raises(AttributeError, match=f"'{name}' has no attribute 'nothing'"):
        _ = room.nothing
    assert not hasattr(room, "nothing")


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        *((f"import {name}", set()) for name in LAZY),
        ("import sudare.cli.main", set()),
        # What `sudare approve` and `sudare status` load: an agreement with its schema, and the ledger.
        ("from sudare.consortium import Agreement, Approvals", {"pyarrow", "sqlalchemy"}),
        (
            "import sudare.consortium.agreement.member_settings, sudare.consortium.node_control_files",
            {"pyarrow", "sqlalchemy"},
        ),
        ("import sudare.cli.approvals, sudare.report.number_formatting", set()),
        ("from sudare.privacy import Ledger", {"sqlalchemy"}),
        ("from sudare.schema import Schema", {"pyarrow"}),
        # What `sudare page` loads before it answers: prices and releases need scikit-learn, its first pages do not.
        ("import sudare.web.start_checks, sudare.web.server", {"opendp", "pyarrow", "scipy", "sqlalchemy"}),
    ],
)
def test_what_is_not_needed_is_not_loaded(statement: str, allowed: set[str]) -> None:
    code = f"import sys\n{statement}\nprint(*sorted(set({HEAVY}) & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(said) <= allowed

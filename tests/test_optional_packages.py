"""Packages that come with extras: imported, or an error that says how to install them."""

from __future__ import annotations

import json
import sys

import pytest

from sudare.errors import ExtraMissing
from sudare.optional_packages import optional_package


def test_a_package_that_is_there_is_imported():
    assert optional_package("json", "No.", "None.") is json


def test_one_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "json.tool", None)
    with pytest.raises(ExtraMissing, match="Needs it") as caught:
        optional_package("json.tool", "Needs it.", "Install it.")
    assert caught.value.remedy == "Install it."
    assert caught.value.__cause__ is None

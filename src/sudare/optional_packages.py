"""Packages that come with extras only: imported where they are needed, or the error says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sudare.errors import ExtraMissing


def optional_package(module: str, problem: str, remedy: str) -> Any:
    """The module of that name. Raise ExtraMissing, with these words, where it or what it needs is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise ExtraMissing(problem, remedy) from None

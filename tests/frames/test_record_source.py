"""Which objects are taken as sources: those of exactly the classes of this package, and paths."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
import pytest

import sudare.frames
from sudare.errors import InvalidParameter
from sudare.frames import CsvFile, SqlSource, read
from sudare.frames.record_source import RecordSource, checked_kind
from sudare.frames.sources import HeldTable


def derived(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from derived(each)


def test_every_reader_of_this_package_is_taken() -> None:
    for module in pkgutil.iter_modules(sudare.frames.__path__):
        importlib.import_module(f"sudare.frames.{module.name}")
    readers = [kind for kind in derived(RecordSource) if kind.__module__.startswith("sudare.")]
    assert len(readers) >= 13
    for kind in readers:
        if not inspect.isabstract(kind):
            made = object.__new__(kind)
            assert checked_kind(made) is made


def test_paths_tables_and_text_are_taken(tmp_path: Path) -> None:
    given = [tmp_path, PurePosixPath("a"), CsvFile("a.csv"), SqlSource("sqlite:///a.db", "t"), "a", {"a": [1]}, 5]
    assert [checked_kind(each) for each in given] == given
    text = checked_kind(np.str_("a.csv"))
    assert (type(text), text) == (str, "a.csv")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    assert read(np.str_(tmp_path / "a.parquet")).rows == 1


def test_what_is_derived_from_them_is_not() -> None:
    class Own(HeldTable):
        """A class of one's own."""

    with pytest.raises(InvalidParameter, match="class Own is no source of records"):
        checked_kind(Own({"a": [1]}))

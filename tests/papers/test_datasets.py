"""Data from the folder, else from OpenML, else a clear error."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sudare.errors import DataUnavailable
from sudare.papers import datasets as data_module
from sudare.papers.datasets import DATA_SETS, DataName, data


def small(monkeypatch: pytest.MonkeyPatch, name: DataName, rows: int) -> None:
    """Expect fewer rows, so that a test can make them."""
    from dataclasses import replace

    monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], rows=rows))


def test_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, "pima", 2)
    header = ",".join(DATA_SETS["pima"].columns)
    (tmp_path / "pima.csv").write_text(f"{header}\n6,148,72,35,0,33.6,0.627,50,1\n1,85,66,29,0,?,0.351,31,0\n")
    monkeypatch.setenv("SUDARE_DATA", str(tmp_path))
    table = data("pima")
    assert table["age"].tolist() == [50, 31]
    assert table["bmi"].isna().tolist() == [False, True]


@pytest.mark.parametrize("text", [None, "", "a,b\n1,2\n"])
def test_a_folder_without_the_right_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    if text is not None:
        (tmp_path / "pima.csv").write_text(text)
    monkeypatch.setenv("SUDARE_DATA", str(tmp_path))
    with pytest.raises(DataUnavailable):
        data("pima")


def fake_openml(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame) -> None:
    monkeypatch.delenv("SUDARE_DATA", raising=False)
    monkeypatch.setattr(data_module, "fetch_openml", lambda *names, **options: SimpleNamespace(frame=frame))


def adult_like(rows: int, first: tuple[int, int]) -> pd.DataFrame:
    columns = [*DATA_SETS["adult-train"].columns[:-1], "class"]
    frame = pd.DataFrame({name: np.arange(rows) for name in columns})
    frame.loc[0, ["age", "fnlwgt"]] = first
    return frame


@pytest.mark.parametrize("test_first", [True, False])
def test_both_parts_of_adult_are_found_in_one_table(monkeypatch: pytest.MonkeyPatch, test_first: bool) -> None:
    train, test = adult_like(32_561, (39, 77516)), adult_like(16_281, (25, 226802))
    fake_openml(monkeypatch, pd.concat([test, train] if test_first else [train, test], ignore_index=True))
    for name, part in (("adult-train", train), ("adult-test", test)):
        found = data(name)  # type: ignore[arg-type]
        assert found["age"].tolist() == part["age"].tolist()
        assert list(found.columns) == list(DATA_SETS["adult-train"].columns)


def test_an_unknown_order_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_openml(monkeypatch, adult_like(48_842, (1, 1)))
    with pytest.raises(DataUnavailable):
        data("adult-train")


def test_pima_from_openml(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, "pima", 2)
    columns = ["preg", "plas", "pres", "skin", "insu", "mass", "pedi", "age", "class"]
    frame = pd.DataFrame([[1] * 8 + ["tested_positive"], [2] * 8 + ["tested_negative"]], columns=columns)
    fake_openml(monkeypatch, frame)
    assert data("pima")["diabetes"].tolist() == [1, 0]


def test_neither_folder_nor_openml(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*names: Any, **options: Any) -> None:
        raise OSError

    monkeypatch.delenv("SUDARE_DATA", raising=False)
    monkeypatch.setattr(data_module, "fetch_openml", unreachable)
    with pytest.raises(DataUnavailable, match="Set SUDARE_DATA to a folder"):
        data("pima")

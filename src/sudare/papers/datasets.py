"""Public data sets for studies: CSV files in the folder that SUDARE_DATA names, else OpenML, else a clear error."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
from sklearn.datasets import fetch_openml

from sudare.errors import DataUnavailable

DataName = Literal["adult-train", "adult-test", "pima"]

_ADULT_COLUMNS: Final = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
_PIMA_COLUMNS: Final = (
    "pregnancies", "glucose", "blood-pressure", "skin-thickness", "insulin", "bmi", "pedigree", "age", "diabetes",
)  # fmt: skip
_ADULT_TRAIN_ROWS, _ADULT_TEST_ROWS, _PIMA_ROWS = 32_561, 16_281, 768


@dataclass(frozen=True)
class DataSet:
    """Where a data set is found, and how one knows that it is the right one."""

    columns: tuple[str, ...]
    rows: int
    openml_name: str
    openml_version: int
    from_openml: Callable[[pd.DataFrame], pd.DataFrame | None]


def data(name: DataName) -> pd.DataFrame:
    """The data set of that name; `?` is a missing value."""
    wanted = DATA_SETS[name]
    folder = os.environ.get("SUDARE_DATA")
    if folder:
        return _checked(_read_csv(Path(folder) / f"{name}.csv"), wanted, name)
    table = _downloaded(wanted)
    if table is None:
        raise DataUnavailable(
            f"The data set '{name}' is not here: SUDARE_DATA is not set, and OpenML does not answer.",
            f"Set SUDARE_DATA to a folder with {name}.csv (docs/studies.md says what is in it).",
        )
    return _checked(table, wanted, name)


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, na_values=["?"], keep_default_na=False, skipinitialspace=True)
    except (OSError, ValueError):
        raise DataUnavailable(
            f"'{path.name}' cannot be read in the folder that SUDARE_DATA names.",
            "Put the file there (docs/studies.md), or unset SUDARE_DATA to ask OpenML.",
        ) from None


def _downloaded(wanted: DataSet) -> pd.DataFrame | None:
    try:
        bunch: Any = fetch_openml(
            wanted.openml_name, version=wanted.openml_version, as_frame=True, n_retries=1, delay=0.1
        )
        return wanted.from_openml(bunch.frame)
    except (OSError, ValueError, KeyError):
        return None


def _checked(table: pd.DataFrame, wanted: DataSet, name: str) -> pd.DataFrame:
    if tuple(table.columns) != wanted.columns or len(table) != wanted.rows:
        raise DataUnavailable(
            f"What was found as '{name}' has other columns or another number of rows than {wanted.rows:,}.",
            "Use the files that docs/studies.md lists.",
        )
    return table


def _adult_part(first_age: int, first_weight: int, rows: int) -> Callable[[pd.DataFrame], pd.DataFrame | None]:
    """The rows that begin with the known first row of a part: OpenML keeps both parts in one table."""

    def part(both: pd.DataFrame) -> pd.DataFrame | None:
        table = both.rename(columns={"class": "income"})[list(_ADULT_COLUMNS)]
        starts = [
            start
            for start in (0, len(table) - rows)
            if (int(table["age"].iloc[start]), int(table["fnlwgt"].iloc[start])) == (first_age, first_weight)
        ]
        return table.iloc[starts[0] : starts[0] + rows].reset_index(drop=True) if starts else None

    return part


def _pima(frame: pd.DataFrame) -> pd.DataFrame:
    table = frame.set_axis(list(_PIMA_COLUMNS), axis="columns")
    return table.assign(diabetes=(table["diabetes"].astype(str) == "tested_positive").astype(int))


DATA_SETS: Final[dict[DataName, DataSet]] = {
    "adult-train": DataSet(_ADULT_COLUMNS, _ADULT_TRAIN_ROWS, "adult", 2, _adult_part(39, 77516, _ADULT_TRAIN_ROWS)),
    "adult-test": DataSet(_ADULT_COLUMNS, _ADULT_TEST_ROWS, "adult", 2, _adult_part(25, 226802, _ADULT_TEST_ROWS)),
    "pima": DataSet(_PIMA_COLUMNS, _PIMA_ROWS, "diabetes", 1, _pima),
}

"""What a table of the panel is, and what the generators of tables share."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.model_selection import train_test_split

from sudare.schema import Schema

Floats = NDArray[np.float64]
Columns = Mapping[str, Any]
Half = Literal["tuning", "judging"]


@dataclass(frozen=True, eq=False)
class PanelTable:
    """A table with its public schema, which names the target. `make` returns the same rows at every call."""

    name: str
    about: str
    schema: Schema
    make: Callable[[], pd.DataFrame]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All rows."""
        return self.make()

    @property
    def is_classification(self) -> bool:
        return self.schema.label is not None

    def fit_and_test(self, seed: int, most_rows: int | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows to fit and rows to test, 70 to 30, dealt out by the seed; of `most_rows` rows at most where that is said."""
        frame = self.frame
        if most_rows is not None and len(frame) > most_rows:
            frame = frame.sample(most_rows, random_state=seed)
        fit, test = train_test_split(frame, test_size=0.3, random_state=seed)
        return fit.reset_index(drop=True), test.reset_index(drop=True)


def generator_of(name: str) -> np.random.Generator:
    """The random numbers of a table or column: its seed is the checksum of its name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def labels_from_scores(rng: np.random.Generator, scores: Floats, base_rate: float) -> NDArray[np.int64]:
    """0 and 1, drawn with probability expit(score + b), b such that the base rate is as asked for."""
    shift = brentq(lambda b: expit(scores + b).mean() - base_rate, -60, 60)
    return (rng.random(len(scores)) < expit(scores + shift)).astype(np.int64)


def numbered(matrix: Floats, **more: object) -> pd.DataFrame:
    """A matrix as columns x0, x1, …, and further columns."""
    return pd.DataFrame({f"x{place}": column for place, column in enumerate(matrix.T)} | dict(more))

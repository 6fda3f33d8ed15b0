"""Frames that are computed when they are read: what fails is told without a value."""

from __future__ import annotations

import polars as pl
import pytest

from sudare.errors import SourceUnreadable
from sudare.frames import batches, column_types, read


def test_lazy_frames_that_fail_tell_nothing() -> None:
    frame = pl.LazyFrame({"age": [1.0], "ward": ["hidden"]})
    for broken in (frame.select(pl.col("ward").cast(pl.Int64)), frame.select("nowhere")):
        with pytest.raises(SourceUnreadable) as refusal:
            list(batches(broken))
        assert "hidden" not in str(refusal.value)
    with pytest.raises(SourceUnreadable, match="does not tell its columns"):
        column_types(frame.select("nowhere"))
    odd = pl.LazyFrame({"*": [1], "^a$": [2], "a": [3]})
    assert read(odd, ["^a$", "*"]).arrow.to_pydict() == {"^a$": [2], "*": [1]}

"""Loops are compiled where no folder for a cache can be written, too."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from sudare.compiled_loops import compiled


def test_loops_are_compiled_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, asked = numba.njit, []

    def njit(*functions: Any, **options: Any) -> Any:
        if functions:
            # Numba's own, which it compiles when it is first used.
            return honest(*functions, **options)
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return honest(**options)

    monkeypatch.setattr(numba, "njit", njit)
    made = compiled()(lambda values: values[0])
    assert made(np.ones(1)) == 1.0
    assert [bool(options.get("cache")) for options in asked] == [True, False]

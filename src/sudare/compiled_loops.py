"""How loops are compiled: once per machine where a cache folder can be written, else once per process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(
    *, reorder_sums: bool = False, contract: bool = True, nogil: bool = False
) -> Callable[[Function], Function]:
    """A decorator that compiles a loop with numba; what is divided by zero is infinite or NaN, as in numpy.

    With `reorder_sums` a sum may be split over the lanes of the processor: the same input gives the same bits on the
    same machine, but not those of a plain loop. NaN and infinities are treated as everywhere else. Without `contract` no product is added
    before it is rounded: the bits are the same on every processor. With `nogil` other threads run meanwhile.
    """
    njit: Any = numba.njit
    options = {
        "fastmath": ({"reassoc", "nsz"} if reorder_sums else set()) | ({"contract"} if contract else set()),
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "nogil": nogil,
    }

    def decorate(function: Function) -> Function:
        try:
            made: Function = njit(cache=True, **options)(function)
        except RuntimeError:
            # No folder for the cache can be written: neither NUMBA_CACHE_DIR nor beside the module nor the user's own.
            made = njit(**options)(function)
        return made

    return decorate

"""What sums of words modulo 2^64 determine: a linear attack on sums by dissemination."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.sums.dissemination import Parcel, covered

Words = NDArray[np.uint64]

_TWO_TO_64: Final = 1 << 64


def recovered_words(combinations: ArrayLike, observed: ArrayLike) -> dict[int, Words]:
    """Members' words that sums of words modulo 2^64 determine, exactly: observed = combinations @ words.

    Elimination with odd pivots, which have inverses modulo 2^64. What a member sent is found; what it hid behind a mask is not in the equations.
    """
    left = np.array(combinations, dtype=np.uint64)
    right = np.array(observed, dtype=np.uint64)
    done = 0
    for column in range(left.shape[1]):
        odd = np.flatnonzero(left[done:, column] & np.uint64(1))
        if len(odd):
            _eliminate(left, right, done, done + int(odd[0]), column)
            done += 1
    alone = [(row, np.flatnonzero(left[row])) for row in range(done)]
    return {int(found[0]): right[row] for row, found in alone if len(found) == 1}


def parcel_equations(members: int, position: int, word: ArrayLike, parcels: Iterable[Parcel]) -> tuple[Words, Words]:
    """What one member holds in a dissemination sum, as equations for `recovered_words`: its own word, and the sums in parcels it got."""
    rows, observed = [np.eye(members, dtype=np.uint64)[position]], [np.asarray(word, dtype=np.uint64)]
    for parcel in parcels:
        for over, value in zip(covered(parcel, members), (parcel.window, parcel.partial), strict=True):
            if value is not None:
                rows.append(np.bincount(np.array(over) % members, minlength=members).astype(np.uint64))
                observed.append(np.asarray(value, dtype=np.uint64))
    return np.array(rows), np.array(observed)


def _eliminate(left: Any, right: Any, target: int, pivot: int, column: int) -> None:
    """Bring the pivot's row to its place, make it one, and take the column out of all other rows; all wraps at 2^64."""
    for matrix in (left, right):
        matrix[[target, pivot]] = matrix[[pivot, target]]
    unit = np.uint64(pow(int(left[target, column]), -1, _TWO_TO_64))
    left[target] *= unit
    right[target] *= unit
    factors = left[:, column].copy()
    factors[target] = 0
    left -= np.outer(factors, left[target])
    right -= np.outer(factors, right[target])

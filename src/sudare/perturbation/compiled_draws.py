"""Draws for many rows at once, compiled: the laws of `laplace.py`, `square_wave.py` and `categorical.py`, one row after the other."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Integers, Words
from sudare.compiled_loops import compiled

# Far above the error of a product of fewer than 2²⁰ steps, which is below 2⁻³⁰.
_NEAR_MIDDLE: Final = 2.0**-20


@compiled()
def steps_of(column: NDArray[np.float64], low: float, high: float, grid: float) -> NDArray[np.int32]:
    """Numbers clipped to their bounds, in steps from the lower one."""
    steps = np.empty(len(column), dtype=np.int32)
    in_grid = 1.0 / grid
    for row in range(len(column)):
        distance = min(max(column[row], low), high) - low
        # A product is quicker than a quotient; only near the middle between two steps can they round differently.
        place = distance * in_grid
        step = np.rint(place)
        if abs(abs(place - step) - 0.5) < _NEAR_MIDDLE:
            step = np.rint(distance / grid)
        steps[row] = np.int32(step)
    return steps


@compiled()
def laplace_outputs(
    steps: NDArray[np.int32], words: Words, bits: int, pairs: Words, shift: int, last: int, outputs: NDArray[Any]
) -> None:
    """The outcome of an alias table added to each step, less `shift`, cut to 0 … `last`."""
    places_bits = np.uint64(64 - bits)
    mask = (np.uint64(1) << places_bits) - np.uint64(1)
    for row in range(len(steps)):
        word = words[row]
        own = word >> places_bits
        # Both are looked up, so that there is no branch to be guessed wrongly.
        threshold, alias = pairs[own, 0], pairs[own, 1]
        output = np.int64(steps[row]) + np.int64(own if (word & mask) < threshold else alias) - shift
        outputs[row] = min(max(output, 0), last)


@compiled()
def wave_outputs(
    steps: NDArray[np.int32],
    words: Words,
    far_words: np.uint64,
    far_weight: np.uint64,
    near_weight: np.uint64,
    wave: int,
    outputs: NDArray[Any],
) -> None:
    """Outputs of a square wave, from the least one on: `SquareWave.draw`, with one division a row."""
    for row in range(len(steps)):
        word, code = words[row], np.int64(steps[row])
        is_far = word < far_words
        place = np.int64((word if is_far else word - far_words) // (far_weight if is_far else near_weight))
        far = place if place < code else place + 2 * wave + 1
        near = code + (place if place < 2 * wave else 2 * wave)
        outputs[row] = far if is_far else near


@compiled()
def fair_place(draws: NDArray[np.uint16], used: int, count: int) -> tuple[int, int]:
    """A place among `count`, all equally likely, and how many draws are used then; −1 if they ran out (Lemire 2019)."""
    possible = np.uint32(count)
    while used < len(draws):
        product = np.uint32(draws[used]) * possible
        used += 1
        low = product & np.uint32(0xFFFF)
        # Below 2¹⁶ mod count the draw would make some places likelier; that remainder is below the count.
        if low >= possible or low >= (np.uint32(0x10000) - possible) % possible:
            # Compiled, int would leave it unsigned, and with −1 beside it a float.
            return np.int64(product >> np.uint32(16)), used  # type: ignore[return-value]
    return -1, used


@compiled()
def chosen_sets(
    codes: Integers,
    own_in: NDArray[np.bool_],
    size: int,
    values: int,
    draws: NDArray[np.uint16],
    sets: NDArray[np.uint8],
) -> int:
    """A set of `size` categories for each row, packed: its own where `own_in` says so, and others, all choices equally likely.

    Floyd's algorithm (Bentley and Floyd 1987): for j = n − m, …, n − 1 of n others take any of the first j + 1, or j itself if
    that one is taken already. Stops where draws run out, and returns how many rows are done.
    """
    used = 0
    for row in range(len(codes)):
        own = codes[row]
        wanted = size - np.int64(own_in[row])
        for item in range(values - 1 - wanted, values - 1):
            place, used = fair_place(draws, used, item + 1)
            if place < 0:
                return row
            # The others are all categories but the own one, in whose place stands the last.
            category = values - 1 if place == own else place
            if sets[row, category >> 3] >> np.uint8(category & 7) & np.uint8(1):
                category = values - 1 if item == own else item
            sets[row, category >> 3] |= np.uint8(1) << np.uint8(category & 7)
        if own_in[row]:
            sets[row, own >> 3] |= np.uint8(1) << np.uint8(own & 7)
    return len(codes)


@compiled()
def chosen_small_sets(
    codes: Integers,
    own_in: NDArray[np.bool_],
    size: int,
    values: int,
    draws: NDArray[np.uint16],
    sets: NDArray[np.uint8],
) -> int:
    """`chosen_sets` for at most 64 categories: a set is one word until it is written."""
    used = 0
    one = np.uint64(1)
    for row in range(len(codes)):
        own = np.uint64(codes[row])
        wanted = size - np.int64(own_in[row])
        taken = np.uint64(0)
        for item in range(values - 1 - wanted, values - 1):
            place, used = fair_place(draws, used, item + 1)
            if place < 0:
                return row
            is_taken = taken >> np.uint64(place) & one
            taken |= one << np.uint64(item if is_taken else place)
        if codes[row] < values - 1:
            taken = (taken & ~(one << own)) | (taken >> own & one) << np.uint64(values - 1)
        taken |= np.uint64(own_in[row]) << own
        for byte in range(sets.shape[1]):
            sets[row, byte] = taken >> np.uint64(8 * byte) & np.uint64(0xFF)
    return len(codes)

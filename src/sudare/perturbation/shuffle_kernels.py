"""The two loops of a fast shuffle, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Integers
from sudare.compiled_loops import compiled


@compiled()
def scattered(rows: NDArray[Any], draws: NDArray[np.uint8], buckets: int) -> tuple[NDArray[Any], Integers]:
    """The rows grouped by bucket (the draw modulo a power of two), and where each bucket ends."""
    ends = np.zeros(buckets, dtype=np.int64)
    for draw in draws:
        ends[draw & (buckets - 1)] += 1
    places = np.empty(buckets, dtype=np.int64)
    total = 0
    for bucket in range(buckets):
        places[bucket] = total
        total += ends[bucket]
        ends[bucket] = total
    grouped = np.empty_like(rows)
    for row in range(len(rows)):
        bucket = draws[row] & (buckets - 1)
        place = places[bucket]
        places[bucket] = place + 1
        grouped[place] = rows[row]
    return grouped, ends


@compiled()
def shuffle_buckets(rows: NDArray[Any], ends: Integers, start: int, halves: NDArray[np.uint32]) -> bool:
    """Fisher–Yates inside each bucket from row `start` on; False if the half words ran out, of which few are unfair (Lemire 2019)."""
    used = 0
    for end in ends:
        for last in range(end - 1, start, -1):
            count = np.uint64(last - start + 1)
            while True:
                if used == len(halves):
                    return False
                product = np.uint64(halves[used]) * count
                used += 1
                low = product & np.uint64(0xFFFFFFFF)
                # Below 2³² mod count the half word would make some places likelier; that remainder is below the count.
                if low >= count or low >= (np.uint64(0x100000000) - count) % count:
                    break
            place = start + np.int64(product >> np.uint64(32))
            kept = rows[last]
            rows[last] = rows[place]
            rows[place] = kept
        start = end
    return True

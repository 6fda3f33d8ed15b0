"""Random orders, what they hide, and what is said about it: shuffle, amplification, statement."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from sudare.perturbation import uniform_shuffle
from sudare.perturbation.shuffle_kernels import shuffle_buckets
from sudare.privacy.noise import SeededNoise, SystemNoise

SMALLEST_P = 1e-9


def in_buckets(rows: np.ndarray, source: object) -> np.ndarray:
    return uniform_shuffle.shuffled_in_buckets(rows, source)  # type: ignore[arg-type]


def by_keys(rows: np.ndarray, source: object) -> np.ndarray:
    return rows[uniform_shuffle.order_by_keys(len(rows), source)]  # type: ignore[arg-type]


@pytest.mark.parametrize("shuffled", [in_buckets, by_keys])
def test_all_orders_are_equally_likely(shuffled: object) -> None:
    """Chi-square on the 24 orders of four rows, 12,000 times."""
    source = SystemNoise()
    rows = np.arange(4, dtype=np.uint8)
    seen = Counter(tuple(shuffled(rows, source).tolist()) for _ in range(12_000))  # type: ignore[operator]
    assert set(seen) == set(itertools.permutations(range(4)))
    assert stats.chisquare(list(seen.values())).pvalue > SMALLEST_P


def test_many_rows_lose_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row ends up says nothing about where it began: a chi-square of 16 × 16 blocks, and no row is lost."""
    rows = np.arange(2**18, dtype=np.uint32)
    drawn = uniform_shuffle.shuffled(rows, SystemNoise())
    assert np.array_equal(np.sort(drawn), rows)
    table = np.zeros((16, 16))
    np.add.at(table, (np.arange(2**18) >> 14, drawn >> 14), 1)
    assert stats.chi2_contingency(table).pvalue > SMALLEST_P


def test_columns_stay_together() -> None:
    for rows in (1000, 2**17 + 3):
        numbers = np.arange(rows)
        first, second = uniform_shuffle.shuffled_together(
            [numbers, np.column_stack([numbers, -numbers])], SeededNoise(0)
        )
        assert np.array_equal(second, np.column_stack([first, -first]))
        assert not np.array_equal(first, numbers)
        assert np.array_equal(np.sort(first), numbers)


def test_narrow_columns_travel_in_one_word_and_stay_together() -> None:
    """Rows of at most eight bytes: a number, three bytes of ticks and a truth value, in one order."""
    rows = 2**17 + 3
    numbers = np.arange(rows, dtype=np.uint32)
    ticks = np.column_stack([numbers & 255, numbers >> 8 & 255, numbers >> 16]).astype(np.uint8)
    columns = [numbers, ticks, numbers % 3 == 0]
    assert sum(map(uniform_shuffle.row_bytes, columns)) == 8
    rows_of_bytes = uniform_shuffle.rows_as_bytes(columns)
    assert rows_of_bytes.shape == (rows, 8)
    for before, after in zip(columns, uniform_shuffle.columns_of_bytes(rows_of_bytes, columns), strict=True):
        assert before.dtype == after.dtype
        assert np.array_equal(before, after)
    first, second, third = uniform_shuffle.shuffled_together(columns, SeededNoise(0))
    assert not np.array_equal(first, numbers)
    assert np.array_equal(np.sort(first), numbers)
    assert np.array_equal(second, ticks[first])
    assert np.array_equal(third, first % 3 == 0)


def test_ties_are_drawn_again() -> None:
    """Two equal keys would be told apart by where their rows stood."""

    class Tied(SeededNoise):
        calls = 0

        def words(self, count: int) -> np.ndarray:
            Tied.calls += 1
            return np.zeros(count, dtype=np.uint64) if Tied.calls == 1 else super().words(count)

    assert sorted(uniform_shuffle.order_by_keys(5, Tied(0)).tolist()) == [0, 1, 2, 3, 4]
    assert Tied.calls == 2


def test_half_words_that_run_out_are_drawn_again() -> None:
    """Unfair half words (zeros are, for every count that is no power of two) use up the supply."""

    class Unfair(SeededNoise):
        calls = 0

        def words(self, count: int) -> np.ndarray:
            Unfair.calls += 1
            return np.zeros(count, dtype=np.uint64) if Unfair.calls == 2 else super().words(count)

    drawn = uniform_shuffle.shuffled_in_buckets(np.arange(100, dtype=np.uint8), Unfair(0))
    assert sorted(drawn.tolist()) == list(range(100))
    assert Unfair.calls > 2


@pytest.mark.parametrize("rows", [3, 5, 7])
def test_every_place_has_as_many_half_words(rows: int) -> None:
    """Places begin where 2³²·place/rows is rounded up; the words there below 2³² mod rows are passed over, and all others not."""

    def last_after(half: int) -> int | None:
        drawn = np.arange(rows, dtype=np.uint8)
        halves = np.array([half, *[3_000_000_000] * (rows - 2)], dtype=np.uint32)
        return int(drawn[-1]) if shuffle_buckets(drawn, np.array([rows]), 0, halves) else None

    unfair = 2**32 % rows
    for place in range(rows):
        first = -(-(2**32) * place // rows)
        end = -(-(2**32) * (place + 1) // rows)
        passed_over = [half for half in range(first, first + 4) if half * rows % 2**32 < unfair]
        assert [last_after(half) for half in range(first, first + 4) if half not in passed_over] == [place] * (
            4 - len(passed_over)
        )
        assert all(last_after(half) is None for half in passed_over)
        assert last_after(end - 1) == place
        # So all places have as many.
        assert end - first - len(passed_over) == 2**32 // rows


def test_buckets_are_a_power_of_two_that_a_byte_can_choose() -> None:
    assert [uniform_shuffle.bucket_count(rows, 2**12) for rows in (3, 10**5, 10**6, 10**8)] == [2, 32, 256, 256]

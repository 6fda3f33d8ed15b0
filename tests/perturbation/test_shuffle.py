"""Random orders, what they hide, and what is said about it: shuffle, amplification, statement."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sudare.errors import DataError
from sudare.perturbation import LaplacePerturbation, Statement, epsilon_of_k, shuffle
from sudare.perturbation.linkage_risk import central_epsilon
from sudare.perturbation.shuffle_amplification import divergence, shuffled_delta, shuffled_epsilon
from sudare.perturbation.shuffle_kernels import shuffle_buckets
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise, SystemNoise

SMALLEST_P = 1e-9


def in_buckets(rows: np.ndarray, source: object) -> np.ndarray:
    return shuffle.shuffled_in_buckets(rows, source)  # type: ignore[arg-type]


def by_keys(rows: np.ndarray, source: object) -> np.ndarray:
    return rows[shuffle.order_by_keys(len(rows), source)]  # type: ignore[arg-type]


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
    drawn = shuffle.shuffled(rows, SystemNoise())
    assert np.array_equal(np.sort(drawn), rows)
    table = np.zeros((16, 16))
    np.add.at(table, (np.arange(2**18) >> 14, drawn >> 14), 1)
    assert stats.chi2_contingency(table).pvalue > SMALLEST_P


def test_columns_stay_together() -> None:
    for rows in (1000, 2**17 + 3):
        numbers = np.arange(rows)
        first, second = shuffle.shuffled_together([numbers, np.column_stack([numbers, -numbers])], SeededNoise(0))
        assert np.array_equal(second, np.column_stack([first, -first]))
        assert not np.array_equal(first, numbers)
        assert np.array_equal(np.sort(first), numbers)


def test_narrow_columns_travel_in_one_word_and_stay_together() -> None:
    """Rows of at most eight bytes: a number, three bytes of ticks and a truth value, in one order."""
    rows = 2**17 + 3
    numbers = np.arange(rows, dtype=np.uint32)
    ticks = np.column_stack([numbers & 255, numbers >> 8 & 255, numbers >> 16]).astype(np.uint8)
    columns = [numbers, ticks, numbers % 3 == 0]
    assert sum(map(shuffle.row_bytes, columns)) == 8
    rows_of_bytes = shuffle.rows_as_bytes(columns)
    assert rows_of_bytes.shape == (rows, 8)
    for before, after in zip(columns, shuffle.columns_of_bytes(rows_of_bytes, columns), strict=True):
        assert before.dtype == after.dtype
        assert np.array_equal(before, after)
    first, second, third = shuffle.shuffled_together(columns, SeededNoise(0))
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

    assert sorted(shuffle.order_by_keys(5, Tied(0)).tolist()) == [0, 1, 2, 3, 4]
    assert Tied.calls == 2


def test_half_words_that_run_out_are_drawn_again() -> None:
    """Unfair half words (zeros are, for every count that is no power of two) use up the supply."""

    class Unfair(SeededNoise):
        calls = 0

        def words(self, count: int) -> np.ndarray:
            Unfair.calls += 1
            return np.zeros(count, dtype=np.uint64) if Unfair.calls == 2 else super().words(count)

    drawn = shuffle.shuffled_in_buckets(np.arange(100, dtype=np.uint8), Unfair(0))
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
    assert [shuffle.bucket_count(rows, 2**12) for rows in (3, 10**5, 10**6, 10**8)] == [2, 32, 256, 256]


# Amplification


def exact_delta(epsilon: float, local: float, rows: int) -> Fraction:
    """The hockey-stick divergence of the clone pair, summed over everything in rationals; e^ε₀ and e^ε as given floats."""
    growth, e0 = Fraction(math.exp(epsilon)), Fraction(math.exp(local))
    clone, truth = 1 / e0, e0 / (e0 + 1)
    total = Fraction(0)
    for clones in range(rows):
        weight = math.comb(rows - 1, clones) * clone**clones * (1 - clone) ** (rows - 1 - clones)
        half = [
            Fraction(math.comb(clones, a), 2**clones) if 0 <= a <= clones else Fraction(0)
            for a in range(-1, clones + 2)
        ]
        for a in range(clones + 2):
            less, same = half[a], half[a + 1]
            first, second = truth * less + (1 - truth) * same, (1 - truth) * less + truth * same
            total += weight * max(Fraction(0), first - growth * second)
    return total


@pytest.mark.parametrize("rows", [2, 5, 40])
@pytest.mark.parametrize("local", [0.5, 2.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_delta_is_at_least_the_exact_sum(rows: int, local: float, share: float) -> None:
    exact, computed = float(exact_delta(share * local, local, rows)), shuffled_delta(share * local, local, rows)
    assert exact <= computed <= exact * 1.2 + 1e-12


def test_more_clones_tell_less() -> None:
    """Blocks rest on this: a further clone is a coin that anybody could have thrown."""
    values = divergence(np.arange(0.0, 3000.0), 0.3, 2.0)
    assert np.all(np.diff(values) <= 1e-15)
    assert values[0] == pytest.approx(1 / (1 + math.exp(-2)) - math.exp(0.3) / (1 + math.exp(2)))


def test_amplification_is_better_than_the_closed_form() -> None:
    """Feldman, McMillan and Talwar (2021), Theorem 3.1, where it holds; and never worse than no amplification."""
    for local, rows in ((0.5, 10_000), (2.0, 10_000), (5.195, 100_000), (1.0, 10**6)):
        delta = 1e-6
        growth = math.exp(local)
        assert local <= math.log(rows / (16 * math.log(2 / delta)))
        closed = math.log1p(
            (growth - 1) / (growth + 1) * (8 * math.sqrt(growth * math.log(4 / delta) / rows) + 8 * growth / rows)
        )
        assert 0.1 * closed < shuffled_epsilon(local, rows, delta) < closed
    assert shuffled_epsilon(3.0, 2, 1e-6) == 3.0
    assert shuffled_epsilon(3.0, 1, 1e-6) == 3.0


def test_central_epsilon_of_persons_is_at_most_the_local_one() -> None:
    assert central_epsilon(1.0, 10, 1e-6, 3) == 3.0
    three = central_epsilon(1.0, 10**6, 1e-6, 3)
    assert 3 * central_epsilon(1.0, 10**6, 1e-6) < three < 0.2


# What is said


def test_the_three_promises_are_told_together() -> None:
    perturbation = LaplacePerturbation((17, 90), k=2, n_records=32_561)
    text = str(perturbation.statement())
    assert "probability above 1/2 (k = 2 among 32,561 shuffled rows)" in text
    assert "Local: ε = 5.19542 for every record" in text
    assert "weak on its own" in text
    assert "Central, after shuffling: ε = 0.62" in text
    assert "at δ = 1e-6, replace-one record" in text
    assert perturbation.statement().to_dict()["text"] == text.split("\n")


def test_without_shuffling_the_statement_is_withheld() -> None:
    statement = LaplacePerturbation((17, 90), k=2, n_records=32_561).statement(shuffled=False)
    assert statement.k is None
    assert statement.central_epsilon is None
    assert str(statement).count("no statement; the rows were not shuffled") == 2
    assert "1/2" not in str(statement)
    assert statement.to_dict()["central"] is None


def test_seeded_noise_hides_nobody() -> None:
    statement = Statement.of(Guarantee(1.0, notion="local", valid=False), 1000)
    assert statement.k is None
    assert "the noise came from a seed" in str(statement)


def test_weak_linking_is_called_weak() -> None:
    text = str(Statement.of(Guarantee(8.0, notion="local"), 100))
    assert "may be linked to a given record with probability up to" in text
    assert "no useful amplification at this size" in text


def test_one_record_has_nobody_to_hide_among() -> None:
    assert "nobody to hide among" in str(Statement.of(Guarantee(1.0, notion="local"), 1))


def test_persons_are_named() -> None:
    epsilon = epsilon_of_k(4, 9_000, 3)
    local = Guarantee(3 * epsilon, unit="person", notion="local")
    statement = Statement.of(local, 9_000, row_epsilon=epsilon, rows_per_person=3)
    assert "link a row to a given person with probability above 1/4" in str(statement)
    assert statement.k == pytest.approx(4)


def test_a_statement_needs_a_number_of_rows() -> None:
    perturbation = LaplacePerturbation((0, 1), epsilon=1.0)
    with pytest.raises(DataError, match="not known"):
        perturbation.statement()
    assert perturbation.statement(500).rows == 500

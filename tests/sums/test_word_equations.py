"""A curious member against sums of words by dissemination: without masks words are read, with masks they are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sudare.sums.dissemination import Parcel, begun, step
from tests.sums.word_equations import parcel_equations, recovered_words

# Approximate in the far tail, so a thousand times stricter than one false alarm in a million; seeded besides.
SMALLEST_CHI_SQUARE_P = 1e-9
MEMBERS, WATCHER = 7, 2
DRAWS = 100_000


def parcels_to(position: int, words: np.ndarray) -> list[Parcel]:
    """What one member receives while everybody's words (members × numbers) are summed by dissemination."""
    begins = [begun(len(words), member, word) for member, word in enumerate(words)]
    states, sent = [state for state, _ in begins], [parcel for _, parcel in begins if parcel is not None]
    received = []
    while sent:
        arrived = {parcel.receiver: parcel for parcel in sent}
        received.append(arrived[position])
        steps = [step(state, arrived[member]) for member, state in enumerate(states)]
        states, sent = [state for state, _ in steps], [parcel for _, parcel in steps if parcel is not None]
    for state in states:
        np.testing.assert_array_equal(state.total, words.sum(axis=0, dtype=np.uint64))
    return received


def attacked(words: np.ndarray, position: int) -> dict[int, np.ndarray]:
    members = len(words)
    return recovered_words(*parcel_equations(members, position, words[position], parcels_to(position, words)))


def masks(generator: np.random.Generator, draws: int) -> np.ndarray:
    """Uniform words that cancel in the sum."""
    drawn = generator.integers(0, 2**64, (MEMBERS, draws), dtype=np.uint64)
    drawn[-1] = 0 - drawn[:-1].sum(axis=0, dtype=np.uint64)
    return drawn


@pytest.mark.parametrize("members", range(2, 20))
def test_without_masks_words_are_read(members: int) -> None:
    """The next member's word comes as it is; with three members the total gives away the last one too."""
    words = np.random.default_rng(0).integers(0, 2**64, (members, 5), dtype=np.uint64)
    position = members // 2
    found = attacked(words, position)
    assert {position, (position + 1) % members} <= set(found)
    assert (set(found) == set(range(members))) == (members <= 3)
    for member, word in found.items():
        np.testing.assert_array_equal(word, words[member])


def test_masks_hide() -> None:
    """The attack reads the masked word exactly, and it is uniform whatever it hides: both ends of the word, 100,000 times."""
    generator = np.random.default_rng(0)
    values = generator.integers(0, 1000, (MEMBERS, DRAWS), dtype=np.uint64)
    hidden = values + masks(generator, DRAWS)
    np.testing.assert_array_equal(hidden.sum(axis=0, dtype=np.uint64), values.sum(axis=0, dtype=np.uint64))
    found = attacked(hidden, WATCHER)[WATCHER + 1]
    np.testing.assert_array_equal(found, hidden[WATCHER + 1])
    for bits in (found >> np.uint64(56), found & np.uint64(255)):
        assert stats.chisquare(np.bincount(bits.astype(np.intp), minlength=256)).pvalue > SMALLEST_CHI_SQUARE_P
    # Small values and large ones leave words of the same law.
    truth = values[WATCHER + 1]
    highest = (found >> np.uint64(58)).astype(np.intp)
    by_value = [np.bincount(highest[part], minlength=64) for part in (truth < 500, truth >= 500)]
    assert stats.chi2_contingency(by_value).pvalue > SMALLEST_CHI_SQUARE_P
    correlation = np.corrcoef(found.astype(np.float64), truth.astype(np.float64))[0, 1]
    # A correlation of independent samples is normal with deviation 1/√n: six of them are a false alarm of 2e-9.
    assert abs(correlation) < 6 / np.sqrt(DRAWS)


def test_bounded_chunks_do_not_pass_that_test() -> None:
    """The planted bug: masks from a bounded range, as floats would have them, tell small values from large ones."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 1000, DRAWS)
    bounded = truth + generator.integers(0, 5000, DRAWS)
    assert np.corrcoef(bounded, truth)[0, 1] > 6 / np.sqrt(DRAWS)


def test_words_are_solved_for_modulo_two_to_the_64() -> None:
    """Odd coefficients have inverses; an even one leaves its lowest bits in doubt, so nothing is claimed."""
    words = np.array([[2**63 + 5], [7], [11]], dtype=np.uint64)
    odd = np.array([[3, 1, 0], [0, 1, 2], [0, 0, 5]], dtype=np.uint64)
    found = recovered_words(odd, odd @ words)
    assert {member: int(word[0]) for member, word in found.items()} == {0: 2**63 + 5, 1: 7, 2: 11}
    even = np.array([[2, 0, 0], [0, 1, 1]], dtype=np.uint64)
    assert recovered_words(even, even @ words) == {}

"""Bit features are what they say, and the low-bit test sees a leak that values alone do not show."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.audit import distinguish, distinguish_lowest_bits
from sudare.audit.lowest_bits import exponent, lowest_set_bit


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0))
def test_exponent_and_lowest_bit(x: float) -> None:
    lowest = int(lowest_set_bit(np.array([x]))[0])
    assert (Fraction(x) / Fraction(2) ** lowest).denominator == 1
    assert (Fraction(x) / Fraction(2) ** (lowest + 1)).denominator == 2
    power = int(exponent(np.array([x]))[0])
    assert Fraction(2) ** power <= abs(Fraction(x)) < Fraction(2) ** (power + 1)


def test_zero_and_what_is_not_finite_have_a_place_of_their_own() -> None:
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf])
    assert (lowest_set_bit(special) == 4096).all()
    assert (exponent(special) == 4096).all()


def test_a_leak_in_the_last_bit_alone_is_seen_here_and_not_in_values() -> None:
    random = np.random.default_rng(0)

    def last_bit_is_the_data(bit: int, count: int) -> np.ndarray:
        return (np.rint(random.normal(scale=2**20, size=(count, 2))) * 2 + bit) * 2.0**-10

    by_value = distinguish(last_bit_is_the_data, (0, 1), 1.0, 4000, batched=True)
    assert by_value.holds
    by_bits = distinguish_lowest_bits(last_bit_is_the_data, (0, 1), 1.0, 4000, batched=True)
    assert by_bits.epsilon_lower_bound > 4
    assert "lowest bit" in by_bits.event


def test_the_number_of_significant_bits_is_looked_at() -> None:
    """Float noise of one relative precision: the lowest bit moves with the magnitude, the length gives it away."""
    random = np.random.default_rng(0)

    def short(bits: int, count: int) -> np.ndarray:
        fractions, powers = np.frexp(random.normal(size=(count, 1)) * 2.0 ** random.integers(-30, 30, size=(count, 1)))
        return np.asarray(np.ldexp(np.rint(np.ldexp(fractions, bits)), powers - bits))

    audit = distinguish_lowest_bits(short, (20, 22), 1.0, 4000, batched=True)
    assert not audit.holds
    assert "significant bits" in audit.event


def test_the_same_law_passes() -> None:
    random = np.random.default_rng(0)
    audit = distinguish_lowest_bits(
        lambda value, count: random.normal(size=(count, 3)), (0, 1), 0.1, 2000, batched=True
    )
    assert audit.holds


def test_the_bound_exceeds_the_truth_rarely() -> None:
    """Outputs that are identically distributed have ε = 0; at confidence 0.8 a positive bound may appear in a fifth."""
    positive = 0
    for seed in range(60):
        random = np.random.default_rng(seed)

        def outputs(value: int, count: int, random: np.random.Generator = random) -> np.ndarray:
            return random.normal(size=(count, 1))

        audit = distinguish_lowest_bits(outputs, (0, 1), 1.0, 300, 0.8, batched=True)
        positive += audit.epsilon_lower_bound > 0
    # P(Binomial(60, 0.2) ≥ 30) < 1e-6.
    assert positive < 30


def test_single_outputs() -> None:
    random = np.random.default_rng(0)
    audit = distinguish_lowest_bits(lambda value: value + random.laplace(), (0.0, 1.0), 1.0, 2000)
    assert not audit.holds
    assert audit.counts.trials_where_likelier == pytest.approx(1000)

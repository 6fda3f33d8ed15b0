"""Shamir's sharing: the field, Lagrange's weights, and secrets from any threshold of shares, of one owner or of many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.sums import shamir
from tests.sums.parties import secrets_from

SEED = bytes(range(32))
RESIDUES = st.integers(0, shamir.PRIME - 1)


def words(values):
    return np.array(values, dtype=np.uint64)


@given(RESIDUES, RESIDUES)
def test_the_field(first, second):
    a, b = words([first]), words([second])
    assert shamir.field_product(a, b)[0] == first * second % shamir.PRIME
    assert shamir.field_sum(a, b)[0] == (first + second) % shamir.PRIME


@given(st.integers(0, 2**64 - 1))
def test_reduction_of_any_word(word):
    assert shamir.reduced(words([word]))[0] == word % shamir.PRIME


@pytest.mark.parametrize("value", [0, 1, 2**30, 2**31 - 1, 2**31, 2**60, shamir.PRIME - 1])
def test_the_field_at_its_corners(value):
    corner = words([value] * 3)
    others = words([1, shamir.PRIME - 1, 2**31 + 1])
    assert shamir.field_product(corner, others).tolist() == [value * int(other) % shamir.PRIME for other in others]


@given(st.integers(1, 9), st.integers(1, 9), st.lists(RESIDUES, min_size=1, max_size=4), st.randoms())
def test_any_threshold_of_shares_gives_the_secrets(threshold, more, secrets, random):
    count = threshold + more - 1
    shares = shamir.shares_of(words(secrets), threshold, count, random.randbytes(32))
    holders = random.sample(range(count), random.randint(threshold, count))
    found = secrets_from({holder: shares[holder] for holder in holders}, threshold)
    assert found.tolist() == secrets


@pytest.mark.parametrize(("threshold", "count"), [(0, 3), (4, 3)])
def test_thresholds_that_do_not_fit(threshold, count):
    with pytest.raises(InvalidParameter, match="between 1 and 3"):
        shamir.shares_of(words([1]), threshold, count, SEED)


@given(st.binary(min_size=32, max_size=32))
def test_seeds_survive_as_limbs(seed):
    assert shamir.seed_or_none(shamir.seed_limbs(seed)) == seed


def test_limbs_that_are_no_seed_give_none():
    for limbs in (words([0] * 4), words([2**56, 0, 0, 0, 0])):
        assert shamir.seed_or_none(limbs) is None


@given(st.lists(st.integers(-(2**60) + 1, 2**60 - 1), min_size=1, max_size=5))
def test_signed_words_survive_as_residues(values):
    signed = np.array(values, dtype=np.int64).view(np.uint64)
    residues = shamir.residues(signed)
    assert residues.tolist() == [value % shamir.PRIME for value in values]
    assert shamir.signed_words(residues).view(np.int64).tolist() == values


def test_the_one_word_that_is_no_residue_is_thrown_away(monkeypatch):
    stream = words([shamir.PRIME, 5, 2**64 - 1, 6, 7, 8, 9, 10, 11, 12])
    monkeypatch.setattr(shamir, "stretched", lambda seed, count: stream[:count])
    assert shamir.field_elements(SEED, 2).tolist() == [5, 6]


def evaluated(coefficients: list[int], point: int) -> int:
    """A polynomial at a point, in whole numbers of any size."""
    return sum(each * pow(point, power, shamir.PRIME) for power, each in enumerate(coefficients)) % shamir.PRIME


@given(st.lists(RESIDUES, min_size=1, max_size=12), st.data())
def test_lagranges_weights_take_every_polynomial_of_lower_degree_to_its_value_at_zero(coefficients, data):
    holders = data.draw(
        st.lists(st.integers(0, 2000), min_size=len(coefficients), max_size=len(coefficients) + 3, unique=True)
    )
    weights = shamir.lagrange_weights(holders)
    found = sum(weight * evaluated(coefficients, holder + 1) for weight, holder in zip(weights, holders, strict=True))
    assert found % shamir.PRIME == coefficients[0]


@given(st.integers(1, 6), st.integers(1, 4), st.randoms(use_true_random=False))
def test_shares_are_values_of_one_polynomial_whoever_holds_them(threshold, more, random):
    """Shares of some holders are those that dealing to everybody would give them."""
    count = threshold + more
    secrets = words([random.randrange(shamir.PRIME) for _ in range(3)])
    everyone = shamir.shares_of(secrets, threshold, count, SEED)
    holders = random.sample(range(count), random.randint(1, count))
    assert shamir.shares_at(holders, secrets, threshold, SEED).tolist() == everyone[holders].tolist()


@given(RESIDUES.filter(bool))
def test_inverses(value):
    inverse = int(shamir.field_inverse(words([value]))[0])
    assert inverse * value % shamir.PRIME == 1
    assert inverse == pow(value, -1, shamir.PRIME)


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 5), st.randoms(use_true_random=False))
def test_secrets_of_many_owners_are_those_of_each(threshold, owners, limbs, random):
    """Every owner has other holders; one at a time and all at once give the same."""
    holders, shares, secrets = [], [], []
    for _ in range(owners):
        secret = words([random.randrange(shamir.PRIME) for _ in range(limbs)])
        chosen = random.sample(range(5000), threshold)
        held = shamir.shares_at(chosen, secret, threshold, random.randbytes(32))
        assert secrets_from(dict(zip(chosen, held, strict=True)), threshold).tolist() == secret.tolist()
        holders.append(chosen)
        shares.append(held)
        secrets.append(secret.tolist())
    assert shamir.secrets_of_many(words(holders), np.array(shares)).tolist() == secrets


def test_one_share_too_few_fits_every_secret():
    """t − 1 shares and any secret at all lie on one polynomial: the shares say nothing."""
    threshold, secret = 4, 123
    held = shamir.shares_of(words([secret]), threshold, 9, SEED)[: threshold - 1, 0].tolist()
    for other in (0, secret, shamir.PRIME - 1, 99999):
        points = {0: other, **{place + 1: value for place, value in enumerate(held)}}

        # Lagrange through t points: it takes the given values, whatever `other` is.
        def polynomial(at, points=points):
            total = 0
            for point, value in points.items():
                term = value
                for also in points:
                    if also != point:
                        term = term * (at - also) * pow(point - also, -1, shamir.PRIME) % shamir.PRIME
                total += term
            return total % shamir.PRIME

        shares = {place: words([polynomial(place + 1)]) for place in (5, 6, 7, 8)}
        assert [polynomial(place + 1) for place in range(threshold - 1)] == held
        assert secrets_from(shares, threshold).tolist() == [other]

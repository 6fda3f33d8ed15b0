"""One call for a sum: every number of members, every way of hiding, and what is refused before anybody sends anything."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError, ImplausibleTotal, InvalidParameter, MembersMissing, SudareError
from sudare.sums import FixedPoint, MemberKeys, member, secure_sum, serverless
from sudare.sums.in_process import HIDES
from sudare.sums.messages import Masked, Passed
from sudare.sums.simulation import Traffic

LARGER = (65, 81, 100, 127, 128, 129, 191, 255, 256, 257, 384, 511, 512, 513, 1024)


@functools.cache
def cached_keys(members: int) -> list[MemberKeys]:
    """Keys that know each other. Each pair's secret is computed once and told to both ends; `tests/sums/test_keys.py` checks that ends agree."""
    keys = [MemberKeys.generated() for _ in range(members)]
    for place, first in enumerate(keys):
        for second in keys[:place]:
            second._secrets[first.public.exchange] = first.secret_with(second.public)
    return keys


def exact_total(vectors: np.ndarray, grid: FixedPoint) -> list[float]:
    """The fixed-point sum by whole numbers of any size."""
    rows = [[round(value / float(grid.step)) for value in row] for row in vectors]
    return [float(sum(column)) * float(grid.step) for column in zip(*rows, strict=True)]


def check_masks(members: int, keys: list[MemberKeys] | None) -> None:
    vectors = np.random.default_rng(members).uniform(-1000, 1000, (members, 3))
    found = secure_sum(list(vectors), keys=keys)
    expected = exact_total(vectors, FixedPoint())
    assert len(found.totals) == members
    for total in found.totals:
        assert total is not None
        assert total.tolist() == expected
    assert found.total.tolist() == expected
    assert found.rounds == math.ceil(math.log2(members))
    assert found.values_per_round <= 2
    assert found.included == frozenset(range(members))


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7, 10, 16, 33, 64])
def test_masks_with_fresh_keys(members):
    """Every number of members to 64 is in `tests/sums/test_simulation.py`."""
    check_masks(members, None)


def test_masks_with_cached_keys_for_more_members():
    check_masks(100, cached_keys(100))


@pytest.mark.long
@pytest.mark.parametrize("members", LARGER)
def test_masks_with_cached_keys_for_many_members(members):
    check_masks(members, cached_keys(1024))


@given(st.integers(1, 9), st.data())
def test_all_exact_ways_give_the_same_bits(members, data):
    vectors = [data.draw(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2)) for _ in range(members)]
    grid = FixedPoint(-1e5, 1e5, 1e-6)
    found = [secure_sum(vectors, hide=hide, fixed_point=grid) for hide in HIDES]
    for each in found:
        assert {total.tobytes() for total in each.totals if total is not None} == {found[0].total.tobytes()}
        assert each.saturated == found[0].saturated
    assert found[0].saturated == tuple(sum(abs(value) > 1e5 for value in vector) for vector in vectors)


def test_what_each_way_costs():
    vectors = list(np.random.default_rng(0).normal(size=(10, 50)))
    masked = secure_sum(vectors)
    assert (masked.rounds, masked.values_per_round) == (4, 1)
    # S = 10 sends one value a round: 10 members × 4 rounds × 50 words, less than 1,000 bits of frame a message, and to each
    # other member a signed statement on the total, of less than 3,000 bits.
    assert 10 * 4 * 50 * 64 < masked.bits_sent < 10 * 4 * (50 * 64 + 1000) + 10 * 9 * 3000
    nothing = secure_sum(vectors, hide="nothing")
    assert nothing.bits_sent == 10 * 4 * 50 * 64
    collected = secure_sum(vectors, threshold=6)
    # Vectors go to the collector and the total back to nine members.
    assert (collected.rounds, collected.values_per_round) == (2, 9)
    assert collected.total.tobytes() == masked.total.tobytes()
    assert collected.bits_sent > 2 * 9 * 50 * 64
    eleven = secure_sum([*vectors, vectors[0]])
    assert eleven.values_per_round == 2


def test_members_that_leave():
    """A member sends keys, boxes, its vector, its vote and its shares, and then tells the others which total it heard."""
    vectors = np.arange(12.0).reshape(6, 2)
    found = secure_sum(list(vectors), threshold=4, leave_after={2: 0, 3: 2})
    assert found.included == frozenset({0, 1, 4, 5})
    assert found.total.tolist() == vectors[[0, 1, 4, 5]].sum(axis=0).tolist()
    assert [total is None for total in found.totals] == [False, False, True, True, False, False]
    late = secure_sum(list(vectors), threshold=4, leave_after={2: 3, 3: 5})
    assert late.included == frozenset(range(6))
    assert late.total.tolist() == vectors.sum(axis=0).tolist()
    with pytest.raises(MembersMissing, match="6 members needs 6"):
        secure_sum(list(vectors), leave_after={2: 0})
    with pytest.raises(MembersMissing, match="needs 4 of 6"):
        secure_sum(list(vectors), threshold=4, leave_after=dict.fromkeys((1, 2, 3), 0))
    with pytest.raises(MembersMissing):
        secure_sum(list(vectors), threshold=4, leave_after=dict.fromkeys(range(6), 0))
    with pytest.raises(InvalidParameter, match="masks"):
        secure_sum(list(vectors), hide="nothing", leave_after={2: 0})


def test_whoever_stays_collects():
    """Member 0 would collect; where it leaves, the next one does."""
    vectors = np.arange(10.0).reshape(5, 2)
    found = secure_sum(list(vectors), threshold=3, leave_after={0: 0, 1: 1})
    assert found.included == frozenset({2, 3, 4})


@pytest.mark.parametrize(
    ("members", "threshold", "dishonest"), [(4, 3, 1), (6, 4, 0), (6, 4, 1), (6, 5, 3), (9, 7, 4), (5, 5, 3)]
)
def test_thresholds_and_dishonest_members_that_fit(members, threshold, dishonest):
    vectors = np.arange(2.0 * members).reshape(members, 2)
    found = secure_sum(list(vectors), threshold=threshold, dishonest=dishonest)
    assert found.total.tolist() == vectors.sum(axis=0).tolist()


@pytest.mark.long
@pytest.mark.parametrize(("members", "threshold", "dishonest"), [(200, 195, 5), (300, 290, 10)])
def test_many_members_of_whom_some_leave(members, threshold, dishonest):
    """From two hundred members on everyone has a few neighbours only."""
    vectors = np.ones((members, 2))
    leave_after = {member: member % 5 for member in range(1, members - threshold + 1)}
    found = secure_sum(list(vectors), threshold=threshold, dishonest=dishonest, leave_after=leave_after)
    assert found.included >= frozenset(range(members)) - set(leave_after)
    assert found.total.tolist() == [len(found.included)] * 2


# Refused before anybody sends anything, without anybody's data


@pytest.fixture
def nobody_masks(monkeypatch):
    """Fails the test where anything is masked, and so could be sent."""

    def refuse(*arguments):
        raise AssertionError

    for module in (member, serverless):
        monkeypatch.setattr(module, "add_pair_masks", refuse)
        monkeypatch.setattr(module, "admitted", refuse)


@pytest.mark.parametrize("hide", HIDES)
@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [[]],
        [[], []],
        [[1.0], [1.0, 2.0]],
        [[[1.0]], [[2.0]]],
        [[31.25, math.nan], [1.0, 2.0]],
        [1.0, 2.0],
    ],
)
@pytest.mark.usefixtures("nobody_masks")
def test_vectors_that_cannot_be_summed(hide, vectors):
    with pytest.raises(DataError) as refused:
        secure_sum(vectors, hide=hide)
    assert "31.25" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"hide": "hope"}, "'hope'"),
        ({"threshold": 1}, "threshold"),
        ({"threshold": 4}, "threshold"),
        ({"dishonest": 2}, "fewer than two honest"),
        ({"dishonest": -1}, "dishonest"),
        ({"dishonest": 1.5}, "dishonest"),
        ({"threshold": 2, "dishonest": 1}, "two totals could be opened"),
        ({"keys": []}, "keys"),
        ({"hide": "nothing", "threshold": 3}, "about sums under masks"),
        ({"hide": "nothing", "dishonest": 0}, "about sums under masks"),
        ({"fixed_point": FixedPoint(-(2.0**30), 2.0**30, 2.0**-32)}, "wrap"),
    ],
)
def test_options_that_do_not_fit(options, match):
    with pytest.raises(InvalidParameter, match=match):
        secure_sum([[1.0], [2.0], [3.0]], **options)


@pytest.mark.parametrize("hide", HIDES)
def test_a_hostile_addend_that_leaves_the_ranges_stops_the_task(hide, monkeypatch):
    """Masks hide who did it; that it was done shows when the total is no sum of declared values."""
    honest = FixedPoint(-1.0, 1.0, 2.0**-20)
    encode = FixedPoint.encode
    hostile = FixedPoint(-100.0, 100.0, 2.0**-20)

    def by_member(grid, values):
        return encode(hostile if values[0] == 50.0 else grid, values)

    monkeypatch.setattr(FixedPoint, "encode", by_member)
    with pytest.raises(ImplausibleTotal) as stopped:
        secure_sum([[0.5], [50.0], [0.5]], hide=hide, fixed_point=honest)
    assert "50" not in str(stopped.value)


def test_values_outside_the_range_saturate_and_only_their_owner_counts_them():
    found = secure_sum([[5.0, 0.0], [0.25, math.inf], [0.5, 0.5]], fixed_point=FixedPoint(-1.0, 1.0, 2.0**-20))
    assert found.total.tolist() == [1.75, 1.5]
    assert found.saturated == (1, 1, 0)


def test_totals_cannot_be_changed_behind_another_members_back():
    found = secure_sum([[1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match="read-only"):
        found.total[0] = 5.0


@pytest.mark.parametrize("threshold", [3, 4])
def test_masks_are_fresh_for_every_call(threshold, monkeypatch):
    """The same keys, equal vectors: what leaves is never the same twice."""
    seen = []
    original = Traffic.count

    def watched(traffic, message):
        if isinstance(message.body, Masked | Passed):
            vector = message.body.words if isinstance(message.body, Masked) else message.body.window
            seen.append(vector.tobytes())
        original(traffic, message)

    monkeypatch.setattr(Traffic, "count", watched)
    keys = cached_keys(100)[:4]
    for _ in range(5):
        secure_sum([[1.0], [2.0], [3.0], [4.0]], keys=keys, threshold=threshold)
    # Without a collector: two parcels of each member; with one: the vectors of all but the collector.
    assert len(seen) == len(set(seen)) == 5 * (3 if threshold == 3 else 8)


def test_every_error_is_one_of_ours_and_says_what_to_do():
    with pytest.raises(SudareError) as refused:
        secure_sum([[1.0], [2.0]], threshold=1)
    assert "Use the threshold 2 (nobody may leave)." in str(refused.value)

"""What is said about a consortium's secure sums, and which numbers do not fit together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.sums.dropout_and_collusion_risk import assessed_sum


@given(st.integers(2, 60), st.integers(0, 30), st.integers(0, 30))
def test_numbers_that_fit_are_assessed_and_others_name_the_remedy(members: int, dishonest: int, leaving: int) -> None:
    if dishonest + 2 * leaving < members and dishonest > members - 2:
        with pytest.raises(InvalidParameter, match="hides nothing"):
            assessed_sum(members, dishonest, leaving)
    elif dishonest + 2 * leaving < members:
        found = assessed_sum(members, dishonest, leaving)
        assert 2 * found.threshold > members + dishonest
        assert found.threshold == members - leaving
        assert found.threshold <= members - leaving == found.largest_threshold
        assert 2 <= found.honest_addends <= members - dishonest
    else:
        with pytest.raises(InvalidParameter, match=f"at least {dishonest + max(2 * leaving + 1, 2)} members"):
            assessed_sum(members, dishonest, leaving)


@pytest.mark.parametrize(
    ("members", "dishonest", "leaving"), [(10, 4, 3), (10, 8, 1), (10, 0, 5), (7, 7, 7), (8, 8, 0)]
)
def test_each_remedy_works(members: int, dishonest: int, leaving: int) -> None:
    with pytest.raises(InvalidParameter) as refused:
        assessed_sum(members, dishonest, leaving)
    assessed_sum(int(refused.value.remedy.split("at least ")[1].split()[0]), dishonest, leaving)
    if "leaving" in refused.value.remedy:
        assessed_sum(members, dishonest, int(refused.value.remedy.split(" leaving")[0].split()[-1]))
    if "dishonest" in refused.value.remedy:
        assessed_sum(members, int(refused.value.remedy.split(" dishonest")[0].split()[-1]), leaving)


@pytest.mark.parametrize("threshold", [7, 10])
def test_a_threshold_that_is_told_must_fit(threshold: int) -> None:
    with pytest.raises(InvalidParameter, match="threshold"):
        assessed_sum(10, 4, 1, threshold)


def test_a_complete_graph_fails_by_cryptography_only() -> None:
    found = assessed_sum(10, 2, 2)
    assert found.complete
    assert (found.degree, found.share_threshold, found.honest_addends) == (9, 8, 6)
    assert found.privacy_failure_log2 == found.liveness_failure_log2 == -math.inf


def test_nobody_may_leave_where_all_must_vote() -> None:
    found = assessed_sum(10, 3, 0, 10)
    assert found.serverless
    assert found.honest_addends == 7


def test_more_votes_keep_more_honest_addends() -> None:
    few, many = assessed_sum(10_000, 500, 500, 9_000), assessed_sum(10_000, 500, 500)
    assert many.threshold == 9_500
    assert few.honest_addends < many.honest_addends == 9_500 - 500 - many.most_separated
    assert few.degree > many.degree

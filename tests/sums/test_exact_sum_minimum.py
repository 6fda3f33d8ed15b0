"""How many members exact sums need."""

from __future__ import annotations

import pytest

from sudare.errors import InvalidParameter
from sudare.sums.exact_sum_minimum import check_exact_sums


@pytest.mark.parametrize(
    ("members", "consent", "message"),
    [
        (1, True, "at least two"),
        (2, False, "compute the other's records"),
        (2, True, "compute the other's records"),
        (3, False, "does not consent"),
        (4, False, "does not consent"),
    ],
)
def test_too_few_members_are_refused(members: int, consent: bool, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        check_exact_sums(members, consent)


@pytest.mark.parametrize(("members", "consent"), [(3, True), (4, True), (5, False)])
def test_enough_members_or_consent(members: int, consent: bool) -> None:
    check_exact_sums(members, consent)

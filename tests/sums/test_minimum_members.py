"""How many members an exact or a noisy sum needs."""

from __future__ import annotations

import pytest

from sudare.errors import InvalidParameter
from sudare.sums.minimum_members import check_consortium


@pytest.mark.parametrize(
    ("members", "consent", "private", "message"),
    [
        (1, True, False, "at least two"),
        (2, False, False, "compute the other's records"),
        (2, True, False, "compute the other's records"),
        (3, False, False, "does not consent"),
        (4, False, False, "does not consent"),
        (1, True, True, "at least two"),
    ],
)
def test_too_few_members_are_refused(members, consent, private, message):
    with pytest.raises(InvalidParameter, match=message):
        check_consortium(members, consent, private=private)


@pytest.mark.parametrize(
    ("members", "consent", "private"),
    [(3, True, False), (4, True, False), (5, False, False), (2, False, True), (3, False, True)],
)
def test_enough_members_or_consent_or_epsilon(members, consent, private):
    check_consortium(members, consent, private=private)

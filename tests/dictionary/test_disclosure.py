"""Who may train with exact sums, and what is written down before."""

from __future__ import annotations

import pytest

from sudare.dictionary.disclosure import Disclosure
from sudare.errors import InvalidParameter
from sudare.privacy import Ledger
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


def test_a_disclosure_says_what_is_shown_to_whom_and_is_entered_first(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("plant", epsilon=1.0)
    disclosure = Disclosure(members=5, records=300, columns=4, numbers=9000)
    assert "9,000 numbers about 1,200 held here (300 records × 4 columns)" in disclosure.what
    receipt = disclosure.entered(account)
    entry = account.entries()[-1]
    assert (entry.kind, entry.position) == ("disclosure", receipt.position)
    assert entry.body["numbers"] == 9000
    assert entry.body["guarantee"]["notion"] == "none"
    assert account.spent().epsilon == 0
    assert disclosure.revealed(600) == "600 numbers revealed, 1,200 held (50%); exact sums are not record privacy"

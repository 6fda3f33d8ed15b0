"""Who may train with exact sums, and what is written down before."""

from __future__ import annotations

from sudare.dictionary.disclosure import Disclosure
from sudare.privacy import Ledger


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

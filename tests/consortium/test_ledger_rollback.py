"""The ledger's last point, kept outside of it: an old copy is noticed, and a restore that the steward made is understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from sudare.consortium.ledger_rollback import checked_ledger, parsed_head, remember_head, remembered_head
from sudare.errors import AgreementError, LedgerMissing, LedgerRolledBack
from sudare.privacy.ledger_restore import restored
from tests.consortium.documents import member_in
from tests.ledgers import charge


def test_an_old_ledger_put_back_is_noticed_and_a_restore_understood(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    assert remembered_head(member) is None
    ledger = checked_ledger(member)
    account = ledger.account("north", epsilon=2.0)
    remember_head(member, ledger)
    ledger.backup(tmp_path / "backup.db")
    charge(account, 0.5)
    remember_head(member, ledger)
    assert remembered_head(member) == checked_ledger(member).head()
    (tmp_path / "ledger.db").write_bytes((tmp_path / "backup.db").read_bytes())
    with pytest.raises(LedgerRolledBack):
        checked_ledger(member)
    known = remembered_head(member)
    assert known is not None
    restored(member.ledger(), [], [known], "disk failed")
    assert checked_ledger(member).account("north").remaining()[0] == 0.0
    assert remembered_head(member) == member.ledger().head()


def test_a_ledger_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    checked_ledger(member)
    (tmp_path / "ledger.db").unlink()
    with pytest.raises(LedgerMissing):
        checked_ledger(member)
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ledger": "a", "position": 0, "hash": "b"}', "[" * 10_000])
def test_a_broken_file_stops_the_node(text: str, tmp_path: Path) -> None:
    member = member_in(tmp_path)
    checked_ledger(member)
    (tmp_path / "state" / "ledger.head").write_text(text)
    with pytest.raises(AgreementError):
        checked_ledger(member)
    with pytest.raises(AgreementError):
        parsed_head(text)


def test_an_earlier_copy_of_a_broken_file_is_enough_and_a_link_that_leads_nowhere_is_broken(tmp_path: Path) -> None:
    member = member_in(tmp_path)
    account, path = checked_ledger(member).account("north", epsilon=2.0), tmp_path / "state" / "ledger.head"
    earlier = path.read_bytes()
    charge(account, 0.5)
    path.write_text("{")
    with pytest.raises(AgreementError, match="earlier copy"):
        checked_ledger(member)
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(AgreementError, match="earlier copy"):
        checked_ledger(member)
    path.unlink()
    path.write_bytes(earlier)
    assert checked_ledger(member).head() == remembered_head(member)

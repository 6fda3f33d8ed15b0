"""The ledger's last point, remembered outside of it: an older copy put back is noticed when the node starts, and before anything is paid from it.

The file is what `sudare budget head` writes, so that `sudare budget restore --head` takes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.document_fields import hexadecimal, parsed_json, whole
from sudare.consortium.agreement.member_settings import Member
from sudare.errors import AgreementError
from sudare.files import PRIVATE_MODE, make_private_folder, read_text, write_atomically
from sudare.privacy.ledger import Ledger
from sudare.privacy.ledger_chain import Head, verify_contains

HEAD_FILE: Final = "ledger.head"


def checked_ledger(member: Member) -> Ledger:
    """The member's ledger, whole and not older than the point remembered; made only if none was ever seen."""
    known = remembered_head(member)
    ledger = member.ledger(create=known is None)
    ledger.verify([] if known is None else [known])
    remember_head(member, ledger)
    return ledger


def check_not_older(member: Member) -> None:
    """Raise LedgerRolledBack where the ledger that stands there now lacks the point remembered, and LedgerMissing where it is gone."""
    known = remembered_head(member)
    if known is not None:
        _check_has(member.ledger(create=False), known)


def remember_head(member: Member, ledger: Ledger) -> None:
    """Keep the ledger's last point. To be called after every charge and disclosure. Raise LedgerRolledBack where it lacks the one that was kept before."""
    known = remembered_head(member)
    if known is not None:
        _check_has(ledger, known)
    make_private_folder(member.state_folder)
    write_atomically(_file(member.state_folder), json.dumps(vars(ledger.head())).encode(), PRIVATE_MODE)


def remembered_head(member: Member) -> Head | None:
    """The last point that was kept, if there is one."""
    return next(iter(heads_in(member.state_folder)), None)


def heads_in(state_folder: Path) -> list[Head]:
    """The points of the ledger that a state folder remembers: one, or none. Raise AgreementError where the file that has it cannot be read."""
    path = _file(state_folder)
    if not (path.exists() or path.is_symlink()):
        return []
    try:
        return [parsed_head(read_text(path, "The ledger's head"))]
    except AgreementError as error:
        raise AgreementError(
            error.problem,
            f"Put an earlier copy of '{HEAD_FILE}' back, of whatever day, and nothing else of the state folder. Where there is none, see that the ledger is the newest (sudare budget verify --head …), remove the file and write it anew (sudare budget head -o).",
        ) from None


def parsed_head(text: str) -> Head:
    """A head from its file."""
    readers = {"ledger": hexadecimal(32), "position": whole(0), "hash": hexadecimal(64)}
    return parsed_json(text, "The file of the ledger's head").built(Head, readers)


def _check_has(ledger: Ledger, known: Head) -> None:
    verify_contains(ledger.identity, list(ledger.entries()), [known])


def _file(state_folder: Path) -> Path:
    return state_folder / HEAD_FILE

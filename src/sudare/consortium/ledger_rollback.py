"""The ledger's last point, remembered outside of it: an older copy put back is noticed when the node starts.

The file is what `sudare budget head` writes, so that `sudare budget restore --head` takes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.document_fields import hexadecimal, parsed_json, whole
from sudare.consortium.agreement.member_settings import Member
from sudare.files import PRIVATE_MODE, make_private_folder, read_text, write_atomically
from sudare.privacy.ledger import Ledger
from sudare.privacy.ledger_chain import Head

HEAD_FILE: Final = "ledger.head"


def checked_ledger(member: Member) -> Ledger:
    """The member's ledger, whole and not older than the point remembered; made only if none was ever seen."""
    known = remembered_head(member)
    ledger = member.ledger(create=known is None)
    ledger.verify([] if known is None else [known])
    remember_head(member, ledger)
    return ledger


def remember_head(member: Member, ledger: Ledger) -> None:
    """Keep the ledger's last point. To be called after every charge and disclosure."""
    make_private_folder(member.state_folder)
    write_atomically(_file(member), json.dumps(vars(ledger.head())).encode(), PRIVATE_MODE)


def remembered_head(member: Member) -> Head | None:
    """The last point that was kept, if there is one."""
    path = _file(member)
    return parsed_head(read_text(path, "The ledger's head")) if path.exists() else None


def parsed_head(text: str) -> Head:
    """A head from its file."""
    readers = {"ledger": hexadecimal(32), "position": whole(0), "hash": hexadecimal(64)}
    return parsed_json(text, "The file of the ledger's head").built(Head, readers)


def _file(member: Member) -> Path:
    return member.state_folder / HEAD_FILE

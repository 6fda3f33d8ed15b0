"""The versions of the agreement that a member's node has taken, kept in its state folder: what was put in their place by hand is held to them.

The files beside the agreement can be replaced by anybody who may write there. A node begins under another version only where each version follows the
one before it, from the last that it has taken itself; and a history that somebody removed is put back.
"""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import carried, check_follows, history_folder, keep_version
from sudare.consortium.agreement.document_fields import hexadecimal, parsed_json, whole
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import Statements, signature_status, statements_path
from sudare.errors import AgreementError, IdentityError, SudareError
from sudare.files import PRIVATE_MODE, make_private_folder, read_text, write_atomically

_MEMORY: Final = "agreement.json"
_FOLDER: Final = "agreements"


def take_version(member: Member, agreement: Agreement) -> list[int]:
    """Remember a version that is in force as the one that this member has taken. Returns the numbers of versions that the history lacked, and has again.

    A version that is later than the one remembered gives the account the budget that it names. Raise AgreementError where the member has taken a later
    version, another one of the same number, or one from which the versions that are kept do not lead to this one.
    """
    known = _remembered(member)
    if known is not None and agreement.version < known["version"]:
        raise AgreementError(
            f"This is version {agreement.version} of the agreement; this member has taken version {known['version']} ({known['digest'][:12]}) already.",
            "Ask another member for that version and its statements, and put them in place.",
        )
    is_another = known is not None and agreement.digest != known["digest"]
    # A first version names none before it: members that sign another first one begin anew.
    if known is not None and is_another and agreement.version > 1:
        _check_leads_to(member, known, agreement)
    if known is not None and agreement.version > known["version"]:
        _raise_budget(member, agreement)
    make_private_folder(_folder(member))
    seen = known_statements(member, agreement)
    statements = carried(member.statements(), seen)
    if statements != seen:
        keep_version(_folder(member), agreement, statements, PRIVATE_MODE)
    missing = restored_history(member, agreement)
    if known is None or is_another:
        content = json.dumps({"version": agreement.version, "digest": agreement.digest}).encode()
        write_atomically(member.state_folder / _MEMORY, content)
    return missing


def known_statements(member: Member, agreement: Agreement) -> Statements:
    """The statements about a version that this member's node has seen; none of a version that it has not taken."""
    paths = _folder(member).glob(f"{agreement.version:04d}-{agreement.digest[:12]}.toml")
    return next(map(Statements.load, paths), Statements())


def version_digests(member: Member, agreement: Agreement) -> frozenset[str]:
    """The digests of all versions of this consortium's agreement that this member knows; of the one before each also where its text is gone."""
    known = (agreement, *(each for each, _ in _kept(member)))
    return frozenset(digest for each in known for digest in (each.digest, each.previous) if digest is not None)


def versions_up_to(member: Member, agreement: Agreement) -> list[tuple[Agreement, Statements]]:
    """This version and those before it, the oldest first, with what is known of statements about them in the state folder, the history and beside the agreement.

    Each is the text whose hash the next one names: what else stands in the history changes nothing. A member that joined later begins with a later version.
    """
    by_digest = {each.digest: (each, statements) for each, statements in _kept(member)}
    present = member.statements()
    _, known = by_digest.get(agreement.digest, (agreement, present))
    # Of keys for sums that contradict each other, those that this member took the version with.
    with contextlib.suppress(IdentityError):
        known = known.merged(present, agreement)
    chain = [(agreement, known)]
    while (before := by_digest.get(chain[-1][0].previous or "")) is not None:
        chain.append(before)
    return chain[::-1]


def _remembered(member: Member) -> dict[str, Any] | None:
    """Number and digest of the version that was taken last."""
    path = member.state_folder / _MEMORY
    if not path.exists():
        return None
    readers = {"version": whole(1), "digest": hexadecimal(64)}
    return parsed_json(read_text(path, "The agreement's mark in the state folder"), "The agreement's mark").built(
        dict, readers
    )


def _folder(member: Member) -> Path:
    return member.state_folder / _FOLDER


def _kept(member: Member) -> list[tuple[Agreement, Statements]]:
    """Every version that is kept in the state folder or in the history, by its number. What cannot be read is none."""
    found: dict[str, tuple[Agreement, Statements]] = {}
    for folder in (_folder(member), history_folder(member.agreement_path)):
        for path in sorted(folder.glob("*.toml")):
            try:
                agreement, statements = Agreement.load(path), Statements.load(path)
            except SudareError:
                continue
            earlier = found.get(agreement.digest)
            found[agreement.digest] = (
                agreement,
                statements if earlier is None else carried(earlier[1], statements),
            )
    return sorted(found.values(), key=lambda each: each[0].version)


def _check_leads_to(member: Member, known: dict[str, Any], agreement: Agreement) -> None:
    """Raise AgreementError unless versions that are kept lead from the one that was taken to this one, each in force and following the one before."""
    if agreement.version == known["version"]:
        raise AgreementError(
            f"This is another version {agreement.version} of the agreement than the one that this member has taken ({known['digest'][:12]}).",
            "Ask the other members which they hold, and put that one in place.",
        )
    by_digest = {each.digest: (each, statements) for each, statements in _kept(member)}
    chain = [(agreement, member.statements())]
    while chain[-1][0].digest != known["digest"]:
        before = by_digest.get(chain[-1][0].previous or "")
        if before is None:
            raise AgreementError(
                f"The versions between version {known['version']} of the agreement, which this member has taken, and version {agreement.version} are not all here.",
                f"Put those of another member's folder '{history_folder(member.agreement_path).name}' beside the agreement.",
            )
        chain.append(before)
    for (earlier, statements), (later, about_later) in pairwise(reversed(chain)):
        check_follows(earlier, statements, later)
        if not signature_status(later, about_later).is_in_force and later.digest != agreement.digest:
            raise AgreementError(
                f"Version {later.version} of the agreement is not signed by all as it is kept.",
                "Ask another member for its folder of earlier versions: somebody changed this one.",
            )


def restored_history(member: Member, agreement: Agreement) -> list[int]:
    """The numbers of versions that this member has taken and the history lacked: they are put back."""
    folder, missing = history_folder(member.agreement_path), []
    for earlier, statements in _kept(member):
        path = folder / f"{earlier.version:04d}-{earlier.digest[:12]}.toml"
        is_whole = path.exists() and statements_path(path).exists()
        if earlier.version < agreement.version and not is_whole and _is_before(member, earlier, agreement):
            # Where nobody may write beside the agreement, the versions stay in the state folder.
            with contextlib.suppress(AgreementError):
                keep_version(folder, earlier, statements)
            missing.append(earlier.version)
    return missing


def _is_before(member: Member, earlier: Agreement, agreement: Agreement) -> bool:
    """Whether versions that are kept lead from the earlier one to this one."""
    previous = {each.digest: each.previous for each, _ in _kept(member)}
    digest: str | None = agreement.previous
    while digest is not None and digest != earlier.digest:
        digest = previous.get(digest)
    return digest is not None


def _raise_budget(member: Member, agreement: Agreement) -> None:
    """Give the account, if it was opened, the budget of a new version: this member's signature under it is the steward's word."""
    from sudare.privacy.accounting import exact

    ledger = member.ledger()
    if member.account_name not in {account.name for account in ledger.accounts()}:
        return
    agreed, has = agreement.member(member.name).budget, ledger.account(member.account_name).terms.budget
    wanted = {
        name: value
        for name, value, now in (("epsilon", agreed.epsilon, has.epsilon), ("delta", agreed.delta, has.delta))
        if exact(value) > now
    }
    if wanted:
        reason = f"version {agreement.version} of agreement {agreement.name} ({agreement.digest[:16]})"
        ledger.raise_budget(member.account_name, **wanted, reason=reason)

"""The versions of the agreement that a member's node has taken, kept in its state folder: what was put in their place by hand is held to them.

The files beside the agreement can be replaced by anybody who may write there. A node begins under another version only where each version follows the
one before it, from the last that it has taken itself; a history that somebody removed is put back; and statements that it has seen count on, whatever
the file beside the agreement forgets.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import (
    LEFT,
    Known,
    check_follows,
    check_is_branch,
    earlier_versions,
    history_folder,
    keep_version,
    kept_path,
    path_after_adoption,
    proposal_path,
    versions_missing,
)
from sudare.consortium.agreement.consortium_setup_steps import remembers_signing
from sudare.consortium.agreement.document_fields import hexadecimal, parsed_json, whole
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import (
    Statements,
    carried,
    is_signed_with,
    signature_status,
    statements_path,
    statements_to_keep,
)
from sudare.errors import AgreementError, SudareError
from sudare.files import make_private_folder, read_text, write_atomically

_MEMORY: Final = "agreement.json"


def take_version(member: Member, agreement: Agreement, *, instead: bool = False) -> list[int]:
    """Remember a version that is in force as the one that this member has taken. Returns the numbers of versions that the history lacked, and has again.

    A version that is later than the one remembered gives the account the budget that it names. Raise AgreementError where the member has taken a later
    version, another one of the same number, one from which the versions that are kept do not lead to this one, or one that was signed in its name with
    another key; with `instead` it leaves the one that it has taken for this one, if both go back to one version.
    """
    check_can_be_taken(member, agreement, instead=instead)
    taken, left = _remembered(member), taken_version(member)
    if taken is not None and (agreement.version > taken["version"] or instead):
        _raise_budget(member, agreement)
    make_private_folder(member.versions_folder)
    seen = member.statements(agreement)
    # What was seen under the version before counts under this one, also where its file was written without.
    seen = seen if left is None else carried(seen, member.known_statements(left))
    remember_statements(member, agreement, seen)
    missing = restored_history(member, agreement)
    if taken is None or agreement.digest != taken["digest"]:
        content = json.dumps({"version": agreement.version, "digest": agreement.digest}).encode()
        write_atomically(member.state_folder / _MEMORY, content)
        # What it still wanted to finish under the version before is left now.
        member.held_mark.unlink(missing_ok=True)
    return missing


def check_can_be_taken(member: Member, agreement: Agreement, *, instead: bool = False) -> None:
    """Raise AgreementError as `take_version` does."""
    taken = _remembered(member)
    # A first version names none before it: members that sign another first one begin anew.
    if taken is None or agreement.digest == taken["digest"] or (agreement.version == taken["version"] == 1):
        return
    if agreement.version < taken["version"]:
        raise AgreementError(
            f"This is version {agreement.version} of the agreement; this member has taken version {taken['version']} ({taken['digest'][:12]}) already.",
            "Ask another member for that version and its statements, and put them in place.",
        )
    check_is_signed_here(member, agreement)
    left = taken_version(member)
    if not instead or left is None:
        _check_leads_to(member, taken, agreement)
        return
    known = known_of(member, left)
    ours, theirs = (
        (each, *earlier_versions(each, member.agreement_path, known.versions)) for each in (left, agreement)
    )
    check_is_branch(ours, known.statements, theirs)


def check_is_signed_here(member: Member, following: Agreement) -> None:
    """Raise AgreementError unless this member itself has signed a version: by its state folder, or with the key that stands for it under the one that it has taken.

    Anybody can enter a key of its own under another's name, and sign with it; and whoever knows a key that was handed over can still sign with that.
    """
    taken = taken_version(member)
    if taken is None or taken.digest == following.digest or remembers_signing(member, following):
        return
    key = signature_status(taken, member.statements(taken)).keys.get(member.name)
    if key is None or not any(is_signed_with(following, each, member.name, key) for each in _told(member, following)):
        raise AgreementError(
            f"Version {following.version} of the agreement ({following.digest[:12]}) is not signed by this member: the signature in the name of '{member.name}' is not by the key that stands for it.",
            "Ask the others who wrote it. If this version is meant, sign it: sudare consortium sign --next; without --next where it stands in the agreement's place.",
        )


def _told(member: Member, following: Agreement) -> Iterator[Statements]:
    """What is told of signatures about a version: beside the agreement, beside the proposal, and what this member has seen."""
    for path in (
        member.agreement_path,
        proposal_path(member.agreement_path),
        kept_path(member.versions_folder, following),
    ):
        with contextlib.suppress(SudareError):
            yield Statements.load(path)


def taken_version(member: Member) -> Agreement | None:
    """The version that this member has taken last, as it is kept; None where it has taken none."""
    taken = _remembered(member)
    return None if taken is None else next((each for each, _ in _kept(member) if each.digest == taken["digest"]), None)


def as_it_left(member: Member) -> Member:
    """The member under the version that it has taken last, where the one in the agreement's place does not name it any more; else as it is."""
    if member.agreement_path.exists() and member.name in Agreement.load(member.agreement_path).member_names:
        return member
    taken = taken_version(member)
    return member if taken is None else replace(member, agreement_path=kept_path(member.versions_folder, taken))


def has_left(member: Member, agreement: Agreement) -> bool:
    """Whether this member has taken another version than this one since."""
    taken = _remembered(member)
    return taken is not None and taken["digest"] != agreement.digest


def known_of(member: Member, agreement: Agreement) -> Known:
    """The statements about a version that this member has seen, and all versions that it has kept."""
    return Known(member.known_statements(agreement), tuple(each for each, _ in _kept(member)))


def remember_statements(member: Member, agreement: Agreement, seen: Statements) -> None:
    """Keep what was seen of statements about a version: it counts on, whatever the file beside the agreement forgets. Raise OSError where it cannot be written."""
    known = known_of(member, agreement)
    earlier = earlier_versions(agreement, member.agreement_path, known.versions)
    kept = statements_to_keep(known.statements, seen, agreement, earlier)
    if kept != known.statements:
        path = kept_path(member.versions_folder, agreement)
        write_atomically(path, agreement.to_toml().encode())
        write_atomically(statements_path(path), kept.to_toml().encode())


def version_digests(member: Member, agreement: Agreement) -> frozenset[str]:
    """The digests of all versions of this consortium's agreement that this member knows, also of a line that was left; of the one before each also where its text is gone."""
    known = (agreement, *(each for each, _ in _kept(member, with_left=True)))
    return frozenset(digest for each in known for digest in (each.digest, each.previous) if digest is not None)


def knows_all_versions(member: Member, agreement: Agreement) -> bool:
    """Whether every version before this one, back to the first, is kept here. A member that joined later has them from another member's history."""
    return versions_up_to(member, agreement)[0][0].version == 1


def versions_up_to(member: Member, agreement: Agreement) -> list[tuple[Agreement, Statements]]:
    """This version and those before it, the oldest first, with what is known of statements about them in the state folder, the history and beside the agreement.

    Each is the text whose hash the next one names: what else stands in the history changes nothing. A member that joined later begins with a later version.
    """
    by_digest = {each.digest: (each, statements) for each, statements in _kept(member)}
    chain = [(agreement, member.statements(agreement))]
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


def _kept(member: Member, *, with_left: bool = False) -> list[tuple[Agreement, Statements]]:
    """Every version that is kept in the state folder or in the history, or stands in the agreement's place, by its number. What cannot be read is none."""
    found: dict[str, tuple[Agreement, Statements]] = {}
    history = history_folder(member.agreement_path)
    folders = (member.versions_folder, history, *((history / LEFT,) if with_left else ()))
    for path in (*(each for folder in folders for each in sorted(folder.glob("*.toml"))), member.agreement_path):
        try:
            agreement, statements = Agreement.load(path), Statements.load(path)
        except SudareError:
            continue
        earlier = found.get(agreement.digest)
        found[agreement.digest] = agreement, statements if earlier is None else carried(earlier[1], statements)
    return sorted(found.values(), key=lambda each: each[0].version)


def _check_leads_to(member: Member, known: dict[str, Any], agreement: Agreement) -> None:
    """Raise AgreementError unless versions that are kept lead from the one that was taken to this one, each in force and following the one before."""
    if agreement.version == known["version"]:
        raise AgreementError(
            f"This is another version {agreement.version} of the agreement than the one that this member has taken ({known['digest'][:12]}).",
            "Ask the other members which they hold. If all hold the other one, put it beside the agreement as its next version: sudare consortium adopt --instead",
        )
    by_digest = {each.digest: (each, statements) for each, statements in _kept(member)}
    chain = [(agreement, member.statements(agreement))]
    while chain[-1][0].digest != known["digest"]:
        found = by_digest.get(chain[-1][0].previous or "")
        if found is None:
            raise versions_missing(known["version"], agreement.version, path_after_adoption(member.agreement_path))
        chain.append(found)
    texts, known_so_far = [each for each, _ in _kept(member)], Statements()
    for (earlier, statements), (later, about_later) in pairwise(reversed(chain)):
        is_last = later.digest == agreement.digest
        # What was seen under any version before counts, also where the files of those between say nothing of it.
        known_so_far = carried(statements, known_so_far)
        before = earlier_versions(earlier, member.agreement_path, texts)
        check_follows(earlier, known_so_far, later, before, is_taken=is_last)
        if not is_last and signature_status(later, about_later).lacking:
            raise AgreementError(
                f"Version {later.version} of the agreement is not signed by all as it is kept.",
                "Ask another member for its folder of earlier versions: somebody changed this one.",
            )


def restored_history(member: Member, agreement: Agreement) -> list[int]:
    """The numbers of versions that this member has taken and the history lacked: they are put back."""
    folder, missing = history_folder(member.agreement_path), []
    for earlier, statements in _kept(member):
        path = kept_path(folder, earlier)
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

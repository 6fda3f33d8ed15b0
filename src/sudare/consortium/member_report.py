"""What a member can show a regulator: agreements and who signed them, tasks with what each revealed and cost, decisions, the ledger's head; signed.

A report holds no records, no results and no values: digests of what all members of a task hold alike. Agreements and signatures are in it as texts, so that
whoever reads it can work out what it says about them.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from sudare.consortium.agreement.agreement import Agreement, differences
from sudare.consortium.agreement.amendments import history_folder
from sudare.consortium.agreement.approvals import Approvals
from sudare.consortium.agreement.identity import Identity, verifies
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import (
    KnownKeys,
    SignatureStatus,
    Statements,
    keys_of,
    now,
    signature_status,
)
from sudare.consortium.agreement.taken_versions import restored_history, taken_version, versions_up_to
from sudare.consortium.tasks.definitions import Task
from sudare.consortium.tasks.results_folder import agreement_of
from sudare.consortium.tasks.task_account import mark_of
from sudare.dictionary.member_model_file import read_document
from sudare.errors import AgreementError, SudareError
from sudare.files import write_new
from sudare.parsing import NotParsed, bounded_bytes, parsed_json
from sudare.privacy.account_balance import AccountState
from sudare.privacy.ledger_chain import Entry, canonical_json
from sudare.privacy.run_account import entries_of

FORMAT: Final = 3
# Reports of format 1 have no texts of agreements and signatures; of format 2, entries and budget of one account.
_READABLE: Final = (1, 2, FORMAT)
_PURPOSE: Final = "consortium report"
_REQUIRED: Final = {"format": int, "member": str, "made_at": str, "agreements": list, "tasks": list, "ledger": dict}


def report_values(own: Member, *, with_decisions: bool = True) -> dict[str, Any]:
    """The report of a member, unsigned. Without decisions it is for other members: why a steward decided stays in its house. Raise as a ledger that is not intact does.

    Versions of the agreement that the member has taken and the history lacks are put back first. Entries are those of all accounts that tasks were paid
    from: a member may have named another one for other records.
    """
    ledger = own.ledger(create=False)
    head, entries, agreement = ledger.verify([]), list(ledger.entries()), _present_version(own)
    restored_history(own, agreement)
    listed = versions_up_to(own, agreement)
    tasks = [
        _task_values(own, version, task, entries, is_present=version is agreement)
        for version, _ in listed
        for task in version.tasks
    ]
    paying = {own.account_name, *(entry["account"] for each in tasks for entry in each["entries"])}
    decisions = [each.to_dict() for each in Approvals(own.state_folder).history()] if with_decisions else None
    return {
        "format": FORMAT,
        "member": own.name,
        "made_at": now(),
        "agreements": [
            {
                **agreement_values(version, signature_status(version, statements)),
                "changed": [] if before is None else list(differences(before[0], version)),
                "text": version.to_toml(),
                "statements": statements.to_toml(),
            }
            for before, (version, statements) in zip([None, *listed[:-1]], listed, strict=True)
        ],
        "tasks": tasks,
        "decisions": decisions,
        "ledger": dict(vars(head)),
        "accounts": {
            account.name: account_values(account.state()) for account in ledger.accounts() if account.name in paying
        },
    }


def _present_version(own: Member) -> Agreement:
    """The version of the agreement that is present at a member: the one that it has taken last, where an earlier one was put in the agreement's place."""
    placed, taken = own.agreement(), taken_version(own)
    return placed if taken is None or placed.version >= taken.version else taken


def agreement_values(agreement: Agreement, status: SignatureStatus) -> dict[str, Any]:
    """What a report says about a version of the agreement; all of it follows from the texts of agreement and statements."""
    return {
        "name": agreement.name,
        "version": agreement.version,
        "digest": agreement.digest,
        "signed": list(status.signed),
        "not_signed": sorted({*status.lacking, *status.revoked}),
        "keys": {name: key.hex() for name, key in sorted(status.keys.items())},
        "all_must_stay": agreement.threshold == len(agreement.members),
    }


def agreed_values(agreement: Agreement, task: Task) -> dict[str, Any]:
    """What a report says about a task by its agreement alone."""
    return {
        "agreement": agreement.digest,
        "task": task.name,
        "kind": task.kind,
        "has_sums": task.has_sums,
        "agreed": {"epsilon": task.cost[0], "delta": task.cost[1]},
    }


def account_values(state: AccountState) -> dict[str, Any]:
    """An account's budget, with exact values as text, and what is left of it."""
    budget = {name: str(value) for name, value in vars(state.terms.budget).items()}
    return {"budget": budget, "left": state.amount_left()._asdict()}


def _task_values(
    own: Member, agreement: Agreement, task: Task, entries: list[Entry], *, is_present: bool
) -> dict[str, Any]:
    entered = entries_of(mark_of(agreement, task.name), entries)
    charges = {entry.position for entry in entered}
    released = [entry for entry in entries if entry.kind == "release" and entry.body["charge"] in charges]
    contents = [entry.body["content"] for entry in released]
    return {
        **agreed_values(agreement, task),
        "entries": [
            {
                "position": entry.position,
                "account": entry.account,
                "hash": entry.hash,
                "time": entry.time,
                "kind": entry.kind,
                "what": str(entry.body.get("what", "")),
                "guarantee": entry.body.get("guarantee"),
                "cost": entry.body.get("cost"),
                "exact_numbers": entry.body.get("numbers"),
            }
            for entry in entered
        ],
        "finished_at": released[-1].time if released else None,
        "results": _held_alike(own, agreement, task, contents, is_present=is_present) if entered else {},
        "held_at": _held_at(own, agreement, task) if entered and is_present and not task.has_sums else None,
    }


def _held_at(own: Member, agreement: Agreement, task: Task) -> str | None:
    """When the last of other members' releases came of a task without sums; None before there is one."""
    folder = own.results_folder(task.name)
    if agreement_of(folder) not in (None, agreement.digest):
        return None
    times = [path.stat().st_mtime for path in folder.glob("*.sudare") if path.stem not in ("own", own.name)]
    if not times:
        return None
    return datetime.datetime.fromtimestamp(max(times), datetime.UTC).isoformat(timespec="seconds")


def _held_alike(
    own: Member, agreement: Agreement, task: Task, contents: list[str], *, is_present: bool
) -> dict[str, str]:
    """Digests of what every member of a task holds alike, by name; empty before its end.

    Of earlier versions those that the ledger has: their files are set aside when this version's come, and until then they are none of this one.
    """
    folder = own.results_folder(task.name)
    has_files = is_present and agreement_of(folder) in (None, agreement.digest)
    if task.has_sums:
        found = {"release": contents[-1]} if contents else {}
        document = folder / "dictionary.json"
        if has_files and document.is_file():
            patterns = json.dumps(dict(read_document(document))["patterns"], sort_keys=True)
            found["patterns"] = hashlib.sha256(patterns.encode()).hexdigest()
        return found
    files = (path for path in sorted(folder.glob("*.sudare")) if has_files and path.stem != "own")
    return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class SignedReport(NamedTuple):
    """A report with the public key of whoever signed it, and the signature."""

    values: dict[str, Any]
    public_key: str
    signature: str


def signed_report(values: dict[str, Any], identity: Identity) -> SignedReport:
    """The report, signed by the member's key."""
    signature = identity.sign(_PURPOSE, canonical_json(values).encode())
    return SignedReport(values, identity.public_key.hex(), signature.hex())


def write_report(path: Path, report: SignedReport) -> None:
    """Write it to a new file for its owner. Raise AgreementError where there is one, or it cannot be written."""
    document = {"report": report.values, "public_key": report.public_key, "signature": report.signature}
    try:
        write_new(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise AgreementError(f"'{path.name}' cannot be written ({error.strerror}).", "Choose a new file.") from None


def read_report(path: Path) -> SignedReport:
    """A report from its file, with a signature that verifies under the key in it. Whose key that is, `signer_problem` tells. Raise AgreementError otherwise."""
    if not path.exists():
        raise AgreementError(f"There is no file '{path.name}'.", "Give what `sudare consortium report` wrote.")
    try:
        document = parsed_json(bounded_bytes(path))
        values, key, signature = document["report"], document["public_key"], document["signature"]
        is_whole = all(type(values[name]) is kind for name, kind in _REQUIRED.items()) and values["format"] in _READABLE
        text = canonical_json(values).encode()
        is_signed = verifies(bytes.fromhex(key), _PURPOSE, text, bytes.fromhex(signature))
    except (OSError, NotParsed, KeyError, TypeError, ValueError):
        is_whole, is_signed = False, False
    if not is_whole:
        raise AgreementError(f"'{path.name}' is not a member's report.", "Give what `sudare consortium report` wrote.")
    if not is_signed:
        raise AgreementError(
            f"'{path.name}' was changed after it was signed.",
            "Ask its member for the report again, and how it came here.",
        )
    return SignedReport(values, key, signature)


def signer_problem(
    report: SignedReport, agreement: Agreement, statements: Statements, earlier: Iterable[Agreement] = ()
) -> str | None:
    """Why a report does not count as that member's under the agreement; None where it does.

    A key that the member has handed over since counts: the report may be older than that. A member that has left counts by the last of the `earlier`
    versions that names it.
    """
    name = str(report.values["member"])
    named = next((each for each in (agreement, *earlier) if name in each.member_names), None)
    known = None if named is None else keys_of(named, statements)[name]
    if named is None or known is None or known.is_lost:
        return f"{name} is no member of the agreement, or its key was revoked"
    before = _keys_from(named, statements, name, report.public_key)
    has_become_theirs = before is not None and not before.is_lost and named.member(name).key in before.ever
    if report.public_key in known.ever or has_become_theirs:
        return None
    return f"the key is not the one that stands for {name}"


def _keys_from(agreement: Agreement, statements: Statements, name: str, key: str) -> KnownKeys | None:
    """The keys that would stand for a member if this one were named in the agreement; None where it cannot be, or was never handed over."""
    if key not in {each.old for each in statements.rotations}:
        return None
    members = tuple(replace(each, key=key) if each.name == name else each for each in agreement.members)
    try:
        return keys_of(replace(agreement, members=members), statements)[name]
    except SudareError:
        return None


def versions_before(agreement: Agreement, agreement_path: Path) -> Iterator[Agreement]:
    """The versions before this one in its history, the last first: each is the text whose hash the next one names."""
    by_digest = {}
    for path in history_folder(agreement_path).glob("*.toml"):
        with contextlib.suppress(SudareError):
            found = Agreement.load(path)
            by_digest[found.digest] = found
    while (before := by_digest.get(agreement.previous or "")) is not None:
        yield before
        agreement = before

"""What a member can show a regulator: agreements and who signed them, tasks with what each revealed and cost, decisions, the ledger's head; signed.

Two members' reports are compared for what cannot both be true. A report holds no records, no results and no values: digests of what all members of a task hold alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import versions
from sudare.consortium.agreement.approvals import Approvals
from sudare.consortium.agreement.identity import Identity, verifies
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import Statements, now, signature_status
from sudare.consortium.tasks.definitions import Task
from sudare.consortium.tasks.task_account import entries_of, mark_of
from sudare.dictionary.member_model_file import read_document
from sudare.errors import AgreementError
from sudare.files import write_new
from sudare.parsing import NotParsed, bounded_bytes, parsed_json
from sudare.privacy.ledger_chain import Entry, canonical_json

FORMAT: Final = 1
_PURPOSE: Final = "consortium report"
_REQUIRED: Final = {"format": int, "member": str, "made_at": str, "agreements": list, "tasks": list, "ledger": dict}


def report_values(own: Member, *, with_decisions: bool = True) -> dict[str, Any]:
    """The report of a member, unsigned. Without decisions it is for other members: why a steward decided stays in its house. Raise as a ledger that is not intact does."""
    ledger = own.ledger(create=False)
    head = ledger.verify([])
    entries = [entry for entry in ledger.entries() if entry.account == own.account_name]
    listed = versions(own.agreement_path)
    left = None
    if own.account_name in {account.name for account in ledger.accounts()}:
        left = ledger.account(own.account_name).remaining()._asdict()
    decisions = [each.to_dict() for each in Approvals(own.state_folder).history()] if with_decisions else None
    return {
        "format": FORMAT,
        "member": own.name,
        "made_at": now(),
        "agreements": [
            {
                "name": each.agreement.name,
                "version": each.agreement.version,
                "digest": each.agreement.digest,
                "changed": list(each.changed),
                "signed": list(each.status.signed),
                "not_signed": sorted({*each.status.lacking, *each.status.revoked}),
                "keys": {name: key.hex() for name, key in sorted(each.status.keys.items())},
                "all_must_stay": each.agreement.threshold == len(each.agreement.members),
            }
            for each in listed
        ],
        "tasks": [
            _task_values(own, each.agreement, task, entries, is_present=each is listed[-1])
            for each in listed
            for task in each.agreement.tasks
        ],
        "decisions": decisions,
        "ledger": dict(vars(head)),
        "left": left,
    }


def _task_values(
    own: Member, agreement: Agreement, task: Task, entries: list[Entry], *, is_present: bool
) -> dict[str, Any]:
    entered = entries_of(mark_of(agreement, task.name), entries)
    charges = {entry.position for entry in entered}
    contents = [
        entry.body["content"] for entry in entries if entry.kind == "release" and entry.body["charge"] in charges
    ]
    return {
        "agreement": agreement.digest,
        "task": task.name,
        "kind": task.kind,
        "has_sums": task.has_sums,
        "agreed": {"epsilon": task.cost[0], "delta": task.cost[1]},
        "entries": [
            {
                "position": entry.position,
                "hash": entry.hash,
                "time": entry.time,
                "kind": entry.kind,
                "what": str(entry.body.get("what", "")),
                "guarantee": entry.body.get("guarantee"),
                "exact_numbers": entry.body.get("numbers"),
            }
            for entry in entered
        ],
        "results": _held_alike(own, task, contents) if is_present and entered else {},
    }


def _held_alike(own: Member, task: Task, contents: list[str]) -> dict[str, str]:
    """Digests of what every member of a task holds alike, by name; empty before its end."""
    folder = own.results_folder(task.name)
    if task.has_sums:
        found = {"release": contents[-1]} if contents else {}
        document = folder / "dictionary.json"
        if document.is_file():
            patterns = json.dumps(dict(read_document(document))["patterns"], sort_keys=True)
            found["patterns"] = hashlib.sha256(patterns.encode()).hexdigest()
        return found
    files = (path for path in sorted(folder.glob("*.sudare")) if path.stem != "own")
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
    try:
        document = parsed_json(bounded_bytes(path))
        values, key, signature = document["report"], document["public_key"], document["signature"]
        is_whole = all(type(values[name]) is kind for name, kind in _REQUIRED.items()) and values["format"] == FORMAT
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


def signer_problem(report: SignedReport, agreement: Agreement, statements: Statements) -> str | None:
    """Why a report does not count as that member's under the agreement; None where it does."""
    keys = signature_status(agreement, statements).keys
    name = str(report.values["member"])
    if name not in keys:
        return f"{name} is no member of the agreement, or its key was revoked"
    return None if keys[name].hex() == report.public_key else f"the key is not the one that stands for {name}"


class Finding(NamedTuple):
    """Something that two reports cannot both say truly."""

    about: str
    text: str


def contradictions(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Finding]:
    """What cannot be true in both reports; empty where they fit. Raise AgreementError where one has not the form of a report."""
    try:
        return [
            *_about_agreements(first, second),
            *_about_tasks(first, second),
            *(_about_one_ledger(first, second) if first["member"] == second["member"] else ()),
        ]
    except (KeyError, TypeError, AttributeError):
        raise AgreementError(
            "A report lacks parts of its form.", "Use one version of sudare for both, and ask for it again."
        ) from None


def _about_agreements(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Finding]:
    theirs = {(each["name"], each["version"]): each for each in second["agreements"]}
    for ours in first["agreements"]:
        other = theirs.get((ours["name"], ours["version"]))
        if other is None:
            continue
        what = f"version {ours['version']} of {ours['name']}"
        if ours["digest"] != other["digest"]:
            yield Finding("agreement", f"they hold different texts of {what}")
            continue
        for name in sorted(set(ours["signed"]) ^ set(other["signed"])):
            yield Finding("signature", f"only one of them has the signature of {name} under {what}")
        for name in sorted(ours["keys"].keys() & other["keys"].keys()):
            if ours["keys"][name] != other["keys"][name]:
                yield Finding("key", f"they take different keys for that of {name} (one may lack a rotation)")


def _about_tasks(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Finding]:
    theirs = {(each["agreement"], each["task"]): each for each in second["tasks"]}
    must_stay = {each["digest"] for each in first["agreements"] if each["all_must_stay"]}
    for ours in first["tasks"]:
        other = theirs.get((ours["agreement"], ours["task"]))
        if other is None:
            continue
        name = ours["task"]
        for result in sorted(ours["results"].keys() & other["results"].keys()):
            if ours["results"][result] != other["results"][result]:
                yield Finding("result", f"{name}: they hold different results ({result})")
        if not ours["has_sums"]:
            continue
        promised = [
            [entry["guarantee"] for entry in each["entries"] if entry["kind"] == "charge"] for each in (ours, other)
        ]
        if promised[0] and promised[1] and promised[0] != promised[1]:
            yield Finding("cost", f"{name}: they were charged for different guarantees")
        for one, another, member in ((ours, other, second["member"]), (other, ours, first["member"])):
            if one["results"] and not another["entries"] and ours["agreement"] in must_stay:
                yield Finding(
                    "entry", f"{name}: it was finished with all members, and the ledger of {member} has no entry of it"
                )


def _about_one_ledger(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Finding]:
    """Two reports of one member: of its one ledger, the later goes on from the earlier."""
    earlier, later = sorted((first, second), key=lambda each: int(each["ledger"]["position"]))
    if earlier["ledger"]["ledger"] != later["ledger"]["ledger"]:
        yield Finding("ledger", f"{first['member']} reports two different ledgers")
        return
    known = {entry["position"]: entry["hash"] for each in later["tasks"] for entry in each["entries"]}
    for task in earlier["tasks"]:
        for entry in task["entries"]:
            if known.get(entry["position"]) != entry["hash"]:
                yield Finding("ledger", f"entry {entry['position']} ({task['task']}) is not in the later report")
    if (
        earlier["ledger"]["position"] == later["ledger"]["position"]
        and earlier["ledger"]["hash"] != later["ledger"]["hash"]
    ):
        yield Finding("ledger", f"{first['member']} reports two ledgers that end differently at one entry")

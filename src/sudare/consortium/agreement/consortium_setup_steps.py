"""What members do to set up a consortium: join its agreement, sign it, take in signatures of others, replace and revoke keys; and tasks as they are typed.

Each step leaves files from which the next one, or the same one after a crash, can go on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import tomli_w

from sudare.consortium.agreement.agreement import Agreement, Budget, MemberEntry
from sudare.consortium.agreement.amendments import earlier_versions, path_after_adoption
from sudare.consortium.agreement.document_fields import Field, parsed_json, parsed_toml
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.member_settings import FORMAT, Member, new_member_file, placed
from sudare.consortium.agreement.schedules import Schedule, schedule_from
from sudare.consortium.agreement.signed_statements import (
    Revocation,
    Rotation,
    Statements,
    check_is_key_of,
    now,
    signature_status,
)
from sudare.consortium.tasks.definitions import Task, task_from
from sudare.errors import AgreementError, InvalidParameter, SudareError
from sudare.files import changed_by_one, make_private_folder, read_text, replace_keeping_old, write_atomically
from sudare.privacy.release_file import fingerprint

MEMBER_FILE = "member.toml"
KEY_FILE = "key.pem"
LEDGER_FILE = "ledger.db"
SIGNED_FILE = "signed.json"
# What stands between spaces; spaces between brackets and in quotes belong to it.
_WORD: Final = re.compile(r"""(?:\[[^\]]*\]|"[^"]*"|'[^']*'|\S)+""")


def task_from_words(text: str) -> Task:
    """A task from "NAME KIND field=value …", values as in TOML; fields of its parameters are written parameters.NAME=value.

    Texts may be without quotes, also in lists: a shell takes those away that it is given inside its own.
    """
    word, _, rest = text.strip().partition(" ")
    name = Field("task", word).name()
    kind, *assignments = _WORD.findall(rest) or [""]
    section = _section(f"The task '{name}'", assignments, [f'kind = "{kind}"' if kind.isalpha() else ""])
    return task_from(name, Field(f"tasks.{name}", section.value))


def schedule_from_words(text: str) -> Schedule:
    """A schedule from "NAME task=TASK every=month first=2026-12-01 runs=12"."""
    word, *assignments = text.split() or [""]
    name = Field("schedule", word).name()
    plain = [
        f'{key}="{value}"' if key == "first" else each
        for each in assignments
        for key, _, value in [each.partition("=")]
    ]
    return schedule_from(name, Field(f"schedules.{name}", _section(f"The schedule '{name}'", plain, []).value))


def _section(what: str, assignments: list[str], lines: list[str]) -> Field:
    """The TOML section that words of the form field=value stand for."""
    for assignment in assignments:
        key, sign, value = assignment.partition("=")
        if not sign:
            raise InvalidParameter(
                f"{what} has a word without '='.",
                "Write: NAME KIND field=value field=value, and lists as field=[first,second].",
            )
        lines.append(f"{key} = {_toml_value(value)}")
    return parsed_toml("\n".join(lines), what)


def _toml_value(text: str) -> str:
    """A value as TOML writes it: as it stands, where it is one, else a list of what is between brackets and commas, else a text."""
    if text.startswith("[") and text.endswith("]") and not _is_toml_value(text):
        return f"[{', '.join(_plain_value(item.strip()) for item in text[1:-1].split(','))}]"
    return _plain_value(text)


def _plain_value(text: str) -> str:
    return text if _is_toml_value(text) else _quoted(text)


def _is_toml_value(text: str) -> bool:
    try:
        parsed_toml(f"value = {text}", "value")
    except AgreementError:
        return False
    return True


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class NewMember:
    """What a new member brings: where its files are to be, its data, and its budget."""

    name: str
    folder: Path
    data: dict[str, str | bool]
    budget: Budget
    ledger: str = LEDGER_FILE

    @property
    def member_path(self) -> Path:
        """The member's own file."""
        return self.folder / MEMBER_FILE

    @property
    def key_path(self) -> Path:
        """The member's key."""
        return self.folder / KEY_FILE


def joined(agreement_path: Path, joining: NewMember, passphrase: bytes) -> tuple[Agreement, Identity]:
    """The agreement with one more member, written; its key and member file are made where they are not there yet."""
    # Looked at before it is locked: a lock is a file, too, and would stand where there is no agreement.
    Agreement.load(agreement_path)
    with changed_by_one(agreement_path):
        return _joined(Agreement.load(agreement_path), agreement_path, joining, passphrase)


def check_can_join(agreement: Agreement, agreement_path: Path, joining: NewMember) -> None:
    """Raise AgreementError where joining would lose something: what the member's own file says otherwise, or a later version that is in force."""
    _check_member_file(agreement_path, joining)
    if agreement.version > 1 and joining.name not in agreement.member_names and is_in_force(agreement, agreement_path):
        raise AgreementError(
            f"All members have signed version {agreement.version} of {agreement.name}, and one more would put it out of force.",
            "Propose its next version with `sudare consortium amend`, and join that.",
        )


def is_in_force(agreement: Agreement, agreement_path: Path) -> bool:
    """Whether all members of an agreement have signed it, by the statements beside its file."""
    return bool(agreement.members) and signature_status(agreement, Statements.load(agreement_path)).is_in_force


def _check_member_file(agreement_path: Path, joining: NewMember) -> None:
    """Raise AgreementError if the member's own file is there and says otherwise: it is not written again, so what is said now would be lost."""
    if not joining.member_path.exists():
        return
    written = Member.load(joining.member_path)
    text = tomli_w.dumps({"format": FORMAT, **_member_document(agreement_path, joining)})
    wanted = Member.from_toml(text, joining.member_path.absolute().parent)
    is_other = {
        "name": written.name != wanted.name,
        "agreement": os.path.realpath(written.agreement_path) != os.path.realpath(wanted.agreement_path),
        **{f"data.{key}": _of_data(written, key) != _of_data(wanted, key) for key in joining.data},
    }
    differing = [field for field, is_different in is_other.items() if is_different]
    if differing:
        raise AgreementError(
            f"'{joining.member_path}' is there already and says otherwise: {', '.join(differing)}.",
            "It is not written again, and nobody has joined. Correct it there, or choose another --folder; then join.",
        )


def _of_data(member: Member, key: str) -> object:
    """What a member file says of its data; a path without links and detours."""
    value = getattr(member.data, key)
    place = placed(value, member.folder) if key == "source" and isinstance(value, str) else value
    return os.path.realpath(place) if isinstance(place, str) and place.startswith(os.sep) else place


def _joined(
    agreement: Agreement, agreement_path: Path, joining: NewMember, passphrase: bytes
) -> tuple[Agreement, Identity]:
    check_can_join(agreement, agreement_path, joining)
    is_new = not joining.key_path.exists()
    identity = Identity.generated() if is_new else Identity.load(joining.key_path, passphrase)
    entry = MemberEntry(joining.name, identity.public_key.hex(), joining.budget)
    if any((each.name == entry.name) and each.key != entry.key for each in agreement.members):
        raise AgreementError(
            f"The agreement has a member '{joining.name}' with another key.",
            f"Choose another name. To enter a new key of the same member, remove [members.{joining.name}] from the file.",
        )
    # Read as it will be read, before anything is written: what does not fit must not leave a key behind.
    extended = Agreement.from_dict(agreement.with_member(entry).to_dict())
    extended.check_tasks()
    make_private_folder(joining.folder)
    if is_new:
        identity.save(joining.key_path, passphrase)
    if not joining.member_path.exists():
        new_member_file(joining.member_path, _member_document(agreement_path, joining))
    extended.save(agreement_path)
    return extended, identity


def _member_document(agreement_path: Path, joining: NewMember) -> dict[str, Any]:
    return {
        "name": joining.name,
        "agreement": os.path.relpath(path_after_adoption(agreement_path).absolute(), joining.folder.absolute()),
        "key": KEY_FILE,
        "ledger": joining.ledger,
        "state": "state",
        "data": joining.data,
    }


def with_statements_of(
    agreement: Agreement, agreement_path: Path, statements: Statements, files: Iterable[Path]
) -> Statements:
    """The statements with those that other members sent."""
    earlier = earlier_versions(agreement, agreement_path) if files else ()
    for file in files:
        others = Statements.from_toml(read_text(file, "The file of statements"))
        statements = statements.merged(others, agreement, earlier)
    return statements


@dataclass(frozen=True)
class Rotated:
    """A rotation that was done: both keys, and the file in which the old one is kept."""

    old: Identity
    new: Identity
    kept: Path


def signed(
    member: Member,
    identity: Identity,
    files: Iterable[Path] = (),
    *,
    instead: bool = False,
    shown: Agreement | None = None,
) -> Statements:
    """The statements with this member's signature over the agreement and with those in files from others, written.

    Raise AgreementError where this member has signed another version of the same number and is not to sign this one `instead`: signatures cannot be
    taken back, so both could come into force. First versions are not taken by nodes by themselves, and are signed again whenever they were changed.
    Raise AgreementError also where another text stands there than the one that was `shown`, and checked, before the key was opened.
    """
    agreement = member.agreement()
    if shown is not None and shown.digest != agreement.digest:
        raise AgreementError(
            f"The agreement was changed meanwhile: it was {shown.digest[:12]}, and is {agreement.digest[:12]} now.",
            "Nothing was signed. Ask who changed it, read it again, then sign.",
        )
    before = other_signed_version(member, agreement)
    if before is not None and agreement.version > 1 and not instead:
        raise AgreementError(
            f"This member has signed another version {agreement.version} ({before[:12]}) already; whoever kept that signature can still put it in force.",
            "Ask the others which one is meant. If all have left the other one: sudare consortium sign --next --instead",
        )
    with changed_by_one(member.agreement_path):
        statements = with_statements_of(agreement, member.agreement_path, member.statements(), files).signed(
            agreement, member.name, identity
        )
        # Remembered before the signature is anywhere: what is not remembered was not signed.
        make_private_folder(member.state_folder)
        known = _signed_versions(member) | {str(agreement.version): agreement.digest}
        write_atomically(member.state_folder / SIGNED_FILE, json.dumps(known, indent=1).encode())
        statements.save(member.agreement_path)
    return statements


def other_signed_version(member: Member, agreement: Agreement) -> str | None:
    """The digest of the version of this number that the member has signed last; None where it is this one, or there is none."""
    before = _signed_versions(member).get(str(agreement.version))
    return None if before in (None, agreement.digest) else before


def remembers_signing(member: Member, agreement: Agreement) -> bool:
    """Whether this version is the one of its number that the member has signed last, by its state folder. A list that is damaged remembers nothing."""
    try:
        return _signed_versions(member).get(str(agreement.version)) == agreement.digest
    except SudareError:
        return False


def _signed_versions(member: Member) -> dict[str, str]:
    """The digests of the versions that this member has signed, by their numbers."""
    path = member.state_folder / SIGNED_FILE
    if not path.exists():
        return {}
    found = parsed_json(read_text(path, "The list of signed versions"), "The list of signed versions")
    return {number: each.hexadecimal(64) for number, each in found.named().items()}


def added(agreement: Agreement, agreement_path: Path, files: Iterable[Path]) -> Statements:
    """The statements with those in files from others, written."""
    with changed_by_one(agreement_path):
        statements = with_statements_of(agreement, agreement_path, Statements.load(agreement_path), files)
        statements.save(agreement_path)
    return statements


def rotated(member: Member, passphrase: bytes) -> Rotated:
    """The change to a new key that stands for the member from now on. Repeated after a crash, it goes on where it was."""
    agreement, old = member.agreement(), Identity.load(member.key_path, passphrase)
    waiting = member.key_path.with_name(f"{member.key_path.name}.next")
    with changed_by_one(member.agreement_path):
        statements = member.statements()
        new = Identity.load(waiting, passphrase) if waiting.exists() else None
        if new is None:
            check_is_key_of(agreement, statements, member.name, old.public_key)
            new = Identity.generated()
            new.save(waiting, passphrase)
        pair = (old.public_key.hex(), new.public_key.hex())
        if pair not in [(each.old, each.new) for each in statements.rotations]:
            check_is_key_of(agreement, statements, member.name, old.public_key)
            rotations = (*statements.rotations, Rotation.made(old, new))
            after = replace(statements, rotations=rotations).with_sum_keys(agreement, member.name, new)
            after.save(member.agreement_path)
        kept = member.key_path.with_name(f"{member.key_path.name}.old-{fingerprint(old.public_key)[:4]}")
        replace_keeping_old(member.key_path, waiting, kept)
    return Rotated(old, new, kept)


def revoked(member: Member, identity: Identity, key: str, reason: str) -> Revocation:
    """The statement that a key no longer counts, with this member's signature, written beside the agreement.

    What others have begun to say about the same key is signed, so that signatures add up.
    """
    Field("reason", reason).text()
    with changed_by_one(member.agreement_path):
        statements = member.statements()
        begun = [each for each in statements.revocations if each.key == key]
        revocation = (begun[0] if begun else Revocation(key, now(), reason)).signed_by(identity)
        revocations = (*statements.revocations, revocation)
        replace(statements, revocations=revocations).save(member.agreement_path)
    return revocation

"""New versions of an agreement. Each names the version before it by its hash, is signed by all of its own members, and takes its place.

A new version is proposed beside the agreement (`agreement.next.toml`, with its statements), so that members can read, join and sign it while
the one in force stays in force. All that sums depend on comes from the digest, and no two versions have one: they cannot be mixed in a sum.
What was in force is kept, with its signatures, in `agreement.history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.agreement import Agreement, Budget, Relay, differences
from sudare.consortium.agreement.schedules import Schedule, check_no_run_is_declared
from sudare.consortium.agreement.signed_statements import (
    SignatureStatus,
    Statements,
    file_mark,
    keys_in_force,
    keys_of,
    keys_spoken_of,
    signature_status,
    statements_path,
)
from sudare.consortium.tasks.definitions import Task
from sudare.errors import AgreementError, AgreementMismatch, KeyRevoked
from sudare.files import SHARED_MODE, changed_by_one, write_document
from sudare.sums.context import RELAY_NAME

_NEXT: Final = ".next"
_HISTORY: Final = ".history"


def proposal_path(agreement_path: Path) -> Path:
    """Where the next version of an agreement is proposed: beside it."""
    return agreement_path.with_name(f"{agreement_path.stem}{_NEXT}{agreement_path.suffix}")


def path_after_adoption(path: Path) -> Path:
    """Where the agreement will stand that is proposed in this file; the path itself where it is no proposal's."""
    stem = path.stem
    return path.with_name(stem.removesuffix(_NEXT) + path.suffix) if stem.endswith(_NEXT) else path


def history_folder(agreement_path: Path) -> Path:
    """Where the versions are kept that were in force."""
    return agreement_path.with_name(f"{agreement_path.stem}{_HISTORY}")


@dataclass(frozen=True)
class Amendment:
    """What is to be another: members that leave, budgets, tasks that are added or changed, tasks that are no more, and who must stay in sums."""

    without_members: frozenset[str] = frozenset()
    budgets: Mapping[str, Budget] | None = None
    tasks: tuple[Task, ...] = ()
    without_tasks: frozenset[str] = frozenset()
    threshold: int | None = None
    dishonest: int | None = None
    schedules: tuple[Schedule, ...] = ()
    without_schedules: frozenset[str] = frozenset()


def amended(agreement: Agreement, statements: Statements, change: Amendment) -> Agreement:
    """The version that follows, with the keys that stand for members now. Raise AgreementMismatch unless all have signed the present one."""
    budgets = change.budgets or {}
    for name in (*change.without_members, *budgets):
        agreement.member(name)
    for name in change.without_tasks:
        agreement.task(name)
    found = signature_status(agreement, statements)
    if found.lacking:
        raise AgreementMismatch(
            f"The agreement is not signed by {', '.join(found.lacking)}, so it is not in force.",
            "Change the file itself, or let them sign first.",
        )
    revoked = sorted(set(found.revoked) - change.without_members)
    if revoked:
        raise KeyRevoked(
            f"The key of {', '.join(revoked)} no longer counts.",
            "Take the member out (--remove NAME); it can join the new version with a new key.",
        )
    staying = (each for each in agreement.members if each.name not in change.without_members)
    members = tuple(
        replace(each, key=found.keys[each.name].hex(), budget=budgets.get(each.name, each.budget)) for each in staying
    )
    # Runs are made anew from the schedules that stay.
    declared = (task for task in agreement.tasks if task.name not in agreement.run_names)
    tasks = {task.name: task for task in (*declared, *change.tasks)}
    schedules = {each.name: each for each in (*agreement.schedules, *change.schedules)}
    sums = replace(
        agreement.sums,
        threshold=agreement.sums.threshold if change.threshold is None else change.threshold,
        dishonest=agreement.sums.dishonest if change.dishonest is None else change.dishonest,
    )
    relay = None if agreement.relay is None else Relay(found.keys[RELAY_NAME].hex())
    kept_tasks = tuple(task for name, task in tasks.items() if name not in change.without_tasks)
    kept_schedules = tuple(each for name, each in schedules.items() if name not in change.without_schedules)
    check_no_run_is_declared(kept_tasks, kept_schedules)
    following = replace(
        agreement,
        members=members,
        tasks=kept_tasks,
        schedules=kept_schedules,
        relay=relay,
        sums=sums,
        version=agreement.version + 1,
        previous=agreement.digest,
    )
    check_follows(agreement, statements, following)
    return following


def check_follows(agreement: Agreement, statements: Statements, following: Agreement) -> None:
    """Raise AgreementError unless this can be the next version of an agreement: number, name, hash, budgets and keys fit."""
    if (following.name, following.version, following.previous) != (
        agreement.name,
        agreement.version + 1,
        agreement.digest,
    ):
        raise AgreementError(
            f"This is not the version that follows version {agreement.version} of {agreement.name} ({agreement.digest[:12]}).",
            "Make it with `sudare consortium amend` from the agreement that is in force.",
        )
    before = {each.name: each.budget for each in agreement.members}
    for each in following.members:
        known = before.get(each.name, each.budget)
        if each.budget.epsilon < known.epsilon or each.budget.delta < known.delta:
            raise AgreementError(
                f"`members.{each.name}.budget` is smaller than before; the ledger's budgets are only ever raised.",
                "Leave the budget, and agree on fewer or cheaper tasks.",
            )
    known_keys, spoken_of = keys_of(agreement, statements), keys_spoken_of(statements)
    for name, key in following.pinned_keys.items():
        owners = {owner for owner, keys in known_keys.items() if key in keys.ever}
        # Of those who left earlier nobody can tell any more whether enough members revoked a key, or whether it was handed over twice.
        is_left_behind = not owners and key in spoken_of
        if is_left_behind or any(known_keys[owner].is_lost for owner in owners) or owners - {name}:
            raise KeyRevoked(
                f"The key of '{name}' no longer counts, or is another's.",
                "The member makes a new key and joins the new version with it.",
            )


def following_version(agreement: Agreement, agreement_path: Path, known: Statements | None = None) -> Agreement | None:
    """The version that follows this one and is in force, proposed or in its place already; None where there is none.

    `known` are statements that count under this one, whatever its file says by now. Raise AgreementError where what is proposed, or was put in its
    place, cannot follow.
    """
    proposal, statements = proposal_path(agreement_path), Statements.load(agreement_path)
    statements = statements if known is None else carried(statements, known)
    found = Agreement.load(agreement_path)
    if found.digest == agreement.digest and proposal.exists():
        found = Agreement.load(proposal)
        check_follows(agreement, statements, found)
        statements = carried(Statements.load(proposal), statements)
    elif found.previous == agreement.digest:
        check_follows(agreement, statements, found)
    # Members that have still to sign are no error.
    is_next = found.previous == agreement.digest
    return found if is_next and signature_status(found, statements).is_in_force else None


def adopt_proposal(agreement_path: Path) -> Agreement:
    """The proposed version, in the place of the present one, which is kept in the history. Repeated after a crash, it goes on where it was.

    Raise AgreementError where nothing is proposed or it cannot follow, and as `keys_in_force` does unless all of its members have signed.
    """
    proposal = proposal_path(agreement_path)
    if not proposal.exists():
        raise AgreementError(
            f"There is no '{proposal.name}' beside the agreement.", "Propose a version with `sudare consortium amend`."
        )
    with changed_by_one(agreement_path):
        found, statements = Agreement.load(proposal), Statements.load(proposal)
        # A new member has no earlier version.
        present = Agreement.load(agreement_path) if agreement_path.exists() else None
        if present is not None:
            before = Statements.load(agreement_path)
            statements = carried(statements, before)
            if present.digest != found.digest:
                check_follows(present, before, found)
        keys_in_force(found, statements)
        if present is not None and present.digest != found.digest:
            keep_version(history_folder(agreement_path), present, Statements.load(agreement_path))
        found.save(agreement_path)
        statements.save(agreement_path)
        for path in (proposal, statements_path(proposal)):
            path.unlink(missing_ok=True)
    return found


@dataclass(frozen=True)
class Version:
    """One version that is or was in force: who signed it, and in which fields it differs from the one before it."""

    agreement: Agreement
    statements: Statements
    status: SignatureStatus
    changed: tuple[str, ...]


def versions(agreement_path: Path) -> list[Version]:
    """All versions that are kept, the present one last. Raise AgreementError where one of them is not the one that the next follows."""
    places = [*sorted(history_folder(agreement_path).glob("*.toml")), agreement_path]
    found = [(Agreement.load(place), Statements.load(place)) for place in places]
    listed: list[Version] = []
    for agreement, statements in found:
        before = listed[-1].agreement if listed else None
        if before is not None and (agreement.previous, agreement.version) != (before.digest, before.version + 1):
            raise AgreementError(
                f"Version {agreement.version} does not follow version {before.version} as it is kept.",
                "Ask another member for its folder of earlier versions: somebody changed this one.",
            )
        changed = () if before is None else differences(before, agreement)
        listed.append(Version(agreement, statements, signature_status(agreement, statements), changed))
    return listed


def carried(statements: Statements, before: Statements) -> Statements:
    """Statements about a version, with the rotations and revocations that were made under the one before."""
    return replace(
        statements,
        rotations=(*statements.rotations, *before.rotations),
        revocations=(*statements.revocations, *before.revocations),
    )


def keep_version(folder: Path, agreement: Agreement, statements: Statements, mode: int = SHARED_MODE) -> None:
    """Write a version and its statements to a folder that holds versions, with these file rights."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise AgreementError(f"'{folder.name}' cannot be made ({error.strerror}).", "Check the folder.") from None
    kept = folder / f"{agreement.version:04d}-{agreement.digest[:12]}.toml"
    write_document(kept, agreement.to_toml().encode(), mode)
    write_document(statements_path(kept), statements.to_toml().encode(), mode)


def file_marks(paths: Iterable[Path]) -> tuple[tuple[int, ...], ...]:
    """What changes whenever one of these files is written."""
    return tuple(map(file_mark, paths))

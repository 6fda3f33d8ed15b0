"""New versions of an agreement. Each names the version before it by its hash, is signed by all of its own members, and takes its place.

A new version is proposed beside the agreement (`agreement.next.toml`, with its statements), so that members can read, join and sign it while
the one in force stays in force. All that sums depend on comes from the digest, and no two versions have one: they cannot be mixed in a sum.
What was in force is kept, with its signatures, in `agreement.history`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from sudare.consortium.agreement.agreement import Agreement, Budget, Relay, differences
from sudare.consortium.agreement.schedules import Schedule, check_no_run_is_declared
from sudare.consortium.agreement.signed_statements import (
    SignatureStatus,
    Statements,
    carried,
    file_mark,
    keys_in_force,
    keys_of,
    signature_status,
    statements_path,
)
from sudare.consortium.tasks.definitions import Task
from sudare.errors import AgreementError, AgreementMismatch, KeyRevoked, SudareError
from sudare.files import SHARED_MODE, changed_by_one, move_into, write_document
from sudare.sums.context import RELAY_NAME

_NEXT: Final = ".next"
_HISTORY: Final = ".history"
LEFT: Final = "left"


def proposal_path(agreement_path: Path) -> Path:
    """Returns the path of the next version of an agreement, where it is proposed: beside it."""
    return agreement_path.with_name(f"{agreement_path.stem}{_NEXT}{agreement_path.suffix}")


def path_after_adoption(path: Path) -> Path:
    """Returns where the agreement will stand that is proposed in this file; the path itself where it is no proposal's."""
    stem = path.stem
    return path.with_name(stem.removesuffix(_NEXT) + path.suffix) if stem.endswith(_NEXT) else path


def history_folder(agreement_path: Path) -> Path:
    """Returns the folder of the versions that were in force."""
    return agreement_path.with_name(f"{agreement_path.stem}{_HISTORY}")


_NAMED: Final = ("members", "tasks", "schedules")


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


def check_follows(
    agreement: Agreement,
    statements: Statements,
    following: Agreement,
    earlier: Iterable[Agreement] = (),
    *,
    is_taken: bool = True,
) -> None:
    """Raise AgreementError unless this can be the next version of an agreement: number, name, hash, budgets and keys fit.

    `earlier` are the versions before the agreement, by which keys are known of members that have left. One that is not taken, but only on the way to
    the version that is, may name keys that were lost or handed over since it was in force: what counts is whether the one that is taken names them.
    """
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
    known_keys = keys_of(agreement, statements)
    left_behind = {
        key
        for version in earlier
        for keys in keys_of(version, statements).values()
        # Handed over or revoked: it was known then which key counts, and by the next version nobody could tell any more.
        if keys.is_lost or len(keys.ever) > 1
        for key in keys.ever
    }
    for name, key in following.pinned_keys.items():
        owners = {owner for owner, keys in known_keys.items() if key in keys.ever}
        is_left_behind = (not owners and key in left_behind) or any(known_keys[owner].is_lost for owner in owners)
        if (is_taken and is_left_behind) or owners - {name}:
            raise KeyRevoked(
                f"The key of '{name}' no longer counts, or is another's.",
                "The member makes a new key and joins the new version with it.",
            )


def earlier_versions(
    agreement: Agreement, agreement_path: Path, kept: Iterable[Agreement] = ()
) -> tuple[Agreement, ...]:
    """The versions before this one, the last first, as far as they are kept here or in its history, or stand in the place that it is proposed for.

    Each is the text whose hash the next one names, so nobody can put another in its place.
    """
    place = path_after_adoption(agreement_path)
    by_digest = {each.digest: each for each in kept}
    for path in (*history_folder(place).glob("*.toml"), place):
        with contextlib.suppress(SudareError):
            found = Agreement.load(path)
            by_digest.setdefault(found.digest, found)
    before: list[Agreement] = []
    while (found_before := by_digest.get((before[-1] if before else agreement).previous or "")) is not None:
        before.append(found_before)
    return tuple(before)


@dataclass(frozen=True)
class Known:
    """What a member knows of an agreement beside the files that stand there: statements that it has seen, and versions that it has kept."""

    statements: Statements = field(default_factory=Statements)
    versions: tuple[Agreement, ...] = ()


def following_version(agreement: Agreement, agreement_path: Path, known: Known | None = None) -> Agreement | None:
    """The version that follows this one and is in force, proposed or in its place already; None where there is none.

    What is known counts under this one, whatever its files say by now. Raise AgreementError where what is proposed, or was put in its place, cannot
    follow.
    """
    known = Known() if known is None else known
    statements = carried(Statements.load(agreement_path), known.statements)
    placed, proposal, about = Agreement.load(agreement_path), _proposal(agreement_path), statements
    found = placed
    # Where an adoption was cut off, the version is in its place, and its signatures are still beside it.
    if proposal is not None and placed.digest in (agreement.digest, proposal.digest):
        found, about = proposal, carried(Statements.load(proposal_path(agreement_path)), statements)
    is_elsewhere = agreement.digest not in (placed.digest, found.previous)
    if found.digest == agreement.digest or is_elsewhere:
        return None
    check_follows(agreement, statements, found, earlier_versions(agreement, agreement_path, known.versions))
    # Members that have still to sign are no error.
    return found if signature_status(found, about).is_in_force else None


def _proposal(agreement_path: Path) -> Agreement | None:
    """The version that is proposed; None where there is none, or somebody has just adopted it."""
    path = proposal_path(agreement_path)
    try:
        return Agreement.load(path) if path.exists() else None
    except SudareError:
        if path.exists():
            raise
        return None


def proposed_after(
    agreement: Agreement, agreement_path: Path, known: Statements
) -> tuple[Agreement, SignatureStatus] | None:
    """The version that is proposed after this one, whoever has signed it, and what its signatures come to with what is known under this one.

    None where nothing is proposed, or something that does not say that it follows this one. Raise as loading does.
    """
    proposal = _proposal(agreement_path)
    if proposal is None or proposal.previous != agreement.digest:
        return None
    statements = Statements.load(proposal_path(agreement_path))
    return proposal, signature_status(proposal, carried(statements, known))


def adopt_proposal(agreement_path: Path, known: Known | None = None, *, instead: bool = False) -> Agreement:
    """The proposed version, in the place of the present one, which is kept in the history. Repeated after a crash, it goes on where it was.

    With `instead` also one that does not follow the present one, if both go back to one version and its number is no lower: what is left is kept in
    the folder `left` of the history. Raise AgreementError where nothing is proposed or it cannot follow, and as `keys_in_force` does unless all of its
    members have signed.
    """
    if not proposal_path(agreement_path).exists():
        raise _nothing_proposed(agreement_path)
    with changed_by_one(agreement_path):
        return _put_in_place(agreement_path, Known() if known is None else known, instead=instead)


def adopt_following(
    agreement: Agreement, agreement_path: Path, check: Callable[[Agreement], None], known: Known | None = None
) -> Agreement:
    """The version that follows this one, in its place, unless somebody has put it there. Raise as `following_version` and `check` do."""
    # Looked at and put there by one: others on this machine may take the same version in the same moment.
    with changed_by_one(agreement_path):
        following = following_version(agreement, agreement_path, known)
        if following is None:
            raise AgreementError(
                "No new version of the agreement is in force.", "See `sudare consortium check` about it."
            )
        check(following)
        proposal = _proposal(agreement_path)
        if proposal is not None and proposal.digest == following.digest:
            _put_in_place(agreement_path, Known() if known is None else known)
    return following


def finish_adoption(agreement_path: Path) -> None:
    """Put the signatures of a version in place too, where the process that put its text there was cut off between the two."""
    proposal = _proposal(agreement_path)
    if proposal is None or not agreement_path.exists() or Agreement.load(agreement_path).digest != proposal.digest:
        return
    with changed_by_one(agreement_path):
        if proposal_path(agreement_path).exists():
            _put_in_place(agreement_path, Known())


def _put_in_place(agreement_path: Path, known: Known, *, instead: bool = False) -> Agreement:
    """Put what is proposed in the agreement's place; by one process at a time."""
    proposal, history = proposal_path(agreement_path), history_folder(agreement_path)
    found = _proposal(agreement_path)
    if found is None:
        raise _nothing_proposed(agreement_path)
    statements, before = Statements.load(proposal), Statements()
    # A new member has no earlier version.
    present = Agreement.load(agreement_path) if agreement_path.exists() else None
    is_another = present is not None and present.digest != found.digest
    line = (found, *earlier_versions(found, proposal, known.versions))
    is_branch = instead and present is not None and present not in line
    if present is not None:
        before = Statements.load(agreement_path).with_known(known.statements, present)
        statements = carried(statements, before)
    if present is not None and is_another:
        if is_branch:
            check_is_branch((present, *earlier_versions(present, agreement_path, known.versions)), before, line)
        else:
            check_comes_after(present, before, found, agreement_path, known.versions)
    keys_in_force(found, statements)
    if present is not None and is_branch:
        _leave(history, {each.digest for each in line[1:]})
        keep_version(history / LEFT, present, before)
    elif present is not None and is_another:
        keep_version(history, present, before)
    found.save(agreement_path)
    statements.save(agreement_path)
    for path in (proposal, statements_path(proposal)):
        path.unlink(missing_ok=True)
    return found


def check_comes_after(
    present: Agreement,
    statements: Statements,
    found: Agreement,
    agreement_path: Path,
    kept: Iterable[Agreement] = (),
) -> None:
    """Raise AgreementError unless a version can take the present one's place: as the next one, or after others between them that are kept here."""
    line = (found, *earlier_versions(found, agreement_path, kept))
    if present in line:
        check_is_branch((present,), statements, line)
    elif found.version > present.version + 1:
        raise versions_missing(present.version, found.version, path_after_adoption(agreement_path))
    else:
        check_follows(present, statements, found)


def versions_missing(taken: int, later: int, agreement_path: Path) -> AgreementError:
    """That versions between two numbers are not here."""
    return AgreementError(
        f"The versions between version {taken} of the agreement, which this member has taken, and version {later} are not all here.",
        f"Put those of another member's folder '{history_folder(agreement_path).name}' beside the agreement.",
    )


def check_is_branch(ours: Sequence[Agreement], statements: Statements, theirs: Sequence[Agreement]) -> None:
    """Raise AgreementError unless two lines of versions, each with its last one first, go back to one, from which each of theirs can follow the one before.

    The last of theirs has no lower number than the last of ours: nobody goes back to what all have left.
    """
    known = {each.digest for each in ours}
    since = list(takewhile(lambda each: each.digest not in known, theirs))
    if theirs[0].version < ours[0].version or len(since) == len(theirs):
        raise AgreementError(
            f"Version {theirs[0].version} ({theirs[0].digest[:12]}) cannot take the place of version {ours[0].version} ({ours[0].digest[:12]}): it is earlier, or the versions that it follows are not here.",
            "Put those of another member's folder of earlier versions beside the agreement; of a lower number, let all sign the next one.",
        )
    for place in reversed(range(len(since))):
        check_follows(theirs[place + 1], statements, theirs[place], theirs[place + 2 :], is_taken=place == 0)


def _leave(history: Path, kept: Container[str]) -> None:
    """Move the versions of another line out of the history's way: they stay as evidence."""
    for path in history.glob("*.toml"):
        with contextlib.suppress(SudareError):
            if Agreement.load(path).digest in kept:
                continue
        _made(history / LEFT)
        for each in (path, statements_path(path)):
            if each.exists():
                move_into(history / LEFT, each)


def _nothing_proposed(agreement_path: Path) -> AgreementError:
    return AgreementError(
        f"There is no '{proposal_path(agreement_path).name}' beside the agreement.",
        "What stands in the agreement's place is what a node begins with, and needs no adoption. Another version is proposed with `sudare consortium amend`.",
    )


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


def changes_in_short(before: Agreement, after: Agreement) -> list[str]:
    """What a version changes, for people: fields by their paths, and a member, task or schedule that comes or goes once, with a plus or minus.

    That a version has another number and another one before it is not said.
    """
    old, new = before.to_dict(), after.to_dict()
    found: dict[str, None] = {}
    for path in differences(before, after):
        section, _, rest = path.partition(".")
        name = rest.partition(".")[0]
        was, will_be = (section in _NAMED and name in each.get(section, {}) for each in (old, new))
        if path not in ("previous", "version"):
            found[path if was == will_be else f"{'+' if will_be else '-'}{section}.{name}"] = None
    return list(found)


def keep_version(folder: Path, agreement: Agreement, statements: Statements, mode: int = SHARED_MODE) -> None:
    """Write a version and its statements to a folder that holds versions, with these file rights."""
    _made(folder)
    kept = kept_path(folder, agreement)
    write_document(kept, agreement.to_toml().encode(), mode)
    write_document(statements_path(kept), statements.to_toml().encode(), mode)


def kept_path(folder: Path, agreement: Agreement) -> Path:
    """Returns the path of a version in a folder that holds versions."""
    return folder / f"{agreement.version:04d}-{agreement.digest[:12]}.toml"


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AgreementError(f"'{folder.name}' cannot be made ({error.strerror}).", "Check the folder.") from None


def file_marks(paths: Iterable[Path]) -> tuple[tuple[int, ...], ...]:
    """What changes whenever one of these files is written."""
    return tuple(map(file_mark, paths))

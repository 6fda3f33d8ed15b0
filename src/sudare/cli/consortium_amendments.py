"""`sudare consortium amend`, `adopt` and `history`: new versions of an agreement that is in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.command_output import AsJson, DryRun, answer, reported
from sudare.cli.key_files import MemberFile
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.consortium import Agreement
    from sudare.consortium.agreement.member_settings import Member

_AgreementFile = Annotated[Path, typer.Argument(metavar="AGREEMENT", help="The agreement (TOML).")]


@reported
def amend(
    agreement: _AgreementFile,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="MEMBER", help="A member that leaves; may be repeated.")
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="TEXT",
            help='A member\'s larger budget, as "NAME epsilon=3 delta=1e-6"; may be repeated.',
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="TEXT",
            help='A task that is added or changed, as in `new`, for example "shifts census columns=[age,shift] epsilon=1"; may be repeated.',
        ),
    ] = None,
    without_tasks: Annotated[
        list[str] | None, typer.Option("--remove-task", metavar="TASK", help="A task that is no more; may be repeated.")
    ] = None,
    schedules: Annotated[
        list[str] | None,
        typer.Option(
            "--schedule", metavar="TEXT", help="A schedule that is added or changed, as in `new`; may be repeated."
        ),
    ] = None,
    without_schedules: Annotated[
        list[str] | None,
        typer.Option("--remove-schedule", metavar="SCHEDULE", help="A schedule that is no more; may be repeated."),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option("--threshold", min=1, help="How many members must stay in a sum. Default: as before.")
    ] = None,
    dishonest: Annotated[
        int | None, typer.Option("--dishonest", min=0, help="How many members may cheat in a sum. Default: as before.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Propose the next version of an agreement that is in force, in a file beside it. New members join that file; all of its members sign it."""
    from sudare.consortium import Agreement, Statements
    from sudare.consortium.agreement.amendments import Amendment, amended, proposal_path
    from sudare.consortium.agreement.consortium_setup_steps import schedule_from_words, task_from_words
    from sudare.errors import AgreementError

    found, place = Agreement.load(agreement), proposal_path(agreement)
    changed_budgets = dict(map(_budget, budgets or []))
    change = Amendment(
        frozenset(remove or []),
        {name: replace(found.member(name).budget, **values) for name, values in changed_budgets.items()},
        tuple(map(task_from_words, tasks or [])),
        frozenset(without_tasks or []),
        threshold,
        dishonest,
        tuple(map(schedule_from_words, schedules or [])),
        frozenset(without_schedules or []),
    )
    # Read as it will be read.
    following = Agreement.from_dict(amended(found, Statements.load(agreement), change).to_dict())
    if place.exists():
        raise AgreementError(
            f"'{place.name}' exists already.", "Sign it, change it, or remove it and its statements first."
        )
    if not dry_run:
        following.save(place)
    _tell_proposal(agreement, place, found, following, dry_run, as_json)


def _tell_proposal(
    agreement: Path, place: Path, found: Agreement, following: Agreement, dry_run: bool, as_json: bool
) -> None:
    from sudare.consortium import differences
    from sudare.consortium.agreement.amendments import changes_in_short
    from sudare.consortium.sum_terms import sums_lines

    fields, short = differences(found, following), changes_in_short(found, following)
    values = {
        "agreement": str(agreement),
        "proposal": str(place),
        "version": following.version,
        "previous": found.digest,
        "digest": following.digest,
        "members": list(following.member_names),
        "changed": list(fields),
        "dry_run": dry_run,
    }
    lines = [
        f"{'Would propose' if dry_run else 'Proposed'} version {following.version} of {found.name} in {place}. The one in force stays in force.",
        f"Changed: {', '.join(short)}.",
        *sums_lines(following, following.tasks),
        "Dry run: nothing was changed."
        if dry_run
        else f"New members join it: sudare consortium join {place} …; then all sign it: sudare consortium sign --next",
    ]
    answer(values, as_json, *lines)


def _budget(text: str) -> tuple[str, dict[str, float]]:
    """A member's name and the amounts that are given for it."""
    from sudare.errors import InvalidParameter

    name, *words = text.split()
    amounts: dict[str, float] = {}
    for word in words:
        key, _, value = word.partition("=")
        try:
            amounts[key] = float(value)
        except ValueError:
            amounts[""] = 0.0
    if not amounts or not set(amounts) <= {"epsilon", "delta"}:
        raise InvalidParameter("A budget is not an amount.", 'Write: --budget "NAME epsilon=3 delta=1e-6".')
    return name, amounts


@reported
def adopt(
    member: MemberFile = Path("member.toml"),
    agreement: Annotated[
        Path | None,
        typer.Option(
            "--agreement", metavar="FILE", help="An agreement without a member, as a relay that collects has it."
        ),
    ] = None,
    end_tasks: Annotated[
        bool,
        typer.Option(
            "--end-tasks", help="Also where tasks are under way: they are not finished, and what they cost stays spent."
        ),
    ] = False,
    instead: Annotated[
        bool,
        typer.Option(
            "--instead",
            help="Leave another version of this number that was taken here for this one, which all hold; both follow one version.",
        ),
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put the proposed version in the agreement's place, if all of its members have signed. A running node does it by itself when no task is under way.

    Where another member that uses the same file has put it there, this member takes it.
    """
    from sudare.consortium import Agreement, Member
    from sudare.consortium.agreement.amendments import adopt_proposal, proposal_path
    from sudare.consortium.node_restart_on_change import adopt_by_hand, tasks_under_way
    from sudare.errors import NotApproved

    own = None if agreement is not None else Member.load(member)
    path = Path("") if agreement is None else agreement
    path = path if own is None else own.agreement_path
    proposal = proposal_path(path)
    if proposal.exists() and own is not None:
        Agreement.load(proposal).member(own.name)
    under_way: dict[str, str] = {}
    if own is not None and (present := _present_version(own)) is not None:
        under_way = tasks_under_way(own, present)
    if under_way and not end_tasks:
        named = ", ".join(f"{name} ({state})" for name, state in sorted(under_way.items()))
        raise NotApproved(
            f"Tasks of the present version are under way: {named}.",
            "Let them end, deny or cancel them, or give --end-tasks: what they cost stays spent.",
        )
    if dry_run:
        found = _version_to_adopt(own, path)
    else:
        found = adopt_proposal(path, instead=instead) if own is None else adopt_by_hand(own, instead=instead)
    values = {
        "agreement": str(path),
        "version": found.version,
        "digest": found.digest,
        "ended": sorted(under_way),
        "dry_run": dry_run,
    }
    named = f"Version {found.version} of {found.name} ({found.digest[:12]})"
    lines = [f"{named} would be in the agreement's place." if dry_run else f"{named} is now in the agreement's place."]
    lines += [f"Not finished: {', '.join(sorted(under_way))}."] if under_way else []
    answer(values, as_json, *lines, *(["Dry run: nothing was changed."] if dry_run else []))


def _present_version(own: Member) -> Agreement | None:
    """The version that a member is at; None where it was no member before."""
    from sudare.consortium import Agreement
    from sudare.consortium.agreement.taken_versions import taken_version

    if (taken := taken_version(own)) is not None:
        return taken
    found = Agreement.load(own.agreement_path) if own.agreement_path.exists() else None
    return found if found is not None and own.name in found.member_names else None


def _version_to_adopt(own: Member | None, path: Path) -> Agreement:
    """What would be adopted. Raise AgreementError where there is nothing, and as `keys_in_force` does."""
    from sudare.consortium import Agreement, Statements, keys_in_force
    from sudare.consortium.agreement.amendments import proposal_path
    from sudare.consortium.agreement.taken_versions import has_left
    from sudare.errors import AgreementError

    place = proposal_path(path)
    if not place.exists():
        if own is None or not path.exists() or not has_left(own, Agreement.load(path)):
            raise AgreementError("No version is proposed.", "Propose one with `sudare consortium amend`.")
        place = path
    found = Agreement.load(place)
    keys_in_force(found, Statements.load(place))
    return found


@reported
def history(agreement: _AgreementFile, as_json: AsJson = False) -> None:
    """The versions of an agreement as they are kept: who signed each, and what it changed."""
    from sudare.consortium.agreement.amendments import changes_in_short, versions

    found = versions(agreement)
    values = [
        {
            "version": each.agreement.version,
            "digest": each.agreement.digest,
            "previous": each.agreement.previous,
            "members": list(each.agreement.member_names),
            "signed": list(each.status.signed),
            "changed": list(each.changed),
        }
        for each in found
    ]
    table = Table("version", "hash", "members", "signed by", "changed", box=None, pad_edge=False)
    # Names of fields are told whole, however narrow the terminal is.
    table.columns[-1].overflow = "fold"
    for before, each in zip([None, *found[:-1]], found, strict=True):
        cells = (
            str(each.agreement.version),
            each.agreement.digest[:12],
            ", ".join(each.agreement.member_names),
            ", ".join(each.status.signed),
            "" if before is None else ", ".join(changes_in_short(before.agreement, each.agreement)),
        )
        table.add_row(*(Text(escaped_for_terminal(cell)) for cell in cells))
    answer({"agreement": str(agreement), "versions": values}, as_json, table)

"""`sudare consortium report` and `compare`: what a member shows a regulator, and what two members' reports cannot both say truly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sudare.cli.command_output import AsJson, answer, reported, write_new_text
from sudare.cli.key_files import MemberFile, PassphraseFile, passphrase
from sudare.cli.language import spoken_language
from sudare.safe_text import escaped_for_terminal


@reported
def report(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The signed report, a new file (JSON).")
    ] = Path("report.json"),
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="The same as a page for people, a new file.")
    ] = None,
    for_members: Annotated[
        bool, typer.Option("--for-members", help="Leave the steward's decisions out: their reasons stay in this house.")
    ] = False,
    member: MemberFile = Path("member.toml"),
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a signed report of this member: agreements and who signed them, tasks with what each revealed and cost, decisions with reasons, the ledger's head. No records and no results."""
    from sudare.consortium.agreement.member_settings import Member
    from sudare.consortium.agreement.taken_versions import as_it_left
    from sudare.consortium.member_report import report_values, signed_report, write_report
    from sudare.consortium.member_report_page import report_page
    from sudare.report.html_page import page_html

    # Also a member that has left shows what it did.
    own = as_it_left(Member.load(member))
    values = report_values(own, with_decisions=not for_members)
    signed = signed_report(values, own.identity(passphrase(passphrase_file, f"Passphrase of {own.key_path.name}")))
    write_report(output, signed)
    if html is not None:
        write_new_text(html, page_html(report_page(signed), spoken_language()))
    told: dict[str, Any] = {"output": str(output), "html": None if html is None else str(html), **signed._asdict()}
    run = sum(bool(each["entries"]) for each in values["tasks"])
    lines = [
        f"Wrote {output}, signed by {own.name}: {len(values['agreements'])} versions of the agreement, {run} tasks with entries, ledger at entry {values['ledger']['position']}.",
        *([] if html is None else [f"Wrote {html}."]),
        "Two members' reports are compared with: sudare consortium compare FIRST SECOND",
    ]
    answer(told, as_json, *lines)


@reported
def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A report that `sudare consortium report` wrote.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another member's, or an earlier one of the same.")],
    agreement: Annotated[
        Path | None,
        typer.Option(
            "--agreement",
            metavar="FILE",
            help="The agreement (TOML), with its statements beside it: whether the keys are those of its members.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What two reports cannot both say truly. Ends with exit code 86 if there is something, with 93 if a key is not the agreement's."""
    from sudare.consortium import Agreement, Statements
    from sudare.consortium.member_report import read_report, signer_problem, versions_before
    from sudare.consortium.report_comparison import compared
    from sudare.errors import IdentityError, StatementsContradict

    reports = [read_report(path) for path in (first, second)]
    if agreement is not None:
        own = Agreement.load(agreement)
        known = own, Statements.load(agreement), list(versions_before(own, agreement))
        for path, each in zip((first, second), reports, strict=True):
            problem = signer_problem(each, *known)
            if problem is not None:
                raise IdentityError(
                    f"'{path.name}' counts for nobody: {problem}.", "Ask its member by telephone which key signed it."
                )
    found, notes = compared(*reports)
    values = {
        "members": [each.values["member"] for each in reports],
        "keys_checked": agreement is not None,
        "contradictions": [each._asdict() for each in found],
        "notes": notes,
    }
    unchecked = [
        "The reports were checked against the agreements in them, but whether those are yours was NOT CHECKED; give --agreement."
    ]
    names = escaped_for_terminal(" and ".join(str(each.values["member"]) for each in reports))
    lines = [
        # Names in a report are whatever its sender wrote, and none may begin a line of ours.
        *(
            escaped_for_terminal(f"{each.about}: {each.text} (by the report of {' and '.join(each.by)}).")
            for each in found
        ),
        *(escaped_for_terminal(f"note: {each}.") for each in notes),
        *([] if found else [f"Nothing in the reports of {names} contradicts the other."]),
        *([] if agreement is not None else unchecked),
    ]
    answer(values, as_json, *lines)
    if found:
        raise typer.Exit(StatementsContradict.exit_code)

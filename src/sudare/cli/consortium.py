"""`sudare consortium`: from a first agreement to one that all have signed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.command_output import AsJson, DryRun, answer, reported
from sudare.cli.consortium_amendments import adopt, amend, history
from sudare.cli.consortium_blame import blame
from sudare.cli.consortium_report import compare, report
from sudare.cli.key_files import AnyMemberFile, MemberFile, PassphraseFile, passphrase, public_key
from sudare.cli.language import told
from sudare.cli.options import Encoding, HasHeader, table_name
from sudare.consortium.certificate_expiry import expiry_lines, kit_days_left
from sudare.consortium.sum_terms import budget_lines, schedule_lines, schedule_values, sums_lines, sums_values

if TYPE_CHECKING:
    from sudare.consortium import Agreement, Budget, Deadlines, SignatureStatus, Sums
    from sudare.consortium.agreement.consortium_setup_steps import NewMember
    from sudare.errors import SudareError
    from sudare.privacy.account_balance import Amount

app = typer.Typer(help="Agree with other members on what to do together, and sign it.", no_args_is_help=True)

AgreementFile = Annotated[Path, typer.Argument(metavar="AGREEMENT", help="The agreement (TOML).")]
StatementFiles = Annotated[
    list[Path] | None,
    typer.Option("--add", metavar="FILE", help="A file of statements that another member sent; may be repeated."),
]
NOTHING_CHANGED = "Dry run: nothing was changed."


@app.callback()
def consortium() -> None:
    """Agree with other members on what to do together, and sign it."""


@app.command("new")
@reported
def new(
    agreement: Annotated[Path, typer.Argument(metavar="AGREEMENT", help="The file to write (TOML).")],
    name: Annotated[
        str, typer.Option("--name", help="What the consortium is called: small letters, figures, hyphens.")
    ],
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema of everybody's records (TOML).")],
    tasks: Annotated[
        list[str],
        typer.Option(
            "--task",
            metavar="TEXT",
            help='What to do, as "NAME KIND field=value …", for example "risk learning method=one-sum epsilon=0.5", with lists in brackets: "shifts census columns=[age,shift] epsilon=1"; may be repeated.',
        ),
    ],
    schedules: Annotated[
        list[str] | None,
        typer.Option(
            "--schedule",
            metavar="TEXT",
            help='When nodes run a task by themselves, as "monthly task=risk every=month first=2026-12-01 runs=12"; may be repeated.',
        ),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option("--threshold", min=1, help="How many members must stay in a sum. Default: all.")
    ] = None,
    dishonest: Annotated[
        int | None,
        typer.Option(
            "--dishonest",
            min=0,
            help="How many members may cheat in a sum and open nothing. Default: 1, of two members none.",
        ),
    ] = None,
    relay_key: Annotated[
        Path | None,
        typer.Option(
            "--relay-key",
            metavar="FILE",
            help="The public key (PEM) of whoever runs the relay, as `sudare key new --public FILE` writes it: then the relay collects the sums. "
            "Needs a --threshold. Default: members collect by turns.",
        ),
    ] = None,
    round_seconds: Annotated[float, typer.Option("--round-seconds", help="How long to wait in one round.")] = 60.0,
    task_seconds: Annotated[float, typer.Option("--task-seconds", help="How long a task may take.")] = 86_400.0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a first agreement; members join it next."""
    from sudare.consortium import Deadlines, Sums
    from sudare.errors import AgreementError

    sums = Sums(threshold=threshold, dishonest=dishonest, collector="member" if relay_key is None else "relay")
    made = _first_agreement(
        name, schema, (tasks, schedules or []), sums, Deadlines(round_seconds, task_seconds), relay_key
    )
    if agreement.exists():
        raise AgreementError(f"'{agreement.name}' exists already.", "Choose another name, or edit the file.")
    if not dry_run:
        made.save(agreement)
    _tell_first_agreement(agreement, made, dry_run, as_json)


def _tell_first_agreement(agreement: Path, made: Agreement, dry_run: bool, as_json: bool) -> None:
    values = {"agreement": str(agreement), "digest": made.digest, "tasks": [each.name for each in made.tasks]}
    answer({**values, "dry_run": dry_run}, as_json, *_lines_of_new(made, agreement, dry_run=dry_run))


def _lines_of_new(made: Agreement, agreement: Path, *, dry_run: bool) -> list[str]:
    """What was written, what its tasks cost, and how members join."""
    tasks = ", ".join(
        f"{each.name} ({each.kind}, {_cost(*each.cost)})" for each in made.tasks if each.name not in made.run_names
    )
    return [
        f"Would write {agreement}." if dry_run else f"Wrote {agreement}.",
        told("Tasks, with what each costs every member at most: {tasks}.", tasks=tasks),
        *_plan_lines(made),
        *schedule_lines(made),
        NOTHING_CHANGED
        if dry_run
        else f"Members join with: sudare consortium join {agreement} --name NAME --folder FOLDER --data FILE --epsilon BUDGET",
    ]


def _first_agreement(
    name: str,
    schema: Path,
    tasks_and_schedules: tuple[list[str], list[str]],
    sums: Sums,
    deadlines: Deadlines,
    relay_key: Path | None,
) -> Agreement:
    """What the options say, checked as if it were read from a file."""
    from sudare.consortium import Agreement, Relay
    from sudare.consortium.agreement.consortium_setup_steps import schedule_from_words, task_from_words
    from sudare.errors import AgreementError
    from sudare.schema import Schema

    relay = None if relay_key is None else Relay(public_key(relay_key).public_bytes_raw().hex())
    words, timings = tasks_and_schedules
    agreed, planned = tuple(map(task_from_words, words)), tuple(map(schedule_from_words, timings))
    made = Agreement(
        name, Schema.load(schema), tasks=agreed, sums=sums, deadlines=deadlines, relay=relay, schedules=planned
    )
    made = Agreement.from_dict(made.to_dict())
    made.check_tasks()
    if relay is not None and sums.threshold is None:
        raise AgreementError(
            "Where all members must stay in a sum it has no collector, and a relay cannot be one.",
            "Give a --threshold.",
        )
    return made


@app.command("join")
@reported
def join(
    agreement: AgreementFile,
    name: Annotated[str, typer.Option("--name", help="This member: small letters, figures, hyphens.")],
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="SOURCE",
            help="The records: a Parquet or CSV file, a folder, an address such as s3://BUCKET/TABLE.parquet or delta:FOLDER, or a database's address.",
        ),
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The most ε that the agreement's tasks may cost in all.")],
    delta: Annotated[float, typer.Option("--delta", help="The most δ that they may cost in all.")] = 0.0,
    query: Annotated[
        str | None, typer.Option("--query", help="The table, view or query, where the records are in a database.")
    ] = None,
    has_header: HasHeader = None,
    encoding: Encoding = None,
    folder: Annotated[
        Path, typer.Option("--folder", metavar="FOLDER", help="Where this member's own files are made.")
    ] = Path(),
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", metavar="FILE", help="The ledger: a file, or the address of a database. Default: in the folder."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Add this member to an agreement. Makes its key and member.toml where they are not there yet."""
    from sudare.consortium import Agreement, Budget
    from sudare.consortium.agreement.amendments import path_after_adoption
    from sudare.consortium.agreement.consortium_setup_steps import check_can_join, is_in_force, joined
    from sudare.privacy.release_file import fingerprint

    joining = _joining(name, folder, _source(data, folder, query, has_header, encoding), Budget(epsilon, delta), ledger)
    is_new = not joining.key_path.exists()
    found = Agreement.load(agreement)
    check_can_join(found, agreement, joining)
    if dry_run:
        values = {"agreement": str(agreement), "member": name, "new_key": is_new, "members": list(found.member_names)}
        key = "A new key would be made" if is_new else "The key is there already"
        lines = [
            f"{name} would join {found.name}, which has {_members(found)}. {key}: {joining.key_path}.",
            *_would_put_out_of_force_lines(name, found, agreement),
            *_data_lines(joining, found),
            *_plan_lines(found),
            NOTHING_CHANGED,
        ]
        answer({**values, "dry_run": True}, as_json, *lines)
        return
    phrase = passphrase(passphrase_file, f"Passphrase of {joining.key_path.name}", new=is_new)
    was_in_force = is_in_force(found, agreement)
    extended, identity = joined(agreement, joining, phrase)
    values = {
        "agreement": str(agreement),
        "digest": extended.digest,
        "member": name,
        "member_file": str(joining.member_path),
        "public_key": identity.public_key.hex(),
        "fingerprint": fingerprint(identity.public_key),
        "members": list(extended.member_names),
        "dry_run": False,
    }
    lines = [
        *_out_of_force_lines(name, found, extended, was_in_force),
        f"{name} joined {extended.name}, which now has {_members(extended)}.",
        f"Key {identity.fingerprint}: read it to the others on the telephone.",
        *_data_lines(joining, extended),
        *_plan_lines(extended),
        *budget_lines(extended),
        f"When all have joined, sign: sudare consortium sign --member {joining.member_path}"
        if path_after_adoption(agreement) == agreement
        else f"When all have joined, sign: sudare consortium sign --next --member {joining.member_path}",
    ]
    answer(values, as_json, *lines)


@app.command("sign")
@reported
def sign(
    member: MemberFile = Path("member.toml"),
    add: StatementFiles = None,
    proposed: Annotated[
        bool,
        typer.Option("--next", help="Sign the version that is proposed beside the agreement (AGREEMENT.next.toml)."),
    ] = False,
    instead: Annotated[
        bool,
        typer.Option(
            "--instead",
            help="Sign although you have signed another version of this number, which all members have left.",
        ),
    ] = False,
    passphrase_file: PassphraseFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Sign the agreement as it stands. Read it first: the signature is over everything in it."""
    from dataclasses import replace

    from sudare.consortium import Agreement, Member, signature_status
    from sudare.consortium.agreement.amendments import check_comes_after, proposal_path
    from sudare.consortium.agreement.consortium_setup_steps import other_signed_version, signed, with_statements_of
    from sudare.consortium.agreement.taken_versions import known_of
    from sudare.consortium.tasks.task_costs import check_plannable

    own = Member.load(member)
    if proposed:
        path, present = own.agreement_path, own
        own = replace(own, agreement_path=proposal_path(path))
        if path.exists():
            before = Agreement.load(path)
            check_comes_after(
                before, present.statements(before), own.agreement(), path, known_of(present, before).versions
            )
    agreement = own.agreement()
    agreement.check_complete()
    check_plannable(agreement)
    other = other_signed_version(own, agreement)
    if dry_run:
        statements = with_statements_of(agreement, own.agreement_path, own.statements(), add or [])
    else:
        identity = own.identity(passphrase(passphrase_file, f"Passphrase of {own.key_path.name}"))
        statements = signed(own, identity, add or [], instead=instead, shown=agreement)
    found = signature_status(agreement, statements)
    again = (
        []
        if other is None
        else [
            f"You have signed another version {agreement.version} ({other[:12]}) before, and cannot take that back: make sure that all have left it."
        ]
    )
    lines = [
        NOTHING_CHANGED if dry_run else f"{own.name} signed {agreement.name} ({agreement.digest[:12]}).",
        *again,
        *sums_lines(agreement, agreement.tasks),
        *schedule_lines(agreement),
        *budget_lines(agreement),
        f"Not signed yet by: {', '.join(found.lacking)}." if found.lacking else "All have signed.",
        *_sum_keys_lines(found),
    ]
    answer({**_values(agreement, found), "dry_run": dry_run}, as_json, *lines)


@app.command("check")
@reported
def check(
    agreement: AgreementFile,
    add: StatementFiles = None,
    against: Annotated[
        Path | None,
        typer.Option("--with", metavar="FILE", help="Another copy: says which fields differ (exit code 92)."),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option("--kit", metavar="FOLDER", help="A member's kit: warns if its certificates end within 30 days."),
    ] = None,
    member: AnyMemberFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Whether all have signed with keys that count; with --member also by what that member has seen before, whatever the files say.

    Ends with exit code 92 if not, and with 94 if a key was revoked.
    """
    from sudare.consortium import Agreement, Member, Statements, differences, signature_status
    from sudare.consortium.agreement.consortium_setup_steps import added, with_statements_of
    from sudare.consortium.agreement.differing_fields import mismatch
    from sudare.errors import AgreementMismatch, KeyRevoked

    found = Agreement.load(agreement)
    if against is not None:
        fields = differences(found, Agreement.load(against))
        if fields:
            raise mismatch(fields)
    found.check_complete()
    if add and not dry_run:
        statements = added(found, agreement, add)
    else:
        statements = with_statements_of(found, agreement, Statements.load(agreement), add or [])
    if member is not None:
        statements = statements.with_known(Member.load(member).known_statements(found), found)
    stands = signature_status(found, statements)
    lines = ["In force: all have signed." if stands.is_in_force else "Not in force.", *_sum_keys_lines(stands)]
    values = {
        **_values(found, stands),
        "plans": {name: plan._asdict() if isinstance(plan, tuple) else None for name, plan in _plans(found).items()},
        "certificate_days_left": kit_days_left(kit, "client"),
        "dry_run": dry_run,
    }
    lines = [
        *_plan_lines(found),
        *sums_lines(found, found.tasks),
        *schedule_lines(found),
        *budget_lines(found),
        *lines,
        *expiry_lines(kit, "client"),
    ]
    answer(values, as_json, _table(found, stands), *lines)
    if not stands.is_in_force:
        raise typer.Exit(KeyRevoked.exit_code if stands.revoked else AgreementMismatch.exit_code)


app.command("amend", short_help="Propose the next version of an agreement that is in force.")(amend)
app.command("adopt", short_help="Put a proposed version that all have signed in the agreement's place.")(adopt)
app.command("history", short_help="The versions of an agreement, who signed each, and what it changed.")(history)
app.command("report", short_help="A signed report of this member, for a regulator.")(report)
app.command("compare", short_help="What two members' reports cannot both say truly.")(compare)
app.command("blame", short_help="Which signed statements about a task's sums contradict each other.")(blame)


def _joining(name: str, folder: Path, source: dict[str, str | bool], budget: Budget, ledger: str | None) -> NewMember:
    """What the options say, with paths as the member's own file holds them: relative to its folder."""
    from sudare.consortium.agreement.consortium_setup_steps import LEDGER_FILE, NewMember

    if ledger is None:
        ledger = LEDGER_FILE
    else:
        ledger = _found_from_anywhere(ledger) if _is_address(ledger) else os.path.relpath(ledger, folder)
    return NewMember(name, folder, source, budget, ledger)


def _source(
    data: str, folder: Path, query: str | None, has_header: bool | None, encoding: str | None
) -> dict[str, str | bool]:
    """The section `data` of the member's own file."""
    is_database = _is_address(data) and (query is not None or not _is_table_address(data))
    if is_database:
        return {"url": _found_from_anywhere(data), "query": query or ""}
    said = {"has_header": has_header, "encoding": encoding}
    return {
        "source": data if _is_address(data) else _relative(data, folder),
        **{name: value for name, value in said.items() if value is not None},
    }


def _is_table_address(data: str) -> bool:
    """Whether an address says all: objects in a store, or a database with a table after a blank."""
    from sudare.frames.table_addresses import STORES

    is_object = data.partition("://")[0].lower().rpartition(":")[2] in STORES
    return is_object or " " in data.strip() or data.startswith("env:")


def _relative(data: str, folder: Path) -> str:
    """A path as the member's own file holds it, also where it is that of a Delta or Iceberg table."""
    form = next((form for form in ("delta:", "iceberg:") if data.startswith(form)), "")
    return form + os.path.relpath(data.removeprefix(form), folder)


def _found_from_anywhere(address: str) -> str:
    """The address; that of an SQLite file with its whole path, because it is looked for from where a node is started."""
    import sqlalchemy

    try:
        url = sqlalchemy.make_url(address)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return address
    file = url.database or ""
    if url.get_backend_name() != "sqlite" or not file or file.startswith((":", "file:")):
        return address
    return url.set(database=os.path.abspath(file)).render_as_string(hide_password=False)


def _members(agreement: Agreement) -> str:
    names = agreement.member_names
    return f"{len(names)} {'member' if len(names) == 1 else 'members'}{': ' if names else ''}{', '.join(names)}"


def _cost(epsilon: float, delta: float) -> str:
    return f"ε {epsilon:g}{f', δ {delta:g}' if delta else ''}" if epsilon else "exact sums, entered as disclosures"


def _plans(agreement: Agreement) -> dict[str, Amount | SudareError]:
    """What tasks with parameters charge a member with as many records as are taken for usual, or why they cannot be planned.

    Others charge what stands in the agreement.
    """
    tasks = [task for task in agreement.tasks if task.parameters]
    if not tasks:
        return {}
    from sudare.consortium.tasks.task_costs import USUAL_ROWS, planned_for_new_member
    from sudare.errors import SudareError

    plans: dict[str, Amount | SudareError] = {}
    for task in tasks:
        try:
            plans[task.name] = planned_for_new_member(task, agreement, USUAL_ROWS)
        except SudareError as error:
            plans[task.name] = error
    return plans


def _plan_lines(agreement: Agreement) -> list[str]:
    """The tasks that charge a record something else than stands in the agreement, or cannot be planned."""
    from sudare.consortium.tasks.task_costs import USUAL_ROWS

    lines = []
    for name, plan in _plans(agreement).items():
        agreed = agreement.task(name).cost
        if not isinstance(plan, tuple):
            lines.append(f"{name} cannot run as it stands: {plan}")
        elif plan != agreed:
            lines.append(
                f"{name} charges {_cost(*plan)} for a record (of {USUAL_ROWS:,}); its text says {_cost(*agreed)}."
            )
    return lines


def _would_put_out_of_force_lines(name: str, found: Agreement, path: Path) -> list[str]:
    """That joining would put an agreement out of force, before it does."""
    from sudare.consortium.agreement.consortium_setup_steps import is_in_force

    if name in found.member_names or not is_in_force(found, path):
        return []
    return [
        "All members have signed this agreement: joining makes it another one, which all sign again. A member that comes later joins the next version (sudare consortium amend)."
    ]


def _out_of_force_lines(name: str, before: Agreement, extended: Agreement, was_in_force: bool) -> list[str]:
    """That whoever joined an agreement in force has put it out of force, and how that is undone."""
    if not was_in_force or before.digest == extended.digest:
        return []
    return [
        "All members had signed this agreement: now it is another one, which all sign again.",
        f"If tasks were run under it already, take [members.{name}] out of the file again, and the signatures count as before: a member that comes later joins the next version (sudare consortium amend).",
    ]


def _data_lines(joining: NewMember, agreement: Agreement) -> list[str]:
    """Whether the records are there and have the agreed columns; only their names and types are looked at."""
    from sudare.consortium.agreement.member_settings import placed
    from sudare.errors import SudareError
    from sudare.frames import batches
    from sudare.frames.csv_dialects import CsvFile
    from sudare.frames.table_addresses import is_address
    from sudare.schema.table_from_any_frame import refuse_missing_columns

    given = str(joining.data.get("source", "env:"))
    if given.startswith("env:"):
        return []
    place = placed(given, Path(os.path.relpath(joining.folder)))
    file = place if is_address(place) else Path(os.path.normpath(place))
    said: dict[str, Any] = {name: joining.data.get(name) for name in ("has_header", "encoding")}
    try:
        first = next(iter(batches(CsvFile(file, **said), schema=agreement.schema)), None)
        if first is not None:
            refuse_missing_columns(agreement.schema.source_columns, first.names)
    except SudareError as error:
        return [f"Your data cannot be used as they are, so no task would run: {error}"]
    return [f"Your data: {table_name(place) if is_address(place) else file}, which has the agreed columns."]


def _is_address(text: str) -> bool:
    return "://" in text or text.startswith("env:")


def _values(agreement: Agreement, found: SignatureStatus) -> dict[str, Any]:
    from sudare.privacy.release_file import fingerprint

    return {
        "name": agreement.name,
        "version": agreement.version,
        "digest": agreement.digest,
        "in_force": found.is_in_force,
        "signed": list(found.signed),
        "missing": list(found.missing),
        "invalid": list(found.invalid),
        "revoked": list(found.revoked),
        "without_sum_keys": list(found.without_sum_keys),
        "keys": {name: fingerprint(key) for name, key in found.keys.items()},
        "sums": sums_values(agreement, agreement.tasks),
        "schedules": schedule_values(agreement),
    }


def _sum_keys_lines(found: SignatureStatus) -> list[str]:
    """Who signs again, and why."""
    if not found.without_sum_keys:
        return []
    named = ", ".join(found.without_sum_keys)
    return [
        f"Without keys for sums: {named}. Members may leave sums, so everyone's keys must be signed: they sign again with `sudare consortium sign` and send their file of statements."
    ]


def _table(agreement: Agreement, found: SignatureStatus) -> Table:
    from sudare.privacy.release_file import fingerprint
    from sudare.sums.context import RELAY_NAME

    words = dict.fromkeys(found.signed, "signed")
    words |= dict.fromkeys(found.missing, "not signed") | dict.fromkeys(found.invalid, "signed something else")
    words |= dict.fromkeys(found.revoked, "key revoked")
    words |= dict.fromkeys(found.without_sum_keys, "signed, without keys for sums")
    table = Table("member", "key in use", f"agreement {agreement.digest[:12]}", box=None, pad_edge=False)
    for name in agreement.member_names:
        key = found.keys.get(name)
        table.add_row(Text(name), Text(fingerprint(key) if key else "none"), Text(words[name]))
    if agreement.relay is not None:
        key = found.keys.get(RELAY_NAME)
        part = words.get(RELAY_NAME, "collects sums" if agreement.relay_collects else "collects nothing")
        table.add_row(Text("(the relay)"), Text(fingerprint(key) if key else "none"), Text(part))
    return table

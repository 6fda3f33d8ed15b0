"""What two members' reports cannot both say truly, and what one of them says that its own texts refute.

What a report says of agreements, keys, signatures and costs is worked out anew from the texts in it. Each finding names the members on whose reports it rests:
what only another says of a member accuses nobody, but contradicts what that member says itself. Reports are of different dates: what the earlier one could
not know yet contradicts nothing, and is told as a note.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sudare.consortium.agreement.agreement import Agreement, differences
from sudare.consortium.agreement.approvals import parsed_event
from sudare.consortium.agreement.signed_statements import Statements, signature_status
from sudare.consortium.member_report import FORMAT, SignedReport, agreed_values, agreement_values, signer_problem
from sudare.consortium.tasks.definitions import DictionaryTask, Task
from sudare.consortium.tasks.task_costs import USUAL_ROWS, promise_of
from sudare.errors import AgreementError, SudareError
from sudare.privacy.account_balance import amount_left
from sudare.privacy.accounting import Budget, Cost, Spent, exact, rational
from sudare.privacy.guarantee import Guarantee

# Since this one reports have the texts of agreements and signatures.
_WITH_TEXTS: Final = 2
_LARGEST_POSITION: Final = 2**53
# A member's clock may be wrong by a day, and may have been set right since, or another's may be wrong the other way.
_WRONG_CLOCK: Final = datetime.timedelta(days=2)
# What all members hold alike of a task with sums.
_NAMES_OF_SUMS: Final = frozenset({"release", "patterns"})
_UNREADABLE: Final = (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, LookupError)
_Values = Mapping[str, Any]


class Finding(NamedTuple):
    """Something that is not true in one of two reports. `by` are the members whose reports say so; where it is one, its own report refutes itself."""

    about: str
    text: str
    by: tuple[str, ...]


class Comparison(NamedTuple):
    """What cannot be true in two reports, and what they left open."""

    findings: list[Finding]
    notes: list[str]


@dataclass(frozen=True)
class _Read:
    """A report with its versions of the agreement by digest, as far as their texts are in it."""

    report: SignedReport
    versions: Mapping[str, tuple[Agreement, Statements]]

    @property
    def values(self) -> _Values:
        return self.report.values

    @property
    def member(self) -> str:
        return str(self.values["member"])

    @property
    def latest(self) -> Agreement | None:
        return max((each for each, _ in self.versions.values()), key=lambda each: each.version, default=None)

    @property
    def first(self) -> Agreement | None:
        return min((each for each, _ in self.versions.values()), key=lambda each: each.version, default=None)


def compared(first: SignedReport, second: SignedReport) -> Comparison:
    """What cannot be true in two reports, or in one of them. Raise AgreementError where one has not the form of a report."""
    try:
        one, other = _read(first), _read(second)
        findings = [
            *_about_itself(one),
            *(_about_itself(other) if second != first else ()),
            *_about_omissions(one, other),
            *_about_omissions(other, one),
            *_about_agreements(one, other),
            *_about_tasks(one, other),
            *(_about_one_ledger(one.values, other.values) if one.member == other.member else ()),
        ]
        notes = [*_open_questions(one, other), *(_open_questions(other, one) if second != first else ())]
    except AgreementError:
        raise
    except _UNREADABLE:
        raise AgreementError(
            "A report lacks parts of its form.", "Use one version of sudare for both, and ask for it again."
        ) from None
    return Comparison(list(dict.fromkeys(findings)), notes)


def _read(report: SignedReport) -> _Read:
    check_form(report.values)
    listed = report.values["agreements"] if report.values["format"] >= _WITH_TEXTS else []
    found = {}
    for each in listed:
        try:
            agreement, statements = Agreement.from_toml(each["text"]), Statements.from_toml(each["statements"])
        except SudareError:
            raise AgreementError(
                f"An agreement in the report of {report.values['member']} cannot be read.", "Ask for the report again."
            ) from None
        found[agreement.digest] = agreement, statements
    return _Read(report, found)


def check_form(values: _Values) -> None:
    """Raise AgreementError unless dates, positions and decisions in a report are such: dates with a zone, whole numbers, texts."""
    dates = [values["made_at"], *(each.get(name) for each in values["tasks"] for name in ("finished_at", "held_at"))]
    dates += [entry["time"] for each in values["tasks"] for entry in each["entries"]]
    positions = [values["ledger"]["position"]]
    positions += [entry["position"] for each in values["tasks"] for entry in each["entries"]]
    decisions = values.get("decisions") or []
    wrong = (
        "a date"
        if not all(each is None or _is_date(each) for each in dates) or values["made_at"] is None
        else "a position in its ledger"
        if not all(type(each) is int and 0 <= each <= _LARGEST_POSITION for each in positions)
        else "a decision"
        if not all(isinstance(each, dict) and _is_decision(each) for each in decisions)
        else None
    )
    if wrong is not None:
        raise AgreementError(
            f"The report of {values['member']} has {wrong} that is none.",
            "Ask its member for the report again; sudare writes none like it.",
        )


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_decision(value: _Values) -> bool:
    try:
        parsed_event(json.dumps(dict(value)))
    except SudareError:
        return False
    return True


def _about_itself(one: _Read) -> Iterator[Finding]:
    """What a report says that does not follow from the texts in it."""
    values, who = one.values, one.member
    tasks = [(each["agreement"], each["task"]) for each in values["tasks"]]
    digests = [each["digest"] for each in values["agreements"]]
    if len(set(tasks)) < len(tasks) or len(set(digests)) < len(digests):
        yield Finding("form", f"the report of {who} lists a task or an agreement twice", (who,))
    if values["format"] < _WITH_TEXTS:
        yield Finding(
            "unverifiable",
            f"the report of {who} is of an earlier form, without the texts of agreements and signatures: what it says of them cannot be checked; ask for a new one",
            (who,),
        )
        return
    yield from _about_texts(one)
    yield from _about_own_entries(one)
    yield from _about_left(values)
    latest = one.latest
    problem = None if latest is None else signer_problem(one.report, *one.versions[latest.digest])
    if problem is not None:
        yield Finding("signer", f"the report of {who} counts for nobody: {problem}", (who,))


def _about_own_entries(one: _Read) -> Iterator[Finding]:
    """Entries that cannot be in the report's ledger, or are not what the agreement says that the task costs; and a date from before them."""
    values, who = one.values, one.member
    entries = [entry for each in values["tasks"] for entry in each["entries"]]
    positions = [entry["position"] for entry in entries]
    if any(position > values["ledger"]["position"] for position in positions):
        yield Finding("ledger", f"the report of {who} lists an entry beyond the end of its ledger", (who,))
    if len(set(positions)) < len(positions):
        yield Finding("ledger", f"the report of {who} lists one entry of its ledger twice", (who,))
    if _last_time(values) - _time(values["made_at"]) > _WRONG_CLOCK:
        yield Finding("date", f"the report of {who} has an earlier date than entries in it", (who,))
    for each in values["tasks"]:
        agreement, _ = one.versions.get(each["agreement"], (None, None))
        task = next((task for task in agreement.tasks if task.name == each["task"]), None) if agreement else None
        if agreement is not None and task is not None:
            yield from _about_own_task(one, agreement, task, each)


def _about_own_task(one: _Read, agreement: Agreement, task: Task, told: _Values) -> Iterator[Finding]:
    """Entries and results of a task that are not what its agreement has."""
    who, entries = one.member, told["entries"]
    exact_sums = task if isinstance(task, DictionaryTask) and not task.is_private else None
    kind = "charge" if exact_sums is None else "disclosure"
    if any(entry["kind"] != kind for entry in entries):
        yield Finding(
            "entry", f"{task.name}: it is entered as a {kind}, and the report of {who} has another entry", (who,)
        )
    numbers = None if exact_sums is None else exact_sums.most_numbers
    if any(entry["kind"] == kind and entry["exact_numbers"] != numbers for entry in entries):
        yield Finding(
            "entry", f"{task.name}: the report of {who} has another number of exact totals than was agreed", (who,)
        )
    if one.values["format"] >= FORMAT:
        yield from _about_own_end(who, task, told)
    charges = [entry["guarantee"] for entry in entries if entry["kind"] == "charge"]
    if kind == "charge" and not all(_is_agreed(task, agreement, guarantee) for guarantee in charges):
        yield Finding(
            "cost", f"{task.name}: the report of {who} has a charge for another guarantee than was agreed", (who,)
        )


def _about_own_end(who: str, task: Task, told: _Values) -> Iterator[Finding]:
    """An end of a task that nothing was entered for, and results of sums under other names than sudare gives them."""
    if _is_finished(told) and not told["entries"]:
        yield Finding("entry", f"{task.name}: the report of {who} has its end, and no entry of it", (who,))
    names = set(told["results"])
    has_end = told["finished_at"] is not None
    if task.has_sums and (not names <= _NAMES_OF_SUMS or ("release" in names) != has_end):
        yield Finding("forged", f"{task.name}: the report of {who} leaves out or renames a result", (who,))


def _is_agreed(task: Task, agreement: Agreement, guarantee: _Values) -> bool:
    """Whether a charge is for what the task promises, in the relation of the account. True where that depends on how many rows a member has."""
    asked: list[int] = []

    def rows() -> int:
        asked.append(USUAL_ROWS)
        return USUAL_ROWS

    try:
        agreed = promise_of(task, agreement.schema, rows)
    except SudareError:
        return True
    if asked or agreed is None:
        return True
    try:
        stated = Guarantee.from_dict(guarantee)
        converted = agreed.to(stated.neighbours)
    except SudareError:
        return False
    return stated.epsilon == converted.epsilon and agreed.delta <= stated.delta <= converted.delta * (1 + 1e-9)


def _about_texts(one: _Read) -> Iterator[Finding]:
    """Where what is said of agreements and tasks is not what their texts say, or a version between two others is missing."""
    values, who = one.values, one.member
    before: Agreement | None = None
    for each, (agreement, statements) in zip(values["agreements"], one.versions.values(), strict=False):
        what = f"version {agreement.version} of {agreement.name}"
        true = agreement_values(agreement, signature_status(agreement, statements))
        if {name: each[name] for name in true} != true:
            yield Finding(
                "forged", f"what the report of {who} says of {what} is not what its text and signatures say", (who,)
            )
        if before is not None and (agreement.previous, agreement.version) != (before.digest, before.version + 1):
            yield Finding("forged", f"in the report of {who}, {what} does not follow the version before it", (who,))
        elif list(each["changed"]) != ([] if before is None else list(differences(before, agreement))):
            yield Finding(
                "forged", f"what the report of {who} says was changed in {what} is not what its text says", (who,)
            )
        before = agreement
    if len(one.versions) < len(values["agreements"]):
        yield Finding("forged", f"the report of {who} gives one text for several versions of the agreement", (who,))
    names = ("agreement", "task", "kind", "has_sums", "agreed")
    agreed = [agreed_values(agreement, task) for agreement, _ in one.versions.values() for task in agreement.tasks]
    for each in values["tasks"]:
        said = {name: each[name] for name in names}
        if said not in agreed:
            yield Finding(
                "forged", f"{each['task']}: what the report of {who} says of it is not in the agreement", (who,)
            )
    told = {(each["agreement"], each["task"]) for each in values["tasks"]}
    for wanted in agreed:
        if (wanted["agreement"], wanted["task"]) not in told:
            yield Finding(
                "task", f"{wanted['task']}: the agreement has it, and the report of {who} leaves it out", (who,)
            )
    yield from _about_unsigned(one)


def _about_unsigned(one: _Read) -> Iterator[Finding]:
    """Entries of tasks of a version that nobody has signed."""
    values, who = one.values, one.member
    for agreement, statements in one.versions.values():
        is_signed = bool(signature_status(agreement, statements).signed)
        entered = any(each["entries"] for each in values["tasks"] if each["agreement"] == agreement.digest)
        if entered and not is_signed:
            yield Finding(
                "agreement",
                f"the report of {who} has entries of tasks of version {agreement.version} of {agreement.name}, which nobody has signed",
                (who,),
            )


def _about_left(values: _Values) -> Iterator[Finding]:
    """Charges that cost less than they promise, and a budget of which more is left than they leave."""
    who = values["member"]
    charges = [entry for each in values["tasks"] for entry in each["entries"] if entry["kind"] == "charge"]
    paid: dict[str | None, list[Cost]] = {}
    for entry in charges:
        cost = Cost.from_dict(entry["cost"])
        paid.setdefault(entry.get("account"), []).append(cost)
        if cost.epsilon < exact(entry["guarantee"]["epsilon"]) or cost.delta < exact(entry["guarantee"]["delta"]):
            yield Finding("cost", f"entry {entry['position']} of {who} costs less than what it promises", (who,))
    accounts = _accounts(values)
    if not paid.keys() <= accounts.keys():
        yield Finding("left", f"the report of {who} has charges and no budget", (who,))
    for name, (budget, left) in accounts.items():
        most = amount_left(budget, Spent.of(paid.get(name, [])))
        if left["epsilon"] > most.epsilon or left["delta"] > most.delta:
            yield Finding("left", f"by its own entries {who} has less left than its report says", (who,))


def _accounts(values: _Values) -> dict[str | None, tuple[Budget, _Values]]:
    """Budget, and what is left of it, by account. Before there were several, entries named none. Raise TypeError where an amount is no number."""
    found: dict[str | None, tuple[Budget, _Values]]
    if values["format"] < FORMAT:
        found = {None: (_budget_of(values["budget"]), values["left"])} if values["budget"] is not None else {}
    else:
        found = {name: (_budget_of(each["budget"]), each["left"]) for name, each in values["accounts"].items()}
    if not all(type(left[name]) in (int, float) for _, left in found.values() for name in ("epsilon", "delta")):
        raise TypeError
    return found


def _budget_of(values: _Values) -> Budget:
    epsilon, delta, reserved = (rational(values[name]) for name in ("epsilon", "delta", "reserved_delta"))
    return Budget(epsilon, delta, values["composition"], reserved)


def _about_omissions(one: _Read, other: _Read) -> Iterator[Finding]:
    """What one report must list, by agreements that its member has signed with its own key and that came into force, and does not."""
    values, who = one.values, one.member
    tasks = {(each["agreement"], each["task"]) for each in values["tasks"]}
    digests = {each["digest"] for each in values["agreements"]}
    # What is later than all that it lists it may not have known yet.
    latest = _last_version(values)
    for agreement in _signed_and_left_out(one, other):
        if agreement.version < latest:
            yield Finding(
                "agreement",
                f"{who} signed version {agreement.version} of {agreement.name} with all others, by its signature in the report of {other.member}, and its own report leaves it out",
                (who, other.member),
            )
        elif agreement.version > latest > 0:
            yield from _about_ended_under(agreement, one, other)
    for agreement, _ in other.versions.values():
        for task in agreement.tasks if agreement.digest in digests else ():
            if (agreement.digest, task.name) not in tasks:
                yield Finding(
                    "task", f"{task.name}: the agreement has it, and the report of {who} leaves it out", (who,)
                )


def _last_version(values: _Values) -> int:
    """The highest number of a version that a report lists; 0 where it lists none."""
    return max((int(each["version"]) for each in values["agreements"]), default=0)


def _signed_and_left_out(one: _Read, other: _Read) -> Iterator[Agreement]:
    """Versions in another's report that came into force with the signature of one's own key, and that one's own report does not list."""
    values, who = one.values, one.member
    digests = {each["digest"] for each in values["agreements"]}
    keys = {one.report.public_key, *(each["keys"].get(who) for each in values["agreements"])}
    for agreement, statements in other.versions.values():
        status = signature_status(agreement, statements)
        key = status.keys.get(who)
        is_theirs = status.is_in_force and who in status.signed and key is not None and key.hex() in keys
        if agreement.digest not in digests and is_theirs:
            yield agreement


def _about_ended_under(agreement: Agreement, one: _Read, other: _Read) -> Iterator[Finding]:
    """Tasks of a version that one report does not list, and that another reports as finished with all members before that report was made."""
    must_stay = agreement.threshold == len(agreement.members)
    for task in other.values["tasks"]:
        is_with_all = task["agreement"] == agreement.digest and (must_stay or not task["has_sums"])
        if is_with_all and _is_finished(task) and not _is_before_end(one.values, task, other.values):
            yield Finding(
                "entry",
                f"{task['task']}: {other.member} reports that it was finished with all members under version {agreement.version} of {agreement.name}, and the report of {one.member} leaves that version out",
                (other.member, one.member),
            )


def _about_agreements(one: _Read, other: _Read) -> Iterator[Finding]:
    """Texts that differ, and statements that cannot both be true: signatures are only ever added, so that whoever has fewer may just be earlier."""
    both = one.member, other.member
    theirs = {(each["name"], each["version"]): each["digest"] for each in other.values["agreements"]}
    shared = any((each["name"], each["version"]) in theirs for each in one.values["agreements"])
    if not (shared or _ends_before(one.values, other.values) or _ends_before(other.values, one.values)):
        yield Finding("agreement", "they have no agreement in common, so that nothing could be compared", both)
    for ours in one.values["agreements"]:
        if theirs.get((ours["name"], ours["version"]), ours["digest"]) != ours["digest"]:
            yield Finding(
                "agreement", f"they hold different texts of version {ours['version']} of {ours['name']}", both
            )
    for last, first in ((one.latest, other.first), (other.latest, one.first)):
        # Where one's versions end with the one before the other's first, that one names it.
        if (
            last
            and first
            and last.name == first.name
            and first.version == last.version + 1
            and first.previous != last.digest
        ):
            yield Finding("agreement", f"they hold different texts of version {last.version} of {last.name}", both)
    for digest in one.versions.keys() & other.versions.keys():
        agreement, statements = one.versions[digest]
        known = statements, other.versions[digest][1]
        lost = [set(signature_status(agreement, each).revoked) for each in known]
        together = Statements(
            rotations=(*known[0].rotations, *known[1].rotations),
            revocations=(*known[0].revocations, *known[1].revocations),
        )
        for name in sorted(set(signature_status(agreement, together).revoked) - lost[0] - lost[1]):
            yield Finding("key", f"the key of {name} was handed over to different keys, or to another's", both)


def _ends_before(one: _Values, other: _Values) -> bool:
    """Whether all versions in one report are earlier than all in the other: a member has left before another joined, or one report is much older."""
    names = {each["name"] for values in (one, other) for each in values["agreements"]}
    ours, theirs = ([each["version"] for each in values["agreements"]] for values in (one, other))
    return len(names) == 1 and bool(ours) and bool(theirs) and max(ours) < min(theirs)


def _about_tasks(one: _Read, other_report: _Read) -> Iterator[Finding]:
    first, second = one.values, other_report.values
    both = one.member, other_report.member
    theirs = {(each["agreement"], each["task"]): each for each in second["tasks"]}
    listed = (*first["agreements"], *second["agreements"])
    must_stay = {each["digest"] for each in listed if each["all_must_stay"]}
    for ours in first["tasks"]:
        other = theirs.get((ours["agreement"], ours["task"]))
        if other is None:
            continue
        name = ours["task"]
        for result in sorted(ours["results"].keys() & other["results"].keys()):
            if ours["results"][result] != other["results"][result]:
                yield Finding("result", f"{name}: they hold different results ({result})", both)
        if any(ours[what] != other[what] for what in ("kind", "has_sums", "agreed")):
            yield Finding("task", f"{name}: they say different things about what was agreed", both)
        has_sums = ours["has_sums"] or other["has_sums"]
        if has_sums:
            yield from _about_entries(name, ours, other, both)
        # Everybody's release is in what came of a task without sums, whoever may leave sums.
        if has_sums and ours["agreement"] not in must_stay:
            continue
        for task, teller, another, maker in ((ours, one, other, other_report), (other, other_report, ours, one)):
            if _is_unpaid(task, another, maker) and not _is_before_end(maker.values, task, teller.values):
                yield Finding(
                    "entry",
                    f"{name}: {teller.member} reports that it was finished with all members, and {maker.member} that its ledger has no entry of it",
                    (teller.member, maker.member),
                )


def _is_finished(task: _Values) -> bool:
    """Whether a task has ended at a member. One without sums has once all releases are there: this member's own, which the ledger has, is only the beginning."""
    return bool(task["results"]) or (task["has_sums"] and task.get("finished_at") is not None)


def _is_unpaid(task: _Values, another: _Values, maker: _Read) -> bool:
    """Whether a task was finished at one member, and another, whose task it was too, has nothing of it in its ledger.

    Of a version of the agreement that does not name the maker of that report, as before it joined, nothing can be in its ledger.
    """
    found = maker.versions.get(str(another["agreement"]))
    is_theirs = found is None or maker.member in found[0].member_names
    return is_theirs and _is_finished(task) and not another["entries"]


def _is_before_end(report: _Values, task: _Values, teller: _Values) -> bool:
    """Whether a report was made before the task was finished at the member that tells so; at the latest that was when it made its own report.

    It was made when its date says, or after the last of its entries, whichever is later. Where two members' clocks may be wrong by a day, it counts as
    made before.
    """
    end = task.get("finished_at" if task["has_sums"] else "held_at") or teller["made_at"]
    between_clocks = _WRONG_CLOCK if report["member"] != teller["member"] else datetime.timedelta()
    return max(_time(report["made_at"]), _last_time(report)) < _time(end) + between_clocks


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _last_time(report: _Values) -> datetime.datetime:
    """When the last of a report's entries was made, or task finished."""
    times = [entry["time"] for each in report["tasks"] for entry in each["entries"]]
    times += [each["finished_at"] for each in report["tasks"] if each.get("finished_at") is not None]
    return max(map(_time, times), default=datetime.datetime.min.replace(tzinfo=datetime.UTC))


def _about_entries(name: str, ours: _Values, other: _Values, both: tuple[str, ...]) -> Iterator[Finding]:
    """What two members entered for one task of sums. Until both have finished it, one may have entered more than the other."""
    are_finished = _is_finished(ours) and _is_finished(other)
    kinds = [list(dict.fromkeys(entry["kind"] for entry in each["entries"])) for each in (ours, other)]
    if not _fit(kinds[0], kinds[1], are_finished):
        yield Finding("entry", f"{name}: they entered different kinds of entries", both)
    promised = [
        [entry["guarantee"] for entry in each["entries"] if entry["kind"] == "charge"] for each in (ours, other)
    ]
    if not _fit(promised[0], promised[1], are_finished):
        yield Finding("cost", f"{name}: they were charged for different guarantees", both)


def _fit(ours: list[Any], other: list[Any], are_finished: bool) -> bool:
    """Whether one list goes on from the other; the same, where both are whole."""
    shorter = min(len(ours), len(other))
    if not shorter:
        return True
    return ours == other if are_finished else ours[:shorter] == other[:shorter]


def _about_one_ledger(first: _Values, second: _Values) -> Iterator[Finding]:
    """Two reports of one member: of its one ledger, the later goes on from the earlier."""
    by = (str(first["member"]),)
    earlier, later = sorted((first, second), key=lambda each: int(each["ledger"]["position"]))
    if earlier["ledger"]["ledger"] != later["ledger"]["ledger"]:
        yield Finding("ledger", f"{first['member']} reports two different ledgers", by)
        return
    known = {entry["position"]: entry["hash"] for each in later["tasks"] for entry in each["entries"]}
    for task in earlier["tasks"]:
        for entry in task["entries"]:
            if known.get(entry["position"]) != entry["hash"]:
                yield Finding("ledger", f"entry {entry['position']} ({task['task']}) is not in the later report", by)
    for task in later["tasks"]:
        for entry in task["entries"]:
            told = {each["hash"] for other in earlier["tasks"] for each in other["entries"]}
            if entry["position"] <= earlier["ledger"]["position"] and entry["hash"] not in told:
                yield Finding("ledger", f"entry {entry['position']} ({task['task']}) is not in the earlier report", by)
    if (
        earlier["ledger"]["position"] == later["ledger"]["position"]
        and earlier["ledger"]["hash"] != later["ledger"]["hash"]
    ):
        yield Finding("ledger", f"{first['member']} reports two ledgers that end differently at one entry", by)


def _lacking_signatures(one: _Read) -> Iterator[str]:
    for version, known in one.versions.values():
        lacking = signature_status(version, known).lacking
        if lacking:
            yield f"version {version.version} of {version.name} in the report of {one.member} has no signature that counts by {', '.join(lacking)}"


def _not_yet_listed(one: _Read, other: _Read) -> Iterator[str]:
    latest = _last_version(one.values)
    for version in _signed_and_left_out(one, other):
        if version.version > latest > 0:
            yield f"the report of {one.member} does not list version {version.version} of {version.name} yet, which it has signed with all others; ask for a later one"


def _open_questions(one: _Read, other: _Read) -> Iterator[str]:
    """What a report does not settle: what it was too early for, an earlier key, a budget above the agreed one."""
    who, values = one.member, one.values
    theirs = {(each["agreement"], each["task"]): each for each in other.values["tasks"]}
    for ours in values["tasks"]:
        task = theirs.get((ours["agreement"], ours["task"]))
        if task is not None and _is_unpaid(task, ours, one) and _is_before_end(values, task, other.values):
            yield f"{ours['task']}: by its date the report of {who} was made before the end of this task, or so soon after it that a wrong clock can be all; ask for one that is made two days after the end"
    yield from _not_yet_listed(one, other)
    if _ends_before(values, other.values):
        yield f"the versions of the agreement in the report of {who} end before those in the report of {other.member} begin, so that nothing of the two could be compared"
    agreement = one.latest
    if agreement is None:
        return
    _, statements = one.versions[agreement.digest]
    current = signature_status(agreement, statements).keys.get(who)
    is_theirs = signer_problem(one.report, agreement, statements) is None
    if is_theirs and current is not None and current.hex() != one.report.public_key:
        yield f"the report of {who} is signed with an earlier key of it"
    yield from _lacking_signatures(one)
    accounts = _accounts(values)
    if len(accounts) > 1:
        yield f"{who} paid from {len(accounts)} accounts: what a person is promised holds for the records of each alone"
    if who in agreement.member_names:
        agreed = agreement.member(who).budget
        if any(has.epsilon > exact(agreed.epsilon) or has.delta > exact(agreed.delta) for has, _ in accounts.values()):
            yield f"the account of {who} has a larger budget than version {agreement.version} of the agreement gives it"

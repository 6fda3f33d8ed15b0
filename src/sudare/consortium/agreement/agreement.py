"""The agreement: what members have agreed to do, under one hash. Nodes with different hashes do not talk.

The hash is over one canonical text that does not depend on how the file was written; the schema is part of it in full.
Who signed it, and which keys were rotated or revoked since, stands beside it (`sudare.consortium.agreement.signed_statements`).
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import tomli_w

from sudare.consortium.agreement.differing_fields import differing_fields, field_digests
from sudare.consortium.agreement.document_fields import Field, Reader, parsed_toml, whole
from sudare.consortium.agreement.identity import is_usable
from sudare.consortium.agreement.schedules import (
    Schedule,
    added_up,
    check_no_run_is_declared,
    is_within,
    schedule_from,
    tasks_with_runs,
)
from sudare.consortium.tasks.definitions import (
    CensusTask,
    DictionaryTask,
    LearningTask,
    Task,
    check_parameters,
    task_from,
)
from sudare.errors import AgreementError, InvalidParameter, SchemaError
from sudare.files import read_text, write_document
from sudare.privacy.ledger_chain import canonical_json
from sudare.schema import Number, Schema
from sudare.sums.context import (
    COLLECTORS,
    RELAY_NAME,
    Collector,
    check_threshold,
    noise_colluders,
    usual_dishonest,
)
from sudare.sums.exact_sum_minimum import check_exact_sums

FORMAT: Final = 1
MOST_MEMBERS: Final = 10_000
MOST_TASKS: Final = 1000
# Names that are somebody else's where members' names are used: in results, where each member's release is under its name, and on the line.
RESERVED_NAMES: Final = {"own": "the file of a member's own release", "server": "the relay"}


@dataclass(frozen=True)
class Budget:
    """The most that the tasks of an agreement may cost one member, over all of them."""

    epsilon: float
    delta: float = 0.0

    def holds(self, costs: Iterable[tuple[float, float]]) -> bool:
        """Whether all these costs, of ε and δ, fit together, as the ledger adds them up."""
        paid = list(costs)
        return is_within((cost[0] for cost in paid), self.epsilon) and is_within((cost[1] for cost in paid), self.delta)


@dataclass(frozen=True)
class MemberEntry:
    """One member: its name, its Ed25519 public key in hexadecimal, and its budget."""

    name: str
    key: str
    budget: Budget

    @property
    def public_key(self) -> bytes:
        """The 32 bytes of the key that is pinned; `statements.in_force` says which one is in use now."""
        return bytes.fromhex(self.key)


@dataclass(frozen=True)
class Relay:
    """The relay that members reach each other by: its Ed25519 public key in hexadecimal, where it is to collect sums."""

    key: str


@dataclass(frozen=True)
class Sums:
    """How addends are hidden in sums, how many members must stay for a sum to be finished (None: all), and how many may be dishonest.

    So many members, and whoever collects a sum, may do anything and still open nobody's addend. None is one, or nobody of two.
    `collector` is who collects sums that members may leave: the members by turns, or the relay.
    """

    hidden_by: Literal["masks"] = "masks"
    threshold: int | None = None
    dishonest: int | None = None
    collector: Collector = "member"


@dataclass(frozen=True)
class Deadlines:
    """How long a member waits for the others: in one round, and in a whole task."""

    round_seconds: float = 60.0
    task_seconds: float = 86_400.0


@dataclass(frozen=True)
class Agreement:
    """What is agreed. Members and tasks are in the order of their names, whatever the order in the file.

    A `version` after the first has the digest of the one before it as `previous`, so that no two versions ever have one digest.
    """

    name: str
    schema: Schema
    members: tuple[MemberEntry, ...] = ()
    tasks: tuple[Task, ...] = ()
    sums: Sums = field(default_factory=Sums)
    deadlines: Deadlines = field(default_factory=Deadlines)
    relay: Relay | None = None
    version: int = 1
    previous: str | None = None
    schedules: tuple[Schedule, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tasks_with_runs(self.tasks, self.schedules))
        if (self.version == 1) != (self.previous is None):
            raise AgreementError(
                "`version` and `previous` do not fit: the first version follows nothing, and every other one names the hash of the one before it.",
                "Make new versions with `sudare consortium amend`.",
            )
        for listed in ("members", "tasks", "schedules"):
            ordered = tuple(sorted(getattr(self, listed), key=lambda each: each.name))
            object.__setattr__(self, listed, ordered)
            names = [each.name for each in ordered]
            if len(set(names)) != len(names):
                raise AgreementError(f"Two {listed} have the same name.", "Rename one of them.")
        reserved = [member.name for member in self.members if member.name in RESERVED_NAMES]
        if reserved:
            raise AgreementError(
                f"No member can have the name '{reserved[0]}': {RESERVED_NAMES[reserved[0]]} has it.",
                "Choose another name.",
            )
        keys = [member.key for member in self.members]
        if len(set(keys)) != len(keys):
            raise AgreementError("Two members have the same public key.", "Each member makes a key of its own.")
        self._check_relay()
        self._check_tasks()

    def _check_relay(self) -> None:
        """Raise AgreementError unless the relay has a key and name of its own where it has one, and one where it is to collect."""
        if self.relay is None:
            if self.relay_collects:
                raise AgreementError(
                    '`sums.collector` is "relay", and the agreement names no key of the relay.',
                    "Whoever runs the relay makes one with `sudare key new`: enter the public key as `key` in a section [relay].",
                )
            return
        for member in self.members:
            if member.key == self.relay.key:
                raise AgreementError(
                    f"The relay has the public key of '{member.name}'.",
                    "The relay makes a key of its own: who collects as relay must not sign as a member.",
                )
            if member.name == RELAY_NAME:
                raise AgreementError(
                    f"No member can have the name '{RELAY_NAME}' where the relay has a key: it speaks under that name.",
                    "Choose another name for the member, or leave [relay] out.",
                )

    def _check_tasks(self) -> None:
        for task in self.tasks:
            if isinstance(task, CensusTask):
                missing = [column for column in task.columns if column not in self.schema.columns]
                if missing:
                    raise AgreementError(
                        f"`tasks.{task.name}.columns` names columns that the schema lacks.",
                        f"Use some of: {', '.join(map(repr, self.schema.columns))}.",
                    )
            for member in self.members:
                budget = member.budget.epsilon, member.budget.delta
                for sign, costs, holds in zip(("ε", "δ"), task.cost, budget, strict=True):
                    if costs > holds:
                        raise AgreementError(
                            f"`tasks.{task.name}` costs more than `members.{member.name}.budget` holds: {sign} = {costs:g}, and there is {holds:g}.",
                            "Lower the task's epsilon and delta, or raise the member's budget.",
                        )

        self.check_schedules(lambda schedule: self.task(schedule.task).cost)

    def check_schedules(self, cost_of_run: Callable[[Schedule], tuple[float, float]]) -> None:
        """Raise AgreementError where all runs of all schedules together, each at such a cost, are more than a member's budget holds."""
        costs = [cost for each in self.schedules for cost in [cost_of_run(each)] * each.runs]
        total = added_up(cost[0] for cost in costs), added_up(cost[1] for cost in costs)
        for member in self.members:
            if not member.budget.holds(costs):
                raise AgreementError(
                    f"The schedules cost ε = {total[0]:g}, δ = {total[1]:g} in all, and `members.{member.name}.budget` holds less.",
                    "Agree on fewer or cheaper runs, or raise the member's budget.",
                )

    def schedule_of(self, task: str) -> Schedule | None:
        """The schedule that a task is a run of; None where it is none."""
        return next((each for each in self.schedules if task in each.run_names), None)

    def time_of(self, task: str, today: datetime.date) -> str:
        """Whether a task may begin today: "now", but for a run of a schedule before its day ("early") and after its time ("over")."""
        schedule = self.schedule_of(task)
        return "now" if schedule is None else schedule.time_of(task, today)

    @property
    def run_names(self) -> frozenset[str]:
        """The tasks that are runs of a schedule."""
        return frozenset(name for schedule in self.schedules for name in schedule.run_names)

    @property
    def member_names(self) -> tuple[str, ...]:
        """All members, in the order that sums use."""
        return tuple(member.name for member in self.members)

    @property
    def pinned_keys(self) -> dict[str, str]:
        """The key that stands in the agreement for each member, and for the relay where it has one."""
        relay = {} if self.relay is None else {RELAY_NAME: self.relay.key}
        return {member.name: member.key for member in self.members} | relay

    @property
    def relay_collects(self) -> bool:
        """Whether the relay collects the sums."""
        return self.sums.collector == "relay"

    @property
    def sums_seen_by(self) -> str:
        """Who sees the totals of sums, in words."""
        members = f"the {len(self.members)} members of {self.name}"
        return f"{members} and the relay" if self.relay_collects else members

    @property
    def threshold(self) -> int:
        """How many members must stay for a sum to be finished."""
        return len(self.members) if self.sums.threshold is None else self.sums.threshold

    @property
    def dishonest(self) -> int:
        """How many members may do anything in a sum without opening anybody's addend."""
        return usual_dishonest(len(self.members)) if self.sums.dishonest is None else self.sums.dishonest

    @cached_property
    def colluders(self) -> int:
        """Members whose share of the noise is not counted on: those who may leave or be dishonest, and one more that looks.

        It follows from members, threshold and dishonest alone (`sums.context.noise_colluders`): members − colluders shares are the whole noise.
        Raise AgreementError unless these numbers fit together.
        """
        self.check_sums()
        return noise_colluders(len(self.members), self.threshold, self.dishonest)

    @property
    def revoking_members(self) -> int:
        """How many members can say that another one's key no longer counts: the threshold, or where that is all, all others."""
        return max(1, min(self.threshold, len(self.members) - 1))

    def member(self, name: str) -> MemberEntry:
        """One member by name."""
        return _by_name(self.members, name, "member", "Check the name, or join with `sudare consortium join`.")

    def check_has_key(self, name: str) -> None:
        """Raise AgreementError unless this is a member, or the relay where the agreement names its key."""
        if name not in self.pinned_keys:
            self.member(name)

    def task(self, name: str) -> Task:
        """One task by name."""
        return _by_name(self.tasks, name, "task", "Check the name.")

    def schedule(self, name: str) -> Schedule:
        """One schedule by name."""
        return _by_name(self.schedules, name, "schedule", "Check the name.")

    def with_member(self, member: MemberEntry) -> Agreement:
        """The agreement with one more member, or with another key and budget for one that it has."""
        others = tuple(each for each in self.members if each.name != member.name)
        return replace(self, members=(*others, member))

    def check_tasks(self) -> None:
        """Raise AgreementError unless there is a task, and each has the parameters and columns that it needs, whoever joins."""
        if not self.tasks:
            raise AgreementError("The agreement has no task.", "Add a section [tasks.NAME].")
        for task in self.tasks:
            if isinstance(task, LearningTask) and self.schema.label is None:
                raise AgreementError(
                    f"`tasks.{task.name}` has no label to learn.", 'Declare a column of the schema with kind = "label".'
                )
            check_parameters(task)
            if isinstance(task, DictionaryTask) and task.is_private:
                self._check_number_columns(task)

    def check_complete(self) -> None:
        """Raise AgreementError unless the agreement can be signed: enough members, tasks, and thresholds that fit their number."""
        self.check_sums()
        self.check_tasks()
        for task in self.tasks:
            if isinstance(task, DictionaryTask) and not task.is_private:
                _check_exact_sums(task, len(self.members))

    def check_sums(self) -> None:
        """Raise AgreementError unless there are two members or more, two of them honest, and the threshold fits their number."""
        count = len(self.members)
        if count < 2:
            raise AgreementError(
                f"The agreement has {count} of at least 2 members.", "Others join with `sudare consortium join`."
            )
        try:
            check_threshold(count, self.threshold, self.dishonest)
        except InvalidParameter as error:
            wrong = "threshold" if 0 <= self.dishonest <= count - 2 else "dishonest"
            raise AgreementError(f"`sums.{wrong}`: {error.problem}", error.remedy) from None
        if self.relay_collects and self.threshold == count:
            raise AgreementError(
                "`sums.collector`: a sum that all members must stay in has no collector.",
                "Write a `sums.threshold` below the number of members, or let no relay collect.",
            )

    def _check_number_columns(self, task: DictionaryTask) -> None:
        if not any(isinstance(column, Number) for column in self.schema.features.values()):
            raise AgreementError(
                f"`tasks.{task.name}` needs columns that are numbers, and the schema declares none.",
                'Declare a column of the schema with kind = "number", low and high.',
            )

    # As a document

    @classmethod
    def from_dict(cls, document: object, folder: Path | None = None) -> Agreement:
        """The agreement that nested dictionaries describe. A schema in a file of its own is looked for in `folder`."""
        fields = Field("", document).table(
            ("format", "name", "schema"),
            ("members", "tasks", "sums", "deadlines", "relay", "version", "previous", "schedules"),
        )
        fields["format"].check_format(FORMAT, "agreements")
        members = fields["members"].named() if "members" in fields else {}
        tasks = fields["tasks"].named() if "tasks" in fields else {}
        schedules = fields["schedules"].named() if "schedules" in fields else {}
        if len(members) > MOST_MEMBERS or len(tasks) + len(schedules) > MOST_TASKS:
            raise AgreementError(
                f"The agreement has more than {MOST_MEMBERS} members or {MOST_TASKS} tasks.", "Split it."
            )
        declared = tuple(task_from(name, section) for name, section in tasks.items())
        repeated = tuple(schedule_from(name, section) for name, section in schedules.items())
        check_no_run_is_declared(declared, repeated)
        return cls(
            name=fields["name"].name(),
            schema=_schema(fields["schema"], folder),
            members=tuple(_member(name, section) for name, section in members.items()),
            tasks=declared,
            sums=_sums(fields["sums"]) if "sums" in fields else Sums(),
            deadlines=_deadlines(fields["deadlines"]) if "deadlines" in fields else Deadlines(),
            relay=fields["relay"].built(Relay, {"key": _public_key}) if "relay" in fields else None,
            version=fields["version"].whole(1) if "version" in fields else 1,
            previous=fields["previous"].hexadecimal(64) if "previous" in fields else None,
            schedules=repeated,
        )

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries of plain types; `Agreement.from_dict` gives the same agreement back."""
        # What is as it always was is not told: agreements that say nothing about it keep their hash.
        collector = self.sums.collector if self.relay_collects else None
        options = {"threshold": self.sums.threshold, "dishonest": self.sums.dishonest, "collector": collector}
        told = {name: value for name, value in options.items() if value is not None}
        relay = {} if self.relay is None else {"relay": {"key": self.relay.key}}
        runs = self.run_names
        follows = {} if self.previous is None else {"version": self.version, "previous": self.previous}
        return {
            "format": FORMAT,
            "name": self.name,
            **follows,
            "sums": {"hidden_by": self.sums.hidden_by, **told},
            "deadlines": vars(self.deadlines).copy(),
            **relay,
            "members": {each.name: {"key": each.key, "budget": vars(each.budget).copy()} for each in self.members},
            "tasks": {task.name: task.to_dict() for task in self.tasks if task.name not in runs},
            **({"schedules": {each.name: each.to_dict() for each in self.schedules}} if self.schedules else {}),
            "schema": self.schema.to_dict(),
        }

    @classmethod
    def from_toml(cls, text: str, folder: Path | None = None) -> Agreement:
        """The agreement that a TOML text describes."""
        return cls.from_dict(parsed_toml(text, "The agreement").value, folder)

    def to_toml(self) -> str:
        """A TOML text with the schema in it; `Agreement.from_toml` gives the same agreement back."""
        return tomli_w.dumps(self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Agreement:
        """The agreement in a TOML file."""
        file = Path(path)
        return cls.from_toml(read_text(file, "The agreement"), file.absolute().parent)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the TOML file; whoever reads meanwhile sees the old file or the new one."""
        write_document(Path(path), self.to_toml().encode())

    # Its hash, and what differs

    def canonical_bytes(self) -> bytes:
        """The one text for what is agreed, however the file was written."""
        document = self.to_dict()
        # JSON's fields have no order, columns do: it is the order in which they are encoded.
        document["schema"]["columns"] = list(document["schema"]["columns"].items())
        return canonical_json(document).encode()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text: the thing that is agreed on and signed."""
        return hashlib.sha256(b"sudare agreement\n" + self.canonical_bytes()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def field_digests(self, nonce: bytes) -> dict[str, str]:
        """A digest for every field by its path, to find out with another member which fields differ.

        The nonce is new for every conversation, so that digests cannot be looked up in a table made before. A field with few
        possible values can still be guessed by whoever gets its digest: send them only to a member that proved who it is.
        """
        document = self.to_dict()
        document["schema"]["column_order"] = list(document["schema"]["columns"])
        return field_digests(document, nonce)


Named = TypeVar("Named", MemberEntry, Task, Schedule)


def _by_name(entries: tuple[Named, ...], name: str, what: str, remedy: str) -> Named:
    for entry in entries:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in entries)
    raise AgreementError(f"The agreement has no {what} of that name; it has: {names or 'none yet'}.", remedy)


def differences(mine: Agreement, theirs: Agreement) -> tuple[str, ...]:
    """Paths of the fields in which two agreements differ, in alphabetical order."""
    return differing_fields(mine.field_digests(b""), theirs.field_digests(b""))


def _check_exact_sums(task: DictionaryTask, members: int) -> None:
    """Refuse exact sums over two members, and over fewer than five without consent."""
    try:
        check_exact_sums(members, task.consent)
    except InvalidParameter as refusal:
        raise AgreementError(
            f"`tasks.{task.name}`: {refusal.problem}",
            "Give the task an epsilon, or ask more members to join. From three members on, all can also agree to it: "
            "write consent = true there.",
        ) from None


def _schema(section: Field, folder: Path | None) -> Schema:
    """The schema: in the agreement itself, or in a file beside it with the digest that it must have."""
    try:
        if not isinstance(section.value, Mapping) or "file" not in section.value:
            return Schema.from_dict(section.value)  # type: ignore[arg-type]
        fields = section.table(("file", "digest"))
        name = fields["file"].text()
        if folder is None or Path(name).name != name:
            # The agreement is written by others: it may not name any file of this machine.
            raise fields["file"].refused("the name of a file beside the agreement")
        found = Schema.load(folder / name)
    except SchemaError as error:
        raise AgreementError(f"`{section.path}`: {error.problem}", error.remedy) from None
    if found.digest != fields["digest"].hexadecimal(64):
        raise AgreementError(
            f"`schema.digest` is not that of '{name}'.",
            "Ask who wrote the agreement for the schema that belongs to it.",
        )
    return found


def _member(name: str, section: Field) -> MemberEntry:
    def budget(part: Field) -> Budget:
        return part.built(Budget, {"epsilon": Field.epsilon}, {"delta": Field.delta})

    return section.built(partial(MemberEntry, name), {"key": _public_key, "budget": budget})


def _public_key(field: Field) -> str:
    key = field.hexadecimal(64)
    if not is_usable(bytes.fromhex(key)):
        raise field.refused("a key that only its owner can sign with")
    return key


def _sums(section: Field) -> Sums:
    options: dict[str, Reader] = {"threshold": whole(1, MOST_MEMBERS), "dishonest": whole(0, MOST_MEMBERS)}
    options["collector"] = lambda field: field.word(COLLECTORS)
    return section.built(Sums, {"hidden_by": lambda field: field.word(("masks",))}, options)


def _deadlines(section: Field) -> Deadlines:
    def seconds(field: Field) -> float:
        return field.number(0.0, 366 * 86_400.0)

    return section.built(Deadlines, {}, {"round_seconds": seconds, "task_seconds": seconds})

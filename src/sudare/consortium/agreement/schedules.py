"""Tasks that are run again and again: agreed beforehand, each run a task of its own, with a name that ends with its day."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal

from sudare.consortium.agreement.document_fields import NAME, Field, whole
from sudare.consortium.tasks.definitions import Task
from sudare.errors import AgreementError
from sudare.privacy.ledger_chain import canonical_json

MOST_RUNS: Final = 366
_DAYS: Final = {"day": 1, "week": 7}
_LATEST_DAY_OF_MONTH: Final = 28


def added_up(amounts: Iterable[float]) -> float:
    """A sum of amounts as their decimal texts say them, as the ledger adds them up: three times 0.1 is 0.3."""
    return float(_exactly(amounts))


def is_within(amounts: Iterable[float], budget: float) -> bool:
    """Whether a budget holds all these amounts together, as the ledger adds them up: not by a hair more."""
    return _exactly(amounts) <= _exactly([budget])


def _exactly(amounts: Iterable[float]) -> Fraction:
    return sum((Fraction(repr(float(each))) for each in amounts), Fraction(0))


@dataclass(frozen=True)
class Schedule:
    """A task that is run so many times, from a day on, every day, week or month. All runs are of the same records, and their costs add up."""

    name: str
    task: str
    every: str
    first: str
    runs: int

    @property
    def days(self) -> tuple[datetime.date, ...]:
        """The day of each run, and the day on which the last one is no longer begun."""
        first = datetime.date.fromisoformat(self.first)
        if self.every in _DAYS:
            step = datetime.timedelta(days=_DAYS[self.every])
            return tuple(first + number * step for number in range(self.runs + 1))
        months = (first.month - 1 + number for number in range(self.runs + 1))
        return tuple(first.replace(year=first.year + month // 12, month=month % 12 + 1) for month in months)

    @property
    def run_names(self) -> tuple[str, ...]:
        """The name of the task that each run is."""
        return tuple(f"{self.task}-{day.isoformat()}" for day in self.days[:-1])

    def time_of(self, run: str, today: datetime.date) -> Literal["early", "now", "over"]:
        """Whether a run can be begun today: not before its day, nor later than a day after that of the next."""
        begins, ends = list(pairwise(self.days))[self.run_names.index(run)]
        if today < begins:
            return "early"
        # Clocks and the ends of days differ between members.
        return "now" if today <= ends else "over"

    @property
    def digest(self) -> str:
        """What tells it from every other schedule, in hexadecimal."""
        return hashlib.sha256(canonical_json({"schedule": self.name, **self.to_dict()}).encode()).hexdigest()

    def due(self, today: datetime.date) -> str | None:
        """The run whose time is now: from its day to that of the next. One that was missed is not made up for."""
        for name, (begins, ends) in zip(self.run_names, pairwise(self.days), strict=True):
            if begins <= today < ends:
                return name
        return None

    def runs_in_a_year(self) -> int:
        """How many runs there are in the 366 days from the first on."""
        return sum(1 for day in self.days[:-1] if (day - self.days[0]).days < MOST_RUNS)

    def to_dict(self) -> dict[str, Any]:
        """The section of an agreement that describes it."""
        return {"task": self.task, "every": self.every, "first": self.first, "runs": self.runs}


def schedule_from(name: str, section: Field) -> Schedule:
    """The schedule that a section of an agreement describes."""
    readers = {"task": Field.name, "every": _period, "first": _day, "runs": whole(1, MOST_RUNS)}
    schedule = section.built(partial(Schedule, name), readers)
    if schedule.every == "month" and int(schedule.first[-2:]) > _LATEST_DAY_OF_MONTH:
        raise Field(f"{section.path}.first", schedule.first).refused(
            f"a day that every month has, up to the {_LATEST_DAY_OF_MONTH}th"
        )
    return schedule


def _period(field: Field) -> str:
    return field.word((*_DAYS, "month"))


def _day(field: Field) -> str:
    """A day as text: TOML's own dates have no place in canonical JSON."""
    text = field.text()
    try:
        is_day = datetime.date.fromisoformat(text).isoformat() == text and text < "9000"
    except ValueError:
        is_day = False
    if not is_day:
        raise field.refused('a day, such as "2026-12-01"')
    return text


def check_no_run_is_declared(tasks: Iterable[Task], schedules: Iterable[Schedule]) -> None:
    """Raise AgreementError where a declared task has the name of a run: it would never be run as it stands."""
    runs = {name for schedule in schedules for name in schedule.run_names}
    for task in tasks:
        if task.name in runs:
            raise AgreementError(f"`tasks.{task.name}` has the name of a run of a schedule.", "Choose another name.")


def tasks_with_runs(tasks: Iterable[Task], schedules: Iterable[Schedule]) -> tuple[Task, ...]:
    """The tasks, with one for every run of every schedule."""
    listed = tuple(schedules)
    runs = {name for schedule in listed for name in schedule.run_names}
    declared = {task.name: task for task in tasks if task.name not in runs}
    made: dict[str, Task] = {}
    for schedule in listed:
        if schedule.task not in declared:
            raise AgreementError(
                f"`schedules.{schedule.name}.task` is no task of the agreement.",
                "Name a task that stands under [tasks].",
            )
        for name in schedule.run_names:
            if name in made or not NAME.fullmatch(name):
                raise AgreementError(
                    f"`schedules.{schedule.name}` has a run that another one has too, or whose name is too long.",
                    "Choose another first day, or a task with a shorter name.",
                )
            made[name] = replace(declared[schedule.task], name=name)
    return (*declared.values(), *made.values())

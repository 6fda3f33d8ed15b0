"""Three members and a relay as processes, two hundred tasks one after the other over an hour, and kills all the while.

    SUDARE_SOAK_TASKS=8 SUDARE_SOAK_SECONDS_A_TASK=0 python -m pytest -m long --timeout=0 tests/e2e/test_soak.py

Who is killed in which task, and how long after it was asked for, is drawn from a fixed seed. Whoever was killed is started again at once, and
where a killed member does not have the task's result its operator asks for it again, as docs/operations.md says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from benchmarks.consortium_scale import LOOK_SECONDS, Consortium, memory, names_of, write_consortium
from sudare.consortium import Budget, LearningTask, Member
from sudare.consortium.node_request_files import ask_running_node, states_of
from sudare.privacy.release import audited, read

TASKS = int(os.environ.get("SUDARE_SOAK_TASKS", "200"))
# A task is asked for so long after the one before, or once that has ended, whichever is later.
SECONDS_A_TASK = float(os.environ.get("SUDARE_SOAK_SECONDS_A_TASK", "18"))
MEMBERS = 3
# Two to a negative power, so that the sum of all prices has no rounding.
PRICE = 0.25
SEED = 22
KILLS_A_TASK = 0.5
# From before the others have heard of a task until after its end: it takes one to two seconds on two cores.
LATEST_KILL_SECONDS = 2.5
MOST_TASK_SECONDS = 900.0
# What a node may have grown by since the first tenth of the tasks: this, and so much for each task since. A node keeps the tasks that it
# has finished until it ends. Measured in one that was never killed: about 0.25 MB a task.
MOST_GROWTH_MB = 10.0
MOST_GROWTH_MB_A_TASK = 0.4


@dataclass(frozen=True)
class Step:
    """One task: who asks for it, and who is killed how long after that."""

    task: LearningTask
    asks: str
    killed: str | None
    after_seconds: float


def first_tenth(tasks: int) -> int:
    """How many tasks are done when memory is measured first."""
    return max(1, tasks // 10)


def steps(tasks: int, seed: int = SEED) -> list[Step]:
    """The plan of a soak. The last member is never killed, so that its memory tells of all tasks in one process; nobody is killed in the two tasks after which memory is measured."""
    names, draw, found = names_of(MEMBERS), np.random.default_rng(seed), []
    measured = (first_tenth(tasks) - 1, tasks - 1)
    for number in range(tasks):
        asks, victim = draw.choice(names), draw.choice(["relay", *names[:-1]])
        is_killed, seconds = draw.random() < KILLS_A_TASK, draw.uniform(0.0, LATEST_KILL_SECONDS)
        killed = str(victim) if is_killed and number not in measured else None
        found.append(Step(LearningTask(f"sum-{number:03d}", "one-sum", PRICE), str(asks), killed, float(seconds)))
    return found


@contextmanager
def running(folder: Path) -> Iterator[Consortium]:
    """The relay and all members, ended afterwards."""
    consortium = Consortium(folder, MEMBERS)
    try:
        consortium.start_relay()
        consortium.start_members()
        yield consortium
    finally:
        consortium.end()


def members_of(consortium: Consortium) -> list[Member]:
    return [Member.load(consortium.folder / name / "member.toml") for name in consortium.names]


def state_at(member: Member, task: LearningTask) -> str:
    return str(states_of(member).get(task.name, {"state": "not heard of"})["state"])


def kill_and_start_again(consortium: Consortium, step: Step) -> None:
    assert step.killed is not None
    consortium.kill(step.killed)
    if step.killed == "relay":
        consortium.start_relay()
        return
    consortium.start_member(step.killed)
    member = Member.load(consortium.folder / step.killed / "member.toml")
    if state_at(member, step.task) != "finished":
        ask_running_node(member, step.task.name)


def run_step(consortium: Consortium, step: Step) -> None:
    """Ask for a task, kill whom the plan names, and wait until all have the result. Raise AssertionError if the task fails anywhere."""
    members = members_of(consortium)
    ask_running_node(next(member for member in members if member.name == step.asks), step.task.name)
    if step.killed is not None:
        time.sleep(step.after_seconds)
        kill_and_start_again(consortium, step)
    end = time.monotonic() + MOST_TASK_SECONDS
    while {state_at(member, step.task) for member in members} != {"finished"}:
        consortium.check_alive()
        states = {member.name: states_of(member).get(step.task.name) for member in members}
        assert not any(each is not None and each["state"] == "failed" for each in states.values()), (step, states)
        assert time.monotonic() < end, (step, states)
        time.sleep(LOOK_SECONDS)


def resident_mb(consortium: Consortium) -> dict[str, float]:
    return {name: memory(consortium.processes[name])["resident_mb"] for name in consortium.names}


def test_the_plan_of_a_soak_is_the_same_every_time_and_kills_members_and_relay() -> None:
    plan = steps(200)
    assert plan == steps(200)
    killed = [step.killed for step in plan if step.killed is not None]
    assert set(killed) == {"relay", *names_of(MEMBERS)[:-1]}
    assert len(killed) > 50
    # Whoever asks for a task is killed in its middle, too.
    assert any(step.killed == step.asks for step in plan)


@pytest.mark.long
def test_no_task_is_lost_or_paid_twice_and_memory_stays_within_its_bound(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    plan = steps(TASKS)
    # A budget for exactly these tasks: the last would be refused if one before it had been paid for twice.
    write_consortium(tmp_path, MEMBERS, tuple(step.task for step in plan), Budget(TASKS * PRICE, 1e-5))
    early: dict[str, float] = {}
    with running(tmp_path) as consortium:
        for number, step in enumerate(plan, 1):
            next_at = time.monotonic() + SECONDS_A_TASK
            run_step(consortium, step)
            if number == first_tenth(TASKS):
                early = resident_mb(consortium)
            if number < TASKS:
                time.sleep(max(0.0, next_at - time.monotonic()))
        late = resident_mb(consortium)
        members = members_of(consortium)
    print(f"resident megabytes after {first_tenth(TASKS)} tasks: {early}; after {TASKS}: {late}")
    for member in members:
        assert {state_at(member, step.task) for step in plan} == {"finished"}
        assert member.account(member.agreement()).spent().epsilon == TASKS * PRICE
    for step in plan:
        paths = [member.folder / "results" / step.task.name / "model.sudare" for member in members]
        assert len({audited(read(path)).content.digest() for path in paths}) == 1
    most_growth_mb = MOST_GROWTH_MB + MOST_GROWTH_MB_A_TASK * (TASKS - first_tenth(TASKS))
    assert {name: late[name] for name in late if late[name] > early[name] + most_growth_mb} == {}

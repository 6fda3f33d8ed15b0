"""Three members and a relay as processes, two hundred tasks one after the other over an hour, and kills all the while.

    SUDARE_SOAK_TASKS=20 SUDARE_SOAK_SECONDS_A_TASK=0 python -m pytest -m long --timeout=0 tests/e2e/test_soak.py

Who is killed in which task, and how long after it was asked for, is drawn from a fixed seed. Whoever was killed is started again at once, and
where a killed member does not have the task's result its operator asks for it again, as docs/operations.md says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.consortium_scale import LOOK_SECONDS, Consortium, memory, names_of, write_consortium
from sudare.consortium import Budget, Deadlines, LearningTask, Member
from sudare.consortium.node_control_files import ask_running_node, states_of
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
# A busy machine must not decide: a member that was killed may take minutes to come back, and is waited for.
DEADLINES = Deadlines(round_seconds=600.0)
# Of the member that is never killed, after the first 80 tasks (libraries that read tables keep ever more of what they free until about then): what it grows by with each task, at most. The bound holds for the upper end of
# a confidence interval; a node that kept what a finished task leaves in memory, 0.22 MB, would be noticed.
MOST_GROWTH_MB_A_TASK = 0.05
CONFIDENCE = 0.99
WARM_UP_TASKS, LEAST_MEASURED_TASKS = 80, 60
BLOCKS = 9


@dataclass(frozen=True)
class Step:
    """One task: who asks for it, and who is killed how long after that."""

    task: LearningTask
    asks: str
    killed: str | None
    after_seconds: float


def most_growth_a_task(megabytes: Sequence[float]) -> float:
    """The upper end of a one-sided confidence interval for the growth with each task, from the resident megabytes after each.

    Medians of blocks of tasks are compared with those of the blocks before: where memory is a walk with a drift, these differences are independent, and Student's t bounds their mean.
    Memory that was given back to the system counts as no growth: one large fall would hide a leak in the mean, or widen the interval beyond use.
    """
    length = len(megabytes) // BLOCKS
    medians = [float(np.median(megabytes[at : at + length])) for at in range(0, BLOCKS * length, length)]
    differences = np.maximum(np.diff(medians), 0.0) / length
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    return float(differences.mean() + t.ppf(CONFIDENCE, len(differences) - 1) * error)


def steps(tasks: int, seed: int = SEED) -> list[Step]:
    """The plan of a soak. The last member is never killed, so that its memory tells of all tasks in one process."""
    names, draw, found = names_of(MEMBERS), np.random.default_rng(seed), []
    for number in range(tasks):
        asks, victim = draw.choice(names), draw.choice(["relay", *names[:-1]])
        is_killed, seconds = draw.random() < KILLS_A_TASK, draw.uniform(0.0, LATEST_KILL_SECONDS)
        killed = str(victim) if is_killed else None
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
    while {state_at(member, step.task) for member in members} != {"finished"}:
        consortium.check_alive()
        states = {member.name: states_of(member).get(step.task.name) for member in members}
        assert not any(each is not None and each["state"] == "failed" for each in states.values()), (step, states)
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


@pytest.mark.parametrize("tasks", [60, 180])
def test_growth_is_told_from_steps_of_the_allocator(tasks: int) -> None:
    """Memory that grows now and then by a step and falls again is flat; what every task leaves is not."""
    draw = np.random.default_rng(5)
    flat = 320.0 + draw.normal(0.0, 0.1, tasks) + 0.5 * (draw.random(tasks) < 0.1)
    assert most_growth_a_task(list(flat)) <= MOST_GROWTH_MB_A_TASK
    assert most_growth_a_task(list(flat + 0.22 * np.arange(tasks))) > MOST_GROWTH_MB_A_TASK
    assert most_growth_a_task(list(flat + 0.06 * np.arange(tasks))) > MOST_GROWTH_MB_A_TASK
    fallen = flat - 2.5 * (np.arange(tasks) >= tasks // 2)
    assert most_growth_a_task(list(fallen)) <= MOST_GROWTH_MB_A_TASK
    assert most_growth_a_task(list(fallen + 0.06 * np.arange(tasks))) > MOST_GROWTH_MB_A_TASK


@pytest.mark.long
def test_no_task_is_lost_or_paid_twice_and_memory_is_flat(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    plan = steps(TASKS)
    # A budget for exactly these tasks: the last would be refused if one before it had been paid for twice.
    write_consortium(tmp_path, MEMBERS, tuple(step.task for step in plan), Budget(TASKS * PRICE, 1e-5), DEADLINES)
    began, megabytes = time.monotonic(), list[float]()
    with running(tmp_path) as consortium:
        for number, step in enumerate(plan, 1):
            next_at = time.monotonic() + SECONDS_A_TASK
            run_step(consortium, step)
            resident = resident_mb(consortium)
            megabytes.append(resident[consortium.names[-1]])
            print(
                f"task {number}, {time.monotonic() - began:.0f} s, killed {step.killed}, resident MB {resident}",
                flush=True,
            )
            if number < TASKS:
                time.sleep(max(0.0, next_at - time.monotonic()))
        members = members_of(consortium)
    for member in members:
        assert {state_at(member, step.task) for step in plan} == {"finished"}
        assert member.account(member.agreement()).spent().epsilon == TASKS * PRICE
    for step in plan:
        paths = [member.folder / "results" / step.task.name / "model.sudare" for member in members]
        assert len({audited(read(path)).content.digest() for path in paths}) == 1
    measured = megabytes[WARM_UP_TASKS:]
    if len(measured) < LEAST_MEASURED_TASKS:
        return
    growth = most_growth_a_task(measured)
    print(
        f"{TASKS} tasks, {sum(step.killed is not None for step in plan)} kills, {time.monotonic() - began:.0f} s; growth of {names_of(MEMBERS)[-1]} at most {growth:.4f} MB a task"
    )
    assert growth <= MOST_GROWTH_MB_A_TASK

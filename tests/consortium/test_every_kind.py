"""Tasks of every kind on both transports: nodes in one process, and nodes in processes of their own with FLARE between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sudare.consortium import (
    CensusTask,
    Deadlines,
    DictionaryTask,
    LearningTask,
    Member,
    ModelsTask,
    ScalerTask,
    Task,
)
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node_control_files import ask_running_node, states_of
from sudare.privacy.release import audited, read
from sudare.schema import Schema
from tests.consortium.clinics import IDENTITIES, NAMES, SCHEMA, founded, node_of, patients, run_together
from tests.consortium.local_transport import LocalHub
from tests.e2e.test_walkthrough import free_port

PASSPHRASE = "only for these tests"
NUMBERS = Schema({name: SCHEMA.columns[name] for name in ("age", "pressure", "ill")})
TASKS: tuple[Task, ...] = (
    CensusTask("census", ("age",), 2.0),
    ModelsTask("models", "PrivateLogisticRegression", 1.0),
    DictionaryTask("patterns", 2, True, parameters={"family": "diagonal_gaussian", "search": False, "max_iter": 3}),
    LearningTask("risk", "one-sum", 1.0),
    LearningTask("shapes", "boosting", 1.0, 1e-6, parameters={"max_bins": 4}),
    LearningTask("units", "network", 1.0, 1e-6, parameters={"hidden_layer_sizes": (4,)}),
    ScalerTask("scales", 1.0),
    DictionaryTask("wear", 2, epsilon=1.0, delta=1e-6, parameters={"private_iterations": 2}),
)
COST = 8.0


def clinics(folder: Path) -> list[Member]:
    tables = [patients(seed, rows=150).drop(columns="smoker") for seed in range(3)]
    # On a busy machine threads are silent for longer than a usual deadline.
    return founded(folder, *TASKS, schema=NUMBERS, tables=tables, deadlines=Deadlines(300.0, 900.0))


@contextmanager
def one_process(members: list[Member], folder: Path) -> Iterator[Callable[[str], None]]:
    """Runs tasks between threads."""

    def run(task: str) -> None:
        hub = LocalHub()
        run_together([node_of(member, hub) for member in members], [task], most_seconds=600.0)

    yield run


@contextmanager
def flare(members: list[Member], folder: Path) -> Iterator[Callable[[str], None]]:
    """Runs tasks between three nodes that were started once, and a relay."""
    pytest.importorskip("nvflare")
    for member in members:
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        text = (member.folder / "member.toml").read_text()
        (member.folder / "member.toml").write_text(text + "\n[policy]\napproval = []\n")
    write_kits(folder / "kits", "localhost", NAMES)
    address = f"localhost:{free_port()}"
    sudare = [sys.executable, "-c", "from sudare.cli.main import app; app()"]
    programs = [[*sudare, "relay", "--kit", str(folder / "kits/relay"), "--listen", address]]
    for member in members:
        place = ["--member", str(member.folder / "member.toml"), "--kit", str(folder / "kits" / member.name)]
        programs.append([*sudare, "node", *place, "--relay", address])
    environment = {**os.environ, "SUDARE_PASSPHRASE": PASSPHRASE}
    with open(folder / "processes.log", "wb") as log:
        running = [subprocess.Popen(program, env=environment, stdout=log, stderr=log) for program in programs]
    try:
        yield lambda task: ask_running_node(members[0], task)
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


TRANSPORTS = pytest.mark.parametrize(
    "transport", [pytest.param(one_process, id="local"), pytest.param(flare, id="flare", marks=pytest.mark.long)]
)


@TRANSPORTS
def test_tasks_of_every_kind_end_with_the_same_at_every_member(transport: Callable, tmp_path: Path) -> None:
    members = clinics(tmp_path)
    with transport(members, tmp_path) as run:
        for task in TASKS:
            run(task.name)
            end = time.monotonic() + 600.0
            while not all(
                states_of(member).get(task.name, {}).get("state") in ("finished", "failed") for member in members
            ):
                assert time.monotonic() < end, (tmp_path / "processes.log").read_text()
                time.sleep(0.2)
            outcomes = [states_of(member)[task.name] for member in members]
            assert [each["state"] for each in outcomes] == ["finished"] * 3, outcomes
    results = [member.folder / "results" for member in members]
    for name in ("risk/model.sudare", "shapes/model.sudare", "units/model.sudare", "scales/scaler.sudare"):
        assert len({audited(read(result / name)).content.digest() for result in results}) == 1
    for name in (f"{task}/{clinic}.sudare" for task in ("models", "census") for clinic in NAMES):
        assert len({(result / name).read_bytes() for result in results}) == 1
    assert len({(result / "census/census.json").read_bytes() for result in results}) == 1
    for name in ("patterns", "wear"):
        patterns = [json.loads((result / name / "dictionary.json").read_text())["patterns"] for result in results]
        assert patterns[0] == patterns[1] == patterns[2]
    assert {member.account(member.agreement()).spent().epsilon for member in members} == {COST}

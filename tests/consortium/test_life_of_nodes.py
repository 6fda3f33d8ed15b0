"""Running nodes over FLARE: the relay moves, certificates are renewed and a new version is taken, all without stopping a node."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium.agreement.amendments import Amendment, amended
from sudare.consortium.network.transport.certificates import write_kits
from sudare.consortium.node_control_files import ask_running_node, present_members, states_of
from sudare.files import write_atomically
from tests.consortium.agreement.test_amendments import proposed
from tests.consortium.clinics import IDENTITIES, NAMES, founded
from tests.consortium.processes import free_port

PROGRAM = [sys.executable, "-c", "from sudare.cli.main import app; app()"]
PASSPHRASE = "only for these tests"


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with open(folder / "output.txt", "ab") as output:
        process = subprocess.Popen([*PROGRAM, *words], cwd=folder, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool], folder: Path) -> None:
    # Of a machine that has other things to do as well.
    end = time.monotonic() + 600.0
    while not condition():
        assert time.monotonic() < end, (folder / "output.txt").read_text()
        time.sleep(0.3)


def version_of(member: Member) -> int:
    return int(json.loads((member.state_folder / "agreement.json").read_text())["version"])


@pytest.mark.long
def test_nodes_go_on_through_all_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvflare")
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    members = founded(tmp_path, LearningTask("risk", "one-sum", 1.0), names=NAMES[:2])
    addresses = [f"localhost:{free_port()}" for _ in range(2)]
    for kits in ("kits", "kits-later"):
        write_kits(tmp_path / kits, "localhost", NAMES[:2], authority_path=tmp_path / "authority.key")
    for member in members:
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        settings = f'\n[policy]\napproval = []\n[transport]\nkit = "../kits/{member.name}"\nrelay = "{addresses[0]}"\n'
        with open(member.folder / "member.toml", "a") as file:
            file.write(settings)

    def all_see_each_other() -> bool:
        return all(present_members(member) == list(NAMES[:2]) for member in members)

    with (
        running(tmp_path, "node", "--member", "east/member.toml") as east,
        running(tmp_path, "node", "--member", "north/member.toml") as north,
    ):
        with running(tmp_path, "relay", "--kit", "kits/relay", "--listen", addresses[0]):
            until(all_see_each_other, tmp_path)
        # The relay is gone, and comes back elsewhere, with certificates of another time.
        for member in members:
            file = member.folder / "member.toml"
            write_atomically(file, file.read_text().replace(addresses[0], addresses[1]).encode())
        with running(tmp_path, "relay", "--kit", "kits-later/relay", "--listen", addresses[1]):
            until(lambda: (tmp_path / "output.txt").read_text().count(f"connecting to {addresses[1]}") >= 2, tmp_path)
            until(all_see_each_other, tmp_path)
            for name in ("client.crt", "client.key"):
                shutil.copy(tmp_path / f"kits-later/north/startup/{name}", tmp_path / f"kits/north/startup/{name}")
            until(lambda: (tmp_path / "output.txt").read_text().count("settings or certificates") >= 3, tmp_path)
            until(all_see_each_other, tmp_path)
            ask_running_node(members[0], "risk")
            until(lambda: all(states_of(each).get("risk", {}).get("state") == "finished" for each in members), tmp_path)
            following = amended(members[0].agreement(), members[0].statements(), Amendment())
            proposed(members[0].agreement_path, following, {name: IDENTITIES[name] for name in NAMES[:2]})
            until(lambda: [version_of(member) for member in members] == [2, 2], tmp_path)
            until(all_see_each_other, tmp_path)
            ask_running_node(members[0], "risk")
            until(lambda: all(states_of(each).get("risk", {}).get("state") == "finished" for each in members), tmp_path)
        assert (east.poll(), north.poll()) == (None, None)
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [2.0, 2.0]


@pytest.mark.long
def test_with_two_relays_a_task_goes_on_when_one_is_lost_and_all_meet_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvflare")
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    monkeypatch.setenv("SUDARE_PASSPHRASE", PASSPHRASE)
    tasks = [LearningTask(name, "one-sum", 1.0) for name in ("first", "second", "third")]
    members = founded(tmp_path, *tasks, names=NAMES[:2])
    addresses = [f"localhost:{free_port()}" for _ in range(2)]
    write_kits(tmp_path / "kits", "localhost", NAMES[:2])
    for member in members:
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        relays = f'relay = "{addresses[0]}"\nother_relays = ["{addresses[1]}"]'
        with open(member.folder / "member.toml", "a") as file:
            file.write(f'\n[policy]\napproval = []\n[transport]\nkit = "../kits/{member.name}"\n{relays}\n')

    def finished(task: str) -> Callable[[], bool]:
        return lambda: all(states_of(each).get(task, {}).get("state") == "finished" for each in members)

    def connections(address: str) -> int:
        return (tmp_path / "output.txt").read_text().count(f"connecting to {address}")

    with (
        running(tmp_path, "node", "--member", "east/member.toml") as east,
        running(tmp_path, "node", "--member", "north/member.toml") as north,
        running(tmp_path, "relay", "--kit", "kits/relay", "--listen", addresses[1]),
    ):
        with running(tmp_path, "relay", "--kit", "kits/relay", "--listen", addresses[0]):
            ask_running_node(members[0], "first")
            until(finished("first"), tmp_path)
            ask_running_node(members[1], "second")
        # The first relay is gone in the middle of a task, which ends at the other one.
        until(finished("second"), tmp_path)
        assert [connections(address) for address in addresses] == [2, 2]
        with running(tmp_path, "relay", "--kit", "kits/relay", "--listen", addresses[0]):
            until(lambda: connections(addresses[0]) == 4, tmp_path)
            ask_running_node(members[0], "third")
            until(finished("third"), tmp_path)
        assert (east.poll(), north.poll()) == (None, None)
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [3.0, 3.0]

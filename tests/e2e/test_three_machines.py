"""The page about three machines and `deploy/compose.yaml`: their commands, run as processes; and how many there are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from sudare.consortium.agreement.member_settings import Member
from sudare.privacy.release import audited, read
from tests.consortium.clinics import SCHEMA, patients
from tests.e2e.test_walkthrough import CLINICS, free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE, COMPOSE = ROOT / "docs/three-machines.md", ROOT / "deploy/compose.yaml"
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "SUDARE_PASSPHRASE": "only for this test",
}


def commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def compose() -> dict[str, Any]:
    """The file as Compose reads it: keys that are merged in are overridden by the service's own."""
    return yaml.safe_load(COMPOSE.read_text("utf-8"))  # type: ignore[no-any-return]


def test_there_are_at_most_twelve_commands() -> None:
    assert len(commands()) <= 12
    assert all(command.startswith("sudare ") for command in commands())


def test_the_compose_file_is_whole_and_names_nothing_of_a_private_place() -> None:
    document = compose()
    services = document["services"]
    assert set(services) == {"folder", "prepare", "relay", *CLINICS}
    for name, service in services.items():
        assert service["build"] == {"context": "..", "dockerfile": "deploy/Containerfile"}
        assert service["read_only"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        # What it means to depend on a service that has ended differs from compose to compose: podman-compose starts all at once, or nothing.
        assert "depends_on" not in service
        assert [each.split(":")[0] for each in service["volumes"]] == list(document["volumes"])
        assert "user" not in service or name == "folder"
        assert "ports" not in service
    for clinic in CLINICS:
        assert clinic in " ".join(services[clinic]["command"])
    # Whatever order a compose starts them in: nothing is read before all of it is there.
    for name in ("relay", *CLINICS):
        assert services[name]["command"][0].startswith("until test -e ready; ")
    assert services["prepare"]["command"][0].startswith("until test -w .; ")
    assert services["prepare"]["command"][0].endswith("touch ready\n")
    assert (ROOT / "deploy/Containerfile").is_file()


@contextmanager
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended afterwards, each by its id."""
    running: list[subprocess.Popen[str]] = []
    try:
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()


def started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def done(words: list[str], folder: Path) -> None:
    outcome = subprocess.run(
        words, check=False, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert outcome.returncode == 0, (words, outcome.stdout, outcome.stderr)


def check_results(folders: dict[str, Path]) -> None:
    """One model at all three, paid for at each."""
    releases = [audited(read(folder / "results/risk/model.sudare")) for folder in folders.values()]
    assert len({release.content.digest() for release in releases}) == 1
    assert len({release.receipt.ledger for release in releases}) == 3
    for folder in folders.values():
        member = Member.load(folder / "member.toml")
        assert member.account(member.agreement()).spent().epsilon == 1.0


def run_all(orders: list[tuple[list[str], Path]], running: list[subprocess.Popen[str]]) -> None:
    members = [started(words, folder) for words, folder in orders]
    running += members
    ended_well(members)


def ended_well(members: list[subprocess.Popen[str]]) -> None:
    for process in members:
        said, _ = process.communicate(timeout=500)
        assert process.returncode == 0, said


@pytest.mark.long
def test_the_commands_of_the_page_lead_to_one_model(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    shared, machines = tmp_path / "shared", {name: tmp_path / f"machine-{name}" for name in CLINICS}
    shared.mkdir()
    SCHEMA.save(shared / "patients.toml")
    for seed, folder in enumerate(machines.values()):
        folder.mkdir()
        (folder / "shared").symlink_to(shared)
        patients(seed).to_csv(folder / "patients.csv", index=False)
    port, orders = free_port(), []
    with ended() as running:
        for command in commands():
            words = shlex.split(command.replace("relay.example", "localhost").replace("8102", str(port)))
            owner = next((name for name in CLINICS if re.search(rf"\b{name}\b", command)), "east")
            if words[-1] == "&":
                running.append(started(words[:-1], machines[owner]))
                time.sleep(2.0)
            elif words[1] == "run":
                orders.append((words, machines[owner]))
            else:
                done(words, machines[owner])
        run_all(orders, running)
    check_results({name: folder / name for name, folder in machines.items()})


@pytest.mark.long
def test_what_the_containers_run_leads_to_one_model(tmp_path: Path) -> None:
    """The commands of the compose file, as processes in one folder: containers are not to be had everywhere.

    Members and relay are there before anything is prepared, as where a compose starts all services at once.
    """
    pytest.importorskip("nvflare")
    services, port = compose()["services"], free_port()

    def words_of(name: str) -> list[str]:
        words = [*services[name]["entrypoint"], *services[name]["command"]]
        plain = [word.replace("$$", "$").replace("relay:8102", f"localhost:{port}") for word in words]
        return [word.replace("--host relay", "--host localhost") for word in plain]

    with ended() as running:
        members = [started(words_of(name), tmp_path) for name in CLINICS]
        running += [*members, started(words_of("relay"), tmp_path)]
        time.sleep(2.0)
        assert [process.poll() for process in running] == [None] * 4
        done(words_of("prepare"), tmp_path)
        done(words_of("prepare"), tmp_path)
        ended_well(members)
    check_results({name: tmp_path / name for name in CLINICS})


@pytest.mark.long
def test_the_containers_lead_to_one_model(tmp_path: Path) -> None:
    """The compose file as it stands, by the command in SUDARE_COMPOSE (`docker compose`, `docker-compose`): an image that is not there is built."""
    words = shlex.split(os.environ.get("SUDARE_COMPOSE", ""))
    if not words:
        pytest.skip("SUDARE_COMPOSE names no command that runs compose files")
    ours = [*words, "--file", str(COMPOSE), "--project-name", "sudare-test"]

    def said(*more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*ours, *more], check=False, capture_output=True, timeout=1800)

    def in_volume(*program: str) -> subprocess.CompletedProcess[bytes]:
        return said("run", "--rm", "--no-deps", "-T", "--entrypoint", program[0], "prepare", *program[1:])

    try:
        begun = said("up", "--detach")
        assert begun.returncode == 0, begun.stderr.decode()
        releases = []
        for clinic in CLINICS:
            held, end = tmp_path / f"{clinic}.sudare", time.monotonic() + 300.0
            while (found := in_volume("cat", f"{clinic}/results/risk/model.sudare")).returncode != 0:
                assert time.monotonic() < end, said("logs", clinic).stdout.decode()
                time.sleep(2.0)
            held.write_bytes(found.stdout)
            releases.append(audited(read(held)))
            budget = in_volume("sudare", "budget", "show", "--ledger", f"{clinic}/ledger.db", "--json")
            assert budget.returncode == 0, budget.stderr.decode()
            assert b'"epsilon": 1.0' in budget.stdout, budget.stdout
        assert len({release.content.digest() for release in releases}) == 1
        assert len({release.receipt.ledger for release in releases}) == 3
    finally:
        said("down", "--volumes")

"""Members of earlier versions of sudare, built from their commits, together with members of this one: it works, or it is refused and nothing is lost."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from sudare.consortium import LearningTask, Member
from sudare.consortium.network.transport.certificates import write_kits
from sudare.privacy.release import audited, read
from tests.consortium.clinics import IDENTITIES, NAMES, founded
from tests.consortium.processes import ROOT, free_port

# The last commit before this version's agreements and events, of the same protocol; and the last one that speaks protocol 2.
SAME_PROTOCOL, PROTOCOL_2 = "f7e2303a", "07ca9e4a"
PROGRAM = [sys.executable, "-c", "from sudare.cli.main import app; app()"]
PASSPHRASE = "only for these tests"
MEMBERS = NAMES[:2]


def earlier_source(commit: str, folder: Path) -> Path:
    """The source of an earlier version, in a folder of its own."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.skip("earlier commits are not in this checkout")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def started(source: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(source), "SUDARE_PASSPHRASE": PASSPHRASE, "SUDARE_LANG": "en"}
    return subprocess.Popen(
        [*PROGRAM, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run_words(name: str, address: str, seconds: int) -> tuple[str, ...]:
    place = ("--member", f"{name}/member.toml", "--kit", f"kits/{name}", "--relay", address)
    return ("run", "risk", *place, "--wait-seconds", str(seconds))


def consortium(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Member]:
    monkeypatch.setattr("sudare.consortium.agreement.identity._SCRYPT_COST", 16)
    members = founded(folder, LearningTask("risk", "one-sum", 1.0), names=MEMBERS)
    for member in members:
        IDENTITIES[member.name].save(member.key_path, PASSPHRASE.encode())
        with open(member.folder / "member.toml", "a") as file:
            file.write("\n[policy]\napproval = []\n")
    write_kits(folder / "kits", "localhost", MEMBERS)
    return members


def outcomes(folder: Path, sources: dict[str, Path], seconds: int) -> dict[str, tuple[int, str]]:
    """Exit code and words of each member's run, with a relay of this version."""
    address = f"localhost:{free_port()}"
    relay = started(ROOT / "src", folder, "relay", "--kit", "kits/relay", "--listen", address)
    time.sleep(3.0)
    running = {name: started(source, folder, *run_words(name, address, seconds)) for name, source in sources.items()}
    try:
        said = {name: process.communicate(timeout=280)[0] for name, process in running.items()}
    finally:
        for process in (relay, *running.values()):
            process.kill()
            process.wait()
    return {name: (process.returncode, said[name]) for name, process in running.items()}


def check_one_model(members: list[Member]) -> None:
    releases = [audited(read(member.folder / "results/risk/model.sudare")) for member in members]
    assert len({release.content.digest() for release in releases}) == 1
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [1.0, 1.0]


@pytest.mark.long
def test_a_member_of_the_last_version_with_the_same_protocol_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvflare")
    earlier = earlier_source(SAME_PROTOCOL, tmp_path / "earlier")
    members = consortium(tmp_path, monkeypatch)
    found = outcomes(tmp_path, {"east": ROOT / "src", "north": earlier}, 200)
    assert [code for code, _ in found.values()] == [0, 0], found
    check_one_model(members)


@pytest.mark.long
def test_a_member_with_an_earlier_protocol_is_named_and_after_its_upgrade_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvflare")
    earlier = earlier_source(PROTOCOL_2, tmp_path / "earlier")
    members = consortium(tmp_path, monkeypatch)
    found = outcomes(tmp_path, {"east": ROOT / "src", "north": earlier}, 30)
    assert all(code != 0 for code, _ in found.values()), found
    assert "north" in found["east"][1]
    assert "protocol" in found["east"][1], found["east"][1]
    assert [member.account(member.agreement()).spent().epsilon for member in members] == [0.0, 0.0]
    found = outcomes(tmp_path, dict.fromkeys(MEMBERS, ROOT / "src"), 200)
    assert [code for code, _ in found.values()] == [0, 0], found
    check_one_model(members)

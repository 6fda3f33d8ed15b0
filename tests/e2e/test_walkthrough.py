"""The walkthrough in the documentation, command by command: three clinics in folders and processes of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.node_control_files import states_of
from sudare.privacy.release import audited, read

PAGE = Path(__file__).resolve().parents[2] / "docs" / "walkthrough.md"
CLINICS = ("east", "north", "west")


def commands() -> list[str]:
    return re.findall(r"```bash\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def usage() -> str:
    """How the page says that the model is used."""
    (found,) = re.findall(r"```text\n(import pandas.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return str(found)


def printed() -> list[str]:
    """What the page says that commands print, but for keys, which are new each time."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lines = [line for block in blocks if "import" not in block for line in block.splitlines()]
    return [line for line in lines if line != "…" and not line.startswith("Key ")]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def test_the_walkthrough_has_at_most_ten_commands() -> None:
    assert 5 <= len(commands()) <= 10


@pytest.mark.long
def test_walkthrough(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    port = str(free_port())
    script = "\n".join(
        ["set -e", *(command.replace("8102", port) for command in commands()), "wait %2 %3 || true", "kill %1"]
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    log = tmp_path / "output.txt"
    with log.open("w") as stream:
        process = subprocess.Popen(
            ["bash", "-m", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        process.wait(timeout=850)
    finally:
        end_everything_of(process)
    output = log.read_text("utf-8")
    assert "ε = 1" in output or "ε 1" in output, output
    members = [Member.load(tmp_path / name / "member.toml") for name in CLINICS]
    assert [states_of(member)["risk"]["state"] for member in members] == ["finished"] * 3, output
    releases = [audited(read(tmp_path / name / "results/risk/model.sudare")) for name in CLINICS]
    assert len({release.content.digest() for release in releases}) == 1
    assert len({release.receipt.ledger for release in releases}) == 3
    for member in members:
        assert member.account(member.agreement()).spent().epsilon == 1.0
    used = subprocess.run([sys.executable, "-c", usage()], cwd=tmp_path, capture_output=True, text=True, check=True)
    # Random guessing is right for half of the patients; 500 of them make .65 seven standard deviations away from that.
    assert float(used.stdout) > 0.65
    for line in printed():
        assert line in output, line


def end_everything_of(process: subprocess.Popen[bytes]) -> None:
    """Whatever the script started in the background, by the session that it began."""
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        alive = [
            int(entry) for entry in os.listdir("/proc") if entry.isdigit() and session_of(int(entry)) == process.pid
        ]
        for number in alive:
            try:
                os.kill(number, wanted)
            except ProcessLookupError:
                continue
        time.sleep(0.2 if alive else 0.0)


def session_of(process: int) -> int | None:
    try:
        return os.getsid(process)
    except OSError:
        return None

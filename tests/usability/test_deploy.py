"""What IT gets to run a node with says what the commands take, shuts what can be shut, and holds no secret."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from sudare.cli.main import app
from sudare.errors import every_error
from tests.cli.conftest import command_tree

ROOT = Path(__file__).resolve().parents[2]
UNIT = (ROOT / "deploy" / "sudare-node.service").read_text("utf-8")
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text("utf-8")


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def check_command(words: list[str]) -> None:
    """The words are a command of ours with options that it has."""
    command = command_tree(app).commands[words[0]]  # type: ignore[attr-defined]
    known = {written for parameter in command.params for written in parameter.opts}
    options = {word for word in words[1:] if word.startswith("--")}
    assert options <= known


def test_the_unit_starts_a_command_there_is() -> None:
    (start,) = settings("ExecStart")
    program, *words = start.split()
    assert program.endswith("/sudare")
    check_command(words)
    (folder,) = re.findall(r"--member (\S+)/member.toml", start)
    # Ledger, state and results lie beside the member file, and nothing else can be written.
    assert folder == f"/var/lib/{settings('StateDirectory')[0]}" == settings("WorkingDirectory")[0]
    (port,) = re.findall(r"--health-port (\d+)", start)
    assert settings("SocketBindAllow") == [f"ipv4:tcp:{port}"]


def test_the_unit_does_not_repeat_what_only_a_person_can_settle() -> None:
    names = {error.exit_code: error.__name__ for error in every_error()}
    (codes,) = settings("RestartPreventExitStatus")
    assert {names[int(code)] for code in codes.split()} == {
        "LedgerCorrupt", "LedgerRolledBack", "LedgerVersion", "LedgerMissing",
        "AgreementError", "AgreementMismatch", "IdentityError", "KeyRevoked",
    }  # fmt: skip
    assert settings("Restart") == ["on-failure"]


def test_the_unit_is_shut() -> None:
    for name, value in {
        "ProtectSystem": "strict", "ProtectHome": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "",
        "SocketBindDeny": "any", "UMask": "0077", "LimitCORE": "0", "MemorySwapMax": "0", "PrivateTmp": "yes",
        "SystemCallArchitectures": "native", "SystemCallErrorNumber": "EPERM", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    }.items():  # fmt: skip
        assert settings(name) == [value], name
    assert settings("User") == ["sudare"]
    assert all("PASSPHRASE=" not in line for line in settings("Environment"))


def test_the_container_starts_a_command_there_is_as_nobody_special() -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", CONTAINER, re.MULTILINE)
    (command,) = re.findall(r"^CMD (\[.*\])$", CONTAINER, re.MULTILINE)
    assert json.loads(entry) == ["sudare"]
    check_command(json.loads(command))
    last_stage = CONTAINER.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\d+):\d+$", last_stage, re.MULTILINE)
    assert int(user) > 0
    # Nothing comes from a package index but what was checked by its hash.
    commands = re.findall(r"pip .*?\b(?:install|wheel|download)\b[^\n]*", CONTAINER)
    assert len(commands) >= 2
    assert all("--require-hashes" in each or "--no-index" in each for each in commands)
    assert "ADD " not in CONTAINER
    assert not re.search(r"SUDARE_PASSPHRASE=", CONTAINER)


def test_the_package_is_whole_where_it_is_built_of_what_the_container_copies(tmp_path: Path) -> None:
    """The files that are copied are there, and of them alone comes a package with every file of the source and every proof."""
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINER, re.MULTILINE)
    names = [name for each in copied for name in each.split()]
    assert {"requirements.lock", "pyproject.toml", "src"} <= set(names)
    (tmp_path / "source").mkdir()
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / "source")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=tmp_path / "source", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    source = {path.relative_to(ROOT / "src").as_posix() for path in files_below(ROOT / "src/sudare")}
    proofs = {
        f"sudare/dossier/proofs/{path.relative_to(ROOT / 'proofs').as_posix()}" for path in files_below(ROOT / "proofs")
    }
    assert len(source) > 300
    assert source | proofs <= held


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_what_builds_packages_from_source_is_checked_by_its_hash_too() -> None:
    tools = (ROOT / "deploy/build-tools.lock").read_text("utf-8")
    assert re.findall(r"^(\S+==\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", tools, re.MULTILINE)
    assert CONTAINER.count("--require-hashes") == len(re.findall(r"-r \S+\.lock", CONTAINER)) == 2
    assert "--no-build-isolation" in CONTAINER

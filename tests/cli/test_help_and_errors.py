"""Every command and option explains itself; every error ends as its class says; nothing private is printed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from sudare.cli.fit import FITTED
from sudare.cli.main import app
from sudare.consortium import Agreement, Identity
from sudare.errors import AgreementMismatch, SudareError, every_error
from tests.cli.conftest import FIT_MEAN, Sudare, command_tree
from tests.consortium.documents import DOCUMENT

ROOT = Path(__file__).resolve().parents[2]


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


ALL = list(commands(command_tree(app), ("sudare",)))
# Groups that only hold commands; `budget` alone shows.
BARE_GROUPS = {
    ("sudare",),
    ("sudare", "fit"),
    ("sudare", "schema"),
    ("sudare", "key"),
    ("sudare", "consortium"),
    ("sudare", "risk"),
    ("sudare", "request"),
}

# These run until they are stopped, and have no answer.
SERVICES = {("sudare", "node"), ("sudare", "relay")}


def test_the_commands_there_are() -> None:
    found = {" ".join(path[1:]) for path, _ in ALL}
    budget = {f"budget {name}" for name in ("show", "raise", "close", "verify", "export", "backup", "head", "restore")}
    key = {"key", *(f"key {name}" for name in ("new", "show", "rotate", "revoke"))}
    consortium = {
        "consortium",
        *(
            f"consortium {name}"
            for name in ("new", "join", "sign", "check", "amend", "adopt", "history", "blame", "report", "compare")
        ),
    }
    request = {"request", *(f"request {name}" for name in ("ask", "change", "list", "show", "approve", "deny", "run"))}
    fits = {f"fit {name}" for name in FITTED}
    assert found == {
        *fits, *request, "", "demo", "schema", "schema draft", "schema check", "fit", "inspect", "report", "budget", "audit", "risk", "risk sums", "risk chunks", "study", *budget,
        "perturb", "reconstruct", "crosstab", "synthesize", "sample", "predict", "combine", "export", *key, *consortium, "status", "approve", "deny",
        "node", "run", "score", "show", "relay", "relay kits", "relay transcripts", "explain", "page", "page password",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "command"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_everything_has_help(path: tuple[str, ...], command: Any) -> None:
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), (path, parameter.name)


@pytest.mark.parametrize(
    ("path", "command"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_help_is_shown(path: tuple[str, ...], command: Any, sudare: Sudare) -> None:
    shown = sudare(*path[1:], "--help")
    assert shown.exit_code == 0
    for parameter in command.params:
        for written in parameter.opts:
            assert (written if written.startswith("-") else parameter.metavar or written.upper()) in shown.stdout


@pytest.mark.parametrize(
    ("path", "command"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_can_answer_in_json(path: tuple[str, ...], command: Any) -> None:
    if path not in BARE_GROUPS | SERVICES:
        assert "--json" in {written for parameter in command.params for written in parameter.opts}


def test_what_spends_or_changes_can_be_rehearsed() -> None:
    rehearsed = {path[1:] for path, command in ALL if "--dry-run" in {o for p in command.params for o in p.opts}}
    consortium = {("consortium", name) for name in ("new", "join", "sign", "check", "amend", "adopt")}
    request = {("request", name) for name in ("ask", "change", "approve", "deny", "run")}
    assert rehearsed == {
        *request, *(("fit", name) for name in FITTED), ("perturb",), ("synthesize",), ("budget", "raise"), ("budget", "close"), ("budget", "restore"), ("key", "rotate"), ("key", "revoke"),
        *consortium, ("approve",), ("deny",), ("score",), ("schema", "draft"), ("page",),
    }  # fmt: skip


# One name, one meaning: these stand for the same thing wherever they are, and come from the same variable.
@pytest.mark.parametrize(
    ("option", "variable"),
    [("--key", "SUDARE_KEY"), ("--member", "SUDARE_MEMBER"), ("--trusted", None)],
)
def test_an_option_is_the_same_in_every_command(option: str, variable: str | None) -> None:
    found = {
        path[1:]: (parameter.envvar, parameter.help)
        for path, command in ALL
        for parameter in command.params
        if option in parameter.opts
    }
    assert len(found) > 2
    assert len(set(found.values())) == 1, found
    assert {envvar for envvar, _ in found.values()} == {variable}


@pytest.fixture(scope="module")
def generated_page() -> str:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page: str = hooks.command_line_page()
    return page


def test_everything_is_documented(generated_page: str) -> None:
    for path, command in ALL:
        heading = f"`{' '.join(path)}`"
        assert heading in generated_page
        section = generated_page.partition(f"# {heading}\n")[2].partition("\n## ")[0]
        for parameter in command.params:
            assert " ".join(parameter.help.split()).replace("|", "\\|") in section, (path, parameter.name)


def test_version(sudare: Sudare) -> None:
    assert sudare("--version").stdout == version("sudare") + "\n"


def test_errors_have_exit_codes_of_their_own(house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    from sudare.privacy import Ledger

    for error in every_error():

        def fail(*arguments: object, kind: type[SudareError] = error, **options: object) -> None:
            raise kind("What was wrong.", "What to do.")

        monkeypatch.setattr(Ledger, "__init__", fail)
        told = sudare("budget")
        assert told.exit_code == error.exit_code
        assert told.stdout == ""
        assert f"{error.__name__}: What was wrong. What to do." in told.stderr
        assert "see `sudare explain" in told.stderr
        as_json = sudare("budget", "--json")
        assert as_json.exit_code == error.exit_code
        assert as_json.values["error"]["name"] == error.__name__
        assert as_json.values["error"]["exit_code"] == error.exit_code
        assert as_json.stderr == ""


def test_an_unexpected_error_shows_no_value(house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        private_value = "record 42"
        raise RuntimeError(private_value)

    monkeypatch.delenv("SUDARE_TRACEBACK", raising=False)
    monkeypatch.setattr("sudare.statistics.PrivateMean.fit", fail)
    told = sudare(*FIT_MEAN, "-o", "new.sudare", "--key", "key.pem")
    assert told.exit_code == 1
    assert "RuntimeError: unexpected, in test_help_and_errors.py line" in told.stderr
    assert "record 42" not in told.stderr + told.stdout
    as_json = sudare(*FIT_MEAN, "-o", "new.sudare", "--key", "key.pem", "--json")
    assert "record 42" not in as_json.stdout + as_json.stderr
    assert as_json.values["error"]["name"] == "RuntimeError"


def test_a_traceback_must_be_asked_for(house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("sudare.statistics.PrivateMean.fit", fail)
    monkeypatch.setenv("SUDARE_TRACEBACK", "1")
    assert "Traceback" in sudare(*FIT_MEAN, "-o", "new.sudare", "--key", "key.pem").stderr


LIGHT_AND_WINDOWLESS = """
import sys
import sudare.cli.main
assert not {'sklearn', 'opendp', 'pandas', 'matplotlib'} & set(sys.modules)
import sudare.report
assert 'matplotlib.pyplot' not in sys.modules
"""


def test_help_loads_nothing_heavy_and_reports_open_no_window() -> None:
    subprocess.run([sys.executable, "-c", LIGHT_AND_WINDOWLESS], check=True)


CHECKED = """
import sys
from typer.testing import CliRunner
from sudare.cli.fit import FITTED
from sudare.cli.main import app
result = CliRunner().invoke(app, ["consortium", "check", "agreement.toml"])
print(result.exit_code, *sorted({'sklearn', 'opendp', 'pandas', 'matplotlib', 'numba', 'scipy.stats', 'nvflare', 'jax'} & set(sys.modules)))
"""


def test_checking_an_agreement_loads_no_learner(tmp_path: Path) -> None:
    """It took two and a half seconds, of which the learners that the tasks name took most."""
    document = {**DOCUMENT, "tasks": {name: {**task} for name, task in DOCUMENT["tasks"].items()}}
    document["tasks"]["patterns"].pop("parameters")
    members = {
        name: {**member, "key": Identity.generated().public_key.hex()} for name, member in DOCUMENT["members"].items()
    }
    Agreement.from_dict({**document, "members": members}).save(tmp_path / "agreement.toml")
    run = subprocess.run([sys.executable, "-c", CHECKED], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert run.stdout.split() == [str(AgreementMismatch.exit_code)]


def test_a_real_process_answers_in_json_and_exit_codes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from sudare.cli.main import app; app()", "study", "nothing", "--json"]
    refused = subprocess.run(command, check=False, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path)
    assert refused.returncode == 72
    assert json.loads(refused.stdout)["error"]["name"] == "UnknownName"
    assert refused.stderr == ""
    assert list(tmp_path.iterdir()) == []

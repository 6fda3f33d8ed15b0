"""What every test shares: how hypothesis searches, which skips are expected, and where coverage counts.

A skip is a test that nobody ran. Every skip and every expected failure must be listed in `tests/expected_skips.toml`
with the circumstances in which it is all right; one that is not listed fails the session, and the summary names it.
"""

from __future__ import annotations

import fnmatch
import gc
import importlib
import importlib.util
import os
import pkgutil
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent

# Tests read what commands say in English, whatever the locale of whoever runs them.
os.environ["SUDARE_LANG"] = "en"

hypothesis.settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=50,
    # Mutation testing runs the same tests several times in one process.
    suppress_health_check=[hypothesis.HealthCheck.differing_executors],
)
hypothesis.settings.register_profile("long", derandomize=False, deadline=None, max_examples=2000, print_blob=True)


@dataclass(frozen=True)
class ExpectedSkip:
    """One entry of the list: the tests it speaks of, what they say when skipped, and when that is all right."""

    test: str
    reason: str
    when: str
    why: str

    def covers(self, node_id: str, reason: str) -> bool:
        return (
            fnmatch.fnmatchcase(node_id, self.test)
            and fnmatch.fnmatchcase(reason, self.reason)
            and circumstance_holds(self.when)
        )


def circumstance_holds(when: str) -> bool:
    """Whether this machine is one on which the skip is all right; an unknown circumstance is an error in the list."""
    kind, _, name = when.partition(":")
    match kind:
        case "unset":
            return not os.environ.get(name)
        case "missing":
            return importlib.util.find_spec(name) is None
        case "absent":
            return not (ROOT / name).exists()
        case "program":
            return shutil.which(name) is None
        case "platform":
            return sys.platform.startswith(name)
        case "fails":
            return not succeeds(shlex.split(name))
        case _:
            raise pytest.UsageError(
                f"expected_skips.toml: `when` is unset:, missing:, absent:, program:, platform: or fails:, got {when!r}."
            )


def succeeds(command: list[str]) -> bool:
    """Whether a command is there and ends without an error."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def read_expected_skips(path: Path) -> list[ExpectedSkip]:
    if not path.exists():
        return []
    return [ExpectedSkip(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("skip", [])]


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What the skip or expected failure says for itself."""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)


class SkipsMustBeExpected:
    """Compares the skips of a session with the list; lives in the process that prints the summary (not in workers)."""

    def __init__(self, expected: list[ExpectedSkip]) -> None:
        self.expected = expected
        self.seen: dict[ExpectedSkip, set[str]] = {}
        self.unexpected: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.outcome != "skipped":
            return
        reason = reason_of(report)
        for entry in self.expected:
            if entry.covers(report.nodeid, reason):
                self.seen.setdefault(entry, set()).add(report.nodeid)
                return
        self.unexpected[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_sep("-", f"expected skips: {sum(map(len, self.seen.values()))}")
        for entry, node_ids in self.seen.items():
            terminalreporter.write_line(f"{len(node_ids)} × {entry.test} ({entry.when}): {entry.why}")
        if self.unexpected:
            terminalreporter.write_sep("=", f"{len(self.unexpected)} UNEXPECTED SKIPS", red=True, bold=True)
            for node_id, reason in self.unexpected.items():
                terminalreporter.write_line(f"{node_id}: {reason}", red=True)
            terminalreporter.write_line(
                "Make them run, or list them in tests/expected_skips.toml with their circumstances."
            )


# In containers it is often 64 MB, and may forbid to run what lies there.
_MEMORY = Path("/dev/shm")
_LEAST_BYTES_IN_MEMORY = 4 << 30


def folder_in_memory() -> Path | None:
    """Where the folders of tests lie without waiting for a disk; None where there is not much room, or no program could be run.

    Ledgers, states of tasks and releases wait for the disk at every step, which is a quarter of the time of their tests.
    """
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    facts = os.statvfs(_MEMORY)
    has_room = facts.f_bavail * facts.f_frsize >= _LEAST_BYTES_IN_MEMORY
    return _MEMORY if has_room and not facts.f_flag & os.ST_NOEXEC else None


def selects_long_tests(options: Mapping[str, object]) -> bool:
    return options.get("markexpr") == "long"


def measures_sudare_privacy(options: Mapping[str, object]) -> bool:
    """Whether coverage is measured, and of what pyproject.toml names: `--cov` alone, not `--cov=another.room`."""
    return options.get("cov_source") == [True]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules stay until the session ends: the garbage collector does not look for any among them, now or later.

    It did so for a third of the time that collecting takes. Later it looks seldom: what is imported by tests (JAX, matplotlib) stays, too,
    and going through it again and again took a twentieth of all time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Texts of a megabyte are named by their beginning and length: workers send a test's name several times."""
    if isinstance(val, str | bytes) and len(val) > 200:
        return f"{val[:40]!a} of {len(val)}"
    return None


class CoverageOfOwnTests:
    """Coverage of `sudare.privacy` counts while its modules are imported and in its own tests, nowhere else.

    That asks for more, since a branch that only a study happens to take is not covered. It also takes less time:
    the tracer slows down all Python code to about half its speed, whichever room it is in.
    """

    coverage: Coverage | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        measured = Coverage.current()
        if measured is None:
            return (yield)
        # A process that hands its tests to workers runs none of the measured code.
        if not session.config.pluginmanager.hasplugin("dsession"):
            for name in measured.get_option("run:source_pkgs"):
                import_with_modules(name)
            self.coverage = measured
        measured.stop()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self.coverage is None or not item.path.is_relative_to(Path(__file__).with_name("privacy")):
            return (yield)
        self.coverage.start()
        try:
            return (yield)
        finally:
            self.coverage.stop()


@pytest.fixture
def nothing_learnt_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of dictionaries end with the last sum: members learn no patterns of their own, which takes most of the time and tells nobody anything."""
    from sudare.dictionary.held_out_stacking import OwnPart

    monkeypatch.setattr("sudare.dictionary.training.stacked", lambda records, dictionary, weights: OwnPart(weights))


def import_with_modules(name: str) -> None:
    """Import a package and all modules in it, or a module."""
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
        importlib.import_module(module.name)


def pytest_configure(config: pytest.Config) -> None:
    if measures_sudare_privacy(vars(config.option)):
        config.pluginmanager.register(CoverageOfOwnTests(), "coverage-of-own-tests")
    hypothesis.settings.load_profile("long" if selects_long_tests(vars(config.option)) else "default")
    if not hasattr(config, "workerinput"):
        if place := folder_in_memory():
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))
        expected = read_expected_skips(Path(__file__).with_name("expected_skips.toml"))
        config.pluginmanager.register(SkipsMustBeExpected(expected), "skips-must-be-expected")

"""The operator's own command: run without a shell, with names only, for no longer than agreed, and without secrets."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from sudare.consortium.agreement.member_settings import NOTIFIED, Member, NotifySettings
from sudare.consortium.event_log import EVENTS, EventLog
from sudare.consortium.notifications import Notifier, run_command
from sudare.errors import AgreementError

KEEP = "import os, sys; open(sys.argv[1], 'a').write(sys.stdin.read() + repr(sorted(dict(os.environ).items())) + '\\n')"


def keeping(path: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", KEEP, str(path))


def test_the_command_is_told_of_the_events_that_were_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_PASSPHRASE", "only for these tests")
    notifier = Notifier(NotifySettings(keeping(tmp_path / "told")), "east")
    notifier.log = EventLog(io.StringIO(), "east", [notifier.hear])
    notifier.log.write("connected", peer="north")
    notifier.log.write("task-failed", task="risk", error="MembersMissing")
    notifier.close()
    notifier._thread.join(60.0)
    text, environment = (tmp_path / "told").read_text().splitlines()
    assert json.loads(text) == {"member": "east", "event": "task-failed", "task": "risk", "error": "MembersMissing"}
    assert "('SUDARE_TASK', 'risk')" in environment
    assert "PASSPHRASE" not in environment


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    bait = tmp_path / "made by a shell"
    words = (*keeping(tmp_path / "told"), f"; touch '{bait}'", f"$(touch '{bait}')", "%(task)s {task}")
    assert run_command(NotifySettings(words), "east", "task-waits", {"task": "risk"})
    assert not bait.exists()


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    child = f"import time, pathlib; pathlib.Path({str(started)!r}).write_text('yes'); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    settings = NotifySettings((sys.executable, "-c", parent), timeout_seconds=0.2)
    assert not run_command(settings, "east", "task-waits", {})


@pytest.mark.parametrize("words", [("/no/such/program",), (sys.executable, "-c", "raise SystemExit(3)")])
def test_a_command_that_fails_is_logged_and_nothing_else_happens(words: tuple[str, ...]) -> None:
    stream, notifier = io.StringIO(), Notifier(NotifySettings(words), "east")
    notifier.log = EventLog(stream, "east", [notifier.hear])
    notifier.log.write("budget-low", percent=3)
    notifier.close()
    notifier._thread.join(60.0)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "budget-low",
        "notification-failed",
    ]


TEXT = """
format = 1
name = "east"
agreement = "agreement.toml"
key = "key.pem"
ledger = "ledger.db"
[data]
source = "patients.csv"
[notify]
"""


def test_what_a_member_file_says_of_it(tmp_path: Path) -> None:
    member = Member.from_toml(TEXT + 'command = ["/usr/bin/mail", "steward"]\nevents = ["task-waits"]', tmp_path)
    assert member.notify == NotifySettings(("/usr/bin/mail", "steward"), frozenset({"task-waits"}), 30.0)
    assert Member.from_toml(TEXT + 'command = ["/bin/true"]', tmp_path).notify.events == NOTIFIED
    assert set(EVENTS) >= NOTIFIED
    for bad in (
        'command = ["mail"]',
        "command = []",
        'command = "/bin/true"',
        'command = ["/bin/true"]\nevents = ["stopped!"]',
    ):
        with pytest.raises(AgreementError, match=r"`notify\.(command|events)"):
            Member.from_toml(TEXT + bad, tmp_path)

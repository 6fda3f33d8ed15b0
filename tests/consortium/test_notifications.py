"""The operator's own command: run without a shell, with names only, for no longer than agreed, and without secrets."""

from __future__ import annotations

import io
import json
import sys
import time
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


def test_events_beyond_those_that_may_wait_hold_nobody_up_and_are_counted(tmp_path: Path) -> None:
    """The command hangs until its time is over; the node goes on at once, and the log says of which kind how many were not told."""
    slow = NotifySettings((sys.executable, "-c", "import time; time.sleep(600)"), timeout_seconds=1.0)
    stream, notifier = io.StringIO(), Notifier(slow, "east")
    notifier.log = EventLog(stream, "east", [notifier.hear])
    began = time.monotonic()
    for number in range(100):
        notifier.log.write("task-waits", task=f"task-{number}")
    notifier.log.write("budget-low", percent=3)
    assert time.monotonic() - began < 0.9

    def dropped() -> dict[str, int]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        return {each["kind"]: each["count"] for each in lines if each["event"] == "notification-dropped"}

    while not dropped():
        assert time.monotonic() - began < 60.0
        time.sleep(0.05)
    # One is with the command, and 64 wait.
    assert dropped() in ({"budget-low": 1, "task-waits": 35}, {"budget-low": 1, "task-waits": 36})
    notifier.close()
    notifier._thread.join(60.0)
    assert not notifier._thread.is_alive()


def test_what_waits_when_the_node_ends_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.consortium.notifications._LAST_WORDS_SECONDS", 0.1)
    slow = NotifySettings((sys.executable, "-c", "import time; time.sleep(600)"), timeout_seconds=2.0)
    stream, notifier = io.StringIO(), Notifier(slow, "east")
    notifier.log = EventLog(stream, "east", [notifier.hear])
    notifier.log.write("task-waits", task="risk")
    while notifier._waiting.qsize():
        time.sleep(0.01)
    for _ in range(3):
        notifier.log.write("task-failed", task="risk", error="MembersMissing")
    notifier.close()
    line = json.loads(stream.getvalue().splitlines()[-1])
    assert (line["event"], line["kind"], line["count"]) == ("notification-dropped", "task-failed", 3)


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
    # Any of the vocabulary but those about the command itself, which would tell of each other without an end.
    chosen = sorted(event for event in EVENTS if event not in ("notification-failed", "notification-dropped"))
    text = f"{TEXT}command = ['/bin/true']\nevents = {chosen}"
    assert Member.from_toml(text, tmp_path).notify.events == set(chosen)
    for bad in (
        'command = ["/bin/true"]\nevents = ["notification-failed"]',
        'command = ["/bin/true"]\nevents = ["notification-dropped"]',
        'command = ["mail"]',
        "command = []",
        'command = "/bin/true"',
        'command = ["/bin/true"]\nevents = ["stopped!"]',
    ):
        with pytest.raises(AgreementError, match=r"`notify\.(command|events)"):
            Member.from_toml(TEXT + bad, tmp_path)

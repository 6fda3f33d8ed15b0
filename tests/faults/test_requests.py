"""A run of a request killed at every step that others can see: one charge, and a file that is whole or not there."""

from __future__ import annotations

import collections
import itertools
import os
import shutil
import signal
import time
from collections.abc import Callable
from typing import Any

from sudare import Release, files
from sudare.errors import RequestError
from sudare.privacy.ledger import Ledger
from sudare.requests.approved_request_job import resume, run, start
from sudare.requests.request import Request
from sudare.requests.request_actions import decide
from sudare.requests.steward_settings import RequestSettings
from tests.ledgers import fork, quick_folder
from tests.requests.conftest import approved, asked, house


class Steps:
    """Counts what a process does that outlives it, and kills it before or after one of these."""

    def __init__(self, kill_at: int | None) -> None:
        self.kill_at, self.count = kill_at, 0

    def pass_one(self) -> None:
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.pass_one()
            result = act(*arguments, **named)
            self.pass_one()
            return result

        return counted

    def install(self) -> None:
        """From now on this process does nothing durable unseen: entries of the ledger, and files under their names."""
        Ledger._append = self.around(Ledger._append)  # type: ignore[method-assign]
        for name in ("link", "replace", "unlink"):
            setattr(files.os, name, self.around(getattr(os, name)))
        files._written_beside = self.around(files._written_beside)  # type: ignore[assignment]


def run_in_a_child(settings: RequestSettings, identity: str, kill_at: int | None) -> tuple[bool, int]:
    """Whether a child that runs the request was killed, and how many steps it passed otherwise."""
    reading, writing = os.pipe()
    child = fork()
    if not child:
        steps = Steps(kill_at)
        try:
            steps.install()
            run(settings, identity)
        finally:
            os.write(writing, str(steps.count).encode())
            os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    told = os.read(reading, 16)
    os.close(reading)
    return os.WIFSIGNALED(status), int(told or b"0")


def gone_on_with(settings: RequestSettings, identity: str) -> Request:
    """The request after it was run again, where that can be."""
    found = settings.store.request(identity)
    return found if found.state in ("done", "interrupted") else run(settings, identity)


def check_whole(settings: RequestSettings, request: Request) -> None:
    ledger = Ledger(settings.ledger, create=False)
    ledger.verify()
    account = ledger.account("visits")
    charges = [entry for entry in account.entries() if entry.kind == "charge"]
    assert len(charges) == 1
    assert account.spent().epsilon == 0.5
    assert request.outcome is not None
    assert request.outcome.epsilon == 0.5
    written = sorted(path.name for path in settings.releases_folder.glob("*") if path.suffix != ".partial")
    if request.state == "interrupted":
        assert written == []
        return
    assert request.state == "done", request.outcome
    assert written == [request.outcome.file]
    release = Release.load(settings.releases_folder / request.outcome.file, trusted=[settings.key().public_key()])
    release.check_entered(ledger)
    events = collections.Counter(entry.body["event"] for entry in account.entries() if entry.kind == "request")
    assert events == {"asked": 1, "approved": 1, "done": 1}


def test_a_run_killed_at_every_step_is_charged_once() -> None:
    found: collections.Counter[str] = collections.Counter()
    with quick_folder() as folder, quick_folder() as before:
        settings = house(folder)
        identity = approved(settings).identity
        shutil.copy(settings.ledger, before / "ledger.db")
        shutil.copytree(settings.requests_folder, before / "requests")
        for kill_at in itertools.count():
            was_killed, _ = run_in_a_child(settings, identity, kill_at)
            request = gone_on_with(settings, identity)
            check_whole(settings, request)
            found[request.state] += 1
            if not was_killed:
                break
            for written in (settings.requests_folder, settings.releases_folder):
                shutil.rmtree(written)
            shutil.copy(before / "ledger.db", settings.ledger)
            shutil.copytree(before / "requests", settings.requests_folder)
    assert found["done"] > 20, found
    # After the ledger has the digest of a result, and before the file is written, nothing can be made of the charge any more.
    assert 1 <= found["interrupted"] < found["done"], found


def test_a_run_killed_twice_is_charged_once() -> None:
    for first, second in ((5, 5), (8, 3), (3, 11)):
        with quick_folder() as folder:
            settings = house(folder)
            identity = approved(settings).identity
            run_in_a_child(settings, identity, first)
            run_in_a_child(settings, identity, second)
            check_whole(settings, gone_on_with(settings, identity))


def test_a_process_that_was_killed_is_gone_on_with_by_another() -> None:
    with quick_folder() as folder:
        settings = house(folder)
        identity = approved(settings).identity
        process = start(settings, identity)
        while settings.store.progress(identity) == "" and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.wait()
        names = resume(settings)
        assert list(names) in ([], [identity])
        request = gone_on_with(settings, identity) if not names else waited_for(settings, identity)
        check_whole(settings, request)


def waited_for(settings: RequestSettings, identity: str) -> Request:
    while True:
        found = settings.store.request(identity)
        if found.state not in ("approved", "running"):
            return found
        time.sleep(0.05)


def test_two_processes_approve_at_once_and_one_is_told() -> None:
    with quick_folder() as folder:
        settings = house(folder)
        identity = asked(settings).identity
        children = []
        for who in ("mori", "sato", "ito", "kato"):
            child = fork()
            if not child:
                status = 1
                try:
                    decide(settings, identity, 1, "approved", who=who, reason="seen")
                    status = 0
                except RequestError:
                    status = 2
                finally:
                    os._exit(status)
            children.append(child)
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(ended) == [0, 2, 2, 2]
        entries = Ledger(settings.ledger).entries()
        assert [entry.body["event"] for entry in entries if entry.kind == "request"] == ["asked", "approved"]

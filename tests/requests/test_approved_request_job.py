"""Running a request: one charge, one file, and an outcome that says what happened."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sudare import files
from sudare.errors import LedgerError, RequestError
from sudare.privacy.ledger import Ledger
from sudare.privacy.release import Release
from sudare.requests import request_store
from sudare.requests.approved_request_job import release_name, resume, run, start
from sudare.requests.request import Request
from sudare.requests.request_actions import ask, change, decide
from sudare.requests.steward_settings import RequestSettings
from tests.requests.conftest import approved, asked


def test_an_approved_request_becomes_a_signed_release(settings: RequestSettings) -> None:
    request = run(settings, approved(settings).identity)
    assert request.state == "done", request.outcome
    assert request.outcome is not None
    file = settings.releases_folder / request.outcome.file
    release = Release.load(file, trusted=[settings.key().public_key()])
    ledger = Ledger(settings.ledger, create=False)
    release.check_entered(ledger)
    assert (request.outcome.epsilon, request.outcome.delta) == (0.5, 0.0)
    assert [entry.kind for entry in ledger.account("visits").entries()] == [
        "open", "request", "request", "charge", "result", "release", "request",
    ]  # fmt: skip
    assert [entry.body["event"] for entry in ledger.entries() if entry.kind == "request"] == [
        "asked",
        "approved",
        "done",
    ]
    ledger.verify()


def test_a_request_that_nobody_approved_does_not_run(settings: RequestSettings) -> None:
    with pytest.raises(RequestError, match="is asked and cannot be run"):
        run(settings, asked(settings).identity)
    assert Ledger(settings.ledger).account("visits").spent() == (0.0, 0.0)


def test_approvals_are_those_of_the_ledger_not_those_of_the_folder(settings: RequestSettings) -> None:
    """Whoever can write to the folder of requests cannot approve."""
    request = asked(settings)
    file = settings.requests_folder / f"{request.identity}.json"
    file.write_text(file.read_text().replace('"state":"asked"', '"state":"approved"'))
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("failed", "RequestError")
    other = approved(settings)
    file = settings.requests_folder / f"{other.identity}.json"
    file.write_text(file.read_text().replace('"epsilon":["0.5"]', '"epsilon":["0.6"]'))
    assert failure(run(settings, other.identity)) == "RequestError"
    assert Ledger(settings.ledger).account("visits").spent() == (0.0, 0.0)


def edited(settings: RequestSettings, identity: str, **values: object) -> None:
    """Somebody writes to the folder of requests."""
    file = settings.requests_folder / f"{identity}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def spent(settings: RequestSettings) -> float:
    return Ledger(settings.ledger).account("visits").spent().epsilon


def approved_by_two(settings: RequestSettings) -> str:
    request = asked(settings)
    for who in ("mori", "sato"):
        decide(settings, request.identity, 1, "approved", who=who, reason="seen")
    return request.identity


def test_how_many_approve_is_what_the_settings_say(with_two_people: RequestSettings) -> None:
    settings = with_two_people
    request = asked(settings)
    decide(settings, request.identity, 1, "approved", who="mori", reason="seen")
    edited(settings, request.identity, people=1, state="approved")
    with pytest.raises(RequestError, match="is asked and cannot be run"):
        run(settings, request.identity)
    edited(settings, request.identity, people=1, state="failed")
    assert failure(run(settings, request.identity)) == "RequestError"
    assert spent(settings) == 0.0


def test_a_request_asked_for_before_two_people_were_required_needs_both(
    settings: RequestSettings, with_two_people: RequestSettings
) -> None:
    waiting, decided = asked(settings), approved(settings)
    for request in (waiting, decided):
        if request is waiting:
            made = decide(with_two_people, request.identity, 1, "approved", who="mori", reason="seen")
            assert made.state == "asked"
        with pytest.raises(RequestError, match="is asked and cannot be run"):
            run(with_two_people, request.identity)
        decide(with_two_people, request.identity, 1, "approved", who="sato", reason="seen")
        assert run(with_two_people, request.identity).state == "done"


def test_approvals_by_who_made_the_version_do_not_count(
    settings: RequestSettings, with_two_people: RequestSettings
) -> None:
    """Entered while one person was enough, or by another program: the ledger says who made the version."""
    request = asked(settings)
    change(settings, request.identity, "mean", {"epsilon": ["0.6"]}, who="mori", reason="more")
    decide(settings, request.identity, 2, "approved", who="mori", reason="seen")
    made = decide(with_two_people, request.identity, 2, "approved", who="sato", reason="seen")
    assert made.state == "approved"
    assert failure(run(with_two_people, request.identity)) == "RequestError"
    assert spent(settings) == 0.0


def test_a_denial_in_the_ledger_is_the_end(with_two_people: RequestSettings) -> None:
    settings, identity = with_two_people, approved_by_two(with_two_people)
    decide(settings, identity, 1, "denied", who="sato", reason="on second thought")
    edited(settings, identity, state="approved")
    ended = run(settings, identity)
    assert ended.outcome is not None
    assert "was denied" in ended.outcome.problem
    assert spent(settings) == 0.0


def test_an_earlier_version_put_back_is_not_run(settings: RequestSettings) -> None:
    before = approved(settings)
    change(settings, before.identity, "mean", {"epsilon": ["0.1"]}, who="mori", reason="less")
    (settings.requests_folder / f"{before.identity}.json").write_text(before.to_text())
    ended = run(settings, before.identity)
    assert ended.outcome is not None
    assert "a later version" in ended.outcome.problem
    assert spent(settings) == 0.0


@pytest.mark.parametrize(("name", "value"), [("purpose", "something else"), ("account", "other"), ("who", "x")])
def test_an_edited_request_is_not_charged_twice(settings: RequestSettings, name: str, value: str) -> None:
    done = run(settings, approved(settings).identity)
    assert done.outcome is not None
    (settings.releases_folder / done.outcome.file).unlink()
    edited(settings, done.identity, state="failed", outcome=None, **{name: value})
    assert run(settings, done.identity).state in ("failed", "interrupted")
    assert spent(settings) == 0.5


def test_a_file_planted_in_the_folder_of_a_run_is_not_published(settings: RequestSettings) -> None:
    """Neither the table itself, nor a release of another request that was signed here."""
    first, second = approved(settings), approved(settings, "0.25")
    kept = settings.store.run_folder(first.identity) / release_name(first)
    kept.write_bytes(Path(settings.tables["visits"].source).read_bytes())
    ended = run(settings, first.identity)
    assert ended.outcome is not None
    assert "is not the release that was charged for it" in ended.outcome.problem
    assert not list(settings.releases_folder.glob("*"))
    other = run(settings, second.identity).outcome
    assert other is not None
    kept.write_bytes((settings.releases_folder / other.file).read_bytes())
    assert run(settings, first.identity).state == "failed"
    kept.unlink()
    kept.with_suffix(".csv").write_text("rows")
    assert run(settings, first.identity).state == "done"
    assert not list(settings.releases_folder.glob("*.csv"))
    assert spent(settings) == 0.75


def test_rows_leave_with_their_release_and_only_as_they_were_written(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask(settings, "visits", "perturbation", {"epsilon": ["0.5"]}, who="aiko", purpose="a talk")
    decide(settings, request.identity, 1, "approved", who="mori", reason="seen")

    def fails(*_: object) -> None:
        raise OSError

    for module in ("record_perturbation", "release_format"):
        monkeypatch.setattr(f"sudare.perturbation.{module}.fits_inside", lambda _: False)
    with monkeypatch.context() as patch:
        patch.setattr("sudare.requests.approved_request_job._publish", fails)
        run(settings, request.identity)
    folder = settings.store.run_folder(request.identity)
    (rows,) = folder.glob("*.parquet")
    written = rows.read_bytes()
    rows.write_bytes(b"raw rows")
    assert failure(run(settings, request.identity)) == "RequestError"
    assert not list(settings.releases_folder.glob("*"))
    rows.write_bytes(written)
    assert run(settings, request.identity).state == "done"
    assert {path.suffix for path in settings.releases_folder.glob("*")} == {".parquet", ".sudare"}


def test_a_budget_that_was_spent_meanwhile_fails_the_run_and_can_be_raised(settings: RequestSettings) -> None:
    first, second = approved(settings, "1.5"), approved(settings, "1.5")
    assert run(settings, first.identity).state == "done"
    ended = run(settings, second.identity)
    assert (ended.state, failure(ended)) == ("failed", "BudgetExceeded")
    assert ended.outcome is not None
    assert ended.outcome.epsilon == 0.0
    assert "0.5 of 2" in ended.outcome.problem
    assert not any("0.5 of 2" in str(entry.body) for entry in Ledger(settings.ledger).entries())
    ledger = Ledger(settings.ledger)
    assert ledger.account("visits").spent().epsilon == 1.5
    ledger.raise_budget("visits", epsilon=4.0, reason="a second talk")
    assert run(settings, second.identity).state == "done"
    ledger.verify()


def test_a_table_that_was_changed_since_is_not_read(settings: RequestSettings) -> None:
    request, allowed = approved(settings), approved(settings)
    with open(settings.tables["visits"].source, "a") as file:
        file.write("30,a\n")
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("failed", "DataError")
    assert Ledger(settings.ledger).account("visits").spent() == (0.0, 0.0)
    growing = dataclasses.replace(settings.tables["visits"], may_change=True)
    assert run(dataclasses.replace(settings, tables={"visits": growing}), allowed.identity).state == "done"


def test_a_table_that_was_changed_to_the_same_length_and_time_is_not_read(settings: RequestSettings) -> None:
    request = approved(settings)
    table = Path(settings.tables["visits"].source)
    status, text = table.stat(), table.read_text()
    time.sleep(0.02)
    with table.open("r+") as file:
        file.write(text.replace("20.0", "99.0", 1))
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (table.stat().st_size, table.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("failed", "DataError")
    assert Ledger(settings.ledger).account("visits").spent() == (0.0, 0.0)


def test_a_schema_that_was_changed_since_is_not_used(settings: RequestSettings) -> None:
    request = approved(settings)
    schema = settings.tables["visits"].schema_path
    schema.write_text(schema.read_text().replace("110", "1110"))
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("failed", "SchemaError")
    assert Ledger(settings.ledger).account("visits").spent() == (0.0, 0.0)


def test_without_a_key_nothing_is_charged(settings: RequestSettings) -> None:
    ended = run(dataclasses.replace(settings, signing_key=None), approved(settings).identity)
    assert (ended.state, failure(ended)) == ("failed", "IdentityError")
    assert Ledger(settings.ledger).account("visits").spent() == (0.0, 0.0)


def test_foreign_errors_do_not_tell_values(settings: RequestSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("the secret is 42")

    monkeypatch.setattr("sudare.requests.approved_request_job._publish", fails)
    ended = run(settings, approved(settings).identity)
    assert failure(ended) == "OSError"
    assert "secret" not in ended.to_text()
    assert all("secret" not in str(entry.body) for entry in Ledger(settings.ledger).entries())
    monkeypatch.undo()
    assert run(settings, ended.identity).state == "done"
    assert Ledger(settings.ledger).account("visits").spent().epsilon == 0.5


def test_without_room_for_the_release_nothing_is_charged(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approved(settings)
    monkeypatch.setattr("sudare.files.os.posix_fallocate", disk_is_full)
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("failed", "RequestError")
    assert "No space left on device" in str(ended.outcome)
    assert spent(settings) == 0.0
    monkeypatch.undo()
    assert run(settings, request.identity).state == "done"


def test_a_disk_that_is_full_after_the_charge_loses_nothing_if_it_is_emptied(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask(settings, "visits", "perturbation", {"epsilon": ["1"]}, who="aiko", purpose="rows")
    decide(settings, request.identity, 1, "approved", who="mori", reason="seen")
    for module in ("record_perturbation", "release_format"):
        monkeypatch.setattr(f"sudare.perturbation.{module}.fits_inside", lambda _: False)
    written, tries = files.write_new, iter(range(100))

    def full_at_first(path: Path, *content: Any) -> None:
        if path.suffix == ".sudare" and next(tries) < 3:
            disk_is_full()
        written(path, *content)

    monkeypatch.setattr("sudare.privacy.release.files.write_new", full_at_first)
    monkeypatch.setattr("sudare.requests.approved_request_job._WRITING_SECONDS", 0.0)
    ended = run(settings, request.identity)
    assert ended.state == "done", ended.outcome
    kinds = [entry.kind for entry in Ledger(settings.ledger).account("visits").entries()]
    assert (kinds.count("charge"), kinds.count("release")) == (1, 1)
    assert {path.suffix for path in settings.releases_folder.glob("*")} == {".parquet", ".sudare"}


def test_a_disk_that_stays_full_is_told_with_what_is_lost(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approved(settings)
    monkeypatch.setattr("sudare.privacy.release.files.write_new", disk_is_full)
    monkeypatch.setattr("sudare.requests.approved_request_job._WRITING_TRIES", 2)
    monkeypatch.setattr("sudare.requests.approved_request_job._WRITING_SECONDS", 0.0)
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("interrupted", "RequestStopped")
    assert ended.outcome is not None
    assert "No space left on device" in ended.outcome.problem
    assert "It is gone" in ended.outcome.problem
    assert ended.outcome.epsilon == 0.5 == spent(settings)


def test_an_end_that_cannot_be_entered_is_not_called_free_of_charge(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approved(settings)

    def full_ledger(*_: object) -> None:
        raise LedgerError("The ledger's database cannot be used.", "Check the disk. Nothing was charged.")

    monkeypatch.setattr("sudare.requests.approved_request_job.enter", full_ledger)
    with pytest.raises(RequestError, match="stays charged") as told:
        run(settings, request.identity)
    assert "Nothing was charged" not in str(told.value)
    monkeypatch.undo()
    assert run(settings, request.identity).state == "done"
    assert spent(settings) == 0.5


def test_a_process_that_cannot_be_started_is_told_in_words_and_can_be_started_later(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approved(settings)
    monkeypatch.setattr("sudare.requests.approved_request_job.tempfile.TemporaryFile", disk_is_full)
    with pytest.raises(RequestError, match="No space left on device"):
        start(settings, request.identity)
    monkeypatch.undo()
    assert settings.store.was_left(settings.store.request(request.identity))
    assert run(settings, request.identity).state == "done"
    assert spent(settings) == 0.5


def disk_is_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_room_does_not_tell_how_large_the_table_is(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.requests.approved_request_job.space_kept", disk_is_full)
    ended = run(settings, approved(settings).identity)
    assert ended.outcome is not None
    assert (
        ended.outcome.problem == "There is no room for the release (No space left on device). Nothing more was charged."
    )
    assert spent(settings) == 0.0


def test_progress_that_cannot_be_written_ends_no_run(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = request_store.write_atomically

    def full_for_progress(path: Path, content: bytes) -> None:
        if path.suffix == ".progress":
            disk_is_full()
        written(path, content)

    monkeypatch.setattr(request_store, "write_atomically", full_for_progress)
    assert run(settings, approved(settings).identity).state == "done"


def test_two_processes_do_not_run_one_request(settings: RequestSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    request = approved(settings)
    monkeypatch.setattr("sudare.requests.approved_request_job._WAIT_SECONDS", 0.0)
    with settings.store.running(request.identity) as is_alone:
        assert is_alone
        assert settings.store.is_running(request.identity)
        with pytest.raises(RequestError, match="run by another process"):
            run(settings, request.identity)
    assert not settings.store.is_running(request.identity)


def test_a_process_of_its_own_runs_it(settings: RequestSettings) -> None:
    request = approved(settings)
    assert RequestSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert start(settings, request.identity).wait(300) == 0
    assert settings.store.request(request.identity).state == "done"
    assert settings.store.progress(request.identity) == "signing"
    assert resume(settings) == {}


def failure(request: Request) -> str:
    assert request.outcome is not None
    return request.outcome.error


@pytest.mark.parametrize("suffix", [".sudare", ".rows.parquet"])
def test_a_link_that_leads_nowhere_in_the_place_of_a_release_costs_nothing(
    settings: RequestSettings, suffix: str
) -> None:
    request = approved(settings)
    settings.releases_folder.mkdir()
    (settings.releases_folder / release_name(request)).with_suffix(suffix).symlink_to("nowhere")
    ended = run(settings, request.identity)
    assert (ended.state, failure(ended)) == ("failed", "ReleaseExists")
    assert spent(settings) == 0.0


def test_a_folder_of_releases_that_is_full_is_told_in_words(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approved(settings)
    monkeypatch.setattr("sudare.requests.approved_request_job.write_new", disk_is_full)
    ended = run(settings, request.identity)
    assert ended.outcome is not None
    assert (ended.state, failure(ended)) == ("failed", "RequestError")
    assert ended.outcome.problem.endswith("cannot be put into the folder of releases (No space left on device).")
    assert spent(settings) == 0.5
    monkeypatch.undo()
    assert run(settings, request.identity).state == "done"
    assert spent(settings) == 0.5

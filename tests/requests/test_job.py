"""Running a request: one charge, one file, and an outcome that says what happened."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sudare.errors import RequestError
from sudare.privacy.ledger import Ledger
from sudare.privacy.release import Release
from sudare.requests.job import resume, run, start
from sudare.requests.request import Request
from sudare.requests.request_settings import RequestSettings
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


def test_a_budget_that_was_spent_meanwhile_fails_the_run_and_can_be_raised(settings: RequestSettings) -> None:
    first, second = approved(settings, "1.5"), approved(settings, "1.5")
    assert run(settings, first.identity).state == "done"
    ended = run(settings, second.identity)
    assert (ended.state, failure(ended)) == ("failed", "BudgetExceeded")
    assert ended.outcome is not None
    assert ended.outcome.epsilon == 0.0
    assert "0.5 of 2" in ended.outcome.problem
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

    monkeypatch.setattr("sudare.requests.job._publish", fails)
    ended = run(settings, approved(settings).identity)
    assert failure(ended) == "OSError"
    assert "secret" not in ended.to_text()
    assert all("secret" not in str(entry.body) for entry in Ledger(settings.ledger).entries())
    monkeypatch.undo()
    assert run(settings, ended.identity).state == "done"
    assert Ledger(settings.ledger).account("visits").spent().epsilon == 0.5


def test_two_processes_do_not_run_one_request(settings: RequestSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    request = approved(settings)
    monkeypatch.setattr("sudare.requests.job._WAIT_SECONDS", 0.0)
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
    assert resume(settings) == []


def failure(request: Request) -> str:
    assert request.outcome is not None
    return request.outcome.error

"""Asking, changing, approving and denying: who may, in which order, and what the ledger says of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sudare.errors import (
    DataError,
    InvalidCost,
    InvalidParameter,
    RelationMismatch,
    RequestError,
    SchemaError,
    UnknownAccount,
    UnknownName,
)
from sudare.privacy.ledger import Ledger
from sudare.requests.approved_request_job import run
from sudare.requests.price import price_now
from sudare.requests.request import Verdict, parsed_request
from sudare.requests.request_actions import ask, change, decide, keep_entered_decisions
from sudare.requests.request_store import RequestStore
from sudare.requests.steward_settings import RequestSettings
from tests.requests.conftest import approved, asked


def events(settings: RequestSettings) -> list[tuple[str, str, int]]:
    found = [entry.body for entry in Ledger(settings.ledger, create=False).entries() if entry.kind == "request"]
    return [(body["event"], body["who"], body["version"]) for body in found]


def test_asking_is_an_entry_and_costs_nothing(settings: RequestSettings) -> None:
    request = asked(settings)
    assert (request.state, request.who, request.table, request.newest.kind) == ("asked", "aiko", "visits", "mean")
    price = price_now(settings, request)
    assert price.quote.asked == (0.5, 0.0)
    assert (price.quote.left_before.epsilon, price.quote.left_after.epsilon) == (2.0, 1.5)
    assert price.strength.word == "strong"
    assert events(settings) == [("asked", "aiko", 1)]
    ledger = Ledger(settings.ledger, create=False)
    ledger.verify()
    assert ledger.account("visits").spent() == (0.0, 0.0)
    assert settings.store.requests() == [request] == [parsed_request(request.to_text(), request.identity)]


def test_expected_errors_follow_from_public_facts(settings: RequestSettings) -> None:
    (mean,) = asked(settings).newest.expected
    assert (mean.said(), mean.unit) == ("mean of age", "years")
    # Laplace noise of scale 1/ε on the mean of 200 rows in a range of 110 years: exceeded by a third of its weight above log 3.
    assert mean.size == pytest.approx(110 / 200 / 0.5 * math.log(3), rel=0.05)
    values = {"epsilon": ["0.5"], "by": ["ward"], "mean_of": ["age"], "neighbours": ["add-remove"]}
    secret = ask(settings, "visits", "table", values, who="aiko", purpose="a talk")
    told = {each.what for each in secret.newest.expected if each.size is not None}
    assert not any("mean" in what for what in told), told


def test_what_is_wrong_with_a_table_is_told_to_its_owner_only(settings: RequestSettings) -> None:
    values = {"epsilon": ["0.5"], "n_records": ["99999"]}
    with pytest.raises(DataError) as told:
        ask(settings, "visits", "perturbation", values, who="aiko", purpose="a talk")
    assert "200" not in str(told.value)
    assert told.value.problem == "The table does not fit its schema or these values."
    with pytest.raises(DataError, match="200 rows"):
        ask(settings, "visits", "perturbation", values, who="mori", purpose="a talk", is_owner=True)


def test_no_error_that_depends_on_a_secret_number_of_rows_is_told(settings: RequestSettings) -> None:
    table = settings.tables["visits"]
    Ledger(settings.ledger).account("visits", 2.0, neighbours="add-remove", source=table.place)
    with pytest.raises(RelationMismatch):
        asked(settings)
    for value in ({"n_records": ["99999"], "epsilon": ["0.5"]}, {"k": ["99999"]}):
        with pytest.raises((DataError, RelationMismatch)) as told:
            ask(settings, "visits", "perturbation", value, who="aiko", purpose="a talk")
        assert "200" not in str(told.value)


def test_a_dry_run_leaves_nothing(settings: RequestSettings) -> None:
    ask(settings, "visits", "mean", {"epsilon": ["0.5"]}, who="aiko", purpose="a talk", dry_run=True)
    assert settings.store.requests() == []
    assert not Path(settings.ledger).exists()


def test_a_file_that_was_changed_is_not_approved(settings: RequestSettings) -> None:
    request = asked(settings)
    stronger = dataclasses.replace(request.newest, values={"epsilon": ["2"]}, cost=request.newest.cost)
    settings.store.replace(dataclasses.replace(request, versions=(stronger,)))
    with pytest.raises(RequestError, match="not what the ledger says was asked for"):
        decide(settings, request.identity, 1, "approved", who="mori", reason="a talk")
    assert events(settings) == [("asked", "aiko", 1)]
    decide(settings, request.identity, 1, "denied", who="mori", reason="somebody changed it")
    assert events(settings)[1:] == [("denied", "mori", 1)]


@pytest.mark.parametrize("change", [{"size": 0.001}, {"whole": 1e9}, {"unit": "months"}, {"what": "noise on {column}"}])
def test_a_file_with_another_expected_error_is_not_approved_nor_run(
    settings: RequestSettings, change: dict[str, object]
) -> None:
    """What a steward was told of the result is part of what is entered and approved."""
    request = asked(settings)
    (error,) = request.newest.expected
    flattering = dataclasses.replace(request.newest, expected=(dataclasses.replace(error, **change),))  # type: ignore[arg-type]
    settings.store.replace(dataclasses.replace(request, versions=(flattering,)))
    with pytest.raises(RequestError, match="not what the ledger says was asked for"):
        decide(settings, request.identity, 1, "approved", who="mori", reason="a talk")
    settings.store.replace(request)
    decide(settings, request.identity, 1, "approved", who="mori", reason="a talk")
    kept = settings.store.request(request.identity)
    settings.store.replace(dataclasses.replace(kept, versions=(flattering,)))
    ended = run(settings, request.identity)
    assert ended.outcome is not None
    assert (ended.state, ended.outcome.epsilon) == ("failed", 0.0)


@pytest.mark.parametrize(
    ("table", "kind", "values", "purpose", "error"),
    [
        ("../secret.csv", "mean", {"epsilon": ["1"]}, "a talk", UnknownName),
        ("visits", "median", {"epsilon": ["1"]}, "a talk", UnknownName),
        ("visits", "mean", {"epsilon": ["-1"]}, "a talk", InvalidCost),
        ("visits", "mean", {"epsilon": ["1"], "by": ["ward"]}, "a talk", UnknownName),
        ("visits", "mean", {"epsilon": ["1"]}, " ", InvalidParameter),
        ("visits", "mean", {"epsilon": ["1"]}, "two\nlines", InvalidParameter),
    ],
)
def test_bad_requests_are_refused(
    settings: RequestSettings, table: str, kind: str, values: dict[str, list[str]], purpose: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(settings, table, kind, values, who="aiko", purpose=purpose)
    assert settings.store.requests() == []


def test_a_table_without_an_account_says_so(settings: RequestSettings) -> None:
    table = dataclasses.replace(settings.tables["visits"], budget=None)
    Ledger(settings.ledger)
    with pytest.raises(UnknownAccount):
        asked(dataclasses.replace(settings, tables={"visits": table}))


def test_one_steward_approves(settings: RequestSettings) -> None:
    request = approved(settings)
    assert request.state == "approved"
    assert events(settings) == [("asked", "aiko", 1), ("approved", "mori", 1)]
    with pytest.raises(RequestError, match="is approved and cannot be approved"):
        decide(settings, request.identity, 1, "approved", who="sato", reason="seen")
    assert decide(settings, request.identity, 1, "denied", who="sato", reason="on second thought").state == "denied"


def test_a_denial_needs_a_reason_and_is_the_end(settings: RequestSettings) -> None:
    request = asked(settings)
    with pytest.raises(InvalidParameter, match="The reason is empty"):
        decide(settings, request.identity, 1, "denied", who="mori", reason="")
    with pytest.raises(InvalidParameter):
        decide(settings, request.identity, 1, "approved", who="mori", reason=" ")
    assert decide(settings, request.identity, 1, "denied", who="mori", reason="too fine").state == "denied"
    with pytest.raises(RequestError, match="is denied and cannot be approved"):
        decide(settings, request.identity, 1, "approved", who="mori", reason="seen")


def test_a_changed_request_is_decided_about_anew(settings: RequestSettings) -> None:
    request = approved(settings)
    made = change(settings, request.identity, "mean", {"epsilon": ["0.25"]}, who="mori", reason="half is enough")
    assert (made.state, made.newest.number, len(made.versions)) == ("asked", 2, 2)
    assert price_now(settings, made).quote.asked.epsilon == 0.25
    with pytest.raises(RequestError, match="was changed: its version is 2, not 1"):
        decide(settings, request.identity, 1, "approved", who="mori", reason="seen")
    assert decide(settings, request.identity, 2, "approved", who="mori", reason="seen").state == "approved"


def test_two_people_and_neither_is_the_one_who_asks(with_two_people: RequestSettings) -> None:
    settings = with_two_people
    request = asked(settings)
    with pytest.raises(RequestError, match="Who asks may not approve"):
        decide(settings, request.identity, 1, "approved", who="aiko", reason="seen")
    assert decide(settings, request.identity, 1, "approved", who="mori", reason="seen").state == "asked"
    with pytest.raises(RequestError, match="another person is required"):
        decide(settings, request.identity, 1, "approved", who="mori", reason="seen")
    assert decide(settings, request.identity, 1, "approved", who="sato", reason="seen").state == "approved"


def test_who_changed_a_version_asks_for_it(with_two_people: RequestSettings) -> None:
    settings = with_two_people
    identity = asked(settings).identity
    change(settings, identity, "mean", {"epsilon": ["1.5"]}, who="mori", reason="more")
    with pytest.raises(RequestError, match="Who changed a request may not approve"):
        decide(settings, identity, 2, "approved", who="mori", reason="seen")
    decide(settings, identity, 2, "approved", who="sato", reason="seen")
    assert decide(settings, identity, 2, "approved", who="ito", reason="seen").state == "approved"


def test_a_request_under_another_name_cannot_be_read(settings: RequestSettings) -> None:
    request = asked(settings)
    (settings.requests_folder / "00000000.json").write_text(request.to_text())
    with pytest.raises(RequestError, match="cannot be read"):
        settings.store.request("00000000")


def test_of_two_who_decide_at_once_one_is_told_that_it_was_decided(settings: RequestSettings) -> None:
    request = asked(settings)

    def decided_by(who: str) -> str:
        try:
            return decide(settings, request.identity, 1, "approved", who=who, reason="seen").state
        except RequestError:
            return "refused"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(decided_by, [f"steward-{number}" for number in range(8)]))
    assert sorted(found) == ["approved"] + ["refused"] * 7
    assert [event for event, _, _ in events(settings)] == ["asked", "approved"]
    assert len(settings.store.request(request.identity).decisions) == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "versions": []}'])
def test_files_that_lie_are_refused(settings: RequestSettings, text: str) -> None:
    request = asked(settings)
    (settings.requests_folder / f"{request.identity}.json").write_text(text)
    with pytest.raises(RequestError, match="cannot be read"):
        settings.store.request(request.identity)


def test_names_that_are_none_find_nothing(settings: RequestSettings) -> None:
    for name in ("", "../../etc", "0" * 8, "1A2B3C4D"):
        with pytest.raises(UnknownName):
            settings.store.request(name)


def test_the_folder_is_private(settings: RequestSettings) -> None:
    asked(settings)
    assert settings.requests_folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(settings.requests_folder).glob("*.json"))


def test_a_schema_that_is_not_in_its_folder_is_named_with_the_setting(settings: RequestSettings) -> None:
    settings.tables["visits"].schema_path.unlink()
    with pytest.raises(SchemaError, match=r"no 'visits.toml', which table 'visits' needs") as told:
        asked(settings)
    assert "schemas = " in told.value.remedy
    assert str(settings.releases_folder.parent) not in str(told.value)


# Killed between the ledger's entry and the file


class Killed(BaseException):
    """What nobody catches."""


def killed_before_it_is_kept(settings: RequestSettings, act: Callable[[], object]) -> None:
    def dies(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RequestStore, "replace", dies)
        with pytest.raises(Killed):
            act()


def test_an_approval_that_only_the_ledger_has_is_run_and_not_asked_for_again(settings: RequestSettings) -> None:
    identity = asked(settings).identity
    approve = partial(decide, settings, identity, 1, "approved", who="mori", reason="fits")
    killed_before_it_is_kept(settings, approve)
    assert settings.store.request(identity).state == "asked"
    with pytest.raises(RequestError, match="is approved and cannot be approved"):
        approve()
    assert run(settings, identity).state == "done"
    assert events(settings) == [("asked", "aiko", 1), ("approved", "mori", 1), ("done", "aiko", 1)]


def test_the_first_of_two_approvals_that_only_the_ledger_has_counts(with_two_people: RequestSettings) -> None:
    identity = asked(with_two_people).identity
    killed_before_it_is_kept(
        with_two_people, partial(decide, with_two_people, identity, 1, "approved", who="mori", reason="fits")
    )
    with pytest.raises(RequestError, match=r"approved request \w+ already"):
        decide(with_two_people, identity, 1, "approved", who="mori", reason="fits")
    assert decide(with_two_people, identity, 1, "approved", who="sato", reason="fits").state == "approved"
    assert run(with_two_people, identity).state == "done"


@pytest.mark.parametrize("verdict", ["approved", "denied"])
def test_a_decision_that_only_the_ledger_has_is_kept_when_the_page_starts(
    settings: RequestSettings, verdict: Verdict
) -> None:
    identity, other = asked(settings).identity, asked(settings)
    killed_before_it_is_kept(settings, partial(decide, settings, identity, 1, verdict, who="mori", reason="x"))
    keep_entered_decisions(settings)
    assert settings.store.request(identity).state == verdict
    assert settings.store.request(other.identity) == other
    if verdict == "denied":
        with pytest.raises(RequestError, match="is denied and cannot be run"):
            run(settings, identity)


def test_a_change_that_only_the_ledger_has_is_made_again(settings: RequestSettings) -> None:
    """The version before it is not run: whoever changed it was told nothing else."""
    before = approved(settings).identity
    killed_before_it_is_kept(
        settings, partial(change, settings, before, "mean", {"epsilon": ["0.25"]}, who="aiko", reason="less")
    )
    assert run(settings, before).state == "failed"
    assert Ledger(settings.ledger).account("visits").spent().epsilon == 0.0
    identity = asked(settings).identity
    again = partial(change, settings, identity, "mean", {"epsilon": ["0.25"]}, who="aiko", reason="less")
    killed_before_it_is_kept(settings, again)
    with pytest.raises(RequestError, match="the change was not kept"):
        decide(settings, identity, 1, "approved", who="mori", reason="fits")
    assert settings.store.request(identity).state == "asked"
    again()
    decide(settings, identity, 2, "approved", who="mori", reason="fits")
    ended = run(settings, identity)
    assert (ended.state, ended.outcome is not None and ended.outcome.epsilon) == ("done", 0.25)


def test_a_ledger_that_was_taken_away_is_not_made_anew_to_keep_decisions(settings: RequestSettings) -> None:
    request = asked(settings)
    Path(settings.ledger).unlink()
    keep_entered_decisions(settings)
    assert settings.store.request(request.identity) == request
    assert not Path(settings.ledger).exists()

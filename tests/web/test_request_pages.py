"""The pages of requests: asked by one, decided by another, run, and downloaded."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from sudare import Ledger, Release
from sudare.requests.steward_settings import RequestSettings
from sudare.requests.users import User
from sudare.web.passwords import hashed_password
from sudare.web.settings import TableSettings
from tests.ledgers import quick_folder
from tests.requests.conftest import house
from tests.web.kit import ADDRESS, Client, TestPage

EPSILON = {"table": "visits", "kind": "table", "value-epsilon": "0.5", "value-by": ["ward"], "value-mean_of": ["age"]}


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


def request_page(folder: Path, **changes: Any) -> TestPage:
    house(folder)
    table = TableSettings("visits", str(folder / "visits.csv"), "visits", "visits", budget=2.0)
    settings = {"schemas": folder, "signing_key": folder / "key.pem", "tables": {"visits": table}}
    return TestPage(folder, **{**settings, **changes})


@pytest.fixture
def page(folder: Path) -> TestPage:
    return request_page(folder)


def settings_of(page: TestPage) -> RequestSettings:
    from sudare.web.request_settings_of_page import request_settings

    return request_settings(page.services.settings)


def shown(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", html.unescape(answer.text))


def asked(client: Client, **changes: Any) -> str:
    """The address of a new request."""
    answer = client.submit("/requests/new", {**EPSILON, "purpose": "visits by ward", "act": "ask", **changes})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def wait(page: TestPage, path: str) -> None:
    page.services.kept["requests"][path.rpartition("/")[2]].wait(300)


def test_the_form_is_made_of_the_kind_and_the_schema(page: TestPage) -> None:
    client = page.client("analyst")
    assert "Table visits" in shown(client, "/requests/new")
    text = shown(client, "/requests/new?table=visits&kind=table")
    assert 'name="value-by" value="ward"' in text
    assert 'name="value-mean_of" value="age"' in text
    assert 'name="value-mean_of" value="ward"' not in text
    assert client.get("/requests/new?table=/etc/passwd&kind=table").status_code == 404
    assert client.get("/requests/new?table=visits&kind=secrets").status_code == 404


def test_only_targets_that_the_kind_can_predict_are_offered(page: TestPage) -> None:
    client = page.client("analyst")
    ridge, logistic = (shown(client, f"/requests/new?table=visits&kind={kind}") for kind in ("ridge", "logistic"))
    assert ('<option value="age"' in ridge, '<option value="ward"' in ridge) == (True, False)
    assert ('<option value="age"' in logistic, '<option value="ward"' in logistic) == (False, True)


def test_a_price_is_shown_and_nothing_is_asked(page: TestPage) -> None:
    client = page.client("analyst")
    text = html.unescape(client.submit("/requests/new", {**EPSILON, "act": "price"}).text)
    assert "It costs ε = 0.5 of ε = 2.0 left (strong)." in text
    assert "ε = 1.5 would be left." in text
    assert settings_of(page).store.requests() == []


def test_asked_approved_run_and_verified(page: TestPage) -> None:
    analyst, steward = page.client("analyst", "aiko"), page.client("steward", "mori")
    path = asked(analyst)
    assert "'aiko' asks for a release of table 'visits' (grouped table): visits by ward" in shown(steward, "/")
    text = shown(steward, path)
    assert "It costs ε = 0.5 of ε = 2.0 left (strong). ε = 1.5 would be left." in text
    assert "Approve and run" not in shown(analyst, path)
    answer = steward.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "fine"})
    assert answer.status_code == 303, answer.text
    wait(page, path)
    text = shown(analyst, path)
    assert "The guarantee: strong" in text
    content = analyst.get(f"{path}/release").content
    file = page.folder / "received.sudare"
    file.write_bytes(content)
    release = Release.load(file, trusted=[settings_of(page).key().public_key()])
    ledger = Ledger(page.folder / "ledger.db")
    release.check_entered(ledger)
    assert ledger.account("visits").spent().epsilon == 0.5

    kept = page.folder / "requests" / f"{path.rpartition('/')[2]}.json"
    stored = json.loads(kept.read_text())
    stored["outcome"]["file"] = "../key.pem"
    kept.write_text(json.dumps(stored))
    assert analyst.get(f"{path}/release").content == content
    assert "key.pem" not in shown(analyst, path)
    (written,) = (page.folder / "releases").glob("*.sudare")
    written.write_bytes((page.folder / "key.pem").read_bytes())
    refused = analyst.get(f"{path}/release")
    assert refused.status_code == 400
    assert "PRIVATE" not in refused.text


def test_denied_with_a_reason(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"))
    steward = page.client("steward", "mori")
    refused = steward.submit(f"{path}/decide", {"version": "1", "verdict": "denied", "reason": ""})
    assert refused.status_code == 400
    steward.submit(f"{path}/decide", {"version": "1", "verdict": "denied", "reason": "too <b>fine</b>"})
    text = steward.get(path).text
    assert "too &lt;b&gt;fine&lt;/b&gt;" in text
    assert Ledger(page.folder / "ledger.db").account("visits").spent() == (0.0, 0.0)


def test_an_expected_error_that_was_edited_is_not_shown(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"))
    steward = page.client("steward", "mori")
    assert "means of age" in shown(steward, path)
    kept = page.folder / "requests" / f"{path.rpartition('/')[2]}.json"
    stored = json.loads(kept.read_text())
    (means,) = [each for each in stored["versions"][0]["expected"] if each["what"] == "means of {column}"]
    means["size"] = 0.001
    kept.write_text(json.dumps(stored))
    text = shown(steward, path)
    assert "is not what the ledger says was asked for in version 1." in text
    assert "means of age" not in text
    refused = steward.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "fine"})
    assert refused.status_code == 400


def test_a_change_with_one_click_is_a_new_version(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"))
    steward = page.client("steward", "mori")
    assert steward.submit(f"{path}/change", {"suggested": "half", "column": ""}).status_code == 303
    assert "It costs ε = 0.25" in shown(page.client("analyst", "aiko"), path)
    assert "Version 1 by aiko: visits by ward" in shown(steward, path)
    late = steward.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "seen"})
    assert late.status_code == 400
    assert "was changed" in late.text
    assert steward.submit(f"{path}/change", {"suggested": "secret", "column": ""}).status_code == 404
    values = {"value-epsilon": "1", "value-by": "ward", "purpose": "more is needed"}
    assert page.client("analyst", "mei").submit(f"{path}/change", values).status_code == 403
    assert page.client("analyst", "aiko").submit(f"{path}/change", values).status_code == 303
    assert "It costs ε = 1.0 of" in shown(steward, path)


def test_what_the_budget_does_not_allow_is_told_before_and_refused_after(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"), **{"value-epsilon": "5"})
    steward = page.client("steward", "mori")
    assert "The account does not have that much left" in shown(steward, path)
    steward.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "seen"})
    wait(page, path)
    text = shown(steward, path)
    assert "Nothing was charged." in text
    assert "2 of 2 is left" in text
    assert "Run it again" in text
    told = shown(page.client("analyst", "aiko"), path)
    assert "A steward sees why." in told
    assert "2 of 2 is left" not in told


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"value-epsilon": "much"}, "must be a number"),
        ({"value-epsilon": "-1"}, "must be a positive"),
        ({"value-epsilon": "much"}, "“epsilon” must be a number"),
        ({"value-epsilon": ""}, "The request does not say its ε. Choose it: give “epsilon”."),
        ({"value-delta": "x"}, "“delta” must be a number"),
        ({"value-by": ["age", "nobody"]}, ""),
        ({"purpose": ""}, "The purpose is empty"),
        ({"purpose": "<script>alert(1)</script>", "value-epsilon": "<script>"}, "must be a number"),
    ],
)
def test_bad_values_are_answered_in_words_and_kept_in_the_form(
    page: TestPage, values: dict[str, Any], said: str
) -> None:
    answer = page.client("analyst").submit("/requests/new", {**EPSILON, "purpose": "a talk", "act": "ask", **values})
    assert answer.status_code == 400
    assert said in html.unescape(answer.text)
    assert "<script>alert" not in answer.text
    assert 'class="problem" role="alert"' in answer.text
    assert settings_of(page).store.requests() == []


def test_epsilon_is_asked_for_and_never_filled_in_before(page: TestPage) -> None:
    client = page.client("analyst")
    (field,) = re.findall(
        r'<input name="value-epsilon"[^>]*>', client.get("/requests/new?table=visits&kind=table").text
    )
    assert " required" in field
    assert "placeholder" not in field
    rows = client.get("/requests/new?table=visits&kind=perturbation").text
    assert "instead of “k”" in html.unescape(rows)
    (field,) = re.findall(r'<input name="value-epsilon"[^>]*>', rows)
    assert " required" not in field


def test_roles(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"))
    viewer, analyst = page.client("viewer", "ito"), page.client("analyst", "aiko")
    assert viewer.get("/requests/new").status_code == 403
    assert viewer.submit("/requests/new", {**EPSILON, "purpose": "a", "act": "ask"}).status_code == 403
    for client in (viewer, analyst):
        assert client.get(path).status_code == 200
        assert client.submit(f"{path}/decide", {"version": "1", "verdict": "approved"}).status_code == 403
        assert client.submit(f"{path}/run").status_code == 403
    assert viewer.submit(f"{path}/change", {"suggested": "half"}).status_code == 403
    assert viewer.get(f"{path}/release").status_code == 404
    assert viewer.get("/requests/00000000").status_code == 404


def test_a_request_that_cannot_be_read_leaves_the_others_in_place(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"))
    (page.folder / "requests" / "deadbeef.json").write_text('{"half')
    steward = page.client("steward", "mori")
    text = shown(steward, "/requests")
    assert "cannot be read. deadbeef" in text
    assert path in text
    assert path in shown(steward, "/")
    here = TestClient(page.app, base_url=ADDRESS, client=("127.0.0.1", 5000))
    counted = here.get("/metrics").text
    assert 'sudare_page_requests{state="asked"} 1' in counted
    assert 'sudare_page_requests{state="unreadable"} 1' in counted
    assert steward.get("/requests/deadbeef").status_code == 400


def test_what_people_wrote_is_not_translated(page: TestPage) -> None:
    purpose, reason = "Nothing was charged. Ask anew: approved", "Sign in. denied"
    path = asked(page.client("analyst", "aiko"), purpose=purpose)
    steward = page.client("steward", "mori")
    steward.get("/language/ja")
    for place in ("/", "/requests", path):
        assert purpose in shown(steward, place)
    steward.submit(f"{path}/decide", {"version": "1", "verdict": "denied", "reason": reason})
    assert reason in shown(steward, path)


def test_folders_of_tables_are_for_stewards(page: TestPage) -> None:
    asked(page.client("analyst", "aiko"))
    for form in ("json", "csv"):
        text = page.client("viewer").get(f"/budget-export?format={form}").text
        assert "visits.csv" in text
        assert str(page.folder) not in text
        assert str(page.folder) in page.client("steward").get(f"/budget-export?format={form}").text
    (page.folder / "visits.csv").unlink()
    answer = page.client("analyst").submit("/requests/new", {**EPSILON, "act": "price"})
    assert str(page.folder) not in answer.text


def test_nobody_decides_by_a_forged_form(page: TestPage) -> None:
    path = asked(page.client("analyst", "aiko"))
    steward = page.client("steward", "mori")
    assert steward.post(f"{path}/decide", data={"version": "1", "verdict": "approved"}).status_code == 403
    assert settings_of(page).store.requests()[0].state == "asked"


def test_what_was_left_running_is_gone_on_with_when_the_page_starts(
    page: TestPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sudare.requests.request import begun
    from sudare.requests.request_actions import decide

    path = asked(page.client("analyst", "aiko"))
    settings = settings_of(page)
    request = decide(settings, path.rpartition("/")[2], 1, "approved", who="mori", reason="seen")
    settings.store.replace(begun(request))
    started: list[str] = []
    monkeypatch.setattr("sudare.requests.approved_request_job.start", lambda _, name: started.append(name))
    with page.client("steward") as client:
        # The process that was started is none: page and list say that nothing runs.
        for address in (path, "/requests"):
            assert "interrupted, can go on" in client.get(address).text
        assert "It runs" not in client.get(path).text
        assert client.get(path).headers["refresh"] == "2"
    assert started == [request.identity]


def test_who_made_a_version_is_not_shown_a_button_that_would_refuse(folder: Path) -> None:
    page = request_page(folder, two_people=True, users=_two_stewards())
    path = asked(page.client("analyst", "ken"))
    steward = page.client("steward", "aiko")
    assert 'value="approved"' in steward.get(path).text
    steward.submit(f"{path}/change", {"suggested": "half", "column": ""})
    assert 'value="approved"' not in steward.get(path).text
    assert 'value="approved"' in page.client("steward", "mori").get(path).text
    assert "asks for a release" in page.client("steward", "mori").get("/").text
    assert "asks for a release" not in steward.get("/").text


def test_the_first_of_two_approvals_runs_nothing_and_says_so(folder: Path) -> None:
    page = request_page(folder, two_people=True, users=_two_stewards())
    path = asked(page.client("analyst", "ken"))
    first, second = page.client("steward", "aiko"), page.client("steward", "mori")
    text = shown(first, path)
    assert "0 of 2 approvals of this version are there; 2 more before it runs." in text
    assert "Approve; 1 more must before it runs" in text
    assert "Approve and run" not in text
    first.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "fine"})
    for client in (first, second, page.client("analyst", "ken")):
        assert "1 of 2 approvals of this version are there; 1 more before it runs." in shown(client, path)
    text = shown(second, path)
    assert "Approve and run" in text
    assert "No other steward is left" not in text
    second.get("/language/ja")
    assert "この版の承認は 2 人中 1 人です。" in shown(second, path)
    second.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "fine"})
    wait(page, path)
    assert "approvals of this version" not in shown(first, path)


def test_who_made_a_version_is_named_and_what_to_do_where_too_few_stewards_are_left(folder: Path) -> None:
    page = request_page(folder, two_people=True, users=_two_stewards())
    path = asked(page.client("analyst", "ken"))
    steward = page.client("steward", "aiko")
    assert "may not approve it either" not in shown(steward, path)
    steward.submit(f"{path}/change", {"suggested": "half", "column": ""})
    for client in (steward, page.client("steward", "mori"), page.client("analyst", "ken")):
        text = shown(client, path)
        assert "Who made this version (aiko) may not approve it either." in text
        assert "No other steward is left who may approve this version. Have ken ask anew with these values" in text
    own = asked(steward)
    assert "Have somebody who is no steward ask anew" in shown(steward, own)


def _edited(page: TestPage, path: str) -> tuple[Path, dict[str, Any]]:
    kept = page.folder / "requests" / f"{path.rpartition('/')[2]}.json"
    return kept, json.loads(kept.read_text())


@pytest.mark.parametrize("part", ["who", "maker", "approval", "denial"])
def test_people_and_decisions_that_were_edited_are_not_shown(folder: Path, part: str) -> None:
    page = request_page(folder, two_people=True, users=_two_stewards())
    path = asked(page.client("analyst", "ken"))
    steward = page.client("steward", "aiko")
    kept, stored = _edited(page, path)
    decision = {"version": 1, "who": "forged", "when": "2026-01-01T00:00:00+00:00", "reason": "forged"}
    if part == "who":
        stored["who"] = "forged"
    elif part == "maker":
        stored["versions"][0]["who"] = "forged"
    else:
        stored["decisions"] = [{**decision, "verdict": "approved" if part == "approval" else "denied"}]
    kept.write_text(json.dumps(stored))
    text = shown(steward, path)
    assert "forged" not in text
    assert 'role="alert"' in text
    assert "the ledger" in text
    assert 'value="approved"' not in text
    refused = steward.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "fine"})
    assert refused.status_code == 400


def test_reasons_and_decisions_are_those_of_the_ledger(folder: Path) -> None:
    page = request_page(folder, two_people=True, users=_two_stewards())
    path = asked(page.client("analyst", "ken"))
    steward = page.client("steward", "aiko")
    steward.submit(f"{path}/decide", {"version": "1", "verdict": "approved", "reason": "well founded"})
    kept, stored = _edited(page, path)
    stored["versions"][0]["reason"] = stored["decisions"][0]["reason"] = "forged"
    kept.write_text(json.dumps(stored))
    text = shown(steward, path)
    assert "well founded" in text
    assert "forged" not in text
    stored["decisions"] = []
    kept.write_text(json.dumps(stored))
    assert "Version 1 approved by aiko: well founded" in shown(steward, path)


def _two_stewards() -> dict[str, User]:
    kept = hashed_password("correct horse battery")
    return {name: User(name, "steward", kept) for name in ("aiko", "mori")}


def test_counts_for_monitoring(page: TestPage) -> None:
    from sudare.web.request_pages import PART

    asked(page.client("analyst"))
    found = PART.metrics(page.services)
    assert [(metric.name, list(metric.values)) for metric in found] == [
        ("sudare_page_requests", [({"state": "asked"}, 1.0)])
    ]


def test_networks_are_not_offered_beside_persons(page: TestPage, folder: Path) -> None:
    client = page.client("analyst")
    assert "kind=network" in shown(client, "/requests/new")
    schema = folder / "visits.toml"
    schema.write_text(f'{schema.read_text()}\n[person]\ncolumn = "patient"\nmost_rows = 3\n')
    offered = shown(client, "/requests/new")
    assert "kind=network" not in offered
    assert "Neural networks are not offered" in offered
    # Whoever types the address is told the reason, and not that the table is at fault.
    values = {"table": "visits", "kind": "network", "value-epsilon": "1", "purpose": "x", "act": "ask"}
    answer = client.submit("/requests/new", values)
    assert answer.status_code == 400
    assert "Networks protect records" in answer.text

"""Budgets on the page: shown, opened, raised and closed by stewards only, with every refusal in words."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.ledgers import charge
from tests.web.kit import TestPage

HOSTILE = "<script>alert(1)</script>"


def test_accounts_and_what_is_left(page: TestPage) -> None:
    charge(page.ledger().account("visits"), 0.5)
    for path in ("/", "/budget"):
        text = page.client("viewer").get(path).text
        assert "visits" in text
        assert "ε 1.5 of 2.0 left" in text
    assert "The chain of 3 entries is intact" in page.client().get("/budget").text


def test_an_account_with_its_history(page: TestPage) -> None:
    account = page.ledger().account("visits")
    charge(account, 0.5)
    page.ledger().raise_budget("visits", epsilon=3.0, reason="a second study")
    text = page.client("viewer").get("/budget/visits").text
    assert "a second study" in text
    assert "<polyline" in text
    assert "Raise the budget" not in text
    assert "Raise the budget" in page.client().get("/budget/visits").text


def test_many_entries_are_paged(page: TestPage) -> None:
    account = page.ledger().account("visits")
    for _ in range(60):
        charge(account, 0.01)
    client = page.client()
    first = client.get("/budget/visits").text
    assert first.count("a test") == 50
    assert "?before=" in first
    assert client.get("/budget/visits?before=12").text.count("a test") == 10
    assert client.get("/budget/visits?before=x").status_code == 200


def test_an_account_that_is_not_there(page: TestPage) -> None:
    missing = page.client().get("/budget/nobody")
    assert missing.status_code == 404
    assert "no account" in missing.text


def test_a_steward_raises_a_budget(page: TestPage) -> None:
    client = page.client()
    answer = client.submit("/budget/visits/raise", {"epsilon": "3", "reason": "a second study"})
    assert answer.status_code == 303
    assert "was raised" in client.get("/budget/visits").text
    assert page.ledger().account("visits").entries()[-1].body["reason"] == "aiko: a second study"


@pytest.mark.parametrize(
    "values",
    [
        {"epsilon": "1", "reason": "less"},
        {"epsilon": "3", "reason": " "},
        {"epsilon": "three", "reason": "x"},
        {"epsilon": "2_5", "reason": "x"},
        {"epsilon": "nan", "reason": "x"},
        {"epsilon": "-1", "reason": "x"},
        {"epsilon": "3", "reason": "x\ny"},
        {"reason": "x"},
    ],
)
def test_raises_that_are_refused(page: TestPage, values: dict[str, str]) -> None:
    before = page.ledger().head()
    answer = page.client().submit("/budget/visits/raise", values)
    assert answer.status_code == 400
    assert "This was refused" in answer.text
    assert page.ledger().head() == before


@pytest.mark.parametrize("role", ["viewer", "analyst"])
@pytest.mark.parametrize("path", ["/budget", "/budget/visits/raise", "/budget/visits/close"])
def test_others_change_nothing(page: TestPage, role: str, path: str) -> None:
    before = page.ledger().head()
    values = {"account": "x", "epsilon": "9", "reason": "x", "sure": "yes"}
    assert page.client(role).submit(path, values).status_code == 403  # type: ignore[arg-type]
    assert page.ledger().head() == before


def test_a_steward_closes_an_account(page: TestPage) -> None:
    client = page.client()
    assert client.submit("/budget/visits/close", {"reason": "done"}).status_code == 400
    assert client.submit("/budget/visits/close", {"reason": "done", "sure": "yes"}).status_code == 303
    assert "This account is closed" in client.get("/budget/visits").text
    refused = client.submit("/budget/visits/raise", {"epsilon": "9", "reason": "x"})
    assert refused.status_code == 400
    assert "was closed by the steward" in refused.text


def test_a_steward_opens_an_account(tmp_path: Path) -> None:
    page = TestPage(tmp_path)
    client = page.client()
    assert client.submit("/budget", {"account": "wards", "epsilon": "1.5"}).status_code == 303
    assert page.ledger().account("wards").remaining() == (1.5, 0.0)
    assert "already" in client.submit("/budget", {"account": "wards", "epsilon": "9"}).text
    assert client.submit("/budget", {"account": " ", "epsilon": "1"}).status_code == 400
    assert client.submit("/budget", {"account": "x", "epsilon": "inf"}).status_code == 400


def test_hostile_names_are_text(page: TestPage) -> None:
    ledger = page.ledger()
    name = f"a/b?{HOSTILE}&'\""
    ledger.account(name, epsilon=1.0)
    client = page.client()
    listing = client.get("/budget").text
    assert HOSTILE not in listing
    path = listing.split('class="name" href="')[1].split('"')[0]
    shown = client.get(path)
    assert shown.status_code == 200
    assert HOSTILE not in shown.text
    assert client.submit(f"{path}/raise", {"epsilon": "3", "reason": HOSTILE}).status_code == 303
    assert HOSTILE not in client.get(path).text


def test_heads_are_kept_and_compared(page: TestPage) -> None:
    client = page.client("viewer")
    head = client.get("/budget-head.json")
    assert head.headers["content-disposition"].startswith("attachment")
    charge(page.ledger().account("visits"), 0.5)
    token = {"form_token": client.form_token()}
    files = {"head": ("head.json", head.content)}
    assert client.post("/budget-head", data=token, files=files).status_code == 303
    assert "as it was when that head was kept" in client.get("/budget").text
    forged = json.dumps({**head.json(), "hash": "0" * 64}).encode()
    refused = client.post("/budget-head", data=token, files={"head": ("head.json", forged)})
    assert refused.status_code == 400
    assert "no longer has" in refused.text
    for content in (b"", b"[]", b"{}", b"\xff", b'{"ledger": 1}'):
        assert client.post("/budget-head", data=token, files={"head": ("x", content)}).status_code == 400


def test_entries_are_exported(page: TestPage) -> None:
    client = page.client("viewer")
    assert client.get("/budget-export?format=csv").text.startswith("position,")
    assert client.get("/budget-export").json()[0]["kind"] == "ledger"


def test_a_changed_ledger_is_told(page: TestPage) -> None:
    client = page.client()
    client.get("/budget")
    with sqlite3.connect(page.folder / "ledger.db") as connection:
        connection.execute("UPDATE entries SET time = '2020-01-01' WHERE position = 1")
    page.services._chain = None
    assert "was changed after it was written" in client.get("/budget").text
    assert "was changed after it was written" in client.get("/budget/visits").text

"""`sudare request`: the story of a request without a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from sudare import Ledger, Release
from sudare.errors import InvalidParameter, RequestError, RequestStopped, UnknownName
from sudare.requests.request import begun
from sudare.requests.request_store import RequestStore
from sudare.web.passwords import hashed_password
from tests.cli.conftest import Sudare
from tests.requests.conftest import house

SETTINGS = """
ledger = "ledger.db"
releases = "releases"
schemas = "."
signing_key = "key.pem"
[tables.visits]
source = "visits.csv"
budget = 2.0
"""
ASK = ("request", "ask", "visits", "mean", "--value", "epsilon=0.5", "--purpose", "a talk about ages")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    house(tmp_path)
    (tmp_path / "page.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_whole_story(here: Path, sudare: Sudare) -> None:
    rehearsed = sudare(*ASK, "--dry-run", "--json").values
    assert (rehearsed["dry_run"], rehearsed["price"]["left_after"]["epsilon"], rehearsed["strength"]) == (
        True,
        1.5,
        "strong",
    )
    assert sudare("request", "list", "--json").values == {"requests": [], "damaged": []}
    asked = sudare(*ASK, "--who", "aiko")
    assert "This would cost ε = 0.5 (strong) of account 'visits'" in asked.stdout
    (listed,) = sudare("request", "list", "--json").values["requests"]
    name = listed["identity"]
    changed = sudare("request", "change", name, "--value", "epsilon=0.25", "--reason", "half", "--who", "mori")
    assert "Version 2 waits for the steward." in changed.stdout
    assert sudare("request", "approve", name, "--version", "1", "--reason", "seen").exit_code == RequestError.exit_code
    assert sudare("request", "run", name).exit_code == RequestError.exit_code
    assert "This is version 2, by mori." in sudare("request", "show", name).stdout
    unseen = sudare("request", "approve", name)
    assert (unseen.exit_code, "--version" in unseen.stderr) == (2, True)
    assert (
        sudare("request", "approve", name, "--version", "2", "--reason", "seen", "--dry-run", "--json").values["state"]
        == "approved"
    )
    assert sudare("request", "show", name, "--json").values["state"] == "asked"
    assert sudare("request", "approve", name, "--version", "2", "--reason", "fine", "--who", "mori").exit_code == 0
    ran = sudare("request", "run", name, "--json").values
    assert (ran["state"], ran["outcome"]["epsilon"]) == ("done", 0.25)
    assert Release.load(ran["output"], trusted=[_public(here)]).learner == "PrivateMean"
    assert name in sudare("budget", "show", "visits").stdout
    assert "approved by mori" in sudare("request", "show", name).stdout
    assert "done" in sudare("request", "list").stdout
    Ledger(here / "ledger.db").verify()


def _public(folder: Path) -> object:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key((folder / "key.pem").read_bytes(), None).public_key()


def test_denied(here: Path, sudare: Sudare) -> None:
    name = sudare(*ASK, "--json").values["identity"]
    assert sudare("request", "deny", name, "--version", "1", "--reason", "no", "--json").values["state"] == "denied"
    assert sudare("request", "run", name).exit_code == RequestError.exit_code


def test_a_run_that_fails_says_what_was_charged(here: Path, sudare: Sudare) -> None:
    name = sudare("request", "ask", "visits", "mean", "--value", "epsilon=9", "--purpose", "all", "--json").values[
        "identity"
    ]
    sudare("request", "approve", name, "--version", "1", "--reason", "seen")
    ran = sudare("request", "run", name)
    assert ran.exit_code == RequestStopped.exit_code
    assert "is failed; ε = 0 was charged. BudgetExceeded" in ran.stderr


def test_a_request_whose_expected_error_was_edited_is_not_shown_as_asked_for(here: Path, sudare: Sudare) -> None:
    name = sudare(*ASK, "--json").values["identity"]
    (shown,) = sudare("request", "show", name, "--json").values["versions"][0]["expected"]
    assert (shown["what"], shown["unit"]) == ("mean of age", "years")
    file = here / "requests" / f"{name}.json"
    file.write_text(file.read_text().replace(f'"size":{shown["size"]!r}', '"size":0.001'))
    told = sudare("request", "show", name)
    assert (told.exit_code, "±" in told.output) == (RequestError.exit_code, False)
    approving = sudare("request", "approve", name, "--version", "1", "--reason", "seen")
    assert (approving.exit_code, "±" in approving.output) == (RequestError.exit_code, False)


def test_a_request_whose_process_ended_can_be_gone_on_with(here: Path, sudare: Sudare) -> None:
    name = sudare(*ASK, "--json").values["identity"]
    sudare("request", "approve", name, "--version", "1", "--reason", "seen")
    store = RequestStore(here / "requests")
    store.replace(begun(store.request(name)))
    (listed,) = sudare("request", "list", "--json").values["requests"]
    assert (listed["state"], listed["was_left"]) == ("running", True)
    assert "interrupted" in sudare("request", "list").stdout
    assert "interrupted, can go on" in sudare("request", "show", name).stdout
    with store.running(name):
        assert not sudare("request", "show", name, "--json").values["was_left"]
    assert sudare("request", "run", name, "--json").values["state"] == "done"


def test_bad_words(here: Path, sudare: Sudare) -> None:
    assert sudare("request", "ask", "secrets", *ASK[3:]).exit_code == UnknownName.exit_code
    assert (
        sudare("request", "ask", "visits", "mean", "--value", "epsilon", "--purpose", "x").exit_code
        == InvalidParameter.exit_code
    )
    assert sudare("request", "show", "00000000").exit_code == UnknownName.exit_code


def test_users_act_by_their_role(here: Path, sudare: Sudare) -> None:
    password = hashed_password("a long enough password")
    users = "".join(
        f'\n[users.{name}]\nrole = "{role}"\npassword = "{password}"\n'
        for name, role in (("aiko", "analyst"), ("mori", "steward"), ("sato", "steward"))
    )
    (here / "schemas").mkdir()
    (here / "visits.toml").rename(here / "schemas" / "visits.toml")
    apart = SETTINGS.replace('schemas = "."', 'schemas = "schemas"')
    (here / "page.toml").write_text("two_people = true\n" + apart + users)
    (here / "page.toml").chmod(0o600)
    assert sudare(*ASK, "--who", "nobody").exit_code == InvalidParameter.exit_code
    name = sudare(*ASK, "--who", "aiko", "--json").values["identity"]
    assert (
        sudare("request", "approve", name, "--version", "1", "--reason", "seen", "--who", "aiko").exit_code
        == InvalidParameter.exit_code
    )
    first = sudare("request", "approve", name, "--version", "1", "--reason", "seen", "--who", "mori")
    assert "1 more must approve" in first.stdout
    assert (
        sudare("request", "approve", name, "--version", "1", "--reason", "seen", "--who", "sato", "--json").values[
            "state"
        ]
        == "approved"
    )


def test_states_and_entries_are_said_in_japanese(here: Path, sudare: Sudare) -> None:
    assert sudare(*ASK).exit_code == 0
    assert "依頼中" in sudare("request", "list", "--lang", "ja").stdout
    entries = sudare("budget", "show", "visits", "--lang", "ja").stdout
    assert "開設" in entries

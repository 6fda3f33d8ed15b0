"""Schemas on the page: begun without bounds, edited as form and text, saved whole, compared with a table."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from sudare.schema import Schema
from sudare.web.settings import TableSettings
from tests.web.kit import Client, TestPage

HOSTILE = '"><script>alert(1)</script>'
TEXT = """
# Known since 2019.
[columns.stay]
kind = "number"
low = 0
high = 60
unit = "days"

[columns.ward]
kind = "category"
values = ["north", "south"]

[columns.code]
kind = "category"
values = [1, 2]
missing = 1
"""


@pytest.fixture
def page(tmp_path: Path) -> TestPage:
    rows = pd.DataFrame({"patient_id": [1, 1, 2], "stay": [3.5, 77.0, 1.0], "ward": ["north", "west", "south"]})
    rows.to_parquet(tmp_path / "visits.parquet")
    tables = {"visits": TableSettings("visits", str(tmp_path / "visits.parquet"), "visits", "visits")}
    found = TestPage(tmp_path, tables=tables)
    (tmp_path / "schemas" / "stays.toml").write_text(TEXT)
    return found


def saved(page: TestPage, name: str = "stays") -> str:
    return (page.folder / "schemas" / f"{name}.toml").read_text()


def digest(client: Client, path: str) -> str:
    return client.get(path).text.split('name="digest" value="')[1].split('"')[0]


def test_a_draft_asks_for_every_bound(page: TestPage) -> None:
    client = page.client()
    assert client.submit("/schemas", {"table": "visits"}).headers["location"] == "/schemas/visits"
    shown = client.get("/schemas/visits").text
    assert "still lacks `low`, `high`" in shown
    for value in ("3.5", "77", "west", "north"):
        assert value not in saved(page, "visits")
        assert f'value="{value}' not in shown
    assert "answers are open" in client.get("/schemas").text


def test_comments_of_a_draft_are_in_the_language_of_the_page(page: TestPage) -> None:
    client = page.client()
    client.get("/language/ja")
    client.submit("/schemas", {"table": "visits"})
    comments = [line for line in saved(page, "visits").splitlines() if line.startswith("# ")]
    assert comments
    assert comments[0].startswith("# 下書きです。")
    assert not [line for line in comments if re.search("[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}", line)]


def test_the_form_is_the_schema(page: TestPage) -> None:
    client = page.client()
    path = "/schemas/stays"
    values = {
        "digest": digest(client, path),
        "name-0": "stay",
        "kind-0": "number",
        "low-0": "0",
        "high-0": "90",
        "unit-0": "days",
        "whole-0": "yes",
        "name-1": "ward",
        "kind-1": "category",
        "values-1": "north\r\nsouth\r\nwest",
        "name-2": "code",
        "kind-2": "category",
        "values-2": "1\n2",
        "numbers-2": "yes",
        "missing-2": "1",
        "name-new": "seen",
        "kind-new": "date",
        "person": "patient_id",
        "most_rows": "4",
    }
    # A complete schema is not saved with a column whose facts are still to come: its fields are shown first.
    asked = client.submit(path, values)
    assert asked.status_code == 400
    assert 'name="first-3"' in asked.text
    assert saved(page) == TEXT
    seen = {"name-new": "", "name-3": "seen", "kind-3": "date", "first-3": "2020-01-01", "last-3": "2026-01-01"}
    assert client.submit(path, {**values, **seen}).status_code == 303
    document = Schema.from_toml(saved(page)).to_dict()
    assert document["columns"]["seen"]["kind"] == "date"
    assert document["columns"]["stay"] == {"kind": "number", "low": 0, "high": 90, "unit": "days", "whole": True}
    assert document["columns"]["ward"]["values"] == ["north", "south", "west"]
    assert document["columns"]["code"] == {"kind": "category", "values": [1, 2], "missing": 1}
    assert document["person"] == {"column": "patient_id", "most_rows": 4}


EMPTY = {"name-0": "stay", "kind-0": "number", "low-0": "", "high-0": "many"}


def test_what_is_left_empty_in_a_draft_becomes_a_question(page: TestPage) -> None:
    client = page.client()
    client.submit("/schemas", {"table": "visits"})
    path = "/schemas/visits"
    assert client.submit(path, {"digest": digest(client, path), **EMPTY}).status_code == 303
    assert 'low = "?"' in saved(page, "visits")
    shown = client.get(path).text
    assert "still lacks `low`" in shown
    assert "`high` has a value that is not a finite number" in shown
    assert "was saved as a draft" in shown


def test_a_complete_schema_is_not_replaced_by_one_with_gaps_and_what_was_typed_is_kept(page: TestPage) -> None:
    client = page.client()
    path = "/schemas/stays"
    answer = client.submit(path, {"digest": digest(client, path), **EMPTY})
    assert answer.status_code == 400
    assert "would no longer be" in answer.text
    assert "still lacks `low`" in answer.text
    assert 'name="high-0" value="many"' in answer.text
    assert saved(page) == TEXT
    mended = {**EMPTY, "low-0": "0", "high-0": "9", "digest": digest(client, path)}
    assert client.submit(path, mended).status_code == 303
    assert "high = 9" in saved(page)


def test_two_columns_of_one_name_are_told_and_neither_is_lost(page: TestPage) -> None:
    client = page.client()
    path = "/schemas/stays"
    twice = {
        "name-0": "a",
        "kind-0": "number",
        "low-0": "0",
        "high-0": "1",
        "name-1": "a",
        "kind-1": "number",
        "low-1": "7",
        "target": "weight",
        "person": "patient",
        "most_rows": "3",
    }
    answer = client.submit(path, {"digest": digest(client, path), **twice})
    assert answer.status_code == 400
    assert "Two columns are called" in answer.text
    for name, value in (("low-1", "7"), ("target", "weight"), ("person", "patient"), ("most_rows", "3")):
        assert f'name="{name}" value="{value}"' in answer.text
    assert saved(page) == TEXT


@pytest.mark.parametrize("facts", ["kind = 'date'\nfirst = 1\nlast = {}\nunit = [1]", "kind = 'date part'\npart = {}"])
def test_values_without_a_hash_are_told_in_words(page: TestPage, facts: str) -> None:
    (page.folder / "schemas" / "bad.toml").write_text(f"[columns.a]\n{facts}\n")
    shown = page.client("viewer").get("/schemas/bad")
    assert shown.status_code == 200
    assert "Give one of" in shown.text


def test_all_problems_are_shown(page: TestPage) -> None:
    text = '[columns.a]\nkind = "number"\nlow = 5\nhigh = 1\n[columns.b]\nkind = "colour"\n[columns.c]\nkind = "number"\nlow = 1\n'
    (page.folder / "schemas" / "bad.toml").write_text(text)
    shown = page.client("viewer").get("/schemas/bad").text
    for name in "abc":
        assert f"Column &#39;{name}&#39;" in shown


def test_text_is_saved_with_its_comments_or_refused(page: TestPage) -> None:
    client = page.client()
    path = "/schemas/stays"
    text = TEXT.replace("high = 60", "high = 61")
    before = digest(client, path)
    assert client.submit(path, {"digest": before, "mode": "text", "text": text}).status_code == 303
    assert "# Known since 2019." in saved(page)
    assert "high = 61" in saved(page)
    refused = client.submit(path, {"digest": digest(client, path), "mode": "text", "text": f"[columns.{HOSTILE}"})
    assert refused.status_code == 400
    assert "not valid TOML" in refused.text
    assert HOSTILE not in refused.text
    assert "high = 61" in saved(page)


def test_a_change_of_somebody_else_is_not_lost(page: TestPage) -> None:
    one, two = page.client(), page.client(user="ken")
    path = "/schemas/stays"
    old = digest(one, path)
    assert two.submit(path, {"digest": old, "mode": "text", "text": TEXT + "\n# ken"}).status_code == 303
    refused = one.submit(path, {"digest": old, "mode": "text", "text": TEXT + "\n# aiko"})
    assert refused.status_code == 400
    assert "changed this schema since" in refused.text
    assert "# ken" in saved(page)
    assert "# aiko" in refused.text
    again = {"digest": refused.text.split('name="digest" value="')[1].split('"')[0], "mode": "text"}
    assert one.submit(path, {**again, "text": TEXT + "\n# aiko"}).status_code == 303
    assert "# aiko" in saved(page)


def test_a_table_is_compared(page: TestPage) -> None:
    text = TEXT.split("[columns.code]", maxsplit=1)[0]
    (page.folder / "schemas" / "stays.toml").write_text(text)
    shown = page.client().submit("/schemas/stays/check", {"table": "visits"}).text
    # A token is any letters and figures.
    shown = re.sub(r'name="form_token" value="[^"]+"', "", shown)
    assert "does not match the schema" in shown
    assert "stay: 1" in shown
    # The token of a form may have any two figures in it.
    told = shown.split("<main", maxsplit=1)[1]
    assert "token" not in told
    assert "west" not in told
    assert "77" not in told
    assert "whose row it is" in shown
    assert page.client().submit("/schemas/stays/check", {"table": "nothing"}).status_code == 404


def test_clipped_values_of_each_column_stand_on_a_line_of_their_own(page: TestPage) -> None:
    rows = pd.DataFrame({"stay": [77.0, 1.0], "km": [-1.0, 2.0], "ward": ["north", "south"]})
    rows.to_parquet(page.folder / "visits.parquet")
    text = TEXT.split("[columns.code]", maxsplit=1)[0]
    (page.folder / "schemas" / "stays.toml").write_text(text + '[columns.km]\nkind = "number"\nlow = 0\nhigh = 9\n')
    shown = page.client().submit("/schemas/stays/check", {"table": "visits"}).text
    # “stay: 1 km: 1” would be read as one kilometre.
    assert "<dd>stay: 1<br>km: 1</dd>" in shown


@pytest.mark.parametrize("role", ["viewer", "analyst"])
def test_only_stewards_change_or_compare(page: TestPage, role: str) -> None:
    client = page.client(role)  # type: ignore[arg-type]
    text = client.get("/schemas/stays").text
    # Nothing can be typed that could not be saved.
    assert '<fieldset class="bare" disabled>' in text
    assert 'spellcheck="false" readonly>' in text
    assert "Stewards change schemas" in text
    for path in ("/schemas", "/schemas/stays", "/schemas/stays/check"):
        assert client.submit(path, {"name": "x", "table": "visits"}).status_code == 403
    assert saved(page) == TEXT
    text = page.client().get("/schemas/stays").text
    assert '<fieldset class="bare">' in text
    assert "readonly" not in text


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\nb", "x" * 200, "stays", "x.toml"])
def test_names_that_are_refused(page: TestPage, name: str) -> None:
    before = sorted(page.folder.rglob("*.toml"))
    assert page.client().submit("/schemas", {"name": name}).status_code == 400
    assert sorted(page.folder.rglob("*.toml")) == before


def test_other_settings_are_not_shown(page: TestPage) -> None:
    (page.folder / "schemas" / "page.toml").write_text('ledger = "secret.db"\n')
    client = page.client()
    assert "page" not in client.get("/schemas").text.split("<h2>")[0].split("<main")[1]
    assert client.get("/schemas/page").status_code == 404
    assert client.get("/schemas/..%2Fpage").status_code == 404


def test_hostile_names_are_text(page: TestPage) -> None:
    import tomli_w

    document = {"columns": {HOSTILE: {"kind": "number", "low": 0, "high": 1, "unit": HOSTILE}}, "drop": [HOSTILE + "x"]}
    (page.folder / "schemas" / "bad&'.toml").write_text(tomli_w.dumps(document))
    client = page.client()
    assert HOSTILE not in client.get("/schemas").text
    shown = client.get("/schemas/bad%26%27")
    assert shown.status_code == 200
    assert HOSTILE not in shown.text
    checked = client.submit("/schemas/bad%26%27/check", {"table": "visits"})
    assert checked.status_code == 200
    assert HOSTILE not in checked.text


@pytest.mark.parametrize("end", ["", "\nbroken = \n"])
@pytest.mark.parametrize(
    "text",
    ['[users.aiko]\npassword = "x"', 'users = { aiko = { password = "x" } }', 'metrics_token = "x"\n[columns.a]'],
)
def test_settings_beside_the_schemas_are_not_shown(page: TestPage, text: str, end: str) -> None:
    (page.folder / "schemas" / "page.toml").write_text(text + end)
    assert page.client("steward").get("/schemas/page").status_code == 404
    assert "page" not in re.findall(r'href="/schemas/(\w+)"', page.client("steward").get("/schemas").text)


def test_a_text_that_is_not_valid_is_shown_to_those_who_can_mend_it(page: TestPage) -> None:
    (page.folder / "schemas" / "stays.toml").write_text(TEXT + "\nbroken = \n")
    assert page.client("viewer").get("/schemas/stays").status_code == 404
    assert "not valid TOML" in page.client("steward").get("/schemas/stays").text


def test_the_person_column_needs_no_answers_and_answers_outlive_a_change_of_kind(page: TestPage) -> None:
    client = page.client()
    client.submit("/schemas", {"table": "visits"})
    path = "/schemas/visits"
    values = {
        "name-0": "patient", "kind-0": "category", "values-0": "", "person": "patient", "most_rows": "3",
        "name-1": "ward", "kind-1": "label", "values-1": "north\nsouth",
    }  # fmt: skip
    assert client.submit(path, {"digest": digest(client, path), **values}).status_code == 303
    document = Schema.from_toml(saved(page, "visits")).to_dict()
    assert document["person"] == {"column": "patient", "most_rows": 3}
    assert document["columns"] == {"ward": {"kind": "label", "classes": ["north", "south"]}}


def test_the_overview_begins_the_schema_of_a_table_and_then_leads_to_what_can_be_asked(
    page: TestPage, tmp_path: Path
) -> None:
    page.ledger()
    steward = page.client()
    assert "no schema yet" not in page.client("analyst").get("/").text
    assert 'value="visits"' in steward.get("/").text.split("Begin its schema")[0]
    begun = steward.submit("/schemas", {"table": "visits"})
    assert begun.headers["location"].startswith("/schemas/visits")
    assert "is a draft" in steward.get("/").text
    assert "kind=table" not in steward.get("/schemas/visits").text
    (tmp_path / "schemas" / "visits.toml").write_text(TEXT)
    assert "visits" not in steward.get("/").text.split("What is left")[0].split("Waiting for you")[-1]
    assert "/requests/new?table=visits&amp;kind=table" in steward.get("/schemas/visits").text
    assert "/requests/new" not in page.client("viewer").get("/schemas/visits").text


DRAFT = {
    "name-0": "patient_id", "kind-0": "number", "remove-0": "yes",
    "name-1": "stay", "kind-1": "number", "low-1": "0", "high-1": "60",
    "name-2": "ward", "kind-2": "category", "values-2": "north\nsouth\nwest",
}  # fmt: skip


def dropped_and_others(page: TestPage, name: str = "visits") -> tuple[tuple[str, ...], list[str]]:
    schema = Schema.from_toml(saved(page, name))
    return schema.drop, list(schema.columns)


def fields_of(text: str) -> dict[str, str]:
    """What a browser sends of the form of columns as it stands: texts, and boxes that are ticked."""
    form = text.split('name="mode" value="form"')[1].split("</form>", maxsplit=1)[0]
    sent = {}
    for tag in re.findall(r"<input[^>]*>", form):
        found = dict(re.findall(r'(name|value)="([^"]*)"', tag))
        if 'type="checkbox"' not in tag or " checked" in tag:
            sent[found["name"]] = found.get("value", "")
    for name, body in re.findall(r'<select name="([^"]*)">(.*?)</select>', form):
        chosen = re.search(r'value="([^"]*)" selected', body)
        sent[name] = "number" if chosen is None else chosen[1]
    for name, body in re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        sent[name] = body
    return sent


def test_a_column_that_is_ticked_as_not_used_is_dropped_and_stays_so(page: TestPage) -> None:
    client = page.client()
    client.submit("/schemas", {"table": "visits"})
    path = "/schemas/visits"
    assert client.submit(path, {"digest": digest(client, path), **DRAFT}).status_code == 303
    assert dropped_and_others(page) == (("patient_id",), ["stay", "ward"])
    shown = client.get(path).text
    sent = fields_of(shown)
    assert {name: sent[name] for name in ("name-2", "remove-2")} == {"name-2": "patient_id", "remove-2": "yes"}
    # Saved again as it stands, and as a form that does not show it.
    assert client.submit(path, {"digest": digest(client, path), **sent}).status_code == 303
    assert dropped_and_others(page) == (("patient_id",), ["stay", "ward"])
    unseen = {name: value for name, value in sent.items() if not name.endswith("-2")}
    assert client.submit(path, {"digest": digest(client, path), **unseen}).status_code == 303
    assert dropped_and_others(page) == (("patient_id",), ["stay", "ward"])


def test_a_dropped_column_is_used_again_once_it_is_no_longer_ticked_and_answered(page: TestPage) -> None:
    client = page.client()
    client.submit("/schemas", {"table": "visits"})
    path = "/schemas/visits"
    client.submit(path, {"digest": digest(client, path), **DRAFT})
    sent = fields_of(client.get(path).text)
    del sent["remove-2"]
    asked = client.submit(path, {"digest": digest(client, path), **sent})
    assert asked.status_code == 400
    assert 'name="low-2"' in asked.text
    assert dropped_and_others(page)[0] == ("patient_id",)
    answered = {**sent, "kind-2": "number", "low-2": "0", "high-2": "9", "digest": digest(client, path)}
    assert client.submit(path, answered).status_code == 303
    assert dropped_and_others(page) == ((), ["stay", "ward", "patient_id"])


def test_a_column_that_is_left_out_and_added_is_refused(page: TestPage) -> None:
    client = page.client()
    client.submit("/schemas", {"table": "visits"})
    path, before = "/schemas/visits", saved(page, "visits")
    answer = client.submit(path, {"digest": digest(client, path), **DRAFT, "name-new": "patient_id"})
    assert answer.status_code == 400
    assert "Two columns are called" in answer.text
    assert fields_of(answer.text)["remove-3"] == "yes"
    assert saved(page, "visits") == before


def test_the_column_of_persons_is_read_though_ticked_and_dropped_once_it_is_no_longer_named(page: TestPage) -> None:
    client = page.client()
    client.submit("/schemas", {"table": "visits"})
    path = "/schemas/visits"
    named = {**DRAFT, "person": "patient_id", "most_rows": "2"}
    assert client.submit(path, {"digest": digest(client, path), **named}).status_code == 303
    assert dropped_and_others(page) == ((), ["stay", "ward"])
    sent = fields_of(client.get(path).text) | {"person": "", "most_rows": ""}
    assert client.submit(path, {"digest": digest(client, path), **sent}).status_code == 303
    assert dropped_and_others(page) == (("patient_id",), ["stay", "ward"])


def test_a_column_that_was_ticked_cannot_be_a_key_and_nothing_is_charged(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"patient_id": [f"p{i % 4}" for i in range(400)], "stay": 3.5, "ward": ["north", "south"] * 200}
    )
    rows.to_parquet(tmp_path / "visits.parquet")
    source = str(tmp_path / "visits.parquet")
    table = TableSettings("visits", source, "visits", "visits", budget=2.0, budget_delta=1e-5)
    page = TestPage(tmp_path, tables={"visits": table})
    steward, analyst = page.client(), page.client("analyst", "ken")
    steward.submit("/schemas", {"table": "visits"})
    path = "/schemas/visits"
    assert steward.submit(path, {"digest": digest(steward, path), **DRAFT}).status_code == 303
    asked = {
        "table": "visits", "kind": "table", "value-epsilon": "1", "value-delta": "1e-6", "value-keys": "patient_id",
        "value-mean_of": ["stay"], "purpose": "visits of patients", "act": "ask",
    }  # fmt: skip
    assert analyst.submit("/requests/new", asked).status_code == 400
    # Only stewards are told why.
    answer = steward.submit("/requests/new", asked)
    assert answer.status_code == 400
    assert "which the schema leaves out (drop)" in answer.text
    assert not list((tmp_path / "requests").iterdir())
    assert "visits" not in {account.name for account in page.ledger().accounts()}
    # A column that is only not declared may be one.
    (tmp_path / "schemas" / "visits.toml").write_text(saved(page, "visits").replace('"patient_id"', '"other"'))
    assert analyst.submit("/requests/new", asked).status_code == 303


def test_what_the_form_does_not_show_of_several_columns_stays(page: TestPage) -> None:
    told = '\n[[impossible]]\nward = ["north"]\ncode = [2]\n'
    (page.folder / "schemas" / "stays.toml").write_text(TEXT + told)
    client, path = page.client(), "/schemas/stays"
    sent = fields_of(client.get(path).text) | {"high-0": "70"}
    assert client.submit(path, {"digest": digest(client, path), **sent}).status_code == 303
    schema = Schema.from_toml(saved(page))
    assert schema.columns["stay"].high == 70
    assert schema.impossible == ({"ward": ("north",), "code": (2,)},)
    # A column that they name is not taken away unseen.
    sent = fields_of(client.get(path).text) | {"remove-2": "yes"}
    answer = client.submit(path, {"digest": digest(client, path), **sent})
    assert answer.status_code == 400
    assert Schema.from_toml(saved(page)) == schema

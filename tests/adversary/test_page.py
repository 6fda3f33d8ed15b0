"""Attacks by those who may sign in at the page, and by those who may not: to see rows, or how many there are, without a charge."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import html
import io
import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sudare import Ledger, PrivateHistogram, PrivateMean, Release
from sudare.dossier.account_report import report_values
from sudare.errors import DataError, InvalidParameter, RelationMismatch
from sudare.frames.table_slices import Slice
from sudare.perturbation import RecordPerturbation
from sudare.privacy import source_identity
from sudare.privacy.guarantee import Neighbours
from sudare.requests.approved_request_job import run, start
from sudare.requests.price import is_in_state
from sudare.requests.request_actions import ask, decide
from sudare.requests.request_kinds import KINDS
from sudare.requests.steward_settings import RequestSettings
from sudare.requests.users import Role
from sudare.schema import Number, Schema
from sudare.statistics import GroupedTable
from sudare.web import passwords
from sudare.web.fair_turns import FairTurns
from sudare.web.page_log import PageLog
from sudare.web.sessions import GUESS_SECONDS, MOST_GUESSES, Sessions
from sudare.web.settings import TableSettings
from sudare.web.shared_server_state import MOST_PRICES
from tests.ledgers import quick_folder
from tests.release_kit import KEY, manifest_of, with_manifest
from tests.requests.conftest import SCHEMA, house
from tests.web.kit import Client, Clock, TestPage

PERSONS = f'{SCHEMA}[person]\ncolumn = "pid"\nmost_rows = 2\n'


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


# To download a table


class TestRowsBesideARelease:
    """The folder of releases is the table's own, as it is by default."""

    @pytest.fixture
    def settings(self, folder: Path) -> RequestSettings:
        found = house(folder)
        pd.read_csv(folder / "visits.csv").to_parquet(folder / "visits.parquet")
        return found

    def viewer(self, folder: Path, source: str = "visits.parquet") -> Client:
        table = TableSettings("visits", str(folder / source), "visits", "visits")
        return TestPage(folder, schemas=folder, releases=folder, tables={"visits": table}).client("viewer", "eve")

    def perturbed(self, settings: RequestSettings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The rows that left beside visits.sudare."""
        for module in ("record_perturbation", "release_format"):
            monkeypatch.setattr(f"sudare.perturbation.{module}.fits_inside", lambda _: False)
        account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0)
        model = RecordPerturbation(Schema.load(folder / "visits.toml"), epsilon=1.0, account=account)
        Release.of(model.fit(folder / "visits.csv")).save(folder / "visits.sudare", key=settings.key())
        return folder / "visits.rows.parquet"

    @pytest.mark.parametrize("beside", [".parquet", ".rows.parquet", "rows", ".csv"])
    def test_download_the_table_beside_a_release_of_its_name(
        self, settings: RequestSettings, folder: Path, beside: str
    ) -> None:
        account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0)
        mean = PrivateMean(epsilon=1.0, schema=Schema.load(folder / "visits.toml"), account=account)
        Release.of(mean.fit(folder / "visits.parquet")).save(folder / "visits.sudare", key=settings.key())
        (folder / "visits.rows.parquet").write_bytes((folder / "visits.parquet").read_bytes())
        viewer = self.viewer(folder)
        assert "beside=" not in viewer.get("/releases/visits.sudare").text
        assert viewer.get("/releases/visits.sudare/file", params={"beside": beside}).status_code == 404
        assert viewer.get("/releases/visits.sudare/file").content == (folder / "visits.sudare").read_bytes()

    def test_download_what_was_put_in_the_place_of_the_rows_that_left(
        self, settings: RequestSettings, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = self.perturbed(settings, folder, monkeypatch)
        viewer, written = self.viewer(folder), rows.read_bytes()
        assert "beside=rows" in viewer.get("/releases/visits.sudare").text
        answer = viewer.get("/releases/visits.sudare/file?beside=rows")
        assert answer.content == written
        assert answer.headers["content-disposition"].endswith("visits.rows.parquet")
        rows.write_bytes((folder / "visits.parquet").read_bytes())
        assert "beside=rows" not in viewer.get("/releases/visits.sudare").text
        assert viewer.get("/releases/visits.sudare/file?beside=rows").status_code == 404

    @pytest.mark.parametrize("source", ["visits.rows.parquet", "*.parquet", ""])
    def test_download_rows_that_are_those_of_a_table(
        self, settings: RequestSettings, folder: Path, source: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever made the release may name any file: what a table is read from does not leave, whatever names it."""
        self.perturbed(settings, folder, monkeypatch)
        assert self.viewer(folder, source).get("/releases/visits.sudare/file?beside=rows").status_code == 404

    def test_download_a_table_that_is_called_like_a_release(self, settings: RequestSettings, folder: Path) -> None:
        (folder / "visits.sudare").write_bytes((folder / "visits.parquet").read_bytes())
        assert self.viewer(folder).get("/releases/visits.sudare/file").status_code == 404


# To count rows by prices


@pytest.mark.parametrize("kind", ["mean", "scaler", "quantiles", "table"])
def test_count_the_rows_of_one_person_by_prices(folder: Path, kind: str) -> None:
    """Of a person with 40 rows two are kept: what is told before a charge is that of anybody with two or more."""
    settings = house(folder)
    (folder / "visits.toml").write_text(PERSONS)
    values = {"epsilon": ["1"], **({"by": ["ward"], "mean_of": ["age"]} if kind == "table" else {})}
    told = []
    for further in (1, 39):
        persons = [f"p{number}" for number in range(60)] + ["p0"] * further
        table = pd.DataFrame({"pid": persons, "age": 30.0, "ward": "a"})
        table.to_csv(folder / "visits.csv", index=False)
        request = ask(settings, "visits", kind, values, who="eve", purpose="a talk", dry_run=True)
        told.append(request.newest.expected)
    assert told[0] == told[1]
    assert any(each.size is not None for each in told[0])


def priced(analyst: Client, token: str, n_records: int) -> str:
    form = {"form_token": token, "table": "visits", "kind": "perturbation", "value-epsilon": "0.5", "act": "price"}
    return html.unescape(analyst.post("/requests/new", data={**form, "value-n_records": str(n_records)}).text)


def test_count_the_rows_of_an_add_remove_account_by_prices(folder: Path) -> None:
    house(folder)
    source = folder / "visits.csv"
    Ledger(folder / "ledger.db").account("visits", epsilon=2.0, neighbours="add-remove", source=source)
    tables = {"visits": TableSettings("visits", str(source), "visits", "visits")}
    analyst = TestPage(folder, schemas=folder, signing_key=folder / "key.pem", tables=tables).client("analyst", "eve")
    token = analyst.form_token()
    told = {priced(analyst, token, number).replace(str(number), "N") for number in (150, 200, 201, 999)}
    assert len(told) == 1
    assert "says nothing about add/remove neighbours" in told.pop()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["record", "person"])
def test_have_a_table_read_for_an_account_that_could_never_pay(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, unit: str
) -> None:
    """Every kind counts replaced records unless it is told otherwise."""
    settings = house(folder)
    neighbours = "add-remove" if unit == "record" else "replace-one"
    source = settings.tables["visits"].place
    Ledger(settings.ledger).account("visits", epsilon=2.0, neighbours=neighbours, unit=unit, source=source)
    monkeypatch.setattr("sudare.privacy.private_estimator.PrivateEstimator.planned", pytest.fail)
    values = {"epsilon": ["0.5"], **({"by": ["ward"]} if kind == "table" else {})}
    if KINDS[kind].is_model:
        values["target"] = ["age" if kind == "ridge" else "ward"]
    with pytest.raises(RelationMismatch):
        ask(settings, "visits", kind, values, who="eve", purpose="a talk", dry_run=True)


# To learn of a table by errors


def rows_of_persons(folder: Path, further: int) -> None:
    """Sixty persons with a row each, and so many further rows of the first."""
    persons = [f"p{number}" for number in range(60)] + ["p0"] * further
    ages = [30.0 + number for number in range(len(persons))]
    pd.DataFrame({"pid": persons, "age": ages, "ward": "a"}).to_csv(folder / "visits.csv", index=False)


@pytest.mark.parametrize("key", ["age", "ward", "pid", "nowhere"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_learn_whether_somebody_has_more_rows_than_are_kept(folder: Path, key: str, neighbours: Neighbours) -> None:
    """Rows of persons are read again only where somebody has more: nothing that a request names may be refused as late as that."""
    settings, told = house(folder), []
    (folder / "visits.toml").write_text(PERSONS)
    source = folder / "visits.csv"
    rows_of_persons(folder, 1)
    budget: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "neighbours": neighbours,
        "unit": "person",
        "source": source,
    }
    Ledger(settings.ledger).account("visits", **budget)
    tables = {"visits": TableSettings("visits", str(source), "visits", "visits")}
    page = TestPage(folder, schemas=folder, signing_key=folder / "key.pem", tables=tables)
    form = {"table": "visits", "kind": "table", "value-epsilon": "0.5", "value-delta": "1e-6", "act": "price"}
    for further in (1, 39):
        rows_of_persons(folder, further)
        client = page.client("analyst", "eve")
        answer = client.submit("/requests/new", {**form, "value-keys": key, "value-neighbours": neighbours})
        told.append((answer.status_code, re.sub(r'name="form_token" value="[^"]+"', "", answer.text)))
    assert told[0] == told[1]
    assert told[0][0] == 400


def test_learn_of_a_table_by_an_error_that_nobody_planned_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = house(folder)

    def fails(*_: object) -> None:
        raise KeyError("what depends on the table")

    monkeypatch.setattr("sudare.privacy.private_estimator.PrivateEstimator.planned", fails)
    with pytest.raises(DataError, match="does not fit its schema or these values"):
        ask(settings, "visits", "mean", {"epsilon": ["0.5"]}, who="eve", purpose="a talk")
    with pytest.raises(KeyError):
        ask(settings, "visits", "mean", {"epsilon": ["0.5"]}, who="aiko", purpose="a talk", is_owner=True)


def test_learn_from_the_ledger_what_is_wrong_with_a_table_that_may_change(folder: Path) -> None:
    told = set()
    for number, row in enumerate((",a", "30,nowhere", "thirty,a")):
        place = folder / str(number)
        place.mkdir()
        settings = house(place)
        growing = {"visits": dataclasses.replace(settings.tables["visits"], may_change=True)}
        settings = dataclasses.replace(settings, tables=growing)
        request = ask(settings, "visits", "histogram", {"epsilon": ["0.5"]}, who="eve", purpose="a talk")
        decide(settings, request.identity, 1, "approved", who="mori", reason="fits")
        with (place / "visits.csv").open("a") as table:
            table.write(f"{row}\n")
        ended = run(settings, request.identity)
        assert ended.state == "failed"
        last = Ledger(settings.ledger).account("visits").entries()[-1]
        told.add((last.body["event"], last.body["purpose"]))
    assert told == {("failed", "DataError")}


# To guess more passwords


def test_have_the_guesses_of_a_name_forgotten_by_guessing_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.web.sessions.MOST_COUNTED", 20)
    clock = Clock()
    sessions = Sessions(clock)
    for _ in range(MOST_GUESSES):
        assert sessions.count_guess("10.0.0.1", "aiko")
    assert all(sessions.count_guess("10.0.0.1", f"name{number}") for number in range(100))
    assert not sessions.count_guess("10.0.0.1", "aiko")
    clock.now += GUESS_SECONDS + 1
    assert sessions.count_guess("10.0.0.1", "aiko")


def test_guess_without_being_counted_where_all_counts_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.web.sessions.MOST_COUNTED", 3)
    sessions = Sessions(clock := Clock())
    for number in range(3 * MOST_GUESSES):
        assert sessions.count_guess("10.0.0.1", f"name{number % 3}")
    assert not any(sessions.count_guess("10.0.0.1", "aiko") for _ in range(2 * MOST_GUESSES))
    clock.now += GUESS_SECONDS + 1
    assert sessions.count_guess("10.0.0.1", "aiko")


@pytest.mark.parametrize("user", ["aiko", None])
def test_guess_for_nothing_with_passwords_that_are_too_long(monkeypatch: pytest.MonkeyPatch, user: str | None) -> None:
    """A guess that costs nothing is counted, and so many of them would push other counts out of memory."""
    kept, hashed = None if user is None else passwords.hashed_password("correct horse battery"), []
    plain = passwords._scrypt
    monkeypatch.setattr(passwords, "_scrypt", lambda *given: hashed.append(given) or plain(*given))
    assert not passwords.is_password("x" * (passwords.LONGEST_PASSWORD + 1), kept)
    assert len(hashed) == 1


# To learn how long a record is


class TestSizeOfATable:
    """One record that is one character longer makes a file one byte longer: its size is as private as the record."""

    @pytest.fixture(params=["now", "format 3"])
    def settings(
        self, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> RequestSettings:
        found = house(folder)
        with monkeypatch.context() as older:
            if request.param == "format 3":
                older.setattr(
                    source_identity, "_fingerprint", lambda s: f"{s.st_dev}:{s.st_ino}:{s.st_size}:{s.st_mtime_ns}"
                )
            part = Slice(folder / "visits.csv", Schema.load(folder / "visits.toml"), {"ward": "a"})
            account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0, source=folder / "visits.csv")
            PrivateHistogram(0.5, schema=part.schema, neighbours="add-remove", account=account).fit(part)
        ask(found, "visits", "mean", {"epsilon": ["0.5"]}, who="ken", purpose="p")
        return found

    @pytest.mark.parametrize("role", ["viewer", "analyst"])
    def test_is_in_nothing_that_the_page_gives(self, folder: Path, settings: RequestSettings, role: Role) -> None:
        status = (folder / "visits.csv").stat()
        client = TestPage(folder).client(role, "eve")
        for place in ("/budget-export", "/budget-export?format=csv", "/budget/visits"):
            text = client.get(place).text
            assert "visits" in text
            for told in ('files"', status.st_mtime_ns, "partition", str(folder)):
                assert str(told) not in text
            assert not re.search(rf"(?<![0-9a-f]){status.st_size}(?![0-9a-f])", text)

    def test_is_in_no_report(self, folder: Path, settings: RequestSettings) -> None:
        ledger = Ledger(folder / "ledger.db")
        text = json.dumps(report_values(ledger.account("visits"), ledger.head(), []))
        for told in ("files", "partition", str((folder / "visits.csv").stat().st_mtime_ns)):
            assert told not in text

    def test_cannot_be_tried_out_by_the_digest_of_a_request(self, settings: RequestSettings) -> None:
        """All else that the digest is made of is shown; asked twice, the same table gives two states."""
        first, second = (
            ask(settings, "visits", "mean", {"epsilon": ["0.5"]}, who="ken", purpose="p").newest for _ in range(2)
        )
        assert first.table_state != second.table_state
        table = settings.table("visits")
        assert is_in_state(table, first.table_state)
        assert is_in_state(table, second.table_state)


# To have the page fail


@pytest.mark.parametrize(
    "name", ["x" * 400, "%00", "..%2f..%2fetc", "%ff", "é" * 200], ids=["long", "nul", "up", "byte", "é"]
)
def test_a_name_in_an_address_is_answered_in_words(folder: Path, name: str) -> None:
    house(folder)
    table = TableSettings("visits", str(folder / "visits.csv"), "visits", "visits", budget=2.0)
    page = TestPage(folder, schemas=folder, tables={"visits": table})
    client, tried = page.client(), 0
    for route in page.app.routes:
        path = getattr(route, "path", "")
        if "{" not in path or path.startswith("/static"):
            continue
        for method in getattr(route, "methods", None) or ():
            address = re.sub(r"\{[^}]*\}", name, path)
            answer = client.submit(address) if method == "POST" else client.get(address)
            tried += 1
            assert answer.status_code < 500, (method, path)
    assert tried > 10


def test_a_file_among_the_releases_that_cannot_be_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends a file that the page stumbles over keeps nobody from the others."""
    settings = house(folder)
    account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0)
    mean = PrivateMean(epsilon=1.0, schema=Schema.load(folder / "visits.toml"), account=account)
    page = TestPage(folder)
    Release.of(mean.fit(folder / "visits.csv")).save(folder / "releases" / "ages.sudare", key=settings.key())

    def fails(*_: object) -> None:
        raise OverflowError

    monkeypatch.setattr("sudare.web.release_display._numbers", fails)
    client = page.client("viewer", "eve")
    assert client.get("/").status_code == 200
    assert "This release cannot be shown here." in client.get("/releases").text
    assert client.get("/releases/ages.sudare/file").status_code == 404


def test_files_with_names_in_another_encoding(folder: Path) -> None:
    """Names of files on an older computer in Japan: half of a character in an address would keep every page from being made."""
    settings = house(folder)
    account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0)
    mean = PrivateMean(epsilon=1.0, schema=Schema.load(folder / "visits.toml"), account=account)
    page = TestPage(folder)
    name = "年齢".encode("shift_jis")
    Release.of(mean.fit(folder / "visits.csv")).save(folder / "releases" / "a.sudare", key=settings.key())
    content = (folder / "releases" / "a.sudare").read_bytes()
    Path(os.fsdecode(os.fsencode(folder / "releases") + b"/" + name + b".sudare")).write_bytes(content)
    Path(os.fsdecode(os.fsencode(folder / "schemas") + b"/" + name + b".toml")).write_text(SCHEMA)
    client = page.client("viewer", "eve")
    for place in ("/", "/releases"):
        answer = client.get(place)
        assert (answer.status_code, answer.text.count('href="/releases/')) == (200, 1)
        assert "\\udc" in answer.text
    assert "is not written in UTF-8" in client.get("/releases").text
    assert client.get("/schemas").status_code == 200


def test_send_a_release_that_nobody_planned_for(folder: Path) -> None:
    """A range whose half no float holds."""
    house(folder)
    account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0)
    values: dict[str, Any] = {"epsilon": 1.0, "by": ["ward"], "mean_of": ["age"], "account": account}
    model = GroupedTable(schema=Schema.load(folder / "visits.toml"), **values).fit(folder / "visits.csv")
    Release.of(model).save(folder / "table.sudare", key=KEY)
    manifest = manifest_of((folder / "table.sudare").read_bytes())
    next(facts for name, facts in manifest["parameters"]["columns"] if name == "age")["high"] = 5e-324
    hostile = with_manifest((folder / "table.sudare").read_bytes(), manifest)
    client = TestPage(folder).client("viewer", "eve")
    sent = client.post("/verify", data={"form_token": client.form_token("/verify")}, files={"file": ("x", hostile)})
    assert sent.status_code == 400


def test_numbers_that_no_float_holds(folder: Path) -> None:
    """A range whose square is beyond all floats: refused before the charge, and in a file that somebody sends."""
    settings = house(folder)
    schema = Schema.load(folder / "visits.toml")
    account = Ledger(folder / "ledger.db").account("visits", epsilon=3.0)
    values: dict[str, Any] = {"epsilon": 1.0, "by": ["ward"], "variance_of": ["age"], "account": account}
    model = GroupedTable(schema=schema, **values).fit(folder / "visits.csv")
    Release.of(model).save(folder / "table.sudare", key=KEY)
    manifest = manifest_of((folder / "table.sudare").read_bytes())
    declared = next(facts for name, facts in manifest["parameters"]["columns"] if name == "age")
    declared["high"] = 1e160
    hostile = with_manifest((folder / "table.sudare").read_bytes(), manifest)
    client = TestPage(folder).client("viewer", "eve")
    sent = client.post("/verify", data={"form_token": client.form_token("/verify")}, files={"file": ("x", hostile)})
    assert sent.status_code == 400
    wide = Schema({**schema.columns, "age": Number(0, 1e160)})
    with pytest.raises(InvalidParameter, match="beyond 2⁵⁰⁰"):
        GroupedTable(schema=wide, **values).fit(folder / "visits.csv")
    assert account.spent().epsilon == 1.0
    assert settings.key() is not None


# To keep the page's processor busy, or its memory full


def test_send_many_large_files_at_once(folder: Path) -> None:
    """Each is held in memory: of one user one at a time is read, however many connections there are, and few in all."""
    page = TestPage(folder)
    turns: list[str] = []

    class Turns(FairTurns):
        @contextlib.asynccontextmanager
        async def turn(self, place: str) -> AsyncIterator[None]:
            async with super().turn(place):
                turns.append(place)
                yield

    page.services.receiving = Turns(1)
    client = page.client("viewer", "eve")
    token = {"form_token": client.form_token("/verify")}
    assert client.post("/verify", data=token, files={"file": ("x", b"no release")}).status_code == 400
    assert turns == ["eve"]
    page.client("steward").submit("/schemas", {"name": "new"})
    assert turns == ["eve"]


def test_ask_for_one_price_of_thousands_of_candidates(folder: Path) -> None:
    settings = house(folder)
    values = {"epsilon": ["1"], "target": ["ward"], "regularization": [",".join(["0.1"] * 3000)]}
    with pytest.raises(InvalidParameter, match="more than 100 values"):
        ask(settings, "visits", "logistic", values, who="eve", purpose="a talk", dry_run=True)


def test_ask_for_many_prices_at_once(folder: Path) -> None:
    house(folder)
    table = TableSettings("visits", str(folder / "visits.csv"), "visits", "visits", budget=2.0)
    page = TestPage(folder, schemas=folder, tables={"visits": table})
    form = {"table": "visits", "kind": "mean", "value-epsilon": "0.1", "purpose": "p", "act": "price"}
    client = page.client("analyst", "eve")
    with page.services.pricing("eve"):
        refused = client.submit("/requests/new", form)
        assert (refused.status_code, "still computing prices" in refused.text) == (400, True)
        assert page.client("analyst", "ken").submit("/requests/new", form).status_code == 200
    assert client.submit("/requests/new", form).status_code == 200
    with contextlib.ExitStack() as others:
        for number in range(MOST_PRICES):
            others.enter_context(page.services.pricing(f"user {number}"))
        assert client.submit("/requests/new", form).status_code == 400
    assert client.submit("/requests/new", form).status_code == 200


# To get between the page and those who use it


@pytest.mark.parametrize("folder_of_tables", ["/static", "/requests", "/srv/o'neil & sons"])
def test_folders_of_tables_are_left_out_of_what_is_said_and_nowhere_else(folder: Path, folder_of_tables: str) -> None:
    tables = {"visits": TableSettings("visits", f"{folder_of_tables}/visits.csv", "visits", "visits")}
    page = TestPage(folder, tables=tables)
    page.ledger()

    def told(_: object) -> None:
        raise DataError(f"'{folder_of_tables}/visits.csv' cannot be read.", "Look at it.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sudare.web.budget_pages.account_views", told)
        problem = html.unescape(page.client("viewer", "eve").get("/budget").text)
    assert "'visits.csv' cannot be read." in problem
    text = page.client("viewer", "eve").get("/").text
    assert all(f'href="{address}"' in text for address in ("/static/page.css", "/requests"))


def test_have_a_proxy_take_the_rest_of_a_form_for_a_request_of_somebody_else(folder: Path) -> None:
    """A body with two lengths: whoever takes the other one sees a second request in it."""
    client = TestPage(folder).client("viewer", "eve")
    form = {"content-type": "application/x-www-form-urlencoded", "content-length": "5"}
    answer = client.post("/verify", headers={**form, "transfer-encoding": "chunked"}, content=b"a=b&c")
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")
    assert "content-security-policy" in answer.headers


def test_a_disk_that_has_no_room_for_the_log_stops_nobody(folder: Path) -> None:
    house(folder)
    written: list[str] = []

    class Disk(io.StringIO):
        is_full = True

        def write(self, text: str) -> int:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(text)
            return len(text)

    page, disk = TestPage(folder), Disk()
    page.services.log = PageLog(disk)
    page.ledger().account("visits", epsilon=1.0)
    steward = page.client("steward")
    assert steward.submit("/budget/visits/raise", {"epsilon": "2", "reason": "more"}).status_code == 303
    assert steward.submit("/schemas", {"name": "new"}).status_code == 303
    disk.is_full = False
    assert steward.submit("/budget/visits/raise", {"epsilon": "3", "reason": "more"}).status_code == 303
    lines = [json.loads(line) for line in written]
    assert [line["event"] for line in lines] == ["not-written", "budget-raised"]
    assert lines[0]["count"] == 2


# To show a steward something else than what is kept, and to see what is the steward's


def page_of_a_house(folder: Path, **changes: Any) -> TestPage:
    """A page over a table that an analyst may ask about."""
    house(folder)
    tables = {"visits": TableSettings("visits", str(folder / "visits.csv"), "visits", "visits", budget=2.0)}
    return TestPage(folder, schemas=folder, signing_key=folder / "key.pem", tables=tables, **changes)


ASKED = {"table": "visits", "kind": "mean", "value-epsilon": "0.5", "act": "ask"}


@pytest.mark.parametrize("language", ["en", "ja"])
def test_ask_for_a_purpose_and_show_the_steward_another(folder: Path, language: str) -> None:
    page = page_of_a_house(folder)
    purpose = 'only by=["ward, and then every name to a newspaper"], --epsilon 9'
    page.client("analyst", "eve").submit("/requests/new", {**ASKED, "purpose": purpose})
    steward = page.client()
    steward.headers["accept-language"] = language
    (request,) = (folder / "requests").glob("[0-9a-f]*.json")
    for path in ("/", "/requests", f"/requests/{request.stem}"):
        assert purpose in html.unescape(steward.get(path).text)


def test_see_where_a_table_was_that_an_account_was_opened_for(folder: Path) -> None:
    page = page_of_a_house(folder)
    Ledger(folder / "ledger.db").account("visits", epsilon=2.0, source="/srv/elsewhere/visits.csv")
    for role in ("analyst", "steward"):
        told = page.client(role, "eve").submit("/requests/new", {**ASKED, "act": "price"}).text
        assert "pays for" in told
        assert ("/srv/elsewhere" in told) == (role == "steward")


def test_keep_a_japanese_page_busy_by_a_name(folder: Path) -> None:
    """What a message quotes was divided and compared with all messages, again and again: seconds, minutes for a long key of a schema."""
    page = page_of_a_house(folder)
    steward = page.client()
    steward.headers["accept-language"] = "ja"
    long = ("ab; cd. ef: gh  ij " * 400)[:7000]
    form = {"mode": "text", "digest": "", "text": f'[columns.age]\nkind = "number"\n"{long}" = 1\n'}
    steward.get("/schemas/visits")
    began = time.process_time()
    assert long[:60] in html.unescape(steward.submit("/schemas/visits", form).text)
    assert time.process_time() - began < 5


def test_have_a_module_run_from_the_folder_that_the_page_works_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may put files beside the table, and read no key, would have them run with the key."""
    settings = house(folder)
    (folder / "json.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    request = ask(settings, "visits", "mean", {"epsilon": ["0.5"]}, who="eve", purpose="a talk")
    decide(settings, request.identity, 1, "approved", who="aiko", reason="fits")
    monkeypatch.chdir(folder)
    assert start(settings, request.identity).wait(300) == 0
    assert settings.store.request(request.identity).state == "done"
    assert not (folder / "ran").exists()

"""Requests in real browsers: denied, refused, decided by two at once, gone on with after a kill, and from nothing to a release in twelve clicks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sudare import Ledger, Release
from sudare.consortium import Identity
from tests.e2e import page_kit as kit
from tests.e2e.clone_to_release import clicks_to_a_release, write_house
from tests.languages.english_left import english_left

pytestmark = pytest.mark.skipif(kit.CHROMIUM is None, reason="chromium is not installed")

MOST_CLICKS = 12


def asked(page: kit.Page, address: str, epsilon: str) -> str:
    """The address of a new request for a histogram."""
    page.goto(f"{address}requests/new?table=visits&kind=histogram")
    page.fill("[name=value-epsilon]", epsilon)
    page.fill("[name=purpose]", "how many stay how long")
    page.click("button[value=ask]")
    page.wait_for_selector("text=What is asked for")
    return page.url


def charges(house: Path) -> int:
    return [entry.kind for entry in Ledger(house / "ledger.db").account("visits").entries()].count("charge")


def test_a_request_is_denied_with_a_reason_that_the_analyst_reads(
    house: Path, address: str, browser: kit.Browser
) -> None:
    analyst, steward = kit.signed_in(browser, address, "ken"), kit.signed_in(browser, address, "aiko")
    before = charges(house)
    url = asked(analyst, address, "0.1")
    steward.goto(url)
    steward.click("button[value=denied]")
    assert steward.locator("[name=reason]:invalid").count() == 1
    steward.fill("[name=reason]", "ask for wards only")
    steward.click("button[value=denied]")
    steward.wait_for_selector(".state.bad")
    analyst.reload()
    analyst.wait_for_selector("text=ask for wards only")
    assert charges(house) == before


def test_what_the_budget_does_not_allow_is_refused_and_charges_nothing(
    house: Path, address: str, browser: kit.Browser
) -> None:
    analyst, steward = kit.signed_in(browser, address, "ken"), kit.signed_in(browser, address, "aiko")
    before = charges(house)
    steward.goto(asked(analyst, address, "50"))
    steward.wait_for_selector("text=The account does not have that much left")
    steward.fill("[name=reason]", "seen")
    steward.click("button[value=approved]")
    steward.wait_for_selector("text=Nothing was charged.")
    assert charges(house) == before


def test_two_browsers_at_once(house: Path, address: str, browser: kit.Browser) -> None:
    """One halves ε while the other looks at what was asked first: the late approval is told, and approves nothing."""
    analyst = kit.signed_in(browser, address, "ken")
    one, two = (kit.signed_in(browser, address, "aiko", anew=bool(number)) for number in range(2))
    before = charges(house)
    url = asked(analyst, address, "0.1")
    one.goto(url)
    two.goto(url)
    one.click("text=Half of ε")
    one.wait_for_selector("text=It costs ε = 0.05")
    two.fill("[name=reason]", "seen")
    two.click("button[value=approved]")
    two.wait_for_selector("text=was changed: its version is 2, not 1")
    assert charges(house) == before
    one.fill("[name=reason]", "seen")
    one.click("button[value=approved]")
    one.wait_for_selector("a[download]")
    assert charges(house) == before + 1


def test_without_a_mouse(house: Path, address: str, browser: kit.Browser) -> None:
    """From the overview to a release with Tab, Space, Enter and letters alone."""
    analyst, steward = kit.signed_in(browser, address, "ken"), kit.signed_in(browser, address, "aiko")
    before = charges(house)
    kit.pressed_until(analyst, "Tab", "nav a[href='/requests']")
    analyst.keyboard.press("Enter")
    analyst.wait_for_url("**/requests")
    kit.pressed_until(analyst, "Tab", "main a[href='/requests/new']")
    analyst.keyboard.press("Enter")
    analyst.wait_for_url("**/requests/new")
    kit.pressed_until(analyst, "Tab", "main a[href$='kind=table']")
    analyst.keyboard.press("Enter")
    analyst.wait_for_selector("[name=value-epsilon]")
    kit.pressed_until(analyst, "Tab", "[name=value-epsilon]")
    analyst.keyboard.type("0.1")
    for chosen in ("[name=value-by][value=ward]", "[name=value-mean_of][value=stay]"):
        kit.pressed_until(analyst, "Tab", chosen)
        analyst.keyboard.press("Space")
    kit.pressed_until(analyst, "Tab", "[name=purpose]")
    analyst.keyboard.type("stays by ward")
    analyst.keyboard.press("Enter")
    analyst.wait_for_selector("text=What is asked for")

    steward.reload()
    kit.pressed_until(steward, "Tab", "main a[href^='/requests/']")
    steward.keyboard.press("Enter")
    steward.wait_for_selector("button[value=approved]")
    kit.pressed_until(steward, "Tab", "[name=reason]")
    steward.keyboard.type("seen")
    kit.pressed_until(steward, "Tab", "button[value=approved]")
    steward.keyboard.press("Enter")
    steward.wait_for_selector("a[download]")
    kit.pressed_until(steward, "Tab", "a[download]")
    assert charges(house) == before + 1


def test_a_waiting_request_shows_its_expected_errors_as_a_picture(address: str, browser: kit.Browser) -> None:
    """Bars whose lengths are the shares that their labels tell, and which a screen reader says; and nothing English in Japanese."""
    analyst = kit.signed_in(browser, address, "ken")
    analyst.goto(f"{address}requests/new?table=visits&kind=table")
    analyst.fill("[name=value-epsilon]", "0.2")
    for chosen in ("value-by][value=ward", "value-mean_of][value=stay", "value-quantile_of][value=age"):
        analyst.check(f"[name={chosen}]")
    analyst.fill("[name=purpose]", "ages and stays by ward")
    analyst.click("button[value=price]")
    analyst.wait_for_selector("text=Nothing was charged, and nobody was asked yet.")
    analyst.click("button[value=ask]")
    analyst.wait_for_selector("text=What is asked for")
    told = dict(
        zip(analyst.locator("dl.errors dt").all_inner_texts(), analyst.locator("dl.errors dd").all(), strict=True)
    )
    assert list(told) == ["counts", "means of stay", "medians of age", "ends of 95 % intervals of medians of age"]
    for each in told.values():
        words = each.inner_text()
        size, whole = (float(number.replace(",", "")) for number in re.findall(r"(?:about|bar:) ([\d.,]+)", words))
        share = float(each.locator("rect.fill").get_attribute("width") or 0)
        assert share == pytest.approx(100 * size / whole, rel=0.1, abs=0.1)
        assert each.locator("svg").get_attribute("aria-label") == words.partition(" (")[0].strip()
    steward = kit.signed_in(browser, address, "aiko", language="ja-JP")
    steward.goto(analyst.url)
    steward.wait_for_selector("dl.errors")
    assert english_left(kit.told(steward), names=("ages and stays",)) == []


def test_two_people_approve_and_neither_asked(tmp_path: Path, browser: kit.Browser) -> None:
    settings = kit.furnished(tmp_path)
    another = settings.read_text().partition("[users.aiko]")[2].partition("[users")[0]
    settings.write_text(f"two_people = true\n{settings.read_text()}\n[users.mori]{another}")
    before = charges(tmp_path)
    with kit.served(tmp_path) as address:
        one, two = (
            kit.signed_in(browser, address, "aiko", anew=True),
            kit.signed_in(browser, address, "mori", anew=True),
        )
        url = asked(kit.signed_in(browser, address, "ken", anew=True), address, "0.1")
        own = asked(one, address, "0.2")
        assert one.locator("button[value=approved]").count() == 0
        one.goto(url)
        one.fill("[name=reason]", "seen")
        one.click("button[value=approved]")
        one.wait_for_selector("text=Version 1 approved by aiko: seen")
        assert one.locator("button[value=approved]").count() == 0
        assert charges(tmp_path) == before
        two.goto(url)
        two.fill("[name=reason]", "seen too")
        two.click("button[value=approved]")
        two.wait_for_selector("a[download]")
        assert charges(tmp_path) == before + 1
        two.goto(own)
        assert two.locator("button[value=approved]").count() == 1


@contextlib.contextmanager
def killable(folder: Path, *, environment: dict[str, str] | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server that a test may kill, and its address."""
    program = [sys.executable, "-c", "from sudare.cli.main import app; app()", "page", "--port", "0", "--json"]
    with subprocess.Popen(
        program, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    ) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["address"], server
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGINT)
                server.wait(120)


def test_a_server_killed_in_the_middle_of_a_job(tmp_path: Path, browser: kit.Browser) -> None:
    kit.furnished(tmp_path)
    before = charges(tmp_path)
    with killable(tmp_path) as (address, server):
        analyst, steward = kit.signed_in(browser, address, "ken"), kit.signed_in(browser, address, "aiko")
        url = asked(analyst, address, "0.1")
        steward.goto(url)
        steward.fill("[name=reason]", "seen")
        steward.click("button[value=approved]")
        steward.wait_for_selector("text=It runs")
        # The server and the process that runs the request, as when a machine loses its power.
        jobs = psutil.Process(server.pid).children()
        server.kill()
        for job in jobs:
            job.kill()
        server.wait(120)
        psutil.wait_procs(jobs, timeout=120)
    with killable(tmp_path) as (address, _):
        steward = kit.signed_in(browser, address, "aiko", anew=True)
        steward.goto(f"{address}requests/{url.rpartition('/')[2]}")
        steward.wait_for_selector("text=What came of it")
        state = steward.locator("h1 .state").inner_text()
    assert state in ("done", "interrupted")
    assert charges(tmp_path) == before + 1
    files = list((tmp_path / "releases").glob("visits-*"))
    assert len(files) == (1 if state == "done" else 0)
    Ledger(tmp_path / "ledger.db").verify()


def test_from_a_table_to_an_approved_release_in_twelve_clicks(tmp_path: Path, browser: kit.Browser) -> None:
    """docs/requests.md walks through this: a folder with a table, a key and five lines of settings."""
    write_house(tmp_path)
    key = Identity.generated()
    key.save(tmp_path / "key.pem", kit.PASSWORD.encode())
    with killable(tmp_path, environment={"SUDARE_PASSPHRASE": kit.PASSWORD}) as (address, _):
        page = kit.opened(browser, address)
        clicks = clicks_to_a_release(page, tmp_path / "received.sudare")
    assert clicks <= MOST_CLICKS, clicks
    assert clicks == 9
    release = Release.load(tmp_path / "received.sudare", trusted=[key.signing_key.public_key()])
    assert release.learner == "GroupedTable"
    release.check_entered(Ledger(tmp_path / "ledger.db"))

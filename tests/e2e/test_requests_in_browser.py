"""Requests in real browsers: denied, refused, decided by two at once, gone on with after a kill, and from nothing to a release in twelve clicks."""

from __future__ import annotations

import contextlib
import json
import os
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

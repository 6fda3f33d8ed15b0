"""A page as a steward has it: a house with a table and some releases, a server process of its own, and real browsers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright

from sudare import Ledger, PrivateHistogram, PrivateMean, Release
from sudare.consortium import Member
from sudare.files import write_new
from sudare.schema import Schema
from sudare.web.passwords import hashed_password
from tests.cli.conftest import invoked
from tests.cli.test_consortium_commands import EASY_SCRYPT

# Debian has the browser also without its windows: the same engine, for less than half the processor time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PASSWORD = "correct horse battery"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 844}
# The machine may be busy.
PATIENCE_MILLISECONDS = 40_000

SCHEMA = """\
# Bounds from the hospital's own rules.
[columns.age]
kind = "number"
low = 0
high = 110
unit = "years"

[columns.stay]
kind = "number"
low = 0
high = 60
unit = "days"

[columns.ward]
kind = "category"
values = ["cardiology", "surgery", "maternity", "paediatrics"]
"""


def furnished(folder: Path) -> Path:
    """Settings of a house: a table, its schema, keys, an account with a history, two releases, a draft, three users."""
    random = np.random.default_rng(7)
    rows = 4000
    pd.DataFrame(
        {
            "age": random.normal(55, 18, rows).clip(0, 110).round(),
            "stay": random.gamma(2.0, 2.4, rows).clip(0, 60).round(1),
            "ward": random.choice(["cardiology", "surgery", "maternity", "paediatrics"], rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
    ).to_parquet(folder / "visits.parquet")
    for name in ("releases", "schemas", "requests"):
        (folder / name).mkdir()
    (folder / "schemas" / "visits.toml").write_text(SCHEMA)
    (folder / "schemas" / "stays.toml").write_text(Schema.draft(pd.DataFrame({"arrived": ["a"], "kilograms": [1.5]})))
    key = Ed25519PrivateKey.generate()
    write_new(folder / "key.pem", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pub.pem").write_bytes(public)
    _history(folder, key)
    member = joined(folder)
    kept = hashed_password(PASSWORD)
    users = "\n".join(
        f'[users.{name}]\nrole = "{role}"\npassword = "{kept}"\n'
        for name, role in (("aiko", "steward"), ("ken", "analyst"), ("lena", "viewer"))
    )
    settings = f"""
ledger = "ledger.db"
releases = "releases"
schemas = "schemas"
requests = "requests"
signing_key = "key.pem"
trusted_keys = ["key.pub.pem"]
member = "{member.relative_to(folder)}"

[tables.visits]
source = "visits.parquet"

{users}
"""
    write_new(folder / "page.toml", settings.encode())
    return folder / "page.toml"


def _history(folder: Path, key: Ed25519PrivateKey) -> None:
    ledger = Ledger(folder / "ledger.db")
    account = ledger.account("visits", epsilon=2.0, source=folder / "visits.parquet")
    ledger.account("laboratory", epsilon=1.0)
    schema = Schema.from_toml(SCHEMA)
    numbers = Schema({name: schema.columns[name] for name in ("age", "stay")})
    wards = Schema({"ward": schema.columns["ward"]})
    place = folder / "visits.parquet"
    mean = PrivateMean(epsilon=0.2, schema=numbers, account=account).fit(place)
    Release.of(mean).save(folder / "releases" / "means-2026.sudare", key=key)
    counts = PrivateHistogram(epsilon=0.3, schema=wards, account=account).fit(place)
    Release.of(counts).save(folder / "releases" / "wards-2026.sudare", key=key)
    ledger.raise_budget("visits", epsilon=3.0, reason="aiko: a second study was approved by the board")


HOSPITALS = ("island-hospital", "north-general", "st-marys")


def joined(folder: Path) -> Path:
    """Three hospitals that have agreed to learn together and have signed; the file of one of them, whose node runs, as its state says."""
    shared = folder / "consortium"
    shared.mkdir()
    random = np.random.default_rng(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shared)
        patch.setenv("SUDARE_PASSPHRASE", PASSWORD)
        patch.setattr(*EASY_SCRYPT)
        (shared / "schema.toml").write_text(
            '[columns.age]\nkind = "number"\nlow = 0\nhigh = 110\n[columns.ill]\nkind = "label"\nclasses = [0, 1]\n'
        )
        _run("consortium", "new", "agreement.toml", "--name", "three-hospitals", "--schema", "schema.toml",
             "--task", "risk learning method=one-sum epsilon=0.5 parameters.fit_intercept=true",
             "--task", "scales scaler epsilon=0.25")  # fmt: skip
        for name in HOSPITALS:
            pd.DataFrame({"age": random.normal(55, 18, 300), "ill": random.integers(0, 2, 300)}).to_parquet(
                f"{name}.parquet"
            )
            _run("consortium", "join", "agreement.toml", "--name", name, "--folder", name,
                 "--data", f"{name}.parquet", "--epsilon", "2", "--delta", "1e-6")  # fmt: skip
        for name in HOSPITALS:
            _run("consortium", "sign", "--member", f"{name}/member.toml")
    file = shared / HOSPITALS[0] / "member.toml"
    own = Member.load(file)
    own.state_folder.mkdir(exist_ok=True)
    task = {"state": "running", "round": 2, "error": None, "files": []}
    told = {"agreement": own.agreement().digest, "process": os.getpid(), "present": [HOSPITALS[2]]}
    (own.state_folder / "node.json").write_text(json.dumps({**told, "tasks": {"scales": task}}))
    return file


def _run(*words: str) -> None:
    outcome = invoked(*words)
    assert outcome.exit_code == 0, outcome.stderr


class Address(str):
    """Where a page answers, and the process that does."""

    process: int = 0


@contextlib.contextmanager
def served(folder: Path, *options: str, before: str = "") -> Iterator[Address]:
    """The address that a server process of its own printed; it is stopped at the end. `before` is done there first."""
    program = [
        sys.executable,
        "-c",
        f"{before}\nfrom sudare.cli.main import app; app()",
        "page",
        "--port",
        "0",
        "--json",
        *options,
    ]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        try:
            assert server.stdout is not None
            address = Address(json.loads(server.stdout.readline())["address"])
            address.process = server.pid
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(120)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's browser, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: Browser, address: str, *, phone: bool = False, language: str = "en-GB") -> Page:
    """A browser of its own, without anybody's cookies, at an address. Dialogs and errors of scripts fail the test that sees them."""
    context = browser.new_context(
        viewport=PHONE if phone else DESKTOP,  # type: ignore[arg-type]
        locale=language,
        color_scheme="light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    page = context.new_page()
    page.on("dialog", _a_script_ran)
    page.goto(address)
    return page


_SIGNED_IN: WeakKeyDictionary[Browser, dict[tuple[str, str, bool, str], BrowserContext]] = WeakKeyDictionary()


def signed_in(
    browser: Browser, address: str, user: str, *, phone: bool = False, language: str = "en-GB", anew: bool = False
) -> Page:
    """The page of somebody who has signed in with a password: in an earlier test of the same browser, unless it is to be done anew.

    Each user has a browser of their own, without anybody else's cookies. Every sign-in takes a second and two processes.
    """
    known = _SIGNED_IN.setdefault(browser, {})
    place = (address, user, phone, language)
    if place in known and not anew:
        for earlier in known[place].pages:
            earlier.close()
        page = known[place].new_page()
        page.on("dialog", _a_script_ran)
        page.goto(address)
    else:
        page = opened(browser, f"{address}sign-in", phone=phone, language=language)
        page.fill("input[name=user]", user)
        page.fill("input[name=password]", PASSWORD)
        page.press("input[name=password]", "Enter")
        known.setdefault(place, page.context)
    page.wait_for_selector("form.who")
    return page


def told(page: Page) -> str:
    """All that a page says, with what is folded away and what only a screen reader says."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    labels: list[str] = page.evaluate(
        "[...document.querySelectorAll('[aria-label]')].map(each => each.getAttribute('aria-label'))"
    )
    return "\n".join([page.locator("body").inner_text(), *labels])


def pressed_until(page: Page, key: str, selector: str, most: int = 80) -> None:
    """Press a key until what the selector names has the focus, as somebody without a mouse does."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached with {key}")


def _a_script_ran(dialog: Dialog) -> None:
    raise AssertionError("a script ran")

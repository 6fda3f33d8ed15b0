"""The demo as a person runs it: two real processes, the files they leave, and the page as a browser sees it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sudare.demo import SCENARIOS
from sudare.privacy import Ledger
from tests.cli.conftest import invoked
from tests.e2e import page_kit as kit

LARGEST_REPORT_BYTES = 2_000_000
SUDARE = [sys.executable, "-c", "from sudare.cli.main import app; app()"]
# The demo's process writes its page in Japanese beside the English one: the scenarios take long, and are the same in both.
SUDARE_DEMO = [
    sys.executable,
    "-c",
    """
from pathlib import Path
from sudare.cli.main import app
from sudare.demo import page

html = page.page_html

def in_both_languages(made, language):
    Path("japanese.html").write_text(html(made, "ja"), "utf-8")
    return html(made, language)

page.page_html = in_both_languages
app()
""",
    "demo",
]
CHROMIUM = kit.CHROMIUM
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HIGHEST_PAGE_PIXELS = 5_000
# Beside other tests, threads of numpy would only wait for each other, and all that while keep a core busy; and programs of JAX
# that were compiled once are kept (Makefile).
TIME_SAVERS = {
    name: value
    for name, value in os.environ.items()
    if name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") or name.startswith("JAX_")
}


@dataclass(frozen=True)
class Played:
    """A demo that was run in an empty folder."""

    folder: Path
    stdout: str

    @property
    def report(self) -> str:
        return (self.folder / "demo" / "report.html").read_text("utf-8")


def played_in(folder: Path) -> Played:
    """The demo, run in a folder as on a fresh machine: next to no environment."""
    surroundings = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONUTF8": "1", **TIME_SAVERS}
    done = subprocess.run(
        SUDARE_DEMO,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=surroundings,
    )
    assert done.returncode == 0, done.stderr
    return Played(folder, done.stdout)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_in(tmp_path_factory.mktemp("shell"))


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_what_the_terminal_shows(played: Played) -> None:
    lines = played.stdout.splitlines()
    assert lines[-1].startswith("Open demo/report.html   (")
    assert lines[-1].endswith("; nothing left this machine)")
    assert [line[:2] for line in lines[:-1]] == ["✓ "] * 7
    assert "ε = 1.5 of 3.0 spent" in lines[0]
    assert "2 of 2" in lines[1]
    assert "5 of 5" in lines[2]
    assert "learned from 6,000 people (ε = 1.0 of 3.0 spent) is right for" in lines[3]
    assert "each published a private model (ε = 2.0 of 3.0 spent); combined accuracy 0.9" in lines[4]
    assert "found 3 ways of running from sums alone" in lines[5]
    assert "households' answers perturbed before they left (k = 2)" in lines[6]


def test_the_report_is_one_small_file(played: Played) -> None:
    assert len(played.report.encode()) <= LARGEST_REPORT_BYTES
    assert not re.search(r"https?:|//[a-z]", re.sub(r"base64,[A-Za-z0-9+/=]+", "", played.report))
    tags = Tags(played.report)
    images = [values for tag, values in tags.found if tag in ("img", "source")]
    assert images
    assert all(str(values.get("src") or values.get("srcset")).startswith("data:image/") for values in images)
    assert all(values["alt"] for tag, values in tags.found if tag == "img")
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tags.found}


def test_the_report_tells_the_whole_story(played: Played) -> None:
    for text in (
        "The guarantee: ", "strong", "ε 1.5 of 3.0", "BudgetExceeded", "Nothing was computed or spent", "NotCharged",
        "LedgerCorrupt", "LedgerRolledBack", "ReleaseMalformed", "ReleaseUntrusted", "NotReleasable", "ε 2.0 of 3.0",
            "exact sums of a dictionary training", "Linking: nobody can link", "PrivateMLPClassifier", "whole-numbered noise",
    ):  # fmt: skip
        assert text in played.report
    assert "50 % of what may ever be told" in played.report
    assert played.report.count("How to read this") == played.report.count("<section ") == 13


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_browser_shows_the_page_within_5000_pixels(played: Played, browser: kit.Browser, language: str) -> None:
    """Nothing is opened yet: every card, ledger and explanation is folded, and can be opened."""
    page_file = played.folder / ("demo/report.html" if language == "en" else "japanese.html")
    assert f'<html lang="{language}">' in page_file.read_text("utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(page_file.as_uri())
    folded = page.evaluate("document.documentElement.scrollHeight")
    cards = page.locator(".card details")
    assert not any(card.get_attribute("open") is not None for card in cards.all())
    page.locator("summary").first.click()
    opened = page.evaluate("document.documentElement.scrollHeight")
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert folded <= HIGHEST_PAGE_PIXELS
    assert opened > folded
    assert wide == 1280


def test_a_demo_in_japanese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one scenario: all of them are in both languages above."""
    monkeypatch.setattr("sudare.demo.page.SCENARIOS", {"hospitals": SCENARIOS["hospitals"]})
    shown = invoked("--lang", "ja", "demo", "--output", str(tmp_path / "demo"))
    assert shown.exit_code == 0, shown.stderr
    assert re.match(r"✓ 十の病院 .*ε = 3\.0 のうち 2\.0", shown.stdout)
    assert '<html lang="ja">' in (tmp_path / "demo" / "report.html").read_text("utf-8")


def test_the_ledger_of_the_demo_is_real(played: Played) -> None:
    clinic = played.folder / "demo" / "run-1" / "clinic"
    ledger = Ledger(clinic / "ledger.db", create=False)
    ledger.verify()
    assert [entry.kind for entry in ledger.entries()] == [
        "ledger", "open", *["charge", "result", "release"] * 2, "open", "charge", "result", "release",
    ]  # fmt: skip
    assert ledger.account("screening-2026").spent().epsilon == 1.0
    assert ledger.account("patients-2026").remaining().epsilon == 1.5
    assert (clinic / "key.pem").stat().st_mode & 0o077 == 0


def test_a_terminal_without_greek_does_not_crash(played: Played) -> None:
    clinic = played.folder / "demo" / "run-1" / "clinic"
    command = [*SUDARE, "inspect", "ages.sudare", "--trusted", "public.pem"]
    surroundings = {"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"], **TIME_SAVERS}
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=clinic, env=surroundings)
    assert "? = 1.0, ? = 0: strong" in shown.stdout


@pytest.mark.long
def test_a_second_run_leaves_the_first_alone(played: Played, tmp_path: Path) -> None:
    shutil.copytree(played.folder / "demo", tmp_path / "demo")
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    before = {path: path.read_bytes() for path in (tmp_path / "demo" / "run-1").rglob("*") if path.is_file()}
    again = invoked("demo", "--output", str(tmp_path / "demo"), "--json")
    assert again.exit_code == 0, again.stderr
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["mine.txt", "report.html", "run-1", "run-2"]
    assert {path: path.read_bytes() for path in (tmp_path / "demo" / "run-1").rglob("*") if path.is_file()} == before
    assert "run-2" in (tmp_path / "demo" / "report.html").read_text("utf-8")


def test_nothing_of_somebody_else_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<p>my thesis</p>")
    refused = invoked("demo", "--output", str(tmp_path))
    assert refused.exit_code == 10
    assert "was not written by the demo" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "<p>my thesis</p>"
    into_a_file = invoked("demo", "--output", str(tmp_path / "report.html"))
    assert into_a_file.exit_code == 10


def test_a_cheat_that_works_fails_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "verify", lambda self, known=(): self.head())
    failed = invoked("demo", "--output", str(tmp_path / "demo"))
    assert failed.exit_code == 60
    assert "What must not work did: an entry of the ledger edited" in failed.stderr
    assert not (tmp_path / "demo" / "report.html").exists()


def rendered_in_chromium(page: Path, width: int, folder: Path, *, allowed: bool = True) -> str:
    """The title after layout: what the probe below wrote there. The page's policy lets no script run unless that one is allowed by its nonce."""
    probe = (
        "<script nonce=probe>onload=()=>{const w=document.documentElement;"
        "document.title=[w.scrollWidth,w.clientWidth,[...document.images].every(i=>i.complete&&i.naturalWidth>100)].join(' ')}</script>"
    )
    probed = folder / "probed.html"
    text = page.read_text("utf-8").replace("</body>", f"{probe}</body>")
    policy = "default-src 'none'"
    assert policy in text
    probed.write_text(text.replace(policy, f"{policy}; script-src 'nonce-probe'", 1) if allowed else text, "utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", "--dump-dom", probed.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8", timeout=300)
    title = re.search(r"<title>([^<]*)</title>", done.stdout)
    assert title is not None
    return title[1]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_shows_every_picture_and_needs_no_sideways_scrolling(played: Played, tmp_path: Path) -> None:
    # Headless windows are at least 500 pixels wide: narrow enough for the layout of telephones.
    title = rendered_in_chromium(played.folder / "demo" / "report.html", 500, tmp_path)
    content_width, window_width, all_loaded = title.split()
    assert all_loaded == "true"
    assert int(content_width) <= int(window_width) <= 544


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_runs_no_script_on_a_page(played: Played, tmp_path: Path) -> None:
    page = played.folder / "demo" / "report.html"
    title = rendered_in_chromium(page, 500, tmp_path, allowed=False)
    assert f"<title>{title}</title>" in page.read_text("utf-8")

"""Screenshots of every page, on a desktop and on a phone: `python -m tests.e2e.page_screenshots` writes docs/images/page/*.png."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.e2e import page_kit as kit

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "page"
# By the name of the picture.
PAGES = {
    "overview": "",
    "budget": "budget",
    "account": "budget/visits",
    "ask": "requests/new",
    "ask-form": "requests/new?table=visits&kind=histogram",
    "requests": "requests",
    "releases": "releases",
    "release": "releases/wards-2026.sudare",
    "verify": "verify",
    "schemas": "schemas",
    "schema": "schemas/visits",
    "draft": "schemas/stays",
    "consortium": "consortium",
    "missing": "nothing",
}
# Their pictures tell more than the rest when folded to one screen.
SHORT = ("schema", "draft", "ask-form")
# Those that the Japanese documentation shows.
JAPANESE = ("overview", "account", "request", "release", "draft", "consortium")
JAPANESE_ON_PHONE = ("account",)


_FONTS = shutil.which("fc-list")
HAS_JAPANESE_FONT = _FONTS is not None and bool(
    subprocess.run([_FONTS, ":lang=ja"], capture_output=True, check=False).stdout
)


def main() -> None:
    """Write all pictures; those of a Japanese browser into a folder of their own."""
    (FOLDER / "ja").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, kit.chromium() as browser:
        kit.furnished(Path(folder))
        with kit.served(Path(folder)) as address:
            request = _asked(kit.signed_in(browser, address, "ken"), address)
            _taken(kit.opened(browser, f"{address}sign-in"), "sign-in", full=False)
            pages = {**PAGES, "request": request}
            for suffix, phone in (("", False), ("-phone", True)):
                page = kit.signed_in(browser, address, "aiko", phone=phone)
                for name, path in pages.items():
                    page.goto(f"{address}{path}")
                    _taken(page, f"{name}{suffix}", full=name not in SHORT)
                japanese = kit.signed_in(browser, address, "aiko", phone=phone, language="ja-JP")
                for name in JAPANESE_ON_PHONE if phone else JAPANESE:
                    japanese.goto(f"{address}{pages[name]}")
                    _taken(japanese, f"ja/{name}{suffix}", full=name not in SHORT)


def _taken(page: kit.Page, name: str, *, full: bool) -> None:
    if not HAS_JAPANESE_FONT:
        # The name of the language would be three boxes.
        page.evaluate("document.querySelector('.languages').style.visibility = 'hidden'")
    page.screenshot(path=FOLDER / f"{name}.png", full_page=full)


def _asked(page: kit.Page, address: str) -> str:
    """The path of a request that waits for the steward."""
    page.goto(f"{address}requests/new?table=visits&kind=table")
    page.fill("[name=value-epsilon]", "0.4")
    for chosen in ("value-by][value=ward", "value-mean_of][value=age", "value-quantile_of][value=stay"):
        page.check(f"[name={chosen}]")
    page.fill("[name=purpose]", "visits by ward, with medians of stay")
    page.click("button[value=ask]")
    page.wait_for_selector("text=What is asked for")
    return page.url.removeprefix(address)


if __name__ == "__main__":
    main()

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
    "missing": "nothing",
}
# Their pictures tell more than the rest when folded to one screen.
SHORT = ("schema", "draft", "ask-form")


_FONTS = shutil.which("fc-list")
HAS_JAPANESE_FONT = _FONTS is not None and bool(
    subprocess.run([_FONTS, ":lang=ja"], capture_output=True, check=False).stdout
)


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, kit.chromium() as browser:
        kit.furnished(Path(folder))
        with kit.served(Path(folder)) as address:
            _asked(kit.signed_in(browser, address, "ken"), address)
            _taken(kit.opened(browser, f"{address}sign-in"), "sign-in", full=False)
            for suffix, phone in (("", False), ("-phone", True)):
                page = kit.signed_in(browser, address, "aiko", phone=phone)
                for name, path in PAGES.items():
                    page.goto(f"{address}{path}")
                    _taken(page, f"{name}{suffix}", full=name not in SHORT)
                page.goto(f"{address}requests")
                page.locator("main a[href^='/requests/']").last.click()
                page.wait_for_selector("button[value=approved]")
                _taken(page, f"request{suffix}", full=True)


def _taken(page: kit.Page, name: str, *, full: bool) -> None:
    if not HAS_JAPANESE_FONT:
        # The name of the language would be three boxes.
        page.evaluate("document.querySelector('.languages').style.visibility = 'hidden'")
    page.screenshot(path=FOLDER / f"{name}.png", full_page=full)


def _asked(page: kit.Page, address: str) -> None:
    """A request that waits for the steward."""
    page.goto(f"{address}requests/new?table=visits&kind=histogram")
    page.fill("[name=value-epsilon]", "0.4")
    page.fill("[name=purpose]", "how many patients stay how long")
    page.click("button[value=ask]")
    page.wait_for_url("**/requests/*")


if __name__ == "__main__":
    main()

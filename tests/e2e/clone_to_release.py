"""From a clone to an approved, verified release with a page: `python -m tests.e2e.clone_to_release [REPOSITORY]` prints the seconds and clicks.

What a person does is done by a browser without a window, from this interpreter; all else by what is installed into a new environment from the clone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e import page_kit as kit

HERE = Path(__file__).resolve().parents[2]
BRANCHES = ("東京", "大阪", "名古屋", "札幌")
# As such tables are: in the encoding of a spreadsheet, with a number of the customer, a date, and an amount with a long tail.
TABLE = "顧客番号,契約日,支店,貸付額\n" + "".join(
    f"K{row:05d},2025-{row % 12 + 1:02d}-{row % 28 + 1:02d},{BRANCHES[row * row % 11 % 4]},{round(1e5 * 1.004**row)}\n"
    for row in range(1200)
)
SETTINGS = """\
signing_key = "key.pem"
[tables.loans]
source = "loans.csv"
encoding = "cp932"
budget = 3.0
"""


def write_house(folder: Path) -> None:
    """The table and the settings of a new house."""
    (folder / "loans.csv").write_bytes(TABLE.encode("cp932"))
    (folder / "page.toml").write_text(SETTINGS)


class Clicks:
    """A person at a page who counts clicks. Typing and moving between fields is by keyboard."""

    def __init__(self, page: kit.Page) -> None:
        self.page, self.count = page, 0

    def click(self, selector: str) -> None:
        """Click on the first that fits."""
        self.count += 1
        self.page.locator(selector).first.click()


def clicks_to_a_release(page: kit.Page, received: Path) -> int:
    """Declare the table's schema, ask for numbers by group, approve and download them; how many clicks that took."""
    person = Clicks(page)
    person.click("main button:has-text('Begin its schema')")
    page.wait_for_selector("[name^=low-]")
    places = {page.locator(f"[name=name-{place}]").input_value(): place for place in range(4)}
    typed = {
        "first": ("契約日", "2025-01-01"),
        "last": ("契約日", "2025-12-31"),
        "values": ("支店", "\n".join(BRANCHES)),
        "low": ("貸付額", "0"),
        "high": ("貸付額", "20000000"),
    }
    for field, (column, text) in typed.items():
        page.fill(f"[name={field}-{places[column]}]", text)
    person.click(f"[name=remove-{places['顧客番号']}]")
    person.click("main form button:has-text('Save')")
    page.wait_for_selector("text=was saved")
    person.click("main >> text=Counts, means, variances and quantiles by group")
    page.fill("[name=value-epsilon]", "0.5")
    person.click("[name=value-by][value=支店]")
    person.click("[name=value-mean_of][value=貸付額]")
    page.fill("[name=purpose]", "loans by branch")
    person.click("button[value=ask]")
    page.fill("[name=reason]", "seen")
    person.click("button[value=approved]")
    page.wait_for_selector("a[download]")
    with page.expect_download() as saved:
        person.click("a[download]")
    saved.value.save_as(received)
    return person.count


def main(repository: str) -> None:
    """Time each step in a folder of its own, and print them."""
    environment = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["SUDARE_PASSPHRASE"] = kit.PASSWORD
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder, bin_folder = Path(place) / "house", Path(place) / "venv" / "bin"
        folder.mkdir()

        def timed(step: str, *program: str | Path) -> str:
            began = time.monotonic()
            done = subprocess.run(program, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            seconds[step] = round(time.monotonic() - began, 1)
            return done.stdout

        timed("clone", "git", "clone", "-q", repository, "../clone")
        timed("environment", sys.executable, "-m", "venv", "../venv")
        timed("install", bin_folder / "pip", "install", "-q", "../clone[page]")
        write_house(folder)
        timed("key", bin_folder / "sudare", "key", "new", "key.pem", "--public", "public.pem")
        began = time.monotonic()
        serving = (bin_folder / "sudare", "page", "--port", "0", "--json")
        with subprocess.Popen(serving, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = json.loads(server.stdout.readline())["address"]
                with kit.chromium() as browser:
                    clicks = clicks_to_a_release(kit.opened(browser, address), folder / "received.sudare")
            finally:
                server.send_signal(signal.SIGINT)
        seconds["page"] = round(time.monotonic() - began, 1)
        told = timed("verify", bin_folder / "sudare", "inspect", "received.sudare", "--trusted", "public.pem", "--json")
        assert json.loads(told)["signature"] == "trusted"
    print(json.dumps({"seconds": seconds, "seconds_in_all": round(sum(seconds.values()), 1), "clicks": clicks}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(HERE))

"""Every attack, run at an older commit and here: `python -m tests.adversary.before_and_after [--base COMMIT]`.

An attack test tells something only if it fails where the attack works. The table has a row for each test of this folder: how it ended
with the sources of the older commit, and how with these. The command ends with 1 unless all fail there and pass here.

The older commit has other module names. What runs there are the same attacks as they were written before modules were renamed.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
DEFAULT_BASE = "8519a7a"
BEFORE_RENAMING = "3621ff7"


class Outcome(NamedTuple):
    """How one test ended, and the first line of what it said when it did not pass."""

    verdict: str
    message: str = ""


def outcomes(report: str) -> dict[str, Outcome]:
    """Test name to outcome, from a JUnit report."""
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '')}"
        verdict = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "passed")
        said = case.find(verdict)
        message = "" if said is None else (said.get("message") or "").partition("\n")[0]
        found[name] = Outcome("failed" if verdict == "failure" else verdict, message)
    return found


def run_against(source: Path, root: Path, arguments: list[str]) -> dict[str, Outcome]:
    """Outcomes of the attacks of the checkout at `root` with the package at `source`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        folder_of_attacks = str(root / FOLDER.relative_to(ROOT))
        options = ["-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
        command = [sys.executable, "-m", "pytest", *options, folder_of_attacks]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        subprocess.run([*command, *arguments], cwd=root, env=environment, check=False, stdout=subprocess.DEVNULL)
        return outcomes(report.read_text(encoding="utf-8"))


def extract(commit: str, folder: Path, *paths: str) -> Path:
    """The folder, with these paths of a commit (or all of it) unpacked into it."""
    archive = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def table(before: dict[str, Outcome], after: dict[str, Outcome]) -> str:
    """A row for each test."""
    rows = ["| attack | before | after |", "| --- | --- | --- |"]
    for name in sorted(after):
        old = before.get(name, Outcome("not collected"))
        said = f" ({old.message[:90]})" if old.message and old.verdict != "passed" else ""
        rows.append(f"| {name} | {old.verdict}{said} | {after[name].verdict} |".replace("\x1b", ""))
    return "\n".join(rows)


def main() -> int:
    """Print the table; 0 if every attack works before and none does now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default=DEFAULT_BASE, help="the commit at which the attacks work")
    arguments, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as package, tempfile.TemporaryDirectory() as attacks:
        source = extract(arguments.base, Path(package), "src") / "src"
        before = run_against(source, extract(BEFORE_RENAMING, Path(attacks)), others)
    after = run_against(ROOT / "src", ROOT, others)
    print(table(before, after))
    tells = [name for name in after if before.get(name, Outcome("not collected")).verdict == "failed"]
    holds = [name for name, outcome in after.items() if outcome.verdict == "passed"]
    print(f"\n{len(after)} attacks: {len(tells)} fail at {arguments.base}, {len(holds)} pass here.")
    return 0 if len(tells) == len(holds) == len(after) else 1


if __name__ == "__main__":
    sys.exit(main())

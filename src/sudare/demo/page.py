"""The demo: every scenario played with real noise in a fresh folder, and one page about all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path

from sudare import __version__
from sudare.demo import SCENARIOS
from sudare.demo.scenario_output import Play, ResultLine, Tell
from sudare.errors import InvalidParameter
from sudare.languages import Language
from sudare.report import Page, Part, page_html

MADE_BY = f"sudare demo, version {__version__}"
REPORT_NAME = "report.html"


@dataclass(frozen=True)
class Demo:
    """What a demo left behind."""

    report: Path
    folder: Path
    lines: Sequence[ResultLine]
    seconds: float


def run_demo(out: Path, tell: Tell, show: Callable[[ResultLine], None], language: Language = "en") -> Demo:
    """Play all scenarios and write `out`/report.html in the language; each line is shown as soon as its scenario is played."""
    start = time.monotonic()
    report = out / REPORT_NAME
    _refuse_foreign(report)
    folder = _fresh_folder(out)
    lines: list[ResultLine] = []
    parts: list[Part] = []
    notes: list[str] = []
    for name, module in SCENARIOS.items():
        tell(name)
        play: Play = import_module(module).play
        place = folder / name
        place.mkdir()
        scene = play(place, tell)
        for line in scene.lines:
            show(line)
        lines += scene.lines
        parts += scene.parts
        notes += scene.notes
    page = Page(
        title="What left the house, and what it cost",
        lead="A demonstration on made-up and public data. The protection is real: the random numbers below are different each time.",
        parts=parts,
        made_by=MADE_BY,
        notes=[*notes, f"The files of this run are in {folder}."],
    )
    report.write_text(page_html(page, language), "utf-8")
    return Demo(report, folder, lines, time.monotonic() - start)


def _refuse_foreign(report: Path) -> None:
    """Raise InvalidParameter unless the page is new or was written by an earlier demo: other files are never overwritten."""
    if not report.exists():
        return
    with report.open("rb") as file:
        if b'content="sudare demo' in file.read(4096):
            return
    raise InvalidParameter(f"'{report}' was not written by the demo.", "Choose another folder with --out.")


def _fresh_folder(out: Path) -> Path:
    """The first of run-1, run-2 … that is not there yet; earlier runs are left alone."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            folder = out / f"run-{number}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        reason = error.strerror
    raise InvalidParameter(f"The demo cannot write to '{out}' ({reason}).", "Choose another folder with --out.")

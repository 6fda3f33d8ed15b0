"""One part of a study again, in its default setting, in place of what docs/papers/NAME.json has of it.

    python -m benchmarks.rerun_study_part 003 detection
    python -m benchmarks.study_pages

It prints how far today's numbers are from the committed ones, the largest difference of a cell of each table and how many of the committed standard errors that is, which captions
and texts below tables differ, and how many seconds of the processor a part took. With --compare nothing is written,
and --repeats may ask for fewer repetitions: they are those of the committed run that come first, so that their means are expected within a few of the errors told.

Errata are those of the code; without a part they alone are written. Where SUDARE_DIFFPRIVLIB names no interpreter, numbers of diffprivlib, which do not depend on our code, are kept. For parts whose code has changed since the whole study was run: repetitions have seeds of their own, so the numbers are those that `sudare study` would find.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from itertools import chain
from typing import Any, Final

from joblib import parallel_config
from threadpoolctl import threadpool_limits

from benchmarks.study_pages import RESULTS
from sudare.papers import load_study
from sudare.papers.diffprivlib_models import NOT_RUN, VARIABLE
from sudare.papers.study import StudyResult, StudySettings, Tell, result_values

MODULES: Final = {
    "000": "sudare.papers.p000_weak_learners",
    "001": "sudare.papers.p001_gibbs_posteriors",
    "002": "sudare.papers.p002_networks",
    "003": "sudare.papers.p003_decentralised",
    "004": "sudare.papers.p004_reconstruction",
}

# How the last sentence of a table with diffprivlib begins.
_TOLD: Final = "diffprivlib 0.6.6: "


def with_part(committed: Mapping[str, Any], part: Mapping[str, Any], add: bool = False) -> dict[str, Any]:
    """The committed result with the errata of a part, and its tables and figures in their old places.

    What has no place comes last where `add` allows it. Raise LookupError where it does not.
    """
    replaced = {**committed, "errata": part["errata"]}
    old_tables = {each["title"]: each for each in committed["tables"]}
    kept = [with_diffprivlib_kept(old_tables.get(table["title"], table), table) for table in part["tables"]]
    for kind, name, found in (("tables", "title", kept), ("figures", "label", part["figures"])):
        new = {each[name]: each for each in found}
        places = {each[name] for each in committed[kind]}
        missing = [title for title in new if title not in places]
        if missing and not add:
            raise LookupError(f"The committed result has no {missing}: run the whole study, or this part with --add.")
        replaced[kind] = [new.get(each[name], each) for each in committed[kind]] + [new[title] for title in missing]
    return replaced


def with_diffprivlib_kept(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table that was made without diffprivlib, with the committed numbers of it and what the committed table says of them.

    The same table where it was made with diffprivlib, or nothing is committed of it. Raise LookupError where the two have other columns or rows.
    """
    told = old.get("says", "").partition(_TOLD)
    if NOT_RUN not in new.get("says", "") or not told[1]:
        return new
    if old["columns"] != new["columns"] or [row[0] for row in old["rows"]] != [row[0] for row in new["rows"]]:
        raise LookupError(f"{new['title']} has other columns or rows than the committed one: run it with {VARIABLE}.")
    theirs = [index for index, name in enumerate(new["columns"]) if "diffprivlib" in name]
    rows = [
        [old_row[index] if index in theirs else cell for index, cell in enumerate(row)]
        for old_row, row in zip(old["rows"], new["rows"], strict=True)
    ]
    return {**new, "rows": rows, "says": new["says"].replace(NOT_RUN, told[1] + told[2])}


def differences(committed: Mapping[str, Any], part: Mapping[str, Any]) -> list[str]:
    """A line for each table of a part: how much it differs from the committed one; and one for each figure whose caption differs."""
    old_tables = {each["title"]: each for each in committed["tables"]}
    old_figures = {each["label"]: each for each in committed["figures"]}
    tables = [f"{each['title']}: {_difference(old_tables.get(each['title']), each)}" for each in part["tables"]]
    others = [each["label"] for each in part["figures"] if old_figures.get(each["label"]) != each]
    return tables + [f"{label}: the caption differs" for label in others]


def _difference(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> str:
    if old is None:
        return "not in the committed result"
    old_rows, rows = with_diffprivlib_left_out(old, new)["rows"], new["rows"]
    if [len(row) for row in old_rows] != [len(row) for row in rows]:
        return "other rows or columns"
    farthest, errors, others = 0.0, 0.0, 0
    for before, now in zip(chain(*old_rows), chain(*rows), strict=True):
        first, second = _number(before), _number(now)
        if first is None or second is None:
            others += before != now
            continue
        distance = abs(first - second)
        farthest = max(farthest, distance)
        if isinstance(before, dict) and before["standard_error"]:
            errors = max(errors, distance / (before["standard_error"] * _spread(before, now)))
    text = "" if with_diffprivlib_kept(old, new)["says"] == old["says"] else "; the text differs"
    return f"numbers differ by {farthest:.2g} at most, {errors:.2g} standard errors; {others} other cells differ{text}"


def _spread(before: Mapping[str, Any], now: Any) -> float:
    """The standard deviation of a mean of fewer repetitions around that of all, of which they are a part, in standard errors of the latter; 1 where they are as many."""
    fewer = now["repeats"] if isinstance(now, dict) else before["repeats"]
    return math.sqrt(before["repeats"] / fewer - 1) if fewer < before["repeats"] else 1.0


def with_diffprivlib_left_out(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """The committed table as it would be without diffprivlib, where the new one was made so."""
    if NOT_RUN not in new.get("says", "") or old["columns"] != new["columns"]:
        return old
    theirs = ["diffprivlib" in name for name in old["columns"]]
    rows = [[None if out else cell for out, cell in zip(theirs, row, strict=True)] for row in old["rows"]]
    return {**old, "rows": rows}


def _number(cell: Any) -> float | None:
    if isinstance(cell, dict):
        return float(cell["value"])
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else None


def main() -> None:
    """Run a part and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rerun_study_part", description=__doc__)
    parser.add_argument("study", choices=MODULES)
    parser.add_argument("part", nargs="*")
    parser.add_argument("--compare", action="store_true", help="write nothing, and say how much the numbers differ")
    parser.add_argument("--add", action="store_true", help="put tables and figures that are new behind the old ones")
    parser.add_argument("--repeats", type=int, help="fewer repetitions than committed; with --compare only")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the repetitions")
    asked = parser.parse_args()
    if asked.repeats is not None and not asked.compare:
        parser.error("--repeats is for --compare: what is committed has all repetitions.")
    study, parts, path = (
        load_study(asked.study),
        import_module(MODULES[asked.study]).PARTS,
        RESULTS / f"{asked.study}.json",
    )
    settings = study.settings(asked.repeats, quick=False)
    for name, compute in {"errata": _nothing, **{name: parts[name] for name in asked.part}}.items():
        begun = _processor_seconds()
        with parallel_config(n_jobs=asked.jobs), threadpool_limits(1):
            found = compute(_tell, settings)
        seconds = _processor_seconds() - begun
        values, committed = result_values(asked.study, study, found, settings), json.loads(path.read_text("utf-8"))
        for line in differences(committed, values):
            print(line)
        if not asked.compare:
            written = with_part(committed, values, asked.add)
            path.write_text(json.dumps(written, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
        if not asked.compare or found.tables:
            print(f"{'compared' if asked.compare else 'wrote'} {name} of {path.name}: {seconds:.0f} s")


def _processor_seconds() -> float:
    """Of this process, and of those that it has waited for; those of --jobs are not among them."""
    return sum(os.times()[:4])


def _nothing(tell: Tell, settings: StudySettings) -> StudyResult:
    return StudyResult([], [])


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

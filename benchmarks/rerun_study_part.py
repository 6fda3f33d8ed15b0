"""One part of a study again, in its default setting, in place of what docs/papers/NAME.json has of it.

    python -m benchmarks.rerun_study_part 003 detection
    python -m benchmarks.study_pages

With --compare nothing is written: it prints how far today's numbers are from the committed ones, the largest difference of a cell of each table and how many of the committed standard errors that is.

Errata are those of the code; without a part they alone are written. Where SUDARE_DIFFPRIVLIB names no interpreter, numbers of diffprivlib, which do not depend on our code, are kept. For parts whose code has changed since the whole study was run: repetitions have seeds of their own, so the numbers are those that `sudare study` would find.
"""

from __future__ import annotations

import argparse
import json
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


def with_part(committed: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The committed result with the errata of a part, and its tables and figures in their old places. Raise LookupError where one has no place."""
    replaced = {**committed, "errata": part["errata"]}
    old_tables = {each["title"]: each for each in committed["tables"]}
    kept = [with_diffprivlib_kept(old_tables.get(table["title"], table), table) for table in part["tables"]]
    for kind, name, found in (("tables", "title", kept), ("figures", "label", part["figures"])):
        new = {each[name]: each for each in found}
        if missing := set(new) - {each[name] for each in committed[kind]}:
            raise LookupError(f"The committed result has no {sorted(missing)}: run the whole study.")
        replaced[kind] = [new.get(each[name], each) for each in committed[kind]]
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
    """A line for each table of a part: how much it differs from the committed one."""
    old_tables = {each["title"]: each for each in committed["tables"]}
    return [f"{each['title']}: {_difference(old_tables.get(each['title']), each)}" for each in part["tables"]]


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
            errors = max(errors, distance / before["standard_error"])
    return f"numbers differ by {farthest:.2g} at most, {errors:.2g} standard errors; {others} other cells differ"


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
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the repetitions")
    asked = parser.parse_args()
    study, parts, path = (
        load_study(asked.study),
        import_module(MODULES[asked.study]).PARTS,
        RESULTS / f"{asked.study}.json",
    )
    settings = study.settings(None, quick=False)
    for name, compute in {"errata": _nothing, **{name: parts[name] for name in asked.part}}.items():
        with parallel_config(n_jobs=asked.jobs), threadpool_limits(1):
            found = compute(_tell, settings)
        if asked.compare:
            compared = result_values(asked.study, study, found, settings)
            print(*differences(json.loads(path.read_text("utf-8")), compared), sep="\n", end="\n" * bool(found.tables))
            continue
        written = with_part(json.loads(path.read_text("utf-8")), result_values(asked.study, study, found, settings))
        path.write_text(json.dumps(written, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
        print(f"wrote {name} of {path.name}")


def _nothing(tell: Tell, settings: StudySettings) -> StudyResult:
    return StudyResult([], [])


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""One part of a study again, in its default setting, in place of what docs/papers/NAME.json has of it.

    python -m benchmarks.rerun_study_part 003 detection
    python -m benchmarks.study_pages

Errata are those of the code; without a part they alone are written. For parts whose code has changed since the whole study was run: repetitions have seeds of their own, so the numbers are those that `sudare study` would find.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from joblib import parallel_config
from threadpoolctl import threadpool_limits

from benchmarks.study_pages import RESULTS
from sudare.papers import load_study
from sudare.papers.study import StudyResult, StudySettings, Tell, result_values

MODULES: Final = {
    "000": "sudare.papers.p000_weak_learners",
    "001": "sudare.papers.p001_gibbs_posteriors",
    "002": "sudare.papers.p002_networks",
    "003": "sudare.papers.p003_decentralised",
    "004": "sudare.papers.p004_reconstruction",
}


def with_part(committed: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The committed result with the errata of a part, and its tables and figures in their old places. Raise LookupError where one has no place."""
    replaced = {**committed, "errata": part["errata"]}
    for kind, name in (("tables", "title"), ("figures", "label")):
        new = {each[name]: each for each in part[kind]}
        if missing := set(new) - {each[name] for each in committed[kind]}:
            raise LookupError(f"The committed result has no {sorted(missing)}: run the whole study.")
        replaced[kind] = [new.get(each[name], each) for each in committed[kind]]
    return replaced


def main() -> None:
    """Run a part and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rerun_study_part", description=__doc__)
    parser.add_argument("study", choices=MODULES)
    parser.add_argument("part", nargs="*")
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
        written = with_part(json.loads(path.read_text("utf-8")), result_values(asked.study, study, found, settings))
        path.write_text(json.dumps(written, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
        print(f"wrote {name} of {path.name}")


def _nothing(tell: Tell, settings: StudySettings) -> StudyResult:
    return StudyResult([], [])


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

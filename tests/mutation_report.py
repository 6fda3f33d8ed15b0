"""The table of mutation scores from what mutmut left behind: `python -m tests.mutation_report [FOLDER …] --write PAGE [--run NAME]`.

A folder is one that mutmut ran in; results of several runs (module by module, say) are put together. A mutant counts as
caught when a test failed or ran into mutmut's time limit; one that was not run counts as not caught.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SURVIVED = 0
RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "mutation.json"
MARKER = "<!-- made by python -m tests.mutation_report -->"


def exit_codes(folders: Iterable[Path]) -> dict[str, dict[str, int | None]]:
    """Module to mutant to exit code; a run that got to a mutant wins over one that did not."""
    codes: dict[str, dict[str, int | None]] = defaultdict(dict)
    for folder in folders:
        for path in sorted(folder.glob("mutants/src/sudare/privacy/*.py.meta")):
            found = json.loads(path.read_text())["exit_code_by_key"]
            module = codes[path.name.removesuffix(".py.meta")]
            module.update({name: code for name, code in found.items() if code is not None or name not in module})
    return {name: found for name, found in codes.items() if found}


def counted(codes: dict[str, dict[str, int | None]]) -> dict[str, dict[str, int]]:
    """How many mutants a module has, how many of them survived, and how many were not run."""
    return {
        module: {
            "mutants": len(found),
            "survived": sum(code == SURVIVED for code in found.values()),
            "not run": sum(code is None for code in found.values()),
        }
        for module, found in sorted(codes.items())
    }


def table(counts: dict[str, dict[str, int]]) -> str:
    """A row for every module and one for all."""
    rows = ["| module | mutants | caught | survived | not run | score |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    totals = [0, 0, 0]
    for module, found in counts.items():
        parts = found["mutants"], found["survived"], found["not run"]
        rows.append(_row(module, *parts))
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return "\n".join([*rows, _row("**all**", *totals)])


def _row(name: str, mutants: int, survived: int, idle: int) -> str:
    caught = mutants - survived - idle
    return f"| {name} | {mutants:,} | {caught:,} | {survived} | {idle} | {100 * caught / mutants:.1f} % |"


def main() -> None:
    """Print the table; keep its counts, and put it into a page behind its marker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path()])
    parser.add_argument("--write", type=Path, help="a page whose text after the marker is replaced")
    parser.add_argument("--run", default="whole run", help="the run of benchmarks/mutation.json that it replaces")
    arguments = parser.parse_args()
    counts = counted(exit_codes(arguments.folders))
    text = table(counts)
    print(text)
    if arguments.write is not None:
        kept = json.loads(RESULTS.read_text("utf-8")) | {arguments.run: counts}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        before = arguments.write.read_text().partition(MARKER)[0]
        arguments.write.write_text(f"{before}{MARKER}\n\n{text}\n")


if __name__ == "__main__":
    main()

"""The table of mutation scores from what mutmut left behind: `python -m tests.mutation_report [FOLDER …] --write PAGE`.

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


def table(codes: dict[str, dict[str, int | None]]) -> str:
    """A row for every module and one for all."""
    rows = ["| module | mutants | caught | survived | not run | score |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    totals = [0, 0, 0]
    for module, found in sorted(codes.items()):
        survived = sum(code == SURVIVED for code in found.values())
        idle = sum(code is None for code in found.values())
        rows.append(_row(module, len(found), survived, idle))
        totals = [total + part for total, part in zip(totals, (len(found), survived, idle), strict=True)]
    return "\n".join([*rows, _row("**all**", *totals)])


def _row(name: str, mutants: int, survived: int, idle: int) -> str:
    caught = mutants - survived - idle
    return f"| {name} | {mutants:,} | {caught:,} | {survived} | {idle} | {100 * caught / mutants:.1f} % |"


def main() -> None:
    """Print the table, and put it into a page behind its marker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path()])
    parser.add_argument("--write", type=Path, help="a page whose text after the marker is replaced")
    arguments = parser.parse_args()
    text = table(exit_codes(arguments.folders))
    print(text)
    if arguments.write is not None:
        before = arguments.write.read_text().partition(MARKER)[0]
        arguments.write.write_text(f"{before}{MARKER}\n\n{text}\n")


if __name__ == "__main__":
    main()

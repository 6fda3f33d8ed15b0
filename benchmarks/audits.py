"""All audits that have a name, at ε = 0.1, 1 and 5: the file that dossiers quote, and the table of docs/audits.md.

    python -m benchmarks.audits [--fits 600]

`--fits` is how many linear models are fitted to each data set, which takes nearly all of the time; without it, and for all else, as many outputs are drawn as
each audit says.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from benchmarks.page_parts import write_part
from benchmarks.peers import ROOT
from benchmarks.study_pages import DOCS, markdown_table
from sudare.audit import linear_audits
from sudare.audit.registry import audit_names, run_audit
from sudare.dossier.audit_evidence import PAIRS, audit_results, measured_texts

RESULTS: Final = ROOT / "src" / "sudare" / "dossier" / "audit_results.json"
PAGE: Final = DOCS / "audits.md"
PART: Final = "audits"
KEPT: Final = ("epsilon", "delta", "computed", "sampled", "lowest_bits", "holds")


def kept(report: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a report: the number of outputs, and claimed and measured at each ε."""
    comparisons = [{key: each[key] for key in KEPT} for each in report["comparisons"]]
    return {"samples": report["samples"], "comparisons": comparisons}


def table() -> str:
    """One row for each audit of the results."""
    rows = [
        [f"`{name}`", PAIRS[name], *measured_texts(name), f"{found['samples']:,}"]
        for name, found in audit_results().items()
    ]
    heads = ["name", "what differs", "law ÷ claim at ε = 0.1, 1, 5", "sampled at ε = 0.1, 1, 5", "outputs"]
    return markdown_table(heads, rows)


def write_page(page: Path = PAGE) -> None:
    """Put the table into the page."""
    write_part(page, PART, table())


def main() -> None:
    """Run all audits, write file and page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audits", description=__doc__)
    parser.add_argument("--fits", type=int, help="fits of linear models to each data set")
    asked = parser.parse_args()
    found = {}
    for name in audit_names():
        report = run_audit(name, samples=asked.fits if name in linear_audits.AUDITS else None)
        found[name] = kept(report.to_dict())
        print(name, report.holds, flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    audit_results.cache_clear()
    write_page()


if __name__ == "__main__":
    main()

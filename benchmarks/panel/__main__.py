"""`python -m benchmarks.panel [--tuning] [--only CLAIM …]`: the judging half, into panel.json, with how often each claim was judged; and docs/panel.md."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.panel import linear_claims, peer_claims, reconstruction_bands, reconstruction_claims
from benchmarks.panel.tuning_and_judging import Half

RESULTS: Final = Path(__file__).resolve().parent.parent / "panel.json"
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "panel.md"
BEGIN, END = "<!-- panel -->", "<!-- end of panel -->"


@dataclass(frozen=True)
class Claim:
    """How a claim is measured on a half, and what is told of it."""

    title: str
    measure: Callable[[Half], list[dict[str, Any]]]
    summary: Callable[[list[dict[str, Any]]], dict[str, Any]]


CLAIMS: Final = {
    "classification": Claim(
        "Logistic regression: probabilities, and `auto` against single methods",
        linear_claims.classification,
        linear_claims.summary_of_classification,
    ),
    "encodings": Claim(
        "Logistic regression: encodings, method `auto`", linear_claims.encodings, linear_claims.summary_of_encodings
    ),
    "ridge": Claim("Ridge regression", linear_claims.ridge, linear_claims.summary_of_ridge),
    "peers": Claim(
        "Logistic regression: `auto` against diffprivlib and DP-EBM", peer_claims.peers, peer_claims.summary_of_peers
    ),
    "reconstruction": Claim(
        "Reconstruction of number columns: `auto` against single methods",
        reconstruction_claims.reconstruction,
        reconstruction_claims.summary_of_reconstruction,
    ),
    "bands": Claim(
        "Reconstruction of number columns: 90 % bands of `auto`",
        reconstruction_bands.bands,
        reconstruction_bands.summary_of_bands,
    ),
}


def table(results: dict[str, Any]) -> str:
    """What panel.json tells, as the part of the page that is written."""
    lines = []
    for name, found in results.items():
        lines += [f"### {CLAIMS[name].title}", "", "| claim on the judging half | found |", "| --- | --- |"]
        lines += [f"| {word} | {value} |" for word, value in found["summary"].items()]
        if name == "classification":
            lines += ["", *linear_claims.by_method(found["rows"])]
        if name == "peers":
            lines += ["", *peer_claims.beside_auto(found["rows"], results["classification"]["rows"])]
        if name == "reconstruction":
            lines += ["", *reconstruction_claims.by_records(found["rows"])]
        if name == "bands":
            lines += ["", *reconstruction_bands.by_noise(found["rows"])]
        times = "once" if found["judged"] == 1 else f"{found['judged']} times"
        lines += ["", f"The judging half was run {times} for this.", ""]
    return "\n".join(lines).strip()


def with_table(page: str, results: dict[str, Any]) -> str:
    """The page with its written part made anew."""
    before, after = page.split(BEGIN, maxsplit=1)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print what is told, and on the judging half count and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.panel", description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="the tuning half; nothing is counted or written")
    parser.add_argument("--only", nargs="+", choices=CLAIMS, default=list(CLAIMS), help="these claims only")
    asked = parser.parse_args(arguments)
    for name in asked.only:
        rows = linear_claims.quietly(CLAIMS[name].measure, "tuning" if asked.tuning else "judging")
        summary = CLAIMS[name].summary(rows)
        print(json.dumps({name: summary}, indent=2, ensure_ascii=False), flush=True)
        if not asked.tuning:
            # Read only now: another run may have written meanwhile.
            results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            judged = results.get(name, {}).get("judged", 0) + 1
            results[name] = {"judged": judged, "summary": summary, "rows": rows}
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
            PAGE.write_text(with_table(PAGE.read_text(), results))


if __name__ == "__main__":
    main()

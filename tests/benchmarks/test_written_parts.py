"""Every part of a page that a command writes is what it would write today from its committed file; others are looked at beside the tests of their commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    cluster,
    consortium_scale,
    database_scans,
    perturbing_at_scale,
    quantile_margins,
    source_map,
    synthesis,
    table,
    table_scans,
)
from benchmarks.measure import Result
from benchmarks.page_numbers.pages import pages
from benchmarks.peers import ROOT

MARKED = re.compile(r"<!-- (?!end of )([^:\n]*?)(?:: ([^\n]*?))? -->\n(.*?)<!-- end of [^\n]*? -->", re.DOTALL)
# Who looks at the others.
ELSEWHERE = {
    "attacks": "tests/benchmarks/test_attack_tests.py",
    "audits": "tests/dossier/test_audit_evidence.py",
    "categories": "tests/usability/test_paper_pages.py",
    "cross tables": "tests/benchmarks/test_cross_table_claims.py",
    "errata": "tests/usability/test_paper_pages.py",
    "found bounds": "tests/benchmarks/test_found_bounds.py",
    "grouped statistics": "tests/benchmarks/test_grouped_statistics.py",
    "images": "tests/usability/test_paper_pages.py",
    "independence": "tests/benchmarks/test_cross_table_claims.py",
    "panel": "tests/benchmarks/test_panel.py",
    "parts of the stack": "tests/benchmarks/test_density_stack_parts.py",
    "persons": "tests/benchmarks/test_persons.py",
    "pieces": "tests/benchmarks/test_scale.py",
    "plants that no rule was chosen on": "tests/benchmarks/test_plants.py",
    "proofs": "tests/usability/test_paper_pages.py",
    "repeated runs": "tests/benchmarks/test_repeated_runs.py",
    "secure sums": "tests/benchmarks/test_secure_sums.py",
    "steps on a GPU": "tests/usability/test_paper_pages.py",
    "steps with convolutions on a GPU": "tests/usability/test_paper_pages.py",
    "study": "tests/usability/test_paper_pages.py",
    "ten thousand members": "tests/benchmarks/test_scale.py",
}


def read(path: Path) -> Any:
    """A committed result."""
    return json.loads(path.read_text("utf-8"))


WRITTEN: dict[str, Callable[[], str]] = {
    "cluster": lambda: cluster.table([cluster.Cost(**each) for each in read(cluster.RESULTS)]),
    "database scans": lambda: table_scans.markdown(
        [table_scans.Outcome(**each) for each in read(database_scans.RESULTS)]
    ),
    "members that start and wait": lambda: consortium_scale.table(read(consortium_scale.FILE)),
    "perturbing at scale": lambda: perturbing_at_scale.markdown(
        [perturbing_at_scale.Outcome(**each) for each in read(perturbing_at_scale.RESULTS)]
    ),
    "quantile gaps": lambda: quantile_margins.markdown(read(quantile_margins.GAP_RESULTS)),
    "quantile margins": lambda: quantile_margins.markdown(read(quantile_margins.RESULTS)),
    "results": lambda: table.markdown([Result(**each) for each in read(table.RESULTS)]),
    "source map": lambda: source_map.table(*source_map.maps_read(read(source_map.RESULTS))),
    "synthesis": lambda: synthesis.table(read(synthesis.RESULTS)),
    "table scans": lambda: table_scans.markdown([table_scans.Outcome(**each) for each in read(table_scans.RESULTS)]),
}


def parts() -> dict[str, list[str]]:
    """By the name of a part what stands there, on all pages."""
    found: dict[str, list[str]] = {}
    for path in pages():
        for name, _, text in MARKED.findall(path.read_text("utf-8")):
            kind = next((word for word in ("study", "errata") if name.startswith(f"{word} ")), name)
            found.setdefault(kind, []).append(text.strip())
    return found


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_part_is_that_of_its_file(name: str) -> None:
    assert parts()[name] == [WRITTEN[name]().strip()]


def test_every_written_part_is_held_by_a_test() -> None:
    assert set(parts()) == set(WRITTEN) | set(ELSEWHERE)
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())

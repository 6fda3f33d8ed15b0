"""The evidence is what docs/audits.md prints."""

from pathlib import Path

from sudare.audit.registry import audit_names
from sudare.dossier.audit_evidence import MEASURED, audit_evidence
from sudare.dossier.products import PRODUCTS
from tests.dossier.made_up_facts import PROMISES, made_up_facts

PRINTED = (Path(__file__).parents[2] / "docs" / "audits.md").read_text("utf-8")


def test_measured_values_are_those_of_the_page() -> None:
    lines = [line for line in PRINTED.splitlines() if line.startswith("|")]
    for name, measured in MEASURED.items():
        line = next(line for line in lines if f"`{name}`" in line)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1:] == [measured.pair, measured.law_over_claim, measured.sampled], name
    assert set(MEASURED) <= set(audit_names())


def test_every_audit_of_a_product_has_a_measured_value() -> None:
    for learner in PRODUCTS:
        evidence = audit_evidence(made_up_facts(learner, PROMISES[0]))
        assert all(audit["measured"] for audit in evidence["audits"])
        assert evidence["tests"]
        assert bool(evidence["audits"]) == (evidence["audits_missing"] is None)

"""The evidence is what the committed audits found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import audits
from sudare.audit.claimed_and_measured_epsilon import NamedAudit
from sudare.audit.registry import _AUDITS, EPSILONS, audit_names
from sudare.dossier.audit_evidence import PAIRS, audit_evidence, audit_results, measured_texts
from sudare.dossier.release_product_kinds import PRODUCTS
from tests.dossier.made_up_facts import PROMISES, made_up_facts


def test_every_audit_has_a_committed_result_that_holds_and_a_pair_in_words() -> None:
    assert set(audit_results()) == set(audit_names()) == set(PAIRS)
    for name, found in audit_results().items():
        assert [each["epsilon"] for each in found["comparisons"]] == list(EPSILONS), name
        assert all(each["holds"] for each in found["comparisons"]), name


@pytest.mark.parametrize("name", audit_names())
def test_the_committed_law_is_the_one_of_the_code(name: str) -> None:
    audit: NamedAudit = _AUDITS[name]
    committed = audit_results()[name]["comparisons"][1]
    computed = audit.at(committed["epsilon"]).computed
    assert computed == (None if committed["computed"] is None else pytest.approx(committed["computed"], rel=1e-6))


def test_the_page_has_the_committed_results(tmp_path: Path) -> None:
    page = tmp_path / "audits.md"
    page.write_text(audits.PAGE.read_text("utf-8"), "utf-8")
    audits.write_page(page)
    assert page.read_text("utf-8") == audits.PAGE.read_text("utf-8")


def test_shares_of_the_claim_and_samples_are_told_at_every_epsilon() -> None:
    law, sampled = measured_texts("laplace")
    assert law == "1, 1, 1"
    assert len(sampled.split(", ")) == len(EPSILONS)
    assert measured_texts("PrivateLogisticRegression-descent")[0] == "not known"


def test_every_audit_of_a_product_has_a_measured_value() -> None:
    for learner in PRODUCTS:
        evidence = audit_evidence(made_up_facts(learner, PROMISES[0]))
        assert all(audit["measured"] for audit in evidence["audits"])
        assert evidence["tests"]
        assert bool(evidence["audits"]) == (evidence["audits_missing"] is None)

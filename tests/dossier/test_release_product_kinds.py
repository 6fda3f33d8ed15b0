"""Every learner that may be released is known, and what is named of it is there."""

from pathlib import Path

from sudare.audit.registry import audit_names
from sudare.dossier.release_product_kinds import PRODUCTS, audits_of, proofs_of
from sudare.privacy.learner_registry import LEARNERS

ROOT = Path(__file__).parents[2]


def test_every_learner_is_a_product() -> None:
    assert set(PRODUCTS) == set(LEARNERS)


def test_proofs_tests_and_audits_exist() -> None:
    for learner, product in PRODUCTS.items():
        for name in (*product.proofs, *proofs_of(learner, {"delta": 0.0})):
            assert (ROOT / "proofs" / f"{name}.md").is_file(), name
        for name in product.tests:
            assert (ROOT / "tests" / "guarantees" / f"{name}.py").is_file(), name
        assert set(product.audits) <= set(audit_names())


def test_the_proof_is_that_of_the_method() -> None:
    assert proofs_of("PrivateRidge", {"method": "descent", "person": {"most_rows": 2}}) == (
        "descent",
        "sufficient_statistics",
        "persons",
        "accounting",
    )
    assert proofs_of("PrivateRidge", {"method": "statistics"}) == ("sufficient_statistics", "accounting")
    both = ("sufficient_statistics", "score_calibration", "accounting")
    assert proofs_of("PrivateLogisticRegression", {"method": "statistics"}) == both
    assert proofs_of("PrivateMean", {"noise": "infinity-norm"})[:2] == ("statistics", "infinity_norm")
    assert proofs_of("PrivateHistogram", {"delta": 1e-6})[:2] == ("statistics", "gaussian")
    assert "key_selection" in proofs_of("GroupedTable", {"delta": 0.0, "found": {"ward": 3}})


def test_the_audit_is_that_of_the_method() -> None:
    assert audits_of("PrivateRidge", {"method": "descent"}) == ("PrivateRidge-descent",)
    assert audits_of("PrivateSynthesizer", {"engine": "microaggregation"}) == ("PrivateSynthesizer-microaggregation",)
    assert len(audits_of("RecordPerturbation", {})) == 5
